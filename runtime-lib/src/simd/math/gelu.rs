//! GELU: the distribution function of the normal distribution, times `x`.

use super::{
    exp::{exp_of_half, exp_of_sum},
    pair, polynomial,
};
use crate::simd::Simd;

/// The end of the interval in which `Φ` is a polynomial.
const NEAR: f32 = 1.1;

/// From here on the tail of `Φ` rounds to zero.
const FAR: f32 = 14.5;

/// `x Φ(x)`, with the distribution function `Φ` of the normal distribution; NaN at -∞, as in
/// `gate`.
#[inline(always)]
pub fn gelu<S: Simd>(s: S, x: S::F32) -> S::F32 {
    let half = s.splat(0.5);
    let a = s.min(s.splat(FAR), s.abs(x));
    let tail = if S::LOOKS_UP {
        s.mul(s.mul(a, bell(s, a)), mills(s, a))
    } else {
        s.mul(bell(s, a), outer(s, a))
    };
    // x - tail above zero, -tail below, where x + |x| is zero (or NaN).
    let rest = s.mul_add(x, half, s.mul(s.abs(x), half));
    let far = s.sub(rest, tail);
    if S::LOOKS_UP {
        return s.copysign(far, x);
    }
    let near = s.mul(x, s.mul_add(x, inner(s, x), half));
    s.select(s.lt(a, s.splat(NEAR)), near, far)
}

/// The derivative of [`gelu`], `Φ(x) + x φ(x)` with the density `φ` of the normal distribution; NaN
/// at ±∞, where `x φ(x)` is.
#[inline(always)]
pub fn gelu_grad<S: Simd>(s: S, x: S::F32) -> S::F32 {
    /// √(1/2π)
    const HEIGHT: f32 = 0.398_942_3;
    let near = s.mul_add(x, inner(s, x), s.splat(0.5));

    let a = s.min(s.splat(FAR), s.abs(x));
    let bell = bell(s, a);
    let tail = s.div(s.mul(bell, outer(s, a)), a);
    let above = s.sub(s.splat(1.0), tail);
    let far = s.select(s.lt(x, s.splat(0.0)), tail, above);
    let area = s.select(s.lt(a, s.splat(NEAR)), near, far);
    s.mul_add(s.mul(x, bell), s.splat(HEIGHT), area)
}

/// `(Φ(x) - 1/2) / x` up to [`NEAR`], as a polynomial in `x²`; relative error 2.4e-9.
#[inline(always)]
fn inner<S: Simd>(s: S, x: S::F32) -> S::F32 {
    const INNER: [f32; 6] = [
        0.398_942_3,
        -0.066_490_32,
        0.009_973_034,
        -0.001_185_517_6,
        0.000_112_563_07,
        -0.000_007_289_365,
    ];
    polynomial(s, s.mul(x, x), INNER)
}

/// `a e^(a²/2) Φ(-a)` from [`NEAR`] on, as a polynomial in `1 / (1 + a/2)`; relative error 7.3e-9.
#[inline(always)]
fn outer<S: Simd>(s: S, a: S::F32) -> S::F32 {
    const TAIL: [f32; 9] = [
        0.398_953_77,
        -0.000_397_832_54,
        -0.093_851_41,
        -0.248_186_05,
        0.023_380_358,
        -0.893_091_44,
        1.697_770_1,
        -1.201_096_5,
        0.317_185_46,
    ];
    let one = s.splat(1.0);
    polynomial(s, s.div(one, s.mul_add(a, s.splat(0.5), one)), TAIL)
}

/// The centers of the pieces of [`mills`].
#[rustfmt::skip]
const CENTERS: [f32; 16] = [
    0.120_845_415, 0.362_536_22, 0.604_227_07, 0.845_917_9, 1.208_454_1, 1.691_835_8,
    2.175_217_4, 2.658_599_1, 3.383_671_5, 4.350_435, 5.317_198_3, 6.283_961_3, 7.734_106_5,
    9.667_633, 11.601_159, 13.534_686,
];

/// The coefficients of the pieces of [`mills`], those of each power together.
#[rustfmt::skip]
const MILLS: [[f32; 16]; 6] = [
    [
        0.455_218_55, 0.382_824_66, 0.327_488_84, 0.284_315_4, 0.235_432_04,
        0.189_675_35, 0.157_729_2, 0.134_425_64, 0.109_543_91, 0.087_473_57,
        0.072_616_16, 0.061_987_005, 0.050_759_87, 0.040_837_713, 0.034_138_124,
        0.029_317_21,
    ],
    [
        -0.343_931_2, -0.260_154_5, -0.201_064_66, -0.158_434_8, -0.114_433_47,
        -0.078_042_746, -0.055_846_98, -0.041_558_4, -0.028_281_69, -0.018_394_232,
        -0.012_827_753, -0.009_418_351, -0.006_360_056_3, -0.004_138_264_3,
        -0.002_900_460_3, -0.002_143_051_7,
    ],
    [
        0.206_827_1, 0.144_254_1, 0.102_999_77, 0.075_146_12, 0.048_570_95,
        0.028_819_429, 0.018_124_73, 0.011_969_163, 0.006_923_468_3, 0.003_725_187_9,
        0.002_204_181_4, 0.001_401_208_9, 0.000_785_178_85, 0.000_415_227_52,
        0.000_244_706_37, 0.000_155_836_74,
    ],
    [
        -0.106_312_41, -0.069_285_67, -0.046_276_41, -0.031_622_4, -0.018_578_628,
        -0.009_761_338, -0.005_473_743, -0.003_245_636_4, -0.001_617_674_4,
        -0.000_729_124, -0.000_369_138_84, -0.000_204_363_74, -9.558_604e-5,
        -4.126_910_4e-5, -2.050_485_8e-5, -1.127_405_8e-5,
    ],
    [
        0.048_663_598, 0.029_877_402, 0.018_812_796, 0.012_130_084, 0.006_588_081,
        0.003_098_812_2, 0.001_564_017_7, 0.000_839_339_6, 0.000_368_287_03,
        0.000_139_924_54, 6.088_528e-5, 2.945_005_1e-5, 1.170_675_8e-5, 4.118_162e-6,
        1.723_067_4e-6, 8.173_520_3e-7,
    ],
    [
        -0.020_127_969, -0.011_718_802, -0.007_000_437_5, -0.004_284_607,
        -0.002_150_560_5, -0.000_916_279_5, -0.000_420_422_93, -0.000_205_938_73,
        -7.927_701e-5, -2.575_002_9e-5, -9.724_56e-6, -4.138_205_4e-6, -1.386_238_5e-6,
        -4.016_589_5e-7, -1.424_362_4e-7, -5.853_152e-8,
    ],
];

/// `e^(a²/2) Φ(-a)`, Mills' ratio times `√(1/2π)`, up to [`FAR`]: sixteen polynomials, of which
/// `2 + a·PIECES`, from 2 to 32, chooses by its exponent and the first two bits of its fraction.
/// Relative error 1.1e-7 from 4 on, less before, and 5e-9 up to 0.2.
#[inline(always)]
fn mills<S: Simd>(s: S, a: S::F32) -> S::F32 {
    const PIECES: f32 = 2.068_758_8;
    let piece = s.shr_i32::<21>(s.bits(s.mul_add(a, s.splat(PIECES), s.splat(2.0))));
    let from_center = s.sub(a, s.lookup(&CENTERS, piece));
    let mut y = s.lookup(&MILLS[5], piece);
    for i in (0..5).rev() {
        y = s.mul_add(y, from_center, s.lookup(&MILLS[i], piece));
    }
    y
}

/// `e^(-a²/2)`. The square is exact, in two parts: without fused products, that of the 12 high bits
/// of `a`, and the rest.
#[inline(always)]
fn bell<S: Simd>(s: S, a: S::F32) -> S::F32 {
    if S::FUSES {
        let [square, left] = pair::product(s, a, a);
        return exp_of_half(s, square, left);
    }
    let high = pair::high(s, a);
    let square = s.mul(s.mul(high, high), s.splat(-0.5));
    let left = s.mul(s.mul(s.sub(high, a), s.add(high, a)), s.splat(0.5));
    exp_of_sum(s, square, left)
}
