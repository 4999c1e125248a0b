//! The exponential function, and functions that are computed from it.

use super::polynomial;
use crate::simd::Simd;
use core::f32::consts::LOG2_E;

/// Below this, `x e^z` rounds to zero (up to an `x` of 1e28).
pub(super) const LEAST: f32 = -170.0;

// ln 2 in two parts. The first has 9 bits, so that n · LN2_HIGH is exact.
pub(super) const LN2_HIGH: f32 = 0.693_359_4;
pub(super) const LN2_LOW: f32 = -2.121_944_4e-4;

/// The polynomial `(e^r - 1 - r) / r²` that minimizes the relative error of `e^r - 1`: 1.4e-8.
const EXP_M1_NEAR: [f32; 5] = [0.5, 0.166_665_45, 0.041_666_403, 0.008_366_406, 0.001_394_065_8];

/// `e^r` by the same polynomial.
const EXP_NEAR: [f32; 7] =
    [1.0, 1.0, EXP_M1_NEAR[0], EXP_M1_NEAR[1], EXP_M1_NEAR[2], EXP_M1_NEAR[3], EXP_M1_NEAR[4]];

/// `e^r - 1` for `|r| ≤ ln 2 / 2`.
#[inline(always)]
fn exp_m1_near<S: Simd>(s: S, r: S::F32) -> S::F32 {
    s.mul_add(s.mul(r, r), polynomial(s, r, EXP_M1_NEAR), r)
}

/// Reduces the argument: `x = n ln 2 + r` with an integer `n` and `|r| ≤ ln 2 / 2`. Returns `n` and
/// `r`.
#[inline(always)]
fn remainder<S: Simd>(s: S, x: S::F32) -> (S::F32, S::F32) {
    let n = s.round(s.mul(x, s.splat(LOG2_E)));
    let r = s.mul_add(n, s.splat(-LN2_HIGH), x);
    (n, s.mul_add(n, s.splat(-LN2_LOW), r))
}

/// Reduces the argument: `x = n ln 2 + r` with an integer `n` and `|r| ≤ ln 2 / 2`. Returns `n` and
/// `e^r - 1`.
#[inline(always)]
pub(super) fn reduce<S: Simd>(s: S, x: S::F32) -> (S::F32, S::F32) {
    let (n, r) = remainder(s, x);
    (n, exp_m1_near(s, r))
}

/// `min(max(x, low), high)`, and NaN for NaN.
#[inline(always)]
pub(super) fn clamp<S: Simd>(s: S, x: S::F32, low: f32, high: f32) -> S::F32 {
    s.min(s.splat(high), s.max(s.splat(low), x))
}

/// `e^x`.
#[inline(always)]
pub fn exp<S: Simd>(s: S, x: S::F32) -> S::F32 {
    // Outside this range e^x is infinite or zero; inside, `scale` accepts the exponent.
    let (n, r) = remainder(s, clamp(s, x, -104.0, 89.0));
    s.scale(polynomial(s, r, EXP_NEAR), n)
}

/// `e^x` for `x ≤ 0`: at most 1.
#[inline(always)]
pub fn exp_to_one<S: Simd>(s: S, x: S::F32) -> S::F32 {
    let (n, r) = remainder(s, s.max(s.splat(-104.0), x));
    s.scale_down(polynomial(s, r, EXP_NEAR), n)
}

/// `e^x` of a scalar `x ≤ 0`, in few instructions.
#[inline(always)]
pub fn exp_of_negative(x: f32) -> f32 {
    let x = if x < -104.0 { -104.0 } else { x };
    // Rounds to the nearest integer, because the conversion truncates.
    let n = (x * LOG2_E - 0.5) as i32;
    let r = (x - n as f32 * LN2_HIGH) - n as f32 * LN2_LOW;
    let p = EXP_M1_NEAR.iter().rev().fold(0.0, |p, &c| p * r + c);
    let power = |n: i32| f32::from_bits(((n + 127) as u32) << 23);
    // 2^n may be subnormal, its factors are not.
    ((p * r * r + r) + 1.0) * power(n / 2) * power(n - n / 2)
}

/// [`reduce`] of `u + v`, where `v` is the rounding error of `u`.
#[inline(always)]
pub(super) fn reduce_sum<S: Simd>(s: S, u: S::F32, v: S::F32) -> (S::F32, S::F32) {
    let n = s.round(s.mul(s.add(u, v), s.splat(LOG2_E)));
    let r = s.mul_add(n, s.splat(-LN2_HIGH), u);
    let r = s.add(r, s.mul_add(n, s.splat(-LN2_LOW), v));
    (n, exp_m1_near(s, r))
}

/// `e^(u + v)` for `u + v` from -106 to 89, where `v` is the rounding error of `u`.
#[inline(always)]
pub(super) fn exp_of_sum<S: Simd>(s: S, u: S::F32, v: S::F32) -> S::F32 {
    let (n, e) = reduce_sum(s, u, v);
    s.scale(s.add(e, s.splat(1.0)), n)
}

/// `e^(-(u + v)/2)` for `u + v` from 0 to 220, where `v` is the rounding error of `u`.
#[inline(always)]
pub(super) fn exp_of_half<S: Simd>(s: S, u: S::F32, v: S::F32) -> S::F32 {
    /// The polynomial of `e^r` in `-2r`.
    const NEAR: [f32; 7] = {
        let (mut near, mut factor, mut i) = (EXP_NEAR, 1.0, 0);
        while i < near.len() {
            near[i] *= factor;
            factor *= -0.5;
            i += 1;
        }
        near
    };
    let n = s.round(s.mul(u, s.splat(-0.5 * LOG2_E)));
    let r = s.mul_add(n, s.splat(2.0 * LN2_HIGH), u);
    let r = s.add(s.mul_add(n, s.splat(2.0 * LN2_LOW), r), v);
    s.scale_down(polynomial(s, r, NEAR), n)
}

/// `e^x - 1`, accurate near zero.
#[inline(always)]
pub fn exp_m1<S: Simd>(s: S, x: S::F32) -> S::F32 {
    // Below -20 the result rounds to -1.
    let (n, e) = reduce(s, clamp(s, x, -20.0, 89.0));
    // (e^r - 1) 2^n + (2^n - 1), at half its size, because 2^n may overflow although the result
    // does not.
    let half = s.scale(s.splat(0.5), n);
    let y = s.mul_add(e, half, s.sub(half, s.splat(0.5)));
    s.copysign(s.add(y, y), x)
}

/// `1 / (1 + e^-x)`.
#[inline(always)]
pub fn sigmoid<S: Simd>(s: S, x: S::F32) -> S::F32 {
    let (above, below) = sigmoid_fraction(s, x);
    s.div(above, below)
}

/// The numerator and denominator of [`sigmoid`]: at most 1, and from 1 to 2.
#[inline(always)]
fn sigmoid_fraction<S: Simd>(s: S, x: S::F32) -> (S::F32, S::F32) {
    // With e^-|x| neither side overflows, and small results keep all their bits.
    let e = exp_to_one(s, s.neg(s.abs(x)));
    let one = s.splat(1.0);
    let negative = s.lt(x, s.splat(0.0));
    (s.select(negative, e, one), s.add(one, e))
}

/// `x tanh(ln(1 + e^x))`; NaN at -∞, as in `gate`.
#[inline(always)]
pub fn mish<S: Simd>(s: S, x: S::F32) -> S::F32 {
    // With e = e^x, it is x e (e + 2) / (e (e + 2) + 2). From 20 on it rounds to x.
    const LARGE: f32 = 20.0;
    let two = s.splat(2.0);
    let (n, e) = reduce(s, clamp(s, x, LEAST, LARGE));
    // x e^x is computed from e^r - 1, which has more bits than e^r.
    let gone = s.mul(x, s.splat(0.0));
    let small = s.select(s.le(x, s.splat(LEAST)), gone, s.scale(s.mul_add(x, e, x), n));
    let e = s.scale(s.add(e, s.splat(1.0)), n);
    let y = s.div(s.mul(small, s.add(e, two)), s.mul_add(e, s.add(e, two), two));
    s.select(s.lt(s.splat(LARGE), x), x, y)
}

/// The hyperbolic tangent.
#[inline(always)]
pub fn tanh<S: Simd>(s: S, x: S::F32) -> S::F32 {
    let (above, below) = tanh_fraction(s, x);
    s.copysign(s.div(above, below), x)
}

/// The numerator and denominator of [`tanh`] of `|x|`: both are less than `e^20`.
#[inline(always)]
fn tanh_fraction<S: Simd>(s: S, x: S::F32) -> (S::F32, S::F32) {
    // tanh |x| = t / (t + 2) with t = e^(2|x|) - 1. From 10 on it rounds to 1.
    let a = s.min(s.splat(10.0), s.abs(x));
    let (n, e) = reduce(s, s.add(a, a));
    let power = s.scale(s.splat(1.0), n);
    let t = s.mul_add(e, power, s.sub(power, s.splat(1.0)));
    (t, s.add(t, s.splat(2.0)))
}

/// `tanh(x) / (1 + e^-y)`, with one division.
#[inline(always)]
pub fn gated_tanh<S: Simd>(s: S, x: S::F32, y: S::F32) -> S::F32 {
    let (above, below) = tanh_fraction(s, x);
    let (gate, of) = sigmoid_fraction(s, y);
    s.copysign(s.div(s.mul(gate, above), s.mul(of, below)), x)
}
