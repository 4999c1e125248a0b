//! Graphs of some nodes of another graph.

use super::{
    Graph, Hook, NewNode, Node, Rewrite, Rule, Todo, UseCounts, ValueId, rewrite::copy_node,
};
use crate::{diag::Diagnostics, tensor::Tensor, ty::Type};
use std::collections::{BTreeSet, HashSet};

/// Copies the nodes that compute `output` from `inputs` into a graph with these inputs, of the
/// given types; an input with a constant is replaced by it. Other values that the nodes need become
/// additional inputs, which are returned: values that no node of `old` computes, and random ones.
///
/// # Errors
///
/// Returns the diagnostics of copied nodes whose types cannot be inferred.
pub fn extract(
    old: &Graph,
    inputs: &[(ValueId, Type, Option<Tensor>)],
    output: ValueId,
    hook: Hook<'_>,
    rules: &[Rule<'_>],
) -> Result<(Graph, Vec<ValueId>), Diagnostics> {
    let cuts: HashSet<ValueId> = inputs.iter().map(|(id, ..)| *id).collect();
    let (nodes, captures) = old.makers(&cuts, output);
    let mut cx = Rewrite::new(old, hook, rules);
    let captured = captures.iter().map(|&id| (id, old[id].ty.clone(), None));
    for (id, ty, constant) in inputs.iter().cloned().chain(captured) {
        let mut symbols = BTreeSet::new();
        ty.symbols(&mut symbols);
        cx.add_symbols(symbols);
        let input = cx.new.input(cx.new.body, &old[id].name, ty);
        let constant = constant.map(|tensor| cx.new.constant(&old[id].name, tensor));
        cx.to.insert(id, constant.unwrap_or(input));
    }
    let todo: Vec<Todo> = nodes.into_iter().map(Todo::Node).collect();
    let outputs = cx.rest(&todo, cx.new.body, &[output]);
    cx.new.set_outputs(cx.new.body, outputs);
    Ok((cx.finish()?, captures))
}

/// Returns a graph of `node` alone, with values of `old` as its inputs and captures: constants, and
/// results of single nodes of constants. The node need not be part of the graph yet.
///
/// # Errors
///
/// Returns the diagnostics of copied nodes whose types cannot be inferred.
pub fn alone(old: &Graph, node: &Node) -> Result<Graph, Diagnostics> {
    let mut cx = Rewrite::with(old, UseCounts::default(), &copy_node, &[]);
    let into = cx.new.body;
    let made = node.inputs.iter().flatten().filter(|&&id| old[id].constant.is_none());
    for maker in made.filter_map(|&id| old[id].producer) {
        cx.node(maker, into);
    }
    let inputs: Vec<_> = node.inputs.iter().map(|id| id.map(|id| cx.value(id))).collect();
    let regions = cx.inner_regions(node, &BTreeSet::new(), &inputs);
    let names: Vec<_> = node.outputs.iter().map(|id| id.map(|id| id.to_string())).collect();
    let (op, outputs) = (node.op.clone(), names.as_slice());
    let id = cx.add(into, NewNode { name: &node.name, op, inputs, outputs, regions });
    let outputs = cx.new[id].outputs.iter().flatten().copied().collect();
    cx.new.set_outputs(into, outputs);
    cx.finish()
}
