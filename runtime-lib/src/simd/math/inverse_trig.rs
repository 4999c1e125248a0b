//! Arcsine, arccosine and arctangent.

use super::{pair::sum, polynomial};
use crate::simd::Simd;
use core::f32::consts::{FRAC_PI_2, PI};

// The rounding errors of π/2 and π.
const HALF_PI_LOW: f32 = -4.371_139e-8;
const PI_LOW: f32 = -8.742_278e-8;

/// The arcsine in radians; NaN outside of -1 to 1.
#[inline(always)]
pub fn asin<S: Simd>(s: S, x: S::F32) -> S::F32 {
    let (is_large, root, rest) = arcs(s, x);
    // Above 1/2 it is π/2 - 2 asin √((1 - x) / 2).
    let two = s.splat(2.0);
    let [y, low] = sum(s, s.splat(FRAC_PI_2), s.neg(s.mul(root, two)));
    let large = s.add(y, s.sub(low, s.mul_add(rest, two, s.splat(-HALF_PI_LOW))));
    s.copysign(s.select(is_large, large, s.add(root, rest)), x)
}

/// The arccosine in radians; NaN outside of -1 to 1.
#[inline(always)]
pub fn acos<S: Simd>(s: S, x: S::F32) -> S::F32 {
    let (is_large, root, rest) = arcs(s, x);
    // Up to 1/2 it is π/2 - asin x. Beyond it is 2 asin √((1 - |x|) / 2), or π minus this.
    let is_negative = s.lt(x, s.splat(0.0));
    let base = s.select(is_negative, s.splat(PI), s.splat(0.0));
    let base = s.select(is_large, base, s.splat(FRAC_PI_2));
    let base_low = s.select(is_negative, s.splat(PI_LOW), s.splat(0.0));
    let base_low = s.select(is_large, base_low, s.splat(HALF_PI_LOW));
    let size = s.select(is_large, s.splat(2.0), s.splat(1.0));
    let factor = s.copysign(size, s.select(is_large, x, s.neg(x)));
    let [y, low] = sum(s, base, s.mul(root, factor));
    s.add(y, s.add(low, s.mul_add(rest, factor, base_low)))
}

/// Returns whether `|x|` is above 1/2, and the arcsine of `|x|`, or of `√((1 - |x|) / 2)` above
/// 1/2, as this number and the rest.
#[inline(always)]
fn arcs<S: Simd>(s: S, x: S::F32) -> (S::Mask, S::F32, S::F32) {
    // The polynomial (asin w - w) / w³ in w² that minimizes the relative error of asin w up to 1/2:
    // 5e-9.
    const P: [f32; 5] = [0.166_667_54, 0.074_952_49, 0.045_476_656, 0.024_148_166, 0.042_219_706];
    let (half, size) = (s.splat(0.5), s.abs(x));
    let is_large = s.lt(half, size);
    let z = s.select(is_large, s.mul(s.sub(s.splat(1.0), size), half), s.mul(x, x));
    let root = s.select(is_large, s.sqrt(z), size);
    (is_large, root, s.mul(s.mul(root, z), polynomial(s, z, P)))
}

/// The arctangent in radians.
#[inline(always)]
pub fn atan<S: Simd>(s: S, x: S::F32) -> S::F32 {
    // The polynomial (atan t - t) / t³ in t² that minimizes the relative error of atan t up to 1:
    // 2.3e-9.
    const P: [f32; 9] = [
        -0.333_333_02,
        0.199_986_28,
        -0.142_651_26,
        0.109_569_33,
        -0.084_175_43,
        0.058_201_257,
        -0.031_422_142,
        0.011_046_255,
        -0.001_823_116,
    ];
    let (one, size) = (s.splat(1.0), s.abs(x));
    // Above 1 it is π/2 - atan(1/x).
    let is_large = s.lt(one, size);
    let t = s.select(is_large, s.div(one, size), size);
    let z = s.mul(t, t);
    let cubic = s.mul(s.mul(t, z), polynomial(s, z, P));
    let [y, low] = sum(s, s.splat(FRAC_PI_2), s.neg(t));
    let large = s.add(y, s.sub(low, s.add(cubic, s.splat(-HALF_PI_LOW))));
    s.copysign(s.select(is_large, large, s.add(t, cubic)), x)
}
