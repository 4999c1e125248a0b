//! Quotients by a constant, rounded to integers.

use crate::simd::Simd;

/// A number that others are divided by.
#[derive(Clone, Copy)]
pub(super) struct Divisor {
    number: f32,
    /// The reciprocal, if a multiplication and a correction give the same integers as a division.
    inverse: Option<f32>,
}

/// Scales with which neither quotients overflow nor remainders are inexact.
pub(super) const ORDINARY: core::ops::Range<f32> = 1e-9..1e9;

impl Divisor {
    /// Prepares a divisor of sums and products of two bytes with these scales.
    ///
    /// Let `r` be `1 / d` rounded. Then `q = x · r` is within 1.5 ULP of the quotient, and `q + (x
    /// - q · d) · r`, whose two operations round once each, is within 2⁻²² ULP of it before the
    /// last rounding. So it rounds to another float than the quotient only if the midpoint `m` of
    /// two adjacent floats is that close to the quotient, and to another integer only if one of
    /// these floats is a half-integer `h`. In this case `x - h · d` is half an ULP of the quotient
    /// times `d`, up to 2⁻²² ULP. In ULPs of `d / 2`, the left side is an integer, and the right
    /// side is the mantissa of `d` divided by 2^(23 - e), where 2^e is the power of two below `h`
    /// and `e` is at most 7. So the last 16 bits of the mantissa are within a few units of zero,
    /// modulo 2¹⁶. They are not zero: `x` would be `m · d`, whose bits span 25 or more positions
    /// because those of `m` do.
    pub fn new(number: f32, scales: [f32; 2]) -> Divisor {
        let last = number.to_bits() & 0xffff;
        let is_near_zero = last != 0 && !(UNITS..=0x1_0000 - UNITS).contains(&last);
        let is_ordinary = [number, scales[0], scales[1]].iter().all(|x| ORDINARY.contains(x));
        let is_sure = is_ordinary && !is_near_zero;
        Divisor { number, inverse: is_sure.then_some(1.0 / number) }
    }

    /// Returns the number.
    pub fn number(&self) -> f32 {
        self.number
    }

    /// Returns a number that rounds to the same integer as `x` divided by the divisor, unless both
    /// exceed 2⁸.
    #[inline(always)]
    pub fn quotient<S: Simd>(&self, s: S, x: S::F32) -> S::F32 {
        let number = s.splat(self.number);
        let (true, Some(inverse)) = (S::FUSES, self.inverse) else { return s.div(x, number) };
        let inverse = s.splat(inverse);
        let near = s.mul(x, inverse);
        let left = s.mul_add(near, s.splat(-self.number), x);
        s.mul_add(left, inverse, near)
    }
}

/// More than the distance of the last bits from zero in the proof of [`Divisor::new`].
const UNITS: u32 = 16;

#[cfg(all(test, feature = "std"))]
mod tests {
    use super::*;
    use crate::simd::{MAX_LANES, WithSimd, dispatch, each_level};
    use core::array::from_fn;

    struct Quotients<'a>(Divisor, &'a mut [f32; MAX_LANES]);

    impl WithSimd for Quotients<'_> {
        type Output = ();

        #[inline(always)]
        fn run<S: Simd>(self, s: S) {
            for x in self.1.chunks_exact_mut(S::LANES) {
                let quotient = self.0.quotient(s, s.load(x));
                s.store(quotient, x);
            }
        }
    }

    /// Divisors with arbitrary last bits, and with last bits near zero.
    fn divisors() -> impl Iterator<Item = f32> {
        let any = (0..300u32).map(|i| i.wrapping_mul(2_654_435_761) >> 9);
        let near = (0..40).flat_map(|i| [i, 0x1_0000 - i]).map(|i| i & 0xffff | 0x2a_0000);
        let most = (0..20).map(|i| 0x7f_ffff - i);
        any.chain(near).chain(most).map(|bits| f32::from_bits(bits | 120 << 23))
    }

    #[test]
    fn quotients_next_to_halves_are_rounded_as_those_of_a_division() {
        let whole = |x: f32| x.round_ties_even().clamp(-255.0, 255.0);
        each_level(|_| {
            for d in divisors() {
                let divisor = Divisor::new(d, [d; 2]);
                for half in 0..256 {
                    let middle = ((half as f32 + 0.5) * d).to_bits() - 8;
                    let mut x: [f32; MAX_LANES] = from_fn(|i| f32::from_bits(middle + i as u32));
                    let wanted = x.map(|x| whole(x / d));
                    dispatch(Quotients(divisor, &mut x));
                    assert_eq!(x.map(whole), wanted, "{d:e} {half}");
                }
            }
        });
    }

    #[test]
    fn most_divisors_have_an_inverse() {
        let is_sure = |d, scale| Divisor::new(d, [scale; 2]).inverse.is_some();
        assert!(divisors().filter(|&d| is_sure(d, d)).count() > 300);
        let near_zero = f32::from_bits(0x3c2a_0001);
        assert!(
            [(near_zero, 0.1), (0.1, 1e20), (1e-20, 0.1), (-0.1, 0.1), (f32::NAN, 0.1)]
                .iter()
                .all(|&(d, scale)| !is_sure(d, scale))
        );
    }
}
