//! The `Loop` operator.

use super::loop_carried::{self, CarriedValues};
use crate::{
    array::Array,
    diag::{Code, Diagnostic, Result, counted},
    dim::{Dim, Symbol},
    dtype::DType,
    ir::{Attributes, Gradient, Infer, Inferred, Lower, Op, Views},
    plan::{self, Block, Call, Kernel, Stacked, Step, TripCount, kernel},
    ty::{TensorType, Type},
};

/// Runs a region repeatedly while its condition holds, at most as many times as input 0 specifies.
pub struct Loop;

/// The number of inputs of the body before the loop-carried values: the iteration number and the
/// condition.
pub const HEAD: usize = 2;

/// Writes the iteration number.
pub static ITERATION_NUMBER: Kernel<(Vec<Dim>,)> =
    kernel!(I64_ONLY T, reshape::shape, |f, a, p| f(a.output(0), p.0));

impl Loop {
    /// The number of loop-carried values of a node with that number of inputs.
    fn carried_count(inputs: usize) -> usize {
        inputs.saturating_sub(HEAD)
    }

    /// The positions of the loop-carried values.
    fn carried(inputs: usize) -> CarriedValues {
        let count = Loop::carried_count(inputs);
        CarriedValues { input: HEAD, body_input: HEAD, result: 1, count }
    }

    /// The maximal number of iterations if it is known, and whether that many always run.
    fn iterations(cx: &Infer<'_>) -> (Option<Dim>, bool) {
        let starts = !cx.has(1) || cx.ints(1) == Some(vec![1]);
        (Loop::max_iterations(cx.known(0)), starts && cx.result_stays_true(0, 0, 1))
    }

    /// The maximal number of iterations if it is known; 0 if it is negative.
    fn max_iterations(known: Option<&[Dim]>) -> Option<Dim> {
        Some(known?.first()?.at_least(&0.into()))
    }
}

/// Checks that the condition of the next iteration, result 0 of the body, is one boolean.
fn require_condition(cx: &Infer<'_>, condition: &Type) -> Inferred<()> {
    let Type::Tensor(TensorType { dtype, shape }) = condition else { return Ok(()) };
    let code = match (dtype, shape.iter().product::<Dim>().known()) {
        (DType::Bool, Some(1)) => return Ok(()),
        (DType::Bool, _) => Code::ShapeMismatch,
        _ => Code::TypeMismatch,
    };
    let message = format!("the condition that the body returns must be one bool, is {condition}");
    Err(cx.diagnostic(code, message))
}

impl Op for Loop {
    fn name(&self) -> &'static str {
        "Loop"
    }

    fn attributes(&self, a: &mut Attributes) {
        a.region("body", 0);
    }

    fn region_inputs(&self, _: usize, cx: &mut Infer<'_>) -> Inferred {
        let scalar = |dtype| Type::tensor::<Dim>(dtype, []);
        let mut types = vec![scalar(DType::I64), scalar(DType::Bool)];
        types.extend(loop_carried::types(cx, &Self::carried(cx.given()))?);
        Ok(types)
    }

    fn infer(&self, cx: &mut Infer<'_>) -> Inferred {
        let count = Self::carried_count(cx.given());
        super::require_one_element(cx, 0, DType::I64)?;
        super::require_one_element(cx, 1, DType::Bool)?;
        let (most, exact) = Self::iterations(cx);
        let bound = most.as_ref().and_then(|most| cx.upper(most));
        let iteration = cx.fresh("iteration", bound);
        let inputs = cx.region_inputs(0).unwrap_or_default();
        let results = cx.region_results(0);
        if results.len() < 1 + count || cx.outputs() > results.len() - 1 {
            let message = format!(
                "the body has {}, but the node carries {} and has {}",
                counted(results.len(), "result"),
                counted(count, "value"),
                counted(cx.outputs(), "output")
            );
            return Err(Diagnostic::new(Code::BadArity, message).into());
        }
        require_condition(cx, &results[0])?;
        loop_carried::require_one_type(cx, &Self::carried(cx.given()))?;
        let mut types: Vec<Type> = inputs.into_iter().skip(HEAD).collect();
        for item in &results[1 + count..] {
            let TensorType { dtype, mut shape } =
                loop_carried::item_type(cx, &Self::carried(cx.given()), item)?;
            let iterations = most.clone().filter(|_| exact).unwrap_or_else(|| iteration.clone());
            shape.insert(0, iterations);
            types.push(TensorType { dtype, shape }.into());
        }
        Ok(types)
    }

    fn views(&self, cx: &mut Views<'_>) {
        for j in 0..Self::carried_count(cx.inputs()) {
            cx.region_input_is_output(0, HEAD + j, j);
        }
    }

    fn lower(&self, cx: &mut Lower<'_>) -> Result {
        let count = Self::carried_count(cx.node().inputs.len());
        let iteration = cx.node().binds[0].clone();
        let most = match (cx.has(0), Loop::max_iterations(cx.known(0))) {
            (false, _) => None,
            (true, Some(most)) => Some(TripCount::Size(most)),
            (true, None) => Some(TripCount::Tensor(cx.input(0)?)),
        };
        let starts = !cx.has(1) || cx.ints(1) == Some(vec![1]);
        let cond = if starts { None } else { Some(cx.input(1)?) };
        let mut body = cx.body(0)?;
        let stays_true = cx.result_stays_true(0, 0, 1);
        if most.is_none() && cond.is_none() && stays_true {
            return Err(cx.unsupported("a loop that never ends"));
        }
        let results = std::mem::take(&mut body.results);
        let again = (!stays_true).then(|| results[0].clone());
        self.set_iteration_inputs(cx, &mut body, &iteration)?;
        let values = Self::carried(cx.node().inputs.len());
        let (mut carried, sizes) = loop_carried::lower(cx, &values, &results[1..=count])?;
        loop_carried::copy_overwritten(cx, &mut carried, &mut body);
        let (mut stacked, mut common) = (Vec::new(), Vec::new());
        for (i, item) in results.into_iter().enumerate().skip(1 + count) {
            let Some(all) = cx.optional_output(i - 1)? else { continue };
            let shape = &cx.output_ty(i - 1)?.shape;
            let item_sizes = loop_carried::item_sizes(cx, i, i - 1, &shape[1..])?;
            let is_counted = shape[0] != Dim::symbol(&iteration) && item_sizes.is_empty();
            common.extend(item_sizes);
            let at = is_counted.then(|| Dim::symbol(&iteration) * &item.len);
            stacked.push(Stacked { item, all, at });
        }
        let iterations = plan::Loop::new(cx.comment(), iteration, body);
        let iterations =
            plan::Loop { most, cond, again, carried, stacked, sizes, common, ..iterations };
        cx.step(Step::Loop(iterations));
        Ok(())
    }

    fn gradient(&self, g: &mut Gradient<'_>) -> Result {
        super::gradient::differentiate_loop(g)
    }
}

impl Loop {
    /// Prepends the steps that set the body's iteration number, and its condition to true.
    fn set_iteration_inputs(
        &self,
        cx: &mut Lower<'_>,
        body: &mut Block,
        iteration: &Symbol,
    ) -> Result {
        let (number, condition) = (cx.region_input(0, 0)?, cx.region_input(0, 1)?);
        let mut call =
            Call::new(cx.comment(), &ITERATION_NUMBER, DType::I64, (vec![Dim::symbol(iteration)],));
        call.outputs.push(number.into());
        let true_tensor = Array::Bool(vec![true]).into_tensor(Vec::new());
        let true_tensor = cx.weight(&true_tensor);
        let copy = cx.copy_step(true_tensor, condition);
        body.steps.splice(0..0, [Step::Call(call), copy]);
        Ok(())
    }
}
