//! The numbers that elements of different types stand for, and how one becomes the other.

use crate::Elem;

/// An element that stands for a real number, however few of them its type has.
pub trait Real: Elem + Copy {
    /// The number that this stands for.
    fn exact(self) -> Exact;

    /// The element that stands for `x`, or for what is nearest to it.
    ///
    /// Ties go to the even neighbor. What is too large for a type with infinities is infinite, and
    /// the largest in a type without. Whole numbers round toward zero; those of a byte and more
    /// take the nearest that they have to a number with a fraction, and the low bits of a whole
    /// one. What is not zero is `true`.
    fn nearest(x: Exact) -> Self;
}

/// A number, exactly.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Exact {
    /// A whole number.
    Signed(i64),
    /// A whole number that is not negative.
    Unsigned(u64),
    /// A number of at most single precision.
    Single(f32),
    /// A number of double precision.
    Double(f64),
}

impl Exact {
    /// The nearest number of double precision.
    #[inline(always)]
    pub fn to_f64(self) -> f64 {
        match self {
            Exact::Signed(x) => x as f64,
            Exact::Unsigned(x) => x as f64,
            Exact::Single(x) => f64::from(x),
            Exact::Double(x) => x,
        }
    }

    /// A number of double precision that rounds to any narrower type as this number does: where
    /// bits are lost, the last of those kept is set.
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
    /// The bits that a number of 64 bits has more than a mantissa.
    const LOST: u32 = u64::BITS - f64::MANTISSA_DIGITS;
    let lost = (x & ((1 << LOST) - 1) != 0) && x >> f64::MANTISSA_DIGITS != 0;
    let kept = if lost { x >> LOST << LOST | 1 << LOST } else { x };
    kept as f64
}

/// A number of single precision that rounds to any narrower type as `x` does: where bits are lost,
/// the last of those kept is set.
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
    ($Exact:ident $Wide:ident: $($T:ident)*) => {$(
        impl Real for $T {
            #[inline(always)]
            fn exact(self) -> Exact {
                Exact::$Exact(self as $Wide)
            }

            #[inline(always)]
            fn nearest(x: Exact) -> $T {
                match x {
                    Exact::Signed(x) => x as $T,
                    Exact::Unsigned(x) => x as $T,
                    Exact::Single(x) => x as $T,
                    Exact::Double(x) => x as $T,
                }
            }
        }
    )*};
}

whole!(Signed i64: i8 i16 i32 i64);
whole!(Unsigned u64: u8 u16 u32 u64);
whole!(Single f32: f32);
whole!(Double f64: f64);

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
    fn whole_numbers_keep_their_low_bits() {
        assert_eq!(i8::nearest(200i16.exact()), -56);
        assert_eq!(u32::nearest((-1i64).exact()), u32::MAX);
        assert_eq!(i64::nearest(u64::MAX.exact()), -1);
    }

    #[test]
    fn fractions_round_toward_zero_and_stop_at_the_ends() {
        let cases = [(2.9, 2), (-2.9, -2), (300.0, 127), (-300.0, -128), (f32::NAN, 0)];
        for (x, expected) in cases {
            assert_eq!(i8::nearest(x.exact()), expected, "{x}");
        }
        assert_eq!(u8::nearest((-0.5f64).exact()), 0);
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
        // A hair above the middle between two neighbors.
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
