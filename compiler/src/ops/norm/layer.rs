//! Normalization over the last axes: `LayerNormalization` and `RMSNormalization`.

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

/// Normalizes over the axes from `axis` on: `y = scale (x - mean) / √(variance + epsilon) + B`.
pub struct LayerNormalization {
    /// The first axis that is normalized.
    pub axis: i64,
    /// Added to the variances.
    pub epsilon: f32,
    /// The type of the statistics that are outputs. They are computed in `float` or `double`, and
    /// rounded to this type.
    pub stash_type: DType,
}

pub fn read(node: &mut Reader<'_>) -> Result<Rc<dyn Op>> {
    Ok(Rc::new(LayerNormalization {
        axis: node.int("axis", -1)?,
        epsilon: node.float("epsilon", 1e-5)?,
        stash_type: super::stash_type::stash_type(node)?,
    }))
}

static LAYER: Kernel<(Axis, f32)> = kernel!(FLOATS T,
    norm::layer_normalization::<T> { outputs: norm::LayerNormOutputs {
        y: output(0), mean: optional_output(1), inv_std_dev: optional_output(2),
    } }, |f, a, p| f(a.input(0), a.optional(1), a.optional(2), outputs, p.0, p.1),
    in_place layer_normalization_in_place::<T> |f, a, p| f(
        a.output(0), a.optional_output(1), a.optional_output(2),
        a.optional(0), a.optional(1), p.0, p.1));

/// Requires that input `i` can be broadcast to the shape of input 0.
fn require_broadcast(cx: &mut Infer<'_>, i: usize) -> Inferred<()> {
    let (shape, operand) = (cx.shape(0)?, cx.shape(i)?);
    let all = cx.broadcast(&[shape, operand])?;
    if all.len() > shape.len() {
        let message = format!("input {i} has more axes than input 0");
        return Err(cx.diagnostic(Code::ShapeMismatch, message));
    }
    for (all, size) in all.iter().zip(shape) {
        cx.require_equal(all, size, "the sizes of input 0 before and after broadcasting")?;
    }
    Ok(())
}

static SCALE: Kernel<Broadcast> = kernel!(updates FLOATS T, binary::mul_in_place::<T>,
    |f, a, p| f(a.output(0), a.input(0), p));
static SHIFT: Kernel<Broadcast> = kernel!(updates FLOATS T, binary::add_in_place::<T>,
    |f, a, p| f(a.output(0), a.input(0), p));

/// Calls `kernel` in place on output 0 with input `i`, which is broadcast to its shape.
fn call_broadcast(cx: &mut Lower<'_>, kernel: &'static Kernel<Broadcast>, i: usize) -> Result {
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
        let parameters = if cx.has(2) { 1..3 } else { 1..2 };
        for i in parameters {
            cx.same_dtype(0, i)?;
            require_broadcast(cx, i)?;
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
            for statistic in statistics.iter_mut().flatten() {
                *statistic = cx.scratch(DType::F32, rows(shape, axis).outer);
            }
        }
        let mut per_row = is_row(&cx.ty(1)?.shape, shape, axis);
        if cx.has(2) {
            per_row &= is_row(&cx.ty(2)?.shape, shape, axis);
        }
        let parameters = if per_row { [cx.optional(1)?, cx.optional(2)?] } else { [None, None] };
        let [scale, bias] = parameters.map(Arg::Optional);
        let [mean, inv_std_dev] = statistics.clone().map(Arg::Optional);
        let (inputs, y) = (vec![cx.input(0)?.into(), scale, bias], cx.output(0)?.into());
        let formula = (rows(shape, axis), self.epsilon);
        cx.call_on(&LAYER, *dtype, inputs, vec![y, mean, inv_std_dev], formula)?;
        if self.stash_type != DType::F32 {
            for (statistic, y) in statistics.into_iter().zip(stashed) {
                let (Some(statistic), Some(y)) = (statistic, y) else { continue };
                CastMode::DEFAULT.call(cx, DType::F32, statistic, self.stash_type, y)?;
            }
        }
        if !per_row {
            call_broadcast(cx, &SCALE, 1)?;
            if cx.has(2) {
                call_broadcast(cx, &SHIFT, 2)?;
            }
        }
        Ok(())
    }

    fn gradient(&self, g: &mut Gradient<'_>) -> Result {
        if g.dy(1).or(g.dy(2)).is_none() && layer_grad::is_supported(g, self.axis) {
            layer_grad::set_gradients(
                g,
                Grad { axis: self.axis, epsilon: self.epsilon, centered: true },
            );
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
        // The outputs `Mean` and `InvStdDev` have one element per row.
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
        // The statistics do not depend on the scale and the bias.
        g.set_others_to_zero();
        Ok(())
    }
}

/// Normalizes over the axes from `axis` on: `y = scale x / √(mean(x²) + epsilon)`.
pub struct RmsNormalization {
    /// The first axis that is normalized.
    pub axis: i64,
    /// Added to the mean squares.
    pub epsilon: f32,
    /// The specified type of the mean squares. The kernel's accumulators are never less precise.
    pub stash_type: DType,
}

/// Reads `RMSNormalization`. If the type of the scale, which is that of the result, differs from
/// that of the input, the node computes in `float`, or in `double` if one of them is `double`.
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
        require_broadcast(cx, 1)?;
        Ok(vec![ty.into()])
    }

    fn lower(&self, cx: &mut Lower<'_>) -> Result {
        let TensorType { dtype, shape } = cx.ty(0)?;
        let axis = cx.axis(self.axis, shape.len());
        let per_row = is_row(&cx.ty(1)?.shape, shape, axis);
        let scale = Arg::Optional(if per_row { cx.optional(1)? } else { None });
        let (inputs, y) = (vec![cx.input(0)?.into(), scale], cx.output(0)?.into());
        cx.call_on(&RMS, *dtype, inputs, vec![y], (rows(shape, axis), self.epsilon))?;
        if per_row { Ok(()) } else { call_broadcast(cx, &SCALE, 1) }
    }

    /// With `r = 1 / √(mean(x²) + ε)` and `y = x r`:
    /// `dx = r (dy scale - y mean(dy scale y))` and `dscale = dy y`.
    fn gradient(&self, g: &mut Gradient<'_>) -> Result {
        if layer_grad::is_supported(g, self.axis) {
            layer_grad::set_gradients(
                g,
                Grad { axis: self.axis, epsilon: self.epsilon, centered: false },
            );
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
