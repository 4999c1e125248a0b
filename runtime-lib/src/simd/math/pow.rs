//! Powers.

use super::{
    exp::{LN2_HIGH, LN2_LOW, clamp, exp_of_sum},
    pair::{Pair, product, sum},
    polynomial,
};
use crate::simd::Simd;

/// `x^y`, with the special cases of IEEE 754: 1 for `y = 0` and for `x = 1`, also if the other is
/// NaN; NaN for a finite negative `x` and a `y` that is no integer.
#[inline(always)]
pub fn pow<S: Simd>(s: S, x: S::F32, y: S::F32) -> S::F32 {
    let (zero, one, infinity) = (s.splat(0.0), s.splat(1.0), s.splat(f32::INFINITY));
    let size = s.abs(x);
    let [ln, ln_low] = ln_pair(s, size);
    let ln = s.select(s.lt(size, infinity), ln, size);
    let ln = s.select(s.eq(size, zero), s.neg(infinity), ln);

    let [u, v] = product(s, y, ln);
    let v = s.mul_add(y, ln_low, v);
    // Outside this range the power is infinite or zero, and the second part may be NaN.
    let v = s.select(s.lt(s.abs(u), s.splat(128.0)), v, zero);
    let power = exp_of_sum(s, clamp(s, u, -104.0, 89.0), v);
    let power = s.select(s.eq(size, one), one, power);

    // The sign of `x` counts if `y` is odd.
    let half = s.mul(y, s.splat(0.5));
    let is_integer = s.eq(s.floor(y), y);
    let odd = s.select(s.eq(s.floor(half), half), zero, s.select(is_integer, x, zero));
    let power = s.copysign(power, odd);
    let base = s.select(is_integer, zero, x);
    let is_negative = s.select(s.lt(s.neg(infinity), base), base, zero);
    let power = s.select(s.lt(is_negative, zero), s.splat(f32::NAN), power);

    let power = s.select(s.eq(x, one), one, power);
    s.select(s.eq(y, zero), one, power)
}

/// `ln x` for a finite positive `x`, in two parts.
#[inline(always)]
fn ln_pair<S: Simd>(s: S, x: S::F32) -> Pair<S::F32> {
    // The polynomial (ln((1 + t) / (1 - t)) - 2t) / t³ in t² that minimizes the relative error of
    // the logarithm: 2.5e-11.
    const P: [f32; 4] = [0.666_666_6, 0.400_009_72, 0.284_987_87, 0.242_792_11];
    // The bits of √½: x = 2^e · m, with m from √½ to √2.
    const ROOT_HALF: i32 = 0x3f35_04f3;

    let (zero, one) = (s.splat(0.0), s.splat(1.0));
    // Subnormal numbers are scaled by 2^23 to be normal.
    let small = s.lt(x, s.splat(f32::MIN_POSITIVE));
    let bits = s.bits(s.select(small, s.mul(x, s.splat(8_388_608.0)), x));
    let e = s.shr_i32::<23>(s.sub_i32(bits, s.splat_i32(ROOT_HALF)));
    let m = s.with_bits(s.sub_i32(bits, s.shl_i32::<23>(e)));
    let e = s.add(s.to_f32(e), s.select(small, s.splat(-23.0), zero));

    // t = (m - 1) / (m + 1) in two parts.
    let (above, [below, below_low]) = (s.sub(m, one), sum(s, one, m));
    let inverse = s.div(one, below);
    let t = s.mul(above, inverse);
    let [covered, rest] = product(s, t, below);
    let rest = s.sub(s.sub(above, covered), rest);
    let t_low = s.mul(s.mul_add(s.neg(t), below_low, rest), inverse);

    // ln m = t (2 + t² P(t²)). The first product of the polynomial keeps both parts.
    let [z, z_low] = product(s, t, t);
    let z_low = s.mul_add(s.add(t, t), t_low, z_low);
    let [first, first_low] = product(s, z, s.splat(P[0]));
    let rest = s.mul_add(s.mul(z, z), polynomial(s, z, [P[1], P[2], P[3]]), first_low);
    let rest = s.mul_add(z_low, s.splat(P[0]), rest);
    let [factor, factor_low] = sum(s, s.splat(2.0), first);
    let factor_low = s.add(factor_low, rest);
    let [ln_m, ln_m_low] = product(s, t, factor);
    let ln_m_low = s.mul_add(t, factor_low, s.mul_add(t_low, factor, ln_m_low));

    let [ln, low] = sum(s, s.mul(e, s.splat(LN2_HIGH)), ln_m);
    let low = s.add(low, s.mul_add(e, s.splat(LN2_LOW), ln_m_low));
    sum(s, ln, low)
}
