//! Lowering of `Resize`: the tables, which are constants if the sizes are fixed, and the kernels
//! that read them.

use super::{
    attributes::{Mode, ROI, Resize, SCALES, SIZES, number},
    known::{Known, Line, Scales},
};
use crate::{
    array::{Array, Element},
    diag::Result,
    dim::Dim,
    dtype::{DType, FLOATS, NUMERIC, dispatch},
    ir::Lower,
    plan::{
        Arg, Kernel, Operand,
        geometry::{self, Picked, Resample},
        kernel,
    },
    tensor::Tensor,
};
use onnxc_runtime::{
    Float, Number,
    kernels::resize::{Coordinates, Filter, Fit, Rounding, filter_table, nearest_table},
};

static REPEAT: Kernel<(Vec<Dim>, Vec<usize>)> = kernel!(moves T, resize::repeat::<T>,
    |f, a, p| f(a.input(0), a.output(0), p.0, p.1));
static NEAREST: Kernel<Picked> = kernel!(moves T, resize::nearest::<T>,
    |f, a, p| f(a.input(0), a.input(1), a.optional(2), a.output(0), p));
static INTERPOLATE: Kernel<Resample> = kernel!(FLOATS T, resize::interpolate::<T>,
    |f, a, p| f(a.input(0), a.input(1), a.input::<<T as Float>::Wide>(2), a.optional(3),
        a.output(0), a.output::<<T as Float>::Wide>(1), p));
static INTERPOLATE_WHOLE: Kernel<Resample> = kernel!(INTEGERS T, resize::interpolate_whole::<T>,
    |f, a, p| f(a.input(0), a.input(1), a.input(2), a.optional(3), a.output(0), a.output(1), p));

static NEAREST_TABLE: Kernel<(geometry::Line, Rounding)> = kernel!(I64_ONLY T,
    resize::nearest_table,
    |f, a, p| f(a.optional(0), a.optional(1), a.output::<T>(0), p.0, p.1));
static FILTER_TABLE: Kernel<(geometry::Line, geometry::Filter)> = kernel!(F32_AND_F64 W,
    resize::filter_table::<W>,
    |f, a, p| f(a.optional(0), a.optional(1), a.output(0), a.output(1), p.0, p.1));
static WIDEN: Kernel = kernel!(FLOATS T, resize::widen::<T>,
    |f, a, _p| f(a.input(0), a.output(0)));
static FITTED_SCALES: Kernel<(Vec<Dim>, Fit)> = kernel!(I64_ONLY T, resize::fitted_scales,
    |f, a, p| f(a.input::<T>(0), a.output(0), p.0, p.1));

static SCALED_SIZES: Kernel<(Vec<Dim>, Vec<usize>)> = kernel!(checked F32_ONLY T,
    resize::scaled_sizes, |f, a, p| f(a.sizes(), a.input::<T>(0), p.0, p.1));
static GIVEN_SIZES: Kernel<(Vec<Dim>,)> = kernel!(checked I64_ONLY T, resize::given_sizes,
    |f, a, p| f(a.sizes(), a.input::<T>(0), p.0));
static FITTED_SIZES: Kernel<(Vec<Dim>, Fit)> = kernel!(checked I64_ONLY T, resize::fitted_sizes,
    |f, a, p| f(a.sizes(), a.input::<T>(0), p.0, p.1));

pub(super) fn lower(op: &Resize, cx: &mut Lower<'_>) -> Result {
    let known = Known::of(op, cx)?;
    bind_sizes(op, cx, &known)?;
    let resized: Vec<Line> =
        known.lines.iter().filter(|line| !line.is_kept(op, &known)).cloned().collect();
    let (Some(first), Some(last)) = (resized.first(), resized.last()) else {
        let (x, y) = (cx.input(0)?, cx.output(0)?);
        cx.copy(x, y);
        return Ok(());
    };
    let span = &known.lines[first.axis..=last.axis];
    match op.mode {
        Mode::Nearest(rounding) => {
            let factors: Option<Vec<usize>> =
                span.iter().map(|line| line.factor(op, &known, rounding)).collect();
            match factors {
                Some(factors) => repeat(cx, span, &factors),
                None => nearest(op, cx, &known, span, rounding),
            }
        }
        Mode::Filter(filter) => interpolate(op, cx, &known, span, &resized, filter),
    }
}

/// Binds the sizes that are known only at run time.
fn bind_sizes(op: &Resize, cx: &mut Lower<'_>, known: &Known) -> Result {
    let named: Vec<&Line> = known.named();
    let from: Vec<Dim> = named.iter().map(|line| line.from.clone()).collect();
    if cx.has(SCALES) {
        let binds = &cx.node().binds;
        let open = |line: &&&Line| line.to.as_symbol().is_some_and(|symbol| binds.contains(symbol));
        let open: Vec<&Line> = named.iter().filter(open).copied().collect();
        let from = open.iter().map(|line| line.from.clone()).collect();
        let at = open.iter().filter_map(|line| line.at).collect();
        let scales = cx.input(SCALES)?.into();
        return cx.bind(&SCALED_SIZES, DType::F32, vec![scales], (from, at));
    }
    let wanted = vec![cx.input(SIZES)?.into()];
    match op.fit {
        Some(fit) => cx.bind(&FITTED_SIZES, DType::I64, wanted, (from, fit)),
        None => cx.bind(&GIVEN_SIZES, DType::I64, wanted, (from,)),
    }
}

fn repeat(cx: &mut Lower<'_>, span: &[Line], factors: &[usize]) -> Result {
    let shape = &cx.ty(0)?.shape;
    let (mut sizes, mut all): (Vec<Dim>, Vec<usize>) = (Vec::new(), Vec::new());
    let named = |axis: usize| {
        span.iter().zip(factors).find(|(line, _)| line.axis == axis).map_or(1, |(_, &f)| f)
    };
    for (axis, size) in shape.iter().enumerate() {
        // Adjacent axes without repetition are merged.
        match (named(axis), all.last()) {
            (1, Some(1)) => {
                let last = sizes.pop().expect("`sizes` and `all` have the same length");
                sizes.push(last * size);
            }
            (factor, _) => {
                sizes.push(size.clone());
                all.push(factor);
            }
        }
    }
    let (x, y) = (cx.input(0)?.into(), cx.output(0)?.into());
    cx.call_on(&REPEAT, cx.ty(0)?.dtype, vec![x], vec![y], (sizes, all))
}

fn nearest(
    op: &Resize,
    cx: &mut Lower<'_>,
    known: &Known,
    span: &[Line],
    rounding: Rounding,
) -> Result {
    let len = span.iter().map(|line| line.to.clone()).sum::<Dim>();
    let tables = if known.has_constant_tables(cx, op, span, &len) {
        let mut tables = Vec::new();
        for line in span {
            let numbers = line.numbers(op, known);
            let mut table = vec![0; numbers.to];
            let scales = known.constant_scales(line);
            nearest_table(scales, known.roi.as_deref(), &mut table, numbers, rounding);
            tables.extend(table);
        }
        cx.weight(&Tensor::from_ints(&tables))
    } else {
        let tables = cx.scratch(DType::I64, len);
        let (scales, roi) = operands(op, cx, known)?;
        let mut start = tables.start.clone();
        for line in span {
            let table = part(&tables, &mut start, &line.to);
            let scales = if line.at.is_some() { scales.clone() } else { None };
            let inputs = vec![Arg::Optional(scales), Arg::Optional(roi.clone())];
            let line = (line.geometry(op, known), rounding);
            cx.call_on(&NEAREST_TABLE, DType::I64, inputs, vec![table.into()], line)?;
        }
        tables
    };
    let geometry = Picked {
        planes: before(cx, span)?,
        from: span.iter().map(|line| line.from.clone()).collect(),
        to: span.iter().map(|line| line.to.clone()).collect(),
        inner: after(cx, span)?,
    };
    let inputs = vec![cx.input(0)?.into(), tables.into(), outside(op, cx)?];
    let y = cx.output(0)?.into();
    cx.call_on(&NEAREST, cx.ty(0)?.dtype, inputs, vec![y], geometry)
}

fn interpolate(
    op: &Resize,
    cx: &mut Lower<'_>,
    known: &Known,
    span: &[Line],
    resized: &[Line],
    filter: Filter,
) -> Result {
    let dtype = cx.ty(0)?.dtype;
    let single = matches!(dtype, DType::F32 | DType::F16 | DType::BF16);
    let wide = if single { DType::F32 } else { DType::F64 };
    // First the axes that shrink the tensor most; among equals the innermost axis, whose step costs
    // most.
    let mut steps: Vec<&Line> = resized.iter().rev().collect();
    steps.sort_by(|a, b| {
        let scale = |line: &Line| line.scale.unwrap_or(1.0);
        scale(a).total_cmp(&scale(b))
    });
    let taps: Vec<Dim> = steps.iter().map(|line| line.taps(known, filter)).collect();
    let place_len = steps.iter().map(|line| line.to.clone()).sum::<Dim>();
    let weight_len = steps.iter().zip(&taps).map(|(line, taps)| &line.to * taps).sum::<Dim>();
    let len = &place_len + &weight_len;
    let (places, weights) = if known.has_constant_tables(cx, op, resized, &len) {
        constant_tables(op, cx, known, &steps, &taps, filter, wide)
    } else {
        let (places, weights) = (cx.scratch(DType::I64, place_len), cx.scratch(wide, weight_len));
        let (scales, roi) = operands(op, cx, known)?;
        let (mut place, mut weight) = (places.start.clone(), weights.start.clone());
        for (line, taps) in steps.iter().zip(&taps) {
            let outputs = vec![
                part(&places, &mut place, &line.to).into(),
                part(&weights, &mut weight, &(&line.to * taps)).into(),
            ];
            let inputs = vec![Arg::Optional(scales.clone()), Arg::Optional(roi.clone())];
            let Filter { curve, a, antialias, exclude_outside } = filter;
            let filter = geometry::Filter { curve, a, antialias, exclude_outside };
            cx.call_on(&FILTER_TABLE, wide, inputs, outputs, (line.geometry(op, known), filter))?;
        }
        (places, weights)
    };
    let inner = after(cx, span)?;
    let scratch = scratch(span, &steps, &inner, dtype == DType::F32);
    let scratch = cx.scratch(wide, scratch);
    let geometry = Resample {
        planes: before(cx, span)?,
        from: span.iter().map(|line| line.from.clone()).collect(),
        to: span.iter().map(|line| line.to.clone()).collect(),
        axes: steps.iter().map(|line| line.axis - span[0].axis).collect(),
        taps,
        inner,
    };
    let inputs = vec![cx.input(0)?.into(), places.into(), weights.into(), outside(op, cx)?];
    let outputs = vec![cx.output(0)?.into(), scratch.into()];
    let kernel = if FLOATS.contains(&dtype) { &INTERPOLATE } else { &INTERPOLATE_WHOLE };
    if let Some(taps) = geometry.taps.last() {
        cx.macs(&(taps * cx.output_ty(0)?.len()));
    }
    cx.call_on(kernel, dtype, inputs, outputs, geometry)
}

/// Computes the tables of weights as constants.
fn constant_tables(
    op: &Resize,
    cx: &mut Lower<'_>,
    known: &Known,
    steps: &[&Line],
    taps: &[Dim],
    filter: Filter,
    wide: DType,
) -> (Operand, Operand) {
    let (mut places, mut weights) = (Vec::new(), Vec::new());
    for (line, taps) in steps.iter().zip(taps) {
        let numbers = line.numbers(op, known);
        let mut table = vec![0; numbers.to];
        let mut rows = vec![0.0; numbers.to * number(taps).unwrap_or(0)];
        let (scales, roi) = (known.constant_scales(line), known.roi.as_deref());
        filter_table(scales, roi, &mut table, &mut rows, numbers, filter);
        places.extend(table);
        weights.extend(rows);
    }
    (cx.weight(&Tensor::from_ints(&places)), cx.weight(&Tensor::from_wide(wide, &weights)))
}

/// Returns the scales and the region of interest as `double`.
fn operands(
    op: &Resize,
    cx: &mut Lower<'_>,
    known: &Known,
) -> Result<(Option<Operand>, Option<Operand>)> {
    let scales = match &known.scales {
        Scales::Ratios => None,
        Scales::Constant(scales) => Some(cx.weight(&Tensor::from_wide(DType::F64, scales))),
        Scales::Dynamic => {
            let scales = cx.scratch(DType::F64, known.axes);
            match op.fit.filter(|_| cx.has(SIZES)) {
                Some(fit) => {
                    let from = known.named().iter().map(|line| line.from.clone()).collect();
                    let (wanted, outputs) = (cx.input(SIZES)?, vec![scales.clone().into()]);
                    let inputs = vec![wanted.into()];
                    cx.call_on(&FITTED_SCALES, DType::I64, inputs, outputs, (from, fit))?;
                }
                None => widen(cx, SCALES, &scales)?,
            }
            Some(scales)
        }
    };
    if op.coordinates != Coordinates::TfCropAndResize {
        return Ok((scales, None));
    }
    let roi = match &known.roi {
        Some(roi) => cx.weight(&Tensor::from_wide(DType::F64, roi)),
        None => {
            let roi = cx.scratch(DType::F64, 2 * known.axes);
            widen(cx, ROI, &roi)?;
            roi
        }
    };
    Ok((scales, Some(roi)))
}

/// Writes input `i` as `double`.
fn widen(cx: &mut Lower<'_>, i: usize, to: &Operand) -> Result {
    let (dtype, inputs) = (cx.ty(i)?.dtype, vec![cx.input(i)?.into()]);
    cx.call_on(&WIDEN, dtype, inputs, vec![to.clone().into()], crate::plan::NoParams)
}

/// Returns the next `len` elements of a buffer, and advances `start`.
fn part(of: &Operand, start: &mut Dim, len: &Dim) -> Operand {
    let part = Operand { buffer: of.buffer, start: start.clone(), len: len.clone() };
    *start = &*start + len;
    part
}

/// Returns the product of the sizes before the axes of `span`.
fn before(cx: &Lower<'_>, span: &[Line]) -> Result<Dim> {
    Ok(cx.ty(0)?.shape[..span[0].axis].iter().product())
}

/// Returns the product of the sizes after the axes of `span`.
fn after(cx: &Lower<'_>, span: &[Line]) -> Result<Dim> {
    Ok(cx.ty(0)?.shape[span[0].axis + span.len()..].iter().product())
}

/// Returns the value outside of the input as a constant; the kernels default to zero.
fn outside(op: &Resize, cx: &mut Lower<'_>) -> Result<Arg> {
    if op.extrapolation == 0.0 || op.coordinates != Coordinates::TfCropAndResize {
        return Ok(Arg::Optional(None));
    }
    let dtype = cx.ty(0)?.dtype;
    if !NUMERIC.contains(&dtype) {
        return Err(cx.unsupported(&format!("`extrapolation_value` for elements of type {dtype}")));
    }
    let value = f64::from(op.extrapolation);
    let value = if FLOATS.contains(&dtype) { value } else { value.round_ties_even() };
    let mut array = Array::zeroed(dtype, 1);
    dispatch!(NUMERIC dtype, T => {
        let element = T::of_mut(&mut array).expect("the array has this element type");
        element[0] = T::from_f64(value);
    });
    Ok(Arg::Optional(Some(cx.weight(&array.into_tensor(Vec::new())))))
}

/// Returns the number of scratch elements: the result between two steps, twice if there are more
/// than two steps; and a plane of the input and of the result, unless they have the type of the
/// weights.
fn scratch(span: &[Line], steps: &[&Line], inner: &Dim, is_direct: bool) -> Dim {
    let size_after = |done: usize| -> Dim {
        let sizes = span.iter().map(|line| {
            let resized = steps[..done].iter().any(|step| step.axis == line.axis);
            if resized { &line.to } else { &line.from }
        });
        sizes.product::<Dim>() * inner
    };
    let between = (1..steps.len()).map(size_after);
    let largest = between.reduce(|a, b| a.at_least(&b)).unwrap_or_else(|| 0.into());
    let between = if steps.len() > 2 { largest * 2 } else { largest };
    if is_direct { between } else { between + size_after(0) + size_after(steps.len()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(axis: usize, from: i64, to: i64) -> Line {
        let scale = Some(to as f64 / from as f64);
        Line { axis, at: Some(axis), from: from.into(), to: to.into(), scale }
    }

    #[test]
    fn scratch_memory_holds_the_results_between_steps() {
        let lines = [line(2, 4, 8), line(3, 6, 3), line(4, 5, 10)];
        let all = |n: usize| lines[..n].iter().rev().collect::<Vec<_>>();
        assert_eq!(scratch(&lines[..1], &all(1), &2.into(), true), 0.into());
        assert_eq!(scratch(&lines[..2], &all(2), &2.into(), true), (4 * 3 * 2).into());
        assert_eq!(scratch(&lines, &all(3), &1.into(), true), (2 * 4 * 6 * 10).into());
        assert_eq!(scratch(&lines[..1], &all(1), &2.into(), false), (8 + 16).into());
    }
}
