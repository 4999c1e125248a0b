//! Hyperbolic functions and their inverses.

use super::{exp::reduce, ln::ln_normal, pair::sum, polynomial};
use crate::simd::Simd;

/// From here on `x² + 1` and `x² - 1` round to `x²` in the inverse functions.
const LARGE: f32 = 4_096.0;

/// The hyperbolic sine.
#[inline(always)]
pub fn sinh<S: Simd>(s: S, x: S::F32) -> S::F32 {
    // The polynomial (sinh x - x) / x³ in x² that minimizes the relative error of sinh x up to 1:
    // 3.2e-10.
    const P: [f32; 4] = [0.166_666_67, 0.008_333_311, 1.984_263_5e-4, 2.783_925_5e-6];
    let z = s.mul(x, x);
    let small = s.mul_add(s.mul(x, z), polynomial(s, z, P), x);
    let (quarter, e, inverse) = exp_parts(s, x);
    // The small terms are added first.
    let half = s.add(quarter, s.sub(s.mul(quarter, e), inverse));
    let large = s.copysign(s.add(half, half), x);
    s.select(s.lt(s.abs(x), s.splat(1.0)), small, large)
}

/// The hyperbolic cosine.
#[inline(always)]
pub fn cosh<S: Simd>(s: S, x: S::F32) -> S::F32 {
    let (quarter, e, inverse) = exp_parts(s, x);
    let half = s.add(quarter, s.add(s.mul(quarter, e), inverse));
    s.add(half, half)
}

/// Returns `q`, `e` and `e^-|x| / 4` of `e^|x| / 4 = q (1 + e)`.
#[inline(always)]
fn exp_parts<S: Simd>(s: S, x: S::F32) -> (S::F32, S::F32, S::F32) {
    // From here on the functions are infinite; `q` is not.
    let size = s.min(s.splat(89.5), s.abs(x));
    let (n, e) = reduce(s, size);
    let quarter = s.scale(s.splat(0.25), n);
    let inverse = s.div(s.splat(0.0625), s.mul_add(quarter, e, quarter));
    (quarter, e, inverse)
}

/// The inverse of the hyperbolic sine.
#[inline(always)]
pub fn asinh<S: Simd>(s: S, x: S::F32) -> S::F32 {
    // The polynomial (asinh x - x) / x³ in x² that minimizes the relative error of asinh x up to
    // 1/2: 1.3e-9.
    const P: [f32; 5] = [-0.166_666_43, 0.074_986_38, -0.044_382_4, 0.028_156_93, -0.013_214_057];
    let (one, size) = (s.splat(1.0), s.abs(x));
    let z = s.mul(x, x);
    let small = s.mul_add(s.mul(x, z), polynomial(s, z, P), x);
    // It is ln(1 + (x + x² / (1 + √(x² + 1)))).
    let root = s.sqrt(s.add(z, one));
    let [t, low] = sum(s, size, s.div(z, s.add(one, root)));
    let large = ln_1p_or_double(s, size, t, low);
    // The small one has the sign of x too, but for a negative zero.
    s.copysign(s.select(s.lt(size, s.splat(0.5)), small, large), x)
}

/// The inverse of the hyperbolic cosine; NaN below 1.
#[inline(always)]
pub fn acosh<S: Simd>(s: S, x: S::F32) -> S::F32 {
    // With t = x - 1 it is ln(1 + (t + √(t² + 2t))).
    let one = s.splat(1.0);
    let t = s.sub(x, one);
    let [t, low] = sum(s, s.sqrt(s.mul_add(t, t, s.add(t, t))), t);
    s.select(s.lt(x, one), s.splat(f32::NAN), ln_1p_or_double(s, x, t, low))
}

/// The inverse of the hyperbolic tangent; NaN outside of -1 to 1.
#[inline(always)]
pub fn atanh<S: Simd>(s: S, x: S::F32) -> S::F32 {
    // The polynomial (atanh x - x) / x³ in x² that minimizes the relative error of atanh x up to
    // 1/2: 1.5e-9.
    const P: [f32; 6] =
        [0.333_333, 0.200_026_02, 0.142_212_55, 0.118_356_004, 0.050_932_124, 0.177_261_9];
    let (one, size) = (s.splat(1.0), s.abs(x));
    let z = s.mul(x, x);
    let small = s.mul_add(s.mul(x, z), polynomial(s, z, P), x);
    // It is ln(1 + 2x / (1 - x)) / 2.
    let t = s.div(s.add(size, size), s.sub(one, size));
    let large = s.mul(ln_1p(s, t, s.splat(0.0)), s.splat(0.5));
    let end = s.select(s.eq(size, one), s.splat(f32::INFINITY), s.splat(f32::NAN));
    let large = s.copysign(s.select(s.lt(size, one), large, end), x);
    s.select(s.lt(size, s.splat(0.5)), small, large)
}

/// `ln(1 + t + low)` for a finite `t` of at least 1/8.
#[inline(always)]
fn ln_1p<S: Simd>(s: S, t: S::F32, low: S::F32) -> S::F32 {
    let one = s.splat(1.0);
    let u = s.add(one, t);
    let lost = s.add(s.sub(t, s.sub(u, one)), low);
    ln_normal(s, u, s.splat(0.0), s.div(lost, u))
}

/// `ln(1 + t + low)`, or `ln 2x` for a large `x`.
#[inline(always)]
fn ln_1p_or_double<S: Simd>(s: S, x: S::F32, t: S::F32, low: S::F32) -> S::F32 {
    let double = ln_normal(s, x, s.splat(1.0), s.splat(0.0));
    let double = s.select(s.lt(x, s.splat(f32::INFINITY)), double, x);
    s.select(s.lt(x, s.splat(LARGE)), ln_1p(s, t, low), double)
}
