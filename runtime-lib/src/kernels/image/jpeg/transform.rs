//! The inverse DCT: from the coefficients of a block to its samples.

use super::Block;
use core::num::Wrapping;

/// Wraps around, because invalid files may exceed 32 bits.
type Number = Wrapping<i32>;

/// The fractional bits of factors.
const FACTOR_BITS: u32 = 13;
/// The fractional bits between the passes over columns and rows.
const BETWEEN_BITS: u32 = 2;

/// Returns a factor with [`FACTOR_BITS`] fractional bits.
const fn fixed(x: f64) -> Number {
    Wrapping((x * (1 << FACTOR_BITS) as f64 + 0.5) as i32)
}

/// The inverse DCT of one line, by Loeffler, Ligtenberg and Moschytz ("Practical fast 1-D DCT
/// algorithms with 11 multiplications", 1989), scaled by √8 and with [`FACTOR_BITS`] more bits.
#[inline(always)]
fn line(x: [Number; 8]) -> [Number; 8] {
    // The even part.
    let z1 = (x[2] + x[6]) * fixed(0.541_196_1);
    let t2 = z1 - x[6] * fixed(1.847_759_065);
    let t3 = z1 + x[2] * fixed(0.765_366_865);
    let t0 = (x[0] + x[4]) * fixed(1.0);
    let t1 = (x[0] - x[4]) * fixed(1.0);
    let even = [t0 + t3, t1 + t2, t1 - t2, t0 - t3];

    // The odd part.
    let (z3, z4) = (x[7] + x[3], x[5] + x[1]);
    let z5 = (z3 + z4) * fixed(1.175_875_602);
    let z1 = -(x[7] + x[1]) * fixed(0.899_976_223);
    let z2 = -(x[5] + x[3]) * fixed(2.562_915_447);
    let z3 = z5 - z3 * fixed(1.961_570_56);
    let z4 = z5 - z4 * fixed(0.390_180_644);
    let odd = [
        x[1] * fixed(1.501_321_11) + z1 + z4,
        x[3] * fixed(3.072_711_026) + z2 + z3,
        x[5] * fixed(2.053_119_869) + z2 + z4,
        x[7] * fixed(0.298_631_336) + z1 + z3,
    ];

    let mut y = [Wrapping(0); 8];
    for i in 0..4 {
        y[i] = even[i] + odd[i];
        y[7 - i] = even[i] - odd[i];
    }
    y
}

/// Returns `x / 2^bits`, rounded.
#[inline(always)]
fn descale(x: Number, bits: u32) -> i32 {
    x.0.wrapping_add(1 << (bits - 1)) >> bits
}

/// Writes the samples of a block to eight rows with the stride `stride`.
pub(super) fn inverse(block: &Block<i16>, quanta: &Block<u16>, y: &mut [u8], stride: usize) {
    let mut between = [Wrapping(0); 64];
    for column in 0..8 {
        let mut x = [Wrapping(0); 8];
        for (row, x) in x.iter_mut().enumerate() {
            let at = row * 8 + column;
            *x = Wrapping(block[at].wrapping_mul(quanta[at].cast_signed()).into());
        }
        for (row, x) in line(x).into_iter().enumerate() {
            let x = descale(x, FACTOR_BITS - BETWEEN_BITS);
            between[row * 8 + column] = Wrapping(x);
        }
    }
    for (x, y) in between.as_chunks().0.iter().zip(y.chunks_mut(stride)) {
        for (x, y) in line(*x).into_iter().zip(y) {
            // Removes the two scalings by √8, and adds the level shift of half the range.
            let x = descale(x, FACTOR_BITS + BETWEEN_BITS + 3) + 128;
            *y = x.clamp(0, 255) as u8;
        }
    }
}
