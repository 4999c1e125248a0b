//! The natural logarithm, and functions that are computed from it.

use super::{
    exp::{LN2_HIGH, LN2_LOW, exp},
    polynomial,
};
use crate::simd::Simd;

/// `ln x + correction` for a normal positive `x`, whose exponent is increased by `exponent`.
#[inline(always)]
pub(super) fn ln_normal<S: Simd>(s: S, x: S::F32, exponent: S::F32, correction: S::F32) -> S::F32 {
    // The polynomial (ln(1 + f) - f + f²/2) / f³ that minimizes the relative error of the
    // logarithm: 4.6e-9.
    const P: [f32; 8] = [
        0.333_332_15,
        -0.249_998_06,
        0.200_104_27,
        -0.166_801_96,
        0.140_057_34,
        -0.121_874_78,
        0.139_845_94,
        -0.128_800_54,
    ];
    // The bits of 2/3: x = 2^e · m, with m from 2/3 to 4/3.
    const TWO_THIRDS: i32 = 0x3f2a_aaab;

    let bits = s.bits(x);
    let e = s.shr_i32::<23>(s.sub_i32(bits, s.splat_i32(TWO_THIRDS)));
    let m = s.with_bits(s.sub_i32(bits, s.shl_i32::<23>(e)));
    let e = s.add(s.to_f32(e), exponent);

    let f = s.sub(m, s.splat(1.0));
    let ff = s.mul(f, f);
    let y = s.mul_add(e, s.splat(LN2_LOW), correction);
    let y = s.mul_add(s.mul(ff, f), polynomial(s, f, P), y);
    let y = s.mul_add(ff, s.splat(-0.5), y);
    s.mul_add(e, s.splat(LN2_HIGH), s.add(f, y))
}

/// The natural logarithm.
#[inline(always)]
pub fn ln<S: Simd>(s: S, x: S::F32) -> S::F32 {
    let zero = s.splat(0.0);
    let infinity = s.splat(f32::INFINITY);
    // Subnormal numbers are scaled by 2^23 to be normal.
    let small = s.lt(x, s.splat(f32::MIN_POSITIVE));
    let normal = s.select(small, s.mul(x, s.splat(8_388_608.0)), x);
    let exponent = s.select(small, s.splat(-23.0), zero);

    let y = ln_normal(s, normal, exponent, zero);
    let y = s.select(s.lt(x, infinity), y, x);
    let outside = s.select(s.lt(x, zero), s.splat(f32::NAN), s.neg(infinity));
    s.select(s.le(x, zero), outside, y)
}

/// `ln(1 + x)` for `x` from 0 to 1, accurate near zero; NaN for NaN.
#[inline(always)]
pub fn ln_1p_unit<S: Simd>(s: S, x: S::F32) -> S::F32 {
    // The rounding error of 1 + x, to first order.
    let one = s.splat(1.0);
    let u = s.add(one, x);
    let lost = s.div(s.sub(x, s.sub(u, one)), u);
    ln_normal(s, u, s.splat(0.0), lost)
}

/// `ln(1 + e^x)`.
#[inline(always)]
pub fn softplus<S: Simd>(s: S, x: S::F32) -> S::F32 {
    let e = exp(s, s.neg(s.abs(x)));
    s.add(s.max(x, s.splat(0.0)), ln_1p_unit(s, e))
}
