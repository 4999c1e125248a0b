//! Kernels against the true values: how far off each is at most, over one in so many of all numbers
//! in single precision, at every level that the processor has. The bounds stand in the kernels'
//! documentation, too.

use crate::activation_fn::Activation;
use crate::gemm::{Gemm, Layout, gemm_f32, gemm_scratch};
use crate::geometry::{Broadcast, Reduction};
use crate::simd::each_level;
use crate::{Number, activation, binary, reduce, unary};
use std::{vec, vec::Vec};

/// A prime: every exponent comes with many fractions, and the low bits are all there.
const STEP: usize = 4_001;

type Kernel = fn(&[f32], &mut [f32]);

/// One in `step` of all `f32`, and those where something changes.
pub(crate) fn inputs(step: usize) -> Vec<f32> {
    let edges =
        [0.0, f32::MIN_POSITIVE, 1e-45, 88.722_83, 88.722_84, 103.97, 104.0, 1.0, 10.0, 3.95]
            .into_iter()
            .chain([
                f32::MAX,
                f32::INFINITY,
                f32::NAN,
                9.01,
                2.0 / 3.0,
                4.0 / 3.0,
                0.5,
                0.35,
                17.4,
            ]);
    let patterns = (0..=u32::MAX).step_by(step).map(f32::from_bits);
    edges.flat_map(|x| [x, -x]).chain(patterns).collect()
}

/// The distance of `y` from `truth`, in units of the last place of the nearest `f32`.
pub(crate) fn ulps(y: f32, truth: f64) -> f64 {
    let nearest = truth as f32;
    if y == nearest || (y.is_nan() && nearest.is_nan()) {
        return 0.0;
    }
    if !y.is_finite() || !nearest.is_finite() {
        return f64::INFINITY;
    }
    let bits = nearest.abs().to_bits();
    let ulp = f64::from(f32::from_bits(bits + 1)) - f64::from(f32::from_bits(bits));
    (f64::from(y) - truth).abs() / ulp
}

/// Holds a kernel against the truth where there is one: within `bound` units in the last place.
fn check(name: &str, kernel: Kernel, truth: fn(f64) -> f64, bound: f64) {
    let x = inputs(STEP);
    let truths: Vec<f64> = x.iter().map(|&x| truth(f64::from(x))).collect();
    each_level(|level| {
        let mut y = vec![0.0; x.len()];
        kernel(&x, &mut y);
        let (mut worst, mut at) = (0.0, 0);
        for (i, (&y, &truth)) in y.iter().zip(&truths).enumerate() {
            let error = ulps(y, truth);
            if error > worst {
                (worst, at) = (error, i);
            }
        }
        let (x, y, truth) = (x[at], y[at], truths[at]);
        let found = std::format!("{level:?}: {name}({x:e}) = {y:e}, not {truth:e}: {worst} ulp");
        std::println!("{found}");
        assert!(worst <= bound, "{found}");
    });
}

/// The distribution function of the normal distribution, without loss where it is small.
fn normal(x: f64) -> f64 {
    0.5 * libm::erfc(-x * core::f64::consts::FRAC_1_SQRT_2)
}

/// `x f(x)`, and the limit -0 at -∞, for an `f` that falls faster than any power there.
fn times(x: f64, f: f64) -> f64 {
    if x == f64::NEG_INFINITY { -0.0 } else { x * f }
}

/// libm's has results for numbers below -1, too.
fn acosh(x: f64) -> f64 {
    if x < 1.0 { f64::NAN } else { libm::acosh(x) }
}

fn softplus(x: f64) -> f64 {
    libm::log1p(libm::exp(-x.abs())) + x.max(0.0)
}

#[test]
fn functions_of_angles_are_within_an_ulp() {
    check("sin", unary::sin, libm::sin, 1.0);
    check("cos", unary::cos, libm::cos, 1.0);
    check("tan", unary::tan, libm::tan, 1.0);
    check("asin", unary::asin, libm::asin, 1.0);
    check("acos", unary::acos, libm::acos, 1.0);
    check("atan", unary::atan, libm::atan, 1.0);
}

#[test]
fn hyperbolic_functions_are_within_4_ulp() {
    check("sinh", unary::sinh, libm::sinh, 2.0);
    check("cosh", unary::cosh, libm::cosh, 2.0);
    check("tanh", unary::tanh, libm::tanh, 2.5);
    check("asinh", unary::asinh, libm::asinh, 2.0);
    check("acosh", unary::acosh, acosh, 2.5);
    check("atanh", unary::atanh, libm::atanh, 2.0);
}

#[test]
fn powers_and_their_kin_are_within_4_ulp() {
    check("exp", unary::exp, libm::exp, 1.2);
    check("log", unary::log, libm::log, 1.0);
    check("erf", unary::erf, libm::erf, 1.3);
    check("sqrt", unary::sqrt, libm::sqrt, 0.5);
    check("reciprocal", unary::reciprocal, |x| 1.0 / x, 0.5);
    for exponent in [2.0, 3.0, 0.5, -1.0, 1.5, -2.5, 0.1, 10.0, 31.0] {
        check_power::<f32>(exponent);
    }
    // In single precision a third would be off by a hundred millionth.
    for exponent in [1.0 / 2.0, 1.0 / 3.0] {
        check_power::<f64>(exponent);
    }
}

fn check_power<E: Number>(exponent: E) {
    let x = inputs(STEP);
    let mut y = vec![0.0; x.len()];
    let geometry = Broadcast { sizes: &[x.len()], a: &[1], b: &[0] };
    binary::pow(&x, &[exponent], &mut y, geometry);
    let exponent = exponent.to_f64();
    for (&x, &y) in x.iter().zip(&y) {
        let truth = libm::pow(x.into(), exponent);
        let error = ulps(y, truth);
        assert!(error <= 4.0, "{x:e}^{exponent} = {y:e}, not {truth:e}: {error} ulp");
    }
}

#[test]
fn activations_are_within_4_ulp() {
    check("sigmoid", activation::sigmoid, |x| 1.0 / (1.0 + libm::exp(-x)), 2.5);
    check("softplus", activation::softplus, softplus, 1.8);
    check("softsign", activation::softsign, |x| x / (1.0 + x.abs()), 1.5);
    check("gelu", activation::gelu, |x| times(x, normal(x)), 4.0);
    check("mish", activation::mish, |x| times(x, libm::tanh(softplus(x))), 4.0);
    let silu: Kernel = |x, y| activation::swish(x, y, 1.0);
    check("silu", silu, |x| times(x, 1.0 / (1.0 + libm::exp(-x))), 3.0);
    let elu: Kernel = |x, y| activation::elu(x, y, 1.0);
    check("elu", elu, |x| if x < 0.0 { libm::expm1(x) } else { x }, 1.9);
}

#[test]
fn the_approximation_of_gelu_is_as_good_as_its_exponent() {
    let x = inputs(STEP);
    each_level(|level| {
        let mut y = vec![0.0; x.len()];
        activation::gelu_tanh(&x, &mut y);
        for (&x, &y) in x.iter().zip(&y) {
            let (wide, truth) = (f64::from(x), gelu_tanh(x.into()));
            let bound = if x < -0.75 { 4.0 - 2.0 * wide * wide * wide } else { 4.0 };
            let error = ulps(y, truth);
            assert!(
                error.is_nan() || error <= bound,
                "{level:?}: {x:e}: {y:e}, not {truth:e}: {error} ulp"
            );
        }
    });
}

fn gelu_tanh(x: f64) -> f64 {
    let t = libm::sqrt(8.0 / core::f64::consts::PI) * (x + 0.044_715 * x * x * x);
    times(x, 1.0 / (1.0 + libm::exp(-t)))
}

/// Numbers from 1/2 to 1, so that no sum cancels.
fn positive(count: usize) -> Vec<f32> {
    (0..count).map(|i| 0.5 + (i * 7_919 % 16_381) as f32 / 32_768.0).collect()
}

#[test]
fn sums_of_many_are_within_a_millionth_times_the_root_of_how_many() {
    for n in [1, 2, 7, 64, 1_000, 65_537, 1_000_000] {
        let x = positive(n);
        let wide = || x.iter().map(|&x| f64::from(x));
        let geometry =
            Reduction { kept: &[], kept_strides: &[], reduced: &[n], reduced_strides: &[1] };
        each_level(|level| {
            let near = |kernel: fn(&[f32], &mut [f32], Reduction<'_>), truth: f64| {
                let mut y = [0.0];
                kernel(&x, &mut y, geometry);
                let error = (f64::from(y[0]) - truth).abs() / truth.abs();
                assert!(error <= 1e-6 * libm::sqrt(n as f64), "{level:?}: {error:e} for {n}");
            };
            near(reduce::reduce_sum, wide().sum());
            near(reduce::reduce_l1, wide().sum());
            near(reduce::reduce_mean, wide().sum::<f64>() / n as f64);
            near(reduce::reduce_sum_square, wide().map(|x| x * x).sum());
            near(reduce::reduce_l2, libm::sqrt(wide().map(|x| x * x).sum()));
            near(reduce::reduce_log_sum_exp, libm::log(wide().map(libm::exp).sum()));
        });
    }
}

#[test]
fn products_of_matrices_are_likewise() {
    let (m, n) = (5, 19);
    for k in [1, 3, 64, 1_000, 16_384] {
        let (a, b) = (positive(m * k), positive(k * n));
        let geometry = Gemm {
            m,
            n,
            k,
            a: Layout::Strides(k, 1),
            b: Layout::Strides(n, 1),
            c: [0, 0],
            y_row: n,
            alpha: 1.0,
            beta: 0.0,
        };
        each_level(|level| {
            let (mut y, mut scratch) = (vec![0.0; m * n], vec![0.0; gemm_scratch(&geometry)]);
            gemm_f32(&a, &b, None, &mut y, &mut scratch, geometry, Activation::Identity);
            for (i, &y) in y.iter().enumerate() {
                let term = |t| f64::from(a[i / n * k + t]) * f64::from(b[t * n + i % n]);
                let truth: f64 = (0..k).map(term).sum();
                let error = (f64::from(y) - truth).abs() / truth;
                assert!(error <= 1e-6 * libm::sqrt(k as f64), "{level:?}: {error:e} for {k}");
            }
        });
    }
}
