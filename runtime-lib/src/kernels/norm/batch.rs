//! Normalization with per-channel statistics.

use super::{Deviation, READS, moments};
use crate::loops::elementwise::{map, map_float, map_float_in_place, map_in_place};
use crate::loops::fold::{Fold, Sum};
use crate::loops::geometry::Axis;
use crate::loops::index::number;
use crate::simd::{self, Pointwise, Simd};
use crate::threads;
use crate::{Float, Number};
use core::array::from_fn;

/// The parameters and statistics of a batch normalization, one element for each channel.
#[derive(Clone, Copy, Debug)]
pub struct BatchNormOperands<'a, S, M> {
    /// The scales.
    pub scale: &'a [S],
    /// The biases.
    pub bias: &'a [S],
    /// The means.
    pub mean: &'a [M],
    /// The variances.
    pub variance: &'a [M],
}

/// The outputs of a batch normalization in training.
#[derive(Debug)]
pub struct BatchNormOutputs<'a, T, M> {
    /// The normalized input.
    pub y: &'a mut [T],
    /// The new running means.
    pub running_mean: &'a mut [M],
    /// The new running variances.
    pub running_variance: &'a mut [M],
}

/// `y = scale (x - mean) / √(variance + ε) + bias`; the axis is the channels.
pub fn batch_normalization<T: Float, S: Float, M: Float>(
    x: &[T],
    operands: BatchNormOperands<'_, S, M>,
    y: &mut [T],
    geometry: Axis,
    epsilon: f32,
) {
    normalize_channels(Some(x), y, operands, geometry, epsilon);
}

/// [`batch_normalization`] in place.
pub fn batch_normalization_in_place<T: Float, S: Float, M: Float>(
    y: &mut [T],
    operands: BatchNormOperands<'_, S, M>,
    geometry: Axis,
    epsilon: f32,
) {
    normalize_channels(None, y, operands, geometry, epsilon);
}

/// Normalizes with given statistics; in place without `x`.
fn normalize_channels<T: Float, S: Float, M: Float>(
    x: Option<&[T]>,
    y: &mut [T],
    operands: BatchNormOperands<'_, S, M>,
    geometry: Axis,
    epsilon: f32,
) {
    if geometry.inner == 1 {
        return normalize_rows(x, y, operands, geometry.len, epsilon);
    }
    for channel in 0..geometry.len {
        Linear::of(&operands, channel, epsilon).apply_to_channel(x, y, geometry, channel);
    }
}

/// The number of channels whose factors are at hand while rows are normalized.
const CHANNELS: usize = 32;

/// Normalizes rows that consist of one element for each of `channels`; in place without `x`.
fn normalize_rows<T: Float, S: Float, M: Float>(
    x: Option<&[T]>,
    y: &mut [T],
    operands: BatchNormOperands<'_, S, M>,
    channels: usize,
    epsilon: f32,
) {
    for first in (0..channels).step_by(CHANNELS) {
        let count = CHANNELS.min(channels - first);
        let linear: [Linear<T::Wide>; CHANNELS] = from_fn(|i| {
            // The last block may have fewer channels.
            Linear::of(&operands, first + i.min(count - 1), epsilon)
        });
        // Loops over separate arrays are vectorized.
        let (means, factors) = (linear.map(|of| of.mean), linear.map(|of| of.factor));
        let biases = linear.map(|of| of.bias);
        let at = |x: T, i: usize| T::narrow(x.widen().sub(means[i]).mul(factors[i]).add(biases[i]));
        for (row, y) in y.chunks_exact_mut(channels).enumerate() {
            let y = &mut y[first..][..count];
            match x {
                Some(x) => {
                    let x = &x[row * channels + first..][..count];
                    (0..count.min(CHANNELS)).for_each(|i| y[i] = at(x[i], i));
                }
                None => (0..count.min(CHANNELS)).for_each(|i| y[i] = at(y[i], i)),
            }
        }
    }
}

/// [`batch_normalization`] with the statistics of `x`. Running statistics become `momentum ·
/// running + (1 - momentum) · current`.
pub fn batch_normalization_training<T: Float, S: Float, M: Float>(
    x: &[T],
    operands: BatchNormOperands<'_, S, M>,
    outputs: BatchNormOutputs<'_, T, M>,
    geometry: Axis,
    epsilon: f32,
    momentum: f32,
) {
    let BatchNormOutputs { y, running_mean, running_variance } = outputs;
    let BatchNormOperands { scale, bias, mean, variance } = operands;
    let Axis { outer, len, inner } = geometry;
    let count = number(outer * inner);
    let momentum: T::Wide = to_wide(momentum);
    let run = |before: M, now: T::Wide| -> M {
        let before: T::Wide = to_wide(before);
        M::from_f64(momentum.mul(before).add(T::Wide::ONE.sub(momentum).mul(now)).to_f64())
    };
    for channel in 0..len {
        let rows = || x.chunks_exact(inner.max(1)).skip(channel).step_by(len);
        let sum = rows().fold(T::Wide::ZERO, |sum, x| sum.add(Sum.take_all(x)));
        let average: T::Wide = sum.div(count);
        let deviation = Deviation { mean: average };
        let sum = rows().fold(T::Wide::ZERO, |sum, x| sum.add(deviation.take_all(x)));
        let moments = (average, sum.div(count));
        running_mean[channel] = run(mean[channel], moments.0);
        running_variance[channel] = run(variance[channel], moments.1);
        let linear = Linear::new(moments, to_wide(scale[channel]), to_wide(bias[channel]), epsilon);
        linear.apply_to_channel(Some(x), y, geometry, channel);
    }
}

/// [`batch_normalization`] with the statistics of each channel of each instance.
pub fn instance_normalization<T: Float>(
    x: &[T],
    scale: &[T],
    bias: &[T],
    y: &mut [T],
    geometry: Axis,
    epsilon: f32,
) {
    group_normalization(x, scale, bias, y, Groups::of_instances(geometry), epsilon);
}

/// [`instance_normalization`] in place.
pub fn instance_normalization_in_place<T: Float>(
    y: &mut [T],
    scale: &[T],
    bias: &[T],
    geometry: Axis,
    epsilon: f32,
) {
    group_normalization_in_place(y, scale, bias, Groups::of_instances(geometry), epsilon);
}

/// The geometry of groups of channels.
#[derive(Clone, Copy, Debug)]
pub struct Groups {
    /// The batch size.
    pub batch: usize,
    /// The number of groups.
    pub groups: usize,
    /// The number of channels in each group.
    pub channels: usize,
    /// The number of elements in each channel.
    pub inner: usize,
}

impl Groups {
    /// Each channel alone.
    fn of_instances(Axis { outer, len, inner }: Axis) -> Groups {
        Groups { batch: outer, groups: len, channels: 1, inner }
    }
}

/// [`batch_normalization`] with the statistics of each group of channels of each instance.
pub fn group_normalization<T: Float>(
    x: &[T],
    scale: &[T],
    bias: &[T],
    y: &mut [T],
    geometry: Groups,
    epsilon: f32,
) {
    normalize_groups(Some(x), y, (scale, bias), geometry, epsilon);
}

/// [`group_normalization`] in place.
pub fn group_normalization_in_place<T: Float>(
    y: &mut [T],
    scale: &[T],
    bias: &[T],
    geometry: Groups,
    epsilon: f32,
) {
    normalize_groups(None, y, (scale, bias), geometry, epsilon);
}

/// Normalizes groups with their own statistics; in place without `x`.
fn normalize_groups<T: Float>(
    x: Option<&[T]>,
    y: &mut [T],
    (scale, bias): (&[T], &[T]),
    Groups { batch: _, groups, channels, inner }: Groups,
    epsilon: f32,
) {
    if y.is_empty() {
        return;
    }
    let group = channels * inner;
    let cost = READS * y.len();
    threads::share(y, group, cost, |first, y| {
        for (i, y) in (first..).zip(y.chunks_exact_mut(group)) {
            let x = x.map(|x| &x[i * group..][..group]);
            let moments = moments(x.unwrap_or(y));
            let first = i % groups * channels;
            for (channel, y) in y.chunks_exact_mut(inner).enumerate() {
                let x = x.map(|x| &x[channel * inner..][..inner]);
                let (scale, bias) = (scale[first + channel].widen(), bias[first + channel].widen());
                Linear::<T::Wide>::new(moments, scale, bias, epsilon).apply(x, y);
            }
        }
    });
}

fn to_wide<A: Float, W: Float>(x: A) -> W {
    W::from_f64(x.to_f64())
}

/// `y = (x - mean) factor + bias`.
#[derive(Clone, Copy)]
struct Linear<W> {
    mean: W,
    factor: W,
    bias: W,
}

/// Shorter rows are not worth a function call.
const SHORT: usize = 16;

impl<W: Float<Wide = W>> Linear<W> {
    /// Returns the function for a channel.
    fn of<S: Float, M: Float>(
        operands: &BatchNormOperands<'_, S, M>,
        channel: usize,
        epsilon: f32,
    ) -> Self {
        let BatchNormOperands { scale, bias, mean, variance } = operands;
        let moments = (to_wide(mean[channel]), to_wide(variance[channel]));
        Linear::new(moments, to_wide(scale[channel]), to_wide(bias[channel]), epsilon)
    }

    fn new((mean, variance): (W, W), scale: W, bias: W, epsilon: f32) -> Self {
        Linear { mean, factor: scale.div(variance.add(to_wide(epsilon)).sqrt()), bias }
    }

    /// Computes the elements of a channel; in place without `x`.
    fn apply_to_channel<T: Float<Wide = W>>(
        self,
        x: Option<&[T]>,
        y: &mut [T],
        Axis { len, inner, .. }: Axis,
        channel: usize,
    ) {
        let rows = y.chunks_exact_mut(inner.max(1)).enumerate().skip(channel).step_by(len);
        for (row, y) in rows {
            self.apply(x.map(|x| &x[row * inner..][..inner]), y);
        }
    }

    /// Computes `y` from `x`, or in place without it.
    fn apply<T: Float<Wide = W>>(self, x: Option<&[T]>, y: &mut [T]) {
        let Linear { mean, factor, bias } = self;
        let f = |x: T| T::narrow(x.widen().sub(mean).mul(factor).add(bias));
        let narrow = Linear { mean: to_wide(mean), factor: to_wide(factor), bias: to_wide(bias) };
        let vectors = |x: Option<&[f32]>, y: &mut [f32]| linear_f32(x, y, narrow);
        match x {
            Some(x) if y.len() < SHORT => map(x, y, f),
            None if y.len() < SHORT => map_in_place(y, f),
            Some(x) => map_float(x, y, vectors, f),
            None => map_float_in_place(y, vectors, f),
        }
    }
}

#[inline(never)]
fn linear_f32(x: Option<&[f32]>, y: &mut [f32], linear: Linear<f32>) {
    simd::map(x, y, linear);
}

impl Pointwise for Linear<f32> {
    #[inline(always)]
    fn apply<S: Simd>(self, s: S, x: S::F32) -> S::F32 {
        s.mul_add(s.sub(x, s.splat(self.mean)), s.splat(self.factor), s.splat(self.bias))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EPSILON: f32 = 1e-3;

    fn near(y: f32, expected: f64) -> bool {
        (f64::from(y) - expected).abs() < 1e-5 * (1.0 + expected.abs())
    }

    fn element(i: usize) -> f32 {
        ((i * 37) % 23) as f32 / 4.0 + 100.0 * (i % 3) as f32
    }

    /// Computes the mean and the variance of those of `n` elements that `belongs` selects.
    fn moments_of(n: usize, belongs: impl Fn(usize) -> bool) -> (f64, f64) {
        let count = (0..n).filter(|&i| belongs(i)).count() as f64;
        let sum = |f: &dyn Fn(f64) -> f64| -> f64 {
            (0..n).filter(|&i| belongs(i)).map(|i| f(f64::from(element(i)))).sum::<f64>() / count
        };
        let mean = sum(&|x| x);
        (mean, sum(&|x| (x - mean) * (x - mean)))
    }

    #[test]
    fn a_channel_has_its_own_statistics() {
        for (outer, len, inner) in
            [(3, 2, 1), (2, 3, 5), (1, 2, 40), (2, 0, 3), (0, 2, 3), (2, 3, 0), (2, 40, 1)]
        {
            let (x, mut y, n): ([f32; 80], _, _) =
                (from_fn(element), [0.0; 80], outer * len * inner);
            let [scale, bias] = [[2.0f32, 0.5, -1.0], [1.0, 0.0, 3.0]]
                .map(|three| -> [f32; 40] { from_fn(|channel| three[channel % 3]) });
            let [mean, variance] = [[0.5f64, 50.0, 100.0], [4.0, 0.25, 9.0]]
                .map(|three| -> [f64; 40] { from_fn(|channel| three[channel % 3]) });
            let geometry = Axis { outer, len, inner };
            batch_normalization(
                &x[..n],
                BatchNormOperands { scale: &scale, bias: &bias, mean: &mean, variance: &variance },
                &mut y[..n],
                geometry,
                EPSILON,
            );
            for i in 0..n {
                let c = i / inner % len;
                let scaled = (f64::from(x[i]) - mean[c]) / libm::sqrt(variance[c] + 1e-3);
                assert!(near(y[i], scaled * f64::from(scale[c]) + f64::from(bias[c])));
            }
        }
    }

    #[test]
    fn training_takes_the_statistics_from_the_batch() {
        let (outer, len, inner) = (3, 2, 5);
        let (x, mut y): ([f32; 30], _) = (from_fn(element), [0.0; 30]);
        let (mut mean, mut variance) = ([0.0; 2], [0.0; 2]);
        batch_normalization_training(
            &x,
            BatchNormOperands {
                scale: &[2.0f32, 0.5],
                bias: &[1.0, 0.0],
                mean: &[10.0f64, 20.0],
                variance: &[1.0, 2.0],
            },
            BatchNormOutputs {
                y: &mut y,
                running_mean: &mut mean,
                running_variance: &mut variance,
            },
            Axis { outer, len, inner },
            EPSILON,
            0.75,
        );
        for c in 0..2 {
            let (m, v) = moments_of(30, |i| i / inner % len == c);
            assert!((mean[c] - 0.75 * [10.0, 20.0][c] - 0.25 * m).abs() < 1e-4);
            assert!((variance[c] - 0.75 * [1.0, 2.0][c] - 0.25 * v).abs() < 1e-4 * v);
            for i in (0..30).filter(|i| i / inner % len == c) {
                let scaled = (f64::from(x[i]) - m) / libm::sqrt(v + 1e-3);
                assert!(near(y[i], scaled * [2.0, 0.5][c] + [1.0, 0.0][c]));
            }
        }
    }

    #[test]
    fn a_group_of_an_instance_has_its_own_statistics() {
        for (batch, groups, channels, inner) in
            [(2, 2, 2, 3), (1, 1, 1, 17), (3, 3, 1, 4), (2, 1, 4, 1)]
        {
            let n = batch * groups * channels * inner;
            let (x, mut y): ([f32; 40], _) = (from_fn(element), [0.0; 40]);
            let (scale, bias) = ([2.0f32, 0.5, -1.0, 3.0], [1.0f32, 0.0, 3.0, 4.0]);
            let geometry = Groups { batch, groups, channels, inner };
            group_normalization(&x[..n], &scale, &bias, &mut y[..n], geometry, EPSILON);
            let size = channels * inner;
            for i in 0..n {
                let c = i / inner % (groups * channels);
                let (mean, variance) = moments_of(n, |j| j / size == i / size);
                let scaled = (f64::from(x[i]) - mean) / libm::sqrt(variance + 1e-3);
                assert!(near(y[i], scaled * f64::from(scale[c]) + f64::from(bias[c])));
            }
            if channels == 1 {
                let mut z = [0.0; 40];
                let geometry = Axis { outer: batch, len: groups, inner };
                instance_normalization(&x[..n], &scale, &bias, &mut z[..n], geometry, EPSILON);
                assert_eq!(y, z);
            }
        }
    }

    #[cfg(feature = "half")]
    #[test]
    fn half_precision_results_are_rounded_once() {
        use half::f16;
        let mut y: [f16; 20] = from_fn(|i| f16::from_f32(i as f32));
        let one = [f16::ONE];
        instance_normalization_in_place(
            &mut y,
            &one,
            &one,
            Axis { outer: 1, len: 1, inner: 20 },
            0.0,
        );
        for (i, y) in y.iter().enumerate() {
            let expected = (i as f32 - 9.5) / libm::sqrtf(33.25) + 1.0;
            assert!((y.to_f32() - expected).abs() <= expected.abs() / 2048.0 + 1e-7);
        }
    }
}
