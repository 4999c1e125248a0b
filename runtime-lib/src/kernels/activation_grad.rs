//! Gradients of activation functions that need more than a gate, and of softmax.

use crate::Float;
use crate::simd::{Pointwise, Simd, WithSimd, dispatch, math};
use crate::threads;

/// `dx = dy (Φ(x) + x φ(x))`, with the distribution function `Φ` and the density `φ` of the normal
/// distribution: the gradient of [`gelu`](crate::kernels::activation::gelu). NaN at ±∞, as `x φ(x)`
/// is.
#[inline(never)]
pub fn gelu_grad<T: Float>(dy: &[T], x: &[T], dx: &mut [T]) {
    dx.copy_from_slice(dy);
    gelu_grad_in_place(dx, x);
}

/// [`gelu_grad`] in place.
#[inline(never)]
pub fn gelu_grad_in_place<T: Float>(dx: &mut [T], x: &[T]) {
    along(dx, x, Gelu, of_gelu);
}

/// `dx = dy/2 (1 + t + x (1 - t²) z')` with `t = tanh(z)` and `z = √(2/π) (x + 0.044715 x³)`: the
/// gradient of [`gelu_tanh`](crate::kernels::activation::gelu_tanh). NaN at ±∞, as the product is.
#[inline(never)]
pub fn gelu_tanh_grad<T: Float>(dy: &[T], x: &[T], dx: &mut [T]) {
    dx.copy_from_slice(dy);
    gelu_tanh_grad_in_place(dx, x);
}

/// [`gelu_tanh_grad`] in place.
#[inline(never)]
pub fn gelu_tanh_grad_in_place<T: Float>(dx: &mut [T], x: &[T]) {
    along(dx, x, GeluTanh, of_gelu_tanh);
}

/// `dx = y (dy - Σ y dy)` along rows of `len` elements: the gradient of
/// [`softmax`](crate::kernels::softmax::softmax), whose result is `y`.
#[inline(never)]
pub fn softmax_grad<T: Float>(dy: &[T], y: &[T], dx: &mut [T], len: usize) {
    dx.copy_from_slice(dy);
    softmax_grad_in_place(dx, y, len);
}

/// [`softmax_grad`] in place.
#[inline(never)]
pub fn softmax_grad_in_place<T: Float>(dx: &mut [T], y: &[T], len: usize) {
    match (T::as_f32_mut(dx), T::as_f32(y)) {
        (Some(dx), Some(y)) => {
            let cost = 2 * dx.len();
            threads::share(dx, len, cost, |first, dx| {
                let y = &y[first * len..][..dx.len()];
                dispatch(SoftmaxRows { dx, y, len });
            });
        }
        _ => {
            for (dx, y) in dx.chunks_mut(len.max(1)).zip(y.chunks(len.max(1))) {
                let sum: f64 = dx.iter().zip(y).map(|(dy, y)| dy.to_f64() * y.to_f64()).sum();
                for (dx, y) in dx.iter_mut().zip(y) {
                    *dx = T::from_f64(y.to_f64() * (dx.to_f64() - sum));
                }
            }
        }
    }
}

struct SoftmaxRows<'a> {
    dx: &'a mut [f32],
    y: &'a [f32],
    len: usize,
}

impl WithSimd for SoftmaxRows<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let SoftmaxRows { dx, y, len } = self;
        for (dx, y) in dx.chunks_exact_mut(len.max(1)).zip(y.chunks_exact(len.max(1))) {
            let mean = s.splat(product(s, dx, y));
            let (whole, rest) = dx.split_at_mut(len - len % S::LANES);
            let (whole_y, rest_of_y) = y.split_at(whole.len());
            for (dx, y) in whole.chunks_exact_mut(S::LANES).zip(whole_y.chunks_exact(S::LANES)) {
                s.store(s.mul(s.load(y), s.sub(s.load(dx), mean)), dx);
            }
            if !rest.is_empty() {
                let gradient = s.mul(s.load_head(rest_of_y), s.sub(s.load_head(rest), mean));
                s.store_head(gradient, rest);
            }
        }
    }
}

/// Returns the dot product of two rows.
#[inline(always)]
fn product<S: Simd>(s: S, x: &[f32], y: &[f32]) -> f32 {
    let (xs, ys) = (x.chunks_exact(S::LANES), y.chunks_exact(S::LANES));
    let (rest, rest_of_y) = (xs.remainder(), ys.remainder());
    let mut sums = s.splat(0.0);
    for (x, y) in xs.zip(ys) {
        sums = s.mul_add(s.load(x), s.load(y), sums);
    }
    if !rest.is_empty() {
        // The missing lanes of the last vector are zero in both.
        sums = s.mul_add(s.load_head(rest), s.load_head(rest_of_y), sums);
    }
    s.sum(sums)
}

/// The cost of one element, in elements read or written.
const COST: usize = 8;

/// Multiplies each element of `dx` by the derivative at the corresponding element of `x`.
#[inline(always)]
fn along<T: Float>(dx: &mut [T], x: &[T], vectors: impl Pointwise, gradient: fn(f64) -> f64) {
    match (T::as_f32_mut(dx), T::as_f32(x)) {
        (Some(dx), Some(x)) => {
            let cost = COST * dx.len();
            threads::share(dx, 1, cost, |first, dx| {
                let x = &x[first..][..dx.len()];
                dispatch(Grad { dx, x, f: vectors });
            });
        }
        _ => {
            for (dx, x) in dx.iter_mut().zip(x) {
                *dx = T::from_f64(dx.to_f64() * gradient(x.to_f64()));
            }
        }
    }
}

fn of_gelu(x: f64) -> f64 {
    const ROOT: f64 = core::f64::consts::FRAC_1_SQRT_2;
    const HEIGHT: f64 = 0.398_942_280_401_432_7;
    0.5 * libm::erfc(-ROOT * x) + x * HEIGHT * libm::exp(-0.5 * x * x)
}

fn of_gelu_tanh(x: f64) -> f64 {
    const GRAD: f64 = 0.797_884_560_802_865_4;
    const CUBE: f64 = 0.044_715;
    let gate = libm::tanh(GRAD * x * (1.0 + CUBE * x * x));
    let steep = GRAD * (1.0 + 3.0 * CUBE * x * x);
    0.5 * (1.0 + gate + x * (1.0 - gate * gate) * steep)
}

#[derive(Clone, Copy)]
struct Gelu;

impl Pointwise for Gelu {
    #[inline(always)]
    fn apply<S: Simd>(self, s: S, x: S::F32) -> S::F32 {
        math::gelu_grad(s, x)
    }
}

#[derive(Clone, Copy)]
struct GeluTanh;

impl Pointwise for GeluTanh {
    #[inline(always)]
    fn apply<S: Simd>(self, s: S, x: S::F32) -> S::F32 {
        math::gelu_tanh_grad(s, x)
    }
}

struct Grad<'a, F> {
    dx: &'a mut [f32],
    x: &'a [f32],
    f: F,
}

impl<F: Pointwise> WithSimd for Grad<'_, F> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let mut vectors = self.dx.chunks_exact_mut(S::LANES);
        let mut xs = self.x.chunks_exact(S::LANES);
        for (dx, x) in (&mut vectors).zip(&mut xs) {
            s.store(s.mul(s.load(dx), self.f.apply(s, s.load(x))), dx);
        }
        let (dx, x) = (vectors.into_remainder(), xs.remainder());
        if !dx.is_empty() {
            s.store_head(s.mul(s.load_head(dx), self.f.apply(s, s.load_head(x))), dx);
        }
    }
}

#[cfg(all(test, feature = "std"))]
mod tests {
    use super::*;
    use crate::simd::each_level;
    use std::vec::Vec;

    type Kernel<T> = fn(&[T], &[T], &mut [T]);

    /// Compares a kernel with the difference quotient of the function.
    fn check(kernels: (Kernel<f32>, Kernel<f64>), f: fn(f64) -> f64) {
        let x: Vec<f64> = (-901..900).map(|i| f64::from(i) / 64.0).collect();
        let near = |x: f64| (f(x + 1e-4) - f(x - 1e-4)) / 2e-4;
        let dy: Vec<f64> = (0..x.len()).map(|i| (i % 7) as f64 - 3.0).collect();
        let narrow = |x: &[f64]| x.iter().map(|&x| x as f32).collect::<Vec<f32>>();
        each_level(|level| {
            let (mut wide, mut single) = (x.clone(), narrow(&x));
            kernels.1(&dy, &x, &mut wide);
            kernels.0(&narrow(&dy), &narrow(&x), &mut single);
            for (i, (&wide, &single)) in wide.iter().zip(&single).enumerate() {
                let truth = dy[i] * near(x[i]);
                assert!((wide - truth).abs() < 1e-6, "{level:?}: at {} {wide}, not {truth}", x[i]);
                let error = (f64::from(single) - wide).abs();
                assert!(error < 2e-6, "{level:?}: at {} {single}, not {wide}", x[i]);
            }
        });
    }

    #[test]
    fn gradients_match_difference_quotients() {
        let gelu = |x: f64| 0.5 * x * libm::erfc(-x * core::f64::consts::FRAC_1_SQRT_2);
        check((gelu_grad, gelu_grad), gelu);
        let tanh = |x: f64| {
            let z = 0.797_884_560_802_865_4 * x * (1.0 + 0.044_715 * x * x);
            0.5 * x * (1.0 + libm::tanh(z))
        };
        check((gelu_tanh_grad, gelu_tanh_grad), tanh);
    }

    #[test]
    fn softmax_grad_is_computed_along_rows() {
        for len in [0, 1, 5, 16, 37] {
            let y: Vec<f64> = (0..3 * len).map(|i| (i % 11) as f64 / 8.0).collect();
            let dy: Vec<f64> = (0..3 * len).map(|i| (i % 7) as f64 - 3.0).collect();
            let row = |i: usize| i / len * len..i / len * len + len;
            let sum = |i: usize| row(i).map(|j| y[j] * dy[j]).sum::<f64>();
            let truth: Vec<f64> = (0..y.len()).map(|i| y[i] * (dy[i] - sum(i))).collect();
            let narrow = |x: &[f64]| x.iter().map(|&x| x as f32).collect::<Vec<f32>>();
            each_level(|level| {
                let (mut wide, mut single) = (y.clone(), narrow(&y));
                softmax_grad(&dy, &y, &mut wide, len);
                softmax_grad(&narrow(&dy), &narrow(&y), &mut single, len);
                assert_eq!(wide, truth, "{level:?}: rows of {len}");
                let near = |(a, b): (&f32, &f64)| (f64::from(*a) - b).abs() < 1e-4;
                assert!(single.iter().zip(&truth).all(near), "{level:?}: rows of {len}");
            });
        }
    }

    #[test]
    fn gelu_gradients_at_infinity_follow_the_formula() {
        each_level(|level| {
            let x = [f32::INFINITY, f32::NEG_INFINITY, f32::NAN, 30.0, -30.0];
            for kernel in [gelu_grad::<f32>, gelu_tanh_grad::<f32>] {
                let mut dx = [9.0; 5];
                kernel(&[1.0; 5], &x, &mut dx);
                assert!(dx[..3].iter().all(|dx| dx.is_nan()), "{level:?}: {dx:?}");
                assert_eq!(dx[3..], [1.0, 0.0], "{level:?}");
            }
        });
    }
}
