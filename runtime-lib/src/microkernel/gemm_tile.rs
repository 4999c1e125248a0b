//! The GEMM micro-kernel: the accumulators of a tile of the result stay in registers while it
//! iterates over `k`.

use super::epilogue::{Epilogue, Target, store};
use super::panels::{PANEL_ROWS, panel_cols};
use super::simd_elem::SimdElem;
use crate::loops::bounds::reach;
use crate::simd::{HAS_VECTORS, MAX_LANES, Simd, WithSimd};
use core::mem::MaybeUninit;
use core::slice::from_raw_parts;

/// The largest number of elements of a tile.
const MAX_TILE: usize = PANEL_ROWS * 2 * MAX_LANES;

/// The rows of the smallest tile. The tiles of some rows read at most the next multiple of it.
pub(super) const TILE_ROWS: usize = 4;

/// A block of `y = epilogue(a · b)`.
pub(crate) struct GemmBlock<'a, T, R, L = PackedRows> {
    /// The rows of the result.
    pub m: usize,
    /// The columns of the result.
    pub n: usize,
    /// The depth.
    pub k: usize,
    /// The left operand: panels of [`PANEL_ROWS`] rows.
    pub a: &'a [T],
    /// The stride of the panels of `a`, in elements.
    pub a_panel_stride: usize,
    /// The layout of a panel of `a`.
    pub a_rows: L,
    /// The right operand: panels of [`panel_cols`] columns, row after row.
    pub b: &'a [T],
    /// The stride of the panels of `b`, in elements.
    pub b_panel_stride: usize,
    /// The offsets of the rows of a panel of `b`.
    pub b_rows: R,
    /// The result, from the block's first row on.
    pub y: &'a mut [T],
    /// The layout of `y`.
    pub to: Target,
    /// The column of the result at which the block starts.
    pub first: usize,
    /// The epilogue. Its addends start at the block's first row and at column 0.
    pub epilogue: Epilogue<'a, T>,
}

/// The layout of a panel of the left operand.
pub(crate) trait LeftRows: Copy {
    /// Returns the strides of rows and columns, in elements.
    fn strides(self) -> [usize; 2];
}

/// Packed rows, column after column. Zeros fill the last panel.
#[derive(Clone, Copy)]
pub(crate) struct PackedRows;

impl LeftRows for PackedRows {
    #[inline(always)]
    fn strides(self) -> [usize; 2] {
        [1, PANEL_ROWS]
    }
}

/// Rows of a matrix with this stride, in elements. Their number is a multiple of [`TILE_ROWS`].
#[derive(Clone, Copy)]
pub(crate) struct RowsInPlace(pub usize);

impl LeftRows for RowsInPlace {
    #[inline(always)]
    fn strides(self) -> [usize; 2] {
        [self.0, 1]
    }
}

/// The offsets of a panel's rows, and the operation on their elements.
pub(crate) trait RowStarts<T: SimdElem>: Copy {
    /// Returns the offset of row `k` in the panel.
    fn start(self, k: usize) -> usize;
    /// Returns the distance of the row to prefetch, if it is the same for all rows.
    fn ahead(self) -> Option<usize>;
    /// Returns the largest offset of the first `k` rows.
    fn last(self, k: usize) -> usize;

    /// Adds the products of `a` and a row's elements to the accumulators.
    #[inline(always)]
    fn add_products<S: Simd>(
        s: S,
        a: T::Vector<S>,
        row: T::Vector<S>,
        sum: T::Vector<S>,
    ) -> T::Vector<S> {
        T::mul_add(s, a, row, sum)
    }
}

/// Rows with a constant stride, in elements.
#[derive(Clone, Copy)]
pub(crate) struct Distance(pub usize);

impl<T: SimdElem> RowStarts<T> for Distance {
    #[inline(always)]
    fn start(self, k: usize) -> usize {
        k * self.0
    }

    #[inline(always)]
    fn ahead(self) -> Option<usize> {
        /// The number of rows to prefetch ahead: more than the latency of an L2 cache.
        const AHEAD: usize = 6;
        Some(AHEAD * self.0)
    }

    fn last(self, k: usize) -> usize {
        (k - 1).saturating_mul(self.0)
    }
}

/// Rows of pairs with a constant stride, in elements, for a left operand in pairs.
#[derive(Clone, Copy)]
pub(crate) struct PairDistance(pub usize);

impl RowStarts<f32> for PairDistance {
    #[inline(always)]
    fn start(self, k: usize) -> usize {
        RowStarts::<f32>::start(Distance(self.0), k)
    }

    #[inline(always)]
    fn ahead(self) -> Option<usize> {
        RowStarts::<f32>::ahead(Distance(self.0))
    }

    fn last(self, k: usize) -> usize {
        RowStarts::<f32>::last(Distance(self.0), k)
    }

    #[inline(always)]
    fn add_products<S: Simd>(s: S, a: S::F32, row: S::F32, sum: S::F32) -> S::F32 {
        s.add_pairs(a, row, sum)
    }
}

/// Rows at offsets that are the bits of these elements.
#[derive(Clone, Copy)]
pub(crate) struct Starts<'a, T>(pub &'a [T]);

impl<T: SimdElem> RowStarts<T> for Starts<'_, T> {
    #[inline(always)]
    fn start(self, k: usize) -> usize {
        self.0[k].offset()
    }

    #[inline(always)]
    fn ahead(self) -> Option<usize> {
        None
    }

    fn last(self, k: usize) -> usize {
        self.0[..k].iter().map(|x| x.offset()).max().unwrap_or(0)
    }
}

impl<'a, T: SimdElem> GemmBlock<'a, T, ()> {
    /// Returns the block with other row offsets.
    pub fn with_rows<R: RowStarts<T>>(self, b_rows: R) -> GemmBlock<'a, T, R> {
        self.with(b_rows, PackedRows)
    }

    /// Returns the block with other row offsets and another layout of the left operand.
    pub fn with<R: RowStarts<T>, L: LeftRows>(
        self,
        b_rows: R,
        a_rows: L,
    ) -> GemmBlock<'a, T, R, L> {
        let GemmBlock { m, n, k, a, a_panel_stride, .. } = self;
        let GemmBlock { b, b_panel_stride, y, to, first, epilogue, .. } = self;
        GemmBlock {
            m,
            n,
            k,
            a,
            a_panel_stride,
            a_rows,
            b,
            b_panel_stride,
            b_rows,
            y,
            to,
            first,
            epilogue,
        }
    }
}

impl<T: SimdElem, R: RowStarts<T>, L: LeftRows> WithSimd for GemmBlock<'_, T, R, L> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(mut self, s: S) {
        if self.m == 0 || self.n == 0 {
            return;
        }
        self.check();
        let lanes = S::LANES / T::WIDTH;
        let mut j = 0;
        while j < self.n {
            // Without vectors, each element takes a register.
            if HAS_VECTORS && self.n - j > lanes {
                s.run(Columns::<_, 2> { block: &mut self, j });
                j += 2 * lanes;
            } else {
                s.run(Columns::<_, 1> { block: &mut self, j });
                j += lanes;
            }
        }
    }
}

/// All rows of `V` vectors of columns from `j` on, which is below `n`, of a block for which `check`
/// has passed. Each is a function of its own: together, they would take longer to compile.
struct Columns<B, const V: usize> {
    block: B,
    j: usize,
}

impl<T: SimdElem, R: RowStarts<T>, L: LeftRows, const V: usize> WithSimd
    for Columns<&mut GemmBlock<'_, T, R, L>, V>
{
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        // SAFETY: `check` covered all panels, and `j < n`.
        unsafe { self.block.columns::<S, V>(s, self.j) }
    }
}

/// Returns the height of the next tile of a panel of which `rows` rows are left.
#[inline(always)]
const fn height<S: Simd>(rows: usize) -> usize {
    match (S::LANES, rows) {
        (16, 9..) => 12,
        (16, 7..) => 8,
        (16, 5..) => 6,
        (8, 5..=6 | 9..) => 6,
        _ => TILE_ROWS,
    }
}

impl<T: SimdElem, R: RowStarts<T>, L: LeftRows> GemmBlock<'_, T, R, L> {
    /// Checks that every panel element that the tiles access is inside its slice.
    fn check(&self) {
        let cols = panel_cols::<T>();
        let across = self.n.div_ceil(cols);
        if self.k > 0 {
            let [row, col] = self.a_rows.strides();
            let end = |panel, rows: usize| {
                let start = [[panel, self.a_panel_stride], [rows - 1, row], [self.k - 1, col]];
                reach(start).saturating_add(1)
            };
            let last = self.m.next_multiple_of(TILE_ROWS) - 1;
            let (whole, more) = (last / PANEL_ROWS, last % PANEL_ROWS + 1);
            assert!(end(whole, more) <= self.a.len());
            assert!(whole == 0 || end(whole - 1, PANEL_ROWS) <= self.a.len());
            let last = self.b_rows.last(self.k);
            assert!(
                reach([[across - 1, self.b_panel_stride], [last, 1], [cols, 1]]) <= self.b.len()
            );
        }
    }

    /// Computes all rows of the `V` vectors of columns from `j` on.
    ///
    /// # Safety
    ///
    /// `check` has passed, and `j < n`.
    #[inline(always)]
    unsafe fn columns<S: Simd, const V: usize>(&mut self, s: S, j: usize) {
        for panel in (0..self.m).step_by(PANEL_ROWS) {
            let (mut i, end) = (panel, self.m.min(panel + PANEL_ROWS));
            while i < end {
                let height = height::<S>(end - i);
                let mut tile = [MaybeUninit::uninit(); MAX_TILE];
                // SAFETY: `check` has passed, `i < end <= m`, and the heights add up to at most a
                // panel, and to the next multiple of `TILE_ROWS`. `sums` initializes all rows of
                // the tile.
                unsafe {
                    match (S::LANES, height) {
                        (16, 12) => self.sums::<S, 12, V>(s, i, j, &mut tile),
                        (16, 8) => self.sums::<S, 8, V>(s, i, j, &mut tile),
                        (16 | 8, 6) => self.sums::<S, 6, V>(s, i, j, &mut tile),
                        _ => self.sums::<S, 4, V>(s, i, j, &mut tile),
                    }
                    self.finish::<S, V>(s, [i, height.min(self.m - i)], j, &tile);
                }
                i += height;
            }
        }
    }

    /// Returns the address that a tile of `H` rows prefetches first, and the stride of the
    /// following ones. Together, the tiles of these columns prefetch the columns that come next,
    /// also if those belong to the next product.
    #[inline(always)]
    fn later<const H: usize>(&self, i: usize, j: usize, cols: usize) -> (*const T, usize) {
        let next = j + cols;
        if !next.is_multiple_of(panel_cols::<T>())
            || self.b_panel_stride != self.k * panel_cols::<T>()
        {
            return (self.b.as_ptr(), 0);
        }
        (
            self.b.as_ptr().wrapping_add(next * self.k + i * cols * self.k / self.m),
            H * cols / self.m,
        )
    }

    /// Prefetches the part of the result that the tile of `H` rows and `V` vectors will overwrite.
    #[inline(always)]
    fn prefetch_result<S: Simd, const H: usize, const V: usize>(&self, s: S, i: usize, j: usize) {
        let first = self.y.as_ptr().wrapping_add(i * self.to.row + j);
        for row in 0..H {
            for v in 0..V {
                s.prefetch(first.wrapping_add(row * self.to.row + v * S::LANES / T::WIDTH), 0);
            }
        }
    }

    /// Computes the accumulators of the tile of `H` rows and `V` vectors at row `i` and column `j`.
    ///
    /// # Safety
    ///
    /// `check` has passed, `i < m`, `j < n`, and the rows are in one panel.
    #[inline(always)]
    unsafe fn sums<S: Simd, const H: usize, const V: usize>(
        &self,
        s: S,
        i: usize,
        j: usize,
        tile: &mut [MaybeUninit<T>; MAX_TILE],
    ) {
        let lanes = S::LANES / T::WIDTH;
        let panel = panel_cols::<T>();
        // The stride of the vectors of a row: inside a panel, or from one panel to the next.
        let apart = if lanes == panel { self.b_panel_stride } else { lanes };
        self.prefetch_result::<S, H, V>(s, i, self.first + j);
        let mut sums = [[T::splat(s, T::ZERO); V]; H];
        // SAFETY: `check` covered `k` columns of the panel of `a` and `k` rows of the panels of
        // `b`.
        unsafe {
            // `wrapping_add`, because the panels may be empty if the depth is 0.
            let [a_row, a_col] = self.a_rows.strides();
            let at = i / PANEL_ROWS * self.a_panel_stride + i % PANEL_ROWS * a_row;
            let mut a = self.a.as_ptr().wrapping_add(at);
            let b = self.b.as_ptr().wrapping_add(j / panel * self.b_panel_stride + j % panel);
            let (mut later, step) = self.later::<H>(i, j, V * lanes);
            for k in 0..self.k {
                let b = b.add(self.b_rows.start(k));
                if let Some(ahead) = self.b_rows.ahead() {
                    for j in (0..V).step_by(panel / lanes) {
                        s.prefetch(b.wrapping_add(j * apart), ahead);
                    }
                    s.prefetch_l2(later);
                    later = later.wrapping_add(step);
                }
                let mut row = [T::splat(s, T::ZERO); V];
                for (j, row) in row.iter_mut().enumerate() {
                    *row = T::load_at(s, b.add(j * apart));
                }
                for (i, sums) in sums.iter_mut().enumerate() {
                    let x = T::splat(s, *a.add(i * a_row));
                    for (sum, &y) in sums.iter_mut().zip(&row) {
                        *sum = R::add_products(s, x, y, *sum);
                    }
                }
                // `wrapping_add`, because nothing may follow the last column.
                a = a.wrapping_add(a_col);
            }
        }
        for (i, sums) in sums.iter().enumerate() {
            for (j, &sum) in sums.iter().enumerate() {
                // SAFETY: a tile has `MAX_TILE` elements, which is at least `H · V` vectors.
                unsafe {
                    T::store_at(s, sum, tile.as_mut_ptr().cast::<T>().add((i * V + j) * lanes));
                }
            }
        }
    }

    /// Finishes and stores the tile of `rows` rows from row `i` on and `V` vectors from column `j`
    /// on, as far as it is inside the result.
    ///
    /// # Safety
    ///
    /// `rows` rows of the tile are initialized.
    #[inline(always)]
    unsafe fn finish<S: Simd, const V: usize>(
        &mut self,
        s: S,
        [i, rows]: [usize; 2],
        j: usize,
        tile: &[MaybeUninit<T>; MAX_TILE],
    ) {
        let cols = V * S::LANES / T::WIDTH;
        // SAFETY: the caller initialized `rows` rows.
        let tile = unsafe { from_raw_parts(tile.as_ptr().cast::<T>(), rows * cols) };
        let y = &mut self.y[i * self.to.row..];
        match self.to.neighbors(self.first + j, cols) {
            Some(at) if self.n - j >= cols => {
                self.epilogue.finish_rows::<S, V>(s, tile, i, (y, self.to.row, at));
            }
            _ => {
                let (to, first) = (self.to, self.first + j);
                store(s, tile, cols, ([i, rows], self.n - j), (y, to, first), &self.epilogue);
            }
        }
    }
}
