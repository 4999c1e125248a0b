//! Normalization of rows.

use super::operands::{Layer, Statistics};
use super::rows::LayerRows;
use super::{Deviation, READS};
use crate::loops::fold::{Sum, SumSquare, take_all_at};
use crate::loops::geometry::Axis;
use crate::loops::index::number;
use crate::simd::{Simd, WithSimd, dispatch};
use crate::threads;
use crate::{Float, Number};

/// The outputs of a layer normalization.
#[derive(Debug)]
pub struct LayerNormOutputs<'a, T> {
    /// The normalized rows.
    pub y: &'a mut [T],
    /// The mean of each row.
    pub mean: Option<&'a mut [f32]>,
    /// `1 / √(variance + ε)` of each row.
    pub inv_std_dev: Option<&'a mut [f32]>,
}

/// `y = scale (x - mean) / √(variance + ε) + bias` with the statistics of each row. The axis has an
/// `inner` of 1, `scale` and `bias` are as long as a row, and a bias requires a scale. Writes the
/// mean and `1 / √(variance + ε)` of each row if requested.
pub fn layer_normalization<T: Float>(
    x: &[T],
    scale: Option<&[T]>,
    bias: Option<&[T]>,
    outputs: LayerNormOutputs<'_, T>,
    geometry: Axis,
    epsilon: f32,
) {
    let LayerNormOutputs { y, mean, inv_std_dev } = outputs;
    let statistics = Statistics { mean, inv_std_dev };
    layer_of(x, y, [scale, bias], statistics, geometry, epsilon);
}

/// [`layer_normalization`] in place.
pub fn layer_normalization_in_place<T: Float>(
    y: &mut [T],
    mean: Option<&mut [f32]>,
    inv_std_dev: Option<&mut [f32]>,
    scale: Option<&[T]>,
    bias: Option<&[T]>,
    geometry: Axis,
    epsilon: f32,
) {
    let statistics = Statistics { mean, inv_std_dev };
    layer_of(&[], y, [scale, bias], statistics, geometry, epsilon);
}

fn layer_of<T: Float>(
    x: &[T],
    y: &mut [T],
    operands: [Option<&[T]>; 2],
    statistics: Statistics<'_>,
    geometry: Axis,
    epsilon: f32,
) {
    debug_assert_eq!(geometry.inner, 1, "a layer is a row");
    let [scale, bias] = operands.map(Option::unwrap_or_default);
    match ([x, scale, bias].map(T::as_f32), T::as_f32_mut(y)) {
        ([Some(x), Some(scale), Some(bias)], Some(y)) => {
            layer_f32(Layer { x, y, scale, bias, geometry, epsilon, statistics });
        }
        _ => dispatch(Layer::<T, true> { x, y, scale, bias, geometry, epsilon, statistics }),
    }
}

/// `y = scale x / √(Σ x² / n + ε)` in each row. The axis has an `inner` of 1, and `scale` is as
/// long as a row.
pub fn rms_normalization<T: Float>(
    x: &[T],
    scale: Option<&[T]>,
    y: &mut [T],
    geometry: Axis,
    epsilon: f32,
) {
    rms_of(x, y, scale, geometry, epsilon);
}

/// [`rms_normalization`] in place.
pub fn rms_normalization_in_place<T: Float>(
    y: &mut [T],
    scale: Option<&[T]>,
    geometry: Axis,
    epsilon: f32,
) {
    rms_of(&[], y, scale, geometry, epsilon);
}

fn rms_of<T: Float>(x: &[T], y: &mut [T], scale: Option<&[T]>, geometry: Axis, epsilon: f32) {
    debug_assert_eq!(geometry.inner, 1, "a layer is a row");
    let (scale, bias) = (scale.unwrap_or_default(), &[]);
    let statistics = Statistics { mean: None, inv_std_dev: None };
    match ([x, scale].map(T::as_f32), T::as_f32_mut(y)) {
        ([Some(x), Some(scale)], Some(y)) => {
            rms_f32(Layer { x, y, scale, bias: &[], geometry, epsilon, statistics });
        }
        _ => dispatch(Layer::<T, false> { x, y, scale, bias, geometry, epsilon, statistics }),
    }
}

#[inline(never)]
fn layer_f32(layer: Layer<'_, f32, true>) {
    share(layer);
}

#[inline(never)]
fn rms_f32(layer: Layer<'_, f32, false>) {
    share(layer);
}

#[inline(always)]
fn share<const CENTERED: bool>(layer: Layer<'_, f32, CENTERED>) {
    if layer.statistics.is_wanted() {
        return dispatch(LayerRows(layer));
    }
    let Layer { x, y, scale, bias, geometry, epsilon, statistics: _ } = layer;
    let (len, cost) = (geometry.len, READS * y.len());
    threads::share(y, len, cost, |first, y| {
        let x = x.get(first * len..).unwrap_or_default();
        let geometry = Axis { outer: y.len().checked_div(len).unwrap_or(0), ..geometry };
        let statistics = Statistics { mean: None, inv_std_dev: None };
        let part = Layer { x, y, scale, bias, geometry, epsilon, statistics };
        dispatch(LayerRows::<CENTERED>(part));
    });
}

impl<T: Float, const CENTERED: bool> WithSimd for Layer<'_, T, CENTERED> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let mut layer = self;
        let Layer { scale, bias, geometry, epsilon, .. } = layer;
        let count: T::Wide = number(geometry.len);
        let epsilon = T::Wide::from_f64(f64::from(epsilon));
        for i in 0..geometry.outer {
            let y = layer.row(i);
            let (mean, squares) = if CENTERED {
                let mean = take_all_at(s, Sum, y).div(count);
                (mean, take_all_at(s, Deviation { mean }, y))
            } else {
                (T::Wide::ZERO, take_all_at(s, SumSquare, y))
            };
            let factor = T::Wide::ONE.div(squares.div(count).add(epsilon).sqrt());
            let normal = |y: T| y.widen().sub(mean).mul(factor);
            let scaled = |y: T, scale: &T| normal(y).mul(scale.widen());
            if scale.is_empty() {
                y.iter_mut().for_each(|y| *y = T::narrow(normal(*y)));
            } else if bias.is_empty() {
                for (y, scale) in y.iter_mut().zip(scale) {
                    *y = T::narrow(scaled(*y, scale));
                }
            } else {
                for ((y, scale), bias) in y.iter_mut().zip(scale).zip(bias) {
                    *y = T::narrow(scaled(*y, scale).add(bias.widen()));
                }
            }
            layer.statistics.write(i, mean, factor);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::array::from_fn;

    const EPSILON: f32 = 1e-3;

    /// Compares both kernels with their formulas in `f64`.
    fn check<T: Float>(error: f64) {
        for (outer, len) in [(2, 3), (1, 70), (5, 1), (3, 33), (0, 4)] {
            let n = outer * len;
            let x: [T; 100] = from_fn(|i| T::from_f64(((i * 37) % 23) as f64 / 4.0 - 2.0));
            let scale: [T; 70] = from_fn(|i| T::from_f64((i % 5) as f64 / 2.0 - 1.0));
            let bias: [T; 70] = from_fn(|i| T::from_f64((i % 3) as f64));
            let (mut y, mut z, mut r) = ([T::ZERO; 100], [T::ZERO; 100], [T::ZERO; 100]);
            let (mut means, mut inverses) = ([9.0; 5], [9.0; 5]);
            let (x, scale, bias) = (&x[..n], &scale[..len], &bias[..len]);
            let (y, z, r) = (&mut y[..n], &mut z[..n], &mut r[..n]);
            let geometry = Axis { outer, len, inner: 1 };
            let statistics = (Some(&mut means[..]), Some(&mut inverses[..]));
            let (mean, inv_std_dev) = statistics;
            layer_normalization(
                x,
                Some(scale),
                Some(bias),
                LayerNormOutputs { y, mean, inv_std_dev },
                geometry,
                EPSILON,
            );
            layer_normalization(
                x,
                Some(scale),
                None,
                LayerNormOutputs { y: z, mean: None, inv_std_dev: None },
                geometry,
                EPSILON,
            );
            rms_normalization(x, Some(scale), r, geometry, EPSILON);
            for i in 0..n {
                let row = x[i / len * len..][..len].iter().map(|x| x.to_f64());
                let mean = row.clone().sum::<f64>() / len as f64;
                let square = |shift: f64| {
                    let sum: f64 = row.clone().map(|x| (x - shift) * (x - shift)).sum();
                    1.0 / libm::sqrt(sum / len as f64 + 1e-3)
                };
                let (scale, bias) = (scale[i % len].to_f64(), bias[i % len].to_f64());
                let expected = (x[i].to_f64() - mean) * square(mean) * scale;
                let close = |y: f64, expected: f64| (y - expected).abs() < error * (1.0 + y.abs());
                assert!(close(y[i].to_f64(), expected + bias));
                assert!(close(z[i].to_f64(), expected));
                assert!(close(r[i].to_f64(), x[i].to_f64() * square(0.0) * scale));
                assert!(close(f64::from(means[i / len]), mean));
                assert!(close(f64::from(inverses[i / len]), square(mean)));
            }
        }
    }

    #[test]
    fn every_row_is_the_formula() {
        check::<f32>(1e-6);
        check::<f64>(1e-7);
        #[cfg(feature = "half")]
        check::<half::f16>(1e-3);
    }

    #[cfg(feature = "std")]
    #[test]
    fn every_level_is_the_formula() {
        crate::simd::each_level(|_| check::<f32>(1e-6));
    }

    #[test]
    fn a_large_mean_does_not_hide_a_small_variance() {
        let mut y: [f32; 64] = from_fn(|i| 10_000.0 + (i % 2) as f32);
        let geometry = Axis { outer: 1, len: 64, inner: 1 };
        layer_normalization_in_place(&mut y, None, None, None, None, geometry, 0.0);
        assert_eq!(y, from_fn(|i| if i % 2 == 0 { -1.0 } else { 1.0 }));
    }

    #[test]
    fn an_empty_row_has_no_mean() {
        let mut mean = [0.0; 2];
        let geometry = Axis { outer: 2, len: 0, inner: 1 };
        layer_normalization_in_place::<f32>(
            &mut [],
            Some(&mut mean),
            None,
            Some(&[]),
            None,
            geometry,
            EPSILON,
        );
        assert!(mean.iter().all(|mean| mean.is_nan()));
    }
}
