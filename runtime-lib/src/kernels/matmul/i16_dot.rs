//! Dot products of small integers: the inner loops of quantized products and convolutions.
//!
//! Elements minus their zero points fit in `i16`. They are widened to rows of `k` elements each, so
//! that one loop serves every type and the compiler uses the processor's instructions for sums of
//! 16-bit products. The accumulators wrap around in `i32`.

use crate::Integer;
use crate::simd::int8::scaled;
use crate::simd::{Simd, WithSimd, dispatch};

/// Contiguous rows of numbers.
#[derive(Clone, Copy)]
pub(crate) struct Rows<'a> {
    /// The numbers.
    pub data: &'a [i16],
    /// The number of rows.
    pub count: usize,
    /// The length of a row.
    pub k: usize,
}

impl<'a> Rows<'a> {
    /// Returns row `i`, or the last one if `i` is out of bounds.
    #[inline(always)]
    fn row(self, i: usize) -> &'a [i16] {
        &self.data[i.min(self.count - 1) * self.k..][..self.k]
    }
}

/// `x - zero`, which fits because both are bytes.
#[inline(always)]
pub(crate) fn widened<T: Integer>(x: T, zero: i16) -> i16 {
    // Only the low bits count, so that vectors are not widened further.
    i16::from_i64(x.to_i64()).wrapping_sub(zero)
}

/// The zero point at `at`, or 0 without zero points.
#[inline(always)]
pub(crate) fn zero_point<T: Integer>(zero: Option<&[T]>, at: usize) -> i16 {
    zero.map_or(0, |zero| widened(zero[at], 0))
}

/// Returns `sum · factor + zero`, rounded and saturated to `T`. The exact product is rounded to
/// nearest, ties to even, before `zero` is added.
#[inline(always)]
pub(crate) fn requantized<T: Integer>(sum: i32, factor: f32, zero: T) -> T {
    T::from_f64(f64::from(scaled(sum, factor)) + zero.to_f64())
}

/// Calls `end(i, j, sum)` for each row `i` of `a` and each row `j` of `b`.
pub(crate) fn each_sum(a: Rows<'_>, b: Rows<'_>, end: impl FnMut(usize, usize, i32)) {
    dispatch(Sums { a, b, end });
}

struct Sums<'a, F> {
    a: Rows<'a>,
    b: Rows<'a>,
    end: F,
}

/// The numbers of rows of both sides that are read together.
const TILE: [usize; 2] = [2, 4];

impl<F: FnMut(usize, usize, i32)> WithSimd for Sums<'_, F> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(mut self, _: S) {
        for i in (0..self.a.count).step_by(TILE[0]) {
            for j in (0..self.b.count).step_by(TILE[1]) {
                let sums = tile(self.a, self.b, [i, j]);
                for (i, sums) in (i..self.a.count).zip(sums) {
                    for (j, sum) in (j..self.b.count).zip(sums) {
                        (self.end)(i, j, sum);
                    }
                }
            }
        }
    }
}

/// The accumulators of a tile of rows from `i` and `j` on.
#[inline(always)]
fn tile(a: Rows<'_>, b: Rows<'_>, [i, j]: [usize; 2]) -> [[i32; TILE[1]]; TILE[0]] {
    let k = a.k;
    let [a0, a1] = [0, 1].map(|row| &a.row(i + row)[..k]);
    let [b0, b1, b2, b3] = [0, 1, 2, 3].map(|row| &b.row(j + row)[..k]);
    let mut sums = [[0i32; TILE[1]]; TILE[0]];
    for at in 0..k {
        let (x, y) = ([a0[at], a1[at]], [b0[at], b1[at], b2[at], b3[at]]);
        for (sums, x) in sums.iter_mut().zip(x) {
            for (sum, y) in sums.iter_mut().zip(y) {
                *sum = sum.wrapping_add(i32::from(x) * i32::from(y));
            }
        }
    }
    sums
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::array::from_fn;

    #[test]
    fn every_small_product_is_summed() {
        let numbers: [i16; 7 * 11] = from_fn(|i| (i * 37 % 511) as i16 - 255);
        for (m, n, k) in
            (1..6).flat_map(|m| (1..8).flat_map(move |n| (0..6).map(move |k| (m, n, k))))
        {
            let (a, b) = (&numbers[..m * k], &numbers[3..][..n * k]);
            let mut seen = 0;
            each_sum(Rows { data: a, count: m, k }, Rows { data: b, count: n, k }, |i, j, sum| {
                let (a, b) = (&a[i * k..][..k], &b[j * k..][..k]);
                let terms = a.iter().zip(b).map(|(&a, &b)| i32::from(a) * i32::from(b));
                assert_eq!(sum, terms.sum::<i32>(), "{m} {n} {k}: {i} {j}");
                seen += 1;
            });
            assert_eq!(seen, m * n);
        }
    }

    #[test]
    fn ties_round_to_even_before_the_zero_point_is_added() {
        let found = [-5, -3, -1, 0, 1, 3, 5].map(|sum| requantized(sum, 0.5, 1u8));
        assert_eq!(found, [0, 0, 1, 1, 1, 3, 3]);
        assert_eq!([-1000, 1000].map(|sum| requantized(sum, 1.0, 3i8)), [-128, 127]);
        assert_eq!(requantized(i32::MAX, f32::INFINITY, 0u8), 255);
    }
}
