//! TripCount as long as a condition holds.

use super::loop_carried::{self, Places};
use crate::{
    array::Array,
    diag::{Code, Diagnostic, Result},
    dim::{Dim, Symbol},
    dtype::DType,
    ir::{Attributes, Gradient, Infer, Inferred, Lower, Op, Views},
    plan::{self, Block, Call, Kernel, Stacked, Step, TripCount, kernel},
    ty::{TensorType, Type},
};

/// A region that is run again and again, as long as its condition holds and at most as often as
/// the first input says.
pub struct Loop;

/// The inputs of the body before the values that iterations give each other: the iteration's number and
/// the condition.
pub const HEAD: usize = 2;

pub static ITERATION_NUMBER: Kernel<(Vec<Dim>,)> =
    kernel!(I64_ONLY T, reshape::shape, |f, a, p| f(a.output(0), p.0));

impl Loop {
    /// The number of values that iterations give each other.
    fn carried(inputs: usize) -> usize {
        inputs.saturating_sub(HEAD)
    }

    /// Where they stand.
    fn places(inputs: usize) -> Places {
        Places { input: HEAD, given: HEAD, result: 1, count: Loop::carried(inputs) }
    }

    /// The greatest number of iterations, and whether it is the number.
    fn iterations(cx: &Infer<'_>) -> (Option<Dim>, bool) {
        let starts = !cx.has(1) || cx.ints(1) == Some(vec![1]);
        (Loop::most(cx.known(0)), starts && cx.result_stays_true(0, 0, 1))
    }

    /// The greatest number of iterations where it is known: none are made of a number below 0.
    fn most(known: Option<&[Dim]>) -> Option<Dim> {
        Some(known?.first()?.at_least(&0.into()))
    }
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
        types.extend(loop_carried::types(cx, &Self::places(cx.given()))?);
        Ok(types)
    }

    fn infer(&self, cx: &mut Infer<'_>) -> Inferred {
        let count = Self::carried(cx.given());
        super::one(cx, 0, DType::I64)?;
        super::one(cx, 1, DType::Bool)?;
        let (most, exact) = Self::iterations(cx);
        let bound = most.as_ref().and_then(|most| cx.upper(most));
        let iteration = cx.fresh("iteration", bound);
        let given = cx.region_inputs(0).unwrap_or_default();
        let gave = cx.region_results(0);
        if gave.len() < 1 + count || cx.outputs() > gave.len() - 1 {
            let message = format!(
                "the body gives {} values, but the node carries {count} and has {} outputs",
                gave.len(),
                cx.outputs()
            );
            return Err(Diagnostic::new(Code::BadArity, message).into());
        }
        let mut types: Vec<Type> = given.into_iter().skip(HEAD).collect();
        for item in &gave[1 + count..] {
            let TensorType { dtype, mut shape } =
                loop_carried::stacked(cx, &Self::places(cx.given()), item)?;
            let iterations = most.clone().filter(|_| exact).unwrap_or_else(|| iteration.clone());
            shape.insert(0, iterations);
            types.push(TensorType { dtype, shape }.into());
        }
        Ok(types)
    }

    fn views(&self, cx: &mut Views<'_>) {
        for j in 0..Self::carried(cx.inputs()) {
            cx.region_input_is_output(0, HEAD + j, j);
        }
    }

    fn lower(&self, cx: &mut Lower<'_>) -> Result {
        let count = Self::carried(cx.node().inputs.len());
        let iteration = cx.node().binds[0].clone();
        let most = match (cx.has(0), Loop::most(cx.known(0))) {
            (false, _) => None,
            (true, Some(most)) => Some(TripCount::Size(most)),
            (true, None) => Some(TripCount::Tensor(cx.input(0)?)),
        };
        let starts = !cx.has(1) || cx.ints(1) == Some(vec![1]);
        let cond = if starts { None } else { Some(cx.input(1)?) };
        let mut body = cx.body(0)?;
        let goes_on = cx.result_stays_true(0, 0, 1);
        if most.is_none() && cond.is_none() && goes_on {
            return Err(cx.unsupported("a loop that never ends"));
        }
        let results = std::mem::take(&mut body.results);
        let again = (!goes_on).then(|| results[0].clone());
        self.write_iteration(cx, &mut body, &iteration)?;
        let places = Self::places(cx.node().inputs.len());
        let (mut carried, sizes) = loop_carried::lower(cx, &places, &results[1..=count])?;
        loop_carried::keep_apart(cx, &mut carried, &mut body);
        let (mut stacked, mut common) = (Vec::new(), Vec::new());
        for (i, item) in results.into_iter().enumerate().skip(1 + count) {
            let Some(all) = cx.optional_output(i - 1)? else { continue };
            let shape = &cx.output_ty(i - 1)?.shape;
            let of_parts = loop_carried::sizes_of_parts(cx, i, i - 1, &shape[1..])?;
            let counted = shape[0] != Dim::symbol(&iteration) && of_parts.is_empty();
            common.extend(of_parts);
            let at = counted.then(|| Dim::symbol(&iteration) * &item.len);
            stacked.push(Stacked { item, all, at });
        }
        let iterations = plan::Loop::new(cx.comment(), iteration, body);
        let iterations =
            plan::Loop { most, cond, again, carried, stacked, sizes, common, ..iterations };
        cx.step(Step::Loop(iterations));
        Ok(())
    }

    fn gradient(&self, g: &mut Gradient<'_>) -> Result {
        super::gradient::of_loop(g)
    }
}

impl Loop {
    /// Gives the body the number of the iteration, and that the condition holds.
    fn write_iteration(&self, cx: &mut Lower<'_>, body: &mut Block, iteration: &Symbol) -> Result {
        let (number, holds) = (cx.region_input(0, 0)?, cx.region_input(0, 1)?);
        let mut call =
            Call::new(cx.comment(), &ITERATION_NUMBER, DType::I64, (vec![Dim::symbol(iteration)],));
        call.outputs.push(number.into());
        let yes = Array::Bool(vec![true]).into_tensor(Vec::new());
        let yes = cx.weight(&yes);
        let copy = cx.copy_step(yes, holds);
        body.steps.splice(0..0, [Step::Call(call), copy]);
        Ok(())
    }
}
