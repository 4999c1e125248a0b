//! Normalizations with the statistics of channels: `BatchNormalization` and its kin.

use super::{
    channel::{ChannelGrad, ChannelMoments, ChannelSums},
    gradient::{Normalized, inverse_root},
};
use crate::{
    diag::{Code, Diagnostic, Result},
    dim::Dim,
    dtype::{DType, FLOATS},
    ir::{Attributes, Expr, Gradient, Infer, Inferred, Lower, Op, Reader},
    ops::reshape::{Flatten, Reshape, shaped_like},
    plan::{
        Kernel,
        geometry::{Axis, Groups},
        kernel,
    },
    tensor::Tensor,
    ty::TensorType,
};
use half::{bf16, f16};
use std::rc::Rc;

/// Each channel, which is axis 1, with a mean of 0 and a variance of 1, scaled and shifted.
pub struct BatchNormalization {
    /// What is added to the variances.
    pub epsilon: f32,
    /// How much of the running statistics stays.
    pub momentum: f32,
    /// Whether the statistics are those of the input itself. The outputs behind the first are the
    /// running statistics, and then, in the form of before version 14, those of the input.
    pub training_mode: bool,
}

pub fn read(node: &mut Reader<'_>) -> Result<Rc<dyn Op>> {
    let training_mode = node.flag("training_mode", false)?;
    Ok(Rc::new(BatchNormalization::read(node, training_mode)?))
}

/// Before version 14 more than one output said that the model is being trained.
pub fn read_by_outputs(node: &mut Reader<'_>) -> Result<Rc<dyn Op>> {
    let training_mode = node.outputs > 1;
    let op = BatchNormalization::read(node, training_mode)?;
    read_spatial(node, op)
}

/// Before version 7 a flag said that it is not.
pub fn read_with_test_flag(node: &mut Reader<'_>) -> Result<Rc<dyn Op>> {
    let training_mode = !node.flag("is_test", false)?;
    let op = BatchNormalization::read(node, training_mode)?;
    read_spatial(node, op)
}

/// Before version 9 each element of an instance could be a channel of its own.
fn read_spatial(node: &mut Reader<'_>, op: BatchNormalization) -> Result<Rc<dyn Op>> {
    if node.flag("spatial", true)? {
        return Ok(Rc::new(op));
    }
    if op.training_mode {
        let message = "`BatchNormalization` does not support training without `spatial`";
        return Err(Diagnostic::new(Code::Unsupported, message));
    }
    let Some(x) = node.inputs.first().copied().flatten() else { return Ok(Rc::new(op)) };
    node.wrap_input(0, Flatten { axis: 1 }, &[])?;
    for i in 1..node.inputs.len() {
        node.wrap_input(i, Reshape { allowzero: false }, &[Tensor::from_ints(&[-1])])?;
    }
    let inputs: Vec<_> = node.inputs.iter().copied().flatten().collect();
    let y = node.add(op, &inputs, &[])?;
    shaped_like(node, y, x)
}

/// The kernels for one type of `scale` and one of `mean`.
struct Typed {
    scale: DType,
    mean: DType,
    given: Kernel<(Axis, f32)>,
    training: Kernel<(Axis, f32, f32)>,
}

macro_rules! typed {
    ($(($scale:ident $S:ty, $mean:ident $M:ty))*) => {
        &[$(Typed {
            scale: DType::$scale,
            mean: DType::$mean,
            given: kernel!(FLOATS T, norm::batch_normalization::<T, $S, $M>, |f, a, p| f(
                a.input(0), a.input(1), a.input(2), a.input(3), a.input(4), a.output(0), p.0, p.1),
                in_place batch_normalization_in_place::<T, $S, $M> |f, a, p| f(
                a.output(0), a.input(0), a.input(1), a.input(2), a.input(3), p.0, p.1)),
            training: kernel!(FLOATS T, norm::batch_normalization_training::<T, $S, $M>,
                |f, a, p| f(
                a.input(0), a.input(1), a.input(2), a.input(3), a.input(4),
                a.output(0), a.output(1), a.output(2), p.0, p.1, p.2)),
        }),*]
    };
}

static TYPED: &[Typed] = typed! {
    (F32 f32, F32 f32) (F32 f32, F64 f64) (F32 f32, F16 f16) (F32 f32, BF16 bf16)
    (F64 f64, F32 f32) (F64 f64, F64 f64) (F64 f64, F16 f16) (F64 f64, BF16 bf16)
    (F16 f16, F32 f32) (F16 f16, F64 f64) (F16 f16, F16 f16) (F16 f16, BF16 bf16)
    (BF16 bf16, F32 f32) (BF16 bf16, F64 f64) (BF16 bf16, F16 f16) (BF16 bf16, BF16 bf16)
};

impl BatchNormalization {
    fn read(node: &mut Reader<'_>, training_mode: bool) -> Result<BatchNormalization> {
        let (epsilon, momentum) = (node.float("epsilon", 1e-5)?, node.float("momentum", 0.9)?);
        Ok(BatchNormalization { epsilon, momentum, training_mode })
    }

    fn kernels(&self, cx: &Lower<'_>) -> Result<&'static Typed> {
        let (scale, mean) = (cx.ty(1)?.dtype, cx.ty(3)?.dtype);
        let found = TYPED.iter().find(|typed| (typed.scale, typed.mean) == (scale, mean));
        found.ok_or_else(|| cx.unsupported(&format!("operands of types {scale} and {mean}")))
    }

    /// Calls the kernel that takes the statistics from the input. Those that the model does not
    /// ask for are written all the same.
    fn train(&self, cx: &mut Lower<'_>, outputs: [usize; 2], momentum: f32) -> Result {
        let (x, mean) = (cx.ty(0)?, cx.ty(3)?);
        let inputs = (0..5).map(|i| Ok(cx.input(i)?.into())).collect::<Result<_>>()?;
        let mut written = vec![cx.output(0)?.into()];
        for i in outputs {
            written.push(match cx.optional_output(i)? {
                Some(output) => output.into(),
                None => cx.scratch(mean.dtype, mean.len()).into(),
            });
        }
        let formula = (channels(&x.shape), self.epsilon, momentum);
        cx.call_on(&self.kernels(cx)?.training, x.dtype, inputs, written, formula)
    }
}

/// A tensor of `shape` seen from its channels: axis 1, or all of a tensor of one axis.
fn channels(shape: &[Dim]) -> Axis {
    match shape {
        [len] => Axis { outer: len.clone(), len: 1.into(), inner: 1.into() },
        _ => Axis::of(shape, 1),
    }
}

/// The number of channels of input 0; input `i` must have a number for each.
fn one_for_each_channel(cx: &mut Infer<'_>, i: usize, channels: &Dim, what: &str) -> Inferred<()> {
    cx.of(i, FLOATS)?;
    let len = &cx.ranked(i, 1)?.shape[0];
    cx.require_equal(len, channels, what)
}

impl Op for BatchNormalization {
    fn name(&self) -> &'static str {
        "BatchNormalization"
    }

    fn attributes(&self, a: &mut Attributes) {
        a.float("epsilon", self.epsilon);
        a.float("momentum", self.momentum);
        a.flag("training_mode", self.training_mode);
    }

    fn infer(&self, cx: &mut Infer<'_>) -> Inferred {
        let ty = cx.of(0, FLOATS)?;
        if ty.rank() == 0 {
            return Err(cx.diagnostic(Code::ShapeMismatch, "a number without axes has no channels"));
        }
        for i in 1..5 {
            let what = "the number of channels and that of the parameters";
            one_for_each_channel(cx, i, &channels(&ty.shape).len, what)?;
        }
        cx.same_dtype(1, 2)?;
        cx.same_dtype(3, 4)?;
        if !self.training_mode && cx.outputs() > 1 {
            let message = "without `training_mode` there is one output";
            return Err(cx.diagnostic(Code::BadArity, message));
        }
        let mut types = vec![cx.ty(3)?.clone().into(); cx.outputs()];
        types[0] = ty.clone().into();
        Ok(types)
    }

    fn lower(&self, cx: &mut Lower<'_>) -> Result {
        if !self.training_mode {
            let geometry = channels(&cx.ty(0)?.shape);
            return cx.call(&self.kernels(cx)?.given, (geometry, self.epsilon));
        }
        if cx.node().outputs.len() > 3 {
            // With no momentum the running statistics are those of the input.
            self.train(cx, [3, 4], 0.0)?;
        }
        self.train(cx, [1, 2], self.momentum)
    }

    fn gradient(&self, g: &mut Gradient<'_>) -> Result {
        let x = g.x(0);
        if x.rank() < 2 {
            return Err(g.unsupported("for a tensor of one axis"));
        }
        if self.training_mode {
            return self.gradient_of_training(g);
        }
        let Some(dy) = g.dy(0) else { return Ok(()) };
        let [scale, mean, variance] = [1, 3, 4].map(|i| g.x(i).cast_like(x));
        let factor = inverse_root(variance, self.epsilon);
        let [products, sums] = ChannelSums::of(x, dy, mean);
        g.set(0, self.gradient(dy, scale, mean.zeros_like(), variance));
        let by_variance = products * scale * factor * factor * factor * -0.5;
        let of = [products * factor, sums, -(sums * scale * factor), by_variance];
        of.into_iter().enumerate().for_each(|(i, d)| g.set(i + 1, d.cast_like(g.x(i + 1))));
        Ok(())
    }
}

impl BatchNormalization {
    /// `scale (x - mean) / √(variance + ε)`, for derivatives are normalized likewise.
    fn gradient<'t>(
        &self,
        x: Expr<'t>,
        scale: Expr<'t>,
        mean: Expr<'t>,
        variance: Expr<'t>,
    ) -> Expr<'t> {
        let op = BatchNormalization { training_mode: false, ..*self };
        x.apply(op, &[scale, scale.zeros_like(), mean, variance])
    }

    /// The derivative where the statistics are those of the input, from which the running ones
    /// follow as well.
    fn gradient_of_training<'t>(&self, g: &mut Gradient<'t>) -> Result {
        if g.dy(3).or(g.dy(4)).is_some() {
            return Err(g.unsupported("through the statistics of the input"));
        }
        let (x, keep) = (g.x(0), f64::from(self.momentum));
        let [mean, variance] = ChannelMoments::of(x);
        let count = x.count_like(x) / g.x(1).count_like(x);
        let mut parts = Vec::new();
        if let Some(dy) = g.dy(0) {
            let [products, sums] = ChannelSums::of(x, dy, mean);
            let (given, statistics) =
                ([dy, x, g.x(1).cast_like(x)], [mean, variance, products, sums]);
            let [dx, d_scale] = ChannelGrad::of(given, statistics, self.epsilon);
            parts.push(dx);
            g.set(1, d_scale.cast_like(g.x(1)));
            g.set(2, sums.cast_like(g.x(2)));
        }
        let running = |dy: Option<Expr<'t>>| {
            dy.map(|dy| dy.cast_like(x).for_channels(x.rank()) * (1.0 - keep) / count)
        };
        let distance = || x - mean.for_channels(x.rank());
        parts.extend(running(g.dy(1)).map(|share| share.expand_like(x)));
        parts.extend(running(g.dy(2)).map(|share| share * distance() * 2.0));
        for i in 1..3 {
            let statistic = g.x(i + 2);
            let kept = g.dy(i).map_or_else(|| statistic.zeros_like(), |dy| dy * keep);
            g.set(i + 2, kept);
        }
        if let Some(dx) = parts.into_iter().reduce(|a, b| a + b) {
            g.set(0, dx);
        }
        Ok(())
    }
}

/// [`BatchNormalization`] of each instance by itself.
pub struct InstanceNormalization {
    /// What is added to the variances.
    pub epsilon: f32,
}

pub fn read_instance(node: &mut Reader<'_>) -> Result<Rc<dyn Op>> {
    Ok(Rc::new(InstanceNormalization { epsilon: node.float("epsilon", 1e-5)? }))
}

static INSTANCE: Kernel<(Axis, f32)> = kernel!(FLOATS T, norm::instance_normalization::<T>,
    |f, a, p| f(a.input(0), a.input(1), a.input(2), a.output(0), p.0, p.1),
    in_place instance_normalization_in_place::<T> |f, a, p|
        f(a.output(0), a.input(0), a.input(1), p.0, p.1));

/// The type of input 0, which has channels, and of inputs 1 and 2, which have a number for each.
fn infer_channels(cx: &mut Infer<'_>) -> Inferred<TensorType> {
    let ty = cx.of(0, FLOATS)?;
    let Some(channels) = ty.shape.get(1) else {
        let message = format!("input 0 must have channels, but has {} axes", ty.rank());
        return Err(cx.diagnostic(Code::ShapeMismatch, message));
    };
    for i in 1..3 {
        one_for_each_channel(cx, i, channels, "the number of channels and that of the parameters")?;
        cx.same_dtype(0, i)?;
    }
    Ok(ty.clone())
}

impl Op for InstanceNormalization {
    fn name(&self) -> &'static str {
        "InstanceNormalization"
    }

    fn attributes(&self, a: &mut Attributes) {
        a.float("epsilon", self.epsilon);
    }

    fn infer(&self, cx: &mut Infer<'_>) -> Inferred {
        Ok(vec![infer_channels(cx)?.into()])
    }

    fn lower(&self, cx: &mut Lower<'_>) -> Result {
        cx.call(&INSTANCE, (Axis::of(&cx.ty(0)?.shape, 1), self.epsilon))
    }

    fn gradient(&self, g: &mut Gradient<'_>) -> Result {
        let (x, Some(dy)) = (g.x(0), g.dy(0)) else { return Ok(()) };
        let axes: Vec<usize> = (2..x.rank()).collect();
        let normalized = Normalized::of(x, &axes, self.epsilon);
        g.set(0, normalized.gradient(dy * g.x(1).for_channels(x.rank()), &axes));
        g.set(1, (dy * normalized.y).of_channels(g.x(1)));
        g.set(2, dy.of_channels(g.x(2)));
        Ok(())
    }
}

/// [`BatchNormalization`] of each instance by itself, in groups of channels.
pub struct GroupNormalization {
    /// What is added to the variances.
    pub epsilon: f32,
    /// The number of groups.
    pub num_groups: i64,
    /// The type that statistics are said to be calculated in; ours is never less precise.
    pub stash_type: DType,
}

pub fn read_group(node: &mut Reader<'_>) -> Result<Rc<dyn Op>> {
    Ok(Rc::new(GroupNormalization {
        epsilon: node.float("epsilon", 1e-5)?,
        num_groups: node.required_int("num_groups")?,
        stash_type: super::stash_type::stash_type(node)?,
    }))
}

static GROUP: Kernel<(Groups, f32)> = kernel!(FLOATS T, norm::group_normalization::<T>,
    |f, a, p| f(a.input(0), a.input(1), a.input(2), a.output(0), p.0, p.1),
    in_place group_normalization_in_place::<T> |f, a, p|
        f(a.output(0), a.input(0), a.input(1), p.0, p.1));

impl Op for GroupNormalization {
    fn name(&self) -> &'static str {
        "GroupNormalization"
    }

    fn attributes(&self, a: &mut Attributes) {
        a.float("epsilon", self.epsilon);
        a.int("num_groups", self.num_groups);
        a.int("stash_type", self.stash_type.code().into());
    }

    fn infer(&self, cx: &mut Infer<'_>) -> Inferred {
        let ty = infer_channels(cx)?;
        if self.num_groups < 1 {
            let message = format!("`num_groups` is {}", self.num_groups);
            return Err(cx.diagnostic(Code::BadAttribute, message));
        }
        let rest = ty.shape[1].modulo(&self.num_groups.into());
        cx.require_equal(&rest, &0.into(), "the channels left over by `num_groups`, and 0,")?;
        Ok(vec![ty.into()])
    }

    fn lower(&self, cx: &mut Lower<'_>) -> Result {
        let shape = &cx.ty(0)?.shape;
        let groups = Dim::from(self.num_groups);
        let geometry = Groups {
            batch: shape[0].clone(),
            channels: shape[1].floor_div(&groups),
            groups,
            inner: shape[2..].iter().product(),
        };
        cx.call(&GROUP, (geometry, self.epsilon))
    }

    fn gradient(&self, g: &mut Gradient<'_>) -> Result {
        let (x, Some(dy)) = (g.x(0), g.dy(0)) else { return Ok(()) };
        let groups = |value| Expr::reshape_to(value, &[0, self.num_groups, -1]);
        let normalized = Normalized::of(groups(x), &[2], self.epsilon);
        let dx = normalized.gradient(groups(dy * g.x(1).for_channels(x.rank())), &[2]);
        g.set(0, dx.reshape_like(x));
        g.set(1, (dy * normalized.y.reshape_like(x)).of_channels(g.x(1)));
        g.set(2, dy.of_channels(g.x(2)));
        Ok(())
    }
}
