//! Activation functions. 16-bit types compute in `f32` and round once, at the end. Error bounds for
//! `f32` hold at every SIMD level and without SIMD; a function without a stated bound consists of
//! additions and multiplications, each rounded.
//!
//! [`gelu`], [`gelu_tanh`], [`hard_swish`], [`mish`] and [`swish`] multiply `x` by a factor that is
//! zero at -∞, so they return NaN there, as ONNX's own definitions of these functions do.

use crate::loops::broadcast_f32::{fast, zip_fast, zip_fast_in_place};
use crate::loops::elementwise::{
    map, map_fast, map_fast_in_place, map_float, map_float_in_place, map_in_place,
};
use crate::loops::epilogue::Activation;
use crate::loops::geometry::Broadcast;
use crate::simd;
use crate::{Float, Number};

/// `y = max(0, x) + min(0, α (e^(x/α) - 1))`. In `f32` within 4 ULP.
pub fn celu<T: Float>(x: &[T], y: &mut [T], alpha: f32) {
    activate(x, y, Activation::Celu { alpha });
}

/// [`celu`] in place.
pub fn celu_in_place<T: Float>(y: &mut [T], alpha: f32) {
    activate_in_place(y, Activation::Celu { alpha });
}

/// `y = min(max(x, min), max)`. Each bound has one element; an absent bound does not limit.
pub fn clip<T: Number>(x: &[T], min: Option<&[T]>, max: Option<&[T]>, y: &mut [T]) {
    let (min, max) = bounds(min, max);
    map_fast(x, y, clip_f32(min, max), |x| x.maximum(min).minimum(max));
}

/// [`clip`] in place.
pub fn clip_in_place<T: Number>(y: &mut [T], min: Option<&[T]>, max: Option<&[T]>) {
    let (min, max) = bounds(min, max);
    map_fast_in_place(y, clip_f32(min, max), |y| y.maximum(min).minimum(max));
}

/// `y = x` above zero and `α (e^x - 1)` below. In `f32` within 3 ULP.
pub fn elu<T: Float>(x: &[T], y: &mut [T], alpha: f32) {
    activate(x, y, Activation::Elu { alpha });
}

/// [`elu`] in place.
pub fn elu_in_place<T: Float>(y: &mut [T], alpha: f32) {
    activate_in_place(y, Activation::Elu { alpha });
}

/// `y = x Φ(x)`, with the distribution function `Φ` of the normal distribution. In `f32` within 4
/// ULP.
pub fn gelu<T: Float>(x: &[T], y: &mut [T]) {
    activate(x, y, Activation::Gelu);
}

/// [`gelu`] in place.
pub fn gelu_in_place<T: Float>(y: &mut [T]) {
    activate_in_place(y, Activation::Gelu);
}

/// `y = x/2 (1 + tanh(√(2/π) (x + 0.044715 x³)))`, which is close to [`gelu`]. In `f32` within 4
/// ULP.
pub fn gelu_tanh<T: Float>(x: &[T], y: &mut [T]) {
    activate(x, y, Activation::GeluTanh);
}

/// [`gelu_tanh`] in place.
pub fn gelu_tanh_in_place<T: Float>(y: &mut [T]) {
    activate_in_place(y, Activation::GeluTanh);
}

/// `y = max(0, min(1, α x + β))`.
pub fn hard_sigmoid<T: Float>(x: &[T], y: &mut [T], alpha: f32, beta: f32) {
    activate(x, y, Activation::HardSigmoid { alpha, beta });
}

/// [`hard_sigmoid`] in place.
pub fn hard_sigmoid_in_place<T: Float>(y: &mut [T], alpha: f32, beta: f32) {
    activate_in_place(y, Activation::HardSigmoid { alpha, beta });
}

/// `y = x max(0, min(1, x/6 + 1/2))`.
pub fn hard_swish<T: Float>(x: &[T], y: &mut [T]) {
    activate(x, y, Activation::HardSwish);
}

/// [`hard_swish`] in place.
pub fn hard_swish_in_place<T: Float>(y: &mut [T]) {
    activate_in_place(y, Activation::HardSwish);
}

/// `y = x` above zero and `α x` below.
pub fn leaky_relu<T: Float>(x: &[T], y: &mut [T], alpha: f32) {
    activate(x, y, Activation::LeakyRelu { alpha });
}

/// [`leaky_relu`] in place.
pub fn leaky_relu_in_place<T: Float>(y: &mut [T], alpha: f32) {
    activate_in_place(y, Activation::LeakyRelu { alpha });
}

/// `y = x tanh(ln(1 + e^x))`. In `f32` within 4 ULP.
pub fn mish<T: Float>(x: &[T], y: &mut [T]) {
    activate(x, y, Activation::Mish);
}

/// [`mish`] in place.
pub fn mish_in_place<T: Float>(y: &mut [T]) {
    activate_in_place(y, Activation::Mish);
}

/// `y = x` above zero and `slope · x` below.
pub fn prelu<T: Number>(x: &[T], slope: &[T], y: &mut [T], geometry: Broadcast<'_>) {
    zip_fast((x, slope), y, geometry, fast::prelu, prelu_of);
}

/// [`prelu`] in place.
pub fn prelu_in_place<T: Number>(y: &mut [T], slope: &[T], geometry: Broadcast<'_>) {
    zip_fast_in_place(y, slope, geometry, fast::prelu_in_place, prelu_of);
}

/// `y = max(0, x)`.
pub fn relu<T: Number>(x: &[T], y: &mut [T]) {
    map_fast(x, y, vectors(Activation::Relu), relu_of);
}

/// [`relu`] in place.
pub fn relu_in_place<T: Number>(y: &mut [T]) {
    map_fast_in_place(y, vectors(Activation::Relu), relu_of);
}

/// `y = γ x` above zero and `γ α (e^x - 1)` below. In `f32` within 4 ULP.
pub fn selu<T: Float>(x: &[T], y: &mut [T], alpha: f32, gamma: f32) {
    activate(x, y, Activation::Selu { alpha, gamma });
}

/// [`selu`] in place.
pub fn selu_in_place<T: Float>(y: &mut [T], alpha: f32, gamma: f32) {
    activate_in_place(y, Activation::Selu { alpha, gamma });
}

/// `y = x + b` below `-λ`, `x - b` above `λ`, and zero between.
pub fn shrink<T: Number>(x: &[T], y: &mut [T], bias: f32, lambd: f32) {
    map(x, y, shrink_of(bias, lambd));
}

/// [`shrink`] in place.
pub fn shrink_in_place<T: Number>(y: &mut [T], bias: f32, lambd: f32) {
    map_in_place(y, shrink_of(bias, lambd));
}

/// `y = 1 / (1 + e^-x)`. In `f32` within 2.5 ULP.
pub fn sigmoid<T: Float>(x: &[T], y: &mut [T]) {
    activate(x, y, Activation::Sigmoid);
}

/// [`sigmoid`] in place.
pub fn sigmoid_in_place<T: Float>(y: &mut [T]) {
    activate_in_place(y, Activation::Sigmoid);
}

/// `y = ln(1 + e^x)`. In `f32` within 1.8 ULP.
pub fn softplus<T: Float>(x: &[T], y: &mut [T]) {
    activate(x, y, Activation::Softplus);
}

/// [`softplus`] in place.
pub fn softplus_in_place<T: Float>(y: &mut [T]) {
    activate_in_place(y, Activation::Softplus);
}

/// `y = x / (1 + |x|)`. In `f32` within 1.5 ULP.
pub fn softsign<T: Float>(x: &[T], y: &mut [T]) {
    activate(x, y, Activation::Softsign);
}

/// [`softsign`] in place.
pub fn softsign_in_place<T: Float>(y: &mut [T]) {
    activate_in_place(y, Activation::Softsign);
}

/// `y = x / (1 + e^(-α x))`. In `f32` within 4 ULP.
pub fn swish<T: Float>(x: &[T], y: &mut [T], alpha: f32) {
    activate(x, y, Activation::Swish { alpha });
}

/// [`swish`] in place.
pub fn swish_in_place<T: Float>(y: &mut [T], alpha: f32) {
    activate_in_place(y, Activation::Swish { alpha });
}

/// `y = a / (1 + e^(-α a)) · b`.
pub fn swiglu<T: Float>(a: &[T], b: &[T], y: &mut [T], alpha: f32) {
    swiglu_of(Some(a), b, y, alpha);
}

/// Computes [`swiglu`] in place, overwriting `a`.
pub fn swiglu_in_place<T: Float>(y: &mut [T], b: &[T], alpha: f32) {
    swiglu_of(None, b, y, alpha);
}

/// [`swiglu`], in place without `a`.
fn swiglu_of<T: Float>(a: Option<&[T]>, b: &[T], y: &mut [T], alpha: f32) {
    let f = Activation::Swish { alpha };
    let narrow = a.map(|a| T::as_f32(a).unwrap_or(&[]));
    match (T::as_f32_mut(y), T::as_f32(b)) {
        // Processes parts that stay in the L1 cache between the function and the product.
        (Some(y), Some(b)) => {
            for (i, (y, b)) in y.chunks_mut(PART).zip(b.chunks(PART)).enumerate() {
                f.map(narrow.map(|a| &a[i * PART..][..y.len()]), y);
                let geometry = Broadcast { sizes: &[y.len()], a: &[1], b: &[1] };
                fast::mul_in_place(y, b, geometry);
            }
        }
        _ => {
            for (i, (y, b)) in y.iter_mut().zip(b).enumerate() {
                let x = a.map_or(*y, |a| a[i]);
                *y = T::narrow(f.of(x.widen()).mul(b.widen()));
            }
        }
    }
}

/// Elements per part, between the passes of several steps.
const PART: usize = 2048;

/// `y = x` above `α`, else zero.
pub fn thresholded_relu<T: Float>(x: &[T], y: &mut [T], alpha: f32) {
    activate(x, y, Activation::ThresholdedRelu { alpha });
}

/// [`thresholded_relu`] in place.
pub fn thresholded_relu_in_place<T: Float>(y: &mut [T], alpha: f32) {
    activate_in_place(y, Activation::ThresholdedRelu { alpha });
}

#[inline(always)]
fn activate<T: Float>(x: &[T], y: &mut [T], f: Activation) {
    map_float(x, y, vectors(f), |x| f.of(x));
}

#[inline(always)]
fn activate_in_place<T: Float>(y: &mut [T], f: Activation) {
    map_float_in_place(y, vectors(f), |y| f.of(y));
}

/// Returns the function of slices of `f32` that threads share.
#[inline(always)]
fn vectors(f: Activation) -> impl Fn(Option<&[f32]>, &mut [f32]) {
    move |x, y| simd::share(x, y, |x, y| f.map(x, y))
}

#[inline(always)]
fn relu_of<T: Number>(x: T) -> T {
    x.maximum(T::ZERO)
}

fn bounds<T: Number>(min: Option<&[T]>, max: Option<&[T]>) -> (T, T) {
    let bound = |bound: Option<&[T]>| bound.and_then(|bound| bound.first().copied());
    (bound(min).unwrap_or(T::LOWEST), bound(max).unwrap_or(T::HIGHEST))
}

#[inline(always)]
fn clip_f32<T: Number>(min: T, max: T) -> impl Fn(Option<&[f32]>, &mut [f32]) {
    let narrow = |bound: T| f32::from_f64(bound.to_f64());
    vectors(Activation::Clip { min: narrow(min), max: narrow(max) })
}

#[inline(always)]
fn prelu_of<T: Number>(x: T, slope: T) -> T {
    if x < T::ZERO { x.mul(slope) } else { x }
}

#[inline(always)]
fn shrink_of<T: Number>(bias: f32, lambd: f32) -> impl Fn(T) -> T {
    let (bias, lambd) = (f64::from(bias), f64::from(lambd));
    move |x| match x.to_f64() {
        wide if wide < -lambd => T::from_f64(wide + bias),
        wide if wide > lambd => T::from_f64(wide - bias),
        _ => T::ZERO,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Kernel<T> = fn(&[T], &mut [T]);
    type InPlace<T> = fn(&mut [T]);

    /// Compares a kernel with its formula in `f64`, in both types and in place.
    fn check(kernels: (Kernel<f32>, InPlace<f32>, Kernel<f64>), formula: fn(f64) -> f64) {
        const X: [f64; 15] = [
            -90.0, -20.5, -3.75, -1.5, -0.75, -0.25, -1e-4, 0.0, 1e-4, 0.25, 0.75, 1.5, 3.75, 20.5,
            90.0,
        ];
        let x = X.map(|x| x as f32);
        let (mut y, mut z, mut wide) = ([0.0; 15], x, [0.0; 15]);
        kernels.0(&x, &mut y);
        kernels.1(&mut z);
        kernels.2(&X, &mut wide);
        assert_eq!(y, z, "in place");
        for i in 0..15 {
            let (narrow, expected) = (formula(f64::from(x[i])), formula(X[i]));
            let close = |y: f64, expected: f64, e: f64| (y - expected).abs() <= e * (1.0 + y.abs());
            assert!(close(f64::from(y[i]), narrow, 4e-7), "{}: {} {narrow}", X[i], y[i]);
            assert!(close(wide[i], expected, 4e-15), "{}: {} {expected}", X[i], wide[i]);
        }
    }

    #[test]
    fn activations_are_their_formulas() {
        check((relu, relu_in_place, relu), |x| x.max(0.0));
        check((sigmoid, sigmoid_in_place, sigmoid), |x| 1.0 / (1.0 + libm::exp(-x)));
        check((softsign, softsign_in_place, softsign), |x| x / (1.0 + x.abs()));
        check((softplus, softplus_in_place, softplus), |x| libm::log(1.0 + libm::exp(x)));
        check((mish, mish_in_place, mish), |x| x * libm::tanh(libm::log(1.0 + libm::exp(x))));
        check((hard_swish, hard_swish_in_place, hard_swish), |x| {
            x * (x / 6.0 + 0.5).clamp(0.0, 1.0)
        });
        check((gelu, gelu_in_place, gelu), |x| x / 2.0 * (1.0 + libm::erf(x / libm::sqrt(2.0))));
        check((gelu_tanh, gelu_tanh_in_place, gelu_tanh), |x| {
            let scale = libm::sqrt(2.0 / core::f64::consts::PI);
            x / 2.0 * (1.0 + libm::tanh(scale * (x + 0.044_715 * x * x * x)))
        });
    }

    #[test]
    fn activations_with_parameters_are_their_formulas() {
        macro_rules! with {
            ($kernel:ident, $in_place:ident, $($number:literal),*) => {
                (
                    |x: &[f32], y: &mut [f32]| $kernel(x, y, $($number),*),
                    |y: &mut [f32]| $in_place(y, $($number),*),
                    |x: &[f64], y: &mut [f64]| $kernel(x, y, $($number),*),
                )
            };
        }
        check(with!(leaky_relu, leaky_relu_in_place, 0.125), |x| x.max(0.0) + 0.125 * x.min(0.0));
        check(with!(celu, celu_in_place, 2.0), |x| {
            x.max(0.0) + (2.0 * libm::expm1(x / 2.0)).min(0.0)
        });
        check(with!(elu, elu_in_place, 1.5), |x| if x < 0.0 { 1.5 * libm::expm1(x) } else { x });
        check(with!(selu, selu_in_place, 1.5, 1.25), |x| {
            1.25 * if x < 0.0 { 1.5 * libm::expm1(x) } else { x }
        });
        check(with!(hard_sigmoid, hard_sigmoid_in_place, 0.25, 0.5), |x| {
            (0.25 * x + 0.5).clamp(0.0, 1.0)
        });
        check(with!(swish, swish_in_place, 1.5), |x| x / (1.0 + libm::exp(-1.5 * x)));
        check(with!(thresholded_relu, thresholded_relu_in_place, 1.5), |x| {
            if x > 1.5 { x } else { 0.0 }
        });
        check(with!(shrink, shrink_in_place, 0.5, 1.5), |x| {
            if x < -1.5 {
                x + 0.5
            } else if x > 1.5 {
                x - 0.5
            } else {
                0.0
            }
        });
    }

    #[test]
    fn not_a_number_passes_through_every_activation_without_a_threshold() {
        let kernels: [InPlace<f32>; 16] = [
            |y| celu_in_place(y, 1.0),
            |y| clip_in_place(y, Some(&[-1.0]), Some(&[1.0])),
            |y| elu_in_place(y, 1.0),
            gelu_in_place,
            gelu_tanh_in_place,
            |y| hard_sigmoid_in_place(y, 0.2, 0.5),
            hard_swish_in_place,
            |y| leaky_relu_in_place(y, 0.1),
            mish_in_place,
            relu_in_place,
            |y| selu_in_place(y, 1.0, 1.0),
            sigmoid_in_place,
            softplus_in_place,
            softsign_in_place,
            |y| swish_in_place(y, 1.0),
            |y| prelu_in_place(y, &[0.5], Broadcast { sizes: &[1], a: &[1], b: &[0] }),
        ];
        for (i, kernel) in kernels.iter().enumerate() {
            let mut y = [f32::NAN];
            kernel(&mut y);
            assert!(y[0].is_nan(), "kernel {i}");
        }
    }

    #[test]
    fn elements_below_the_threshold_and_nan_become_zero() {
        let kernels: [InPlace<f32>; 2] =
            [|y| shrink_in_place(y, 0.0, 0.5), |y| thresholded_relu_in_place(y, 1.0)];
        for kernel in kernels {
            // Covers whole vectors and a tail.
            let mut y = [f32::NAN, 0.25, f32::INFINITY].repeat(11);
            kernel(&mut y);
            assert_eq!(y, [0.0, 0.0, f32::INFINITY].repeat(11));
        }
    }

    #[test]
    fn a_lower_bound_gives_way_to_the_upper() {
        let mut y = [0; 4];
        clip(&[-9, 0, 3, 9], Some(&[-1]), Some(&[2]), &mut y);
        assert_eq!(y, [-1, 0, 2, 2]);
        clip(&[-9, 0, 3, 9], Some(&[5]), Some(&[2]), &mut y);
        assert_eq!(y, [2; 4]);
        clip(&[i8::MIN, 0, 3, i8::MAX], None, None, &mut [0; 4]);
        clip_in_place(&mut y, None, Some(&[1]));
        assert_eq!(y, [1; 4]);
    }

    #[test]
    fn a_gate_multiplies_the_other_operand() {
        let a: [f64; 5] = [-3.0, -0.5, 0.0, 0.5, 3.0];
        let b: [f64; 5] = [2.0, -1.0, 7.0, 4.0, 0.5];
        let (mut y, mut narrow) = ([0.0; 5], [0.0; 5]);
        swiglu(&a, &b, &mut y, 1.5);
        swiglu(&a.map(|a| a as f32), &b.map(|b| b as f32), &mut narrow, 1.5);
        for i in 0..5 {
            let expected = a[i] / (1.0 + libm::exp(-1.5 * a[i])) * b[i];
            assert!((y[i] - expected).abs() < 1e-15, "{}", y[i]);
            assert!((f64::from(narrow[i]) - expected).abs() < 1e-6, "{}", narrow[i]);
        }
    }

    #[test]
    fn a_slope_is_repeated_along_the_other_axes() {
        let (x, mut y) = ([-1.0, -2.0, 3.0, -4.0], [0.0f32; 4]);
        prelu(&x, &[0.5, 0.25], &mut y, Broadcast { sizes: &[2, 2], a: &[2, 1], b: &[1, 0] });
        assert_eq!(y, [-0.5, -1.0, 3.0, -1.0]);
        prelu_in_place(&mut y, &[2.0], Broadcast { sizes: &[4], a: &[1], b: &[0] });
        assert_eq!(y, [-1.0, -2.0, 3.0, -2.0]);
    }
}
