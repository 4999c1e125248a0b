//! Per-channel statistics of normalizations, and the gradients computed from them.

use super::gradient::inverse_root;
use crate::{
    diag::{Code, Result},
    dim::Dim,
    dtype::{DType, F32_AND_F64},
    ir::{Attributes, Domain, Expr, Gradient, Infer, Inferred, Lower, Op, Reader},
    ops::blocked,
    plan::{
        Kernel,
        geometry::{Axis, Channels},
        kernel,
    },
    ty::Type,
};
use std::rc::Rc;

/// The mean and the variance of each channel of `x`.
pub struct ChannelMoments {
    /// The number of channels of an NCHWc input; `None` for NCHW.
    pub blocked: Option<i64>,
}

/// `Σ dy (x - mean)` and `Σ dy` of each channel. Its inputs are `x`, `dy` and `mean`.
pub struct ChannelSums {
    /// The number of channels of an NCHWc input; `None` for NCHW.
    pub blocked: Option<i64>,
}

/// The gradients `dx` and `dscale` of a normalization of channels by the statistics of `x` itself.
/// Its inputs are `dy`, `x`, `scale`, `mean`, `variance`, and the outputs of [`ChannelSums`].
pub struct ChannelGrad {
    /// Added to the variances.
    pub epsilon: f32,
    /// The number of channels of an NCHWc input; `None` for NCHW.
    pub blocked: Option<i64>,
}

/// `momentum · a + (1 - momentum) · b` of the inputs `a` and `b`.
pub struct RunningMean {
    /// The weight of input 0.
    pub momentum: f32,
}

pub fn read_moments(node: &mut Reader<'_>) -> Result<Rc<dyn Op>> {
    Ok(Rc::new(ChannelMoments { blocked: node.maybe_int("blocked")? }))
}

pub fn read_sums(node: &mut Reader<'_>) -> Result<Rc<dyn Op>> {
    Ok(Rc::new(ChannelSums { blocked: node.maybe_int("blocked")? }))
}

pub fn read_grad(node: &mut Reader<'_>) -> Result<Rc<dyn Op>> {
    let (epsilon, blocked) = (node.float("epsilon", 1e-5)?, node.maybe_int("blocked")?);
    Ok(Rc::new(ChannelGrad { epsilon, blocked }))
}

pub fn read_running_mean(node: &mut Reader<'_>) -> Result<Rc<dyn Op>> {
    Ok(Rc::new(RunningMean { momentum: node.float("momentum", 0.9)? }))
}

macro_rules! grad_kernel {
    ($set:ident $T:ident, $home:ident :: $name:ident $(:: <$G:ident>)?,
        $in_place:ident $(:: <$H:ident>)?) => {
        kernel!($set $T, $home::$name $(::<$G>)? { operands: norm::ChannelGradOperands {
            x: input(1), scale: input(2), mean: input(3), variance: input(4), products: input(5),
            sums: input(6),
        } }, |f, a, p| f(a.input(0), operands, a.output(0), a.output(1), p.0, p.1),
        in_place $in_place $(::<$H>)? { operands: norm::ChannelGradOperands {
            x: input(0), scale: input(1), mean: input(2), variance: input(3), products: input(4),
            sums: input(5),
        } } |f, a, p| f(a.output(0), a.output(1), operands, p.0, p.1))
    };
}

static MOMENTS: Kernel<Axis> = kernel!(F32_AND_F64 T, norm::channel_moments::<T>,
    |f, a, p| f(a.input(0), a.output(0), a.output(1), p));
static BLOCKED_MOMENTS: Kernel<Channels> = kernel!(F32_ONLY T, blocked::blocked_channel_moments,
    |f, a, p| f(a.input(0), a.output(0), a.output(1), p));
static SUMS: Kernel<Axis> = kernel!(F32_AND_F64 T, norm::channel_sums::<T>,
    |f, a, p| f(a.input(0), a.input(1), a.input(2), a.output(0), a.output(1), p));
static BLOCKED_SUMS: Kernel<Channels> = kernel!(F32_ONLY T, blocked::blocked_channel_sums,
    |f, a, p| f(a.input(0), a.input(1), a.input(2), a.output(0), a.output(1), p));
static GRAD: Kernel<(Axis, f32)> =
    grad_kernel!(F32_AND_F64 T, norm::channel_grad::<T>, channel_grad_in_place::<T>);
static BLOCKED_GRAD: Kernel<(Channels, f32)> =
    grad_kernel!(F32_ONLY T, blocked::blocked_channel_grad, blocked_channel_grad_in_place);
static RUNNING_MEAN: Kernel<(f32,)> = kernel!(F32_AND_F64 T, norm::running_mean::<T>,
    |f, a, p| f(a.input(0), a.input(1), a.output(0), p.0),
    in_place running_mean_in_place::<T> |f, a, p| f(a.output(0), a.input(0), p.0));

impl ChannelMoments {
    /// Computes the mean and the variance of each channel of `x`.
    pub fn compute(x: Expr<'_>) -> [Expr<'_>; 2] {
        if !F32_AND_F64.contains(&x.dtype()) {
            return ChannelMoments::formulas(x);
        }
        let outputs = x.tape.node(Rc::new(ChannelMoments { blocked: None }), &[Some(x)], 2);
        [outputs[0], outputs[1]]
    }

    fn formulas(x: Expr<'_>) -> [Expr<'_>; 2] {
        let other_axes = other_axes(x);
        let mean = x.mean(&other_axes);
        let distance = x - mean;
        [mean, (distance * distance).mean(&other_axes)].map(flatten)
    }
}

impl ChannelSums {
    /// Computes both sums. `mean` has the type of `x`.
    pub fn compute<'t>(x: Expr<'t>, dy: Expr<'t>, mean: Expr<'t>) -> [Expr<'t>; 2] {
        if !F32_AND_F64.contains(&x.dtype()) {
            return ChannelSums::formulas(x, dy, mean);
        }
        let inputs = [x, dy, mean].map(Some);
        let outputs = x.tape.node(Rc::new(ChannelSums { blocked: None }), &inputs, 2);
        [outputs[0], outputs[1]]
    }

    fn formulas<'t>(x: Expr<'t>, dy: Expr<'t>, mean: Expr<'t>) -> [Expr<'t>; 2] {
        let distance = x - mean.unsqueeze_channels(x.rank());
        [dy * distance, dy].map(|x| flatten(x.sum(&other_axes(x))))
    }
}

impl ChannelGrad {
    /// Computes both gradients. `scale` and `statistics` have the type of `x`; the statistics are
    /// the mean, the variance, and the outputs of [`ChannelSums`].
    pub fn compute<'t>(
        [dy, x, scale]: [Expr<'t>; 3],
        statistics: [Expr<'t>; 4],
        epsilon: f32,
    ) -> [Expr<'t>; 2] {
        if !F32_AND_F64.contains(&x.dtype()) {
            return ChannelGrad::formulas([dy, x, scale], statistics, epsilon);
        }
        let inputs: Vec<_> = [dy, x, scale].into_iter().chain(statistics).map(Some).collect();
        let outputs = x.tape.node(Rc::new(ChannelGrad { epsilon, blocked: None }), &inputs, 2);
        [outputs[0], outputs[1]]
    }

    /// `dx = scale · factor · (dy - Σ dy / n - factor² · (x - mean) · Σ dy (x - mean) / n)` and
    /// `dscale = factor · Σ dy (x - mean)`, where `factor = 1 / √(variance + epsilon)` and `n` is
    /// the number of elements of a channel.
    fn formulas<'t>(
        [dy, x, scale]: [Expr<'t>; 3],
        [mean, variance, products, sums]: [Expr<'t>; 4],
        epsilon: f32,
    ) -> [Expr<'t>; 2] {
        let factor = inverse_root(variance, epsilon);
        let count = x.count_like(x) / mean.count_like(x);
        let per_channel = |number: Expr<'t>| number.unsqueeze_channels(x.rank());
        let projection = per_channel(factor * factor * products / count) * (x - per_channel(mean));
        let dx = per_channel(scale * factor) * (dy - per_channel(sums / count) - projection);
        [dx, products * factor]
    }
}

/// All axes except the channel axis.
fn other_axes(x: Expr<'_>) -> Vec<usize> {
    (0..x.rank()).filter(|&axis| axis != 1).collect()
}

/// Reshapes to one axis.
fn flatten(x: Expr<'_>) -> Expr<'_> {
    x.reshape_to(&[-1])
}

/// The number of channels of input 0. NCHWc inputs have at least three axes, others at least two.
fn count(cx: &mut Infer<'_>, blocked: Option<i64>) -> Inferred<Dim> {
    let (count, least) = match blocked {
        Some(channels) => (Some(channels.into()), 3),
        None => (cx.of(0, F32_AND_F64)?.shape.get(1).cloned(), 2),
    };
    let known = count.filter(|_| cx.of(0, F32_AND_F64).is_ok_and(|ty| ty.rank() >= least));
    known.ok_or_else(|| cx.diagnostic(Code::ShapeMismatch, "the input has no channels"))
}

/// The geometry of an NCHWc tensor of `shape` with that number of channels.
fn nchwc(shape: &[Dim], channels: i64) -> Channels {
    let (batch, image) = blocked::batch_and_image(shape).expect("`infer` checked the rank");
    Channels { batch: batch.clone(), channels: channels.into(), pixels: image.iter().product() }
}

fn attributes(a: &mut Attributes, blocked: Option<i64>) {
    if let Some(channels) = blocked {
        a.int("blocked", channels);
    }
}

impl Op for ChannelMoments {
    fn name(&self) -> &'static str {
        "ChannelMoments"
    }

    fn domain(&self) -> Domain {
        Domain::Internal
    }

    fn attributes(&self, a: &mut Attributes) {
        attributes(a, self.blocked);
    }

    fn infer(&self, cx: &mut Infer<'_>) -> Inferred {
        let ty = Type::tensor(cx.of(0, F32_AND_F64)?.dtype, [count(cx, self.blocked)?]);
        Ok(vec![ty.clone(), ty])
    }

    fn lower(&self, cx: &mut Lower<'_>) -> Result {
        let shape = &cx.ty(0)?.shape;
        match self.blocked {
            Some(channels) => cx.call(&BLOCKED_MOMENTS, nchwc(shape, channels)),
            None => cx.call(&MOMENTS, Axis::of(shape, 1)),
        }
    }

    fn gradient(&self, g: &mut Gradient<'_>) -> Result {
        let formulas = ChannelMoments::formulas(g.x(0));
        g.through(&formulas)
    }
}

impl Op for ChannelSums {
    fn name(&self) -> &'static str {
        "ChannelSums"
    }

    fn domain(&self) -> Domain {
        Domain::Internal
    }

    fn attributes(&self, a: &mut Attributes) {
        attributes(a, self.blocked);
    }

    fn infer(&self, cx: &mut Infer<'_>) -> Inferred {
        let (ty, channels) = (cx.of(0, F32_AND_F64)?.clone(), count(cx, self.blocked)?);
        cx.same_dtype(0, 1)?;
        cx.same_dtype(0, 2)?;
        let dy = cx.ranked(1, ty.rank())?.shape.clone();
        for (a, b) in ty.shape.iter().zip(&dy) {
            cx.require_equal(a, b, "the sizes of the input and of `dy`")?;
        }
        let means = &cx.ranked(2, 1)?.shape[0];
        cx.require_equal(means, &channels, "the numbers of means and of channels")?;
        let ty = Type::tensor(ty.dtype, [channels]);
        Ok(vec![ty.clone(), ty])
    }

    fn lower(&self, cx: &mut Lower<'_>) -> Result {
        let shape = &cx.ty(0)?.shape;
        match self.blocked {
            Some(channels) => cx.call(&BLOCKED_SUMS, nchwc(shape, channels)),
            None => cx.call(&SUMS, Axis::of(shape, 1)),
        }
    }

    fn gradient(&self, g: &mut Gradient<'_>) -> Result {
        let formulas = ChannelSums::formulas(g.x(0), g.x(1), g.x(2));
        g.through(&formulas)
    }
}

impl Op for ChannelGrad {
    fn name(&self) -> &'static str {
        "ChannelGrad"
    }

    fn domain(&self) -> Domain {
        Domain::Internal
    }

    fn attributes(&self, a: &mut Attributes) {
        a.float("epsilon", self.epsilon);
        attributes(a, self.blocked);
    }

    fn infer(&self, cx: &mut Infer<'_>) -> Inferred {
        let (ty, channels) = (cx.of(0, F32_AND_F64)?.clone(), count(cx, self.blocked)?);
        let x = cx.ranked(1, ty.rank())?.shape.clone();
        for (a, b) in ty.shape.iter().zip(&x) {
            cx.require_equal(a, b, "the sizes of the input and of `dy`")?;
        }
        for i in 1..7 {
            cx.same_dtype(0, i)?;
        }
        for i in 2..7 {
            let len = &cx.ranked(i, 1)?.shape[0];
            cx.require_equal(len, &channels, "the numbers of parameters and of channels")?;
        }
        let d_scale = Type::tensor(ty.dtype, [channels]);
        Ok(vec![ty.into(), d_scale])
    }

    fn lower(&self, cx: &mut Lower<'_>) -> Result {
        let shape = &cx.ty(0)?.shape;
        match self.blocked {
            Some(channels) => cx.call(&BLOCKED_GRAD, (nchwc(shape, channels), self.epsilon)),
            None => cx.call(&GRAD, (Axis::of(shape, 1), self.epsilon)),
        }
    }

    fn gradient(&self, g: &mut Gradient<'_>) -> Result {
        let statistics = [3, 4, 5, 6].map(|i| g.x(i));
        let inputs = [0, 1, 2].map(|i| g.x(i));
        g.through(&ChannelGrad::formulas(inputs, statistics, self.epsilon))
    }
}

impl Op for RunningMean {
    fn name(&self) -> &'static str {
        "RunningMean"
    }

    fn domain(&self) -> Domain {
        Domain::Internal
    }

    fn attributes(&self, a: &mut Attributes) {
        a.float("momentum", self.momentum);
    }

    fn infer(&self, cx: &mut Infer<'_>) -> Inferred {
        let ty = cx.of(0, F32_AND_F64)?.clone();
        cx.same_dtype(0, 1)?;
        cx.require_equal(&ty.len(), &cx.ty(1)?.len(), "the lengths of both inputs")?;
        Ok(vec![ty.into()])
    }

    fn lower(&self, cx: &mut Lower<'_>) -> Result {
        cx.call(&RUNNING_MEAN, (self.momentum,))
    }
}

/// The factor `scale / √(variance + epsilon)` and the offset `bias - mean · factor` of each
/// channel, padded with zeros to whole NCHWc blocks. Its inputs are `scale`, `bias`, `mean` and
/// `variance`.
pub struct ChannelFactors {
    /// Added to the variances.
    pub epsilon: f32,
}

pub fn read_factors(node: &mut Reader<'_>) -> Result<Rc<dyn Op>> {
    Ok(Rc::new(ChannelFactors { epsilon: node.float("epsilon", 1e-5)? }))
}

static FACTORS: Kernel<(f32,)> = kernel!(F32_ONLY T, blocked::channel_factors,
    |f, a, p| f(
        a.input(0), a.input(1), a.input(2), a.input(3), a.output(0), a.output(1), p.0));

impl Op for ChannelFactors {
    fn name(&self) -> &'static str {
        "ChannelFactors"
    }

    fn domain(&self) -> Domain {
        Domain::Internal
    }

    fn attributes(&self, a: &mut Attributes) {
        a.float("epsilon", self.epsilon);
    }

    fn infer(&self, cx: &mut Infer<'_>) -> Inferred {
        cx.of(0, &[DType::F32])?;
        let channels = cx.ranked(0, 1)?.shape[0].clone();
        for i in 1..4 {
            cx.same_dtype(0, i)?;
            let count = &cx.ranked(i, 1)?.shape[0];
            cx.require_equal(count, &channels, "the numbers of parameters")?;
        }
        let block = Dim::from(blocked::BLOCK);
        let ty = Type::tensor(DType::F32, [channels.ceil_div(&block) * &block]);
        Ok(vec![ty.clone(), ty])
    }

    fn lower(&self, cx: &mut Lower<'_>) -> Result {
        cx.call(&FACTORS, (self.epsilon,))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::testing::{Given, check, tensor};
    use DType::F32;

    #[test]
    fn statistics_have_one_number_per_channel() {
        let x = || tensor(F32, [2, 20, 3]);
        let (types, nchw) = ("float[20]; float[20]", ChannelMoments { blocked: None });
        check(nchw, &[x()], 2, types);
        check(ChannelSums { blocked: None }, &[x(), x(), tensor(F32, [20])], 2, types);
        let x = || tensor(F32, [2, 2, 3, 16]);
        check(ChannelMoments { blocked: Some(20) }, &[x()], 2, types);
        check(ChannelSums { blocked: Some(20) }, &[x(), x(), tensor(F32, [20])], 2, types);
        let message = "the numbers of means and of channels must be equal, but are 32 and 20";
        check(ChannelSums { blocked: Some(20) }, &[x(), x(), tensor(F32, [32])], 2, message);
    }

    #[test]
    fn gradients_have_the_shapes_of_their_inputs() {
        fn inputs<const N: usize>(shape: [usize; N]) -> Vec<Given> {
            let x = [(); 2].map(|()| tensor(F32, shape));
            x.into_iter().chain([(); 5].map(|()| tensor(F32, [20]))).collect()
        }
        let nchw = ChannelGrad { epsilon: 1e-5, blocked: None };
        check(nchw, &inputs([2, 20, 3]), 2, "float[2, 20, 3]; float[20]");
        let blocked = ChannelGrad { epsilon: 1e-5, blocked: Some(20) };
        check(blocked, &inputs([2, 2, 3, 16]), 2, "float[2, 2, 3, 16]; float[20]");
        let running = [tensor(F32, [20]), tensor(F32, [20])];
        check(RunningMean { momentum: 0.9 }, &running, 1, "float[20]");
    }

    #[test]
    fn factors_are_padded_to_whole_blocks() {
        let inputs = [(); 4].map(|()| tensor(F32, [20]));
        check(ChannelFactors { epsilon: 1e-5 }, &inputs, 2, "float[32]; float[32]");
    }
}
