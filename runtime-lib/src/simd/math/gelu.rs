//! The normal distribution.

use super::{exp::exp_of_sum, polynomial};
use crate::simd::Simd;

/// `x Φ(x)`, with the distribution function `Φ` of the normal distribution; NaN at
/// -∞, as in [`super::gate`].
#[inline(always)]
pub fn gelu<S: Simd>(s: S, x: S::F32) -> S::F32 {
    /// Up to here the first polynomial is used.
    const NEAR: f32 = 1.1;
    // (Φ(x) - 1/2) / x, by powers of x²; relative error 2.4e-9.
    const INNER: [f32; 6] = [
        0.398_942_3,
        -0.066_490_32,
        0.009_973_034,
        -0.001_185_517_6,
        0.000_112_563_07,
        -0.000_007_289_365,
    ];
    // |x| e^(x²/2) Φ(-|x|), by powers of 1 / (1 + |x|/2); relative error 7.3e-9.
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
    let (half, one) = (s.splat(0.5), s.splat(1.0));
    let near = s.mul(x, s.mul_add(x, polynomial(s, s.mul(x, x), INNER), half));

    // From 14.5 on the tail rounds to zero. The square has all its bits in two parts: that of the
    // 12 high bits of a, and what is left.
    let a = s.min(s.splat(14.5), s.abs(x));
    let high = s.with_bits(s.and_i32(s.bits(a), s.splat_i32(!0xfff)));
    let square = s.mul(s.mul(high, high), s.splat(-0.5));
    let left = s.mul(s.mul(s.sub(high, a), s.add(high, a)), half);
    let t = s.div(one, s.mul_add(a, half, one));
    let tail = s.mul(exp_of_sum(s, square, left), polynomial(s, t, TAIL));
    // Above zero x - tail, below it -tail, for x + |x| is zero there, or NaN.
    let rest = s.mul_add(x, half, s.mul(s.abs(x), half));
    let far = s.sub(rest, tail);
    s.select(s.lt(a, s.splat(NEAR)), near, far)
}
