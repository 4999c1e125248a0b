//! Normalization by statistics of channels: `BatchNormalization`, `InstanceNormalization` and
//! `GroupNormalization`.

use super::{
    channel::{ChannelGrad, ChannelMoments, ChannelSums},
    gradient::{Normalized, inverse_root},
};
use crate::{
    diag::{Code, Diagnostic, Result},
    dim::Dim,
    dtype::{DType, FLOATS, dispatch},
    ir::{Attributes, Expr, Gradient, Infer, Inferred, Lower, Op, Reader},
    ops::reshape::{Flatten, Reshape, read_as_reshape},
    plan::{
        Kernel,
        geometry::{Axis, Groups},
        kernel,
    },
    tensor::Tensor,
    ty::TensorType,
};
use onnxc_runtime::{
    Number,
    kernels::norm::{self, BatchNormOperands, BatchNormOutputs},
};
use std::rc::Rc;

/// Normalizes each channel (axis 1): `y = scale (x - mean) / √(variance + epsilon) + B`.
pub struct BatchNormalization {
    /// Added to the variances.
    pub epsilon: f32,
    /// The weight of the old running statistics:
    /// `running = momentum · running + (1 - momentum) · current`.
    pub momentum: f32,
    /// Whether to use the statistics of the input itself. Outputs 1 and 2 are then the running
    /// statistics; before version 14, outputs 3 and 4 are those of the input.
    pub training_mode: bool,
}

pub fn read(node: &mut Reader<'_>) -> Result<Rc<dyn Op>> {
    let training_mode = node.flag("training_mode", false)?;
    Ok(Rc::new(BatchNormalization::read(node, training_mode)?))
}

/// Reads versions 7 to 13, where more than one output means training. Exporters wrote all outputs
/// into models for inference too, so outputs that nothing reads do not count.
pub fn read_by_outputs(node: &mut Reader<'_>) -> Result<Rc<dyn Op>> {
    drop_statistics(node);
    let training_mode = node.outputs > 1;
    let op = BatchNormalization::read(node, training_mode)?;
    read_spatial(node, op)
}

/// Reads versions before 7, where the attribute `is_test` means inference.
pub fn read_with_test_flag(node: &mut Reader<'_>) -> Result<Rc<dyn Op>> {
    let training_mode = !node.flag("is_test", false)?;
    if !training_mode {
        drop_statistics(node);
    }
    let op = BatchNormalization::read(node, training_mode)?;
    read_spatial(node, op)
}

/// Leaves out the statistics that nothing in the model reads, with a warning.
fn drop_statistics(node: &mut Reader<'_>) {
    let dropped = node.drop_unread_outputs();
    if dropped > 0 && node.outputs == 1 {
        let message = "nothing reads the statistics that this node returns";
        let warning = Diagnostic::warning(Code::UnreadOutputs, message)
            .note("the node normalizes by its mean and variance inputs, as in inference")
            .help("if it is meant to train, make one of its statistics an output of the graph");
        node.warnings.push(warning);
    }
}

/// Reads `spatial`. Before version 9, `spatial = 0` normalizes each element of an instance like a
/// channel: the input is flattened to `[batch, elements]`.
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
    read_as_reshape(node, y, x)
}

/// Parameters and statistics of any type are `f64` in this process, where kernels that differ only
/// in their types would take long to compile.
static INFERENCE: Kernel<(Axis, f32)> = Kernel {
    run: |a, p| {
        let [scale, bias, mean, variance] = &[1, 2, 3, 4].map(|i| a.numbers(i));
        let operands = BatchNormOperands { scale, bias, mean, variance };
        dispatch!(FLOATS a.dtype(), T => {
            norm::batch_normalization::<T, _, _>(a.input(0), operands, a.output(0), p.0, p.1);
        });
        Ok(())
    },
    in_place: Some(|a, p| {
        let [scale, bias, mean, variance] = &[0, 1, 2, 3].map(|i| a.numbers(i));
        let operands = BatchNormOperands { scale, bias, mean, variance };
        dispatch!(FLOATS a.dtype(), T => {
            norm::batch_normalization_in_place::<T, _, _>(a.output(0), operands, p.0, p.1);
        });
        Ok(())
    }),
    ..kernel!(FLOATS T, norm::batch_normalization::<T, f64, f64> {
        operands: norm::BatchNormOperands {
            scale: input(1), bias: input(2), mean: input(3), variance: input(4),
        }
    }, |f, a, p| f(a.input(0), operands, a.output(0), p.0, p.1),
    in_place batch_normalization_in_place::<T, f64, f64> {
        operands: norm::BatchNormOperands {
            scale: input(0), bias: input(1), mean: input(2), variance: input(3),
        }
    } |f, a, p| f(a.output(0), operands, p.0, p.1))
};

static TRAINING: Kernel<(Axis, f32, f32)> = Kernel {
    run: |a, p| {
        let [scale, bias, mean, variance] = &[1, 2, 3, 4].map(|i| a.numbers(i));
        let operands = BatchNormOperands { scale, bias, mean, variance };
        let (running_mean, running_variance) = &mut (mean.clone(), variance.clone());
        dispatch!(FLOATS a.dtype(), T => {
            let y: &mut [T] = a.output(0);
            let outputs = BatchNormOutputs { y, running_mean, running_variance };
            norm::batch_normalization_training(a.input(0), operands, outputs, p.0, p.1, p.2);
        });
        for (i, running) in [(1, running_mean), (2, running_variance)] {
            dispatch!(FLOATS a.output_dtype(i), M => {
                let to: &mut [M] = a.output(i);
                to.iter_mut().zip(running).for_each(|(to, x)| *to = M::from_f64(*x));
            });
        }
        Ok(())
    },
    ..kernel!(FLOATS T, norm::batch_normalization_training::<T, f64, f64> {
        operands: norm::BatchNormOperands {
            scale: input(1), bias: input(2), mean: input(3), variance: input(4),
        },
        outputs: norm::BatchNormOutputs {
            y: output(0), running_mean: output(1), running_variance: output(2),
        },
    }, |f, a, p| f(a.input(0), operands, outputs, p.0, p.1, p.2))
};

impl BatchNormalization {
    fn read(node: &mut Reader<'_>, training_mode: bool) -> Result<BatchNormalization> {
        let (epsilon, momentum) = (node.float("epsilon", 1e-5)?, node.float("momentum", 0.9)?);
        Ok(BatchNormalization { epsilon, momentum, training_mode })
    }

    /// Calls the kernel that computes the statistics of the input. Statistics that the model does
    /// not use are written to scratch memory.
    fn call_training(&self, cx: &mut Lower<'_>, outputs: [usize; 2], momentum: f32) -> Result {
        let (x, mean) = (cx.ty(0)?, cx.ty(3)?);
        let inputs = (0..5).map(|i| Ok(cx.input(i)?.into())).collect::<Result<_>>()?;
        let mut results = vec![cx.output(0)?.into()];
        for i in outputs {
            results.push(match cx.optional_output(i)? {
                Some(output) => output.into(),
                None => cx.scratch(mean.dtype, mean.len()).into(),
            });
        }
        let formula = (channel_axis(&x.shape), self.epsilon, momentum);
        cx.call_on(&TRAINING, x.dtype, inputs, results, formula)
    }
}

/// The axis of the channels of a tensor of `shape`: axis 1. A vector is a batch with one channel.
fn channel_axis(shape: &[Dim]) -> Axis {
    match shape {
        [len] => Axis { outer: len.clone(), len: 1.into(), inner: 1.into() },
        _ => Axis::of(shape, 1),
    }
}

/// Requires input `i` to have one number per channel.
fn require_per_channel(cx: &mut Infer<'_>, i: usize, channels: &Dim) -> Inferred<()> {
    cx.of(i, FLOATS)?;
    let len = &cx.ranked(i, 1)?.shape[0];
    cx.require_equal(len, channels, &format!("the length of input {i} and the number of channels"))
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
            return Err(cx.diagnostic(Code::ShapeMismatch, "a scalar has no channels"));
        }
        for i in 1..5 {
            require_per_channel(cx, i, &channel_axis(&ty.shape).len)?;
        }
        cx.same_dtype(1, 2)?;
        cx.same_dtype(3, 4)?;
        if !self.training_mode && cx.outputs() > 1 {
            let message = "more than one output requires `training_mode`";
            return Err(cx.diagnostic(Code::BadArity, message));
        }
        let mut types = vec![cx.ty(3)?.clone().into(); cx.outputs()];
        types[0] = ty.clone().into();
        Ok(types)
    }

    fn lower(&self, cx: &mut Lower<'_>) -> Result {
        if !self.training_mode {
            let geometry = channel_axis(&cx.ty(0)?.shape);
            return cx.call(&INFERENCE, (geometry, self.epsilon));
        }
        if cx.node().outputs.len() > 3 {
            // With a momentum of 0, the running statistics are those of the input.
            self.call_training(cx, [3, 4], 0.0)?;
        }
        self.call_training(cx, [1, 2], self.momentum)
    }

    /// Without `training_mode`, with `r = 1 / √(variance + ε)`, and sums over each channel:
    /// `dx = dy scale r`, `dscale = Σ dy (x - mean) r`, `dB = Σ dy`, `dmean = -scale r Σ dy` and
    /// `dvariance = -scale r³ / 2 · Σ dy (x - mean)`.
    fn gradient(&self, g: &mut Gradient<'_>) -> Result {
        let x = g.x(0);
        if x.rank() < 2 {
            return Err(g.unsupported("for a vector"));
        }
        if self.training_mode {
            return self.training_gradient(g);
        }
        let Some(dy) = g.dy(0) else { return Ok(()) };
        let [scale, mean, variance] = [1, 3, 4].map(|i| g.x(i).cast_like(x));
        let factor = inverse_root(variance, self.epsilon);
        let [products, sums] = ChannelSums::compute(x, dy, mean);
        g.set(0, self.normalize(dy, scale, mean.zeros_like(), variance));
        let d_variance = products * scale * factor * factor * factor * -0.5;
        let gradients = [products * factor, sums, -(sums * scale * factor), d_variance];
        gradients.into_iter().enumerate().for_each(|(i, d)| g.set(i + 1, d.cast_like(g.x(i + 1))));
        Ok(())
    }
}

impl BatchNormalization {
    /// `scale (x - mean) / √(variance + ε)`.
    fn normalize<'t>(
        &self,
        x: Expr<'t>,
        scale: Expr<'t>,
        mean: Expr<'t>,
        variance: Expr<'t>,
    ) -> Expr<'t> {
        let op = BatchNormalization { training_mode: false, ..*self };
        x.apply(op, &[scale, scale.zeros_like(), mean, variance])
    }

    /// The gradient with `training_mode`: the mean, the variance and the running statistics depend
    /// on the input.
    fn training_gradient<'t>(&self, g: &mut Gradient<'t>) -> Result {
        if g.dy(3).or(g.dy(4)).is_some() {
            return Err(g.unsupported("through the statistics of the input"));
        }
        let (x, keep) = (g.x(0), f64::from(self.momentum));
        let [mean, variance] = ChannelMoments::compute(x);
        let count = x.count_like(x) / g.x(1).count_like(x);
        let mut parts = Vec::new();
        if let Some(dy) = g.dy(0) {
            let [products, sums] = ChannelSums::compute(x, dy, mean);
            let (inputs, statistics) =
                ([dy, x, g.x(1).cast_like(x)], [mean, variance, products, sums]);
            let [dx, d_scale] = ChannelGrad::compute(inputs, statistics, self.epsilon);
            parts.push(dx);
            g.set(1, d_scale.cast_like(g.x(1)));
            g.set(2, sums.cast_like(g.x(2)));
        }
        let running = |dy: Option<Expr<'t>>| {
            dy.map(|dy| dy.cast_like(x).unsqueeze_channels(x.rank()) * (1.0 - keep) / count)
        };
        let distance = || x - mean.unsqueeze_channels(x.rank());
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
        // The running statistics do not depend on the scale and the bias.
        g.set_others_to_zero();
        Ok(())
    }
}

/// Normalizes each channel of each instance:
/// `y = scale (x - mean) / √(variance + epsilon) + B`.
pub struct InstanceNormalization {
    /// Added to the variances.
    pub epsilon: f32,
}

pub fn read_instance(node: &mut Reader<'_>) -> Result<Rc<dyn Op>> {
    Ok(Rc::new(InstanceNormalization { epsilon: node.float("epsilon", 1e-5)? }))
}

static INSTANCE: Kernel<(Axis, f32)> = kernel!(FLOATS T, norm::instance_normalization::<T>,
    |f, a, p| f(a.input(0), a.input(1), a.input(2), a.output(0), p.0, p.1),
    in_place instance_normalization_in_place::<T> |f, a, p|
        f(a.output(0), a.input(0), a.input(1), p.0, p.1));

/// Infers the type of input 0, and requires inputs 1 and 2 to have one number per channel.
fn infer_channels(cx: &mut Infer<'_>) -> Inferred<TensorType> {
    let ty = cx.of(0, FLOATS)?;
    let Some(channels) = ty.shape.get(1) else {
        let message = format!("input 0 must have channels, but has {} axes", ty.rank());
        return Err(cx.diagnostic(Code::ShapeMismatch, message));
    };
    for i in 1..3 {
        require_per_channel(cx, i, channels)?;
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
        g.set(0, normalized.gradient(dy * g.x(1).unsqueeze_channels(x.rank()), &axes));
        g.set(1, (dy * normalized.y).sum_per_channel(g.x(1)));
        g.set(2, dy.sum_per_channel(g.x(2)));
        Ok(())
    }
}

/// Normalizes each group of channels of each instance, and scales and shifts each channel.
pub struct GroupNormalization {
    /// Added to the variances.
    pub epsilon: f32,
    /// The number of groups.
    pub num_groups: i64,
    /// The specified type of the statistics. The kernel's accumulators are never less precise.
    pub stash_type: DType,
}

pub fn read_group(node: &mut Reader<'_>) -> Result<Rc<dyn Op>> {
    Ok(Rc::new(GroupNormalization {
        epsilon: node.float("epsilon", 1e-5)?,
        num_groups: node.required_int("num_groups")?,
        stash_type: super::stash_type::stash_type(node)?,
    }))
}

/// `GroupNormalization` of version 18, which was removed: the scale and the bias have one number
/// for each group.
pub fn group_of_scaled_groups(node: &mut Reader<'_>) -> Result<String> {
    let epsilon = node.float("epsilon", 1e-5)?;
    let groups = node.required_int("num_groups")?;
    Ok(format!(
        "(x, scale, bias) => (y) {{
            channels = Shape <start = 1, end = 2> (x)
            groups = Constant <value_ints = [{groups}]> ()
            each = Div (channels, groups)
            sizes = Concat <axis = 0> (groups, each)
            last = Constant <value_ints = [1]> ()
            scale_column = Unsqueeze (scale, last)
            scales = Expand (scale_column, sizes)
            bias_column = Unsqueeze (bias, last)
            biases = Expand (bias_column, sizes)
            scale_row = Reshape (scales, channels)
            bias_row = Reshape (biases, channels)
            y = GroupNormalization <epsilon = {epsilon:?}, num_groups = {groups}>
                (x, scale_row, bias_row)
        }}"
    ))
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
            let message = format!("`num_groups` is {}, but must be at least 1", self.num_groups);
            return Err(cx.diagnostic(Code::BadAttribute, message));
        }
        let rest = ty.shape[1].modulo(&self.num_groups.into());
        cx.require_equal(&rest, &0.into(), "the number of channels modulo `num_groups` and 0")?;
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
        let dx = normalized.gradient(groups(dy * g.x(1).unsqueeze_channels(x.rank())), &[2]);
        g.set(0, dx.reshape_like(x));
        g.set(1, (dy * normalized.y.reshape_like(x)).sum_per_channel(g.x(1)));
        g.set(2, dy.sum_per_channel(g.x(2)));
        Ok(())
    }
}
