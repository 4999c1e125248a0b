//! The `Scan` operator.

use super::loop_carried::{self, CarriedValues};
use crate::{
    array::Array,
    diag::{Code, Diagnostic, Result, counted},
    dim::{Dim, Symbol},
    dtype::DType,
    ir::{Attributes, Domain, Gradient, Infer, Inferred, Lower, Op, Reader, Stop, Views},
    ops::{
        concat::{CONCAT, SPLIT},
        constant::CONSTANT_OF_SHAPE,
    },
    plan::{
        self, Block, Call, Carried, Kernel, Literal, Operand, Stacked, Step, TripCount,
        geometry::Strided, kernel,
    },
    ty::{TensorType, Type},
};
use std::rc::Rc;

/// Runs a region once for each slice of the scan inputs along an axis.
#[derive(Clone, Default)]
pub struct Scan {
    /// The number of scan inputs, which follow the initial values of the loop-carried values.
    pub scanned: usize,
    /// The axis of each scan input; 0 by default.
    pub axes: Vec<i64>,
    /// Whether each scan input is scanned backward; not by default.
    pub reversed: Vec<bool>,
    /// The axis of each scan output; 0 by default.
    pub output_axes: Vec<i64>,
    /// Whether each scan output is filled backward; not by default.
    pub reversed_outputs: Vec<bool>,
}

/// Reads `Scan` since version 9.
pub fn read(node: &mut Reader<'_>) -> Result<Rc<dyn Op>> {
    let scan = Scan {
        scanned: scanned(node)?,
        axes: node.maybe_ints("scan_input_axes")?.unwrap_or_default(),
        reversed: flags(node, "scan_input_directions")?,
        output_axes: node.maybe_ints("scan_output_axes")?.unwrap_or_default(),
        reversed_outputs: flags(node, "scan_output_directions")?,
    };
    require_len("scan_input_axes", scan.axes.len(), scan.scanned)?;
    require_len("scan_input_directions", scan.reversed.len(), scan.scanned)?;
    node.region("body")?;
    Ok(Rc::new(scan))
}

/// Checks that a list has a number for each scan input, or none.
fn require_len(name: &str, len: usize, scanned: usize) -> Result {
    if len == 0 || len == scanned {
        return Ok(());
    }
    let (found, expected) = (counted(len, "number"), counted(scanned, "scan input"));
    let message = format!("`{name}` has {found} for {expected}");
    Err(Diagnostic::new(Code::BadAttribute, message))
}

fn scanned(node: &mut Reader<'_>) -> Result<usize> {
    Ok(usize::try_from(node.required_int("num_scan_inputs")?).unwrap_or(0))
}

fn flags(node: &mut Reader<'_>, name: &str) -> Result<Vec<bool>> {
    let flag = |direction| match direction {
        0 => Ok(false),
        1 => Ok(true),
        _ => {
            let message = format!("`{name}` has {direction}, but a direction is 0 or 1");
            Err(Diagnostic::new(Code::BadAttribute, message))
        }
    };
    node.maybe_ints(name)?.unwrap_or_default().into_iter().map(flag).collect()
}

fn flags_as_ints(flags: &[bool]) -> Vec<i64> {
    flags.iter().map(|&flag| i64::from(flag)).collect()
}

/// The index of an iteration's slice of scan input or output `i`.
fn slice_index(reversed: &[bool], i: usize, iteration: &Symbol, iterations: &Dim) -> Dim {
    let iteration = Dim::symbol(iteration);
    if reversed.get(i) == Some(&true) { iterations - 1 - iteration } else { iteration }
}

impl Scan {
    /// The number of loop-carried values of a node with that number of inputs.
    fn carried_count(&self, inputs: usize) -> usize {
        inputs.saturating_sub(self.scanned)
    }

    /// The positions of the loop-carried values.
    fn carried(&self, inputs: usize) -> CarriedValues {
        CarriedValues { input: 0, body_input: 0, result: 0, count: self.carried_count(inputs) }
    }

    /// The axis along which scan input `i`, of rank `rank`, is scanned.
    fn axis(&self, cx: &Infer<'_>, i: usize, rank: usize) -> Inferred<usize> {
        cx.axis("scan_input_axes", self.axes.get(i).copied().unwrap_or(0), rank)
    }

    /// The axis along which scan output `i`, of rank `rank`, is filled.
    fn output_axis(&self, cx: &Infer<'_>, i: usize, rank: usize) -> Inferred<usize> {
        cx.axis("scan_output_axes", self.output_axes.get(i).copied().unwrap_or(0), rank)
    }
}

impl Op for Scan {
    fn name(&self) -> &'static str {
        "Scan"
    }

    fn attributes(&self, a: &mut Attributes) {
        a.region("body", 0);
        a.int("num_scan_inputs", self.scanned as i64);
        for (name, list) in [
            ("scan_input_axes", &self.axes),
            ("scan_input_directions", &flags_as_ints(&self.reversed)),
            ("scan_output_axes", &self.output_axes),
            ("scan_output_directions", &flags_as_ints(&self.reversed_outputs)),
        ] {
            if !list.is_empty() {
                a.ints(name, list);
            }
        }
    }

    fn region_inputs(&self, _: usize, cx: &mut Infer<'_>) -> Inferred {
        let count = self.carried_count(cx.given());
        let mut types = loop_carried::types(cx, &self.carried(cx.given()))?;
        for i in 0..self.scanned {
            let mut ty = cx.ty(count + i)?.clone();
            ty.shape.remove(self.axis(cx, i, ty.rank())?);
            types.push(ty.into());
        }
        Ok(types)
    }

    fn infer(&self, cx: &mut Infer<'_>) -> Inferred {
        let count = self.carried_count(cx.given());
        loop_carried::require_one_type(cx, &self.carried(cx.given()))?;
        let mut iterations: Option<Dim> = None;
        for i in 0..self.scanned {
            let shape = cx.shape(count + i)?;
            let size = shape[self.axis(cx, i, shape.len())?].clone();
            match &iterations {
                Some(iterations) => {
                    cx.require_equal(iterations, &size, "the numbers of slices of two inputs")?
                }
                None => iterations = Some(size),
            }
        }
        let iterations = iterations.ok_or(Stop::Unknown)?;
        let bound = cx.upper(&iterations);
        cx.fresh("iteration", bound);
        let mut types: Vec<Type> = cx.region_inputs(0).unwrap_or_default();
        types.truncate(count);
        for (i, item) in cx.region_results(0).iter().skip(count).enumerate() {
            let TensorType { dtype, mut shape } =
                loop_carried::item_type(cx, &self.carried(cx.given()), item)?;
            shape.insert(self.output_axis(cx, i, shape.len() + 1)?, iterations.clone());
            types.push(TensorType { dtype, shape }.into());
        }
        Ok(types)
    }

    fn views(&self, cx: &mut Views<'_>) {
        let count = self.carried_count(cx.inputs());
        for j in 0..count {
            cx.region_input_is_output(0, j, j);
        }
        for i in 0..self.scanned {
            let (Some(ty), Some(iteration)) = (cx.ty(count + i), cx.binds().first()) else {
                continue;
            };
            let axis = cx.axis(self.axes.get(i).copied().unwrap_or(0), ty.rank());
            if axis == 0 {
                let len: Dim = ty.shape[1..].iter().product();
                let start = slice_index(&self.reversed, i, iteration, &ty.shape[0]) * len;
                cx.region_input_is_part(0, count + i, count + i, start);
            }
        }
    }

    fn lower(&self, cx: &mut Lower<'_>) -> Result {
        let inputs = cx.node().inputs.len();
        let count = self.carried_count(inputs);
        // Inference fails without a scan input, which determines the number of iterations.
        let first = cx.ty(count)?;
        let iteration = cx.node().binds[0].clone();
        let iterations =
            first.shape[cx.axis(self.axes.first().copied().unwrap_or(0), first.rank())].clone();
        let mut body = cx.body(0)?;
        let results = std::mem::take(&mut body.results);
        let (mut carried, sizes) =
            loop_carried::lower(cx, &self.carried(inputs), &results[..count])?;
        loop_carried::copy_overwritten(cx, &mut carried, &mut body);
        self.copy_slices(cx, &mut body, &iteration)?;
        let (mut stacked, mut common, mut moved) = (Vec::new(), Vec::new(), Vec::new());
        for (i, item) in results.into_iter().skip(count).enumerate() {
            let Some(all) = cx.optional_output(count + i)? else { continue };
            let shape = &cx.output_ty(count + i)?.shape;
            let axis = cx.axis(self.output_axes.get(i).copied().unwrap_or(0), shape.len());
            let at = slice_index(&self.reversed_outputs, i, &iteration, &iterations);
            let mut outside = shape.clone();
            outside.remove(axis);
            let item_sizes = loop_carried::item_sizes(cx, count + i, count + i, &outside)?;
            if !item_sizes.is_empty() {
                common.extend(item_sizes);
                let is_moved = axis != 0 || self.reversed_outputs.get(i) == Some(&true);
                let all = if is_moved { cx.like(&all) } else { all };
                stacked.push(Stacked { item, all: all.clone(), at: None });
                if is_moved {
                    let len = outside.iter().product();
                    moved.push((
                        count + i,
                        element_of(&all, &Dim::symbol(&iteration), &len),
                        axis,
                        at,
                    ));
                }
                continue;
            }
            if axis == 0 {
                let at = Some(at * &item.len);
                stacked.push(Stacked { item, all, at });
                continue;
            }
            fill_with_zeros(cx, count + i)?;
            let dtype = cx.output_ty(count + i)?.dtype;
            let geometry = Strided::part(shape, axis, &at, &1.into());
            let (item, all) = (vec![item.into()], vec![all.into()]);
            let copy = |cx: &mut Lower<'_>| cx.call_on(&CONCAT, dtype, item, all, geometry);
            body.steps.extend(cx.steps_of(copy)?);
        }
        let most = Some(TripCount::Size(iterations));
        let iterations = plan::Loop::new(cx.comment(), iteration.clone(), body);
        let iterations =
            plan::Loop { most: most.clone(), carried, stacked, sizes, common, ..iterations };
        cx.step(Step::Loop(iterations));
        // The sizes of the items are known after the loop, so a second loop moves the items to
        // their final positions.
        for (i, item, axis, at) in moved {
            fill_with_zeros(cx, i)?;
            let TensorType { dtype, shape } = cx.output_ty(i)?;
            let geometry = Strided::part(shape, axis, &at, &1.into());
            let (item, all) = (vec![item.into()], vec![cx.output(i)?.into()]);
            let copy = |cx: &mut Lower<'_>| cx.call_on(&CONCAT, *dtype, item, all, geometry);
            let body = Block { steps: cx.steps_of(copy)?, ..Block::default() };
            let iterations = plan::Loop::new(cx.comment(), iteration.clone(), body);
            cx.step(Step::Loop(plan::Loop { most: most.clone(), ..iterations }));
        }
        Ok(())
    }

    fn gradient(&self, g: &mut Gradient<'_>) -> Result {
        super::gradient::differentiate_scan(g, self)
    }
}

impl Scan {
    /// Prepends the steps that copy the non-contiguous slices of scan inputs to the body's inputs.
    fn copy_slices(&self, cx: &mut Lower<'_>, body: &mut Block, iteration: &Symbol) -> Result {
        let count = self.carried_count(cx.node().inputs.len());
        let mut copies = Vec::new();
        for i in 0..self.scanned {
            let TensorType { dtype, shape } = cx.ty(count + i)?;
            let axis = cx.axis(self.axes.get(i).copied().unwrap_or(0), shape.len());
            if axis == 0 {
                continue;
            }
            let at = slice_index(&self.reversed, i, iteration, &shape[axis]);
            let geometry = Strided::part(shape, axis, &at, &1.into());
            let x = vec![cx.input(count + i)?.into()];
            let y = vec![cx.region_input(0, count + i)?.into()];
            let copy = |cx: &mut Lower<'_>| cx.call_on(&SPLIT, *dtype, x, y, geometry);
            copies.extend(cx.steps_of(copy)?);
        }
        body.steps.splice(0..0, copies);
        Ok(())
    }
}

/// Fills output `i` with zeros, so that each iteration may write a slice of it.
fn fill_with_zeros(cx: &mut Lower<'_>, i: usize) -> Result {
    let (dtype, y) = (cx.output_ty(i)?.dtype, cx.output(i)?.into());
    let zero = Literal::first(&Array::zeroed(dtype, 1).into_tensor(Vec::new()));
    cx.call_on(&CONSTANT_OF_SHAPE, dtype, Vec::new(), vec![y], (zero,))
}

/// `Scan` of version 8: scans each sample of a batch along axis 1, as far as input 0,
/// `sequence_lens`, specifies.
struct BatchedScan {
    /// The number of scan inputs, which follow the initial values of the loop-carried values.
    scanned: usize,
    /// Whether each scan input is scanned backward.
    reversed: Vec<bool>,
}

/// Reads `Scan` of version 8.
pub fn read_batched(node: &mut Reader<'_>) -> Result<Rc<dyn Op>> {
    let scan = BatchedScan { scanned: scanned(node)?, reversed: flags(node, "directions")? };
    node.region("body")?;
    Ok(Rc::new(scan))
}

static ITERATIONS: Kernel<(Dim,)> = kernel!(checked I64_ONLY T, slice::scan_iterations,
    |f, a, p| f(a.sizes(), a.optional::<T>(0), p.0));

impl BatchedScan {
    /// The number of loop-carried values, whose initial values follow input 0, the lengths.
    fn carried_count(&self, inputs: usize) -> usize {
        inputs.saturating_sub(1 + self.scanned)
    }
}

impl Op for BatchedScan {
    fn name(&self) -> &'static str {
        "Scan"
    }

    fn attributes(&self, a: &mut Attributes) {
        a.region("body", 0);
        a.int("num_scan_inputs", self.scanned as i64);
        a.ints("directions", &flags_as_ints(&self.reversed));
    }

    // No later version of `Scan` can express it.
    fn domain(&self) -> Domain {
        Domain::Internal
    }

    fn region_inputs(&self, _: usize, cx: &mut Infer<'_>) -> Inferred {
        let count = self.carried_count(cx.given());
        let axes = |i: usize| if i < count { 1 } else { 2 };
        let inner = |i: usize| {
            let ty = cx.ty(1 + i)?;
            let shape = ty.shape.get(axes(i)..).ok_or_else(|| {
                let message = format!("input {} needs {}", 1 + i, counted(axes(i), "axis"));
                cx.diagnostic(Code::ShapeMismatch, message)
            })?;
            Ok(Type::tensor(ty.dtype, shape))
        };
        (0..count + self.scanned).map(inner).collect()
    }

    fn infer(&self, cx: &mut Infer<'_>) -> Inferred {
        let count = self.carried_count(cx.given());
        let inputs = self.region_inputs(0, cx)?;
        let [batch, iterations, ..] = cx.shape(1 + count)? else { return Err(Stop::Unknown) };
        if cx.has(0) {
            let [lengths] = cx.shape(0)? else {
                let message = "the lengths of the sequences must have one axis";
                return Err(cx.diagnostic(Code::ShapeMismatch, message));
            };
            cx.require_equal(batch, lengths, "the sizes of the batch")?;
        }
        for i in 0..count + self.scanned {
            let shape = cx.shape(1 + i)?;
            cx.require_equal(batch, &shape[0], "the sizes of the batch")?;
            if i >= count {
                cx.require_equal(iterations, &shape[1], "the numbers of slices of two inputs")?;
            }
        }
        let bounds = [cx.upper(batch), cx.upper(iterations)];
        cx.fresh("batch_iteration", bounds[0]);
        cx.fresh("iteration", bounds[1]);
        cx.fresh("iterations", bounds[1]);
        let mut types = Vec::new();
        for (i, item) in cx.region_results(0).iter().enumerate() {
            let Type::Tensor(item) = item else { return Err(Stop::Unknown) };
            if item.shape.iter().any(|size| cx.region_settles(0, size)) {
                return Err(Stop::Found(data_dependent_item(item)));
            }
            let outer = if i < count {
                &cx.shape(1 + i)?[..1]
            } else {
                &[batch.clone(), iterations.clone()]
            };
            if i < count && Some(item) != inputs[i].as_tensor() {
                let message = format!(
                    "the type of a loop-carried value changes from {} to {item}",
                    inputs[i]
                );
                return Err(cx.diagnostic(Code::ShapeMismatch, message));
            }
            let shape = outer.iter().chain(&item.shape).cloned().collect();
            types.push(TensorType { dtype: item.dtype, shape }.into());
        }
        Ok(types)
    }

    fn views(&self, cx: &mut Views<'_>) {
        let count = self.carried_count(cx.inputs());
        for i in count..count + self.scanned {
            let (Some(ty), [batch, iteration, iterations]) = (cx.ty(1 + i), cx.binds()) else {
                continue;
            };
            let index = slice_index(&self.reversed, i - count, iteration, &Dim::symbol(iterations));
            let len: Dim = ty.shape[2..].iter().product();
            let start = (Dim::symbol(batch) * &ty.shape[1] + index) * len;
            cx.region_input_is_part(0, i, 1 + i, start);
        }
    }

    fn lower(&self, cx: &mut Lower<'_>) -> Result {
        let count = self.carried_count(cx.node().inputs.len());
        let [batch, iteration, iterations] = cx.node().binds.as_slice() else {
            unreachable!("`infer` defines three symbols")
        };
        let at = Dim::symbol(batch);
        let shape = cx.ty(1 + count)?.shape.clone();
        let mut body = cx.body(0)?;
        let results = std::mem::take(&mut body.results);
        let mut carried = Vec::new();
        for (j, next) in results[..count].iter().enumerate() {
            let value = cx.region_input(0, j)?;
            let initial = cx.input(1 + j)?;
            let initial = element_of(&initial, &at, &value.len);
            carried.push(Carried { initial, value, next: next.clone() });
        }
        loop_carried::copy_overwritten(cx, &mut carried, &mut body);
        let mut stacked = Vec::new();
        for (i, item) in results.into_iter().enumerate().skip(count) {
            let Some(all) = cx.optional_output(i)? else { continue };
            fill_with_zeros(cx, i)?;
            let at = Some((&at * &shape[1] + Dim::symbol(iteration)) * &item.len);
            stacked.push(Stacked { item, all, at });
        }
        let mut steps = vec![self.count_iterations(cx, &at, iterations, &shape[1])?];
        let finals: Vec<Operand> = carried.iter().map(|carried| carried.value.clone()).collect();
        let most = Some(TripCount::Size(Dim::symbol(iterations)));
        let inner = plan::Loop::new(cx.comment(), iteration.clone(), body);
        let inner = plan::Loop { most, carried, stacked, ..inner };
        steps.push(Step::Loop(inner));
        for (j, value) in finals.into_iter().enumerate() {
            let Some(all) = cx.optional_output(j)? else { continue };
            fill_with_zeros(cx, j)?;
            let to = element_of(&all, &at, &value.len);
            steps.push(cx.copy_step(value, to));
        }
        let body = Block { steps, ..Block::default() };
        let outer = plan::Loop::new(cx.comment(), batch.clone(), body);
        cx.step(Step::Loop(plan::Loop { most: Some(TripCount::Size(shape[0].clone())), ..outer }));
        Ok(())
    }

    fn gradient(&self, g: &mut Gradient<'_>) -> Result {
        super::gradient::differentiate_batched_scan(g, self.scanned, &self.reversed)
    }
}

/// The diagnostic for an item with a data-dependent size.
fn data_dependent_item(item: &TensorType) -> Diagnostic {
    let message = format!(
        "an iteration produces {item}, which has a data-dependent size: `Scan` of version 8 does \
         not support that yet"
    );
    Diagnostic::new(Code::Unsupported, message)
        .help("convert the model to operator set 9 or a newer one: its `Scan` does")
}

/// Element `at` of an operand along its first axis, which has `len` elements.
fn element_of(all: &Operand, at: &Dim, len: &Dim) -> Operand {
    Operand { buffer: all.buffer, start: &all.start + at * len, len: len.clone() }
}

impl BatchedScan {
    /// The call that defines the number of iterations of sample `at` of the batch.
    fn count_iterations(
        &self,
        cx: &mut Lower<'_>,
        at: &Dim,
        iterations: &Symbol,
        most: &Dim,
    ) -> Result<Step> {
        let lens = cx.optional(0)?.map(|lens| element_of(&lens, at, &1.into()));
        let mut call = Call::new(cx.comment(), &ITERATIONS, DType::I64, (most.clone(),));
        call.inputs.push(lens.into());
        call.binds = vec![iterations.clone()];
        Ok(Step::Call(call))
    }
}
