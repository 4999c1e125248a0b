//! The names in a model's graph.

use crate::{check::GradientNames, ident::Names, import};
use onnxc_proto::{
    GraphProto, NodeProto, TensorProto, ValueInfoProto, type_proto::Value::TensorType,
};
use std::collections::{BTreeSet, HashMap, HashSet};

/// Returns all names of values, in subgraphs as well.
pub fn taken(graph: &GraphProto) -> Names {
    let mut names = Names::default();
    take(graph, &mut names);
    names
}

fn take(graph: &GraphProto, names: &mut Names) {
    let inputs = graph.input.iter().chain(&graph.value_info).map(ValueInfoProto::name);
    let constants = graph.initializer.iter().map(TensorProto::name);
    let sparse = graph.sparse_initializer.iter().filter_map(|tensor| tensor.values.as_ref());
    let made = graph.node.iter().flat_map(|node| &node.output).map(String::as_str);
    for name in inputs.chain(constants).chain(sparse.map(TensorProto::name)).chain(made) {
        names.unique(name.to_owned());
    }
    graph.node.iter().flat_map(graphs).for_each(|graph| take(graph, names));
}

/// Returns the subgraphs of a node.
pub fn graphs(node: &NodeProto) -> impl Iterator<Item = &GraphProto> {
    let attributes = node.attribute.iter();
    attributes.flat_map(|attribute| attribute.g.as_deref().into_iter().chain(&attribute.graphs))
}

/// Returns the subgraphs of a node for modification.
pub fn graphs_mut(node: &mut NodeProto) -> impl Iterator<Item = &mut GraphProto> {
    let attributes = node.attribute.iter_mut();
    attributes
        .flat_map(|attribute| attribute.g.as_deref_mut().into_iter().chain(&mut attribute.graphs))
}

/// Returns the names of dimensions in the inputs of a model.
pub fn sizes(graph: &GraphProto) -> BTreeSet<String> {
    let types = graph.input.iter().filter_map(|input| input.r#type.as_ref()?.value.as_ref());
    let shapes = types.filter_map(|ty| match ty {
        TensorType(tensor) => tensor.shape.as_ref(),
        _ => None,
    });
    let dims = shapes.flat_map(|shape| &shape.dim);
    dims.filter_map(import::dimension_name).map(str::to_owned).collect()
}

/// Returns the names that a value depends on, itself included, through nodes of the graph and of
/// `more`.
pub fn made_of(graph: &GraphProto, more: &GraphProto, value: &str) -> HashSet<String> {
    let makers = graph.node.iter().chain(&more.node);
    let makers: HashMap<&str, &NodeProto> = makers
        .flat_map(|node| node.output.iter().map(move |output| (output.as_str(), node)))
        .collect();
    let (mut open, mut seen) = (vec![value.to_owned()], HashSet::new());
    while let Some(name) = open.pop() {
        if seen.insert(name.clone())
            && let Some(node) = makers.get(name.as_str())
        {
            mentioned(node, &mut open);
        }
    }
    seen
}

/// Returns the inputs of the model, without initializers, that a value depends on through nodes of
/// the graph and of `more`.
pub fn inputs_of(graph: &GraphProto, more: &GraphProto, value: &str) -> Vec<String> {
    let seen = made_of(graph, more, value);
    let constants: HashSet<&str> = graph.initializer.iter().map(TensorProto::name).collect();
    let is_tensor = |input: &&ValueInfoProto| {
        let ty = input.r#type.as_ref().and_then(|ty| ty.value.as_ref());
        matches!(ty, Some(TensorType(_)))
    };
    let inputs = graph.input.iter().filter(is_tensor).map(ValueInfoProto::name);
    let inputs = inputs.filter(|name| seen.contains(*name) && !constants.contains(name));
    inputs.map(str::to_owned).collect()
}

/// Adds the names that a node reads, those of its subgraphs included.
pub fn mentioned(node: &NodeProto, found: &mut Vec<String>) {
    found.extend(node.input.iter().cloned());
    if let Some(names) = GradientNames::of(node) {
        let named = names.xs.iter().chain(&names.zs).chain([&names.y]);
        found.extend(named.map(|&name| name.to_owned()));
    }
    for graph in graphs(node) {
        graph.node.iter().for_each(|node| mentioned(node, found));
        found.extend(graph.output.iter().map(|output| output.name().to_owned()));
    }
}
