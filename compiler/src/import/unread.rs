//! Finds the outputs of nodes that nothing in a model reads.

use crate::check::GradientNames;
use onnxc_proto::{GraphProto, ModelProto, NodeProto};
use std::{cell::OnceCell, collections::HashSet};

/// The names that a model reads anywhere. A name that is read in one graph counts in all of them.
#[derive(Default)]
pub(super) struct ReadNames<'p> {
    /// The model. Without one, all outputs count as read.
    model: Option<&'p ModelProto>,
    names: OnceCell<HashSet<&'p str>>,
}

impl<'p> ReadNames<'p> {
    /// The names that a model reads. If it has training information, all outputs count as read.
    pub fn of(model: &'p ModelProto) -> ReadNames<'p> {
        let model = Some(model).filter(|model| model.training_info.is_empty());
        ReadNames { model, names: OnceCell::new() }
    }

    /// The number of outputs at the end of a node's list that nothing reads.
    pub fn count_unread(&self, node: &NodeProto) -> usize {
        let Some(model) = self.model.filter(|_| node.output.len() > 1) else { return 0 };
        let names = self.names.get_or_init(|| names(model));
        let is_unread = |name: &&String| name.is_empty() || !names.contains(name.as_str());
        node.output.iter().rev().take_while(is_unread).count()
    }
}

/// Returns the names that the graphs and functions of a model read.
pub(super) fn names(model: &ModelProto) -> HashSet<&str> {
    let mut names = HashSet::new();
    model.graph.iter().for_each(|graph| add_graph(graph, &mut names));
    for function in &model.functions {
        names.extend(function.output.iter().map(String::as_str));
        function.node.iter().for_each(|node| add_node(node, &mut names));
    }
    names
}

fn add_graph<'p>(graph: &'p GraphProto, names: &mut HashSet<&'p str>) {
    names.extend(graph.output.iter().map(|output| output.name()));
    graph.node.iter().for_each(|node| add_node(node, names));
}

fn add_node<'p>(node: &'p NodeProto, names: &mut HashSet<&'p str>) {
    names.extend(node.input.iter().map(String::as_str));
    if let Some(GradientNames { xs, zs, y }) = GradientNames::of(node) {
        names.extend(xs.into_iter().chain(zs).chain([y]));
    }
    let graphs = node.attribute.iter().flat_map(|a| a.g.as_deref().into_iter().chain(&a.graphs));
    graphs.for_each(|graph| add_graph(graph, names));
}
