//! Normalization. Means, variances and norms of 16-bit types are computed in `f32`.
//!
//! In `f32` the error for norms of `K` elements is at most `1e-6 √K`: relative to each result, or
//! absolute where a mean close to the elements is subtracted.

mod batch;
mod channel;
mod layer;
mod layer_grad;
mod lp;
mod lrn;
mod operands;
mod rows;

pub use batch::{
    BatchNormOperands, BatchNormOutputs, Groups, batch_normalization, batch_normalization_in_place,
    batch_normalization_training, group_normalization, group_normalization_in_place,
    instance_normalization, instance_normalization_in_place,
};
pub use channel::{
    ChannelGradOperands, channel_grad, channel_grad_in_place, channel_moments, channel_sums,
    running_mean, running_mean_in_place,
};
pub(crate) use channel::{GradCoefficients, GradInputs};
pub use layer::{
    LayerNormOutputs, layer_normalization, layer_normalization_in_place, rms_normalization,
    rms_normalization_in_place,
};
pub use layer_grad::{LayerNormGrads, layer_normalization_grad, rms_normalization_grad};
pub use lp::{
    lp_normalization_l1, lp_normalization_l1_in_place, lp_normalization_l2,
    lp_normalization_l2_in_place,
};
pub use lrn::{Lrn, lrn};

use crate::Number;
use crate::kernels::reduce::Reduce;
use crate::loops::fold::{Fold, Sum, sum_at};
use crate::loops::index::number;
use crate::simd::{Pointwise, Simd, WithSimd, dispatch};

/// The number of times that elements with statistics of their own are read.
const READS: usize = 3;

/// `Σ (x - mean)²`.
#[derive(Clone, Copy)]
struct Deviation<S> {
    mean: S,
}

impl<T: Reduce> Fold<T> for Deviation<T::Sum> {
    type State = T::Sum;

    #[inline(always)]
    fn start(self) -> T::Sum {
        T::Sum::ZERO
    }
    #[inline(always)]
    fn take(self, state: T::Sum, x: T) -> T::Sum {
        let distance = x.summand().sub(self.mean);
        state.add(distance.mul(distance))
    }
    #[inline(always)]
    fn join(self, a: T::Sum, b: T::Sum) -> T::Sum {
        a.add(b)
    }
    #[inline(always)]
    fn finish(self, state: T::Sum) -> T {
        T::of_sum(state)
    }
}

/// `x`.
#[derive(Clone, Copy)]
struct Same;

impl Pointwise for Same {
    #[inline(always)]
    fn apply<S: Simd>(self, _: S, x: S::F32) -> S::F32 {
        x
    }
}

/// `(x - mean)²`.
#[derive(Clone, Copy)]
struct Distance {
    mean: f32,
}

impl Pointwise for Distance {
    #[inline(always)]
    fn apply<S: Simd>(self, s: S, x: S::F32) -> S::F32 {
        let distance = s.sub(x, s.splat(self.mean));
        s.mul(distance, distance)
    }
}

/// Returns the mean and the variance of a slice.
fn moments<T: Reduce>(x: &[T]) -> (T::Sum, T::Sum) {
    if let Some(x) = T::as_f32(x) {
        let [mean, variance] = moments_f32(x).map(|x| T::Sum::from_f64(x.into()));
        return (mean, variance);
    }
    let count = number(x.len());
    let mean = Sum.take_all(x).div(count);
    (mean, Deviation { mean }.take_all(x).div(count))
}

#[inline(never)]
fn moments_f32(x: &[f32]) -> [f32; 2] {
    dispatch(Moments(x))
}

struct Moments<'a>(&'a [f32]);

impl WithSimd for Moments<'_> {
    type Output = [f32; 2];

    #[inline(always)]
    fn run<S: Simd>(self, s: S) -> [f32; 2] {
        let count = self.0.len() as f32;
        let mean = sum_at(s, self.0, Same) / count;
        [mean, sum_at(s, self.0, Distance { mean }) / count]
    }
}
