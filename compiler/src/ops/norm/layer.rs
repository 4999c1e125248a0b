//! Normalizations of the last axes together: `LayerNormalization` and `RMSNormalization`.

use super::{
    gradient::{Normalized, inverse_root},
    layer_grad::{self, Grad},
    rows::{is_row, rows},
};
use crate::{
    diag::{Code, Result},
    dtype::{DType, FLOATS},
    ir::{Attributes, Gradient, Infer, Inferred, Lower, Op, Reader, ValueId},
    ops::cast::{Cast, CastMode},
    plan::{
        Arg, Kernel,
        geometry::{Axis, Broadcast},
        kernel,
    },
    ty::{TensorType, Type},
};
use std::rc::Rc;

/// The elements from an axis on with a mean of 0 and a variance of 1, scaled and shifted.
pub struct LayerNormalization {
    /// The first axis that is normalized.
    pub axis: i64,
    /// What is added to the variances.
    pub epsilon: f32,
    /// The type of the statistics, where they are asked for. They are calculated as precisely as
    /// ever, and rounded to it.
    pub stash_type: DType,
}

pub fn read(node: &mut Reader<'_>) -> Result<Rc<dyn Op>> {
    Ok(Rc::new(LayerNormalization {
        axis: node.int("axis", -1)?,
        epsilon: node.float("epsilon", 1e-5)?,
        stash_type: super::stash_type::stash_type(node)?,
    }))
}

static LAYER: Kernel<(Axis, f32)> = kernel!(FLOATS T, norm::layer_normalization::<T>,
    |f, a, p| f(
        a.input(0), a.optional(1), a.optional(2),
        a.output(0), a.optional_output(1), a.optional_output(2), p.0, p.1),
    in_place layer_normalization_in_place::<T> |f, a, p| f(
        a.output(0), a.optional_output(1), a.optional_output(2),
        a.optional(0), a.optional(1), p.0, p.1));

/// Says that input `i`, stretched, must have the shape of input 0.
fn stretches(cx: &mut Infer<'_>, i: usize) -> Inferred<()> {
    let (shape, operand) = (cx.shape(0)?, cx.shape(i)?);
    let all = cx.broadcast(&[shape, operand])?;
    if all.len() > shape.len() {
        let message = format!("input {i} has more axes than input 0");
        return Err(cx.diagnostic(Code::ShapeMismatch, message));
    }
    for (all, size) in all.iter().zip(shape) {
        cx.require_equal(all, size, "the sizes of input 0 before and after stretching")?;
    }
    Ok(())
}

static SCALE: Kernel<Broadcast> = kernel!(updates FLOATS T, binary::mul_in_place::<T>,
    |f, a, p| f(a.output(0), a.input(0), p));
static SHIFT: Kernel<Broadcast> = kernel!(updates FLOATS T, binary::add_in_place::<T>,
    |f, a, p| f(a.output(0), a.input(0), p));

/// Calls `kernel` on the first output and input `i`, stretched to its shape.
fn stretch(cx: &mut Lower<'_>, kernel: &'static Kernel<Broadcast>, i: usize) -> Result {
    let TensorType { dtype, shape } = cx.output_ty(0)?;
    let geometry = Broadcast::of(shape, shape, &cx.ty(i)?.shape);
    let (operand, y) = (cx.input(i)?.into(), cx.output(0)?.into());
    cx.call_on(kernel, *dtype, vec![operand], vec![y], geometry)
}

impl Op for LayerNormalization {
    fn name(&self) -> &'static str {
        "LayerNormalization"
    }

    fn attributes(&self, a: &mut Attributes) {
        a.int("axis", self.axis);
        a.float("epsilon", self.epsilon);
        a.int("stash_type", self.stash_type.code().into());
    }

    fn infer(&self, cx: &mut Infer<'_>) -> Inferred {
        let ty = cx.of(0, FLOATS)?;
        let axis = cx.axis("axis", self.axis, ty.rank())?;
        let factors = if cx.has(2) { 1..3 } else { 1..2 };
        for i in factors {
            cx.same_dtype(0, i)?;
            stretches(cx, i)?;
        }
        let ones = vec![1.into(); ty.rank() - axis];
        let statistics = Type::tensor(self.stash_type, [&ty.shape[..axis], &ones].concat());
        Ok(vec![ty.clone().into(), statistics.clone(), statistics])
    }

    fn lower(&self, cx: &mut Lower<'_>) -> Result {
        let TensorType { dtype, shape } = cx.ty(0)?;
        let axis = cx.axis(self.axis, shape.len());
        let stashed = [cx.optional_output(1)?, cx.optional_output(2)?];
        let mut statistics = stashed.clone();
        if self.stash_type != DType::F32 {
            for single in statistics.iter_mut().flatten() {
                *single = cx.scratch(DType::F32, rows(shape, axis).outer);
            }
        }
        let mut rows_alone = is_row(&cx.ty(1)?.shape, shape, axis);
        if cx.has(2) {
            rows_alone &= is_row(&cx.ty(2)?.shape, shape, axis);
        }
        let factors = if rows_alone { [cx.optional(1)?, cx.optional(2)?] } else { [None, None] };
        let [scale, bias] = factors.map(Arg::Optional);
        let [mean, inv_std_dev] = statistics.clone().map(Arg::Optional);
        let (inputs, y) = (vec![cx.input(0)?.into(), scale, bias], cx.output(0)?.into());
        let formula = (rows(shape, axis), self.epsilon);
        cx.call_on(&LAYER, *dtype, inputs, vec![y, mean, inv_std_dev], formula)?;
        if self.stash_type != DType::F32 {
            for (single, y) in statistics.into_iter().zip(stashed) {
                let (Some(single), Some(y)) = (single, y) else { continue };
                CastMode::DEFAULT.call(cx, DType::F32, single, self.stash_type, y)?;
            }
        }
        if !rows_alone {
            stretch(cx, &SCALE, 1)?;
            if cx.has(2) {
                stretch(cx, &SHIFT, 2)?;
            }
        }
        Ok(())
    }

    fn gradient(&self, g: &mut Gradient<'_>) -> Result {
        if g.dy(1).or(g.dy(2)).is_none() && layer_grad::by_rows(g, self.axis) {
            layer_grad::set(g, Grad { axis: self.axis, epsilon: self.epsilon, centered: true });
            return Ok(());
        }
        let x = g.x(0);
        let axes: Vec<usize> = (g.axis(self.axis, x.rank())..x.rank()).collect();
        let normalized = Normalized::of(x, &axes, self.epsilon);
        let mut parts = Vec::new();
        if let Some(dy) = g.dy(0) {
            parts.push(normalized.gradient(dy * g.x(1), &axes));
            g.set(1, dy * normalized.y);
            if g.has(2) {
                g.set(2, dy);
            }
        }
        // The statistics that are outputs are of one element a row.
        let count = x.count_like(x) / normalized.factor.count_like(x);
        if let Some(dy) = g.dy(1) {
            parts.push((dy.cast_like(x) / count).expand_like(x));
        }
        if let Some(dy) = g.dy(2) {
            let factor = normalized.factor;
            parts.push(-dy.cast_like(x) * factor * factor * normalized.y / count);
        }
        if let Some(dx) = parts.into_iter().reduce(|a, b| a + b) {
            g.set(0, dx);
        }
        Ok(())
    }
}

/// The elements from an axis on with a mean square of 1, scaled.
pub struct RmsNormalization {
    /// The first axis that is normalized.
    pub axis: i64,
    /// What is added to the mean squares.
    pub epsilon: f32,
    /// The type that they are said to be calculated in; ours is never less precise.
    pub stash_type: DType,
}

/// Reads `RMSNormalization`. Where the scale, and so the result, has another type than the input,
/// both are brought to the wider one in between.
pub fn read_rms(node: &mut Reader<'_>) -> Result<Vec<ValueId>> {
    let op = RmsNormalization {
        axis: node.int("axis", -1)?,
        epsilon: node.float("epsilon", 1e-5)?,
        stash_type: super::stash_type::stash_type(node)?,
    };
    let mut inputs = [node.input(0)?, node.input(1)?];
    let result = match (node.dtype(0), node.dtype(1)) {
        (Ok(x), Ok(scale)) if x != scale => Some((x, scale)),
        _ => None,
    };
    let Some((x, scale)) = result else { return Ok(vec![node.add(op, &inputs, &[])?]) };
    let inner = if [x, scale].contains(&DType::F64) { DType::F64 } else { DType::F32 };
    let cast = |to| Cast { to, mode: CastMode::DEFAULT };
    for (input, dtype) in inputs.iter_mut().zip([x, scale]) {
        if dtype != inner {
            *input = node.add(cast(inner), &[*input], &[])?;
        }
    }
    let y = node.add(op, &inputs, &[])?;
    Ok(vec![if scale == inner { y } else { node.add(cast(scale), &[y], &[])? }])
}

static RMS: Kernel<(Axis, f32)> = kernel!(FLOATS T, norm::rms_normalization::<T>,
    |f, a, p| f(a.input(0), a.optional(1), a.output(0), p.0, p.1),
    in_place rms_normalization_in_place::<T> |f, a, p| f(a.output(0), a.optional(0), p.0, p.1));

impl Op for RmsNormalization {
    fn name(&self) -> &'static str {
        "RMSNormalization"
    }

    fn attributes(&self, a: &mut Attributes) {
        a.int("axis", self.axis);
        a.float("epsilon", self.epsilon);
        a.int("stash_type", self.stash_type.code().into());
    }

    fn infer(&self, cx: &mut Infer<'_>) -> Inferred {
        let ty = cx.of(0, FLOATS)?.clone();
        cx.axis("axis", self.axis, ty.rank())?;
        cx.of(1, &[ty.dtype])?;
        stretches(cx, 1)?;
        Ok(vec![ty.into()])
    }

    fn lower(&self, cx: &mut Lower<'_>) -> Result {
        let TensorType { dtype, shape } = cx.ty(0)?;
        let axis = cx.axis(self.axis, shape.len());
        let row = is_row(&cx.ty(1)?.shape, shape, axis);
        let scale = Arg::Optional(if row { cx.optional(1)? } else { None });
        let (inputs, y) = (vec![cx.input(0)?.into(), scale], cx.output(0)?.into());
        cx.call_on(&RMS, *dtype, inputs, vec![y], (rows(shape, axis), self.epsilon))?;
        if row { Ok(()) } else { stretch(cx, &SCALE, 1) }
    }

    fn gradient(&self, g: &mut Gradient<'_>) -> Result {
        if layer_grad::by_rows(g, self.axis) {
            layer_grad::set(g, Grad { axis: self.axis, epsilon: self.epsilon, centered: false });
            return Ok(());
        }
        let (x, scale, Some(dy)) = (g.x(0), g.x(1), g.dy(0)) else { return Ok(()) };
        let axes: Vec<usize> = (g.axis(self.axis, x.rank())..x.rank()).collect();
        let factor = inverse_root((x * x).mean(&axes), self.epsilon);
        let (y, dx) = (x * factor, dy * scale);
        g.set(0, factor * (dx - y * (dx * y).mean(&axes)));
        g.set(1, dy * y);
        Ok(())
    }
}
