//! The operator `SequenceMap`.

use super::{AT, AT_SIZES, EMPTY, LENGTH, PUSH, dtype, unbound_sizes};
use crate::{
    diag::{Code, Result, counted},
    dim::{Dim, Symbol},
    dtype::DType,
    ir::{Attributes, Infer, Inferred, Lower, Op, Stop, Views},
    ops::{
        Entry,
        control::{common_element_type, loop_op::ITERATION_NUMBER},
        entry,
    },
    plan::{self, Block, Call, NoParams, Operand, Step, TripCount},
    ty::{Type, any_size},
};
use std::rc::Rc;

pub const OPS: &[Entry] = &[entry("SequenceMap", 17, |node| {
    node.region("body")?;
    Ok(Rc::new(SequenceMap))
})];

/// Runs a region once for each tensor of input 0. The region also gets the tensors at the same
/// index of the other sequences, and the other inputs unchanged.
pub struct SequenceMap;

impl Op for SequenceMap {
    fn name(&self) -> &'static str {
        "SequenceMap"
    }

    fn attributes(&self, a: &mut Attributes) {
        a.region("body", 0);
    }

    fn region_inputs(&self, _: usize, cx: &mut Infer<'_>) -> Inferred {
        // The region's symbols for the sizes of the tensors stay the same after the first
        // inference.
        if let Some(types) = cx.region_inputs(0) {
            return Ok(types);
        }
        cx.sequence(0)?;
        let mut types = Vec::new();
        for i in 0..cx.given() {
            let ty = cx.any(i)?;
            types.push(match ty.element() {
                Some(Type::Tensor(element)) => {
                    let mut element = element.clone();
                    for size in element.shape.iter_mut().filter(|size| **size == any_size()) {
                        *size = cx.fresh("item_size", None);
                    }
                    element.into()
                }
                Some(Type::Never(dtype) | Type::Unranked(dtype)) => Type::Unranked(*dtype),
                Some(_) => Type::Unknown,
                None => ty.clone(),
            });
        }
        Ok(types)
    }

    fn infer(&self, cx: &mut Infer<'_>) -> Inferred {
        cx.sequence(0)?;
        let len = cx.known(0).and_then(<[Dim]>::first).cloned();
        let bound = len.as_ref().and_then(|len| cx.upper(len));
        cx.fresh("iteration", bound);
        let results = cx.region_results(0);
        if results.len() < cx.outputs() {
            let results = counted(results.len(), "result");
            let outputs = counted(cx.outputs(), "output");
            let message = format!("the body has {results} for {outputs}");
            return Err(cx.diagnostic(Code::BadArity, message));
        }
        let mut types = Vec::new();
        for (i, result) in results.iter().enumerate() {
            let dtype = result.dtype().filter(|_| result.is_tensor()).ok_or(Stop::Unknown)?;
            if let Some(len) = &len {
                cx.set_known(i, vec![len.clone()]);
            }
            types.push(Type::Sequence(common_element_type(&Type::Never(dtype), result).into()));
        }
        Ok(types)
    }

    fn views(&self, cx: &mut Views<'_>) {
        for i in 0..cx.inputs() {
            if cx.ty(i).is_some() {
                cx.region_input_is_part(0, i, i, 0.into());
            }
        }
    }

    fn lower(&self, cx: &mut Lower<'_>) -> Result {
        let iteration = cx.node().binds[0].clone();
        let most = match cx.known(0) {
            Some([len]) => TripCount::Size(len.clone()),
            _ => {
                let (dtype, x) = (dtype(cx, 0)?, cx.input(0)?.into());
                let len = cx.scratch(DType::I64, 1);
                cx.call_on(&LENGTH, dtype, vec![x], vec![len.clone().into()], NoParams)?;
                TripCount::Tensor(len)
            }
        };
        for i in 0..cx.node().outputs.len() {
            if let Some(y) = cx.optional_output(i)? {
                let dtype = self.dtype(cx, i)?;
                cx.call_on(&EMPTY, dtype, Vec::new(), vec![y.into()], NoParams)?;
            }
        }
        let Block { steps, results, .. } = cx.body(0)?;
        let taken = cx.steps_of(|cx| take_items(cx, &iteration))?;
        let taken = taken.into_iter().chain(steps);
        let pushed = cx.steps_of(|cx| self.push(cx, results))?;
        let body = Block { steps: taken.chain(pushed).collect(), ..Block::default() };
        let iterations = plan::Loop::new(cx.comment(), iteration, body);
        cx.step(Step::Loop(plan::Loop { most: Some(most), ..iterations }));
        Ok(())
    }
}

/// Passes the tensors of an iteration to the body.
fn take_items(cx: &mut Lower<'_>, iteration: &Symbol) -> Result {
    let number = cx.scratch(DType::I64, 1);
    let outputs = vec![number.clone().into()];
    cx.call_on(
        &ITERATION_NUMBER,
        DType::I64,
        Vec::new(),
        outputs,
        (vec![Dim::symbol(iteration)],),
    )?;
    for i in 0..cx.node().inputs.len() {
        let Some(Type::Tensor(element)) = cx.any(i)?.element() else { continue };
        let inputs = vec![cx.input(i)?.into(), number.clone().into()];
        let named = cx.region_input_ty(0, i).as_tensor().map_or(&[][..], |ty| &ty.shape);
        let open = element.shape.iter().zip(named).filter(|(size, _)| **size == any_size());
        let binds: Vec<Symbol> = open.filter_map(|(_, name)| name.as_symbol().cloned()).collect();
        if !binds.is_empty() {
            let formula = (unbound_sizes(named, &binds),);
            let mut call = Call::new(cx.comment(), &AT_SIZES, element.dtype, formula);
            call.inputs.clone_from(&inputs);
            call.binds = binds;
            cx.step(Step::Call(call));
        }
        let x = cx.region_input(0, i)?.into();
        cx.call_on(&AT, element.dtype, inputs, vec![x], NoParams)?;
    }
    Ok(())
}

impl SequenceMap {
    /// Returns the element type of output `i`.
    fn dtype(&self, cx: &Lower<'_>, i: usize) -> Result<DType> {
        let dtype = cx.output_any(i)?.dtype();
        dtype.ok_or_else(|| cx.unsupported("results whose element type is not known"))
    }

    /// Appends the body's results to the output sequences.
    fn push(&self, cx: &mut Lower<'_>, results: Vec<Operand>) -> Result {
        for (i, result) in results.into_iter().enumerate() {
            let Some(y) = cx.optional_output(i)? else { continue };
            let ty = cx.result_ty(0, i).and_then(Type::as_tensor);
            let shape = ty.map(|ty| ty.shape.clone()).unwrap_or_default();
            let dtype = self.dtype(cx, i)?;
            cx.call_on(&PUSH, dtype, vec![result.into()], vec![y.into()], (shape,))?;
        }
        Ok(())
    }
}
