//! A number times the sigmoid of another: `x / (1 + e^-z)`.
//!
//! At -∞ each is NaN, as the product is that defines it: `x` is infinite, and its factor zero. The
//! limit 0 would hide that something has overflowed before.

use super::exp::{LEAST, exp, reduced, reduced_sum};
use crate::simd::Simd;

/// `x / (1 + e^-z)`, by `e^-|z| = 2^n (1 + e)`. Where it is `gone`, that is zero.
#[inline(always)]
fn gate<S: Simd>(
    s: S,
    x: S::F32,
    negative: S::Mask,
    gone: S::Mask,
    (n, e): (S::F32, S::F32),
) -> S::F32 {
    let one = s.splat(1.0);
    let e = s.add(e, one);
    // Below zero x e^z / (1 + e^z): x comes in before the power of two, for e^z may have few bits.
    let small = s.select(gone, s.mul(x, s.splat(0.0)), s.scale(s.mul(x, e), n));
    s.div(s.select(negative, small, x), s.add(one, s.scale(e, n)))
}

/// `x / (1 + e^-x)`.
#[inline(always)]
pub fn silu<S: Simd>(s: S, x: S::F32) -> S::F32 {
    let least = s.splat(LEAST);
    let power = reduced(s, s.max(least, s.neg(s.abs(x))));
    gate(s, x, s.lt(x, s.splat(0.0)), s.le(x, least), power)
}

/// `x / (1 + e^(-alpha · x))`, for an `alpha` that is not zero.
#[inline(always)]
pub fn swish<S: Simd>(s: S, x: S::F32, alpha: f32) -> S::F32 {
    // The product has all its bits in two parts: the exponential function would make an error of
    // it as many times larger as it is.
    let slope = alpha.abs();
    let grad_high = f32::from_bits(slope.to_bits() & HIGH as u32);
    let far = s.splat((-LEAST / slope).min(f32::MAX));

    let a = s.min(far, s.abs(x));
    let a_high = high(s, a);
    let product = s.mul(a_high, s.splat(grad_high));
    let left = s.mul(a_high, s.splat(slope - grad_high));
    let left = s.mul_add(s.sub(a, a_high), s.splat(slope), left);
    let power = reduced_sum(s, s.neg(product), s.neg(left));
    gate(s, x, s.lt(s.mul(x, s.splat(alpha)), s.splat(0.0)), s.le(far, s.abs(x)), power)
}

/// `x/2 · (1 + tanh(√(2/π) · (x + 0.044715 x³)))`, which is `x / (1 + e^-z)` with twice that
/// argument.
#[inline(always)]
pub fn gelu_tanh<S: Simd>(s: S, x: S::F32) -> S::F32 {
    /// From here on `x e^-z` rounds to zero.
    const FAR: f32 = 11.0;
    // z = x · (GRAD + CUBE · x²), each in two parts. The first of CUBE has 12 bits.
    const GRAD: [f32; 2] = [1.595_769_2, -4.534_068e-8];
    const CUBE: [f32; 2] = [0.071_350_1, 4.718_616_3e-6];

    let a = s.min(s.splat(FAR), s.abs(x));
    let (a_high, square) = (high(s, a), s.mul(high(s, a), high(s, a)));
    let square_high = high(s, square);
    // GRAD + CUBE · square: the sum, and what its rounding loses.
    let (slope, bend) = (s.splat(GRAD[0]), s.mul(square_high, s.splat(CUBE[0])));
    let sum = s.add(slope, bend);
    let added = s.sub(sum, slope);
    let lost = s.add(s.sub(slope, s.sub(sum, added)), s.sub(bend, added));
    let lost = s.add(lost, s.splat(GRAD[1]));
    let lost = s.mul_add(s.sub(square, square_high), s.splat(CUBE[0]), lost);
    let lost = s.mul_add(square, s.splat(CUBE[1]), lost);
    // z of the high bits of a, and what the low ones add to it.
    let sum_high = high(s, sum);
    let z = s.mul(a_high, sum_high);
    let left = s.mul(a_high, s.add(s.sub(sum, sum_high), lost));
    let squares = s.mul_add(a, s.add(a, a_high), square);
    let rise = s.mul_add(squares, s.splat(CUBE[0] + CUBE[1]), slope);
    let left = s.mul_add(s.sub(a, a_high), rise, left);

    let power = reduced_sum(s, s.neg(z), s.neg(left));
    gate(s, x, s.lt(x, s.splat(0.0)), s.le(s.splat(FAR), s.abs(x)), power)
}

/// The derivative of [`gelu_tanh`], by the sigmoid `σ` of `z`: `σ + x σ (1 - σ) z'`; NaN at ±∞, where
/// the product is.
#[inline(always)]
pub fn gelu_tanh_grad<S: Simd>(s: S, x: S::F32) -> S::F32 {
    // z = x · (GRAD + CUBE · x²).
    const GRAD: f32 = 1.595_769_2;
    const CUBE: f32 = 0.071_354_82;
    let (one, slope) = (s.splat(1.0), s.splat(GRAD));
    let square = s.mul(x, x);
    let z = s.mul(x, s.mul_add(square, s.splat(CUBE), slope));
    let steep = s.mul_add(square, s.splat(3.0 * CUBE), slope);
    // σ and 1 - σ, the larger one and the smaller: both keep all their bits.
    let e = exp(s, s.neg(s.abs(z)));
    let large = s.div(one, s.add(one, e));
    let small = s.mul(e, large);
    let sigmoid = s.select(s.lt(z, s.splat(0.0)), small, large);
    s.mul_add(s.mul(x, s.mul(small, large)), steep, sigmoid)
}

/// The bits that [`high`] keeps.
const HIGH: i32 = !0xfff;

/// The 12 high bits of each number: the product of two such numbers is exact.
#[inline(always)]
fn high<S: Simd>(s: S, x: S::F32) -> S::F32 {
    s.with_bits(s.and_i32(s.bits(x), s.splat_i32(HIGH)))
}
