//! Kernels that draw random numbers from the streams of [`crate::random`].

mod dropout;
#[cfg(test)]
mod tests;

pub use dropout::{dropout, dropout_mask};

use crate::random::{Philox, Stream};
use crate::{Exact, Float, Integer, Real};

/// Uniformly distributed numbers from `low` to `high`.
pub fn random_uniform<T: Real>(y: &mut [T], low: f32, high: f32, stream: Stream) {
    let (low, high) = (f64::from(low), f64::from(high));
    Philox::new(stream).each(y, |y, u| *y = T::nearest(Exact::Double(low + (high - low) * u)));
}

/// Normally distributed numbers.
pub fn random_normal<T: Real>(y: &mut [T], mean: f32, scale: f32, stream: Stream) {
    let (mean, scale) = (f64::from(mean), f64::from(scale));
    for (number, pair) in (0..).zip(y.chunks_mut(2)) {
        for (y, z) in pair.iter_mut().zip(normal_pair(Philox::new(stream).pair(number))) {
            *y = T::nearest(Exact::Double(mean + scale * z));
        }
    }
}

/// Converts two numbers in `[0, 1)` to two standard normal numbers, by the Box–Muller transform.
fn normal_pair([u, v]: [f64; 2]) -> [f64; 2] {
    let radius = libm::sqrt(-2.0 * libm::log1p(-u));
    let (sin, cos) = libm::sincos(core::f64::consts::TAU * v);
    [radius * cos, radius * sin]
}

/// 1 with the probability given by each element of `x`, else 0.
pub fn bernoulli<A: Real, B: Real>(x: &[A], y: &mut [B], stream: Stream) {
    let mut x = x.iter();
    Philox::new(stream).each(y, |y, u| {
        let p = x.next().map_or(0.0, |x| x.exact().to_f64());
        *y = B::nearest(Exact::Unsigned(u64::from(u < p)));
    });
}

/// Draws classes into each row of `y`, which has `samples` columns, from unnormalized
/// log-probabilities in a row of `x`, which has `classes` columns.
pub fn multinomial<T: Float, I: Integer>(
    x: &[T],
    y: &mut [I],
    classes: usize,
    samples: usize,
    stream: Stream,
) {
    if classes == 0 || samples == 0 {
        return;
    }
    let mut rows = x.chunks_exact(classes);
    let mut row: &[T] = &[];
    let (mut largest, mut total) = (0.0, 0.0);
    let mut left = 0;
    Philox::new(stream).each(y, |y, u| {
        if left == 0 {
            left = samples;
            row = rows.next().unwrap_or_default();
            largest = row.iter().map(|x| x.to_f64()).fold(f64::NEG_INFINITY, f64::max);
            total = row.iter().map(|x| weight(*x, largest)).sum();
        }
        left -= 1;
        *y = I::from_i64(drawn(row, largest, u * total));
    });
}

/// Returns the probability of a class relative to the most likely one.
fn weight<T: Float>(x: T, largest: f64) -> f64 {
    libm::exp(x.to_f64() - largest)
}

/// Returns the class at `place` in the cumulative sum of all weights.
fn drawn<T: Float>(row: &[T], largest: f64, place: f64) -> i64 {
    let (mut sum, mut last) = (0.0, 0);
    for (class, &x) in (0..).zip(row) {
        let weight = weight(x, largest);
        if weight > 0.0 {
            last = class;
        }
        sum += weight;
        if place < sum {
            break;
        }
    }
    last
}
