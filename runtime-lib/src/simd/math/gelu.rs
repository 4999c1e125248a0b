//! GELU: the distribution function of the normal distribution, times `x`.

use super::{exp::exp_of_sum, pair, polynomial};
use crate::simd::Simd;

/// The end of the interval in which `Φ` is a polynomial.
const NEAR: f32 = 1.1;

/// From here on the tail of `Φ` rounds to zero.
const FAR: f32 = 14.5;

/// `x Φ(x)`, with the distribution function `Φ` of the normal distribution; NaN at -∞, as in
/// `gate`.
#[inline(always)]
pub fn gelu<S: Simd>(s: S, x: S::F32) -> S::F32 {
    let half = s.splat(0.5);
    let near = s.mul(x, s.mul_add(x, inner(s, x), half));

    let a = s.min(s.splat(FAR), s.abs(x));
    let tail = s.mul(bell(s, a), outer(s, a));
    // x - tail above zero, -tail below, where x + |x| is zero (or NaN).
    let rest = s.mul_add(x, half, s.mul(s.abs(x), half));
    let far = s.sub(rest, tail);
    s.select(s.lt(a, s.splat(NEAR)), near, far)
}

/// The derivative of [`gelu`], `Φ(x) + x φ(x)` with the density `φ` of the normal distribution; NaN
/// at ±∞, where `x φ(x)` is.
#[inline(always)]
pub fn gelu_grad<S: Simd>(s: S, x: S::F32) -> S::F32 {
    /// √(1/2π)
    const HEIGHT: f32 = 0.398_942_3;
    let near = s.mul_add(x, inner(s, x), s.splat(0.5));

    let a = s.min(s.splat(FAR), s.abs(x));
    let bell = bell(s, a);
    let tail = s.div(s.mul(bell, outer(s, a)), a);
    let above = s.sub(s.splat(1.0), tail);
    let far = s.select(s.lt(x, s.splat(0.0)), tail, above);
    let area = s.select(s.lt(a, s.splat(NEAR)), near, far);
    s.mul_add(s.mul(x, bell), s.splat(HEIGHT), area)
}

/// `(Φ(x) - 1/2) / x` up to [`NEAR`], as a polynomial in `x²`; relative error 2.4e-9.
#[inline(always)]
fn inner<S: Simd>(s: S, x: S::F32) -> S::F32 {
    const INNER: [f32; 6] = [
        0.398_942_3,
        -0.066_490_32,
        0.009_973_034,
        -0.001_185_517_6,
        0.000_112_563_07,
        -0.000_007_289_365,
    ];
    polynomial(s, s.mul(x, x), INNER)
}

/// `a e^(a²/2) Φ(-a)` from [`NEAR`] on, as a polynomial in `1 / (1 + a/2)`; relative error 7.3e-9.
#[inline(always)]
fn outer<S: Simd>(s: S, a: S::F32) -> S::F32 {
    const TAIL: [f32; 9] = [
        0.398_953_77,
        -0.000_397_832_54,
        -0.093_851_41,
        -0.248_186_05,
        0.023_380_358,
        -0.893_091_44,
        1.697_770_1,
        -1.201_096_5,
        0.317_185_46,
    ];
    let one = s.splat(1.0);
    polynomial(s, s.div(one, s.mul_add(a, s.splat(0.5), one)), TAIL)
}

/// `e^(-a²/2)`. The square is exact, in two parts: without fused products, that of the 12 high bits
/// of `a`, and the rest.
#[inline(always)]
fn bell<S: Simd>(s: S, a: S::F32) -> S::F32 {
    if S::FUSES {
        let [square, left] = pair::product(s, s.mul(a, s.splat(-0.5)), a);
        return exp_of_sum(s, square, left);
    }
    let high = pair::high(s, a);
    let square = s.mul(s.mul(high, high), s.splat(-0.5));
    let left = s.mul(s.mul(s.sub(high, a), s.add(high, a)), s.splat(0.5));
    exp_of_sum(s, square, left)
}
