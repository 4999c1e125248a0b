//! GEMV: products with a single row or column. Each element of the matrix is used once, so memory
//! bandwidth is the limit: the matrix is read in place, in order.

use super::epilogue::{Epilogue, Target, finish};
use super::gemm_tile::{RowStarts, Starts};
use super::panels::{Matrix, panel_cols};
use super::simd_elem::SimdElem;
use crate::loops::bounds::reach;
use crate::simd::{HAS_VECTORS, Simd, WithSimd, dispatch};
use crate::threads;

/// The GEMV `y = epilogue(x · b)`.
pub(crate) struct Gemv<'a, T> {
    /// The operands.
    pub row: GemvOperands<'a, T>,
    /// The columns of the result.
    pub n: usize,
    /// The result.
    pub y: &'a mut [T],
    /// The layout of `y`.
    pub to: Target,
}

/// The operands of a GEMV.
#[derive(Clone, Copy)]
pub(crate) struct GemvOperands<'a, T> {
    /// The row.
    pub x: &'a [T],
    /// The matrix, with `x.len()` rows.
    pub b: Stored<'a, T>,
    /// The epilogue.
    pub epilogue: Epilogue<'a, T>,
}

/// The layout of a matrix.
#[derive(Clone, Copy)]
pub(crate) enum Stored<'a, T> {
    /// Contiguous columns, with this stride in elements.
    Columns(&'a [T], usize),
    /// Contiguous rows, with this stride in elements.
    Rows(&'a [T], usize),
    /// Packed panels.
    Panels(Panels<'a, T>),
    /// Rows at arbitrary offsets, which are the bits of the second slice's elements.
    Scattered(&'a [T], &'a [T]),
}

/// Panels of at most `depth` rows of all columns, then those of the next rows.
#[derive(Clone, Copy)]
pub(crate) struct Panels<'a, T> {
    data: &'a [T],
    depth: usize,
    /// The number of panels of the same rows.
    across: usize,
    /// The first panel to multiply.
    first: usize,
}

impl<'a, T> Stored<'a, T> {
    /// Wraps a matrix of `cols` columns in panels of at most `depth` rows.
    pub fn panels(data: &'a [T], depth: usize, cols: usize) -> Stored<'a, T> {
        let across = cols.div_ceil(panel_cols::<T>());
        Stored::Panels(Panels { data, depth, across, first: 0 })
    }

    /// Wraps a matrix, if its rows or its columns are contiguous.
    pub fn of(matrix: Matrix<'a, T>) -> Option<Stored<'a, T>> {
        match matrix {
            Matrix { data, row, col: 1 } => Some(Stored::Rows(data, row)),
            Matrix { data, row: 1, col } => Some(Stored::Columns(data, col)),
            Matrix { .. } => None,
        }
    }
}

impl<T: SimdElem> GemvOperands<'_, T> {
    /// Returns the operands of the columns from `j` on, a multiple of a panel's columns.
    fn from(self, j: usize) -> Self {
        let b = match self.b {
            Stored::Columns(b, col) => Stored::Columns(b.get(j * col..).unwrap_or(&[]), col),
            Stored::Rows(b, row) => Stored::Rows(b.get(j..).unwrap_or(&[]), row),
            Stored::Panels(b) => {
                Stored::Panels(Panels { first: b.first + j / panel_cols::<T>(), ..b })
            }
            Stored::Scattered(b, starts) => Stored::Scattered(b.get(j..).unwrap_or(&[]), starts),
        };
        let addends = self.epilogue.addends.map(|x| x.from(0, j));
        GemvOperands { b, epilogue: Epilogue { addends, ..self.epilogue }, ..self }
    }
}

impl<T: SimdElem> Gemv<'_, T> {
    /// Computes the product, on several threads where that pays.
    pub fn share(self) {
        let Gemv { row, n, y, to } = self;
        // A result with columns that are not stored is not split.
        let is_whole = to.pitch == usize::MAX;
        // Each element of the matrix is read once, and nothing is written for it.
        let (len, cost) = if is_whole { (n, n * row.x.len() / 2) } else { (y.len(), 0) };
        threads::share(&mut y[..len], panel_cols::<T>(), cost, |first, y| {
            let row = row.from(first * panel_cols::<T>());
            let n = if is_whole { y.len() } else { n };
            dispatch(Gemv { row, n, y, to });
        });
    }
}

impl<T: SimdElem> WithSimd for Gemv<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let GemvOperands { x, b, epilogue } = self.row;
        let (n, to) = (self.n, self.to);
        match b {
            Stored::Scattered(b, starts) => {
                scattered(s, x, (b, starts), n, self.y, to, &epilogue);
            }
            Stored::Columns(b, col) => columns(s, x, b, col, &mut self.y[..n], &epilogue),
            Stored::Rows(b, row) => rows(s, x, b, row, &mut self.y[..n], &epilogue),
            Stored::Panels(b) => panels(s, x, b, &mut self.y[..n], &epilogue),
        }
    }
}

/// The number of sums that are finished together.
const GROUP: usize = 16;

/// Finishes the sums of the elements of `y` from `j` on.
#[inline(always)]
fn finish_at<S: Simd, T: SimdElem>(
    s: S,
    sums: &[T],
    y: &mut [T],
    j: usize,
    epilogue: &Epilogue<'_, T>,
) {
    finish(s, sums, &mut y[j..j + sums.len()], [0, j], epilogue);
}

#[inline(always)]
fn columns<S: Simd, T: SimdElem>(
    s: S,
    x: &[T],
    b: &[T],
    col: usize,
    y: &mut [T],
    epilogue: &Epilogue<'_, T>,
) {
    let n = y.len();
    for j in (0..n).step_by(GROUP) {
        let mut sums = [T::ZERO; GROUP];
        let count = GROUP.min(n - j);
        for g in (0..count).step_by(4) {
            let column = |i: usize| &b[(j + g + i).min(n - 1) * col..][..x.len()];
            let four = dots(s, x, [column(0), column(1), column(2), column(3)]);
            sums[g..g + 4].copy_from_slice(&four);
        }
        finish_at(s, &sums[..count], y, j, epilogue);
    }
}

/// Returns the dot products of `x` with four columns of the same length.
#[inline(always)]
fn dots<S: Simd, T: SimdElem>(s: S, x: &[T], columns: [&[T]; 4]) -> [T; 4] {
    /// Up to this number of vectors, columns are read one after another, in the order of memory:
    /// the hardware prefetcher follows, and the chains of additions are short enough to overlap.
    const SHORT: usize = 16;
    let lanes = S::LANES / T::WIDTH;
    let whole = x.len() - x.len() % lanes;
    let mut sums = [T::splat(s, T::ZERO); 4];
    if whole <= SHORT * lanes {
        for (sum, column) in sums.iter_mut().zip(&columns) {
            for k in (0..whole).step_by(lanes) {
                // SAFETY: `k` is a multiple of a vector below `whole`, and `x` and `column` have at
                // least `whole` elements.
                let factors = unsafe {
                    [T::load_at(s, x.as_ptr().add(k)), T::load_at(s, column.as_ptr().add(k))]
                };
                *sum = T::mul_add(s, factors[0], factors[1], *sum);
            }
        }
    } else {
        for k in (0..whole).step_by(lanes) {
            // SAFETY: `k` is a multiple of a vector below `whole`, and `x` and the columns have at
            // least `whole` elements.
            unsafe {
                let x = T::load_at(s, x.as_ptr().add(k));
                for (sum, column) in sums.iter_mut().zip(&columns) {
                    *sum = T::mul_add(s, x, T::load_at(s, column.as_ptr().add(k)), *sum);
                }
            }
        }
    }
    let mut y = [T::ZERO; 4];
    let rest = T::load_head(s, &x[whole..]);
    for ((y, sum), column) in y.iter_mut().zip(sums).zip(&columns) {
        let column = T::load_head(s, &column[whole..]);
        *y = T::sum(s, T::mul_add(s, rest, column, sum));
    }
    y
}

/// The number of columns whose accumulators stay in the L1 cache while rows are added to them.
const STRIP: usize = if HAS_VECTORS { 1024 } else { 128 };
/// The number of rows that are added to the accumulators at once.
const SWEEP: usize = 8;

#[inline(always)]
fn rows<S: Simd, T: SimdElem>(
    s: S,
    x: &[T],
    b: &[T],
    row: usize,
    y: &mut [T],
    epilogue: &Epilogue<'_, T>,
) {
    let n = y.len();
    let lanes = S::LANES / T::WIDTH;
    if !S::IS_SCALAR && n == 4 * lanes {
        return short_rows::<S, T, 4>(s, x, b, row, y, epilogue);
    }
    if !S::IS_SCALAR && n == 8 * lanes {
        return short_rows::<S, T, 8>(s, x, b, row, y, epilogue);
    }
    for j in (0..n).step_by(STRIP) {
        let mut sums = [T::ZERO; STRIP];
        let width = STRIP.min(n - j);
        let sums = &mut sums[..width];
        let row_of = |k: usize| &b[k * row + j..][..width];
        let whole = x.len() - x.len() % SWEEP;
        for k in (0..whole).step_by(SWEEP) {
            let rows = core::array::from_fn(|i| row_of(k + i));
            sweep::<S, T, SWEEP>(s, sums, &x[k..], rows);
        }
        for k in whole..x.len() {
            sweep::<S, T, 1>(s, sums, &x[k..], [row_of(k)]);
        }
        finish_at(s, sums, y, j, epilogue);
    }
}

/// Computes [`rows`] of `V` vectors, whose accumulators stay in registers.
#[inline(always)]
fn short_rows<S: Simd, T: SimdElem, const V: usize>(
    s: S,
    x: &[T],
    b: &[T],
    row: usize,
    y: &mut [T],
    epilogue: &Epilogue<'_, T>,
) {
    let lanes = S::LANES / T::WIDTH;
    let mut sums = [T::splat(s, T::ZERO); V];
    for (k, &x) in x.iter().enumerate() {
        let (x, row) = (T::splat(s, x), &b[k * row..][..V * lanes]);
        for (v, sum) in sums.iter_mut().enumerate() {
            // SAFETY: the row has `V` vectors, because its slice has `V · lanes` elements.
            let row = unsafe { T::load_at(s, row.as_ptr().add(v * lanes)) };
            *sum = T::mul_add(s, x, row, *sum);
        }
    }
    let mut stored = [T::ZERO; STRIP];
    for (sum, to) in sums.into_iter().zip(stored.chunks_exact_mut(lanes)) {
        T::store_head(s, sum, to);
    }
    finish_at(s, &stored[..V * lanes], y, 0, epilogue);
}

/// Adds `R` rows, each times its element of `x`, to the accumulators.
#[inline(always)]
fn sweep<S: Simd, T: SimdElem, const R: usize>(s: S, sums: &mut [T], x: &[T], rows: [&[T]; R]) {
    let lanes = S::LANES / T::WIDTH;
    let mut factors = [T::splat(s, T::ZERO); R];
    for (factor, &x) in factors.iter_mut().zip(x) {
        *factor = T::splat(s, x);
    }
    let whole = sums.len() - sums.len() % lanes;
    for j in (0..whole).step_by(lanes) {
        // SAFETY: `j` is a multiple of a vector below `whole`, and the rows are as long as `sums`.
        unsafe {
            let to = sums.as_mut_ptr().add(j);
            let mut sum = T::load_at(s, to);
            for (&factor, row) in factors.iter().zip(&rows) {
                sum = T::mul_add(s, factor, T::load_at(s, row.as_ptr().add(j)), sum);
            }
            T::store_at(s, sum, to);
        }
    }
    let mut sum = T::load_head(s, &sums[whole..]);
    for (&factor, row) in factors.iter().zip(&rows) {
        sum = T::mul_add(s, factor, T::load_head(s, &row[whole..]), sum);
    }
    T::store_head(s, sum, &mut sums[whole..]);
}

#[inline(always)]
fn panels<S: Simd, T: SimdElem>(
    s: S,
    x: &[T],
    b: Panels<'_, T>,
    y: &mut [T],
    epilogue: &Epilogue<'_, T>,
) {
    match S::LANES {
        16 => groups::<S, T, 1, 4>(s, x, b, y, epilogue),
        8 => groups::<S, T, 2, 2>(s, x, b, y, epilogue),
        _ => groups::<S, T, 4, 1>(s, x, b, y, epilogue),
    }
}

/// Multiplies by all panels, `P` at a time. A row of a panel is `V` vectors.
#[inline(always)]
fn groups<S: Simd, T: SimdElem, const V: usize, const P: usize>(
    s: S,
    x: &[T],
    b: Panels<'_, T>,
    y: &mut [T],
    epilogue: &Epilogue<'_, T>,
) {
    let cols = panel_cols::<T>();
    let mut j = 0;
    while j < y.len() {
        let first = b.first + j / cols;
        let several = !S::IS_SCALAR && y.len() - j > (P - 1) * cols;
        let width = if several { P * cols } else { cols };
        let mut sums = [[T::ZERO; GROUP]; P];
        let sums = &mut sums[..width / cols];
        let mut data = b.data;
        for x in x.chunks(b.depth.max(1)) {
            let len = cols * x.len();
            let group = &data[first * len..][..width / cols * len];
            if S::IS_SCALAR {
                let new = T::panel_sums(x, &group[..len]);
                sums[0].iter_mut().zip(new).for_each(|(sum, x)| *sum = sum.add(x));
            } else if width > cols {
                panel_sums::<S, T, V, P>(s, x, group, sums);
            } else {
                panel_sums::<S, T, V, 1>(s, x, group, sums);
            }
            data = &data[b.across * len..];
        }
        for (j, sums) in (j..y.len()).step_by(cols).zip(sums) {
            finish_at(s, &sums[..cols.min(y.len() - j)], y, j, epilogue);
        }
        j += width;
    }
}

/// Adds `x` times `P` panels, whose rows are `V` vectors, to the accumulators in `y`.
#[inline(always)]
#[expect(clippy::needless_range_loop, reason = "sums stay in registers where constants index them")]
fn panel_sums<S: Simd, T: SimdElem, const V: usize, const P: usize>(
    s: S,
    x: &[T],
    panels: &[T],
    y: &mut [[T; GROUP]],
) {
    let lanes = S::LANES / T::WIDTH;
    let (row, panel) = (V * lanes, x.len() * V * lanes);
    assert_eq!(panels.len(), P * panel);
    // Even and odd rows have separate accumulators, to hide the latency of additions.
    let [mut even, mut odd] = [[[T::splat(s, T::ZERO); V]; P]; 2];
    let mut at = panels.as_ptr();
    let (pairs, rest) = x.as_chunks::<2>();
    for x in pairs {
        let x = [T::splat(s, x[0]), T::splat(s, x[1])];
        for p in 0..P {
            for v in 0..V {
                // SAFETY: `panels` holds `P` panels of `x.len()` rows; the caller slices them so.
                let rows = unsafe {
                    let at = at.add(p * panel + v * lanes);
                    [T::load_at(s, at), T::load_at(s, at.add(row))]
                };
                even[p][v] = T::mul_add(s, x[0], rows[0], even[p][v]);
                odd[p][v] = T::mul_add(s, x[1], rows[1], odd[p][v]);
            }
        }
        at = at.wrapping_add(2 * row);
    }
    for &x in rest {
        for p in 0..P {
            for v in 0..V {
                // SAFETY: `panels` holds `P` panels of `x.len()` rows, and this is the last row.
                let row = unsafe { T::load_at(s, at.add(p * panel + v * lanes)) };
                even[p][v] = T::mul_add(s, T::splat(s, x), row, even[p][v]);
            }
        }
    }
    let one = T::splat(s, T::ONE);
    for p in 0..P {
        for v in 0..V {
            let sum = T::mul_add(s, even[p][v], one, odd[p][v]);
            let y = &mut y[p][v * lanes..(v + 1) * lanes];
            T::store_head(s, T::mul_add(s, T::load_head(s, y), one, sum), y);
        }
    }
}

#[inline(always)]
fn scattered<S: Simd, T: SimdElem>(
    s: S,
    x: &[T],
    (b, starts): (&[T], &[T]),
    n: usize,
    y: &mut [T],
    to: Target,
    epilogue: &Epilogue<'_, T>,
) {
    let lanes = S::LANES / T::WIDTH;
    assert!(starts.len() == x.len() && n > 0);
    let last = Starts(starts).last(x.len());
    assert!(x.is_empty() || reach([[last, 1], [n, 1], [lanes - 1, 1]]) <= b.len());
    let mut sums = [T::ZERO; STRIP];
    // As many lines as fit the accumulators, or a part of one.
    let lines = (STRIP / to.pitch).max(1);
    for (group, first) in (0..n).step_by(lines * to.pitch).enumerate() {
        let len = (n - first).min(((lines - 1) * to.pitch).saturating_add(to.width));
        for part in (0..len).step_by(STRIP) {
            let sums = &mut sums[..STRIP.min(len - part)];
            // SAFETY: the assertion above covered a vector from each column below `n` in each row.
            unsafe { scattered_sums(s, x, (&b[first + part..], starts), sums) };
            for (line, sums) in sums.chunks(to.pitch).enumerate() {
                let at = (group * lines + line).saturating_mul(to.width) + part;
                finish_at(s, &sums[..to.width.min(sums.len())], y, at, epilogue);
            }
        }
    }
}

/// Computes the sums of `sums.len()` columns.
///
/// # Safety
///
/// From each start and each of these columns on, `b` has a vector.
#[inline(always)]
unsafe fn scattered_sums<S: Simd, T: SimdElem>(
    s: S,
    x: &[T],
    (b, starts): (&[T], &[T]),
    sums: &mut [T],
) {
    const WIDE: usize = 4;
    let lanes = S::LANES / T::WIDTH;
    let (wide, rest) = sums.split_at_mut(sums.len() / (WIDE * lanes) * (WIDE * lanes));
    for (j, sums) in wide.chunks_exact_mut(WIDE * lanes).enumerate() {
        // SAFETY: by this function's contract, `b` has the vectors of these columns.
        unsafe { scattered_tile::<S, T, WIDE>(s, x, (&b[j * WIDE * lanes..], starts), sums) };
    }
    for (j, sums) in rest.chunks_mut(lanes).enumerate() {
        // SAFETY: by this function's contract, `b` has a vector from this column on.
        unsafe { scattered_tile::<S, T, 1>(s, x, (&b[wide.len() + j * lanes..], starts), sums) };
    }
}

/// Computes the sums of `V` vectors of columns; the last vector may be incomplete.
///
/// # Safety
///
/// From each start on, `b` has `V` vectors.
#[inline(always)]
unsafe fn scattered_tile<S: Simd, T: SimdElem, const V: usize>(
    s: S,
    x: &[T],
    (b, starts): (&[T], &[T]),
    y: &mut [T],
) {
    let lanes = S::LANES / T::WIDTH;
    let mut sums = [T::splat(s, T::ZERO); V];
    for (&x, start) in x.iter().zip(starts) {
        let x = T::splat(s, x);
        for (j, sum) in sums.iter_mut().enumerate() {
            // SAFETY: by this function's contract, `b` has `V` vectors from `start` on.
            let b = unsafe { T::load_at(s, b.as_ptr().add(start.offset() + j * lanes)) };
            *sum = T::mul_add(s, x, b, *sum);
        }
    }
    for (sum, y) in sums.into_iter().zip(y.chunks_mut(lanes)) {
        T::store_head(s, sum, y);
    }
}
