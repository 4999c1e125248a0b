//! The types that tensors are quantized to.

use crate::simd::int8::Byte;
use crate::{
    F4E2M1, F6E2M3, F6E3M2, F8E4M3FN, F8E4M3FNUZ, F8E5M2, F8E5M2FNUZ, I2, I4, Real, U2, U4,
};

/// A type that a tensor can be quantized to, or `i32`.
pub trait Quantum: Real {
    /// Converts to `f32`, rounding to the nearest.
    fn single(self) -> f32;
}

/// An integer type that a tensor can be quantized to. Its numbers, and sums of two of them, are
/// exact in `f32`.
pub trait WholeQuantum: Quantum {
    /// The smallest number.
    const LOW: f32;
    /// The largest number.
    const HIGH: f32;

    /// Converts an integer from [`Self::LOW`] to [`Self::HIGH`].
    fn whole(x: f32) -> Self;

    /// Returns the bits of the numbers, if each is a byte.
    #[inline(always)]
    fn bytes_mut(_: &mut [Self]) -> Option<&mut [u8]> {
        None
    }
}

/// 1.5 · 2²³, where consecutive `f32` are 1 apart: its sum with an integer below 2²² in magnitude
/// has the integer in the low bits of the mantissa.
const NO_FRACTION: f32 = 1.5 * (1 << (f32::MANTISSA_DIGITS - 1)) as f32;

macro_rules! whole {
    ($($T:ident: $bytes_mut:expr;)*) => {$(
        impl Quantum for $T {
            #[inline(always)]
            fn single(self) -> f32 {
                f32::from(self)
            }
        }

        impl WholeQuantum for $T {
            const LOW: f32 = $T::MIN as f32;
            const HIGH: f32 = $T::MAX as f32;

            #[inline(always)]
            fn whole(x: f32) -> $T {
                (x + NO_FRACTION).to_bits() as $T
            }

            #[inline(always)]
            fn bytes_mut(y: &mut [$T]) -> Option<&mut [u8]> {
                $bytes_mut(y)
            }
        }
    )*};
}

whole! { i8: bits_mut; u8: bits_mut; i16: none; u16: none; }

#[inline(always)]
fn bits_mut<T: Byte>(y: &mut [T]) -> Option<&mut [u8]> {
    Some(T::bits_mut(y))
}

#[inline(always)]
fn none<T>(_: &mut [T]) -> Option<&mut [u8]> {
    None
}

macro_rules! small_whole {
    ($($T:ident: $Byte:ident;)*) => {$(
        impl Quantum for $T {
            #[inline(always)]
            fn single(self) -> f32 {
                f32::from(self.get())
            }
        }

        impl WholeQuantum for $T {
            const LOW: f32 = $T::MIN.get() as f32;
            const HIGH: f32 = $T::MAX.get() as f32;

            #[inline(always)]
            fn whole(x: f32) -> $T {
                $T::new((x + NO_FRACTION).to_bits() as $Byte)
            }
        }
    )*};
}

small_whole! { I2: i8; I4: i8; U2: u8; U4: u8; }

macro_rules! real {
    ($($T:ident)*) => {$(
        impl Quantum for $T {
            #[inline(always)]
            fn single(self) -> f32 {
                self.to_f32()
            }
        }
    )*};
}

real!(F8E4M3FN F8E4M3FNUZ F8E5M2 F8E5M2FNUZ F4E2M1 F6E2M3 F6E3M2);

impl Quantum for i32 {
    #[inline(always)]
    fn single(self) -> f32 {
        self as f32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_are_the_low_bits_of_the_mantissa() {
        for x in -(1 << 15)..1 << 16 {
            let single = x as f32;
            assert_eq!(
                (i32::from(i16::whole(single)), u16::whole(single)),
                (i32::from(x as i16), x as u16)
            );
        }
        assert_eq!([-128.0, -1.0, 0.0, 127.0].map(i8::whole), [-128, -1, 0, 127]);
        assert_eq!([-2.0, -1.0, 0.0, 1.0].map(|x| I2::whole(x).get()), [-2, -1, 0, 1]);
        assert_eq!([0.0, 7.0, 15.0].map(|x| U4::whole(x).get()), [0, 7, 15]);
    }
}
