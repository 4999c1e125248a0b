//! Per-channel sums, from which statistics of normalizations and their gradients follow.

use super::Deviation;
use crate::Float;
use crate::loops::fold::{Sum, take_all_at};
use crate::loops::geometry::Axis;
use crate::loops::index::number;
use crate::simd::{Simd, WithSimd, dispatch};

/// Computes the mean and the variance of each channel; the axis is the channels.
#[inline(never)]
pub fn channel_moments<T: Float<Wide = T>>(
    x: &[T],
    mean: &mut [T],
    variance: &mut [T],
    geometry: Axis,
) {
    dispatch(Moments { x, mean, variance, geometry });
}

struct Moments<'a, T> {
    x: &'a [T],
    mean: &'a mut [T],
    variance: &'a mut [T],
    geometry: Axis,
}

impl<T: Float<Wide = T>> WithSimd for Moments<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let Axis { outer, len, inner } = self.geometry;
        let count = number(outer * inner);
        for (channel, to) in self.mean.iter_mut().zip(self.variance).enumerate() {
            let rows = || self.x.chunks_exact(inner.max(1)).skip(channel).step_by(len);
            let add = |sum: T, x: T| sum.add(x);
            let sum = rows().map(|x| -> T { take_all_at(s, Sum, x) }).fold(T::ZERO, add);
            let mean = sum.div(count);
            let squares = rows().map(|x| -> T { take_all_at(s, Deviation { mean }, x) });
            *to.0 = mean;
            *to.1 = squares.fold(T::ZERO, add).div(count);
        }
    }
}

/// Computes `Σ dy (x - mean)` and `Σ dy` of each channel; the axis is the channels.
#[inline(never)]
pub fn channel_sums<T: Float<Wide = T>>(
    x: &[T],
    dy: &[T],
    mean: &[T],
    products: &mut [T],
    sums: &mut [T],
    geometry: Axis,
) {
    dispatch(Sums { x, dy, mean, products, sums, geometry });
}

struct Sums<'a, T> {
    x: &'a [T],
    dy: &'a [T],
    mean: &'a [T],
    products: &'a mut [T],
    sums: &'a mut [T],
    geometry: Axis,
}

/// The number of parallel accumulators.
const LANES: usize = 16;
/// Elements per lane of a partial sum; partial sums limit the rounding error.
const PART: usize = 64 * LANES;

impl<T: Float<Wide = T>> WithSimd for Sums<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        let Axis { outer: _, len, inner } = self.geometry;
        let rows = |of| {
            let rows = <[T]>::chunks_exact(of, inner.max(1));
            move |channel| rows.clone().skip(channel).step_by(len)
        };
        let (x, dy) = (rows(self.x), rows(self.dy));
        let to = self.products.iter_mut().zip(self.sums);
        for (channel, (&mean, (product, sum))) in self.mean.iter().zip(to).enumerate() {
            (*product, *sum) = (T::ZERO, T::ZERO);
            for (x, dy) in x(channel).zip(dy(channel)) {
                for (x, dy) in x.chunks(PART).zip(dy.chunks(PART)) {
                    let of_part = part(x, dy, mean);
                    (*product, *sum) = (product.add(of_part.0), sum.add(of_part.1));
                }
            }
        }
    }
}

#[inline(always)]
fn part<T: Float>(x: &[T], dy: &[T], mean: T) -> (T, T) {
    let mut lanes = [[T::ZERO; LANES]; 2];
    for (x, dy) in x.chunks(LANES).zip(dy.chunks(LANES)) {
        let [products, sums] = &mut lanes;
        for ((product, sum), (&x, &dy)) in products.iter_mut().zip(sums).zip(x.iter().zip(dy)) {
            *product = product.add(dy.mul(x.sub(mean)));
            *sum = sum.add(dy);
        }
    }
    let [products, sums] = lanes.map(|lanes| lanes.into_iter().fold(T::ZERO, |a, b| a.add(b)));
    (products, sums)
}

/// The coefficients of a channel's gradient, `dx = dy_factor (dy - dy_mean) + x_factor (x - mean)`.
#[derive(Clone, Copy)]
pub(crate) struct GradCoefficients {
    /// One over the standard deviation.
    pub inv_std: f64,
    /// The scale over the standard deviation.
    pub dy_factor: f64,
    /// The mean gradient, which is subtracted.
    pub dy_mean: f64,
    /// The coefficient of the distance from the mean.
    pub x_factor: f64,
}

/// The inputs that determine the gradient of each channel.
#[derive(Clone, Copy)]
pub(crate) struct GradInputs<'a, T> {
    /// The scale of each channel.
    pub scale: &'a [T],
    /// The mean of each channel.
    pub mean: &'a [T],
    /// The variance of each channel.
    pub variance: &'a [T],
    /// `Σ dy (x - mean)`.
    pub products: &'a [T],
    /// `Σ dy`.
    pub sums: &'a [T],
    /// The constant added to the variance.
    pub epsilon: f32,
}

impl<T: Float> GradInputs<'_, T> {
    /// Returns the coefficients of a channel of `count` elements.
    pub fn coefficients(&self, channel: usize, count: f64) -> GradCoefficients {
        let [scale, variance, products, sums] =
            [self.scale, self.variance, self.products, self.sums].map(|of| of[channel].to_f64());
        let inv_std = 1.0 / Float::sqrt(variance + f64::from(self.epsilon));
        let dy_factor = scale * inv_std;
        let x_factor = -(dy_factor * inv_std * inv_std * products / count);
        GradCoefficients { inv_std, dy_factor, dy_mean: sums / count, x_factor }
    }
}

impl<T: Float<Wide = T>> GradInputs<'_, T> {
    /// Replaces `dy`, stored in `dx`, by the gradient of `x`, and computes the gradients of the
    /// scales.
    #[inline(never)]
    fn compute_channel_grad(self, dx: &mut [T], d_scale: &mut [T], x: &[T], geometry: Axis) {
        let Axis { outer, len, inner } = geometry;
        let count = (outer * inner) as f64;
        let channels = d_scale.iter_mut().zip(self.products);
        for (channel, (d_scale, &product)) in channels.enumerate() {
            let GradCoefficients { inv_std, dy_factor, dy_mean, x_factor } =
                self.coefficients(channel, count);
            *d_scale = T::from_f64(product.to_f64() * inv_std);
            let [dy_factor, dy_mean, x_factor] = [dy_factor, dy_mean, x_factor].map(T::from_f64);
            let mean = self.mean[channel];
            let rows = dx.chunks_exact_mut(inner.max(1)).zip(x.chunks_exact(inner.max(1)));
            for (dx, x) in rows.skip(channel).step_by(len) {
                for (dx, &x) in dx.iter_mut().zip(x) {
                    *dx = dy_factor.mul(dx.sub(dy_mean)).add(x_factor.mul(x.sub(mean)));
                }
            }
        }
    }
}

/// The operands of the gradient of a normalization of channels: the input, and one element for each
/// channel of the others.
#[derive(Clone, Copy, Debug)]
pub struct ChannelGradOperands<'a, T> {
    /// The input.
    pub x: &'a [T],
    /// The scales.
    pub scale: &'a [T],
    /// The means of the input.
    pub mean: &'a [T],
    /// The variances of the input.
    pub variance: &'a [T],
    /// The sums of `dy · (x - mean)`.
    pub products: &'a [T],
    /// The sums of `dy`.
    pub sums: &'a [T],
}

/// Computes the gradients of `x` and of the scale for a normalization of each channel with the
/// statistics of `x`, from `dy` and the sums of [`channel_sums`]; the axis is the channels.
pub fn channel_grad<T: Float<Wide = T>>(
    dy: &[T],
    operands: ChannelGradOperands<'_, T>,
    dx: &mut [T],
    d_scale: &mut [T],
    geometry: Axis,
    epsilon: f32,
) {
    let ChannelGradOperands { x, scale, mean, variance, products, sums } = operands;
    dx.copy_from_slice(dy);
    let inputs = GradInputs { scale, mean, variance, products, sums, epsilon };
    inputs.compute_channel_grad(dx, d_scale, x, geometry);
}

/// Computes [`channel_grad`] in place, overwriting `dy`.
pub fn channel_grad_in_place<T: Float<Wide = T>>(
    dx: &mut [T],
    d_scale: &mut [T],
    operands: ChannelGradOperands<'_, T>,
    geometry: Axis,
    epsilon: f32,
) {
    let ChannelGradOperands { x, scale, mean, variance, products, sums } = operands;
    let inputs = GradInputs { scale, mean, variance, products, sums, epsilon };
    inputs.compute_channel_grad(dx, d_scale, x, geometry);
}

/// `momentum · kept + (1 - momentum) · now`.
pub fn running_mean<T: Float>(kept: &[T], now: &[T], y: &mut [T], momentum: f32) {
    y.copy_from_slice(kept);
    running_mean_in_place(y, now, momentum);
}

/// Computes [`running_mean`] in place, overwriting `kept`.
#[inline(never)]
pub fn running_mean_in_place<T: Float>(y: &mut [T], now: &[T], momentum: f32) {
    let [keep, take] = [momentum, 1.0 - momentum].map(|share| T::from_f64(f64::from(share)));
    for (y, &now) in y.iter_mut().zip(now) {
        *y = y.mul(keep).add(now.mul(take));
    }
}

#[cfg(all(test, feature = "std"))]
mod tests {
    use super::*;
    use crate::simd::each_level;
    use std::vec::Vec;

    fn check<T: Float<Wide = T>>(error: f64) {
        for (outer, len, inner) in [(3, 2, 1), (2, 3, 5), (2, 2, 2100), (1, 2, 40), (0, 2, 3)] {
            let n = outer * len * inner;
            let numbers =
                |seed: usize| (0..n).map(|i| ((i * 37 + seed) % 23) as f64 / 8.0).collect();
            let (x, dy): (Vec<f64>, Vec<f64>) = (numbers(0), numbers(5));
            let narrow = |x: &[f64]| x.iter().map(|&x| T::from_f64(x)).collect::<Vec<T>>();
            let geometry = Axis { outer, len, inner };
            let [mut mean, mut variance, mut products, mut sums] =
                [(); 4].map(|()| std::vec![T::from_f64(9.0); len]);
            channel_moments(&narrow(&x), &mut mean, &mut variance, geometry);
            let given = std::vec![T::from_f64(0.5); len];
            let (x_narrow, dy_narrow) = (narrow(&x), narrow(&dy));
            channel_sums(&x_narrow, &dy_narrow, &given, &mut products, &mut sums, geometry);
            for c in 0..len {
                let sum = |of: &dyn Fn(usize) -> f64| -> f64 {
                    (0..n).filter(|i| i / inner % len == c).map(of).sum()
                };
                let near = |found: T, truth: f64| {
                    let found = found.to_f64();
                    let near = (found - truth).abs() <= error * (1.0 + truth.abs());
                    assert!(near, "{c} of {geometry:?}: {found}, not {truth}");
                };
                near(products[c], sum(&|i| dy[i] * (x[i] - 0.5)));
                near(sums[c], sum(&|i| dy[i]));
                if outer > 0 {
                    let count = (outer * inner) as f64;
                    check_grad(&x, &dy, geometry, c, error);
                    let m = sum(&|i| x[i]) / count;
                    near(mean[c], m);
                    near(variance[c], sum(&|i| (x[i] - m) * (x[i] - m)) / count);
                }
            }
        }
    }

    /// Compares the gradients of one channel with difference quotients.
    fn check_grad(x: &[f64], dy: &[f64], geometry: Axis, channel: usize, error: f64) {
        let Axis { outer, len, inner } = geometry;
        let count = (outer * inner) as f64;
        let own = |i: &usize| i / inner % len == channel;
        let (scale, epsilon) = (1.5, 1.0f32);
        // The loss Σ dy · y.
        let loss = |x: &[f64], scale: f64| -> f64 {
            let all = || (0..x.len()).filter(own);
            let mean = all().map(|i| x[i]).sum::<f64>() / count;
            let variance = all().map(|i| (x[i] - mean) * (x[i] - mean)).sum::<f64>() / count;
            let factor = scale / (variance + f64::from(epsilon)).sqrt();
            all().map(|i| dy[i] * (x[i] - mean) * factor).sum()
        };
        let [mut mean, mut variance, mut products, mut sums, mut d_scale] =
            [(); 5].map(|()| std::vec![0.0; len]);
        channel_moments(x, &mut mean, &mut variance, geometry);
        channel_sums(x, dy, &mean, &mut products, &mut sums, geometry);
        let (scales, mut dx) = (std::vec![scale; len], std::vec![9.0; x.len()]);
        channel_grad(
            dy,
            ChannelGradOperands {
                x,
                scale: &scales,
                mean: &mean,
                variance: &variance,
                products: &products,
                sums: &sums,
            },
            &mut dx,
            &mut d_scale,
            geometry,
            epsilon,
        );
        let near = |found: f64, of: &dyn Fn(f64) -> f64| {
            let truth = (of(1e-4) - of(-1e-4)) / 2e-4;
            let near = (found - truth).abs() <= (1e-6 + error) * (1.0 + truth.abs());
            assert!(near, "{geometry:?}: {found}, not {truth}");
        };
        near(d_scale[channel], &|step| loss(x, scale + step));
        for i in (0..x.len()).filter(own).take(3) {
            let moved = |step: f64| {
                let mut x = x.to_vec();
                x[i] += step;
                loss(&x, scale)
            };
            near(dx[i], &moved);
        }
    }

    #[test]
    fn a_running_mean_keeps_its_momentum() {
        let mut y = [9.0f32; 2];
        running_mean(&[1.0, 2.0], &[5.0, -2.0], &mut y, 0.75);
        assert_eq!(y, [2.0, 1.0]);
    }

    #[test]
    fn a_channel_is_summed_over_all_images() {
        check::<f64>(1e-12);
        each_level(|_| check::<f32>(1e-5));
    }
}
