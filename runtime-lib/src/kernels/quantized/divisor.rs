//! Quotients by one number, as bytes want them: rounded to whole numbers.

use crate::simd::Simd;

/// A number that others are divided by.
#[derive(Clone, Copy)]
pub(super) struct Divisor {
    number: f32,
    /// One over it, where two roundings can take the place of a division.
    inverse: Option<f32>,
}

/// Scales that are neither so large nor so small that quotients overflow, or that what is left of them
/// has no exact number.
pub(super) const ORDINARY: core::ops::Range<f32> = 1e-9..1e9;

impl Divisor {
    /// For quotients of sums and of products of two bytes with such scales.
    ///
    /// With `r` next to `1 / d`, `q = x · r` is within 1.5 units in the last place of the quotient, and
    /// `q + (x - q · d) · r`, whose parts are rounded once each, is before its own rounding within 2⁻²²
    /// units of it. So it ends as another number than the rounded quotient only where the middle `m` of two
    /// neighboring numbers is so near the quotient, and as another whole number only where one of these
    /// two is a half, `h`. Then `x - h · d` is half a unit of the quotient times `d`, up to 2⁻²² units. In
    /// units of the last place of `d / 2`, the left side is whole; the right side is the mantissa of `d`
    /// over 2^(23 - e), where 2^e is the power of two below `h`, 2⁷ at most. So the last 16 bits of the
    /// mantissa are those of a number that is some units away from zero. It is not zero itself: `x` would
    /// be `m · d`, whose bits are 25 or more from the first to the last, as those of `m` are.
    pub fn new(number: f32, scales: [f32; 2]) -> Divisor {
        let last = number.to_bits() & 0xffff;
        let is_near_zero = last != 0 && !(UNITS..=0x1_0000 - UNITS).contains(&last);
        let is_ordinary = [number, scales[0], scales[1]].iter().all(|x| ORDINARY.contains(x));
        let is_sure = is_ordinary && !is_near_zero;
        Divisor { number, inverse: is_sure.then_some(1.0 / number) }
    }

    /// The number.
    pub fn number(&self) -> f32 {
        self.number
    }

    /// What is rounded to the same whole number as `x` over the divisor is, or is beyond 2⁸ with it.
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

/// More than the units that the last bits of a divisor may be away from zeros.
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

    /// Divisors with any last bits, and with such as are near zeros.
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
