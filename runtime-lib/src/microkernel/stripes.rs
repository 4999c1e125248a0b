//! GEMV with a matrix that is used at every time step and does not fit in the L1 cache. Its columns
//! are in stripes, so that it is read in order, as one stream. Every other step reads it backwards,
//! which starts with the part that the cache still holds.

use super::panels::{Matrix, panel_cols};
use crate::Number;
use crate::simd::{Simd, WithSimd, dispatch};
use crate::threads;

/// The columns of a stripe. The last stripe has the remaining columns, padded like a panel.
pub const STRIPE: usize = 64;

/// The GEMV `y = x · b + addend`, where `y` and `addend` have one element for each column of `b`.
pub(crate) struct Stripes<'a> {
    /// The row.
    pub x: &'a [f32],
    /// The matrix, packed by [`pack_stripes`].
    pub b: &'a [f32],
    /// The vector to add.
    pub addend: &'a [f32],
    /// The result.
    pub y: &'a mut [f32],
    /// Whether the matrix is read from its end.
    pub backwards: bool,
}

/// Packs a matrix in stripes, which have as many elements as its panels.
pub(crate) fn pack_stripes<T: Number>(
    b: Matrix<'_, T>,
    (rows, cols): (usize, usize),
    mut y: &mut [T],
) {
    for first in (0..cols).step_by(STRIPE) {
        let there = STRIPE.min(cols - first);
        let width = there.next_multiple_of(panel_cols::<T>());
        let (stripe, rest) = y.split_at_mut(rows * width);
        for (k, row) in stripe.chunks_exact_mut(width).enumerate() {
            let (row, padding) = row.split_at_mut(there);
            for (j, to) in row.iter_mut().enumerate() {
                *to = b.data[k * b.row + (first + j) * b.col];
            }
            padding.fill(T::ZERO);
        }
        y = rest;
    }
}

impl Stripes<'_> {
    /// Computes the product, on several threads where that pays.
    #[inline(never)]
    pub fn multiply(self) {
        let Stripes { x, b, addend, y, backwards } = self;
        // Each element of the matrix is read once, from a cache, and nothing is written for it.
        let cost = y.len() * x.len() / 5;
        threads::share(y, STRIPE, cost, |first, y| {
            let first = first * STRIPE;
            let (b, addend) = (&b[first * x.len()..], &addend[first..]);
            dispatch(Stripes { x, b, addend, y, backwards });
        });
    }

    /// Computes all stripes, `WIDE` vectors of columns at a time, or `THIN` if fewer are left.
    #[inline(always)]
    fn stripes<S: Simd, const WIDE: usize, const THIN: usize, const BACK: bool>(self, s: S) {
        let Stripes { x, b, addend, y, .. } = self;
        let count = y.len().div_ceil(STRIPE);
        for i in 0..count {
            let first = STRIPE * if BACK { count - 1 - i } else { i };
            let there = STRIPE.min(y.len() - first);
            let width = there.next_multiple_of(panel_cols::<f32>());
            let b = &b[first * x.len()..][..width * x.len()];
            let (addend, y) = (&addend[first..][..there], &mut y[first..][..there]);
            let mut j = 0;
            while j < there {
                let (addend, y) = (&addend[j..], &mut y[j..]);
                if width - j >= WIDE * S::LANES {
                    sums::<S, WIDE, BACK>(s, x, (b, width, j), addend, y);
                    j += WIDE * S::LANES;
                } else {
                    sums::<S, THIN, BACK>(s, x, (b, width, j), addend, y);
                    j += THIN * S::LANES;
                }
            }
        }
    }

    #[inline(always)]
    fn each_way<S: Simd, const WIDE: usize, const THIN: usize>(self, s: S) {
        if self.backwards {
            self.stripes::<S, WIDE, THIN, true>(s);
        } else {
            self.stripes::<S, WIDE, THIN, false>(s);
        }
    }
}

impl WithSimd for Stripes<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        match S::LANES {
            16 => self.each_way::<S, 4, 1>(s),
            8 if !S::IS_SCALAR => self.each_way::<S, 8, 2>(s),
            4 if !S::IS_SCALAR => self.each_way::<S, 8, 4>(s),
            _ => self.each_way::<S, 1, 1>(s),
        }
    }
}

/// The number of independent sets of accumulators, which hides the latency of additions.
const ROWS: usize = 2;

/// Computes the sums of `V` vectors of columns from column `j` of a stripe on, and adds `addend`.
/// `y` may be shorter.
#[inline(always)]
#[expect(clippy::needless_range_loop, reason = "sums stay in registers where constants index them")]
fn sums<S: Simd, const V: usize, const BACK: bool>(
    s: S,
    x: &[f32],
    (b, width, j): (&[f32], usize, usize),
    addend: &[f32],
    y: &mut [f32],
) {
    assert!(j + V * S::LANES <= width && b.len() == width * x.len());
    let b = b.as_ptr().wrapping_add(j);
    let mut sums = [[s.splat(0.0); V]; ROWS];
    // With 8 vectors, the accumulators of one row already hide the latency.
    let rows = if V < 8 { ROWS } else { 1 };
    let iterations = x.len() / rows;
    for iteration in 0..iterations {
        let first = rows * if BACK { iterations - 1 - iteration } else { iteration };
        for r in 0..ROWS {
            if r < rows {
                let r = if BACK { rows - 1 - r } else { r };
                let (row, x) = (b.wrapping_add((first + r) * width), s.splat(x[first + r]));
                for v in 0..V {
                    let v = if BACK { V - 1 - v } else { v };
                    // SAFETY: as asserted, `b` has `width` columns for each element of `x`, and `V`
                    // vectors from column `j` on are among them.
                    let w = unsafe { s.load_at(row.add(v * S::LANES)) };
                    sums[r][v] = s.mul_add(x, w, sums[r][v]);
                }
            }
        }
    }
    for k in iterations * rows..x.len() {
        for v in 0..V {
            // SAFETY: as asserted, `b` has `width` columns for each element of `x`, and `V` vectors
            // from column `j` on are among them.
            let w = unsafe { s.load_at(b.add(k * width + v * S::LANES)) };
            sums[0][v] = s.mul_add(s.splat(x[k]), w, sums[0][v]);
        }
    }
    for v in 0..V {
        let at = v * S::LANES;
        if at < y.len() {
            let sum = s.add(sums[0][v], sums[1][v]);
            s.store_head(s.add(sum, s.load_head(&addend[at..])), &mut y[at..]);
        }
    }
}

#[cfg(all(test, feature = "std"))]
mod tests {
    use super::*;
    use crate::kernels::matmul::tests::numbers;
    use crate::simd::each_level;
    use std::{vec, vec::Vec};

    /// Checks `x · b + addend` for these sizes, in both directions.
    fn check(rows: usize, cols: usize) {
        let some =
            |n, seed| -> Vec<f32> { numbers(n, seed).into_iter().map(|x: f64| x as f32).collect() };
        let (x, b, addend) = (some(rows, 1), some(rows * cols, 2), some(cols, 3));
        let mut packed = vec![f32::NAN; rows * cols.next_multiple_of(16)];
        // The columns of the matrix are contiguous, as recurrent weights are.
        pack_stripes(Matrix { data: &b, row: 1, col: rows }, (rows, cols), &mut packed);
        each_level(|level| {
            for backwards in [false, true] {
                let mut y = vec![f32::NAN; cols];
                Stripes { x: &x, b: &packed, addend: &addend, y: &mut y, backwards }.multiply();
                for (j, y) in y.iter().enumerate() {
                    let column = &b[j * rows..][..rows];
                    let terms = x.iter().zip(column).map(|(&x, &b)| f64::from(x) * f64::from(b));
                    let truth = terms.sum::<f64>() + f64::from(addend[j]);
                    let near = (f64::from(*y) - truth).abs() <= 1e-5;
                    assert!(near, "{level:?}, {rows}x{cols}, {j}: {y} is not {truth}");
                }
            }
        });
    }

    #[test]
    fn sums_of_every_size_in_both_directions() {
        for rows in [0, 1, 2, 5, 64, 131] {
            for cols in [1, 15, 16, 17, 48, 63, 64, 65, 100, 128, 209] {
                check(rows, cols);
            }
        }
    }
}
