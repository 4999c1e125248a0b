//! Floating-point types of 4, 6 and 8 bits. Each value takes a byte in memory.

use crate::{Elem, Exact, Real};
use core::{cmp::Ordering, fmt};

/// The encoding of a type: sign, exponent, mantissa.
struct Layout {
    exponent: u32,
    mantissa: u32,
    /// The exponent bias.
    bias: i32,
    /// The bits of the largest finite number.
    largest: u8,
    /// The bits of infinity, if the type has one.
    infinity: Option<u8>,
    /// The bits of NaN; negative zero in a type without NaN.
    nan: u8,
    /// Whether the type has no negative zero; its bits mean NaN.
    unsigned_zero: bool,
}

/// The result of converting a number that is too large.
#[derive(Clone, Copy, PartialEq)]
enum Overflow {
    /// Saturates to the largest number.
    Saturate,
    /// Becomes infinite, or NaN in a type without infinity.
    ToNonFinite,
}

const E4M3FN: Layout = Layout {
    exponent: 4,
    mantissa: 3,
    bias: 7,
    largest: 0x7e,
    infinity: None,
    nan: 0x7f,
    unsigned_zero: false,
};
const E4M3FNUZ: Layout =
    Layout { bias: 8, largest: 0x7f, nan: 0x80, unsigned_zero: true, ..E4M3FN };
const E5M2: Layout = Layout {
    exponent: 5,
    mantissa: 2,
    bias: 15,
    largest: 0x7b,
    infinity: Some(0x7c),
    nan: 0x7e,
    unsigned_zero: false,
};
const E5M2FNUZ: Layout =
    Layout { bias: 16, largest: 0x7f, infinity: None, nan: 0x80, unsigned_zero: true, ..E5M2 };
const E2M1: Layout = Layout {
    exponent: 2,
    mantissa: 1,
    bias: 1,
    largest: 0x7,
    infinity: None,
    nan: 0x8,
    unsigned_zero: false,
};
const E2M3: Layout = Layout { mantissa: 3, largest: 0x1f, nan: 0x20, ..E2M1 };
const E3M2: Layout = Layout { exponent: 3, mantissa: 2, bias: 3, largest: 0x1f, nan: 0x20, ..E2M1 };

/// A magnitude beyond the range of all types here.
const TOO_LARGE: f64 = 131_072.0;

impl Layout {
    const fn sign(&self) -> u8 {
        1 << (self.exponent + self.mantissa)
    }

    /// Returns the bits of the number nearest to `x`; ties round to even.
    fn encode(&self, x: f64, overflow: Overflow) -> u8 {
        let sign = if x.is_sign_negative() { self.sign() } else { 0 };
        let nan = if self.unsigned_zero { self.nan } else { self.nan ^ sign };
        if x.is_nan() {
            return nan;
        }
        let magnitude = self.magnitude(x.abs().min(TOO_LARGE));
        match u8::try_from(magnitude).ok().filter(|&bits| bits <= self.largest) {
            Some(0) if self.unsigned_zero => 0,
            Some(bits) => bits | sign,
            None if overflow == Overflow::Saturate => self.largest | sign,
            None => self.infinity.map_or(nan, |bits| bits | sign),
        }
    }

    /// Returns the bits of the number nearest to `x ≥ 0`, as if the exponent were unbounded.
    fn magnitude(&self, x: f64) -> u32 {
        let least = 1 - self.bias;
        let exponent = exponent(x).max(least);
        // The distance from zero in units of the spacing: an integer after rounding. The leading
        // bit of a normal number carries into the exponent.
        let steps = libm::rint(x * power_of_two(self.mantissa.cast_signed() - exponent)) as u32;
        ((exponent - least).cast_unsigned() << self.mantissa) + steps
    }

    fn decode(&self, bits: u8) -> f32 {
        let negative = bits & self.sign() != 0;
        let magnitude = bits & (self.sign() - 1);
        let x = match magnitude {
            0 if self.unsigned_zero && negative => f32::NAN,
            bits if bits <= self.largest => {
                let (stored, steps) = (bits >> self.mantissa, bits & ((1 << self.mantissa) - 1));
                let steps = if stored == 0 { steps } else { steps + (1 << self.mantissa) };
                let exponent = i32::from(stored.max(1)) - self.bias - self.mantissa.cast_signed();
                f32::from(steps) * power_of_two(exponent) as f32
            }
            bits if Some(bits) == self.infinity => f32::INFINITY,
            _ => f32::NAN,
        };
        if negative { -x } else { x }
    }
}

/// Returns the binary exponent of `x`; -1023 for zero and subnormal numbers.
fn exponent(x: f64) -> i32 {
    (x.to_bits() >> 52 & 0x7ff) as i32 - 1023
}

fn power_of_two(exponent: i32) -> f64 {
    f64::from_bits(u64::from((exponent + 1023).cast_unsigned()) << 52)
}

/// An 8-bit floating-point type that `Cast` can convert to without saturation.
pub trait Float8: Real {
    /// [`Real::nearest`], but a number that is too large becomes infinite, or NaN in a type without
    /// infinities.
    fn unsaturated(x: Exact) -> Self;
}

/// Implements the methods that all types here share.
macro_rules! byte {
    ($T:ident: $bits:literal bits) => {
        impl $T {
            /// Creates a number from the low bits of `bits`.
            #[inline(always)]
            pub const fn from_bits(bits: u8) -> $T {
                $T(bits << (8 - $bits) >> (8 - $bits))
            }

            /// Returns the bits.
            #[inline(always)]
            pub const fn to_bits(self) -> u8 {
                self.0
            }

            /// Returns the byte in memory.
            #[inline(always)]
            pub const fn to_le_bytes(self) -> [u8; 1] {
                [self.0]
            }

            /// Creates a number from the low bits of a byte.
            #[inline(always)]
            pub const fn from_le_bytes([bits]: [u8; 1]) -> $T {
                $T::from_bits(bits)
            }

            /// Returns the number nearest to `x`, as [`Real::nearest`] does.
            pub fn from_f32(x: f32) -> $T {
                $T::nearest(Exact::Single(x))
            }
        }

        impl From<$T> for f32 {
            fn from(x: $T) -> f32 {
                x.to_f32()
            }
        }

        impl PartialEq for $T {
            fn eq(&self, other: &$T) -> bool {
                self.to_f32() == other.to_f32()
            }
        }

        impl PartialOrd for $T {
            fn partial_cmp(&self, other: &$T) -> Option<Ordering> {
                self.to_f32().partial_cmp(&other.to_f32())
            }
        }

        impl fmt::Debug for $T {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&self.to_f32(), f)
            }
        }

        impl fmt::Display for $T {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.to_f32(), f)
            }
        }

        impl Elem for $T {}
    };
}

macro_rules! small_floats {
    ($($(#[$doc:meta])* $T:ident: $bits:literal bits, $layout:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Default)]
        #[repr(transparent)]
        pub struct $T(u8);

        byte!($T: $bits bits);

        impl $T {
            /// Converts to `f32`, exactly.
            pub fn to_f32(self) -> f32 {
                $layout.decode(self.0)
            }
        }

        impl Real for $T {
            #[inline]
            fn exact(self) -> Exact {
                Exact::Single(self.to_f32())
            }

            /// Saturates a number that is too large, or infinite, to the largest of its sign.
            #[inline]
            fn nearest(x: Exact) -> $T {
                $T($layout.encode(x.sticky(), Overflow::Saturate))
            }
        }
    )*};
}

small_floats! {
    /// 4 bits of exponent and 3 of mantissa: up to 448, no infinity.
    F8E4M3FN: 8 bits, E4M3FN;
    /// 4 bits of exponent and 3 of mantissa: up to 240, no infinity, no negative zero.
    F8E4M3FNUZ: 8 bits, E4M3FNUZ;
    /// 5 bits of exponent and 2 of mantissa: up to 57344.
    F8E5M2: 8 bits, E5M2;
    /// 5 bits of exponent and 2 of mantissa: up to 57344, no infinity, no negative zero.
    F8E5M2FNUZ: 8 bits, E5M2FNUZ;
    /// 2 bits of exponent and 1 of mantissa: up to 6, neither infinity nor NaN.
    F4E2M1: 4 bits, E2M1;
    /// 2 bits of exponent and 3 of mantissa: up to 7.5, neither infinity nor NaN.
    F6E2M3: 6 bits, E2M3;
    /// 3 bits of exponent and 2 of mantissa: up to 28, neither infinity nor NaN.
    F6E3M2: 6 bits, E3M2;
}

macro_rules! unsaturated {
    ($($T:ident: $layout:ident;)*) => {$(
        impl Float8 for $T {
            #[inline]
            fn unsaturated(x: Exact) -> $T {
                $T($layout.encode(x.sticky(), Overflow::ToNonFinite))
            }
        }
    )*};
}

unsaturated! {
    F8E4M3FN: E4M3FN;
    F8E4M3FNUZ: E4M3FNUZ;
    F8E5M2: E5M2;
    F8E5M2FNUZ: E5M2FNUZ;
}

/// A scale: a power of two from 2^-127 to 2^127, or NaN. The default is 2^-127.
#[derive(Clone, Copy, Default)]
#[repr(transparent)]
pub struct F8E8M0(u8);

byte!(F8E8M0: 8 bits);

/// The direction of rounding to a power of two.
#[derive(Clone, Copy)]
enum Rounding {
    Up,
    Down,
    /// To the nearest; ties round up.
    Nearest,
}

impl F8E8M0 {
    /// NaN.
    pub const NAN: F8E8M0 = F8E8M0(0xff);
    /// The largest: 2^127.
    pub const MAX: F8E8M0 = F8E8M0(0xfe);
    /// The smallest: 2^-127.
    pub const MIN: F8E8M0 = F8E8M0(0);

    /// Converts to `f32`, exactly.
    pub fn to_f32(self) -> f32 {
        match self.0 {
            0xff => f32::NAN,
            bits => power_of_two(i32::from(bits) - 127) as f32,
        }
    }

    /// Returns the power of two nearest to `x`; ties round up, and numbers out of range saturate.
    pub fn rounded(x: Exact) -> F8E8M0 {
        F8E8M0::encode(x, Rounding::Nearest, Overflow::Saturate)
    }

    /// Returns the power of two nearest to `x`; ties round up, and numbers out of range give NaN.
    pub fn rounded_unsaturated(x: Exact) -> F8E8M0 {
        F8E8M0::encode(x, Rounding::Nearest, Overflow::ToNonFinite)
    }

    /// Returns the largest power of two that is at most `x`; numbers out of range saturate.
    pub fn below(x: Exact) -> F8E8M0 {
        F8E8M0::encode(x, Rounding::Down, Overflow::Saturate)
    }

    /// Returns the largest power of two that is at most `x`; numbers out of range give NaN.
    pub fn below_unsaturated(x: Exact) -> F8E8M0 {
        F8E8M0::encode(x, Rounding::Down, Overflow::ToNonFinite)
    }

    fn encode(x: Exact, rounding: Rounding, overflow: Overflow) -> F8E8M0 {
        let x = x.sticky();
        if x.is_nan() || x < 0.0 {
            return F8E8M0::NAN;
        }
        let mantissa = x.to_bits() & ((1 << 52) - 1);
        let up = match rounding {
            Rounding::Up => mantissa != 0,
            Rounding::Down => false,
            Rounding::Nearest => mantissa >= 1 << 51,
        };
        let stored = exponent(x) + i32::from(up) + 127;
        match (u8::try_from(stored), overflow) {
            (Ok(bits @ 0..=0xfe), _) => F8E8M0(bits),
            (_, Overflow::ToNonFinite) => F8E8M0::NAN,
            _ if stored < 0 => F8E8M0::MIN,
            _ => F8E8M0::MAX,
        }
    }
}

impl Real for F8E8M0 {
    #[inline]
    fn exact(self) -> Exact {
        Exact::Single(self.to_f32())
    }

    /// Returns the smallest power of two that is at least `x`; numbers out of range saturate.
    /// Returns NaN for a negative number.
    #[inline]
    fn nearest(x: Exact) -> F8E8M0 {
        F8E8M0::encode(x, Rounding::Up, Overflow::Saturate)
    }
}

impl Float8 for F8E8M0 {
    #[inline]
    fn unsaturated(x: Exact) -> F8E8M0 {
        F8E8M0::encode(x, Rounding::Up, Overflow::ToNonFinite)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks the rounding of a type with `bits` bits: every value maps to itself, the midpoint of
    /// two neighbors to the even one, and other numbers to the nearer one.
    fn check<T: Real>(bits: u32, largest: f32, from: fn(u8) -> T, to: fn(T) -> (u8, f32)) {
        let sign = 1u8 << (bits - 1);
        let mut previous = (0, 0.0);
        for byte in 0..sign {
            let (_, x) = to(from(byte));
            if !x.is_finite() {
                continue;
            }
            for (x, expected) in [(x, byte), (-x, byte | sign)] {
                let (found, y) = to(T::nearest(x.exact()));
                assert!(found == expected || (x == 0.0 && found == 0), "{x} is {found:#x}");
                assert_eq!(y, x);
            }
            if byte > 0 {
                let middle = f64::from(x + previous.1) / 2.0;
                let even = if byte % 2 == 0 { byte } else { previous.0 };
                let epsilon = 1e-9;
                let rounds = [(1.0 - epsilon, previous.0), (1.0, even), (1.0 + epsilon, byte)];
                for (factor, expected) in rounds {
                    let found = to(T::nearest((middle * factor).exact())).0;
                    assert_eq!(found, expected, "{}", middle * factor);
                }
            }
            previous = (byte, x);
        }
        assert_eq!(previous.1, largest);
        for (x, expected) in [(f32::INFINITY, largest), (-1e30, -largest), (1e30, largest)] {
            assert_eq!(to(T::nearest(x.exact())).1, expected);
        }
    }

    #[test]
    fn numbers_round_to_the_nearest() {
        macro_rules! check {
            ($($T:ident $bits:literal $largest:literal)*) => {
                $(check($bits, $largest, $T::from_bits, |x: $T| (x.to_bits(), x.to_f32()));)*
            };
        }
        check!(F8E4M3FN 8 448.0 F8E4M3FNUZ 8 240.0 F8E5M2 8 57_344.0 F8E5M2FNUZ 8 57_344.0);
        check!(F4E2M1 4 6.0 F6E2M3 6 7.5 F6E3M2 6 28.0);
    }

    /// The tables of ONNX's `Cast`.
    #[test]
    fn overflow_follows_the_tables_of_cast() {
        macro_rules! bits {
            ($x:expr, $function:ident) => {
                [
                    F8E4M3FN::$function($x.exact()).to_bits(),
                    F8E4M3FNUZ::$function($x.exact()).to_bits(),
                    F8E5M2::$function($x.exact()).to_bits(),
                    F8E5M2FNUZ::$function($x.exact()).to_bits(),
                ]
            };
        }
        let cases = [
            (-0.0, [0x80, 0, 0x80, 0], [0x80, 0, 0x80, 0]),
            (f32::NAN, [0x7f, 0x80, 0x7e, 0x80], [0x7f, 0x80, 0x7e, 0x80]),
            (-f32::NAN, [0xff, 0x80, 0xfe, 0x80], [0xff, 0x80, 0xfe, 0x80]),
            (f32::INFINITY, [0x7e, 0x7f, 0x7b, 0x7f], [0x7f, 0x80, 0x7c, 0x80]),
            (f32::NEG_INFINITY, [0xfe, 0xff, 0xfb, 0xff], [0xff, 0x80, 0xfc, 0x80]),
            (70_000.0, [0x7e, 0x7f, 0x7b, 0x7f], [0x7f, 0x80, 0x7c, 0x80]),
            (-1e-9, [0x80, 0, 0x80, 0], [0x80, 0, 0x80, 0]),
        ];
        for (x, saturated, unsaturated) in cases {
            assert_eq!(bits!(x, nearest), saturated, "{x}");
            assert_eq!(bits!(x, unsaturated), unsaturated, "{x}");
        }
        // The midpoint between the largest number and the next one.
        assert_eq!(F8E4M3FN::unsaturated(464.0f32.exact()).to_bits(), 0x7e);
        assert_eq!(F8E4M3FN::unsaturated(464.1f32.exact()).to_bits(), 0x7f);
        assert_eq!(F8E5M2::unsaturated(61_440.0f32.exact()).to_bits(), 0x7c);
    }

    #[test]
    fn powers_of_two_round_up_down_or_to_the_nearest() {
        let cases = [
            (1.0, [127; 3]),
            (1.1, [128, 127, 127]),
            (1.5, [128, 127, 128]),
            (1.49, [128, 127, 127]),
            (f64::from(f32::MAX), [0xfe; 3]),
            (f64::INFINITY, [0xfe; 3]),
            (0.0, [0; 3]),
            (1e-300, [0; 3]),
            (-1.0, [0xff; 3]),
            (f64::NAN, [0xff; 3]),
        ];
        for (x, expected) in cases {
            let x = x.exact();
            let found = [F8E8M0::nearest(x), F8E8M0::below(x), F8E8M0::rounded(x)];
            assert_eq!(found.map(F8E8M0::to_bits), expected, "{x:?}");
        }
        let outside = [0.0, f64::INFINITY, 1e300, 1e-300].map(f64::exact);
        for x in outside {
            assert!(F8E8M0::unsaturated(x).to_f32().is_nan());
            assert!(F8E8M0::below_unsaturated(x).to_f32().is_nan());
            assert!(F8E8M0::rounded_unsaturated(x).to_f32().is_nan());
        }
        let n = (1u64 << 60) + 1;
        assert_eq!(F8E8M0::nearest(n.exact()).to_f32(), libm::exp2f(61.0));
        for bits in 0..0xff {
            let x = F8E8M0::from_bits(bits);
            assert_eq!(F8E8M0::below(x.exact()).to_bits(), bits);
            assert_eq!(F8E8M0::unsaturated(x.exact()).to_bits(), bits);
        }
    }
}
