//! Gates: a number times the sigmoid of another, `x / (1 + e^-z)`.
//!
//! At -∞ the result is NaN, like the product that defines it: an infinite `x` times a zero. The
//! limit 0 would hide an earlier overflow.

use super::{
    exp::{LEAST, exp, reduce, reduce_sum},
    pair::{Pair, high, product, scalar_high, sum_of_any},
};
use crate::simd::Simd;

/// `x / (1 + e^-z)`, from `e^-|z| = 2^n (1 + e)`; zero where `gone`.
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
    // Below zero, x e^z / (1 + e^z). x is multiplied before the power of two, because e^z may be
    // subnormal.
    let small = s.select(gone, s.mul(x, s.splat(0.0)), s.scale(s.mul(x, e), n));
    s.div(s.select(negative, small, x), s.add(one, s.scale(e, n)))
}

/// `x / (1 + e^-x)`.
#[inline(always)]
pub fn silu<S: Simd>(s: S, x: S::F32) -> S::F32 {
    let least = s.splat(LEAST);
    let power = reduce(s, s.max(least, s.neg(s.abs(x))));
    gate(s, x, s.lt(x, s.splat(0.0)), s.le(x, least), power)
}

/// `x / (1 + e^(-alpha · x))`, for an `alpha` that is not zero.
#[inline(always)]
pub fn swish<S: Simd>(s: S, x: S::F32, alpha: f32) -> S::F32 {
    // The product is computed exactly, in two parts: the exponential function multiplies the
    // relative error of its argument by the argument.
    let scale = alpha.abs();
    let scale_high = scalar_high(scale);
    let far = s.splat((-LEAST / scale).min(f32::MAX));

    let a = s.min(far, s.abs(x));
    let a_high = high(s, a);
    let product = s.mul(a_high, s.splat(scale_high));
    let left = s.mul(a_high, s.splat(scale - scale_high));
    let left = s.mul_add(s.sub(a, a_high), s.splat(scale), left);
    let power = reduce_sum(s, s.neg(product), s.neg(left));
    gate(s, x, s.lt(s.mul(x, s.splat(alpha)), s.splat(0.0)), s.le(far, s.abs(x)), power)
}

/// `x/2 · (1 + tanh(√(2/π) · (x + 0.044715 x³)))`, which is `x / (1 + e^-z)` with twice that
/// argument.
#[inline(always)]
pub fn gelu_tanh<S: Simd>(s: S, x: S::F32) -> S::F32 {
    /// From here on `x e^-z` rounds to zero.
    const FAR: f32 = 11.0;
    let a = s.min(s.splat(FAR), s.abs(x));
    let [z, left] = if S::FUSES { cubic_fused(s, a) } else { cubic(s, a) };
    let power = reduce_sum(s, s.neg(z), s.neg(left));
    gate(s, x, s.lt(x, s.splat(0.0)), s.le(s.splat(FAR), s.abs(x)), power)
}

/// `2 √(2/π)`, in two parts.
const GRAD: [f32; 2] = [1.595_769_2, -4.534_068e-8];
/// `0.044715 · 2 √(2/π)`, in two parts, the first of 12 bits.
const CUBE: [f32; 2] = [0.071_350_1, 4.718_616_3e-6];

/// `z = a · (GRAD + CUBE · a²)`, rounded, and what is left.
#[inline(always)]
fn cubic_fused<S: Simd>(s: S, a: S::F32) -> Pair<S::F32> {
    let [grad, cube] = [s.splat(GRAD[0]), s.splat(CUBE[0])];
    let [square, of_square] = product(s, a, a);
    let [cubic, of_cubic] = product(s, square, cube);
    let [sum, of_sum] = sum_of_any(s, grad, cubic);
    let lost = s.mul_add(of_square, cube, s.add(of_sum, of_cubic));
    let lost = s.add(s.mul_add(square, s.splat(CUBE[1]), lost), s.splat(GRAD[1]));
    let [z, left] = product(s, a, sum);
    [z, s.mul_add(a, lost, left)]
}

/// [`cubic_fused`] without fused products.
#[inline(always)]
fn cubic<S: Simd>(s: S, a: S::F32) -> Pair<S::F32> {
    let (a_high, square) = (high(s, a), s.mul(high(s, a), high(s, a)));
    let square_high = high(s, square);
    // GRAD + CUBE · square: the sum, and its rounding error.
    let (linear, cubic) = (s.splat(GRAD[0]), s.mul(square_high, s.splat(CUBE[0])));
    let sum = s.add(linear, cubic);
    let added = s.sub(sum, linear);
    let lost = s.add(s.sub(linear, s.sub(sum, added)), s.sub(cubic, added));
    let lost = s.add(lost, s.splat(GRAD[1]));
    let lost = s.mul_add(s.sub(square, square_high), s.splat(CUBE[0]), lost);
    let lost = s.mul_add(square, s.splat(CUBE[1]), lost);
    // z of the high bits of a, and the contribution of the low ones.
    let sum_high = high(s, sum);
    let z = s.mul(a_high, sum_high);
    let left = s.mul(a_high, s.add(s.sub(sum, sum_high), lost));
    let squares = s.mul_add(a, s.add(a, a_high), square);
    let rise = s.mul_add(squares, s.splat(CUBE[0] + CUBE[1]), linear);
    [z, s.mul_add(s.sub(a, a_high), rise, left)]
}

/// The derivative of [`gelu_tanh`], `σ + x σ (1 - σ) z'` with the sigmoid `σ` of `z`; NaN at ±∞,
/// where that product is.
#[inline(always)]
pub fn gelu_tanh_grad<S: Simd>(s: S, x: S::F32) -> S::F32 {
    // z = x · (GRAD + CUBE · x²).
    const GRAD: f32 = 1.595_769_2;
    const CUBE: f32 = 0.071_354_82;
    let (one, linear) = (s.splat(1.0), s.splat(GRAD));
    let square = s.mul(x, x);
    let z = s.mul(x, s.mul_add(square, s.splat(CUBE), linear));
    let derivative = s.mul_add(square, s.splat(3.0 * CUBE), linear);
    // σ and 1 - σ, as the larger and the smaller of the two: both keep all their bits.
    let e = exp(s, s.neg(s.abs(z)));
    let large = s.div(one, s.add(one, e));
    let small = s.mul(e, large);
    let sigmoid = s.select(s.lt(z, s.splat(0.0)), small, large);
    s.mul_add(s.mul(x, s.mul(small, large)), derivative, sigmoid)
}
