//! Exact requantization: an accumulator times a factor, rounded once, as the specification of
//! `QLinearConv` requires. The results do not depend on the processor's rounding.

/// Returns the integer nearest to `sum · factor`, ties to even. A result beyond 2²³ may be any
/// number beyond it, of the same sign.
#[inline(never)]
pub(crate) fn scaled(sum: i32, factor: f32) -> i32 {
    let bits = factor.to_bits();
    let mantissa = i64::from(bits & 0x7f_ffff | 0x80_0000);
    let product = i64::from(sum) * if factor.is_sign_negative() { -mantissa } else { mantissa };
    // The number of the product's fractional bits, limited to those that matter.
    let point = (150 - (bits >> 23 & 0xff) as i32).clamp(0, 57);
    let half = (1 << point) >> 1;
    let above = product + half;
    let whole = above >> point;
    let is_half = half != 0 && above & ((1 << point) - 1) == 0;
    let whole = if is_half { whole & !1 } else { whole };
    whole.clamp(i64::from(-i32::MAX), i64::from(i32::MAX)) as i32
}

/// A factor in the form that processors multiply by, `mantissa / 2^(32 + shift)`: the high word of
/// a product, rounded as it is shifted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Multiplier {
    /// From 2³⁰ to 2³¹.
    pub mantissa: i32,
    /// From 1 to 31.
    pub shift: u32,
}

impl Multiplier {
    /// Returns the multiplier of a factor; `None` for factors from 1/4 on and for nonzero ones of
    /// at most ten bits, which need [`scaled`]. The other products are halfway between two integers
    /// only beyond 2⁹, outside the bytes.
    #[inline(always)]
    pub fn of(factor: f32) -> Option<Multiplier> {
        let bits = factor.to_bits();
        let plain = bits == 0 || bits & 0x3fff != 0 && bits >> 23 < 125;
        plain.then(|| Multiplier::of_plain(factor))
    }

    /// Returns the multiplier of a factor that has one.
    #[inline(always)]
    pub fn of_plain(factor: f32) -> Multiplier {
        let bits = factor.to_bits();
        let mantissa = (bits << 7 & 0x3fff_ffff | 0x4000_0000) as i32;
        Multiplier { mantissa, shift: 125u32.saturating_sub(bits >> 23).min(31) }
    }

    /// Returns the result of [`scaled`].
    #[inline(always)]
    pub fn scaled(self, sum: i32) -> i32 {
        let high = (i64::from(sum) * i64::from(self.mantissa)) >> 32;
        (high as i32 + (1 << (self.shift - 1))) >> self.shift
    }
}

#[cfg(all(test, feature = "std"))]
mod tests {
    use super::*;

    /// Small and large sums, and sums that a factor makes ties of.
    fn sums() -> impl Iterator<Item = i32> {
        let powers = (0..31).flat_map(|i| [1 << i, (1 << i) + 1, 3 << i >> 1]);
        let any = (0..500u32).map(|i| i.wrapping_mul(2_654_435_761) as i32 >> (i % 24));
        powers.chain(any).chain(-200..200).flat_map(|x: i32| [x, -x])
    }

    fn factors() -> impl Iterator<Item = f32> {
        let any = |i: u32| f32::from_bits(0x3000_0000 + i.wrapping_mul(2_654_435_761) % (1 << 28));
        (0..400).map(any).chain([1.0, 0.5, 0.25, 0.75, 1.5, 1e-3, 2e9, 0.0, 1e-40, 1e-30])
    }

    #[test]
    fn products_are_rounded_once() {
        for factor in factors().flat_map(|x| [x, -x]) {
            for sum in sums() {
                // The result is exact where it is near the bytes.
                let wanted = (f64::from(sum) * f64::from(factor)).round_ties_even();
                let found = f64::from(scaled(sum, factor));
                let near = wanted.abs() < 8_388_608.0;
                let beyond = found.abs() >= 8_388_608.0 && found.signum() == wanted.signum();
                assert!(if near { found == wanted } else { beyond }, "{sum} {factor:e}: {found}");
            }
        }
    }

    #[test]
    fn multipliers_round_the_same_near_bytes() {
        for factor in factors() {
            let Some(multiplier) = Multiplier::of(factor) else { continue };
            for sum in sums() {
                let [wanted, found] = [scaled(sum, factor), multiplier.scaled(sum)];
                assert_eq!(found.clamp(-511, 511), wanted.clamp(-511, 511), "{sum} {factor:e}");
            }
        }
        assert_eq!([0.25, 0.125, f32::NAN, f32::INFINITY, -0.1].map(Multiplier::of), [None; 5]);
    }
}
