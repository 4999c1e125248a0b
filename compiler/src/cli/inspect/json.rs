//! The facts as JSON.

use super::facts::{Facts, buffer_type};
use serde_json::{Value, json};

/// Returns the facts as one object.
pub fn value(facts: &Facts<'_>) -> Value {
    let plan = facts.plan;
    let ports = facts.ports().map(|(kind, port)| {
        let has_default = port.default.is_some();
        let ty = port.ty.to_string();
        json!({ "kind": kind, "name": port.name, "type": ty, "default": has_default })
    });
    let operators = facts.operators.iter().map(
        |(name, [before, after])| json!({ "operator": name, "before": before, "after": after }),
    );
    let weights = facts.weights.iter().map(|(dtype, weights)| {
        json!({ "type": dtype, "constants": weights.count, "bytes": weights.bytes })
    });
    let plans = facts.plans.iter().map(|(name, plan)| {
        json!({ "method": name, "multiply_adds": plan.macs, "steps": plan.step_nodes().len() - 1 })
    });
    json!({
        "name": facts.name,
        "ir_version": plan.info.ir_version,
        "operator_sets": facts.operator_sets(),
        "producer": plan.info.producer,
        "interface": ports.collect::<Vec<_>>(),
        "parameters": facts.parameters,
        "multiply_adds": plan.free_macs.is_empty().then_some(plan.macs),
        "weight_bytes": plan.weight_bytes,
        "weights": weights.collect::<Vec<_>>(),
        "arena_bytes": facts.arena_bytes(),
        "arena": facts.arena.to_string(),
        "methods": plans.collect::<Vec<_>>(),
        "operators": operators.collect::<Vec<_>>(),
        "fullest": fullest(facts),
        "nodes": nodes(facts),
        "free_sizes": free_sizes(facts),
        "fused": fused(facts),
        "folded_nodes": facts.gone[0],
        "removed_nodes": facts.gone[1],
        "not_fused": not_fused(facts),
        "heap": heap(facts),
        "budget": budget(facts),
    })
}

fn fullest(facts: &Facts<'_>) -> Value {
    let Some(fullest) = &facts.fullest else { return Value::Null };
    let live = fullest.moment.live.iter().map(|occupant| {
        let buffer = &facts.plan.buffers[occupant.buffer];
        json!({
            "name": buffer.name,
            "type": buffer_type(buffer),
            "offset": occupant.offset,
            "bytes": occupant.bytes,
        })
    });
    json!({
        "step": fullest.step[0],
        "node": fullest.node,
        "bytes": fullest.moment.bytes,
        "live": live.collect::<Vec<_>>(),
    })
}

fn nodes(facts: &Facts<'_>) -> Vec<Value> {
    let each = facts.costs.iter().map(|cost| {
        json!({
            "node": cost.name,
            "operator": cost.operator,
            "kernels": cost.kernels,
            "multiply_adds": cost.macs,
            "operations": cost.operations,
            "bytes": cost.bytes,
        })
    });
    each.collect()
}

fn free_sizes(facts: &Facts<'_>) -> Vec<Value> {
    let each = facts.sizes.iter();
    each.map(|size| json!({ "name": size.name, "most": size.max, "bound_by": size.bound_by }))
        .collect()
}

fn fused(facts: &Facts<'_>) -> Vec<Value> {
    facts.fused.iter().map(|(into, nodes)| json!({ "node": into, "computes": nodes })).collect()
}

fn not_fused(facts: &Facts<'_>) -> Vec<Value> {
    facts.unfused.iter().map(|(node, reason)| json!({ "node": node, "reason": reason })).collect()
}

fn heap(facts: &Facts<'_>) -> Vec<Value> {
    let each = facts.heap.iter();
    each.map(|(name, ty, reason)| json!({ "name": name, "type": ty, "reason": reason })).collect()
}

fn budget(facts: &Facts<'_>) -> Vec<Value> {
    let each = facts.budget.iter().map(|of| {
        json!({
            "memory": of.memory,
            "bytes": of.used,
            "limit": of.limit,
            "fits": of.fits(),
            "tightest": of.tightest,
        })
    });
    each.collect()
}
