//! Sums over channels, which the statistics of normalizations and their derivatives are made of.

use super::Deviation;
use crate::Float;
use crate::fold::{Sum, take_all_at};
use crate::geometry::Axis;
use crate::index::number;
use crate::simd::{Simd, WithSimd, dispatch};

/// The mean and the variance of each channel, which is the axis.
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

/// `Σ dy (x - mean)` and `Σ dy` of each channel, which is the axis.
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

/// How many sums run side by side.
const LANES: usize = 16;
/// After so many elements of each lane a partial sum is done, so that rounding does not add up.
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
                    let m = sum(&|i| x[i]) / count;
                    near(mean[c], m);
                    near(variance[c], sum(&|i| (x[i] - m) * (x[i] - m)) / count);
                }
            }
        }
    }

    #[test]
    fn a_channel_is_summed_over_all_images() {
        check::<f64>(1e-12);
        each_level(|_| check::<f32>(1e-5));
    }
}
