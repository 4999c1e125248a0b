//! The arena over the time of a run.

use super::graph;
use crate::cli::{analysis::Analysis, inspect::buffer_type};
use serde_json::{Value, json};
use std::collections::HashMap;

/// Returns the arena: its size, the node of each step (-1 for none), and its buffers: name, type,
/// offset, bytes, first step, last step. Returns null if a run lays it out.
pub fn value(analysis: &Analysis) -> Value {
    let plan = analysis.plans.infer();
    if plan.has_dynamic_arena {
        return Value::Null;
    }
    let places = graph::numbers(&analysis.optimized);
    let comments = analysis.nodes_by_comment();
    let names: HashMap<&str, usize> = analysis
        .optimized
        .walk(analysis.optimized.body)
        .map(|(id, node)| (node.name.as_str(), places[&id]))
        .collect();
    let steps = plan.step_nodes().into_iter().map(|node| {
        let place = comments.get(node).map(|id| places[id]).or_else(|| names.get(node).copied());
        place.map_or(-1, |place| place as i64)
    });
    let blocks = plan.occupants().into_iter().map(|occupant| {
        let buffer = &plan.buffers[occupant.buffer];
        let (name, ty) = (&buffer.name, buffer_type(buffer));
        json!([name, ty, occupant.offset, occupant.bytes, occupant.first, occupant.last])
    });
    json!({
        "bytes": plan.arena_bytes,
        "steps": steps.collect::<Vec<_>>(),
        "blocks": blocks.collect::<Vec<_>>(),
    })
}
