//! The conditions of nodes of which only sizes are read. Simplification writes sizes as formulas,
//! so such a node goes, but its formulas hold only where its conditions do.

use crate::{
    diag::Diagnostics,
    ir::{Edit, Graph, NewNode, Node, NodeId, ValueId},
    ops::{
        reshape::{Shape, Size},
        sizes::Require,
    },
};
use std::{collections::HashSet, rc::Rc};

/// Adds a [`Require`] after each node that has conditions, and of which only sizes are read.
pub fn keep(graph: Graph) -> Result<Graph, Diagnostics> {
    let nodes = measured(&graph);
    if nodes.is_empty() {
        return Ok(graph);
    }
    let mut edit = Edit::of(&graph);
    for id in nodes {
        let node = &graph[id];
        let Some(output) = node.outputs.iter().flatten().next() else { continue };
        edit.wrap(*output, |site, new| {
            let require = NewNode {
                name: &node.name,
                op: Rc::new(Require { checks: node.checks.clone() }),
                inputs: Vec::new(),
                outputs: &[],
                regions: Vec::new(),
            };
            site.graph.node(site.region, require).1?;
            Ok(new)
        });
    }
    edit.finish()
}

/// Returns the nodes with conditions of which sizes are read, but no elements.
fn measured(graph: &Graph) -> Vec<NodeId> {
    // Values of which elements are read, and those of which at least sizes are.
    let (mut read, mut used): (HashSet<ValueId>, HashSet<ValueId>) = Default::default();
    let mut found = Vec::new();
    let nodes: Vec<_> = graph.walk(graph.body).collect();
    read.extend(&graph[graph.body].outputs);
    for &(_, node) in &nodes {
        node.regions.iter().for_each(|&region| read.extend(&graph[region].outputs));
    }
    for &(id, node) in nodes.iter().rev() {
        let is_one_of = |values: &HashSet<ValueId>| {
            node.outputs.iter().flatten().any(|output| values.contains(output))
        };
        let is_read = is_one_of(&read) || !node.regions.is_empty() || !node.binds.is_empty();
        let inputs = node.inputs.iter().flatten();
        if is_read && !reads_sizes(node) {
            read.extend(inputs);
        } else if is_read || is_one_of(&used) {
            used.extend(inputs);
            if !is_read && !node.checks.is_empty() {
                found.push(id);
            }
        }
    }
    found
}

/// Returns whether a node reads the sizes of its input, not its elements.
fn reads_sizes(node: &Node) -> bool {
    node.op.is::<Shape>() || node.op.is::<Size>()
}
