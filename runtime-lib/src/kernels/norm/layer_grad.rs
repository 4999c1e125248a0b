//! Gradients of normalizations of rows.

use super::Deviation;
use super::operands::Grad;
use super::rows::GradRows;
use crate::Float;
use crate::loops::fold::{Sum, SumSquare, take_all_at};
use crate::loops::geometry::Axis;
use crate::loops::index::number;
use crate::simd::{Simd, WithSimd, dispatch};

/// The requested gradients of a layer normalization.
#[derive(Debug)]
pub struct LayerNormGrads<'a, T> {
    /// The gradient of the input.
    pub dx: Option<&'a mut [T]>,
    /// The gradient of the scale.
    pub d_scale: Option<&'a mut [T]>,
    /// The gradient of the bias.
    pub d_bias: Option<&'a mut [T]>,
}

/// Computes the requested gradients of `x`, `scale` and the bias of
/// [`layer_normalization`](super::layer_normalization) from `dy`. The axis has an `inner` of 1, and
/// `scale` is as long as a row.
#[inline(never)]
pub fn layer_normalization_grad<T: Float<Wide = T>>(
    x: &[T],
    scale: &[T],
    dy: &[T],
    outputs: LayerNormGrads<'_, T>,
    geometry: Axis,
    epsilon: f32,
) {
    let LayerNormGrads { dx, d_scale, d_bias } = outputs;
    debug_assert_eq!(geometry.inner, 1, "a layer is a row");
    let found = [dx, d_scale, d_bias];
    gradient(Grad::<T, true> { x, scale, dy, found, geometry, epsilon });
}

/// Computes the requested gradients of `x` and `scale` of
/// [`rms_normalization`](super::rms_normalization) from `dy`. The axis has an `inner` of 1, and
/// `scale` is as long as a row.
#[inline(never)]
pub fn rms_normalization_grad<T: Float<Wide = T>>(
    x: &[T],
    scale: &[T],
    dy: &[T],
    dx: Option<&mut [T]>,
    d_scale: Option<&mut [T]>,
    geometry: Axis,
    epsilon: f32,
) {
    debug_assert_eq!(geometry.inner, 1, "a layer is a row");
    let found = [dx, d_scale, None];
    gradient(Grad::<T, false> { x, scale, dy, found, geometry, epsilon });
}

/// Dispatches to SIMD vectors of `f32`, or to scalars.
#[inline(always)]
fn gradient<T: Float<Wide = T>, const CENTERED: bool>(gradient: Grad<'_, T, CENTERED>) {
    let Grad { x, scale, dy, geometry, epsilon, .. } = gradient;
    let (Some(x), Some(scale), Some(dy)) = (T::as_f32(x), T::as_f32(scale), T::as_f32(dy)) else {
        return dispatch(gradient);
    };
    let found = gradient.found.map(|to| to.and_then(T::as_f32_mut));
    dispatch(GradRows::<CENTERED>(Grad { x, scale, dy, found, geometry, epsilon }));
}

/// The normalization of a row.
#[derive(Clone, Copy)]
struct Normal<T> {
    mean: T,
    factor: T,
}

impl<T: Float> Normal<T> {
    #[inline(always)]
    fn of(self, x: T) -> T {
        x.sub(self.mean).mul(self.factor)
    }
}

impl<T: Float<Wide = T>, const CENTERED: bool> WithSimd for Grad<'_, T, CENTERED> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let Grad { x, scale, dy, found: [mut dx, mut d_scale, mut d_bias], .. } = self;
        let Axis { outer, len, inner: _ } = self.geometry;
        for sums in [&mut d_scale, &mut d_bias].into_iter().flatten() {
            sums.fill(T::ZERO);
        }
        let epsilon = T::from_f64(f64::from(self.epsilon));
        for at in (0..outer).map(|row| row * len) {
            let (x, dy) = (&x[at..][..len], &dy[at..][..len]);
            let normal = normal::<T, S, CENTERED>(s, x, epsilon);
            if let Some(d_scale) = &mut d_scale {
                for ((sum, &x), &dy) in d_scale.iter_mut().zip(x).zip(dy) {
                    *sum = sum.add(dy.mul(normal.of(x)));
                }
            }
            if let Some(d_bias) = &mut d_bias {
                for (sum, &dy) in d_bias.iter_mut().zip(dy) {
                    *sum = sum.add(dy);
                }
            }
            if let Some(dx) = &mut dx {
                let count: T = number(len);
                let (sum, product) = sums(x, scale, dy, normal);
                let shift = if CENTERED { sum.div(count) } else { T::ZERO };
                let gradient = product.div(count);
                let given = x.iter().zip(scale).zip(dy);
                for (dx, ((&x, &scale), &dy)) in dx[at..][..len].iter_mut().zip(given) {
                    let rest = dy.mul(scale).sub(shift).sub(normal.of(x).mul(gradient));
                    *dx = normal.factor.mul(rest);
                }
            }
        }
    }
}

/// Returns the normalization of a row.
#[inline(always)]
fn normal<T: Float<Wide = T>, S: Simd, const CENTERED: bool>(
    s: S,
    x: &[T],
    epsilon: T,
) -> Normal<T> {
    let count: T = number(x.len());
    let (mean, squares): (T, T) = if CENTERED {
        let mean = take_all_at(s, Sum, x).div(count);
        (mean, take_all_at(s, Deviation { mean }, x))
    } else {
        (T::ZERO, take_all_at(s, SumSquare, x))
    };
    Normal { mean, factor: T::ONE.div(squares.div(count).add(epsilon).sqrt()) }
}

/// The number of parallel accumulators.
const LANES: usize = 16;

/// `Σ dy scale`, and `Σ dy scale y` with the normalized elements `y`.
#[inline(always)]
fn sums<T: Float>(x: &[T], scale: &[T], dy: &[T], normal: Normal<T>) -> (T, T) {
    let mut lanes = [[T::ZERO; LANES]; 2];
    let rows = x.chunks(LANES).zip(scale.chunks(LANES)).zip(dy.chunks(LANES));
    for ((x, scale), dy) in rows {
        let [sums, products] = &mut lanes;
        let to = sums.iter_mut().zip(products);
        for ((sum, product), ((&x, &scale), &dy)) in to.zip(x.iter().zip(scale).zip(dy)) {
            let dy = dy.mul(scale);
            *sum = sum.add(dy);
            *product = product.add(dy.mul(normal.of(x)));
        }
    }
    let [sums, products] = lanes;
    (total(sums), total(products))
}

#[inline(always)]
fn total<T: Float>(lanes: [T; LANES]) -> T {
    lanes.into_iter().fold(T::ZERO, |sum, x| sum.add(x))
}

#[cfg(all(test, feature = "std"))]
mod tests {
    use super::super::{LayerNormOutputs, layer_normalization, rms_normalization};
    use super::*;
    use crate::simd::each_level;
    use std::vec::Vec;

    const EPSILON: f32 = 1e-3;

    fn numbers(n: usize, seed: usize) -> Vec<f64> {
        (0..n).map(|i| ((i * 37 + seed) % 23) as f64 / 8.0 - 1.0).collect()
    }

    /// `Σ y dy` with the normalized rows `y`.
    fn loss(centered: bool, given: &[Vec<f64>; 3], dy: &[f64], geometry: Axis) -> f64 {
        let [x, scale, bias] = given;
        let mut y = std::vec![0.0; x.len()];
        if centered {
            let (scale, bias) = (Some(&scale[..]), Some(&bias[..]));
            layer_normalization(
                x,
                scale,
                bias,
                LayerNormOutputs { y: &mut y, mean: None, inv_std_dev: None },
                geometry,
                EPSILON,
            );
        } else {
            rms_normalization(x, Some(scale), &mut y, geometry, EPSILON);
        }
        y.iter().zip(dy).map(|(y, dy)| y * dy).sum()
    }

    /// Compares the gradients in `T` with the change of the loss.
    fn check<T: Float<Wide = T>>(error: f64) {
        for (outer, len) in [(2, 3), (3, 16), (2, 37), (1, 1), (0, 4)] {
            let geometry = Axis { outer, len, inner: 1 };
            let (n, dy) = (outer * len, numbers(outer * len, 5));
            let given = [numbers(n, 0), numbers(len, 3), numbers(len, 7)];
            let narrow = |x: &[f64]| x.iter().map(|&x| T::from_f64(x)).collect::<Vec<T>>();
            let [x, scale, _] = [0, 1, 2].map(|i| narrow(&given[i]));
            let dy_narrow = narrow(&dy);
            for centered in [true, false] {
                let [mut dx, mut d_scale, mut d_bias] =
                    [n, len, len].map(|n| std::vec![T::from_f64(9.0); n]);
                let (to_x, to_scale) = (Some(&mut dx[..]), Some(&mut d_scale[..]));
                if centered {
                    let to_bias = Some(&mut d_bias[..]);
                    layer_normalization_grad(
                        &x,
                        &scale,
                        &dy_narrow,
                        LayerNormGrads { dx: to_x, d_scale: to_scale, d_bias: to_bias },
                        geometry,
                        EPSILON,
                    );
                } else {
                    rms_normalization_grad(
                        &x, &scale, &dy_narrow, to_x, to_scale, geometry, EPSILON,
                    );
                    d_bias.fill(T::ZERO);
                }
                for (k, found) in [dx, d_scale, d_bias].iter().enumerate() {
                    for (i, found) in found.iter().enumerate() {
                        let at = |step: f64| {
                            let mut given = given.clone();
                            given[k][i] += step;
                            loss(centered, &given, &dy, geometry)
                        };
                        let truth = (at(1e-4) - at(-1e-4)) / 2e-4;
                        let found = found.to_f64();
                        let near = (found - truth).abs() <= error * (1.0 + truth.abs());
                        assert!(near, "{k} {i} of {outer} x {len}: {found}, not {truth}");
                    }
                }
            }
        }
    }

    #[test]
    fn gradients_match_difference_quotients() {
        check::<f64>(1e-5);
        each_level(|_| check::<f32>(2e-4));
    }

    #[test]
    fn absent_gradients_are_not_computed() {
        let (x, one, mut dx) = ([1.0f32, 3.0], [1.0; 2], [9.0; 2]);
        let geometry = Axis { outer: 1, len: 2, inner: 1 };
        layer_normalization_grad(
            &x,
            &one,
            &x,
            LayerNormGrads { dx: Some(&mut dx), d_scale: None, d_bias: None },
            geometry,
            0.0,
        );
        assert_eq!(dx, [0.0, 0.0]);
        let mut d_bias = [9.0; 2];
        layer_normalization_grad(
            &x,
            &one,
            &x,
            LayerNormGrads { dx: None, d_scale: None, d_bias: Some(&mut d_bias) },
            geometry,
            0.0,
        );
        assert_eq!(d_bias, x);
    }
}
