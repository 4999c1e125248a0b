//! Padding and cropping: `Pad` and `CenterCropPad`.

use super::{Entry, entry};
use crate::{
    array::Array,
    diag::{Code, Diagnostic, Result, counted},
    dim::Dim,
    dtype::{ANY, DType, INDICES},
    ir::{Attributes, Expr, Gradient, Infer, Inferred, Lower, Op, Reader, Views},
    plan::{
        Arg, Kernel, NoParams,
        formula::Signed,
        geometry::{Pads, Shapes},
        kernel,
    },
    tensor::Tensor,
    ty::Type,
};
use half::{bf16, f16};
use std::rc::Rc;

pub const OPS: &[Entry] = &[
    entry("CenterCropPad", 18, |node| {
        Ok(Rc::new(CenterCropPad { axes: node.maybe_ints("axes")? }))
    }),
    entry("Pad", 1, |node| {
        node.ints_as_input("paddings", 1)?;
        value_as_input(node)?;
        Ok(Rc::new(Pad { mode: mode(node)? }))
    }),
    entry("Pad", 2, |node| {
        node.ints_as_input("pads", 1)?;
        value_as_input(node)?;
        Ok(Rc::new(Pad { mode: mode(node)? }))
    }),
    entry("Pad", 11, |node| Ok(Rc::new(Pad { mode: mode(node)? }))),
];

/// Adds the attribute `value` as an input, as in newer versions.
fn value_as_input(node: &mut Reader<'_>) -> Result {
    let value = node.float("value", 0.0)?;
    if value == 0.0 {
        return Ok(());
    }
    let Some(value) = scalar(node.dtype(0)?, value) else {
        let message = "the input must be of a floating-point type in this version";
        return Err(Diagnostic::new(Code::TypeMismatch, message));
    };
    node.add_input("value", 2, value);
    Ok(())
}

fn scalar(dtype: DType, value: f32) -> Option<Tensor> {
    let array = match dtype {
        DType::F32 => Array::F32(vec![value]),
        DType::F64 => Array::F64(vec![value.into()]),
        DType::F16 => Array::F16(vec![f16::from_f32(value)]),
        DType::BF16 => Array::BF16(vec![bf16::from_f32(value)]),
        _ => return None,
    };
    Some(array.into_tensor(Vec::new()))
}

fn mode(node: &mut Reader<'_>) -> Result<&'static Mode> {
    let modes = [&CONSTANT, &EDGE, &REFLECT, &WRAP].map(|mode| (mode.name, mode));
    node.choice("mode", &modes)
}

/// Selects the elements that padding consists of.
pub struct Mode {
    name: &'static str,
    takes_value: bool,
    kernel: Kernel<Pads>,
    /// The kernel for pads that only the run determines.
    dynamic: Kernel<(Vec<Dim>,)>,
}

/// A mode that pads with elements of the input.
macro_rules! border {
    ($name:literal $kernel:ident $dynamic:ident) => {
        Mode {
            name: $name,
            takes_value: false,
            kernel: kernel!(moves T, pad::$kernel::<T>, |f, a, p| f(a.input(0), a.output(0), p)),
            dynamic: kernel!(checked moves T, pad::$dynamic::<T>,
                |f, a, p| f(a.input(0), a.input(1), a.output(0), p.0)),
        }
    };
}

static CONSTANT: Mode = Mode {
    name: "constant",
    takes_value: true,
    kernel: kernel!(moves T, pad::pad_constant::<T>,
        |f, a, p| f(a.input(0), a.optional(1), a.output(0), p)),
    dynamic: kernel!(checked moves T, pad::pad_constant_dynamic::<T>,
        |f, a, p| f(a.input(0), a.input(1), a.optional(2), a.output(0), p.0)),
};
static EDGE: Mode = border!("edge" pad_edge pad_edge_dynamic);
static REFLECT: Mode = border!("reflect" pad_reflect pad_reflect_dynamic);
static WRAP: Mode = border!("wrap" pad_wrap pad_wrap_dynamic);

/// The input padded, or cropped where a pad is negative. Inputs: data, pads, value, axes.
pub struct Pad {
    /// The elements that padding consists of.
    pub mode: &'static Mode,
}

static SIZES: Kernel<(Vec<Dim>,)> =
    kernel!(checked I64_ONLY T, pad::pad_sizes, |f, a, p| f(a.sizes(), a.input::<T>(0), p.0));
static AXES: Kernel = kernel!(checked INDICES I, pad::pad_axes::<I>,
    |f, a, _p| f(a.input(0), a.input(1), a.output(0)));

/// Returns the pads before and after each axis, if compile-time values determine them.
fn pads<'a>(
    rank: usize,
    known: impl Fn(usize) -> Option<&'a [Dim]>,
    has_axes: bool,
) -> Option<(Vec<Dim>, Vec<Dim>)> {
    let pads = known(1)?;
    let (first, last) = pads.split_at(pads.len() / 2);
    if !has_axes {
        return (first.len() == rank).then(|| (first.to_vec(), last.to_vec()));
    }
    let (mut before, mut after) = (vec![Dim::from(0); rank], vec![Dim::from(0); rank]);
    for ((axis, first), last) in known(3)?.iter().zip(first).zip(last) {
        let axis = axis.known()?.checked_rem_euclid(i64::try_from(rank).ok()?)?;
        let axis = usize::try_from(axis).ok()?;
        *before.get_mut(axis)? = first.clone();
        *after.get_mut(axis)? = last.clone();
    }
    Some((before, after))
}

impl Op for Pad {
    fn name(&self) -> &'static str {
        "Pad"
    }

    fn attributes(&self, a: &mut Attributes) {
        a.string("mode", self.mode.name);
    }

    fn infer(&self, cx: &mut Infer<'_>) -> Inferred {
        let ty = cx.of(0, ANY)?;
        let mut shape = ty.shape.clone();
        cx.of(1, &[DType::I64])?;
        if self.mode.takes_value && cx.has(2) {
            cx.same_dtype(0, 2)?;
            cx.require_at_least(&1.into(), &cx.ty(2)?.len(), "the value has at most one element")?;
        }
        let named = match (cx.has(3), cx.ints(3)) {
            (true, Some(axes)) => Some(cx.axes("axes", &axes, shape.len())?),
            (true, None) => None,
            (false, _) => Some((0..shape.len()).collect()),
        };
        if cx.has(3) {
            cx.of(3, INDICES)?;
        }
        let count = if cx.has(3) { cx.count(3)? } else { shape.len() };
        if cx.count(1)? != 2 * count {
            let (axes, pads) = (counted(count, "axis"), counted(2 * count, "pad"));
            let message = format!("expected {pads} for {axes}, found {}", cx.count(1)?);
            return Err(cx.diagnostic(Code::ShapeMismatch, message));
        }
        if let Some((before, after)) = pads(shape.len(), |i| cx.known(i), cx.has(3)) {
            for ((size, before), after) in shape.iter_mut().zip(&before).zip(&after) {
                *size = &*size + before + after;
                cx.require_at_least(size, &0.into(), "a padded size must not be negative")?;
            }
            return Ok(vec![Type::tensor(ty.dtype, shape)]);
        }
        let axes = named.unwrap_or_else(|| (0..shape.len()).collect());
        for (&axis, size) in axes.iter().zip(cx.fresh_sizes(vec![None; axes.len()])) {
            shape[axis] = size;
        }
        Ok(vec![Type::tensor(ty.dtype, shape)])
    }

    fn views(&self, cx: &mut Views<'_>) {
        let Some(ty) = cx.ty(0) else { return };
        let pads = pads(ty.rank(), |i| cx.known(i), cx.node().input(3).is_some());
        if pads.is_some_and(|pads| is_noop(&pads)) {
            cx.view(0, 0, 0.into());
        }
    }

    fn lower(&self, cx: &mut Lower<'_>) -> Result {
        let (ty, mode) = (cx.ty(0)?, self.mode);
        let value = if mode.takes_value { vec![Arg::from(cx.optional(2)?)] } else { Vec::new() };
        let Some(pads) = pads(ty.rank(), |i| cx.known(i), cx.has(3)) else {
            return lower_dynamic(cx, mode, value);
        };
        if is_noop(&pads) {
            return Ok(());
        }
        let inputs = [vec![cx.input(0)?.into()], value].concat();
        let output = cx.output(0)?.into();
        let [before, after] = [pads.0, pads.1].map(|pads| pads.into_iter().map(Signed).collect());
        let geometry = Pads { sizes: ty.shape.clone(), before, after };
        cx.call_on(&mode.kernel, ty.dtype, inputs, vec![output], geometry)
    }

    /// Crops `dy` to the input. The rest of `dy` belongs to the value, or in the other modes to the
    /// elements that were copied.
    fn gradient(&self, g: &mut Gradient<'_>) -> Result {
        let (pads, Some(dy)) = (g.x(1), g.dy(0)) else { return Ok(()) };
        if !self.mode.takes_value {
            g.move_back(0)?;
            // The other modes ignore the value.
            g.set_others_to_zero();
            return Ok(());
        }
        let op = Rc::new(Pad { mode: &CONSTANT });
        let dx = g.tape().node(op, &[Some(dy), Some(-pads), None, g.optional(3)], 1)[0];
        g.set(0, dx);
        if g.wants(2) {
            let ones = Some(g.x(0).ones_like());
            let op = Rc::new(Pad { mode: &CONSTANT });
            let inside = g.tape().node(op, &[ones, Some(pads), None, g.optional(3)], 1)[0];
            g.set(2, dy.only_where(inside.equal(inside.number(0.0))).sum_all());
        }
        Ok(())
    }
}

fn is_noop((before, after): &(Vec<Dim>, Vec<Dim>)) -> bool {
    before.iter().chain(after).all(|pad| pad.known() == Some(0))
}

/// Calls the kernels for pads that only the run determines.
fn lower_dynamic(cx: &mut Lower<'_>, mode: &'static Mode, value: Vec<Arg>) -> Result {
    let ty = cx.ty(0)?;
    let named_pads = cx.input(1)?;
    let mut pads = named_pads.clone();
    if let Some(axes) = cx.optional(3)? {
        pads = cx.scratch(DType::I64, 2 * ty.rank());
        let (inputs, outputs) =
            (vec![named_pads.clone().into(), axes.into()], vec![pads.clone().into()]);
        cx.call_on(&AXES, cx.ty(3)?.dtype, inputs, outputs, NoParams)?;
    }
    match cx.ints(3) {
        // Only the sizes of these axes depend on the pads.
        Some(axes) => {
            let from = axes.iter().map(|&axis| ty.shape[cx.axis(axis, ty.rank())].clone());
            cx.bind(&SIZES, DType::I64, vec![named_pads.into()], (from.collect(),))?;
        }
        None => cx.bind(&SIZES, DType::I64, vec![pads.clone().into()], (ty.shape.clone(),))?,
    }
    let inputs = [vec![cx.input(0)?.into(), pads.into()], value].concat();
    let output = cx.output(0)?.into();
    cx.call_on(&mode.dynamic, ty.dtype, inputs, vec![output], (ty.shape.clone(),))
}

/// The center of the input, with zeros around it where the input is smaller.
pub struct CenterCropPad {
    /// The axes that input 1 gives sizes for; all by default.
    pub axes: Option<Vec<i64>>,
}

static CENTER: Kernel<Shapes> =
    kernel!(moves T, pad::center_crop_pad::<T>, |f, a, p| f(a.input(0), a.output(0), p));
static CENTER_SIZES: Kernel = kernel!(checked INDICES I, pad::center_crop_pad_sizes::<I>,
    |f, a, _p| f(a.sizes(), a.input(0)));

impl Op for CenterCropPad {
    fn name(&self) -> &'static str {
        "CenterCropPad"
    }

    fn attributes(&self, a: &mut Attributes) {
        if let Some(axes) = &self.axes {
            a.ints("axes", axes);
        }
    }

    fn infer(&self, cx: &mut Infer<'_>) -> Inferred {
        let ty = cx.of(0, ANY)?;
        cx.of(1, INDICES)?;
        let mut shape = ty.shape.clone();
        let axes = match &self.axes {
            Some(axes) => cx.axes("axes", axes, shape.len())?,
            None => (0..shape.len()).collect(),
        };
        if cx.count(1)? != axes.len() {
            let sizes = counted(axes.len(), "size");
            let message = format!("expected {sizes}, one for each axis, found {}", cx.count(1)?);
            return Err(cx.diagnostic(Code::ShapeMismatch, message));
        }
        let sizes = match cx.known(1) {
            Some(sizes) => sizes.to_vec(),
            None => cx.fresh_sizes(vec![None; axes.len()]),
        };
        for (axis, size) in axes.into_iter().zip(sizes) {
            cx.require_at_least(&size, &0.into(), "a size must not be negative")?;
            shape[axis] = size;
        }
        Ok(vec![Type::tensor(ty.dtype, shape)])
    }

    fn lower(&self, cx: &mut Lower<'_>) -> Result {
        let (sizes, dtype) = (cx.input(1)?.into(), cx.ty(1)?.dtype);
        cx.bind(&CENTER_SIZES, dtype, vec![sizes], NoParams)?;
        let (x, y) = (cx.ty(0)?, cx.output_ty(0)?);
        let geometry = Shapes { from: x.shape.clone(), to: y.shape.clone() };
        let (input, output) = (cx.input(0)?.into(), cx.output(0)?.into());
        cx.call_on(&CENTER, y.dtype, vec![input], vec![output], geometry)
    }

    fn gradient(&self, g: &mut Gradient<'_>) -> Result {
        g.move_back(0)
    }
}

impl<'t> Expr<'t> {
    /// Pads with zeros. `pads` holds the count before each axis, then the count after each axis.
    pub fn pad(self, pads: Expr<'t>) -> Expr<'t> {
        self.apply(Pad { mode: &CONSTANT }, &[pads])
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

    #[test]
    fn pads_may_be_dimension_expressions() {
        let pad = || Pad { mode: &REFLECT };
        let x = || tensor(F32, [n(), 4.into()]);
        let pads = Given::Ints(vec![1, -2, 3, 0]);
        check(pad(), &[x(), pads], 1, "float[n + 4, 2]");
        let pads = Given::Sizes(vec![n(), 3.into()]);
        let inputs = [x(), pads, Given::Nothing, Given::Ints(vec![-1])];
        check(pad(), &inputs, 1, "float[n, n + 7]");
        let expected = "expected 4 pads for 2 axes, found 2";
        check(pad(), &[x(), Given::Ints(vec![1, 1])], 1, expected);
    }

    #[test]
    fn pads_may_be_known_only_at_run_time() {
        let pad = || Pad { mode: &CONSTANT };
        let x = || tensor(F32, [n(), 4.into()]);
        check(pad(), &[x(), tensor(I64, [4])], 1, "float[y0_0, y0_1]");
        let inputs = [x(), tensor(I64, [2]), Given::Nothing, Given::Ints(vec![-1])];
        check(pad(), &inputs, 1, "float[n, y0_0]");
        let inputs = [x(), tensor(I64, [2]), Given::Nothing, tensor(DType::I32, [1])];
        check(pad(), &inputs, 1, "float[y0_0, y0_1]");
        let inputs = [x(), Given::Ints(vec![1, 1]), Given::Nothing, tensor(I64, [1])];
        check(pad(), &inputs, 1, "float[y0_0, y0_1]");
    }

    #[test]
    fn center_crop_pad_has_the_requested_sizes() {
        let op = |axes| CenterCropPad { axes };
        let x = || tensor(F32, [n(), 4.into(), 3.into()]);
        let to = Given::Sizes(vec![n() + 1]);
        check(op(Some(vec![-2])), &[x(), to], 1, "float[n, n + 1, 3]");
        let to = tensor(I64, [2]);
        check(op(Some(vec![0, 1])), &[x(), to], 1, "float[y0_0, y0_1, 3]");
        let expected = "expected 3 sizes, one for each axis, found 2";
        check(op(None), &[x(), Given::Ints(vec![1, 2])], 1, expected);
    }
}
