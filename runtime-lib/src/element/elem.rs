//! The traits of element types. A kernel requires the weakest of [`Elem`], [`Number`], [`Integer`]
//! and [`Float`] that it needs.

/// Any element type: enough to move data.
pub trait Elem: Clone + Default + PartialEq + Send + Sync + 'static {
    /// Returns the slice as `f32` if the elements are `f32`, for kernels with a faster path.
    #[inline(always)]
    fn as_f32(_: &[Self]) -> Option<&[f32]> {
        None
    }

    /// Returns the slice as `f32` if the elements are `f32`.
    #[inline(always)]
    fn as_f32_mut(_: &mut [Self]) -> Option<&mut [f32]> {
        None
    }
}

/// An element type that can be summed, with default 0.
pub trait Summand: Elem + Copy {
    /// `self + other`.
    fn plus(self, other: Self) -> Self;
}

impl<T: Number> Summand for T {
    #[inline(always)]
    fn plus(self, other: T) -> T {
        self.add(other)
    }
}

/// An element type with arithmetic. Integers wrap around, and an integer divided by zero is zero,
/// so that no arithmetic panics.
pub trait Number: Elem + Copy + PartialOrd {
    /// 0.
    const ZERO: Self;
    /// 1.
    const ONE: Self;
    /// Less than or equal to every other value: the start of a maximum.
    const LOWEST: Self;
    /// Greater than or equal to every other value: the start of a minimum.
    const HIGHEST: Self;

    /// `self + other`.
    fn add(self, other: Self) -> Self;
    /// `self - other`.
    fn sub(self, other: Self) -> Self;
    /// `self · other`.
    fn mul(self, other: Self) -> Self;
    /// `self / other`; integers round toward zero.
    fn div(self, other: Self) -> Self;
    /// The remainder of `div`, with the sign of `self`.
    fn rem(self, other: Self) -> Self;
    /// `-self`.
    fn neg(self) -> Self;
    /// `|self|`.
    fn abs(self) -> Self;
    /// Converts from `f64`, rounding to nearest; integers round toward zero and saturate.
    fn from_f64(x: f64) -> Self;
    /// Converts to `f64`, rounding if needed.
    fn to_f64(self) -> f64;

    /// The larger of the two; NaN if either is NaN, as ONNX requires.
    #[inline(always)]
    fn maximum(self, other: Self) -> Self {
        if self > other || self.is_nan() { self } else { other }
    }

    /// The smaller of the two; NaN if either is NaN.
    #[inline(always)]
    fn minimum(self, other: Self) -> Self {
        if self < other || self.is_nan() { self } else { other }
    }

    /// Returns whether the value is NaN.
    #[inline(always)]
    fn is_nan(self) -> bool {
        self.partial_cmp(&self).is_none()
    }
}

/// An integer type.
pub trait Integer: Number + Eq + Ord {
    /// Converts from `i64`, keeping the low bits.
    fn from_i64(x: i64) -> Self;
    /// Converts to `i64`; `u64` above `i64::MAX` wraps around.
    fn to_i64(self) -> i64;
    /// Bitwise AND.
    fn and(self, other: Self) -> Self;
    /// Bitwise OR.
    fn or(self, other: Self) -> Self;
    /// Bitwise XOR.
    fn xor(self, other: Self) -> Self;
    /// Bitwise NOT.
    fn not(self) -> Self;
    /// `self · 2^n`; zero if all bits are shifted out.
    fn shl(self, n: u32) -> Self;
    /// `self / 2^n`, rounded down.
    fn shr(self, n: u32) -> Self;
}

/// A floating-point type. 16-bit types compute in `f32`.
pub trait Float: Number {
    /// The accumulator type, in which functions are evaluated as well: `f32` or `f64`.
    type Wide: Float<Wide = Self::Wide>;
    /// Whether operators defined by other operators round a sum at each step, as ONNX's reference
    /// evaluator does for `bf16` only.
    const ROUNDS_SUMS: bool = false;

    /// Converts to the wide type, exactly.
    fn widen(self) -> Self::Wide;
    /// Converts from the wide type, rounding to nearest even.
    fn narrow(x: Self::Wide) -> Self;

    /// `e^self`.
    fn exp(self) -> Self;
    /// The natural logarithm.
    fn ln(self) -> Self;
    /// `ln(1 + self)`, accurate near zero.
    fn ln_1p(self) -> Self;
    /// `e^self - 1`, accurate near zero.
    fn exp_m1(self) -> Self;
    /// The square root.
    fn sqrt(self) -> Self;
    /// `self^exponent`.
    fn powf(self, exponent: Self) -> Self;
    /// The sine of an angle in radians.
    fn sin(self) -> Self;
    /// The cosine of an angle in radians.
    fn cos(self) -> Self;
    /// The tangent of an angle in radians.
    fn tan(self) -> Self;
    /// The arcsine in radians.
    fn asin(self) -> Self;
    /// The arccosine in radians.
    fn acos(self) -> Self;
    /// The arctangent in radians.
    fn atan(self) -> Self;
    /// The hyperbolic sine.
    fn sinh(self) -> Self;
    /// The hyperbolic cosine.
    fn cosh(self) -> Self;
    /// The hyperbolic tangent.
    fn tanh(self) -> Self;
    /// The inverse of [`Float::sinh`].
    fn asinh(self) -> Self;
    /// The inverse of [`Float::cosh`].
    fn acosh(self) -> Self;
    /// The inverse of [`Float::tanh`].
    fn atanh(self) -> Self;
    /// The error function, `2/√π ∫₀ˣ e^(-t²) dt`.
    fn erf(self) -> Self;
    /// Rounds down.
    fn floor(self) -> Self;
    /// Rounds up.
    fn ceil(self) -> Self;
    /// Rounds to the nearest integer, halves to even.
    fn round(self) -> Self;
    /// Rounds toward zero.
    fn trunc(self) -> Self;
}

impl Elem for bool {}
#[cfg(feature = "alloc")]
impl Elem for alloc::string::String {}

macro_rules! whole {
    ($($T:ident)*) => {$(
        impl Elem for $T {}

        impl Number for $T {
            const ZERO: $T = 0;
            const ONE: $T = 1;
            const LOWEST: $T = $T::MIN;
            const HIGHEST: $T = $T::MAX;

            #[inline(always)]
            fn add(self, other: $T) -> $T {
                self.wrapping_add(other)
            }
            #[inline(always)]
            fn sub(self, other: $T) -> $T {
                self.wrapping_sub(other)
            }
            #[inline(always)]
            fn mul(self, other: $T) -> $T {
                self.wrapping_mul(other)
            }
            #[inline(always)]
            fn div(self, other: $T) -> $T {
                if other == 0 { 0 } else { self.wrapping_div(other) }
            }
            #[inline(always)]
            fn rem(self, other: $T) -> $T {
                if other == 0 { 0 } else { self.wrapping_rem(other) }
            }
            #[inline(always)]
            fn neg(self) -> $T {
                self.wrapping_neg()
            }
            #[inline(always)]
            #[allow(unused_comparisons)]
            fn abs(self) -> $T {
                if self < 0 { self.wrapping_neg() } else { self }
            }
            #[inline(always)]
            fn from_f64(x: f64) -> $T {
                x as $T
            }
            #[inline(always)]
            fn to_f64(self) -> f64 {
                self as f64
            }
        }

        impl Integer for $T {
            #[inline(always)]
            fn from_i64(x: i64) -> $T {
                x as $T
            }
            #[inline(always)]
            fn to_i64(self) -> i64 {
                self as i64
            }
            #[inline(always)]
            fn and(self, other: $T) -> $T {
                self & other
            }
            #[inline(always)]
            fn or(self, other: $T) -> $T {
                self | other
            }
            #[inline(always)]
            fn xor(self, other: $T) -> $T {
                self ^ other
            }
            #[inline(always)]
            fn not(self) -> $T {
                !self
            }
            #[inline(always)]
            fn shl(self, n: u32) -> $T {
                self.checked_shl(n).unwrap_or(0)
            }
            #[inline(always)]
            fn shr(self, n: u32) -> $T {
                self >> Ord::min(n, $T::BITS - 1) >> u32::from(n >= $T::BITS)
            }
        }
    )*};
}

whole!(i8 i16 i32 i64 u8 u16 u32 u64);

impl Elem for f32 {
    #[inline(always)]
    fn as_f32(x: &[f32]) -> Option<&[f32]> {
        Some(x)
    }

    #[inline(always)]
    fn as_f32_mut(x: &mut [f32]) -> Option<&mut [f32]> {
        Some(x)
    }
}

impl Elem for f64 {}

macro_rules! real {
    ($($T:ident: $($name:ident = $function:ident)*;)*) => {$(
        impl Number for $T {
            const ZERO: $T = 0.0;
            const ONE: $T = 1.0;
            const LOWEST: $T = $T::NEG_INFINITY;
            const HIGHEST: $T = $T::INFINITY;

            #[inline(always)]
            fn maximum(self, other: $T) -> $T {
                // Not a selection of `other`: the compiler would merge the two, and use no
                // instruction for the maximum.
                let larger = if other > self { other } else { self };
                let nan = if other.is_nan() { $T::NAN.to_bits() } else { 0 };
                $T::from_bits(larger.to_bits() | nan)
            }
            #[inline(always)]
            fn minimum(self, other: $T) -> $T {
                let smaller = if other < self { other } else { self };
                let nan = if other.is_nan() { $T::NAN.to_bits() } else { 0 };
                $T::from_bits(smaller.to_bits() | nan)
            }

            #[inline(always)]
            fn add(self, other: $T) -> $T {
                self + other
            }
            #[inline(always)]
            fn sub(self, other: $T) -> $T {
                self - other
            }
            #[inline(always)]
            fn mul(self, other: $T) -> $T {
                self * other
            }
            #[inline(always)]
            fn div(self, other: $T) -> $T {
                self / other
            }
            #[inline(always)]
            fn rem(self, other: $T) -> $T {
                self % other
            }
            #[inline(always)]
            fn neg(self) -> $T {
                -self
            }
            #[inline(always)]
            fn abs(self) -> $T {
                self.abs()
            }
            #[inline(always)]
            fn from_f64(x: f64) -> $T {
                x as $T
            }
            #[inline(always)]
            fn to_f64(self) -> f64 {
                self as f64
            }
        }

        impl Float for $T {
            type Wide = $T;

            #[inline(always)]
            fn widen(self) -> $T {
                self
            }
            #[inline(always)]
            fn narrow(x: $T) -> $T {
                x
            }
            $(
                #[inline(always)]
                fn $name(self) -> $T {
                    libm::$function(self)
                }
            )*
            #[inline(always)]
            fn sqrt(self) -> $T {
                // libm's square root is always an SSE instruction, whose transition from AVX costs
                // hundreds of cycles.
                #[cfg(feature = "std")]
                return <$T>::sqrt(self);
                #[cfg(not(feature = "std"))]
                libm::Libm::<$T>::sqrt(self)
            }
            #[inline(always)]
            fn acosh(self) -> $T {
                // libm returns numbers for arguments below -1, too.
                if self < 1.0 { <$T>::NAN } else { libm::Libm::<$T>::acosh(self) }
            }
            #[inline(always)]
            fn powf(self, exponent: $T) -> $T {
                libm::Libm::<$T>::pow(self, exponent)
            }
        }
    )*};
}

real! {
    f32: exp = expf ln = logf ln_1p = log1pf exp_m1 = expm1f sin = sinf cos = cosf
        tan = tanf asin = asinf acos = acosf atan = atanf sinh = sinhf cosh = coshf tanh = tanhf
        asinh = asinhf atanh = atanhf erf = erff floor = floorf ceil = ceilf
        round = rintf trunc = truncf;
    f64: exp = exp ln = log ln_1p = log1p exp_m1 = expm1 sin = sin cos = cos
        tan = tan asin = asin acos = acos atan = atan sinh = sinh cosh = cosh tanh = tanh
        asinh = asinh atanh = atanh erf = erf floor = floor ceil = ceil
        round = rint trunc = trunc;
}

#[cfg(feature = "half")]
mod half_types {
    use super::{Elem, Float, Number};
    use crate::element::{Exact, Real};
    use half::{bf16, f16};

    macro_rules! half {
        ($T:ident, $rounds_sums:literal: $($name:ident)*) => {
            impl Elem for $T {}

            impl Number for $T {
                const ZERO: $T = $T::ZERO;
                const ONE: $T = $T::ONE;
                const LOWEST: $T = $T::NEG_INFINITY;
                const HIGHEST: $T = $T::INFINITY;

                #[inline(always)]
                fn add(self, other: $T) -> $T {
                    self + other
                }
                #[inline(always)]
                fn sub(self, other: $T) -> $T {
                    self - other
                }
                #[inline(always)]
                fn mul(self, other: $T) -> $T {
                    self * other
                }
                #[inline(always)]
                fn div(self, other: $T) -> $T {
                    self / other
                }
                #[inline(always)]
                fn rem(self, other: $T) -> $T {
                    self % other
                }
                #[inline(always)]
                fn neg(self) -> $T {
                    -self
                }
                #[inline(always)]
                fn abs(self) -> $T {
                    $T::from_bits(self.to_bits() & 0x7fff)
                }
                #[inline(always)]
                fn from_f64(x: f64) -> $T {
                    $T::nearest(Exact::Double(x))
                }
                #[inline(always)]
                fn to_f64(self) -> f64 {
                    self.into()
                }
            }

            impl Float for $T {
                type Wide = f32;
                const ROUNDS_SUMS: bool = $rounds_sums;

                #[inline(always)]
                fn widen(self) -> f32 {
                    self.to_f32()
                }
                #[inline(always)]
                fn narrow(x: f32) -> $T {
                    $T::from_f32(x)
                }
                $(
                    #[inline(always)]
                    fn $name(self) -> $T {
                        $T::from_f32(Float::$name(self.to_f32()))
                    }
                )*
                #[inline(always)]
                fn powf(self, exponent: $T) -> $T {
                    $T::from_f32(Float::powf(self.to_f32(), exponent.to_f32()))
                }
            }
        };
    }

    half!(f16, false: exp ln ln_1p exp_m1 sqrt sin cos tan asin acos atan sinh cosh tanh asinh acosh
        atanh erf floor ceil round trunc);
    half!(bf16, true: exp ln ln_1p exp_m1 sqrt sin cos tan asin acos atan sinh cosh tanh asinh acosh
        atanh erf floor ceil round trunc);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integer_operations_never_panic() {
        assert_eq!(Number::div(i8::MIN, -1), i8::MIN);
        assert_eq!(Number::rem(7i32, 0), 0);
        assert_eq!(Number::abs(i8::MIN), i8::MIN);
        assert_eq!(Integer::shl(1u8, 8), 0);
        assert_eq!((Integer::shr(128u8, 8), Integer::shr(-1i8, 9)), (0, -1));
    }

    #[test]
    fn not_a_number_wins() {
        assert!(Number::maximum(1.0, f32::NAN).is_nan() && Number::maximum(f32::NAN, 1.0).is_nan());
        assert!(Number::minimum(1.0, f32::NAN).is_nan() && Number::minimum(f32::NAN, 1.0).is_nan());
    }
}
