//! Integers of 2 and 4 bits. Each value takes a byte in memory.

use crate::{Elem, Exact, Real};
use core::fmt;

macro_rules! small_ints {
    ($(
        $(#[$doc:meta])*
        $T:ident($Byte:ident): $bits:literal bits, $Exact:ident $Wide:ident;
    )*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(transparent)]
        pub struct $T($Byte);

        impl $T {
            /// The smallest.
            pub const MIN: $T = $T($Byte::MIN >> (8 - $bits));
            /// The largest.
            pub const MAX: $T = $T($Byte::MAX >> (8 - $bits));

            /// Creates a number from the low bits of `x`.
            #[inline(always)]
            pub const fn new(x: $Byte) -> $T {
                $T(x << (8 - $bits) >> (8 - $bits))
            }

            /// Returns the number.
            #[inline(always)]
            pub const fn get(self) -> $Byte {
                self.0
            }

            /// Returns the byte in memory, sign-extended.
            #[inline(always)]
            pub const fn to_le_bytes(self) -> [u8; 1] {
                self.0.to_le_bytes()
            }

            /// Creates a number from the low bits of a byte.
            #[inline(always)]
            pub const fn from_le_bytes(bytes: [u8; 1]) -> $T {
                $T::new($Byte::from_le_bytes(bytes))
            }
        }

        impl fmt::Debug for $T {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&self.0, f)
            }
        }

        impl fmt::Display for $T {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        }

        impl From<$T> for $Byte {
            fn from(x: $T) -> $Byte {
                x.0
            }
        }

        impl Elem for $T {}

        impl Real for $T {
            #[inline(always)]
            fn exact(self) -> Exact {
                Exact::$Exact($Wide::from(self.0))
            }

            /// Keeps the low bits of the byte that the number becomes.
            #[inline(always)]
            fn nearest(x: Exact) -> $T {
                $T::new($Byte::nearest(x))
            }
        }
    )*};
}

small_ints! {
    /// An integer from -2 to 1.
    I2(i8): 2 bits, Signed i64;
    /// An integer from -8 to 7.
    I4(i8): 4 bits, Signed i64;
    /// An integer from 0 to 3.
    U2(u8): 2 bits, Unsigned u64;
    /// An integer from 0 to 15.
    U4(u8): 4 bits, Unsigned u64;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_low_bits_make_the_number() {
        assert_eq!((I2::MIN.get(), I2::MAX.get()), (-2, 1));
        assert_eq!((U4::MIN.get(), U4::MAX.get()), (0, 15));
        assert_eq!([-9, -8, 7, 8].map(|x| I4::new(x).get()), [7, -8, 7, -8]);
        assert_eq!([3, 4, 7].map(|x| U2::new(x).get()), [3, 0, 3]);
        assert_eq!(
            [-9.9f32, 8.0, 15.5, f32::NAN, f32::INFINITY].map(|x| I4::nearest(x.exact()).get()),
            [7, -8, -1, 0, 0]
        );
        assert_eq!(U4::nearest(1e30f64.exact()).get(), 0);
        assert_eq!(U2::nearest((-1i64).exact()), U2::MAX);
    }

    #[test]
    fn bytes_keep_the_number() {
        for byte in 0..=u8::MAX {
            let x = I4::from_le_bytes([byte]);
            assert_eq!(I4::from_le_bytes(x.to_le_bytes()), x);
            assert_eq!(x, I4::new(byte.cast_signed()));
        }
    }
}
