//! Functions of one number, over their whole range.

use super::{inputs, ulps};
use crate::kernels::{binary, unary};
use crate::loops::epilogue::Activation;
use crate::loops::geometry::Broadcast;
use crate::simd::each_level;
use crate::{Float, Number};
use core::f64::consts::{FRAC_1_SQRT_2, PI};
use std::{format, string::String, vec, vec::Vec};

/// A prime, so that each exponent is tested with many fractions and all low bits.
const STEP: usize = 4_001;

type Kernel = fn(&[f32], &mut [f32]);
type Truth = fn(f64) -> f64;

/// A function, its kernel, its scalar form, its true values, and the maximum error in ULPs.
struct Row(&'static str, Kernel, fn(f32) -> f32, Truth, f64);

/// Every elementary function, as a kernel and of one number.
const FUNCTIONS: &[Row] = &[
    Row("acos", unary::acos, Float::acos, libm::acos, 1.3),
    Row("acosh", unary::acosh, Float::acosh, acosh, 2.5),
    Row("asin", unary::asin, Float::asin, libm::asin, 1.3),
    Row("asinh", unary::asinh, Float::asinh, libm::asinh, 2.0),
    Row("atan", unary::atan, Float::atan, libm::atan, 1.3),
    Row("atanh", unary::atanh, Float::atanh, libm::atanh, 2.0),
    Row("ceil", unary::ceil, Float::ceil, libm::ceil, 0.0),
    Row("cos", unary::cos, Float::cos, libm::cos, 1.0),
    Row("cosh", unary::cosh, Float::cosh, libm::cosh, 2.0),
    Row("erf", unary::erf, Float::erf, libm::erf, 1.3),
    Row("exp", unary::exp, Float::exp, libm::exp, 1.2),
    Row("floor", unary::floor, Float::floor, libm::floor, 0.0),
    Row("half power", unary::half_power, |x| x.powf(0.5), |x| libm::pow(x, 0.5), 1.0),
    Row(
        "inverse half power",
        unary::inverse_half_power,
        |x| x.powf(-0.5),
        |x| libm::pow(x, -0.5),
        1.5,
    ),
    Row("log", unary::log, Float::ln, libm::log, 1.0),
    Row("reciprocal", unary::reciprocal, |x| 1.0 / x, |x| 1.0 / x, 0.5),
    Row("round", unary::round, Float::round, libm::rint, 0.0),
    Row("sin", unary::sin, Float::sin, libm::sin, 1.0),
    Row("sinh", unary::sinh, Float::sinh, libm::sinh, 2.0),
    Row("sqrt", unary::sqrt, Float::sqrt, libm::sqrt, 0.5),
    Row("tan", unary::tan, Float::tan, libm::tan, 1.3),
    Row("tanh", unary::tanh, Float::tanh, libm::tanh, 2.5),
];

/// Every activation except those that are only sums and products, whose terms may cancel.
const ACTIVATIONS: &[(Activation, Truth, f64)] = &[
    (Activation::Sigmoid, sigmoid, 2.5),
    (Activation::Tanh, libm::tanh, 2.5),
    (Activation::ScaledTanh { alpha: 1.5, beta: 0.75 }, |x| 1.5 * libm::tanh(0.75 * x), 4.0),
    (Activation::Elu { alpha: 1.0 }, |x| elu(x, 1.0, 1.0), 2.0),
    (Activation::Elu { alpha: 0.3 }, |x| elu(x, 0.3, 1.0), 3.0),
    (Activation::Selu { alpha: 1.673_263_2, gamma: 1.050_701 }, selu, 4.0),
    (Activation::Celu { alpha: 0.75 }, |x| elu(x, 0.75, 0.75), 4.0),
    (Activation::Softplus, softplus, 1.8),
    (Activation::Softsign, |x| x / (1.0 + x.abs()), 1.5),
    (Activation::Swish { alpha: 1.0 }, |x| x * sigmoid(x), 4.0),
    (Activation::Swish { alpha: 1.702 }, |x| x * sigmoid(f64::from(1.702f32) * x), 4.0),
    (Activation::Swish { alpha: 0.01 }, |x| x * sigmoid(f64::from(0.01f32) * x), 4.0),
    (Activation::Swish { alpha: -1.3 }, |x| x * sigmoid(f64::from(-1.3f32) * x), 4.0),
    (Activation::Mish, |x| x * libm::tanh(softplus(x)), 4.0),
    (Activation::Gelu, |x| x * normal(x), 4.0),
    (Activation::GeluTanh, gelu_tanh, 4.0),
];

/// Returns the largest error of `y` and a description of its element. The error of a zero of zero
/// with the other sign is infinite.
fn worst(x: &[f32], y: &[f32], truths: &[f64]) -> (f64, String) {
    let (mut worst, mut at) = (0.0, 0);
    for (i, (&y, &truth)) in y.iter().zip(truths).enumerate() {
        let is_other_zero = x[i] == 0.0
            && y == 0.0
            && truth == 0.0
            && y.is_sign_negative() != truth.is_sign_negative();
        let error = if is_other_zero { f64::INFINITY } else { ulps(y, truth) };
        if error > worst {
            (worst, at) = (error, i);
        }
    }
    (worst, format!("of {:e} is {:e}, not {:e}: {worst} ulp", x[at], y[at], truths[at]))
}

/// Compares a kernel and the function of one number with the true values.
fn check(
    name: &str,
    bound: f64,
    truth: Truth,
    kernel: impl Fn(&[f32], &mut [f32]),
    number: impl Fn(f32) -> f32,
) {
    let x = inputs(STEP);
    let truths: Vec<f64> = x.iter().map(|&x| truth(f64::from(x))).collect();
    let judge = |who: &str, y: &[f32]| {
        let (error, text) = worst(&x, y, &truths);
        std::println!("{name} {who} {text}");
        assert!(error <= bound, "{name} {who} {text}");
    };
    each_level(|level| {
        let mut y = vec![0.0; x.len()];
        kernel(&x, &mut y);
        judge(&format!("{level:?}"), &y);
    });
    let y: Vec<f32> = x.iter().map(|&x| number(x)).collect();
    judge("of one number", &y);
}

#[test]
fn functions_are_within_4_ulp() {
    for Row(name, kernel, number, truth, bound) in FUNCTIONS {
        check(name, *bound, *truth, kernel, number);
    }
}

#[test]
fn activations_are_within_4_ulp() {
    for &(f, truth, bound) in ACTIVATIONS {
        let kernel = |x: &[f32], y: &mut [f32]| {
            y.copy_from_slice(x);
            f.apply(y);
        };
        check(&format!("{f:?}"), bound, truth, kernel, |x| f.of(x));
    }
}

/// Functions that other kernels use.
#[test]
fn parts_of_functions_are_within_an_ulp() {
    type Row = (&'static str, fn(f32) -> f32, Truth, f64);
    let rows: [Row; 2] =
        [("ln_1p", Float::ln_1p, libm::log1p, 1.0), ("exp_m1", Float::exp_m1, libm::expm1, 1.0)];
    for (name, number, truth, bound) in rows {
        let each = |x: &[f32], y: &mut [f32]| {
            y.iter_mut().zip(x).for_each(|(y, &x)| *y = number(x));
        };
        check(name, bound, truth, each, number);
    }
}

#[test]
fn powers_are_within_2_ulp() {
    for exponent in [2.0, 3.0, 0.5, -1.0, 1.5, -2.5, 0.1, 10.0, 31.0, 0.0, -0.0] {
        check_power::<f32>(exponent);
    }
    for exponent in [f32::INFINITY, f32::NEG_INFINITY, f32::NAN, f32::MAX, 1e-45, 16_777_217.0] {
        check_power::<f32>(exponent);
    }
    // A third in single precision would have an error of 1e-8.
    for exponent in [1.0 / 2.0, 1.0 / 3.0] {
        check_power::<f64>(exponent);
    }
}

fn check_power<E: Number>(exponent: E) {
    let x = inputs(STEP);
    let exponents = vec![exponent; x.len()];
    let wide = exponent.to_f64();
    check_powers(&format!("the power {wide}"), &x, &exponents);
}

/// Compares powers, each with an exponent of its own, with the true values.
fn check_powers<E: Number>(name: &str, x: &[f32], exponents: &[E]) {
    let geometry = Broadcast { sizes: &[x.len()], a: &[1], b: &[1] };
    let truth = |(&x, exponent): (&f32, &E)| libm::pow(x.into(), exponent.to_f64());
    let truths: Vec<f64> = x.iter().zip(exponents).map(truth).collect();
    each_level(|level| {
        let mut y = vec![0.0; x.len()];
        binary::pow(x, exponents, &mut y, geometry);
        let (error, text) = worst(x, &y, &truths);
        std::println!("{level:?}: {name} {text}");
        assert!(error <= 2.0, "{level:?}: {name} {text}");
    });
}

/// The exponents spread the powers over all numbers, from below the smallest to infinity.
#[test]
fn powers_of_all_sizes_are_within_2_ulp() {
    let x: Vec<f32> = inputs(STEP).into_iter().map(f32::abs).collect();
    let spread = |(i, x): (usize, &f32)| {
        let size = f64::from((i as u32).wrapping_mul(2_654_435_769)) / f64::from(u32::MAX);
        ((size * 210.0 - 112.0) / libm::log(f64::from(*x))) as f32
    };
    let exponents: Vec<f32> = x.iter().enumerate().map(spread).collect();
    check_powers("a power", &x, &exponents);
    // Near 1, where the exponents are the largest, and the logarithms have the fewest bits.
    let x: Vec<f32> = (0..100_000).map(|i| 1.0 + (i as f32 - 50_000.0) * 1.3e-5 / 2.0).collect();
    let exponents: Vec<f32> = x.iter().enumerate().map(spread).collect();
    check_powers("a power near 1", &x, &exponents);
}

#[test]
fn powers_of_special_numbers_are_those_of_ieee_754() {
    let numbers = [
        0.0,
        0.25,
        1.0,
        1.5,
        2.0,
        3.0,
        1e-40,
        16_777_215.0,
        16_777_216.0,
        f32::MAX,
        f32::INFINITY,
        f32::NAN,
    ];
    let numbers: Vec<f32> = numbers.into_iter().flat_map(|x| [x, -x]).collect();
    let pairs = numbers.iter().flat_map(|&x| numbers.iter().map(move |&y| (x, y)));
    let (x, exponents): (Vec<f32>, Vec<f32>) = pairs.unzip();
    check_powers("a special power", &x, &exponents);
    let geometry = Broadcast { sizes: &[x.len()], a: &[1], b: &[1] };
    each_level(|level| {
        let mut y = vec![0.0; x.len()];
        binary::pow(&x, &exponents, &mut y, geometry);
        for ((&x, &e), y) in x.iter().zip(&exponents).zip(y) {
            let sign = libm::pow(x.into(), e.into()).is_sign_negative();
            assert!(y.is_nan() || y.is_sign_negative() == sign, "{level:?}: {x}^{e} = {y}");
        }
    });
}

/// ONNX defines these activations as `x` times a factor that tends to zero. At -∞ the product is
/// NaN, and the fused operators return the same.
#[test]
fn an_infinity_times_zero_is_nan() {
    let functions = [
        Activation::Swish { alpha: 1.0 },
        Activation::Swish { alpha: 1.702 },
        Activation::HardSwish,
        Activation::Mish,
        Activation::Gelu,
        Activation::GeluTanh,
    ];
    for f in functions {
        each_level(|level| {
            let mut y = [f32::NEG_INFINITY, f32::INFINITY, f32::MIN, f32::MAX, -200.0];
            f.apply(&mut y);
            assert!(y[0].is_nan(), "{level:?}: {f:?} of -∞ is {}", y[0]);
            assert_eq!(y[1..], [f32::INFINITY, 0.0, f32::MAX, 0.0], "{level:?}: {f:?}");
        });
        assert!(f.of(f32::NEG_INFINITY).is_nan() && f.of(f64::NEG_INFINITY).is_nan(), "{f:?}");
        assert_eq!([f.of(f32::INFINITY), f.of(f32::MIN)], [f32::INFINITY, 0.0], "{f:?}");
        assert_eq!([f.of(f64::INFINITY), f.of(f64::MIN)], [f64::INFINITY, 0.0], "{f:?}");
    }
}

/// Kernels of `f64` call libm, and activations made of them do not lose bits to cancellation.
#[test]
fn activations_of_double_precision_do_not_cancel() {
    let functions: [(Activation, Truth); 3] = [
        (Activation::Swish { alpha: 1.0 }, |x| x * libm::exp(x)),
        (Activation::Mish, |x| x * libm::exp(x)),
        (Activation::GeluTanh, |x| {
            x * libm::exp(x * libm::sqrt(8.0 / PI) * (1.0 + 0.044_715 * x * x))
        }),
    ];
    for (f, truth) in functions {
        // This far below zero, the other terms vanish.
        let x = -40.0;
        let (y, truth) = (f.of(x), truth(x));
        assert!((y - truth).abs() <= 1e-12 * truth.abs() + f64::MIN_POSITIVE, "{f:?}: {y:e}");
    }
    let (y, truth) = (Activation::Gelu.of(-10.0), -10.0 * normal(-10.0));
    assert!((y / truth - 1.0).abs() < 1e-13, "{y:e}, not {truth:e}");
}

/// The normal distribution function, accurate where it is small.
fn normal(x: f64) -> f64 {
    0.5 * libm::erfc(-x * FRAC_1_SQRT_2)
}

/// libm's returns numbers for arguments below -1 too.
fn acosh(x: f64) -> f64 {
    if x < 1.0 { f64::NAN } else { libm::acosh(x) }
}

fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + libm::exp(-x))
}

fn softplus(x: f64) -> f64 {
    libm::log1p(libm::exp(-x.abs())) + x.max(0.0)
}

fn elu(x: f64, alpha: f32, scale: f32) -> f64 {
    if x < 0.0 { f64::from(alpha) * libm::expm1(x / f64::from(scale)) } else { x }
}

fn selu(x: f64) -> f64 {
    f64::from(1.050_701f32) * elu(x, 1.673_263_2, 1.0)
}

fn gelu_tanh(x: f64) -> f64 {
    x * sigmoid(libm::sqrt(8.0 / PI) * x * (1.0 + 0.044_715 * x * x))
}
