//! The numbers that elements represent, and conversion between element types.

use crate::Elem;

/// An element type whose values represent real numbers.
pub trait Real: Elem + Copy {
    /// Whether a floating-point number becomes the low bits of its `i32`, or 0 beyond an `i32`.
    const WRAPS: bool = false;

    /// The smallest `f32` that may be converted to an `i32` first, if it is also below 2³¹; `None`
    /// if [`Real::nearest`] is as fast alone.
    const LEAST_I32: Option<f32> = None;

    /// Returns the number that the element represents.
    fn exact(self) -> Exact;

    /// Returns the element nearest to `x`.
    ///
    /// Ties round to even. A number that is too large becomes infinite, or the largest number of a
    /// type without infinity. A nonzero number becomes `true`.
    ///
    /// Integers round toward zero. Out of range, an integer keeps its low bits. ONNX does not
    /// define what a floating-point number becomes: types of 32 and 64 bits saturate, and types of
    /// at most 16 bits keep the low bits of the `i32`, as NumPy and ONNX Runtime do. Beyond an
    /// `i32` they become 0.
    fn nearest(x: Exact) -> Self;
}

/// An exact number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Exact {
    /// An integer.
    Signed(i64),
    /// A nonnegative integer.
    Unsigned(u64),
    /// A number that `f32` represents.
    Single(f32),
    /// A number that `f64` represents.
    Double(f64),
}

impl Exact {
    /// Returns the nearest `f64`.
    #[inline(always)]
    pub fn to_f64(self) -> f64 {
        match self {
            Exact::Signed(x) => x as f64,
            Exact::Unsigned(x) => x as f64,
            Exact::Single(x) => f64::from(x),
            Exact::Double(x) => x,
        }
    }

    /// Returns an `f64` that rounds to any narrower type as this number does: if bits are lost, the
    /// last kept bit is set (sticky bit).
    #[inline(always)]
    pub(crate) fn sticky(self) -> f64 {
        match self {
            Exact::Signed(x) if x < 0 => -sticky_f64(x.unsigned_abs()),
            Exact::Signed(x) => sticky_f64(x.unsigned_abs()),
            Exact::Unsigned(x) => sticky_f64(x),
            Exact::Single(x) => f64::from(x),
            Exact::Double(x) => x,
        }
    }
}

#[inline(always)]
fn sticky_f64(x: u64) -> f64 {
    /// The number of bits by which a 64-bit integer exceeds the mantissa of an `f64`.
    const LOST: u32 = u64::BITS - f64::MANTISSA_DIGITS;
    let lost = (x & ((1 << LOST) - 1) != 0) && x >> f64::MANTISSA_DIGITS != 0;
    let kept = if lost { x >> LOST << LOST | 1 << LOST } else { x };
    kept as f64
}

/// Returns an `f32` that rounds to any narrower type as `x` does: if bits are lost, the last kept
/// bit is set (sticky bit).
#[inline(always)]
pub(crate) fn sticky_f32(x: f64) -> f32 {
    let nearest = x as f32;
    let wide = f64::from(nearest);
    if wide == x || x.is_nan() || nearest.to_bits() & 1 == 1 {
        return nearest;
    }
    let away = wide.abs() > x.abs();
    f32::from_bits(if away { nearest.to_bits() - 1 } else { nearest.to_bits() + 1 })
}

macro_rules! whole {
    ($Exact:ident $Wide:ident $of_float:ident $wraps:literal $least:expr; $($T:ident)*) => {$(
        impl Real for $T {
            const WRAPS: bool = $wraps;
            const LEAST_I32: Option<f32> = $least;

            #[inline(always)]
            fn exact(self) -> Exact {
                Exact::$Exact(self as $Wide)
            }

            #[inline(always)]
            fn nearest(x: Exact) -> $T {
                match x {
                    Exact::Signed(x) => x as $T,
                    Exact::Unsigned(x) => x as $T,
                    Exact::Single(x) => $of_float!(x, f32) as $T,
                    Exact::Double(x) => $of_float!(x, f64) as $T,
                }
            }
        }
    )*};
}

macro_rules! itself {
    ($x:ident, $F:ident) => {
        $x
    };
}

/// Rounds toward zero to an `i32`, or to `i32::MIN`, whose low bits are 0, if there is none.
macro_rules! wrapped {
    ($x:ident, $F:ident) => {{
        const END: $F = 2_147_483_648.0;
        if $x < END { $x as i32 } else { i32::MIN }
    }};
}

whole!(Signed i64 wrapped true None; i8 i16);
whole!(Signed i64 itself false None; i32);
whole!(Signed i64 itself false Some(-2_147_483_648.0); i64);
whole!(Unsigned u64 wrapped true None; u8 u16);
whole!(Unsigned u64 itself false None; u32);
whole!(Unsigned u64 itself false Some(0.0); u64);
whole!(Single f32 itself false None; f32);
whole!(Double f64 itself false None; f64);

impl Real for bool {
    #[inline(always)]
    fn exact(self) -> Exact {
        Exact::Unsigned(u64::from(self))
    }

    #[inline(always)]
    fn nearest(x: Exact) -> bool {
        match x {
            Exact::Signed(x) => x != 0,
            Exact::Unsigned(x) => x != 0,
            Exact::Single(x) => x != 0.0,
            Exact::Double(x) => x != 0.0,
        }
    }
}

#[cfg(feature = "half")]
mod half_types {
    use super::{Exact, Real, sticky_f32};
    use half::{bf16, f16};

    macro_rules! half {
        ($($T:ident)*) => {$(
            impl Real for $T {
                #[inline(always)]
                fn exact(self) -> Exact {
                    Exact::Single(self.to_f32())
                }

                #[inline(always)]
                fn nearest(x: Exact) -> $T {
                    match x {
                        Exact::Single(x) => $T::from_f32(x),
                        x => $T::from_f32(sticky_f32(x.sticky())),
                    }
                }
            }
        )*};
    }

    half!(f16 bf16);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integer_conversions_keep_the_low_bits() {
        assert_eq!(i8::nearest(200i16.exact()), -56);
        assert_eq!(u32::nearest((-1i64).exact()), u32::MAX);
        assert_eq!(i64::nearest(u64::MAX.exact()), -1);
    }

    #[test]
    fn fractions_round_toward_zero_and_narrow_integers_wrap() {
        let cases = [(2.9, 2), (-2.9, -2), (300.5, 44), (-300.5, -44), (3e9, 0), (f32::NAN, 0)];
        for (x, expected) in cases {
            assert_eq!(i8::nearest(x.exact()), expected, "{x}");
        }
        for (x, expected) in
            [(-0.5, 0), (-1.5, 255), (256.0, 0), (2_147_483_647.5, 255), (-1e30, 0)]
        {
            assert_eq!(u8::nearest(f64::exact(x)), expected, "{x}");
        }
        assert_eq!((i32::nearest(3e9.exact()), u32::nearest((-1.5).exact())), (i32::MAX, 0));
        assert_eq!(u16::nearest(f64::NEG_INFINITY.exact()), 0);
    }

    #[test]
    fn all_but_zero_is_true() {
        assert!(bool::nearest(f32::NAN.exact()) && bool::nearest(1e-45f32.exact()));
        assert!(!bool::nearest((-0.0f64).exact()) && !bool::nearest(0i8.exact()));
    }

    #[cfg(feature = "half")]
    #[test]
    fn numbers_are_rounded_once() {
        use half::{bf16, f16};
        // Slightly above the midpoint of two neighbors.
        let x = 1.0 + f64::exp2(-11.0) + f64::exp2(-40.0);
        assert_eq!(f16::nearest(x.exact()).to_bits(), f16::ONE.to_bits() + 1);
        assert_eq!(f16::nearest((-x).exact()).to_bits(), f16::NEG_ONE.to_bits() + 1);
        let tie = 1.0 + f64::exp2(-11.0);
        assert_eq!(f16::nearest(tie.exact()), f16::ONE);
        let n: i64 = (1 << 62) + (1 << 54) + 1;
        assert_eq!(bf16::nearest(n.exact()).to_f64(), f64::exp2(62.0) + f64::exp2(55.0));
        assert_eq!(bf16::nearest((n - 1).exact()).to_f64(), f64::exp2(62.0));
        assert_eq!(f16::nearest(1e300.exact()), f16::INFINITY);
        assert_eq!(f16::nearest(i64::MIN.exact()), f16::NEG_INFINITY);
        assert!(bf16::nearest(f64::NAN.exact()).is_nan());
    }
}
