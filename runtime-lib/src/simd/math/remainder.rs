//! Remainders of divisions.

use super::pair::product;
use crate::simd::{MAX_LANES, Simd};

/// Quotients below this are integers or have bits after the point.
const LARGEST_QUOTIENT: f32 = 4_194_304.0;

/// Products with smaller divisors lose bits that are subnormal.
const LEAST_DIVISOR: f32 = 1e-30;

/// The remainder of `a / b`, with the sign of `a`: exact. NaN for a zero `b` and an infinite `a`.
#[inline(always)]
pub fn remainder<S: Simd>(s: S, a: S::F32, b: S::F32) -> S::F32 {
    let (zero, one) = (s.splat(0.0), s.splat(1.0));
    let (dividend, divisor) = (s.abs(a), s.abs(b));
    let quotient = s.div(dividend, divisor);
    let is_usual = s.select(s.lt(quotient, s.splat(LARGEST_QUOTIENT)), one, zero);
    let is_usual = s.select(s.lt(divisor, s.splat(f32::INFINITY)), is_usual, zero);
    let is_usual = s.select(s.lt(s.splat(LEAST_DIVISOR), divisor), is_usual, zero);
    if s.any(s.eq(is_usual, zero)) {
        return remainder_of_lanes(s, a, b);
    }
    let [most, low] = product(s, s.floor(quotient), divisor);
    // Both differences are exact: the remainder has no more bits than the operands.
    let rest = s.sub(s.sub(dividend, most), low);
    // The quotient may have been rounded up to an integer.
    let rest = s.select(s.lt(rest, zero), s.add(rest, divisor), rest);
    s.copysign(rest, a)
}

/// The remainder of `a / b`, with the sign of `b`; so has a remainder of zero.
#[inline(always)]
pub fn floored_remainder<S: Simd>(s: S, a: S::F32, b: S::F32) -> S::F32 {
    let zero = s.splat(0.0);
    let rest = remainder(s, a, b);
    let below = s.select(s.lt(rest, zero), s.splat(1.0), zero);
    let b_below = s.select(s.lt(b, zero), s.splat(1.0), zero);
    let fitting = s.select(s.eq(below, b_below), rest, s.add(rest, b));
    s.select(s.eq(rest, zero), s.copysign(zero, b), fitting)
}

/// [`remainder`], one lane at a time.
#[inline(always)]
fn remainder_of_lanes<S: Simd>(s: S, a: S::F32, b: S::F32) -> S::F32 {
    let (mut rest, mut divisors) = ([0.0; MAX_LANES], [1.0; MAX_LANES]);
    s.store(a, &mut rest);
    s.store(b, &mut divisors);
    remainders(&mut rest[..S::LANES], &divisors);
    s.load(&rest)
}

#[inline(never)]
fn remainders(a: &mut [f32], b: &[f32]) {
    a.iter_mut().zip(b).for_each(|(a, b)| *a %= b);
}
