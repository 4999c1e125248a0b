//! Element types that can be reduced.

use crate::{Float, Number};

/// An element type that can be reduced.
pub trait Reduce: Number {
    /// The accumulator type.
    type Sum: Reduce<Sum = Self::Sum, Real = Self::Real>;
    /// The type in which functions are evaluated.
    type Real: Float<Wide = Self::Real>;

    /// Converts to the accumulator type.
    fn summand(self) -> Self::Sum;
    /// Converts from the accumulator type, rounding to nearest.
    fn of_sum(sum: Self::Sum) -> Self;
    /// Converts to a floating-point type.
    fn real(self) -> Self::Real;
    /// Converts from a floating-point type, rounding to nearest.
    fn of_real(x: Self::Real) -> Self;
}

impl<T: Float> Reduce for T {
    type Sum = T::Wide;
    type Real = T::Wide;

    #[inline(always)]
    fn summand(self) -> T::Wide {
        self.widen()
    }
    #[inline(always)]
    fn of_sum(sum: T::Wide) -> T {
        T::narrow(sum)
    }
    #[inline(always)]
    fn real(self) -> T::Wide {
        self.widen()
    }
    #[inline(always)]
    fn of_real(x: T::Wide) -> T {
        T::narrow(x)
    }
}

macro_rules! reduce_whole {
    ($($T:ident)*) => {$(
        impl Reduce for $T {
            type Sum = $T;
            type Real = f64;

            #[inline(always)]
            fn summand(self) -> $T {
                self
            }
            #[inline(always)]
            fn of_sum(sum: $T) -> $T {
                sum
            }
            #[inline(always)]
            fn real(self) -> f64 {
                self.to_f64()
            }
            #[inline(always)]
            fn of_real(x: f64) -> $T {
                Number::from_f64(x)
            }
        }
    )*};
}

reduce_whole!(i8 i16 i32 i64 u8 u16 u32 u64);
