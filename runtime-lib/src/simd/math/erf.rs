//! The error function.

use super::polynomial;
use crate::simd::{Simd, math};

/// The error function, `2/√π ∫₀ˣ e^(-t²) dt`.
#[inline(always)]
pub fn erf<S: Simd>(s: S, x: S::F32) -> S::F32 {
    // For |x| ≤ 1: erf x / x - 1, as a polynomial in x²; relative error of erf x 1.4e-9.
    const NEAR: [f32; 7] = [
        0.128_379_17,
        -0.376_126_26,
        0.112_835_79,
        -0.026_853_347,
        0.005_187_162,
        -0.000_799_785_3,
        0.000_078_069_04,
    ];
    // For |x| ≥ 1: -ln(1 - erf x) / x; error of erf x 2.4e-9. From 3.95 on, erf x rounds to 1.
    const FAR: [f32; 6] =
        [1.128_475_5, 0.635_846_5, 0.105_096_55, -0.022_786_012, 0.003_183_094_3, -0.000_210_179_2];

    let a = s.min(s.splat(3.95), s.abs(x));
    let near = s.mul_add(x, polynomial(s, s.mul(x, x), NEAR), x);
    let exponent = s.mul(s.neg(a), polynomial(s, a, FAR));
    let far = s.sub(s.splat(1.0), math::exp(s, exponent));
    s.select(s.lt(a, s.splat(1.0)), near, s.copysign(far, x))
}
