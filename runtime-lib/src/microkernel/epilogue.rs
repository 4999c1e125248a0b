//! The epilogue of GEMM and GEMV: scale, bias, clamp and store.

use super::panels::PANEL_ROWS;
use super::simd_elem::SimdElem;
use crate::simd::Simd;

/// The layout of a result. Its columns are lines of `pitch` computed columns. Only the first
/// `width` columns of a line are stored, one line after another.
#[derive(Clone, Copy)]
pub(crate) struct Target {
    /// The row stride, in elements.
    pub row: usize,
    /// The computed columns of a line.
    pub pitch: usize,
    /// The stored columns of a line.
    pub width: usize,
}

impl Target {
    /// Returns the layout that stores all columns.
    pub const fn whole(row: usize) -> Target {
        Target { row, pitch: usize::MAX, width: usize::MAX }
    }

    /// Returns the offset in a row of column `j`, or of the next column that is stored.
    pub fn place(self, j: usize) -> usize {
        let (line, at) = (j / self.pitch, j % self.pitch);
        line.saturating_mul(self.width) + at.min(self.width)
    }

    /// Returns the offset in a row of the `n` columns from `j` on, if all of them are stored.
    #[inline(always)]
    pub fn neighbors(self, j: usize, n: usize) -> Option<usize> {
        if self.pitch == usize::MAX {
            return Some(j);
        }
        self.stored(j, n).and_then(|(skip, at, width)| (skip == 0 && width == n).then_some(at))
    }

    /// Returns the stored columns among the `n` from column `j` on: the number of columns before
    /// them, their offset in a row, and their number.
    #[inline(always)]
    fn stored(self, j: usize, n: usize) -> Option<(usize, usize, usize)> {
        let (line, at) = (j / self.pitch, j % self.pitch);
        if at < self.width {
            return Some((0, line * self.width + at, n.min(self.width - at)));
        }
        let skip = self.pitch - at;
        (skip < n).then(|| (skip, (line + 1) * self.width, (n - skip).min(self.width)))
    }
}

/// The operation between accumulation and store: `clamp(alpha · sum + addends)`.
#[derive(Clone, Copy)]
pub(crate) struct Epilogue<'a, T> {
    /// The scale of the sum.
    pub alpha: T,
    /// Whether the contents of `y` are added; there are no addends then.
    pub accumulate: bool,
    /// The matrices to add; those with empty `data` add nothing.
    pub addends: [Addend<'a, T>; 2],
    /// The minimum and the maximum of the result.
    pub clamp: Option<(T, T)>,
}

/// A matrix that is added to a product: element (i, j) is `scale · data[i · row + j · col]`.
#[derive(Clone, Copy)]
pub(crate) struct Addend<'a, T> {
    /// The elements, from the first one on.
    pub data: &'a [T],
    /// The row stride, in elements; 0 if all rows are the same.
    pub row: usize,
    /// The column stride: 1, or 0 if all columns are the same.
    pub col: usize,
    /// The scale of the matrix.
    pub scale: T,
}

impl<'a, T: SimdElem> Addend<'a, T> {
    /// An addend that adds nothing.
    pub const NONE: Addend<'a, T> = Addend { data: &[], row: 0, col: 0, scale: T::ONE };

    /// Returns the matrix from row `i` and column `j` on.
    #[inline(always)]
    pub fn from(self, i: usize, j: usize) -> Addend<'a, T> {
        Addend { data: self.data.get(i * self.row + j * self.col..).unwrap_or(&[]), ..self }
    }

    /// Returns element (i, j), or 0 if there is none.
    #[inline(always)]
    fn at(&self, i: usize, j: usize) -> T {
        if self.data.is_empty() {
            return T::ZERO;
        }
        self.scale.mul(self.data[i * self.row + j * self.col])
    }

    /// Returns the element of row `i` if all columns are the same, otherwise 0.
    #[inline(always)]
    fn for_row(&self, i: usize) -> T {
        if self.col != 0 || self.data.is_empty() {
            return T::ZERO;
        }
        self.scale.mul(self.data[i * self.row])
    }

    /// Adds the elements from (i, j) on to a vector of `n` sums, unless all columns are the same.
    #[inline(always)]
    fn add_to<S: Simd>(
        &self,
        s: S,
        sum: T::Vector<S>,
        n: usize,
        [i, j]: [usize; 2],
    ) -> T::Vector<S> {
        if self.col == 0 || self.data.is_empty() {
            return sum;
        }
        let added = T::load_head(s, &self.data[i * self.row + j * self.col..][..n]);
        T::mul_add(s, T::splat(s, self.scale), added, sum)
    }
}

impl<T: SimdElem> Epilogue<'_, T> {
    /// Returns whether every addend has the same element in all columns.
    #[inline(always)]
    fn is_same_for_rows(&self) -> bool {
        let same = |addend: &Addend<'_, T>| addend.col == 0 || addend.data.is_empty();
        let [first, second] = &self.addends;
        !self.accumulate && same(first) && same(second)
    }

    /// Returns the sum of the addends' elements of row `i`, for those whose columns are the same.
    #[inline(always)]
    pub fn for_row(&self, i: usize) -> T {
        let [first, second] = &self.addends;
        first.for_row(i).add(second.for_row(i))
    }

    /// Returns the sum of the addends' elements (i, j).
    #[inline(always)]
    pub fn at(&self, i: usize, j: usize) -> T {
        let [first, second] = &self.addends;
        first.at(i, j).add(second.at(i, j))
    }

    /// Returns whether all elements of a column start from the same number.
    #[inline(always)]
    pub fn is_same_for_columns(&self) -> bool {
        let [first, second] = &self.addends;
        let same = |addend: &Addend<'_, T>| addend.row == 0 || addend.data.is_empty();
        !self.accumulate && same(first) && same(second)
    }

    /// Finishes and stores vectors of sums, which start from the elements of `starts`.
    #[inline(always)]
    pub fn finish_sums<S: Simd>(&self, s: S, sums: &[T::Vector<S>], starts: &[T], to: &mut [T]) {
        let lanes = S::LANES / T::WIDTH;
        let alpha = T::splat(s, self.alpha);
        let vectors = starts.chunks_exact(lanes).zip(to.chunks_exact_mut(lanes));
        for (&sum, (start, to)) in sums.iter().zip(vectors) {
            let mut sum = T::mul_add(s, alpha, sum, T::load_head(s, start));
            if let Some((low, high)) = self.clamp {
                sum = T::clamp(s, sum, low, high);
            }
            T::store_head(s, sum, to);
        }
    }

    /// Finishes and stores rows of `V` vectors, starting at row `first`. `y` is the result from
    /// that row on, `row` its row stride, and `at` the tile's offset in a row.
    #[inline(always)]
    pub fn finish_rows<S: Simd, const V: usize>(
        &self,
        s: S,
        tile: &[T],
        first: usize,
        (y, row, at): (&mut [T], usize, usize),
    ) {
        let lanes = S::LANES / T::WIDTH;
        let alpha = T::splat(s, self.alpha);
        let clamp = self.clamp;
        for (i, sums) in tile.chunks_exact(V * lanes).enumerate() {
            let y = &mut y[i * row + at..][..V * lanes];
            let mut sum = [T::splat(s, T::ZERO); V];
            // SAFETY: the slices of the tile, the result and the addends have `V` vectors each.
            unsafe {
                if self.accumulate {
                    sum = vectors(s, y);
                }
                let sums = vectors::<S, T, V>(s, sums);
                for (sum, x) in sum.iter_mut().zip(sums) {
                    *sum = T::mul_add(s, alpha, x, *sum);
                }
                for addend in &self.addends {
                    if addend.data.is_empty() {
                        continue;
                    }
                    let scale = T::splat(s, addend.scale);
                    let data = &addend.data[(first + i) * addend.row..];
                    let added = if addend.col == 0 {
                        [T::splat(s, data[0]); V]
                    } else {
                        vectors(s, &data[at..][..V * lanes])
                    };
                    for (sum, x) in sum.iter_mut().zip(added) {
                        *sum = T::mul_add(s, scale, x, *sum);
                    }
                }
                for (j, &sum) in sum.iter().enumerate() {
                    let sum = clamp.map_or(sum, |(low, high)| T::clamp(s, sum, low, high));
                    T::store_at(s, sum, y.as_mut_ptr().add(j * lanes));
                }
            }
        }
    }
}

/// Returns the first `V` vectors of a slice.
///
/// # Safety
///
/// `x` has at least `V` vectors.
#[inline(always)]
unsafe fn vectors<S: Simd, T: SimdElem, const V: usize>(s: S, x: &[T]) -> [T::Vector<S>; V] {
    let mut vectors = [T::splat(s, T::ZERO); V];
    for (j, vector) in vectors.iter_mut().enumerate() {
        // SAFETY: `x` has `V` vectors, by this function's contract.
        *vector = unsafe { T::load_at(s, x.as_ptr().add(j * S::LANES / T::WIDTH)) };
    }
    vectors
}

/// Finishes and stores a tile of `cols` columns, except its elements outside the `rows` rows from
/// row `i` on (at most [`PANEL_ROWS`]) and the `n` remaining columns. `y` is the result from row
/// `i` on, `to` its layout, and `first` the tile's first column.
#[inline(always)]
pub(crate) fn store<S: Simd, T: SimdElem>(
    s: S,
    tile: &[T],
    cols: usize,
    ([i, rows], n): ([usize; 2], usize),
    (y, to, first): (&mut [T], Target, usize),
    epilogue: &Epilogue<'_, T>,
) {
    let (n, lanes) = (n.min(cols), S::LANES / T::WIDTH);
    let same_for_rows = epilogue.is_same_for_rows();
    let mut starts = [T::ZERO; PANEL_ROWS];
    for (r, start) in starts.iter_mut().enumerate().take(rows) {
        *start = epilogue.for_row(i + r);
    }
    let mut c = 0;
    while let Some((skip, at, width)) = to.stored(first + c, n - c)
        && width > 0
    {
        c += skip;
        // Rows are the inner loop, because they all have the same number of lanes.
        for j in (0..width).step_by(lanes) {
            let width = lanes.min(width - j);
            for r in 0..rows {
                let sum = T::load_head(s, &tile[r * cols + c + j..][..width]);
                let start = T::splat(s, starts[r]);
                let y = &mut y[r * to.row + at + j..][..width];
                if same_for_rows {
                    T::store_head(s, finish_sum(s, sum, start, epilogue), y);
                } else {
                    finish_vector(s, [sum, start], y, [i + r, at + j], epilogue);
                }
            }
        }
        c += width;
    }
}

/// Finishes and stores sums of a row, starting at element (i, j) of the result.
#[inline(always)]
pub(crate) fn finish<S: Simd, T: SimdElem>(
    s: S,
    sums: &[T],
    y: &mut [T],
    [i, j]: [usize; 2],
    epilogue: &Epilogue<'_, T>,
) {
    let lanes = S::LANES / T::WIDTH;
    let start = T::splat(s, epilogue.for_row(i));
    for at in (0..y.len()).step_by(lanes) {
        let width = lanes.min(y.len() - at);
        let sum = T::load_head(s, &sums[at..at + width]);
        finish_vector(s, [sum, start], &mut y[at..at + width], [i, j + at], epilogue);
    }
}

/// Finishes a vector of sums, if every addend is the same for the whole row.
#[inline(always)]
fn finish_sum<S: Simd, T: SimdElem>(
    s: S,
    sum: T::Vector<S>,
    start: T::Vector<S>,
    epilogue: &Epilogue<'_, T>,
) -> T::Vector<S> {
    let sum = T::mul_add(s, T::splat(s, epilogue.alpha), sum, start);
    epilogue.clamp.map_or(sum, |(low, high)| T::clamp(s, sum, low, high))
}

/// Finishes and stores a vector of sums, as far as `to` reaches, whose first lane is element (i, j)
/// of the result. `start` is the part of the addends that is the same for the whole row.
// Takes the shared `epilogue`: a copy that was just written would stall the loads from it.
#[inline(always)]
pub(crate) fn finish_vector<S: Simd, T: SimdElem>(
    s: S,
    [sum, start]: [T::Vector<S>; 2],
    to: &mut [T],
    [i, j]: [usize; 2],
    epilogue: &Epilogue<'_, T>,
) {
    let start = if epilogue.accumulate { T::load_head(s, to) } else { start };
    let mut sum = T::mul_add(s, T::splat(s, epilogue.alpha), sum, start);
    let [first, second] = &epilogue.addends;
    sum = first.add_to(s, sum, to.len(), [i, j]);
    sum = second.add_to(s, sum, to.len(), [i, j]);
    if let Some((low, high)) = epilogue.clamp {
        sum = T::clamp(s, sum, low, high);
    }
    T::store_head(s, sum, to);
}
