//! Slices of tensors: `Slice`, `ReverseSequence` and `Trilu`.

use super::{Entry, entry};
use crate::{
    diag::{Code, Result},
    dim::Dim,
    dtype::{ANY, DType},
    ir::{Attributes, Expr, Gradient, Graph, Infer, Inferred, Lower, Node, Op, Views},
    plan::{
        Arg, Kernel,
        geometry::{Axis, BatchedMatrices, Strided, strides},
        kernel,
    },
    ty::Type,
};
use std::{ops::Range, rc::Rc};

pub const OPS: &[Entry] = &[
    entry("ReverseSequence", 10, |node| {
        let (batch_axis, time_axis) = (node.int("batch_axis", 1)?, node.int("time_axis", 0)?);
        Ok(Rc::new(ReverseSequence { batch_axis, time_axis }))
    }),
    entry("Slice", 1, |node| {
        node.ints_as_input("starts", 1)?;
        node.ints_as_input("ends", 2)?;
        node.ints_as_input("axes", 3)?;
        Ok(Rc::new(Slice))
    }),
    entry("Slice", 10, |_| Ok(Rc::new(Slice))),
    entry("Trilu", 14, |node| Ok(Rc::new(Trilu { upper: node.flag("upper", true)? }))),
];

/// Slices of the input along axes. Inputs: data, starts, ends, axes, steps.
pub struct Slice;

static SLICE: Kernel<Strided> =
    kernel!(moves T, slice::slice::<T>, |f, a, p| f(a.input(0), a.output(0), p));

static DYNAMIC: Kernel<(Vec<Dim>,)> = kernel!(checked moves T, slice::slice_dynamic::<T, i64>,
|f, a, p| {
    let (axes, steps) = (a.optional_indices(3), a.optional_indices(4));
    let (axes, steps) = (axes.as_deref(), steps.as_deref());
    f(a.input(0), &a.indices(1), &a.indices(2), axes, steps, a.output(0), p.0)
});
static SIZES: Kernel<(Vec<Dim>,)> = kernel!(checked INDICES I, slice::slice_sizes::<I>,
    |f, a, p| f(a.sizes(), a.input(0), a.input(1), a.optional(2), a.optional(3), p.0));

/// The slice of one axis: `len` elements from `start` on, `step` apart.
#[derive(Clone, Debug, PartialEq)]
struct Cut {
    start: Dim,
    step: i64,
    len: Dim,
}

/// A bound that is beyond any axis of unknown size: exporters write it for "to the end".
const FAR: i64 = i32::MAX as i64;

impl Cut {
    fn all(size: &Dim) -> Cut {
        Cut { start: 0.into(), step: 1, len: size.clone() }
    }

    fn of(size: &Dim, start: &Dim, end: &Dim, step: i64) -> Cut {
        // A longer step takes the same element, and the products of steps would exceed 64 bits.
        let longest = size.known().unwrap_or(FAR).max(1);
        let step = step.clamp(-longest, longest);
        // A backward slice has the elements of the forward slice whose bounds are one higher.
        let backward = i64::from(step < 0);
        let (start, end) =
            (resolve_bound(size, start, backward), resolve_bound(size, end, backward));
        let (low, high) = if step < 0 { (&end, &start) } else { (&start, &end) };
        let high = match backward {
            0 if is_size(&(size - high), size) => high.clone(),
            0 => clamp(high, size),
            // Unlike in Python, a backward slice starts at an element.
            _ => high.at_least(&1.into()).at_most(size),
        };
        let span = &high - low;
        // If `low` may be negative, the span is at most `high`.
        let span = if low.is_size() { span } else { high.at_least(&0.into()).at_most(&span) };
        let span = if is_size(&span, size) { span } else { span.at_least(&0.into()) };
        let len = span.ceil_div(&step.abs().into());
        let first = if step < 0 { (&high - 1).at_least(&0.into()) } else { clamp(low, size) };
        Cut { start: first, step, len }
    }

    fn is_all(&self, size: &Dim) -> bool {
        *self == Cut::all(size)
    }
}

/// Returns a bound counted from the front, plus `above`; a negative bound counts from the end.
fn resolve_bound(size: &Dim, at: &Dim, above: i64) -> Dim {
    match at.known() {
        Some(n) if n >= FAR && size.known().is_none() => size.clone(),
        Some(n) if n <= -FAR && size.known().is_none() => 0.into(),
        Some(n) if n < 0 => size + at + above,
        _ if at.is_size() => at + above,
        _ => at + size * at.less(&0.into()) + above,
    }
}

fn clamp(place: &Dim, size: &Dim) -> Dim {
    let low = place.at_least(&0.into());
    if is_size(&(size - place), size) { low } else { low.at_most(size) }
}

/// Returns whether `dim` is never negative, given that `size`, the size of an axis, is not.
fn is_size(dim: &Dim, size: &Dim) -> bool {
    dim.is_size() || (dim - size).is_size()
}

/// Returns the slice of each axis, if compile-time values determine it.
fn cuts<'a>(
    shape: &[Dim],
    known: impl Fn(usize) -> Option<&'a [Dim]>,
    has: impl Fn(usize) -> bool,
) -> Option<Vec<Cut>> {
    let (starts, ends) = (known(1)?, known(2)?);
    let numbers = |i: usize| known(i)?.iter().map(Dim::known).collect::<Option<Vec<i64>>>();
    let axes = if has(3) { Some(numbers(3)?) } else { None };
    let steps = if has(4) { Some(numbers(4)?) } else { None };
    let rank = i64::try_from(shape.len()).ok()?;
    let mut cuts: Vec<Cut> = shape.iter().map(Cut::all).collect();
    for (i, (start, end)) in starts.iter().zip(ends).enumerate() {
        let axis = match &axes {
            Some(axes) => usize::try_from(axes.get(i)?.checked_rem_euclid(rank)?).ok()?,
            None => i,
        };
        let step = steps.as_ref().map_or(Some(&1), |steps| steps.get(i))?;
        *cuts.get_mut(axis)? = Cut::of(shape.get(axis)?, start, end, *step);
    }
    Some(cuts)
}

/// Returns the axis and the elements of a slice of one axis in steps of 1, if compile-time values
/// determine it.
pub fn sliced_range(graph: &Graph, slice: &Node) -> Option<(usize, Range<i64>)> {
    slice.op.downcast::<Slice>()?;
    let shape = &graph[slice.input(0)?].ty.as_tensor()?.shape;
    let known = |i: usize| graph[slice.input(i)?].known.as_deref();
    let cuts = cuts(shape, known, |i| slice.input(i).is_some())?;
    let mut cut = cuts.iter().enumerate().filter(|&(axis, cut)| !cut.is_all(&shape[axis]));
    let (Some((axis, cut)), None) = (cut.next(), cut.next()) else { return None };
    let start = cut.start.known().filter(|_| cut.step == 1)?;
    Some((axis, start..start + cut.len.known()?))
}

/// Returns the first element of the slice if it is contiguous: only one axis is sliced, with step
/// 1, and all axes before it have size 1.
fn contiguous(shape: &[Dim], cuts: &[Cut]) -> Option<Dim> {
    let cut = |axis: &usize| !cuts[*axis].is_all(&shape[*axis]);
    let Some(axis) = (0..shape.len()).find(cut) else { return Some(0.into()) };
    let Axis { outer, inner, .. } = Axis::of(shape, axis);
    let one_piece = outer.known() == Some(1) && cuts[axis].step == 1;
    let others_whole = !(axis + 1..shape.len()).any(|axis| cut(&axis));
    (one_piece && others_whole).then(|| &cuts[axis].start * inner)
}

impl Slice {
    /// Checks the inputs, and returns the sliced axes, if they are known. The kernel checks
    /// lengths that are unknown.
    fn axes(cx: &Infer<'_>, rank: usize) -> Inferred<Option<Vec<usize>>> {
        let mut counts = Vec::new();
        for i in (1..cx.inputs()).filter(|&i| cx.has(i)) {
            cx.same_dtype(1, i)?;
            if let [len] = cx.shape(i)?
                && len.known().is_none()
            {
                continue;
            }
            counts.push((i, cx.count(i)?));
        }
        let Some(&(_, count)) = counts.first() else { return Ok(None) };
        if let Some((i, _)) = counts.iter().find(|(_, other)| *other != count) {
            let message = format!("there are {count} starts, but input {i} differs in length");
            return Err(cx.diagnostic(Code::ShapeMismatch, message));
        }
        if cx.ints(4).is_some_and(|steps| steps.contains(&0)) {
            return Err(cx.diagnostic(Code::BadAttribute, "a step is 0"));
        }
        if !cx.has(3) {
            let axes: Vec<i64> = (0..count).filter_map(|axis| i64::try_from(axis).ok()).collect();
            return cx.axes("axes", &axes, rank).map(Some);
        }
        cx.ints(3).map(|axes| cx.axes("axes", &axes, rank)).transpose()
    }
}

impl Op for Slice {
    fn name(&self) -> &'static str {
        "Slice"
    }

    fn infer(&self, cx: &mut Infer<'_>) -> Inferred {
        let ty = cx.of(0, ANY)?;
        let mut shape = ty.shape.clone();
        let axes = Slice::axes(cx, shape.len())?;
        let Some(cuts) = cuts(&shape, |i| cx.known(i), |i| cx.has(i)) else {
            let axes = axes.unwrap_or_else(|| (0..shape.len()).collect());
            let most: Vec<_> = axes.iter().map(|&axis| cx.upper(&shape[axis])).collect();
            for (axis, size) in axes.into_iter().zip(cx.fresh_sizes(most)) {
                shape[axis] = size;
            }
            return Ok(vec![Type::tensor(ty.dtype, shape)]);
        };
        if let (Some(known), [cut]) = (cx.known(0), cuts.as_slice())
            && let (Some(start), Some(len)) = (cut.start.known(), cut.len.known())
        {
            let indices = (0..len).map(|i| usize::try_from(start + i * cut.step));
            let elements = indices.map(|index| known.get(index.ok()?).cloned());
            if let Some(elements) = elements.collect() {
                cx.set_known(0, elements);
            }
        }
        Ok(vec![Type::tensor(ty.dtype, cuts.into_iter().map(|cut| cut.len))])
    }

    fn views(&self, cx: &mut Views<'_>) {
        let Some(ty) = cx.ty(0) else { return };
        let cuts = cuts(&ty.shape, |i| cx.known(i), |i| cx.node().input(i).is_some());
        if let Some(start) = cuts.and_then(|cuts| contiguous(&ty.shape, &cuts)) {
            cx.view(0, 0, start);
        }
    }

    fn lower(&self, cx: &mut Lower<'_>) -> Result {
        let shape = &cx.ty(0)?.shape;
        let Some(cuts) = cuts(shape, |i| cx.known(i), |i| cx.has(i)) else {
            return lower_dynamic(cx, shape);
        };
        if contiguous(shape, &cuts).is_some() {
            return Ok(());
        }
        let (y, strides) = (cx.output_ty(0)?, strides(shape));
        let each = || cuts.iter().zip(&strides);
        let start = each().map(|(cut, stride)| &cut.start * stride).sum();
        let steps = each().map(|(cut, stride)| stride * cut.step).collect();
        let (input, output) = (cx.input(0)?.into(), cx.output(0)?.into());
        let geometry = Strided::of(&y.shape, steps, start);
        cx.call_on(&SLICE, y.dtype, vec![input], vec![output], geometry)
    }

    /// Pads `dy` with zeros if the slice is known and has no steps.
    fn gradient(&self, g: &mut Gradient<'_>) -> Result {
        let (x, y, Some(dy)) = (g.x(0), g.y(0), g.dy(0)) else { return Ok(()) };
        let known = g.tape().look(|graph| {
            let known = |i: usize| graph[g.node().input(i)?].known.as_deref();
            cuts(&x.dims(), known, |i| g.has(i))
        });
        let starts: Option<Vec<i64>> = known.and_then(|cuts| {
            cuts.iter().map(|cut| cut.start.known().filter(|_| cut.step == 1)).collect()
        });
        let Some(starts) = starts else { return g.move_back(0) };
        let before = g.tape().ints(&starts);
        let after = x.shape() - before - y.shape();
        g.set(0, dy.pad(g.tape().concat(&[before, after])));
        Ok(())
    }
}

/// Calls the kernels for bounds that are known only at run time.
fn lower_dynamic(cx: &mut Lower<'_>, shape: &[Dim]) -> Result {
    let (y, bounds) = (cx.output_ty(0)?.dtype, cx.ty(1)?.dtype);
    let (starts, ends) = (Arg::from(cx.input(1)?), Arg::from(cx.input(2)?));
    let (axes, steps) = (Arg::from(cx.optional(3)?), Arg::from(cx.optional(4)?));
    // Only these axes have sizes that depend on the bounds.
    let (named, from) = match cx.ints(3) {
        Some(axes) => {
            let sizes = axes.iter().map(|&axis| shape[cx.axis(axis, shape.len())].clone());
            (Arg::Optional(None), sizes.collect())
        }
        None if cx.has(3) => (axes.clone(), shape.to_vec()),
        None => (axes.clone(), shape[..cx.node().binds.len()].to_vec()),
    };
    cx.bind(&SIZES, bounds, vec![starts.clone(), ends.clone(), named, steps.clone()], (from,))?;
    let (x, output) = (cx.input(0)?.into(), cx.output(0)?.into());
    let inputs = vec![x, starts, ends, axes, steps];
    cx.call_on(&DYNAMIC, y, inputs, vec![output], (shape.to_vec(),))
}

/// The input with the first elements of each sequence reversed; input 1 holds their numbers.
pub struct ReverseSequence {
    /// The axis of the sequences.
    pub batch_axis: i64,
    /// The axis of their elements.
    pub time_axis: i64,
}

static REVERSE: Kernel<Axis> = kernel!(checked moves T, slice::reverse_sequence::<T>,
    |f, a, p| f(a.input(0), a.input(1), a.output(0), p));
static REVERSE_TIME_MAJOR: Kernel<Axis> = kernel!(
    checked moves T, slice::reverse_sequence_time_major::<T>,
    |f, a, p| f(a.input(0), a.input(1), a.output(0), p));

impl Op for ReverseSequence {
    fn name(&self) -> &'static str {
        "ReverseSequence"
    }

    fn attributes(&self, a: &mut Attributes) {
        a.int("batch_axis", self.batch_axis);
        a.int("time_axis", self.time_axis);
    }

    fn infer(&self, cx: &mut Infer<'_>) -> Inferred {
        let ty = cx.of(0, ANY)?.clone();
        let axes = [self.batch_axis, self.time_axis];
        if !matches!(axes, [0, 1] | [1, 0]) || ty.rank() < 2 {
            let message = format!("`batch_axis` and `time_axis` are {axes:?}, not 0 and 1");
            return Err(cx.diagnostic(Code::BadAttribute, message));
        }
        cx.of(1, &[DType::I64])?;
        let lengths = cx.ranked(1, 1)?.shape[0].clone();
        let sequences = &ty.shape[usize::from(self.batch_axis == 1)];
        cx.require_equal(&lengths, sequences, "the numbers of lengths and of sequences")?;
        Ok(vec![ty.into()])
    }

    fn lower(&self, cx: &mut Lower<'_>) -> Result {
        let [outer, len, inner @ ..] = cx.ty(0)?.shape.as_slice() else {
            unreachable!("`infer` checked the rank")
        };
        let kernel = if self.batch_axis == 0 { &REVERSE } else { &REVERSE_TIME_MAJOR };
        let inner = inner.iter().product();
        cx.call(kernel, Axis { outer: outer.clone(), len: len.clone(), inner })
    }

    fn gradient(&self, g: &mut Gradient<'_>) -> Result {
        let ReverseSequence { batch_axis, time_axis } = *self;
        if let Some(dy) = g.dy(0) {
            g.set(0, dy.apply(ReverseSequence { batch_axis, time_axis }, &[g.x(1)]));
        }
        Ok(())
    }
}

/// A triangle of each matrix, with zeros elsewhere. Input 1 is the index of its diagonal.
pub struct Trilu {
    /// Whether it is the upper triangle.
    pub upper: bool,
}

static TRIU: Kernel<BatchedMatrices> = kernel!(moves T, slice::triu::<T>,
    |f, a, p| f(a.input(0), a.optional(1), a.output(0), p),
    in_place triu_in_place::<T> |f, a, p| f(a.output(0), a.optional(0), p));
static TRIL: Kernel<BatchedMatrices> = kernel!(moves T, slice::tril::<T>,
    |f, a, p| f(a.input(0), a.optional(1), a.output(0), p),
    in_place tril_in_place::<T> |f, a, p| f(a.output(0), a.optional(0), p));

impl Op for Trilu {
    fn name(&self) -> &'static str {
        "Trilu"
    }

    fn attributes(&self, a: &mut Attributes) {
        a.flag("upper", self.upper);
    }

    fn infer(&self, cx: &mut Infer<'_>) -> Inferred {
        let ty = cx.of(0, ANY)?;
        if ty.rank() < 2 {
            return Err(cx.diagnostic(Code::ShapeMismatch, "the input must have two axes or more"));
        }
        if cx.has(1) {
            cx.of(1, &[DType::I64])?;
            cx.require_one_element(1)?;
        }
        Ok(vec![ty.clone().into()])
    }

    fn lower(&self, cx: &mut Lower<'_>) -> Result {
        let ty = cx.ty(0)?;
        let [count @ .., rows, columns] = ty.shape.as_slice() else {
            unreachable!("`infer` checked the rank")
        };
        let planes = BatchedMatrices {
            count: count.iter().product(),
            rows: rows.clone(),
            columns: columns.clone(),
        };
        let kernel = if self.upper { &TRIU } else { &TRIL };
        let inputs = vec![cx.input(0)?.into(), cx.optional(1)?.into()];
        let output = cx.output(0)?.into();
        cx.call_on(kernel, ty.dtype, inputs, vec![output], planes)
    }

    fn gradient(&self, g: &mut Gradient<'_>) -> Result {
        if let Some(dy) = g.dy(0) {
            let op = Rc::new(Trilu { upper: self.upper });
            g.set(0, g.tape().node(op, &[Some(dy), g.optional(1)], 1)[0]);
        }
        Ok(())
    }
}

impl<'t> Expr<'t> {
    /// Returns the elements from `start` on, along an axis.
    pub fn from(self, start: i64, axis: i64) -> Expr<'t> {
        self.between(self.tape.ints(&[start]), self.tape.ints(&[i64::MAX]), axis)
    }

    /// Returns the elements from `start` to before `end`, along an axis.
    pub fn between(self, start: Expr<'t>, end: Expr<'t>, axis: i64) -> Expr<'t> {
        self.apply(Slice, &[start, end, self.tape.ints(&[axis])])
    }

    /// Returns the first elements along each axis, as many as `like` has.
    pub fn first_of(self, like: Expr<'t>) -> Expr<'t> {
        if self.dims() == like.dims() {
            return self;
        }
        self.apply(Slice, &[self.tape.ints(&vec![0; self.rank()]), like.shape()])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::testing::{Given, check, tensor};
    use DType::{F32, I64};

    fn n() -> Dim {
        Dim::symbol("n")
    }

    /// Returns the indices that ONNX's definition gives.
    fn expected_indices(size: i64, start: i64, end: i64, step: i64) -> Vec<i64> {
        let from_front = |at: i64| if at < 0 { at + size } else { at };
        let (lowest, highest) = if step > 0 { (0, size) } else { (-1, size - 1) };
        let mut at = from_front(start).max(0).min(highest);
        let end = from_front(end).clamp(lowest, highest);
        let mut indices = Vec::new();
        while (step > 0 && at < end) || (step < 0 && at > end) {
            indices.push(at);
            at = at.saturating_add(step);
        }
        indices
    }

    #[test]
    fn every_small_slice_is_as_defined_for_known_and_symbolic_sizes() {
        let bounds = [i64::MIN, -FAR, -6, -3, -2, -1, 0, 1, 2, 3, 6, FAR, i64::MAX];
        let mut all = Vec::new();
        for (i, &start) in bounds.iter().enumerate() {
            all.extend(bounds[i % 2..].iter().map(|&end| (start, end)));
        }
        for step in [i64::MIN, -4, -2, -1, 1, 2, 4, i64::MAX] {
            for &(start, end) in &all {
                for size in 0..6 {
                    let m = Dim::symbol("m");
                    let eval = |dim: &Dim| dim.eval(&|name| if name == "m" { start } else { size });
                    let sizes = [n(), size.into()];
                    let starts = [Dim::from(start), m - 0];
                    for (size_of, start_of) in
                        sizes.iter().flat_map(|size| starts.iter().map(move |start| (size, start)))
                    {
                        // A size with a symbol is not negative.
                        if start < 0 && start_of.known().is_none() {
                            continue;
                        }
                        let cut = Cut::of(size_of, start_of, &end.into(), step);
                        let first = eval(&cut.start);
                        let actual: Vec<i64> =
                            (0..eval(&cut.len)).map(|i| first + i * cut.step).collect();
                        let text = format!("{size_of:?}[{start_of:?}:{end}:{step}] at {size}");
                        assert_eq!(actual, expected_indices(size, start, end, step), "{text}");
                        assert!((0..=size).contains(&first), "{text} starts at {first}");
                    }
                }
            }
        }
    }

    #[test]
    fn bounds_of_either_sign_count_from_either_end() {
        for size in 0..6 {
            for (back, end) in (0..8).flat_map(|back| (-4..8).map(move |end| (back, end))) {
                let eval = |dim: &Dim| dim.eval(&|_| size);
                let cut = Cut::of(&n(), &(n() - back), &end.into(), 1);
                let actual: Vec<i64> = (0..eval(&cut.len)).map(|i| eval(&cut.start) + i).collect();
                assert_eq!(
                    actual,
                    expected_indices(size, size - back, end, 1),
                    "{size} {back} {end}"
                );
            }
        }
    }

    #[test]
    fn inferred_sizes_are_simple_expressions() {
        let slice = |start, end, expected| {
            let inputs = [tensor(F32, [n()]), Given::Ints(vec![start]), Given::Ints(vec![end])];
            check(Slice, &inputs, 1, expected);
        };
        slice(0, i64::MAX, "float[n]");
        slice(0, -1, "float[n.saturating_sub(1)]");
        slice(1, -1, "float[n.saturating_sub(2)]");
        slice(-2, i64::MAX, "float[n.min(2)]");
        slice(0, 3, "float[n.min(3)]");
        let sizes = |dim: Dim| Given::Sizes(vec![dim]);
        let inputs = [tensor(F32, [1024]), sizes(n()), sizes(n() + 7)];
        check(Slice, &inputs, 1, "float[(n + 7).min(1024).saturating_sub(n)]");
    }

    #[test]
    fn bounds_may_be_known_only_at_run_time() {
        let x = || tensor(F32, [n(), 4.into(), 3.into()]);
        let open = || tensor(I64, [1]);
        let axes = Given::Ints(vec![-2]);
        check(Slice, &[x(), open(), open(), axes], 1, "float[n, y0_0, 3]");
        check(Slice, &[x(), open(), open(), open()], 1, "float[y0_0, y0_1, y0_2]");
        check(Slice, &[x(), open(), open()], 1, "float[y0_0, 4, 3]");
        let expected = "there are 1 starts, but input 2 differs in length";
        check(Slice, &[x(), open(), tensor(I64, [2])], 1, expected);
    }

    #[test]
    fn known_sizes_are_sliced() {
        let sizes = Given::Sizes(vec![n(), 4.into(), n() + 1]);
        let ints = |n| Given::Ints(vec![n]);
        let inputs = [sizes, ints(-1), ints(i64::MIN), ints(0), ints(-2)];
        check(Slice, &inputs, 1, "int64[2] = [n + 1, n]");
    }

    #[test]
    fn only_a_contiguous_slice_is_a_view() {
        let view = |shape: &[i64], bounds: &[(i64, i64)]| {
            let shape: Vec<Dim> = shape.iter().map(|&size| size.into()).collect();
            let each = shape.iter().zip(bounds);
            let cuts: Vec<Cut> = each
                .map(|(size, &(start, end))| Cut::of(size, &start.into(), &end.into(), 1))
                .collect();
            contiguous(&shape, &cuts).and_then(|start| start.known())
        };
        assert_eq!(view(&[1, 5, 3], &[(0, 9), (2, 4), (0, 9)]), Some(6));
        assert_eq!(view(&[2, 5, 3], &[(0, 9), (2, 4), (0, 9)]), None);
        assert_eq!(view(&[1, 5, 3], &[(0, 9), (2, 4), (1, 9)]), None);
        assert_eq!(view(&[1, 5, 3], &[(0, 9), (0, 9), (0, 9)]), Some(0));
    }
}
