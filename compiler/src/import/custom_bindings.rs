//! Finds the nodes and types that concern custom operators.

use super::settings::Operator;
use crate::domain::canonical;
use onnxc_proto::{FunctionProto, GraphProto, ModelProto, NodeProto, TypeProto, ValueInfoProto};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Facts about a model that custom operators need before its nodes are read.
#[derive(Default)]
pub(super) struct Bindings<'p> {
    /// For each bound operator, the inputs and outputs that some node omits.
    pub left_out: HashMap<Operator, [Vec<bool>; 2]>,
    /// The types that the model declares, by the name of the value.
    pub types: BTreeMap<&'p str, &'p TypeProto>,
    /// The values whose type the user declared, and that were found in the model.
    pub used: BTreeSet<String>,
}

impl<'p> Bindings<'p> {
    /// Collects the facts about the operators in `bound`.
    pub fn of(model: &'p ModelProto, bound: &BTreeMap<Operator, String>) -> Bindings<'p> {
        let mut bindings = Bindings::default();
        if bound.is_empty() {
            return bindings;
        }
        for operator in bound.keys() {
            bindings.left_out.insert(operator.clone(), Default::default());
        }
        model.graph.iter().for_each(|graph| bindings.graph(graph));
        for FunctionProto { node, value_info, .. } in &model.functions {
            bindings.infos(value_info);
            node.iter().for_each(|node| bindings.node(node));
        }
        bindings
    }

    fn graph(&mut self, graph: &'p GraphProto) {
        self.infos(&graph.value_info);
        self.infos(&graph.output);
        graph.node.iter().for_each(|node| self.node(node));
    }

    fn infos(&mut self, infos: &'p [ValueInfoProto]) {
        let typed = infos.iter().filter_map(|info| Some((info.name(), info.r#type.as_ref()?)));
        self.types.extend(typed);
    }

    fn node(&mut self, node: &'p NodeProto) {
        if let Some([inputs, outputs]) = self.left_out.get_mut(&operator(node)) {
            note_left_out(inputs, &node.input);
            note_left_out(outputs, &node.output);
        }
        for attribute in &node.attribute {
            attribute.g.iter().for_each(|graph| self.graph(graph));
            attribute.graphs.iter().for_each(|graph| self.graph(graph));
        }
    }
}

/// Records which operands a node omits, in addition to those that earlier nodes omit.
fn note_left_out(so_far: &mut Vec<bool>, names: &[String]) {
    // An operand that only some nodes list is omitted by the others. The first node has none to
    // compare.
    let is_first = so_far.is_empty();
    let count = so_far.len().max(names.len());
    so_far.resize(count, !is_first);
    for (i, left_out) in so_far.iter_mut().enumerate() {
        *left_out |= names.get(i).is_none_or(String::is_empty);
    }
}

/// The domain and name of a node's operator.
pub(super) fn operator(node: &NodeProto) -> Operator {
    (canonical(node.domain()).to_owned(), node.op_type().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_input_that_one_node_omits_is_optional() {
        let mut so_far = Vec::new();
        let names = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
        note_left_out(&mut so_far, &names(&["a", "b"]));
        assert_eq!(so_far, [false, false]);
        note_left_out(&mut so_far, &names(&["a", "", "c"]));
        assert_eq!(so_far, [false, true, true]);
        note_left_out(&mut so_far, &[]);
        assert_eq!(so_far, [true, true, true]);
    }
}
