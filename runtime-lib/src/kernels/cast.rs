//! Conversion of element types.

#[cfg(feature = "alloc")]
use crate::error::{Error, Result};
use crate::loops::elementwise::map;
use crate::simd::{HAS_VECTORS, MAX_LANES, Pointwise, Simd, WithSimd, dispatch, map_at};
use crate::threads;
use crate::{
    Complex, Exact, F4E2M1, F6E2M3, F6E3M2, F8E4M3FN, F8E4M3FNUZ, F8E5M2, F8E5M2FNUZ, F8E8M0,
    Float8, I2, I4, Real, U2, U4,
};
#[cfg(feature = "alloc")]
use alloc::{borrow::ToOwned, string::String, string::ToString};

/// `y = x`, rounded as [`Real::nearest`] does; to [`F8E8M0`] it rounds up.
pub fn cast<A: Real, B: Real>(x: &[A], y: &mut [B]) {
    if A::as_f32(x).is_none() && B::as_f32(y).is_none() {
        return map(x, y, |x| B::nearest(x.exact()));
    }
    let cost = y.len();
    threads::share(y, MAX_LANES, cost, |first, y| {
        let x = &x[first * MAX_LANES..][..y.len()];
        dispatch(Cast { x, y });
    });
}

/// A cast from or to `f32`, whose loop `rustc` vectorizes with the instructions of the level.
struct Cast<'a, A, B> {
    x: &'a [A],
    y: &'a mut [B],
}

impl<A: Real, B: Real> WithSimd for Cast<'_, A, B> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        match (A::as_f32(self.x), B::LEAST_I32) {
            (Some(x), _) if B::WRAPS => cast_low_bits(s, x, self.y),
            (Some(x), Some(least)) if HAS_VECTORS => cast_long(s, x, self.y, least),
            _ => map(self.x, self.y, |x| B::nearest(x.exact())),
        }
    }
}

/// Elements that are converted together, so that they stay in the cache.
const BLOCK: usize = 256;

/// [`cast`] to integers of 64 bits, through `i32` where all numbers of a block are from `least` to
/// below 2³¹.
#[inline(always)]
fn cast_long<S: Simd, B: Real>(s: S, x: &[f32], y: &mut [B], least: f32) {
    for (x, y) in x.chunks(BLOCK).zip(y.chunks_mut(BLOCK)) {
        // A loop that always visits all elements becomes vectors.
        match x.iter().fold(true, |all, x| all & (least..2_147_483_648.0).contains(x)) {
            true => cast_low_bits(s, x, y),
            false => map(x, y, |x| B::nearest(x.exact())),
        }
    }
}

/// [`cast`] to a type whose elements are the low bits of an `i32`.
#[inline(always)]
fn cast_low_bits<S: Simd, B: Real>(s: S, x: &[f32], y: &mut [B]) {
    let mut whole = [0.0; BLOCK];
    for (x, y) in x.chunks(BLOCK).zip(y.chunks_mut(BLOCK)) {
        let whole = &mut whole[..x.len()];
        map_at(s, Some(x), whole, Whole);
        map(whole, y, |x| B::nearest(Exact::Signed((x.to_bits() as i32).into())));
    }
}

/// The bits of a number that is converted to `i32`: rounded toward zero, or 0 if it is out of range
/// or NaN.
#[derive(Clone, Copy)]
struct Whole;

impl Pointwise for Whole {
    #[inline(always)]
    fn apply<S: Simd>(self, s: S, x: S::F32) -> S::F32 {
        let size = s.floor(s.abs(x));
        let is_inside = s.lt(size, s.splat(2_147_483_648.0));
        let size = s.select(is_inside, size, s.splat(0.0));
        s.with_bits(s.to_i32(s.copysign(size, x)))
    }
}

/// [`cast`] that does not saturate: a number out of range becomes infinite, or NaN.
pub fn cast_unsaturated<A: Real, B: Float8>(x: &[A], y: &mut [B]) {
    map(x, y, |x| B::unsaturated(x.exact()));
}

/// [`cast`] that rounds down to a power of two.
pub fn cast_down<A: Real>(x: &[A], y: &mut [F8E8M0]) {
    map(x, y, |x| F8E8M0::below(x.exact()));
}

/// [`cast_unsaturated`] that rounds down to a power of two.
pub fn cast_down_unsaturated<A: Real>(x: &[A], y: &mut [F8E8M0]) {
    map(x, y, |x| F8E8M0::below_unsaturated(x.exact()));
}

/// [`cast`] to the nearest power of two.
pub fn cast_nearest<A: Real>(x: &[A], y: &mut [F8E8M0]) {
    map(x, y, |x| F8E8M0::rounded(x.exact()));
}

/// [`cast_unsaturated`] to the nearest power of two.
pub fn cast_nearest_unsaturated<A: Real>(x: &[A], y: &mut [F8E8M0]) {
    map(x, y, |x| F8E8M0::rounded_unsaturated(x.exact()));
}

/// Formats numbers in decimal, never with an exponent; `NaN`, `INF` and `-INF` otherwise.
#[cfg(feature = "alloc")]
pub fn cast_to_strings<A: Real>(x: &[A], y: &mut [String]) {
    map(x, y, |x| match x.exact() {
        Exact::Signed(x) => x.to_string(),
        Exact::Unsigned(x) => x.to_string(),
        Exact::Single(x) if x.is_finite() => x.to_string(),
        Exact::Double(x) if x.is_finite() => x.to_string(),
        other => match other.to_f64() {
            x if x.is_nan() => "NaN".to_owned(),
            x if x > 0.0 => "INF".to_owned(),
            _ => "-INF".to_owned(),
        },
    });
}

/// Parses decimal numbers, rounded as [`Real::nearest`] does: with or without a fraction and an
/// exponent, or `NaN`, `INF`, `+INF`, `-INF` in lower or upper case.
///
/// # Errors
///
/// Returns an error for a string that is not a number.
#[cfg(feature = "alloc")]
pub fn cast_from_strings<B: Real>(x: &[String], y: &mut [B]) -> Result {
    for (y, x) in y.iter_mut().zip(x) {
        *y = B::nearest(parse(x).ok_or(Error::Value("a string does not write a number"))?);
    }
    Ok(())
}

#[cfg(feature = "alloc")]
fn parse(text: &str) -> Option<Exact> {
    let text = text.trim();
    if let Ok(x) = text.parse() {
        return Some(Exact::Signed(x));
    }
    if let Ok(x) = text.parse() {
        return Some(Exact::Unsigned(x));
    }
    text.parse().ok().map(Exact::Double)
}

/// An element type that can be reinterpreted as bits.
pub trait Bits: Copy {
    /// An array of as many bytes as the element takes.
    type Bytes;

    /// Returns the bits, lowest byte first.
    fn bytes(self) -> Self::Bytes;
    /// Returns the element with these bits.
    fn of_bytes(bytes: Self::Bytes) -> Self;
}

/// Reinterprets the bits of elements as another type. Types of less than a byte use the low bits of
/// a byte.
pub fn bit_cast<A: Bits, B: Bits<Bytes = A::Bytes>>(x: &[A], y: &mut [B]) {
    map(x, y, |x| B::of_bytes(x.bytes()));
}

macro_rules! bits {
    ($($n:literal: $($T:ty)*;)*) => {$($(
        impl Bits for $T {
            type Bytes = [u8; $n];

            #[inline(always)]
            fn bytes(self) -> [u8; $n] {
                self.to_le_bytes()
            }

            #[inline(always)]
            fn of_bytes(bytes: [u8; $n]) -> $T {
                <$T>::from_le_bytes(bytes)
            }
        }
    )*)*};
}

bits! {
    1: i8 u8 I2 I4 U2 U4 F4E2M1 F6E2M3 F6E3M2 F8E4M3FN F8E4M3FNUZ F8E5M2 F8E5M2FNUZ F8E8M0;
    2: i16 u16;
    4: i32 u32 f32;
    8: i64 u64 f64 Complex<f32>;
    16: Complex<f64>;
}
#[cfg(feature = "half")]
bits!(2: half::f16 half::bf16;);

impl Bits for bool {
    type Bytes = [u8; 1];

    #[inline(always)]
    fn bytes(self) -> [u8; 1] {
        [u8::from(self)]
    }

    #[inline(always)]
    fn of_bytes([byte]: [u8; 1]) -> bool {
        byte != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn casts_round_to_the_nearest() {
        let mut y = [0i32; 3];
        cast(&[1.9f64, -1.9, 1e300], &mut y);
        assert_eq!(y, [1, -1, i32::MAX]);
        let mut y = [0.0f32; 2];
        cast(&[true, false], &mut y);
        assert_eq!(y, [1.0, 0.0]);
        let mut y = [U4::MIN; 3];
        cast(&[-1i8, 15, 17], &mut y);
        assert_eq!(y.map(U4::get), [15, 15, 1]);
    }

    #[cfg(feature = "std")]
    #[test]
    fn casts_of_vectors_are_those_of_elements() {
        let mut x: std::vec::Vec<f32> = (0..300).map(|i| (i as f32 - 150.0) * 7.3).collect();
        x.extend([f32::NAN, f32::INFINITY, -f32::INFINITY, 2_147_483_648.0, -2_147_483_648.0]);
        x.extend([2_147_483_520.0, -2_147_483_520.0, 1e10, 65_535.9, -1.5, -0.0]);
        crate::simd::each_level(|_| {
            check_cast::<u8>(&x);
            check_cast::<i16>(&x);
            check_cast::<i64>(&x);
            check_cast::<u64>(&x);
            check_cast::<i64>(&x[..300]);
            check_cast::<u64>(&x[160..300]);
        });
    }

    fn check_cast<T: Real + core::fmt::Debug>(x: &[f32]) {
        let mut y = std::vec![T::nearest(Exact::Signed(1)); x.len()];
        cast(x, &mut y);
        for (&x, &y) in x.iter().zip(&y) {
            assert_eq!(y, T::nearest(x.exact()), "{x}");
        }
    }

    #[test]
    fn casts_to_powers_of_two_round_in_every_mode() {
        let (x, mut y) = ([2.5f32, 3.5, f32::INFINITY], [F8E8M0::MIN; 3]);
        let mut check = |kernel: fn(&[f32], &mut [F8E8M0]), expected: [u8; 3]| {
            kernel(&x, &mut y);
            assert_eq!(y.map(F8E8M0::to_bits), expected);
        };
        check(cast, [129, 129, 0xfe]);
        check(cast_unsaturated, [129, 129, 0xff]);
        check(cast_down, [128, 128, 0xfe]);
        check(cast_down_unsaturated, [128, 128, 0xff]);
        check(cast_nearest, [128, 129, 0xfe]);
        check(cast_nearest_unsaturated, [128, 129, 0xff]);
    }

    #[cfg(feature = "alloc")]
    #[test]
    fn numbers_are_written_without_exponents() {
        let mut y = [const { String::new() }; 6];
        cast_to_strings(&[0.1f32, 1e10, -1e-7, f32::NAN, f32::INFINITY, -f32::INFINITY], &mut y);
        assert_eq!(y, ["0.1", "10000000000", "-0.0000001", "NaN", "INF", "-INF"]);
        cast_to_strings(&[i64::MIN, 7], &mut y[..2]);
        assert_eq!(y[..2], ["-9223372036854775808", "7"]);
    }

    #[cfg(feature = "alloc")]
    #[test]
    fn strings_are_read_as_the_numbers_that_they_write() {
        let read = |text: &str| {
            let mut y = [0.0f32];
            cast_from_strings(&[text.to_owned()], &mut y).map(|()| y[0])
        };
        for (text, x) in [("3.25", 3.25), ("1E8", 1e8), ("+inf", f32::INFINITY), (" -7 ", -7.0)] {
            assert_eq!(read(text), Ok(x));
        }
        assert!(read("nAn").is_ok_and(f32::is_nan));
        assert!(read("Hello World!").is_err() && read("").is_err());
        let mut y = [0u64; 2];
        let x = ["18446744073709551615", "100.5"].map(str::to_owned);
        assert_eq!(cast_from_strings(&x, &mut y), Ok(()));
        assert_eq!(y, [u64::MAX, 100]);
    }

    #[test]
    fn bitcast_preserves_bits() {
        let mut y = [0u32; 2];
        bit_cast(&[1.0f32, -0.0], &mut y);
        assert_eq!(y, [0x3f80_0000, 0x8000_0000]);
        let mut y = [Complex::default()];
        bit_cast(&[0x4000_0000_3f80_0000u64], &mut y);
        assert_eq!(y, [Complex { re: 1.0f32, im: 2.0 }]);
        let mut y = [F4E2M1::default(); 2];
        bit_cast(&[I4::new(-1), I4::new(5)], &mut y);
        assert_eq!(y.map(F4E2M1::to_bits), [0xf, 0x5]);
        let mut y = [false; 2];
        bit_cast(&[0u8, 2], &mut y);
        assert_eq!(y, [false, true]);
    }
}
