//! Binary arithmetic.

use crate::loops::broadcast::{zip, zip_in_place};
use crate::loops::broadcast_f32::{fast, zip_fast, zip_fast_in_place};
use crate::loops::geometry::Broadcast;
use crate::loops::zip_vectors::{PairFunction, zip_row, zip_vectors, zip_vectors_in_place};
use crate::simd::{HAS_VECTORS, Simd, math};
use crate::{Float, Integer, Number};

/// `y = a + b`.
pub fn add<T: Number>(a: &[T], b: &[T], y: &mut [T], geometry: Broadcast<'_>) {
    zip_fast((a, b), y, geometry, fast::add, T::add);
}

/// Computes [`add`] in place, overwriting the left operand.
pub fn add_in_place<T: Number>(y: &mut [T], b: &[T], geometry: Broadcast<'_>) {
    zip_fast_in_place(y, b, geometry, fast::add_in_place, T::add);
}

/// `y = a - b`.
pub fn sub<T: Number>(a: &[T], b: &[T], y: &mut [T], geometry: Broadcast<'_>) {
    zip_fast((a, b), y, geometry, fast::sub, T::sub);
}

/// Computes [`sub`] in place, overwriting the left operand.
pub fn sub_in_place<T: Number>(y: &mut [T], b: &[T], geometry: Broadcast<'_>) {
    zip_fast_in_place(y, b, geometry, fast::sub_in_place, T::sub);
}

/// `y = a · b`.
pub fn mul<T: Number>(a: &[T], b: &[T], y: &mut [T], geometry: Broadcast<'_>) {
    zip_fast((a, b), y, geometry, fast::mul, T::mul);
}

/// Computes [`mul`] in place, overwriting the left operand.
pub fn mul_in_place<T: Number>(y: &mut [T], b: &[T], geometry: Broadcast<'_>) {
    zip_fast_in_place(y, b, geometry, fast::mul_in_place, T::mul);
}

/// `y = a / b`; integers round toward zero.
pub fn div<T: Number>(a: &[T], b: &[T], y: &mut [T], geometry: Broadcast<'_>) {
    zip_fast((a, b), y, geometry, fast::div, T::div);
}

/// Computes [`div`] in place, overwriting the left operand.
pub fn div_in_place<T: Number>(y: &mut [T], b: &[T], geometry: Broadcast<'_>) {
    zip_fast_in_place(y, b, geometry, fast::div_in_place, T::div);
}

/// `Mod`: the remainder of `a / b`, with the sign of `b`.
pub fn modulo<T: Number>(a: &[T], b: &[T], y: &mut [T], geometry: Broadcast<'_>) {
    match (T::as_f32(a), T::as_f32(b), T::as_f32_mut(y)) {
        (Some(a), Some(b), Some(y)) if HAS_VECTORS => modulo_f32(a, b, y, geometry),
        _ => zip(a, b, y, geometry, |a, b| floored_rem(*a, *b)),
    }
}

/// Computes [`modulo`] in place, overwriting the left operand.
pub fn modulo_in_place<T: Number>(y: &mut [T], b: &[T], geometry: Broadcast<'_>) {
    match (T::as_f32(b), T::as_f32_mut(y)) {
        (Some(b), Some(y)) if HAS_VECTORS => modulo_in_place_f32(y, b, geometry),
        _ => zip_in_place(y, b, geometry, |a, b| floored_rem(*a, *b)),
    }
}

/// `Mod` with `fmod`: the remainder of `a / b`, with the sign of `a`.
pub fn fmod<T: Number>(a: &[T], b: &[T], y: &mut [T], geometry: Broadcast<'_>) {
    match (T::as_f32(a), T::as_f32(b), T::as_f32_mut(y)) {
        (Some(a), Some(b), Some(y)) if HAS_VECTORS => fmod_f32(a, b, y, geometry),
        _ => zip(a, b, y, geometry, |a, b| Number::rem(*a, *b)),
    }
}

/// Computes [`fmod`] in place, overwriting the left operand.
pub fn fmod_in_place<T: Number>(y: &mut [T], b: &[T], geometry: Broadcast<'_>) {
    match (T::as_f32(b), T::as_f32_mut(y)) {
        (Some(b), Some(y)) if HAS_VECTORS => fmod_in_place_f32(y, b, geometry),
        _ => zip_in_place(y, b, geometry, |a, b| Number::rem(*a, *b)),
    }
}

/// `y = a^b`. Integers wrap around, and a negative exponent rounds an integer result toward zero.
/// The error in `f32` is at most 2 ULP.
pub fn pow<T: Power, E: Number>(a: &[T], b: &[E], y: &mut [T], geometry: Broadcast<'_>) {
    match (T::as_f32(a), E::as_f32(b), T::as_f32_mut(y)) {
        (Some(a), Some(b), Some(y)) if HAS_VECTORS => pow_f32(a, b, y, geometry),
        _ => zip(a, b, y, geometry, |a, b| a.power(*b)),
    }
}

/// Computes [`pow`] in place, overwriting the base.
pub fn pow_in_place<T: Power, E: Number>(y: &mut [T], b: &[E], geometry: Broadcast<'_>) {
    match (E::as_f32(b), T::as_f32_mut(y)) {
        (Some(b), Some(y)) if HAS_VECTORS => pow_in_place_f32(y, b, geometry),
        _ => zip_in_place(y, b, geometry, |a, b| a.power(*b)),
    }
}

/// Declares functions of two numbers, with their kernels for `f32`.
macro_rules! vectors {
    ($($Name:ident $kernel:ident $in_place:ident $row:ident |$s:ident, $a:ident, $b:ident|
        $y:expr;)*) => {$(
        #[derive(Clone, Copy)]
        struct $Name;

        impl PairFunction for $Name {
            #[inline(always)]
            fn apply<S: Simd>(self, $s: S, $a: S::F32, $b: S::F32) -> S::F32 {
                $y
            }
        }

        #[inline(never)]
        fn $row(y: &mut [f32], b: &[f32], step: usize) {
            zip_row(y, b, step, $Name);
        }

        fn $kernel(a: &[f32], b: &[f32], y: &mut [f32], geometry: Broadcast<'_>) {
            zip_vectors((a, b), y, geometry, $row);
        }

        fn $in_place(y: &mut [f32], b: &[f32], geometry: Broadcast<'_>) {
            zip_vectors_in_place(y, b, geometry, $row);
        }
    )*};
}

vectors! {
    Pow pow_f32 pow_in_place_f32 pow_row |s, a, b| math::pow(s, a, b);
    Modulo modulo_f32 modulo_in_place_f32 modulo_row |s, a, b| math::floored_remainder(s, a, b);
    Fmod fmod_f32 fmod_in_place_f32 fmod_row |s, a, b| math::remainder(s, a, b);
}

/// `y = a · 2^b`; bits that are shifted out are lost.
pub fn bit_shift_left<T: Integer>(a: &[T], b: &[T], y: &mut [T], geometry: Broadcast<'_>) {
    zip(a, b, y, geometry, |a, b| a.shl(bits(*b)));
}

/// Computes [`bit_shift_left`] in place, overwriting the left operand.
pub fn bit_shift_left_in_place<T: Integer>(y: &mut [T], b: &[T], geometry: Broadcast<'_>) {
    zip_in_place(y, b, geometry, |a, b| a.shl(bits(*b)));
}

/// `y = a / 2^b`, rounded down.
pub fn bit_shift_right<T: Integer>(a: &[T], b: &[T], y: &mut [T], geometry: Broadcast<'_>) {
    zip(a, b, y, geometry, |a, b| a.shr(bits(*b)));
}

/// Computes [`bit_shift_right`] in place, overwriting the left operand.
pub fn bit_shift_right_in_place<T: Integer>(y: &mut [T], b: &[T], geometry: Broadcast<'_>) {
    zip_in_place(y, b, geometry, |a, b| a.shr(bits(*b)));
}

/// Bitwise AND.
pub fn bitwise_and<T: Integer>(a: &[T], b: &[T], y: &mut [T], geometry: Broadcast<'_>) {
    zip(a, b, y, geometry, |a, b| a.and(*b));
}

/// Computes [`bitwise_and`] in place, overwriting the left operand.
pub fn bitwise_and_in_place<T: Integer>(y: &mut [T], b: &[T], geometry: Broadcast<'_>) {
    zip_in_place(y, b, geometry, |a, b| a.and(*b));
}

/// Bitwise OR.
pub fn bitwise_or<T: Integer>(a: &[T], b: &[T], y: &mut [T], geometry: Broadcast<'_>) {
    zip(a, b, y, geometry, |a, b| a.or(*b));
}

/// Computes [`bitwise_or`] in place, overwriting the left operand.
pub fn bitwise_or_in_place<T: Integer>(y: &mut [T], b: &[T], geometry: Broadcast<'_>) {
    zip_in_place(y, b, geometry, |a, b| a.or(*b));
}

/// Bitwise XOR.
pub fn bitwise_xor<T: Integer>(a: &[T], b: &[T], y: &mut [T], geometry: Broadcast<'_>) {
    zip(a, b, y, geometry, |a, b| a.xor(*b));
}

/// Computes [`bitwise_xor`] in place, overwriting the left operand.
pub fn bitwise_xor_in_place<T: Integer>(y: &mut [T], b: &[T], geometry: Broadcast<'_>) {
    zip_in_place(y, b, geometry, |a, b| a.xor(*b));
}

/// A number that can be raised to a power of any type.
pub trait Power: Number {
    /// `self^exponent`.
    fn power<E: Number>(self, exponent: E) -> Self;
}

impl<T: Float> Power for T {
    #[inline(always)]
    fn power<E: Number>(self, exponent: E) -> T {
        let exact = exponent.to_f64();
        let exponent = <T::Wide as Number>::from_f64(exact);
        if exponent.to_f64() == exact {
            T::narrow(self.widen().powf(exponent))
        } else {
            // The exponent has more bits than the type in which the power is computed.
            T::from_f64(self.to_f64().powf(exact))
        }
    }
}

macro_rules! power_of_integer {
    ($($T:ident)*) => {$(
        impl Power for $T {
            #[inline(always)]
            fn power<E: Number>(self, exponent: E) -> $T {
                integer_power(self, exponent.to_f64())
            }
        }
    )*};
}

power_of_integer!(i8 i16 i32 i64 u8 u16 u32 u64);

fn integer_power<T: Integer>(base: T, exponent: f64) -> T {
    if exponent < 0.0 || exponent.trunc() != exponent {
        return T::from_f64(base.to_f64().powf(exponent));
    }
    let (mut square, mut power, mut left) = (base, T::ONE, u64::from_f64(exponent));
    while left != 0 {
        if left & 1 == 1 {
            power = power.mul(square);
        }
        square = square.mul(square);
        left >>= 1;
    }
    power
}

#[inline(always)]
fn floored_rem<T: Number>(a: T, b: T) -> T {
    let rem = a.rem(b);
    if rem == T::ZERO {
        // A zero has the sign of the divisor, too.
        return T::from_f64(if b < T::ZERO { -0.0 } else { 0.0 });
    }
    let signs_differ = (rem < T::ZERO) != (b < T::ZERO);
    if signs_differ { rem.add(b) } else { rem }
}

/// Converts a shift count; a negative one becomes larger than any width.
#[inline(always)]
fn bits<T: Integer>(n: T) -> u32 {
    u32::try_from(n.to_i64()).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::fmt::Debug;

    type Kernel<T> = fn(&[T], &[T], &mut [T], Broadcast<'_>);
    type InPlace<T> = fn(&mut [T], &[T], Broadcast<'_>);

    fn check<T: Number + Debug, const N: usize>(
        (kernel, in_place): (Kernel<T>, InPlace<T>),
        a: [T; N],
        b: [T; N],
        expected: [T; N],
    ) {
        let geometry = Broadcast { sizes: &[N], a: &[1], b: &[1] };
        let mut y = [T::ONE; N];
        kernel(&a, &b, &mut y, geometry);
        assert_eq!(y, expected);
        let mut y = a;
        in_place(&mut y, &b, geometry);
        assert_eq!(y, expected, "in place");
    }

    #[test]
    fn arithmetic_wraps_around() {
        check((add, add_in_place), [i8::MAX, 3], [1, 4], [i8::MIN, 7]);
        check((sub, sub_in_place), [0u32, 9], [1, 4], [u32::MAX, 5]);
        check((mul, mul_in_place), [200u8, 3], [2, 4], [144, 12]);
        check((div, div_in_place), [i64::MIN, -7, 7], [-1, 2, 0], [i64::MIN, -3, 0]);
        check((div, div_in_place), [1.0f32, 7.0], [0.0, 2.0], [f32::INFINITY, 3.5]);
    }

    #[test]
    fn a_remainder_has_the_sign_of_the_divisor_or_of_the_dividend() {
        let (a, b) = ([7, -7, 7, -7, 6, i32::MIN, 5], [3, 3, -3, -3, -3, -1, 0]);
        check((modulo, modulo_in_place), a, b, [1, 2, -2, -1, 0, 0, 0]);
        check((fmod, fmod_in_place), a, b, [1, -1, 1, -1, 0, 0, 0]);
        let (a, b) = ([5.5f64, -5.5, 5.5, -5.5], [2.0, 2.0, -2.0, -2.0]);
        check((modulo, modulo_in_place), a, b, [1.5, 0.5, -0.5, -1.5]);
        check((fmod, fmod_in_place), a, b, [1.5, -1.5, 1.5, -1.5]);
        check((modulo, modulo_in_place), [250u8], [7], [5]);
    }

    fn signs_of_zeros<T: Number>(a: [f64; 6], b: [f64; 6]) -> [bool; 6] {
        let (a, b, mut y) = (a.map(T::from_f64), b.map(T::from_f64), [T::ONE; 6]);
        modulo(&a, &b, &mut y, Broadcast { sizes: &[6], a: &[1], b: &[1] });
        y.map(|y| {
            assert_eq!(y.to_f64(), 0.0);
            y.to_f64().is_sign_negative()
        })
    }

    #[test]
    fn a_remainder_of_zero_has_the_sign_of_the_divisor() {
        let a = [-0.0, 0.0, 6.0, -6.0, -0.0, 0.0];
        let b = [3.0, -3.0, -3.0, 3.0, f64::INFINITY, f64::NEG_INFINITY];
        let negative = b.map(f64::is_sign_negative);
        assert_eq!(signs_of_zeros::<f64>(a, b), negative);
        #[cfg(feature = "std")]
        crate::simd::each_level(|_| assert_eq!(signs_of_zeros::<f32>(a, b), negative));
    }

    #[test]
    fn bits_shift_out() {
        let left = (bit_shift_left as Kernel<u8>, bit_shift_left_in_place as InPlace<u8>);
        check(left, [1, 129, 1, 255], [3, 1, 8, 0], [8, 2, 0, 255]);
        let right = (bit_shift_right as Kernel<u64>, bit_shift_right_in_place as InPlace<u64>);
        check(right, [u64::MAX, 8, 8], [63, 1, u64::MAX], [1, 4, 0]);
        check((bitwise_and, bitwise_and_in_place), [-1i16, 12], [255, 10], [255, 8]);
        check((bitwise_or, bitwise_or_in_place), [0i16, 12], [255, 10], [255, 14]);
        check((bitwise_xor, bitwise_xor_in_place), [-1i16, 12], [255, 10], [-256, 6]);
    }

    fn powers<T: Power, E: Number, const N: usize>(a: [T; N], b: [E; N]) -> [T; N] {
        let geometry = Broadcast { sizes: &[N], a: &[1], b: &[1] };
        let (mut y, mut z) = ([T::ZERO; N], a);
        pow(&a, &b, &mut y, geometry);
        pow_in_place(&mut z, &b, geometry);
        assert!(y == z, "in place");
        y
    }

    #[test]
    fn base_and_exponent_may_differ_in_type() {
        assert_eq!(powers([2.0f32, 9.0, 0.0], [3i64, -1, 0]), [8.0, 1.0 / 9.0, 1.0]);
        assert_eq!(powers([4i32, 2, 8], [0.5f32, 3.0, -1.0]), [2, 8, 0]);
        assert_eq!(powers([-2i64, 10, 3], [63u8, 18, 0]), [i64::MIN, 10i64.pow(18), 1]);
        assert_eq!(powers([3u8, 1, 0], [6i32, -5, 0]), [217, 1, 1]);
        assert_eq!(powers([4.0f64, -8.0], [0.5f64, 3.0]), [2.0, -512.0]);
    }
}
