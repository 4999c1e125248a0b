//! GEMM of small matrices, as in attention over a few positions, where packing the operands would
//! cost more than the product.

use super::epilogue::{Epilogue, finish_vector};
use super::panels::{Matrix, panel_cols};
use super::simd_elem::SimdElem;
use crate::arena::Aligned;
use crate::loops::bounds::reach;
use crate::simd::{HAS_VECTORS, MAX_LANES, Simd, WithSimd};

/// The largest depth.
const MAX_K: usize = 16;
/// The rows of the result whose accumulators are in registers at once: enough to hide the latency
/// of additions.
const ROWS: usize = 8;

/// The GEMM `y = epilogue(a · b)`, for a right operand that [`fits`].
pub(crate) struct Tiny<'a, T> {
    /// The rows of the result, at least 1.
    pub m: usize,
    /// The columns of the result, at least 1.
    pub n: usize,
    /// The depth.
    pub k: usize,
    /// The left operand.
    pub a: Matrix<'a, T>,
    /// The right operand.
    pub b: Matrix<'a, T>,
    /// The result.
    pub y: &'a mut [T],
    /// The row stride of `y`, in elements.
    pub y_row_stride: usize,
    /// The epilogue.
    pub epilogue: Epilogue<'a, T>,
}

/// Returns whether a right operand of `k` rows and `n` columns is small enough.
pub(crate) const fn fits<T>(n: usize, k: usize) -> bool {
    HAS_VECTORS && n <= panel_cols::<T>() && k <= MAX_K
}

/// The rows of the right operand, each padded to the lanes of the widest vector of `f32`.
type Rows<T> = Aligned<[[T; MAX_LANES]; MAX_K]>;

// By reference, because the struct is expensive to move.
impl<T: SimdElem> WithSimd for &mut Tiny<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let Tiny { m, n, k, a, b, .. } = *self;
        assert!(m > 0 && n <= MAX_LANES && k <= MAX_K);
        assert!(k == 0 || reach([[m - 1, a.row], [k - 1, a.col]]) < a.data.len());
        let mut rows: Rows<T> = Aligned([[T::ZERO; MAX_LANES]; MAX_K]);
        for (i, row) in rows.0.iter_mut().take(k).enumerate() {
            let from = &b.data[i * b.row..];
            if b.col == 1 {
                let lanes = S::LANES / T::WIDTH;
                for j in (0..n).step_by(lanes) {
                    let vector = T::load_head(s, &from[j..n.min(j + lanes)]);
                    T::store_head(s, vector, &mut row[j..j + lanes]);
                }
            } else {
                row[..n].iter_mut().enumerate().for_each(|(j, to)| *to = from[j * b.col]);
            }
        }
        for i in (0..m).step_by(ROWS) {
            for j in (0..n).step_by(S::LANES / T::WIDTH) {
                // SAFETY: the assertion above covers the last element of the left operand, and `i <
                // m`.
                unsafe { self.tile(s, &rows, i, j) };
            }
        }
    }
}

impl<T: SimdElem> Tiny<'_, T> {
    /// Computes a vector of columns from column `j` on, for [`ROWS`] rows from row `i` on or the
    /// remaining ones.
    ///
    /// # Safety
    ///
    /// The left operand has `m` rows and `k` columns, and `i < m`.
    #[inline(always)]
    unsafe fn tile<S: Simd>(&mut self, s: S, rows: &Rows<T>, i: usize, j: usize) {
        let Tiny { m, n, k, a, y_row_stride, epilogue, .. } = *self;
        let lanes = S::LANES / T::WIDTH;
        // Missing rows repeat the last one; their results are not stored.
        let starts: [usize; ROWS] = core::array::from_fn(|r| (i + r).min(m - 1) * a.row);
        let mut sums = [T::splat(s, T::ZERO); ROWS];
        for (k, row) in rows.0.iter().take(k).enumerate() {
            let row = T::load_head(s, &row[j..j + lanes]);
            for (sum, start) in sums.iter_mut().zip(starts) {
                // SAFETY: by this function's contract, row `start / a.row < m` has an element in
                // column `k`.
                let a = unsafe { *a.data.as_ptr().add(start + k * a.col) };
                *sum = T::mul_add(s, T::splat(s, a), row, *sum);
            }
        }
        for (r, sum) in sums.into_iter().enumerate() {
            let i = i + r;
            if i < m {
                let to = &mut self.y[i * y_row_stride + j..][..lanes.min(n - j)];
                let start = T::splat(s, epilogue.for_row(i));
                finish_vector(s, [sum, start], to, [i, j], &epilogue);
            }
        }
    }
}
