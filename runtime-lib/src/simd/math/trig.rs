//! Sine, cosine and tangent.

use super::{
    on_each_lane,
    pair::{Pair, product, sum, sum_of_any},
    polynomial,
};
use crate::simd::Simd;
use core::f32::consts::{FRAC_2_PI, FRAC_PI_2};

/// Up to here an argument is reduced in vectors. Larger ones need more bits of π, and are computed
/// one by one.
const FAR: f32 = 32_768.0;

// The rest of π/2 after its first 24 bits.
const HALF_PI_MIDDLE: f32 = -4.371_139e-8;
const HALF_PI_LOW: f32 = -1.715_124_5e-15;

/// The sine of an angle in radians.
#[inline(always)]
pub fn sin<S: Simd>(s: S, x: S::F32) -> S::F32 {
    if is_far(s, x) { on_each_lane(s, x, libm::sinf) } else { wave(s, x, 0) }
}

/// The cosine of an angle in radians.
#[inline(always)]
pub fn cos<S: Simd>(s: S, x: S::F32) -> S::F32 {
    if is_far(s, x) { on_each_lane(s, x, libm::cosf) } else { wave(s, x, 1) }
}

/// The tangent of an angle in radians.
#[inline(always)]
pub fn tan<S: Simd>(s: S, x: S::F32) -> S::F32 {
    // The polynomial (tan r - r) / r³ in r² that minimizes the relative error of tan r up to π/4:
    // 1.5e-9.
    const P: [f32; 7] = [
        0.333_333_52,
        0.133_325_83,
        0.054_068_65,
        0.021_238_61,
        0.010_945_544,
        -4.618_687_7e-5,
        0.004_441_829_4,
    ];
    if is_far(s, x) {
        return on_each_lane(s, x, libm::tanf);
    }
    let (n, [r, low]) = reduce(s, x);
    let z = s.mul(r, r);
    let cubic = s.mul_add(s.mul(r, z), polynomial(s, z, P), s.mul_add(low, z, low));
    let [tan, tan_low] = sum(s, r, cubic);
    // -1 / tan in odd quarters, corrected by the second part.
    let inverse = s.div(s.splat(-1.0), tan);
    let [whole, rest] = product(s, inverse, tan);
    let error = s.mul_add(inverse, tan_low, s.add(s.add(whole, s.splat(1.0)), rest));
    let inverse = s.mul_add(inverse, error, inverse);
    let is_odd = is_set(s, n, 1);
    let y = s.select(is_odd, inverse, tan);
    s.select(s.eq(x, s.splat(0.0)), x, y)
}

/// Returns whether any lane is too large for [`reduce`].
#[inline(always)]
fn is_far<S: Simd>(s: S, x: S::F32) -> bool {
    s.any(s.lt(s.splat(FAR), s.abs(x)))
}

/// The sine of `x` plus a number of right angles.
#[inline(always)]
fn wave<S: Simd>(s: S, x: S::F32, quarters: i32) -> S::F32 {
    // The polynomials (sin r - r) / r³ and (cos r - 1 + r²/2) / r⁴ in r² that minimize the relative
    // error up to π/4: 3.7e-9 and 1.1e-10.
    const SIN: [f32; 3] = [-0.166_666_55, 0.008_332_19, -1.951_840_8e-4];
    const COS: [f32; 3] = [0.041_666_646, -0.001_388_730_1, 2.443_066_8e-5];
    let (n, [r, low]) = reduce(s, x);
    let n = s.add_i32(n, s.splat_i32(quarters));
    let (one, z) = (s.splat(1.0), s.mul(r, r));
    let half = s.mul(z, s.splat(0.5));
    let most = s.sub(one, half);

    let sin = s.mul_add(s.mul(r, z), polynomial(s, z, SIN), s.mul(low, most));
    let sin = s.add(r, sin);
    // The rounding error of 1 - r²/2.
    let lost = s.sub(s.sub(one, most), half);
    let cos = s.mul_add(s.mul(z, z), polynomial(s, z, COS), s.sub(lost, s.mul(r, low)));
    let cos = s.add(most, cos);

    let y = s.select(is_set(s, n, 1), cos, sin);
    let y = s.select(is_set(s, n, 2), s.neg(y), y);
    // Zero keeps its sign.
    if quarters == 0 { s.select(s.eq(x, s.splat(0.0)), x, y) } else { y }
}

/// Returns whether a bit is set.
#[inline(always)]
fn is_set<S: Simd>(s: S, n: S::I32, bit: i32) -> S::Mask {
    let number = s.to_f32(s.and_i32(n, s.splat_i32(bit)));
    s.lt(s.splat(0.0), number)
}

/// Returns the `n` and `r` of `x = n π/2 + r` with `|r| ≤ π/4`, where `r` has two parts.
#[inline(always)]
fn reduce<S: Simd>(s: S, x: S::F32) -> (S::I32, Pair<S::F32>) {
    let n = s.round(s.mul(x, s.splat(FRAC_2_PI)));
    let quarter = s.splat(FRAC_PI_2);
    // The difference of two close numbers is exact.
    let [r, low] = if S::FUSES {
        [s.mul_add(s.neg(n), quarter, x), s.splat(0.0)]
    } else {
        let [most, rest] = product(s, n, quarter);
        sum(s, s.sub(x, most), s.neg(rest))
    };
    let [middle, middle_low] = product(s, n, s.splat(HALF_PI_MIDDLE));
    let [r, error] = sum_of_any(s, r, s.neg(middle));
    let rest = s.mul_add(n, s.splat(HALF_PI_LOW), middle_low);
    let low = s.add(s.add(low, error), s.neg(rest));
    (s.to_i32(n), sum(s, r, low))
}
