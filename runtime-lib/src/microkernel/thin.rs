//! GEMM with few columns, which would leave most lanes of a tile empty. Vectors go along the depth
//! instead: each element is a dot product of a row of the left operand, which is read in place, and
//! a column of the right one.

use super::epilogue::Epilogue;
use super::panels::Matrix;
use super::simd_elem::{SUMMED, SimdElem};
use crate::simd::{HAS_VECTORS, MAX_LANES, Simd, WithSimd};

/// The largest number of columns. A packed left operand, for which there is scratch memory, has at
/// least as many rows.
const MAX_N: usize = 12;
/// The smallest depth: a vector of any level.
const MIN_K: usize = MAX_LANES;
/// The columns of a tile.
const COLUMNS: usize = SUMMED;
/// The largest number of elements of a tile.
const MAX_TILE: usize = 4 * COLUMNS;

/// The GEMM `y = epilogue(a · b)`, for sizes that [`fits`] allows.
pub(crate) struct Thin<'a, T> {
    /// The rows of the result, at least 1.
    pub m: usize,
    /// The columns of the result, at least 1.
    pub n: usize,
    /// The depth.
    pub k: usize,
    /// The left operand, whose rows are contiguous.
    pub a: Matrix<'a, T>,
    /// The right operand, whose columns are contiguous.
    pub b: Matrix<'a, T>,
    /// The result.
    pub y: &'a mut [T],
    /// The row stride of `y`, in elements.
    pub y_row_stride: usize,
    /// The epilogue.
    pub epilogue: Epilogue<'a, T>,
}

/// Returns whether a right operand of `k` rows and `n` columns is thin.
pub(crate) const fn fits(n: usize, k: usize) -> bool {
    HAS_VECTORS && n <= MAX_N && k >= MIN_K
}

// By reference, because the struct is expensive to move.
impl<T: SimdElem> WithSimd for &mut Thin<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        // As many rows as the sums of a tile fill vectors, and the accumulators fit in registers.
        if S::LANES == 16 { self.rows::<S, 4>(s) } else { self.rows::<S, 2>(s) }
    }
}

/// The numbers that are added to the scaled sums of a tile.
type Starts<T> = [T; MAX_TILE];

impl<T: SimdElem> Thin<'_, T> {
    /// Computes tiles of `R` rows.
    #[inline(always)]
    fn rows<S: Simd, const R: usize>(&mut self, s: S) {
        let (m, n) = (self.m, self.n);
        assert!(self.a.col == 1 && self.b.row == 1, "vectors go along the depth");
        // Tiles of about the same width all have enough accumulators to hide the latency of
        // additions.
        let tiles = n.div_ceil(COLUMNS);
        let is_same = self.epilogue.is_same_for_columns();
        let mut starts = [[T::ZERO; MAX_TILE]; MAX_N / COLUMNS];
        for i in (0..m).step_by(R) {
            let mut j = 0;
            for (tile, starts) in starts.iter_mut().enumerate().take(tiles) {
                let width = (n - j).div_ceil(tiles - tile);
                if i == 0 || !is_same {
                    self.start(starts, [i, R], [j, width]);
                }
                match width {
                    1 => self.tile::<S, R, 1>(s, i, j, starts),
                    2 => self.tile::<S, R, 2>(s, i, j, starts),
                    3 => self.tile::<S, R, 3>(s, i, j, starts),
                    _ => self.tile::<S, R, COLUMNS>(s, i, j, starts),
                }
                j += width;
            }
        }
    }

    /// Computes the numbers that are added to the sums of a tile. Missing rows repeat the last one.
    #[inline(always)]
    fn start(&self, starts: &mut Starts<T>, [i, rows]: [usize; 2], [j, width]: [usize; 2]) {
        let Thin { m, y_row_stride, ref epilogue, .. } = *self;
        for (r, starts) in starts.chunks_exact_mut(COLUMNS).enumerate().take(rows) {
            let i = (i + r).min(m - 1);
            for (j, start) in (j..).zip(&mut starts[..width]) {
                *start = match epilogue.accumulate {
                    true => self.y[i * y_row_stride + j],
                    false => epilogue.at(i, j),
                };
            }
        }
    }

    /// Computes `C` columns from column `j` on, for `R` rows from row `i` on or the remaining ones.
    #[inline(always)]
    fn tile<S: Simd, const R: usize, const C: usize>(
        &mut self,
        s: S,
        i: usize,
        j: usize,
        starts: &Starts<T>,
    ) {
        let Thin { m, k, a, b, .. } = *self;
        let lanes = S::LANES / T::WIDTH;
        let (mut rows, mut columns): ([&[T]; R], [&[T]; C]) = ([&[]; R], [&[]; C]);
        for (r, row) in rows.iter_mut().enumerate() {
            // Missing rows repeat the last one; their results are not stored.
            *row = &a.data[(i + r).min(m - 1) * a.row..][..k];
        }
        for (c, column) in columns.iter_mut().enumerate() {
            *column = &b.data[(j + c) * b.col..][..k];
        }
        let mut sums = [[T::splat(s, T::ZERO); COLUMNS]; R];
        let rest = k % lanes;
        for at in (0..k - rest).step_by(lanes) {
            let mut factors = [T::splat(s, T::ZERO); C];
            for (factor, column) in factors.iter_mut().zip(&columns) {
                // SAFETY: `at` is a multiple of a vector below `k - rest`, and the column has `k`
                // elements.
                *factor = unsafe { T::load_at(s, column.as_ptr().add(at)) };
            }
            for (sums, row) in sums.iter_mut().zip(&rows) {
                // SAFETY: `at` is a multiple of a vector below `k - rest`, and the row has `k`
                // elements.
                let x = unsafe { T::load_at(s, row.as_ptr().add(at)) };
                for (sum, &factor) in sums.iter_mut().zip(&factors) {
                    *sum = T::mul_add(s, x, factor, *sum);
                }
            }
        }
        if rest > 0 {
            let mut factors = [T::splat(s, T::ZERO); C];
            for (factor, column) in factors.iter_mut().zip(&columns) {
                *factor = T::load_last(s, column, rest);
            }
            for (sums, row) in sums.iter_mut().zip(&rows) {
                let x = T::load_last(s, row, rest);
                for (sum, &factor) in sums.iter_mut().zip(&factors) {
                    *sum = T::mul_add(s, x, factor, *sum);
                }
            }
        }
        self.finish::<S, R, C>(s, T::sum_rows(s, &sums), starts, i, j);
    }

    /// Finishes and stores the sums of a tile.
    #[inline(always)]
    fn finish<S: Simd, const R: usize, const C: usize>(
        &mut self,
        s: S,
        sums: [T::Vector<S>; COLUMNS],
        starts: &Starts<T>,
        i: usize,
        j: usize,
    ) {
        let Thin { m, n, y_row_stride, ref epilogue, .. } = *self;
        if C == COLUMNS && n == COLUMNS && y_row_stride == n && m - i >= R {
            let to = &mut self.y[i * COLUMNS..][..R * COLUMNS];
            return epilogue.finish_sums(s, &sums, starts, to);
        }
        let mut tile = [T::ZERO; MAX_TILE];
        epilogue.finish_sums(s, &sums, starts, &mut tile[..R * COLUMNS]);
        for (r, sums) in tile.chunks_exact(COLUMNS).enumerate().take(R.min(m - i)) {
            self.y[(i + r) * y_row_stride + j..][..C].copy_from_slice(&sums[..C]);
        }
    }
}

/// Copies the first `n` columns of a matrix with the row stride `row` into `columns`, one column
/// after another.
pub(super) fn transpose<T: Copy>(from: &[T], row: usize, n: usize, columns: &mut [T]) {
    let depth = columns.len() / n;
    for (j, column) in columns.chunks_exact_mut(depth).enumerate() {
        for (to, from) in column.iter_mut().zip(from[j..].iter().step_by(row)) {
            *to = *from;
        }
    }
}
