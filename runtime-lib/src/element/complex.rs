//! Complex numbers, which ONNX's operators mostly move.

use crate::{Elem, Summand};

/// A complex number. Numbers are ordered by real part, then by imaginary part.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd)]
#[repr(C)]
pub struct Complex<T> {
    /// The real part.
    pub re: T,
    /// The imaginary part.
    pub im: T,
}

macro_rules! complex {
    ($($T:ident: $part:literal bytes, $all:literal together;)*) => {$(
        impl Elem for Complex<$T> {}

        impl Summand for Complex<$T> {
            fn plus(self, other: Complex<$T>) -> Complex<$T> {
                Complex { re: self.re + other.re, im: self.im + other.im }
            }
        }

        impl Complex<$T> {
            /// Returns the bytes in memory: the real part, then the imaginary part.
            pub fn to_le_bytes(self) -> [u8; $all] {
                let mut bytes = [0; $all];
                let (re, im) = bytes.split_at_mut($part);
                re.copy_from_slice(&self.re.to_le_bytes());
                im.copy_from_slice(&self.im.to_le_bytes());
                bytes
            }

            /// Creates a number from its bytes in memory.
            pub fn from_le_bytes(bytes: [u8; $all]) -> Complex<$T> {
                let part = |start: usize| {
                    $T::from_le_bytes(core::array::from_fn(|i| bytes[start + i]))
                };
                Complex { re: part(0), im: part($part) }
            }
        }
    )*};
}

complex! {
    f32: 4 bytes, 8 together;
    f64: 8 bytes, 16 together;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_real_part_comes_first() {
        let x = Complex { re: 1.0f32, im: -2.5 };
        assert_eq!(x.to_le_bytes(), [0, 0, 0x80, 0x3f, 0, 0, 0x20, 0xc0]);
        assert_eq!(Complex::<f32>::from_le_bytes(x.to_le_bytes()), x);
        let x = Complex { re: 1e300f64, im: -0.5 };
        assert_eq!(Complex::<f64>::from_le_bytes(x.to_le_bytes()), x);
    }
}
