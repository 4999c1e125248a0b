//! What becomes of sums before they are stored.

use super::panels::PANEL_ROWS;
use super::simd_elem::SimdElem;
use crate::simd::Simd;

/// Where the elements of a result are. Its columns are lines of `pitch` columns, of which only
/// the first `width` are stored, one line after the other.
#[derive(Clone, Copy)]
pub(crate) struct Target {
    /// How far one row starts from the next.
    pub row: usize,
    /// Columns of a line that are computed.
    pub pitch: usize,
    /// Columns of a line that are stored.
    pub width: usize,
}

impl Target {
    /// All columns are stored.
    pub const fn whole(row: usize) -> Target {
        Target { row, pitch: usize::MAX, width: usize::MAX }
    }

    /// Where column `j` is in a row, or the next one that is stored.
    pub fn place(self, j: usize) -> usize {
        let (line, at) = (j / self.pitch, j % self.pitch);
        line.saturating_mul(self.width) + at.min(self.width)
    }

    /// Where `n` columns from column `j` on are in a row, if all of them are stored.
    #[inline(always)]
    pub fn neighbors(self, j: usize, n: usize) -> Option<usize> {
        if self.pitch == usize::MAX {
            return Some(j);
        }
        self.stored(j, n).and_then(|(skip, at, width)| (skip == 0 && width == n).then_some(at))
    }

    /// The stored columns from column `j` on, of at most `n`: how many to skip before them, where
    /// they are in a row, and how many they are.
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

/// What becomes of a sum before it is stored: `clamp(alpha · sum + addends)`.
#[derive(Clone, Copy)]
pub(crate) struct Epilogue<'a, T> {
    /// The factor of the sum.
    pub alpha: T,
    /// Whether what stands in `y` is added; there are no addends then.
    pub accumulate: bool,
    /// What else is added; nothing where `data` is empty.
    pub addends: [Addend<'a, T>; 2],
    /// The least and the largest result.
    pub clamp: Option<(T, T)>,
}

/// A matrix that is added to a product: element (i, j) is `scale · data[i · row + j · col]`.
#[derive(Clone, Copy)]
pub(crate) struct Addend<'a, T> {
    /// The matrix, from its first element on.
    pub data: &'a [T],
    /// How far one row starts from the next; 0 where all are the same.
    pub row: usize,
    /// 1, or 0 where all columns are the same.
    pub col: usize,
    /// The factor of the matrix.
    pub scale: T,
}

impl<'a, T: SimdElem> Addend<'a, T> {
    /// Nothing to add.
    pub const NONE: Addend<'a, T> = Addend { data: &[], row: 0, col: 0, scale: T::ONE };

    /// The matrix from row `i` and column `j` on.
    #[inline(always)]
    pub fn from(self, i: usize, j: usize) -> Addend<'a, T> {
        Addend { data: self.data.get(i * self.row + j * self.col..).unwrap_or(&[]), ..self }
    }

    /// What is added to all of a row.
    #[inline(always)]
    fn for_row(&self, i: usize) -> T {
        if self.col != 0 || self.data.is_empty() {
            return T::ZERO;
        }
        self.scale.mul(self.data[i * self.row])
    }

    /// Adds to a vector of `n` elements from element (i, j) on what is not the same for all of a row.
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
    /// Whether what is added is the same for all of a row.
    #[inline(always)]
    fn is_same_for_rows(&self) -> bool {
        let same = |addend: &Addend<'_, T>| addend.col == 0 || addend.data.is_empty();
        let [first, second] = &self.addends;
        !self.accumulate && same(first) && same(second)
    }

    /// What is added to all sums of a row.
    #[inline(always)]
    pub fn for_row(&self, i: usize) -> T {
        let [first, second] = &self.addends;
        first.for_row(i).add(second.for_row(i))
    }

    /// Finishes and stores rows of `V` vectors, of which `first` is the first one. The result is given
    /// from there on, with how far its rows are apart and where in them the tile starts.
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
            // SAFETY: rows of the tile, of the result and of addends have `V` vectors.
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

/// The first `V` vectors of a slice.
///
/// # Safety
/// It has as many.
#[inline(always)]
unsafe fn vectors<S: Simd, T: SimdElem, const V: usize>(s: S, x: &[T]) -> [T::Vector<S>; V] {
    let mut vectors = [T::splat(s, T::ZERO); V];
    for (j, vector) in vectors.iter_mut().enumerate() {
        // SAFETY: the caller vouches for it.
        *vector = unsafe { T::load_at(s, x.as_ptr().add(j * S::LANES / T::WIDTH)) };
    }
    vectors
}

/// Finishes and stores a tile with `cols` columns, less what lies outside of its `rows` rows from row
/// `i` on, which are at most [`PANEL_ROWS`], and of the `n` columns that are left. The result is given
/// from that row on, with where its elements are and the column at which the tile starts.
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
        // Down the rows first, which all have as many lanes.
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

/// Stores sums of a row, of which the first one is element (i, j) of the result.
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

/// What becomes of a vector of sums, to which no more is added than to all of the row.
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

/// Stores a vector of sums, or as many as `to` has room for, of which the first one is element (i, j)
/// of the result. The other vector is what is added to all of the row.
// The same `epilogue` for all, as one that was just written is read slowly.
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
