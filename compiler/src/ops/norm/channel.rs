//! Sums over channels, the statistics of a normalization, and the derivatives that follow from them.

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

/// The mean and the variance of each channel.
pub struct ChannelMoments {
    /// How many channels are meant, where they stand in blocks.
    pub blocked: Option<i64>,
}

/// `Σ dy (x - mean)` and `Σ dy` of each channel, from `x`, `dy`, and a mean for each channel.
pub struct ChannelSums {
    /// How many channels are meant, where they stand in blocks.
    pub blocked: Option<i64>,
}

/// The derivatives by `x`, and by the scale, of a normalization of channels with the statistics of `x`
/// itself, from the derivative `dy` by its result, `x`, the scale, the mean and the variance of each
/// channel, and what [`ChannelSums`] finds.
pub struct ChannelGrad {
    /// What is added to the variances.
    pub epsilon: f32,
    /// How many channels are meant, where they stand in blocks.
    pub blocked: Option<i64>,
}

/// So much of the first input, and the rest of the second one.
pub struct RunningMean {
    /// How much of the first input stays.
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

static MOMENTS: Kernel<Axis> = kernel!(F32_AND_F64 T, norm::channel_moments::<T>,
    |f, a, p| f(a.input(0), a.output(0), a.output(1), p));
static BLOCKED_MOMENTS: Kernel<Channels> = kernel!(F32_ONLY T, blocked::blocked_channel_moments,
    |f, a, p| f(a.input(0), a.output(0), a.output(1), p));
static SUMS: Kernel<Axis> = kernel!(F32_AND_F64 T, norm::channel_sums::<T>,
    |f, a, p| f(a.input(0), a.input(1), a.input(2), a.output(0), a.output(1), p));
static BLOCKED_SUMS: Kernel<Channels> = kernel!(F32_ONLY T, blocked::blocked_channel_sums,
    |f, a, p| f(a.input(0), a.input(1), a.input(2), a.output(0), a.output(1), p));
static GRAD: Kernel<(Axis, f32)> = kernel!(F32_AND_F64 T, norm::channel_grad::<T>,
    |f, a, p| f(a.input(0), a.input(1), a.input(2), a.input(3), a.input(4), a.input(5), a.input(6),
        a.output(0), a.output(1), p.0, p.1),
    in_place channel_grad_in_place::<T> |f, a, p| f(a.output(0), a.output(1), a.input(0),
        a.input(1), a.input(2), a.input(3), a.input(4), a.input(5), p.0, p.1));
static BLOCKED_GRAD: Kernel<(Channels, f32)> = kernel!(F32_ONLY T, blocked::blocked_channel_grad,
    |f, a, p| f(a.input(0), a.input(1), a.input(2), a.input(3), a.input(4), a.input(5), a.input(6),
        a.output(0), a.output(1), p.0, p.1),
    in_place blocked_channel_grad_in_place |f, a, p| f(a.output(0), a.output(1), a.input(0),
        a.input(1), a.input(2), a.input(3), a.input(4), a.input(5), p.0, p.1));
static RUNNING_MEAN: Kernel<(f32,)> = kernel!(F32_AND_F64 T, norm::running_mean::<T>,
    |f, a, p| f(a.input(0), a.input(1), a.output(0), p.0),
    in_place running_mean_in_place::<T> |f, a, p| f(a.output(0), a.input(0), p.0));

impl ChannelMoments {
    /// The mean and the variance of each channel of `x`.
    pub fn of(x: Expr<'_>) -> [Expr<'_>; 2] {
        if !F32_AND_F64.contains(&x.dtype()) {
            return ChannelMoments::written_out(x);
        }
        let found = x.tape.node(Rc::new(ChannelMoments { blocked: None }), &[Some(x)], 2);
        [found[0], found[1]]
    }

    fn written_out(x: Expr<'_>) -> [Expr<'_>; 2] {
        let others = others(x);
        let mean = x.mean(&others);
        let distance = x - mean;
        [mean, (distance * distance).mean(&others)].map(flat)
    }
}

impl ChannelSums {
    /// Both sums, for a `mean` of the type of `x`.
    pub fn of<'t>(x: Expr<'t>, dy: Expr<'t>, mean: Expr<'t>) -> [Expr<'t>; 2] {
        if !F32_AND_F64.contains(&x.dtype()) {
            return ChannelSums::written_out(x, dy, mean);
        }
        let given = [x, dy, mean].map(Some);
        let found = x.tape.node(Rc::new(ChannelSums { blocked: None }), &given, 2);
        [found[0], found[1]]
    }

    fn written_out<'t>(x: Expr<'t>, dy: Expr<'t>, mean: Expr<'t>) -> [Expr<'t>; 2] {
        let distance = x - mean.for_channels(x.rank());
        [dy * distance, dy].map(|x| flat(x.sum(&others(x))))
    }
}

impl ChannelGrad {
    /// Both derivatives, for a `scale` and `statistics` of the type of `x`: the mean and the variance,
    /// and both of [`ChannelSums`].
    pub fn of<'t>(
        [dy, x, scale]: [Expr<'t>; 3],
        statistics: [Expr<'t>; 4],
        epsilon: f32,
    ) -> [Expr<'t>; 2] {
        if !F32_AND_F64.contains(&x.dtype()) {
            return ChannelGrad::written_out([dy, x, scale], statistics, epsilon);
        }
        let given: Vec<_> = [dy, x, scale].into_iter().chain(statistics).map(Some).collect();
        let found = x.tape.node(Rc::new(ChannelGrad { epsilon, blocked: None }), &given, 2);
        [found[0], found[1]]
    }

    /// `scale · factor · (dy - Σ dy / n - factor² · (x - mean) · Σ dy (x - mean) / n)`.
    fn written_out<'t>(
        [dy, x, scale]: [Expr<'t>; 3],
        [mean, variance, products, sums]: [Expr<'t>; 4],
        epsilon: f32,
    ) -> [Expr<'t>; 2] {
        let factor = inverse_root(variance, epsilon);
        let count = x.count_like(x) / mean.count_like(x);
        let spread = |number: Expr<'t>| number.for_channels(x.rank());
        let along = spread(factor * factor * products / count) * (x - spread(mean));
        let dx = spread(scale * factor) * (dy - spread(sums / count) - along);
        [dx, products * factor]
    }
}

/// All axes but that of the channels.
fn others(x: Expr<'_>) -> Vec<usize> {
    (0..x.rank()).filter(|&axis| axis != 1).collect()
}

/// A number for each channel without further axes.
fn flat(x: Expr<'_>) -> Expr<'_> {
    x.reshape_to(&[-1])
}

/// The number of channels of input 0.
fn count(cx: &mut Infer<'_>, blocked: Option<i64>) -> Inferred<Dim> {
    let (count, least) = match blocked {
        Some(channels) => (Some(channels.into()), 3),
        None => (cx.of(0, F32_AND_F64)?.shape.get(1).cloned(), 2),
    };
    let known = count.filter(|_| cx.of(0, F32_AND_F64).is_ok_and(|ty| ty.rank() >= least));
    known.ok_or_else(|| cx.diagnostic(Code::ShapeMismatch, "the input has no channels"))
}

/// The geometry of so many channels of a tensor of `shape`, which is in blocks.
fn nchwc(shape: &[Dim], channels: i64) -> Channels {
    let (batch, image) = blocked::batch_and_image(shape).expect("inferring saw the axes");
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
        let found = Type::tensor(cx.of(0, F32_AND_F64)?.dtype, [count(cx, self.blocked)?]);
        Ok(vec![found.clone(), found])
    }

    fn lower(&self, cx: &mut Lower<'_>) -> Result {
        let shape = &cx.ty(0)?.shape;
        match self.blocked {
            Some(channels) => cx.call(&BLOCKED_MOMENTS, nchwc(shape, channels)),
            None => cx.call(&MOMENTS, Axis::of(shape, 1)),
        }
    }

    fn gradient(&self, g: &mut Gradient<'_>) -> Result {
        let formulas = ChannelMoments::written_out(g.x(0));
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
            cx.require_equal(a, b, "the sizes of what is normalized and of the derivative")?;
        }
        let means = &cx.ranked(2, 1)?.shape[0];
        cx.require_equal(means, &channels, "the numbers of means and of channels")?;
        let found = Type::tensor(ty.dtype, [channels]);
        Ok(vec![found.clone(), found])
    }

    fn lower(&self, cx: &mut Lower<'_>) -> Result {
        let shape = &cx.ty(0)?.shape;
        match self.blocked {
            Some(channels) => cx.call(&BLOCKED_SUMS, nchwc(shape, channels)),
            None => cx.call(&SUMS, Axis::of(shape, 1)),
        }
    }

    fn gradient(&self, g: &mut Gradient<'_>) -> Result {
        let formulas = ChannelSums::written_out(g.x(0), g.x(1), g.x(2));
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
            cx.require_equal(a, b, "the sizes of what is normalized and of the derivative")?;
        }
        for i in 1..7 {
            cx.same_dtype(0, i)?;
        }
        for i in 2..7 {
            let given = &cx.ranked(i, 1)?.shape[0];
            cx.require_equal(given, &channels, "the numbers of parameters and of channels")?;
        }
        let by_scale = Type::tensor(ty.dtype, [channels]);
        Ok(vec![ty.into(), by_scale])
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
        let given = [0, 1, 2].map(|i| g.x(i));
        g.through(&ChannelGrad::written_out(given, statistics, self.epsilon))
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
        cx.require_equal(&ty.len(), &cx.ty(1)?.len(), "the numbers that are kept and added")?;
        Ok(vec![ty.into()])
    }

    fn lower(&self, cx: &mut Lower<'_>) -> Result {
        cx.call(&RUNNING_MEAN, (self.momentum,))
    }
}

/// Numbers by which channels that stand in blocks are normalized: factors and addends, from the scale,
/// the bias, the means and the variances, with zeros for channels that are missing to a whole block.
pub struct ChannelFactors {
    /// What is added to the variances.
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
        let found = Type::tensor(DType::F32, [channels.ceil_div(&block) * &block]);
        Ok(vec![found.clone(), found])
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
    fn each_channel_has_a_number() {
        let x = || tensor(F32, [2, 20, 3]);
        let (found, plain) = ("float[20]; float[20]", ChannelMoments { blocked: None });
        check(plain, &[x()], 2, found);
        check(ChannelSums { blocked: None }, &[x(), x(), tensor(F32, [20])], 2, found);
        let x = || tensor(F32, [2, 2, 3, 16]);
        check(ChannelMoments { blocked: Some(20) }, &[x()], 2, found);
        check(ChannelSums { blocked: Some(20) }, &[x(), x(), tensor(F32, [20])], 2, found);
        let message = "the numbers of means and of channels must be equal, but are 32 and 20";
        check(ChannelSums { blocked: Some(20) }, &[x(), x(), tensor(F32, [32])], 2, message);
    }

    #[test]
    fn a_slope_is_as_large_as_what_it_is_by() {
        fn given<const N: usize>(shape: [usize; N]) -> Vec<Given> {
            let x = [(); 2].map(|()| tensor(F32, shape));
            x.into_iter().chain([(); 5].map(|()| tensor(F32, [20]))).collect()
        }
        let plain = ChannelGrad { epsilon: 1e-5, blocked: None };
        check(plain, &given([2, 20, 3]), 2, "float[2, 20, 3]; float[20]");
        let blocked = ChannelGrad { epsilon: 1e-5, blocked: Some(20) };
        check(blocked, &given([2, 2, 3, 16]), 2, "float[2, 2, 3, 16]; float[20]");
        let running = [tensor(F32, [20]), tensor(F32, [20])];
        check(RunningMean { momentum: 0.9 }, &running, 1, "float[20]");
    }

    #[test]
    fn factors_fill_blocks() {
        let given = [(); 4].map(|()| tensor(F32, [20]));
        check(ChannelFactors { epsilon: 1e-5 }, &given, 2, "float[32]; float[32]");
    }
}
