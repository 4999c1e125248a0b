//! Numbers in two parts: a rounded number, and its rounding error.

use crate::simd::Simd;

/// A number in two parts, which is the sum of both.
pub(super) type Pair<V> = [V; 2];

/// The bits that [`high`] keeps.
const HIGH: i32 = !0xfff;

/// Truncates each number to its 12 high bits: the product of two truncated numbers is exact.
#[inline(always)]
pub(super) fn high<S: Simd>(s: S, x: S::F32) -> S::F32 {
    s.with_bits(s.and_i32(s.bits(x), s.splat_i32(HIGH)))
}

/// [`high`] of a scalar.
#[inline(always)]
pub(super) fn scalar_high(x: f32) -> f32 {
    f32::from_bits(x.to_bits() & HIGH as u32)
}

/// `a · b`, exact unless its second part underflows.
#[inline(always)]
pub(super) fn product<S: Simd>(s: S, a: S::F32, b: S::F32) -> Pair<S::F32> {
    let rounded = s.mul(a, b);
    if S::FUSES {
        return [rounded, s.mul_add(a, b, s.neg(rounded))];
    }
    let (a_high, b_high) = (high(s, a), high(s, b));
    let (a_low, b_low) = (s.sub(a, a_high), s.sub(b, b_high));
    let error = s.sub(s.mul(a_high, b_high), rounded);
    let error = s.add(s.add(error, s.mul(a_high, b_low)), s.mul(a_low, b_high));
    [rounded, s.add(error, s.mul(a_low, b_low))]
}

/// `a + b`, exact if `|a| ≥ |b|` or `a` is zero.
#[inline(always)]
pub(super) fn sum<S: Simd>(s: S, a: S::F32, b: S::F32) -> Pair<S::F32> {
    let rounded = s.add(a, b);
    [rounded, s.sub(b, s.sub(rounded, a))]
}

/// `a + b`, exact.
#[inline(always)]
pub(super) fn sum_of_any<S: Simd>(s: S, a: S::F32, b: S::F32) -> Pair<S::F32> {
    let rounded = s.add(a, b);
    let of_b = s.sub(rounded, a);
    let of_a = s.sub(rounded, of_b);
    [rounded, s.add(s.sub(a, of_a), s.sub(b, of_b))]
}
