//! The nodes and types of a model that concern operators bound to functions of the user's own.

use super::settings::Operator;
use crate::domain::canonical;
use onnxc_proto::{FunctionProto, GraphProto, ModelProto, NodeProto, TypeProto, ValueInfoProto};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// What is gathered of a model before its nodes are read, for operators that are bound.
#[derive(Default)]
pub(super) struct Bindings<'p> {
    /// For each bound operator: which inputs and outputs some node leaves out.
    pub left_out: HashMap<Operator, [Vec<bool>; 2]>,
    /// The types that the model says of values, by name.
    pub types: BTreeMap<&'p str, &'p TypeProto>,
    /// The values of which the user says the type, and that were asked for.
    pub used: BTreeSet<String>,
}

impl<'p> Bindings<'p> {
    /// Gathers what the model says of the operators that `bound` names.
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

/// Notes which operands a node leaves out, beside what those before it did.
fn note_left_out(so_far: &mut Vec<bool>, names: &[String]) {
    // What one node has and another one not is left out there; a first node leaves nothing out.
    let is_first = so_far.is_empty();
    let count = so_far.len().max(names.len());
    so_far.resize(count, !is_first);
    for (i, left_out) in so_far.iter_mut().enumerate() {
        *left_out |= names.get(i).is_none_or(String::is_empty);
    }
}

/// The operator of a node.
pub(super) fn operator(node: &NodeProto) -> Operator {
    (canonical(node.domain()).to_owned(), node.op_type().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_one_node_leaves_out_is_optional_in_all() {
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
