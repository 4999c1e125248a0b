//! Sizes that the model promises. What it declares of its outputs bounds sizes that are settled only
//! when it runs, so that their memory is planned; running holds them against it.

use super::Graph;
use crate::{
    dim::{Dim, Symbol},
    plan::{Call, Check, Condition, Plan, Step},
};
use std::collections::{BTreeMap, BTreeSet};

/// Bounds the symbols without a bound that are sizes of outputs declared to be numbers, and gives
/// them with their bounds.
pub(super) fn bound(graph: &Graph, plan: &mut Plan) -> BTreeMap<Symbol, i64> {
    let body = &graph[graph.body];
    let settled: BTreeSet<&Symbol> =
        body.nodes.iter().flat_map(|&node| &graph[node].binds).collect();
    let mut promised = BTreeMap::new();
    for (&output, declared) in body.outputs.iter().zip(&graph.info.output_sizes) {
        let Some(ty) = graph[output].ty.as_tensor() else { continue };
        if ty.rank() != declared.len() {
            continue;
        }
        for (dim, &declared) in ty.shape.iter().zip(declared) {
            let (Some(symbol), Some(most)) = (dim.as_symbol(), declared) else { continue };
            let open = plan.symbols.get(symbol).is_some_and(|size| size.max.is_none());
            if open && settled.contains(symbol) {
                // Two outputs may say different things of it: none may be larger than it says.
                let bound = promised.entry(symbol.clone()).or_insert(most);
                *bound = most.min(*bound);
            }
        }
    }
    for (symbol, &most) in &promised {
        if let Some(size) = plan.symbols.get_mut(symbol) {
            size.max = Some(most);
        }
    }
    promised
}

/// Has each promise checked where the size is settled.
pub(super) fn check(steps: &mut Vec<Step>, promised: &BTreeMap<Symbol, i64>) {
    if promised.is_empty() {
        return;
    }
    for step in std::mem::take(steps) {
        let checks = match &step {
            Step::Call(call) => checks(call, promised),
            Step::Check(_) | Step::If(_) | Step::Loop(_) => Vec::new(),
        };
        steps.push(step);
        steps.extend(checks);
    }
}

fn checks(call: &Call, promised: &BTreeMap<Symbol, i64>) -> Vec<Step> {
    let check = |symbol: &Symbol| {
        let condition = Condition::AtLeast((*promised.get(symbol)?).into(), Dim::symbol(symbol));
        Some(Step::Check(Check { node: symbol.to_string(), condition }))
    };
    call.binds.iter().filter_map(check).collect()
}

#[cfg(test)]
mod tests {
    use crate::{Options, host, plan::Place, tensor::Tensor, value::Value};

    #[test]
    fn what_a_model_declares_bounds_what_only_running_tells() {
        let text = "<ir_version: 10, opset_import: [\"\" : 21]>
            g (int64 limit) => (int64[4] y) {
                zero = Constant<value = int64 {0}>()
                one = Constant<value = int64 {1}>()
                y = Range(zero, limit, one)
            }";
        let planned = crate::plan(text.into(), &Options::default(), &mut |_, _| {});
        let (plan, _) = planned.expect("the model is whole");
        assert!(plan.buffers.iter().all(|(_, buffer)| buffer.place != Place::Heap));
        let run = |limit| host::run(&plan, &[Value::Tensor(Tensor::from_int(limit))]);
        for limit in [0, 3, 4] {
            let found = run(limit).expect("the output has room").remove(0);
            assert_eq!(found.tensor().and_then(Tensor::ints), Some((0..limit).collect()));
        }
        assert!(run(5).is_err(), "five are more than the model promises");
    }
}
