//! Unary functions.

use crate::loops::elementwise::{
    map, map_fast, map_fast_in_place, map_float, map_float_in_place, map_in_place, map_large,
    map_large_in_place,
};
use crate::simd::{self, Pointwise, Simd, math};
use crate::{Float, Integer, Number};

/// Declares vectorized functions that are mapped over slices.
macro_rules! vectors {
    ($($Name:ident $slices:ident |$s:ident, $x:ident| $y:expr;)*) => {$(
        #[derive(Clone, Copy)]
        struct $Name;

        impl Pointwise for $Name {
            #[inline(always)]
            fn apply<S: Simd>(self, $s: S, $x: S::F32) -> S::F32 {
                $y
            }
        }

        #[inline(never)]
        fn $slices(x: Option<&[f32]>, y: &mut [f32]) {
            simd::map(x, y, $Name);
        }
    )*};
}

vectors! {
    Abs abs_f32 |s, x| s.abs(x);
    Acos acos_f32 |s, x| math::acos(s, x);
    Acosh acosh_f32 |s, x| math::acosh(s, x);
    Asin asin_f32 |s, x| math::asin(s, x);
    Asinh asinh_f32 |s, x| math::asinh(s, x);
    Atan atan_f32 |s, x| math::atan(s, x);
    Atanh atanh_f32 |s, x| math::atanh(s, x);
    Ceil ceil_f32 |s, x| s.ceil(x);
    Cos cos_f32 |s, x| math::cos(s, x);
    Cosh cosh_f32 |s, x| math::cosh(s, x);
    Floor floor_f32 |s, x| s.floor(x);
    HalfPower half_power_f32 |s, x| half_power_of(s, x);
    InverseHalfPower inverse_half_power_f32 |s, x| s.div(s.splat(1.0), half_power_of(s, x));
    Neg neg_f32 |s, x| s.neg(x);
    Reciprocal reciprocal_f32 |s, x| s.div(s.splat(1.0), x);
    Round round_f32 |s, x| s.round(x);
    Sin sin_f32 |s, x| math::sin(s, x);
    Sinh sinh_f32 |s, x| math::sinh(s, x);
    Sqrt sqrt_f32 |s, x| s.sqrt(x);
    Tan tan_f32 |s, x| math::tan(s, x);
}

/// `y = |x|`.
pub fn abs<T: Number>(x: &[T], y: &mut [T]) {
    map_fast(x, y, abs_f32, T::abs);
}

/// [`abs`] in place.
pub fn abs_in_place<T: Number>(y: &mut [T]) {
    map_fast_in_place(y, abs_f32, T::abs);
}

/// `y = cos⁻¹ x`. In `f32` within 1.3 ULP.
pub fn acos<T: Float>(x: &[T], y: &mut [T]) {
    map_large(x, y, acos_f32, T::acos);
}

/// [`acos`] in place.
pub fn acos_in_place<T: Float>(y: &mut [T]) {
    map_large_in_place(y, acos_f32, T::acos);
}

/// `y = cosh⁻¹ x`. In `f32` within 1.3 ULP, or 2.5 without vectors.
pub fn acosh<T: Float>(x: &[T], y: &mut [T]) {
    map_large(x, y, acosh_f32, T::acosh);
}

/// [`acosh`] in place.
pub fn acosh_in_place<T: Float>(y: &mut [T]) {
    map_large_in_place(y, acosh_f32, T::acosh);
}

/// `y = sin⁻¹ x`. In `f32` within 1.3 ULP.
pub fn asin<T: Float>(x: &[T], y: &mut [T]) {
    map_large(x, y, asin_f32, T::asin);
}

/// [`asin`] in place.
pub fn asin_in_place<T: Float>(y: &mut [T]) {
    map_large_in_place(y, asin_f32, T::asin);
}

/// `y = sinh⁻¹ x`. In `f32` within 2 ULP.
pub fn asinh<T: Float>(x: &[T], y: &mut [T]) {
    map_large(x, y, asinh_f32, T::asinh);
}

/// [`asinh`] in place.
pub fn asinh_in_place<T: Float>(y: &mut [T]) {
    map_large_in_place(y, asinh_f32, T::asinh);
}

/// `y = tan⁻¹ x`. In `f32` within 1.3 ULP.
pub fn atan<T: Float>(x: &[T], y: &mut [T]) {
    map_large(x, y, atan_f32, T::atan);
}

/// [`atan`] in place.
pub fn atan_in_place<T: Float>(y: &mut [T]) {
    map_large_in_place(y, atan_f32, T::atan);
}

/// `y = tanh⁻¹ x`. In `f32` within 2 ULP.
pub fn atanh<T: Float>(x: &[T], y: &mut [T]) {
    map_large(x, y, atanh_f32, T::atanh);
}

/// [`atanh`] in place.
pub fn atanh_in_place<T: Float>(y: &mut [T]) {
    map_large_in_place(y, atanh_f32, T::atanh);
}

/// `y = ⌈x⌉`.
pub fn ceil<T: Float>(x: &[T], y: &mut [T]) {
    map_float(x, y, ceil_f32, T::ceil);
}

/// [`ceil`] in place.
pub fn ceil_in_place<T: Float>(y: &mut [T]) {
    map_float_in_place(y, ceil_f32, T::ceil);
}

/// `y = cos x`. In `f32` within 1 ULP.
pub fn cos<T: Float>(x: &[T], y: &mut [T]) {
    map_large(x, y, cos_f32, T::cos);
}

/// [`cos`] in place.
pub fn cos_in_place<T: Float>(y: &mut [T]) {
    map_large_in_place(y, cos_f32, T::cos);
}

/// `y = cosh x`. In `f32` within 2 ULP.
pub fn cosh<T: Float>(x: &[T], y: &mut [T]) {
    map_large(x, y, cosh_f32, T::cosh);
}

/// [`cosh`] in place.
pub fn cosh_in_place<T: Float>(y: &mut [T]) {
    map_large_in_place(y, cosh_f32, T::cosh);
}

/// `y = 2/√π ∫₀ˣ e^(-t²) dt`. In `f32` within 1.3 ULP.
pub fn erf<T: Float>(x: &[T], y: &mut [T]) {
    map_float(x, y, math::erf_f32, T::erf);
}

/// [`erf`] in place.
pub fn erf_in_place<T: Float>(y: &mut [T]) {
    map_float_in_place(y, math::erf_f32, T::erf);
}

/// `y = e^x`. In `f32` within 1.2 ULP.
pub fn exp<T: Float>(x: &[T], y: &mut [T]) {
    map_float(x, y, math::exp_f32, T::exp);
}

/// [`exp`] in place.
pub fn exp_in_place<T: Float>(y: &mut [T]) {
    map_float_in_place(y, math::exp_f32, T::exp);
}

/// `y = ⌊x⌋`.
pub fn floor<T: Float>(x: &[T], y: &mut [T]) {
    map_float(x, y, floor_f32, T::floor);
}

/// [`floor`] in place.
pub fn floor_in_place<T: Float>(y: &mut [T]) {
    map_float_in_place(y, floor_f32, T::floor);
}

/// `y = x^½`: the square root, except that it is +0 for -0, and +∞ for -∞.
pub fn half_power<T: Float>(x: &[T], y: &mut [T]) {
    map_float(x, y, half_power_f32, root);
}

/// [`half_power`] in place.
pub fn half_power_in_place<T: Float>(y: &mut [T]) {
    map_float_in_place(y, half_power_f32, root);
}

/// `y = x^-½`. In `f32` within 1.5 ULP.
pub fn inverse_half_power<T: Float>(x: &[T], y: &mut [T]) {
    map_float(x, y, inverse_half_power_f32, |x| inverse(root(x)));
}

/// [`inverse_half_power`] in place.
pub fn inverse_half_power_in_place<T: Float>(y: &mut [T]) {
    map_float_in_place(y, inverse_half_power_f32, |x| inverse(root(x)));
}

/// `y = ln x`. In `f32` within 1 ULP.
pub fn log<T: Float>(x: &[T], y: &mut [T]) {
    map_float(x, y, math::ln_f32, T::ln);
}

/// [`log`] in place.
pub fn log_in_place<T: Float>(y: &mut [T]) {
    map_float_in_place(y, math::ln_f32, T::ln);
}

/// `y = -x`.
pub fn neg<T: Number>(x: &[T], y: &mut [T]) {
    map_fast(x, y, neg_f32, T::neg);
}

/// [`neg`] in place.
pub fn neg_in_place<T: Number>(y: &mut [T]) {
    map_fast_in_place(y, neg_f32, T::neg);
}

/// `y = 1 / x`.
pub fn reciprocal<T: Float>(x: &[T], y: &mut [T]) {
    map_float(x, y, reciprocal_f32, inverse);
}

/// [`reciprocal`] in place.
pub fn reciprocal_in_place<T: Float>(y: &mut [T]) {
    map_float_in_place(y, reciprocal_f32, inverse);
}

/// Rounds `x` to the nearest integer, halves to even.
pub fn round<T: Float>(x: &[T], y: &mut [T]) {
    map_float(x, y, round_f32, T::round);
}

/// [`round`] in place.
pub fn round_in_place<T: Float>(y: &mut [T]) {
    map_float_in_place(y, round_f32, T::round);
}

/// -1, 0 or 1 for `x` below, at or above zero; NaN for NaN.
pub fn sign<T: Number>(x: &[T], y: &mut [T]) {
    map(x, y, signum);
}

/// [`sign`] in place.
pub fn sign_in_place<T: Number>(y: &mut [T]) {
    map_in_place(y, signum);
}

/// `y = sin x`. In `f32` within 1 ULP.
pub fn sin<T: Float>(x: &[T], y: &mut [T]) {
    map_large(x, y, sin_f32, T::sin);
}

/// [`sin`] in place.
pub fn sin_in_place<T: Float>(y: &mut [T]) {
    map_large_in_place(y, sin_f32, T::sin);
}

/// `y = sinh x`. In `f32` within 2 ULP.
pub fn sinh<T: Float>(x: &[T], y: &mut [T]) {
    map_large(x, y, sinh_f32, T::sinh);
}

/// [`sinh`] in place.
pub fn sinh_in_place<T: Float>(y: &mut [T]) {
    map_large_in_place(y, sinh_f32, T::sinh);
}

/// `y = √x`.
pub fn sqrt<T: Float>(x: &[T], y: &mut [T]) {
    map_float(x, y, sqrt_f32, T::sqrt);
}

/// [`sqrt`] in place.
pub fn sqrt_in_place<T: Float>(y: &mut [T]) {
    map_float_in_place(y, sqrt_f32, T::sqrt);
}

/// `y = tan x`. In `f32` within 1.3 ULP.
pub fn tan<T: Float>(x: &[T], y: &mut [T]) {
    map_large(x, y, tan_f32, T::tan);
}

/// [`tan`] in place.
pub fn tan_in_place<T: Float>(y: &mut [T]) {
    map_large_in_place(y, tan_f32, T::tan);
}

/// `y = tanh x`. In `f32` within 2.5 ULP.
pub fn tanh<T: Float>(x: &[T], y: &mut [T]) {
    map_float(x, y, math::tanh_f32, T::tanh);
}

/// [`tanh`] in place.
pub fn tanh_in_place<T: Float>(y: &mut [T]) {
    map_float_in_place(y, math::tanh_f32, T::tanh);
}

/// Flips every bit of `x`.
pub fn bitwise_not<T: Integer>(x: &[T], y: &mut [T]) {
    map(x, y, T::not);
}

/// [`bitwise_not`] in place.
pub fn bitwise_not_in_place<T: Integer>(y: &mut [T]) {
    map_in_place(y, T::not);
}

/// `y = !x`.
pub fn not(x: &[bool], y: &mut [bool]) {
    map(x, y, |x| !x);
}

/// [`not`] in place.
pub fn not_in_place(y: &mut [bool]) {
    map_in_place(y, |y| !y);
}

/// Returns whether `x` is infinite.
pub fn is_inf<T: Float>(x: &[T], y: &mut [bool]) {
    map(x, y, |x| x == T::HIGHEST || x == T::LOWEST);
}

/// Returns whether `x` is positive infinity.
pub fn is_positive_inf<T: Float>(x: &[T], y: &mut [bool]) {
    map(x, y, |x| x == T::HIGHEST);
}

/// Returns whether `x` is negative infinity.
pub fn is_negative_inf<T: Float>(x: &[T], y: &mut [bool]) {
    map(x, y, |x| x == T::LOWEST);
}

/// False, for `IsInf` that detects neither infinity.
pub fn is_neither_inf<T: Float>(x: &[T], y: &mut [bool]) {
    map(x, y, |_| false);
}

/// Returns whether `x` is NaN.
pub fn is_nan<T: Float>(x: &[T], y: &mut [bool]) {
    map(x, y, T::is_nan);
}

/// `x^½` of a vector.
#[inline(always)]
fn half_power_of<S: Simd>(s: S, x: S::F32) -> S::F32 {
    let infinity = s.splat(f32::INFINITY);
    let root = s.sqrt(s.add(x, s.splat(0.0)));
    s.select(s.eq(x, s.neg(infinity)), infinity, root)
}

/// `x^½`.
fn root<T: Float>(x: T) -> T {
    if x == T::LOWEST { T::HIGHEST } else { x.add(T::ZERO).sqrt() }
}

fn inverse<T: Float>(x: T) -> T {
    T::ONE.div(x)
}

fn signum<T: Number>(x: T) -> T {
    if x > T::ZERO {
        T::ONE
    } else if x < T::ZERO {
        T::ONE.neg()
    } else if x == T::ZERO {
        // Also for a negative zero.
        T::ZERO
    } else {
        x
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check<A: Copy, Y: Clone + Default + PartialEq + core::fmt::Debug, const N: usize>(
        kernel: fn(&[A], &mut [Y]),
        x: [A; N],
        expected: [Y; N],
    ) {
        let mut y = core::array::from_fn::<Y, N, _>(|_| Y::default());
        kernel(&x, &mut y);
        assert_eq!(y, expected);
    }

    #[test]
    fn ties_round_to_even() {
        check(round, [0.5, 1.5, 2.5, -0.5, -1.5, 2.6f32], [0.0, 2.0, 2.0, -0.0, -2.0, 3.0]);
    }

    #[test]
    fn the_sign_of_zero_is_zero_and_of_nan_is_nan() {
        check(sign, [-3i8, 0, 5, i8::MIN], [-1, 0, 1, -1]);
        check(sign, [0u64, u64::MAX], [0, 1]);
        check(sign, [f64::NEG_INFINITY, 1e-300, 0.0], [-1.0, 1.0, 0.0]);
        let mut y = [f32::NAN, -0.0];
        sign_in_place(&mut y);
        assert!(y[0].is_nan() && y[1].to_bits() == 0);
    }

    #[test]
    fn extreme_integers_wrap() {
        check(abs, [i8::MIN, -1, 127], [i8::MIN, 1, 127]);
        check(neg, [i64::MIN, 7], [i64::MIN, -7]);
        check(bitwise_not, [0u16, 1], [65535, 65534]);
        check(bitwise_not, [0i32, i32::MIN], [-1, i32::MAX]);
    }

    #[test]
    fn infinities_are_detected_with_their_sign() {
        let x = [f32::INFINITY, f32::NEG_INFINITY, f32::MAX, f32::NAN];
        check(is_inf, x, [true, true, false, false]);
        check(is_positive_inf, x, [true, false, false, false]);
        check(is_negative_inf, x, [false, true, false, false]);
        check(is_neither_inf, x, [false; 4]);
        check(is_nan, x, [false, false, false, true]);
    }

    #[test]
    fn functions_match_reference_values() {
        check(exp, [0.0f64, f64::NEG_INFINITY, 800.0], [1.0, 0.0, f64::INFINITY]);
        check(log, [1.0f32, 0.0], [0.0, f32::NEG_INFINITY]);
        check(reciprocal, [4.0f32, 0.0, -0.0], [0.25, f32::INFINITY, f32::NEG_INFINITY]);
        check(sqrt, [9.0f32, 2.0], [3.0, core::f32::consts::SQRT_2]);
        check(floor, [-1.5f64, 1.5], [-2.0, 1.0]);
        check(ceil, [-1.5f64, 1.5], [-1.0, 2.0]);
        check(not, [true, false], [false, true]);
        check(tanh, [0.0f32, 30.0, -30.0], [0.0, 1.0, -1.0]);
        check(erf, [0.0f32, 10.0, -10.0], [0.0, 1.0, -1.0]);
    }

    #[test]
    fn in_place_is_the_same() {
        let x = [0.25f32, 0.5, 0.75, 1.0];
        for (kernel, in_place) in [
            (abs as fn(&[f32], &mut [f32]), abs_in_place as fn(&mut [f32])),
            (acos, acos_in_place),
            (asinh, asinh_in_place),
            (atan, atan_in_place),
            (exp, exp_in_place),
            (log, log_in_place),
            (neg, neg_in_place),
            (sin, sin_in_place),
            (sqrt, sqrt_in_place),
            (tanh, tanh_in_place),
        ] {
            let (mut y, mut z) = ([0.0; 4], x);
            kernel(&x, &mut y);
            in_place(&mut z);
            assert_eq!(y, z);
        }
    }

    #[cfg(feature = "half")]
    #[test]
    fn half_precision_types_round_once() {
        use half::f16;
        check(exp, [f16::from_f32(3.3)], [f16::from_f32(f16::from_f32(3.3).to_f32().exp())]);
        check(sin, [f16::from_f32(100.0)], [f16::from_f32(libm::sinf(100.0))]);
    }
}
