//! Tells in a diagnostic how the shape of a value came about.

use super::{Graph, ValueId};
use crate::diag::quoted;

/// The most nodes that are named.
const MOST_NODES: usize = 5;

/// Returns a note with the nodes that changed the shape before it became that of `value`, the
/// latest last, each with the type of its output. Returns `None` if no node did.
pub(super) fn shape_origin(graph: &Graph, value: ValueId) -> Option<String> {
    let (mut value, mut steps) = (value, Vec::new());
    while steps.len() < MOST_NODES
        && let Some((operator, source)) = producer(graph, value)
    {
        let (ty, from) = (&graph[value].ty, &graph[source].ty);
        if ty != from {
            steps.push(format!(" → {operator} {ty}"));
        }
        value = source;
    }
    let first = &graph[value];
    let steps: String = steps.into_iter().rev().collect();
    let origin = || format!("its shape comes from {} {}{steps}", quoted(&first.name), first.ty);
    (!steps.is_empty()).then(origin)
}

/// Returns the operator that computes a value, and the first of its inputs that is no constant.
fn producer(graph: &Graph, value: ValueId) -> Option<(String, ValueId)> {
    let node = &graph[graph[value].producer?];
    let mut inputs = node.inputs.iter().copied().flatten();
    let source = inputs.find(|&input| graph[input].constant.is_none())?;
    Some((node.op.label(), source))
}
