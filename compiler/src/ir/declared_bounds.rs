//! Declared output shapes as upper bounds of data-dependent sizes, so that their memory can be
//! planned. The bounds are checked at run time.

use super::Graph;
use crate::{
    dim::{Dim, Symbol},
    plan::{Check, Condition, If, Loop, Plan, Rule, Step},
};
use std::collections::{BTreeMap, BTreeSet};

/// Bounds the unbounded symbols that are sizes of outputs declared as numbers, and returns them
/// with their bounds.
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
                // Two outputs may declare different sizes; the smaller one is the bound.
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

/// Adds a check of each bound where the size is defined, before its memory is needed.
pub(super) fn check(steps: &mut Vec<Step>, promised: &BTreeMap<Symbol, i64>) {
    if promised.is_empty() {
        return;
    }
    for step in std::mem::take(steps) {
        match step {
            Step::Call(call) => {
                let settled = call.binds.iter();
                let checks =
                    settled.filter_map(|symbol| held(promised, symbol, &Dim::symbol(symbol)));
                let checks: Vec<Step> = checks.collect();
                steps.push(Step::Call(call));
                steps.extend(checks);
            }
            Step::If(step) => steps.push(Step::If(in_branches(step, promised))),
            Step::Loop(step) => steps.push(Step::Loop(in_iterations(step, promised))),
            Step::Check(check) => steps.push(Step::Check(check)),
        }
    }
}

/// Returns the check of `size` against the bound of the symbol, if it has one.
fn held(promised: &BTreeMap<Symbol, i64>, symbol: &Symbol, size: &Dim) -> Option<Step> {
    let condition = Condition::AtLeast((*promised.get(symbol)?).into(), size.clone());
    let rule = Rule::Value(format!("the model declares a smaller output: the bound of `{symbol}`"));
    Some(Step::Check(Check { node: symbol.to_string(), rule, condition }))
}

/// Each branch is checked before its results are written to the outputs.
fn in_branches(mut step: If, promised: &BTreeMap<Symbol, i64>) -> If {
    for block in &mut step.branches {
        let sizes = step.binds.iter().zip(&block.sizes);
        block.steps.extend(sizes.filter_map(|(symbol, size)| held(promised, symbol, size)));
    }
    step
}

/// No iteration starts, and no value is stacked, beyond the bound.
fn in_iterations(mut step: Loop, promised: &BTreeMap<Symbol, i64>) -> Loop {
    let iterations = Dim::symbol(&step.iteration) + 1;
    step.body.steps.splice(0..0, held(promised, &step.iteration, &iterations));
    let parts = step.common.iter();
    let checks = parts.filter_map(|common| held(promised, &common.symbol, &common.size));
    step.body.steps.extend(checks);
    step
}

#[cfg(test)]
mod tests {
    use crate::{
        Options, interpreter,
        plan::{Place, Plan},
        tensor::Tensor,
        value::Value,
    };

    /// Returns the plan of a model whose output is in the arena.
    fn planned(graph: &str) -> Plan {
        let text = format!("<ir_version: 10, opset_import: [\"\" : 21]> g {graph}");
        let planned = crate::Compiler::new(&Options::default()).plan(text.into_bytes().into());
        let plan = planned.unwrap_or_else(|diagnostics| panic!("{diagnostics}"));
        let output = plan.outputs[0].operand.buffer;
        assert!(matches!(plan.buffers[output].place, Place::Arena { .. }), "{graph}");
        plan
    }

    #[test]
    fn a_declared_size_bounds_a_data_dependent_size() {
        let plan = planned(
            "(int64 limit) => (int64[4] y) {
                zero = Constant<value = int64 {0}>()
                one = Constant<value = int64 {1}>()
                y = Range(zero, limit, one)
            }",
        );
        let run = |limit| interpreter::run(&plan, &[Value::Tensor(Tensor::from_int(limit))]);
        for limit in [0, 3, 4] {
            let found = run(limit).expect("the output fits its declared size").remove(0);
            assert_eq!(found.tensor().and_then(Tensor::ints), Some((0..limit).collect()));
        }
        assert!(run(5).is_err(), "five are more than the model promises");
    }

    #[test]
    fn sizes_in_branches_and_loops_obey_the_declared_bound() {
        for graph in [
            "(int64 n) => (int64[4, 1] y) {
                y = Loop(n, \"\") <body = b (int64 i, bool on) => (bool to, int64[1] s) {
                    axis = Constant<value_ints = [0]>() to = Identity(on) s = Unsqueeze(i, axis)
                }>
            }",
            "(int64 n) => (int64[2, 4] y)
            <int64 zero = {0}, int64 one = {1}, int64[2] both = {0, 1}> {
                y = Scan<
                    body = b (int64 i) => (int64[k] s) { s = Range(zero, n, one) },
                    num_scan_inputs = 1
                >(both)
            }",
            "(int64 n) => (int64[4] y) <int64 zero = {0}, int64 one = {1}> {
                two = Add(one, one) even = Mod(n, two) c = Cast<to = 9>(even)
                y = If(c) <
                    then_branch = t () => (int64[k] a) { a = Range(zero, n, one) },
                    else_branch = e () => (int64[k] a) { b = Range(zero, n, one) a = Neg(b) }
                >
            }",
        ] {
            let plan = planned(graph);
            let run = |n| interpreter::run(&plan, &[Value::Tensor(Tensor::from_int(n))]);
            for n in [0, 3, 4] {
                let found = run(n).expect("the output fits its declared size").remove(0);
                let count = if graph.contains("Scan") { 2 * n } else { n };
                assert_eq!(found.tensor().map(Tensor::len), usize::try_from(count).ok(), "{graph}");
            }
            assert!(run(5).is_err() && run(6).is_err(), "{graph}");
        }
    }
}
