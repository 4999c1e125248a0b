//! Normalizations of the channels of NCHWc images.

use super::{BLOCK, Channels};
use crate::kernels::norm::{ChannelGradOperands, GradCoefficients, GradInputs};
use crate::simd::{Simd, WithSimd, dispatch};
use crate::{Float, Number, threads};

/// Computes the factor and the shift by which a normalization with these statistics maps each
/// channel, `y = factor · x + shift`. Channels that pad the last block get zeros.
#[inline(never)]
pub fn channel_factors(
    scale: &[f32],
    bias: &[f32],
    mean: &[f32],
    variance: &[f32],
    factors: &mut [f32],
    shifts: &mut [f32],
    epsilon: f32,
) {
    factors.fill(0.0);
    shifts.fill(0.0);
    let to = factors.iter_mut().zip(shifts);
    let given = scale.iter().zip(bias).zip(mean.iter().zip(variance));
    for ((factor, shift), ((&scale, &bias), (&mean, &variance))) in to.zip(given) {
        // The shift is a difference of numbers that may be large, so it is computed in `f64` and
        // rounded once.
        let root = Float::sqrt(f64::from(variance) + f64::from(epsilon));
        let exact = f64::from(scale) / root;
        *factor = f32::from_f64(exact);
        *shift = f32::from_f64(f64::from(bias) - f64::from(mean) * exact);
    }
}

/// Computes the mean and the variance of each channel of `x`, which is NCHWc.
#[inline(never)]
pub fn blocked_channel_moments(
    x: &[f32],
    mean: &mut [f32],
    variance: &mut [f32],
    geometry: Channels,
) {
    let count = (geometry.batch * geometry.pixels) as f32;
    let to = mean.chunks_mut(BLOCK).zip(variance.chunks_mut(BLOCK));
    for (block, (mean, variance)) in to.enumerate() {
        let [means] = dispatch(Totals { terms: Sum { x }, geometry, block });
        let means = means.map(|sum| sum / count);
        let [squares] = dispatch(Totals { terms: Squares { x, means: &means }, geometry, block });
        mean.copy_from_slice(&means[..mean.len()]);
        variance.iter_mut().zip(squares).for_each(|(to, sum)| *to = sum / count);
    }
}

/// Computes `Σ dy (x - mean)` and `Σ dy` of each channel of `x` and `dy`, which are NCHWc.
#[inline(never)]
pub fn blocked_channel_sums(
    x: &[f32],
    dy: &[f32],
    mean: &[f32],
    products: &mut [f32],
    sums: &mut [f32],
    geometry: Channels,
) {
    let to = products.chunks_mut(BLOCK).zip(sums.chunks_mut(BLOCK));
    for (block, (mean, (products, sums))) in mean.chunks(BLOCK).zip(to).enumerate() {
        let mut means = [0.0; BLOCK];
        means[..mean.len()].copy_from_slice(mean);
        let terms = Sums { x, dy, means: &means };
        let [of_products, of_gradients] = dispatch(Totals { terms, geometry, block });
        products.copy_from_slice(&of_products[..mean.len()]);
        sums.copy_from_slice(&of_gradients[..mean.len()]);
    }
}

/// Computes the gradients of `x` and of the scale for a normalization of each channel with the
/// statistics of `x` itself, from `dy` and the sums of [`blocked_channel_sums`]. `x` and `dy` are
/// NCHWc.
pub fn blocked_channel_grad(
    dy: &[f32],
    operands: ChannelGradOperands<'_, f32>,
    dx: &mut [f32],
    d_scale: &mut [f32],
    geometry: Channels,
    epsilon: f32,
) {
    let ChannelGradOperands { x, scale, mean, variance, products, sums } = operands;
    dx.copy_from_slice(dy);
    let inputs = GradInputs { scale, mean, variance, products, sums, epsilon };
    compute_channel_grad(inputs, dx, d_scale, x, geometry);
}

/// Computes [`blocked_channel_grad`] in place: `dx` is `dy` on entry.
pub fn blocked_channel_grad_in_place(
    dx: &mut [f32],
    d_scale: &mut [f32],
    operands: ChannelGradOperands<'_, f32>,
    geometry: Channels,
    epsilon: f32,
) {
    let ChannelGradOperands { x, scale, mean, variance, products, sums } = operands;
    let inputs = GradInputs { scale, mean, variance, products, sums, epsilon };
    compute_channel_grad(inputs, dx, d_scale, x, geometry);
}

/// Replaces `dy`, stored in `dx`, by the gradient of `x`, and computes the gradients of the scales.
#[inline(never)]
fn compute_channel_grad(
    inputs: GradInputs<'_, f32>,
    dx: &mut [f32],
    d_scale: &mut [f32],
    x: &[f32],
    geometry: Channels,
) {
    let (unit, cost) = (geometry.pixels * BLOCK, dx.len());
    let count = (geometry.batch * geometry.pixels) as f64;
    for (channel, (to, &product)) in d_scale.iter_mut().zip(inputs.products).enumerate() {
        *to = f32::from_f64(f64::from(product) * inputs.coefficients(channel, count).inv_std);
    }
    threads::share(dx, unit, cost, |first, dx| {
        for (index, dx) in (first..).zip(dx.chunks_exact_mut(unit.max(1))) {
            let mut block = Grads { dx, x: &x[index * unit..][..unit], numbers: [[0.0; BLOCK]; 4] };
            let start = index % geometry.blocks() * BLOCK;
            for (lane, channel) in (start..geometry.channels).take(BLOCK).enumerate() {
                let GradCoefficients { dy_factor, dy_mean, x_factor, .. } =
                    inputs.coefficients(channel, count);
                let numbers = [dy_factor, dy_mean, x_factor, f64::from(inputs.mean[channel])];
                let to = block.numbers.iter_mut().zip(numbers);
                to.for_each(|(to, number)| to[lane] = f32::from_f64(number));
            }
            dispatch(block);
        }
    });
}

/// The gradients of one block of an image.
struct Grads<'a> {
    dx: &'a mut [f32],
    x: &'a [f32],
    /// For each channel: the coefficients `dy_factor`, `dy_mean` and `x_factor` of
    /// [`GradCoefficients`], and the mean.
    numbers: [[f32; BLOCK]; 4],
}

impl WithSimd for Grads<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        for first in (0..BLOCK).step_by(S::LANES) {
            let [dy_factor, dy_mean, x_factor, mean] = self.numbers.map(|of| s.load(&of[first..]));
            for (dx, x) in self.dx.chunks_exact_mut(BLOCK).zip(self.x.chunks_exact(BLOCK)) {
                let (dx, x) = (&mut dx[first..], &x[first..]);
                let straight = s.mul(dy_factor, s.sub(s.load(dx), dy_mean));
                s.store(s.mul_add(x_factor, s.sub(s.load(x), mean), straight), dx);
            }
        }
    }
}

/// Computes `N` terms that are summed over the pixels of a channel.
trait Terms<const N: usize> {
    /// Returns the terms of one pixel for a vector of channels: from channel `first` of the block
    /// on, whose elements start at `at`.
    fn at<S: Simd>(&self, s: S, at: usize, first: usize) -> [S::F32; N];
}

/// Sums the terms of each channel of a block over the pixels of all images.
struct Totals<T, const N: usize> {
    terms: T,
    geometry: Channels,
    block: usize,
}

/// The number of pixels of a partial sum, which limits the growth of rounding errors.
const PART: usize = 64;

impl<T: Terms<N>, const N: usize> WithSimd for Totals<T, N> {
    type Output = [[f32; BLOCK]; N];

    #[inline(always)]
    fn run<S: Simd>(self, s: S) -> [[f32; BLOCK]; N] {
        let Channels { batch, pixels, .. } = self.geometry;
        let mut totals = [[0.0; BLOCK]; N];
        for image in 0..batch {
            let start = (image * self.geometry.blocks() + self.block) * pixels;
            for part in (0..pixels).step_by(PART) {
                let part = start + part..start + pixels.min(part + PART);
                for first in (0..BLOCK).step_by(S::LANES) {
                    let mut sums = [s.splat(0.0); N];
                    for pixel in part.clone() {
                        let terms = self.terms.at(s, pixel * BLOCK + first, first);
                        for i in 0..N {
                            sums[i] = s.add(sums[i], terms[i]);
                        }
                    }
                    for (total, sum) in totals.iter_mut().zip(sums) {
                        let total = &mut total[first..][..S::LANES];
                        s.store(s.add(s.load(total), sum), total);
                    }
                }
            }
        }
        totals
    }
}

struct Sum<'a> {
    x: &'a [f32],
}

impl Terms<1> for Sum<'_> {
    #[inline(always)]
    fn at<S: Simd>(&self, s: S, at: usize, _: usize) -> [S::F32; 1] {
        [s.load(&self.x[at..])]
    }
}

struct Squares<'a> {
    x: &'a [f32],
    means: &'a [f32; BLOCK],
}

impl Terms<1> for Squares<'_> {
    #[inline(always)]
    fn at<S: Simd>(&self, s: S, at: usize, first: usize) -> [S::F32; 1] {
        let distance = s.sub(s.load(&self.x[at..]), s.load(&self.means[first..]));
        [s.mul(distance, distance)]
    }
}

struct Sums<'a> {
    x: &'a [f32],
    dy: &'a [f32],
    means: &'a [f32; BLOCK],
}

impl Terms<2> for Sums<'_> {
    #[inline(always)]
    fn at<S: Simd>(&self, s: S, at: usize, first: usize) -> [S::F32; 2] {
        let distance = s.sub(s.load(&self.x[at..]), s.load(&self.means[first..]));
        let dy = s.load(&self.dy[at..]);
        [s.mul(dy, distance), dy]
    }
}

#[cfg(all(test, feature = "std"))]
mod tests {
    use super::super::block;
    use super::*;
    use crate::kernels::norm::{channel_grad, channel_moments, channel_sums};
    use crate::loops::geometry::Axis;
    use crate::simd::each_level;
    use std::{vec, vec::Vec};

    #[test]
    fn a_factor_and_a_shift_normalize() {
        let [mut factors, mut shifts] = [[9.0; BLOCK]; 2];
        let given = ([6.0, 1.0], [0.5, 2.0], [10.0, -1.0], [8.0, 3.0]);
        let (scale, bias, mean, variance) = (&given.0, &given.1, &given.2, &given.3);
        channel_factors(scale, bias, mean, variance, &mut factors, &mut shifts, 1.0);
        assert_eq!(factors[..3], [2.0, 0.5, 0.0]);
        assert_eq!(shifts[..3], [-19.5, 2.5, 0.0]);
    }

    #[test]
    fn nchwc_results_match_nchw_results() {
        for (batch, channels, pixels) in [(2, 20, 70), (1, 16, 3), (3, 5, 1)] {
            let geometry = Channels { batch, channels, pixels };
            let axis = Axis { outer: batch, len: channels, inner: pixels };
            let numbers = |seed: usize| {
                let number = move |i: usize| ((i * 37 + seed) % 23) as f32 / 8.0;
                (0..batch * channels * pixels).map(number).collect::<Vec<f32>>()
            };
            let blocked = |x: &[f32]| {
                let mut y = vec![0.0; batch * channels.div_ceil(BLOCK) * BLOCK * pixels];
                block(x, &mut y, geometry);
                y
            };
            let (x, dy) = (numbers(0), numbers(5));
            let (x_blocked, dy_blocked) = (blocked(&x), blocked(&dy));
            let mut truth = [(); 4].map(|()| vec![9.0; channels]);
            let [mean, variance, products, sums] = &mut truth;
            channel_moments(&x, mean, variance, axis);
            channel_sums(&x, &dy, mean, products, sums, axis);
            let scale = vec![1.5; channels];
            let mut gradient = (vec![9.0; x.len()], vec![9.0; channels]);
            let [mean, variance, products, sums] = truth.each_ref();
            channel_grad(
                &dy,
                ChannelGradOperands { x: &x, scale: &scale, mean, variance, products, sums },
                &mut gradient.0,
                &mut gradient.1,
                axis,
                1e-2,
            );
            each_level(|_| {
                let mut dx = vec![9.0; x_blocked.len()];
                let mut d_scale = vec![9.0; channels];
                let (x, dy) = (&x_blocked, &dy_blocked);
                blocked_channel_grad(
                    dy,
                    ChannelGradOperands { x, scale: &scale, mean, variance, products, sums },
                    &mut dx,
                    &mut d_scale,
                    geometry,
                    1e-2,
                );
                let found = dx.iter().chain(&d_scale);
                let blocked = blocked(&gradient.0);
                for (found, truth) in found.zip(blocked.iter().chain(&gradient.1)) {
                    assert!((found - truth).abs() <= 1e-5 * (1.0 + truth.abs()), "{geometry:?}");
                }
            });
            each_level(|level| {
                let mut found = [(); 4].map(|()| vec![9.0; channels]);
                let [mean, variance, products, sums] = &mut found;
                blocked_channel_moments(&x_blocked, mean, variance, geometry);
                blocked_channel_sums(&x_blocked, &dy_blocked, mean, products, sums, geometry);
                for (found, truth) in found.iter().flatten().zip(truth.iter().flatten()) {
                    let near = (found - truth).abs() <= 1e-4 * (1.0 + truth.abs());
                    assert!(near, "{level:?} {geometry:?}: {found} is not {truth}");
                }
            });
        }
    }
}
