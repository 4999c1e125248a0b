//! Tiles of products of bytes: sums of 32 bits that stay in registers while `k` runs. One factor
//! has a sign, the other has none, as the processors' instructions want it.
//!
//! Sums go by *quads*, four of `k` at a time; both factors are filled up to whole ones. The left
//! factor is read four bytes at a time, the right one stands in panels: for each quad, the four
//! bytes of one column after those of the other.

use crate::loops::bounds::reach;
use crate::simd::Simd;
use crate::simd::int8::{Bytes, MAX_BYTES, Vector};
use core::mem::MaybeUninit;

/// Rows in a panel of a left factor that is packed. The last panel has only the rows that are
/// there.
pub(crate) const PANEL_ROWS: usize = 12;

/// The right factor is read so many quads ahead of its iteration: longer than a second-level cache takes.
const AHEAD: usize = 6;

/// The most vectors that a tile has.
const MAX_TILE: usize = 24;

/// What becomes of sums.
pub(crate) trait Int8Epilogue<S: Bytes> {
    /// What the sums of row `i` and of the columns from `j` on start with.
    fn start(&self, s: S, i: usize, j: usize) -> Vector<S>;
    /// Takes the sums of row `i` from column `j` on.
    fn take<const V: usize>(&mut self, s: S, i: usize, j: usize, sums: &[Vector<S>; V]);
}

/// The left factor.
#[derive(Clone, Copy)]
pub(crate) enum LeftOperand<'a> {
    /// Bytes with a sign, in panels of [`PANEL_ROWS`] rows: for each quad, the four bytes of one
    /// row after those of the other. The right factor has no sign.
    Panels(&'a [u8]),
    /// Bytes without a sign, row after row. The right factor has a sign.
    Rows(&'a [u8]),
}

/// All rows of a product and the columns of a panel, whose number is a multiple of what a vector
/// has at the level.
pub(crate) struct Int8Block<'a> {
    /// How many rows.
    pub m: usize,
    /// How many quads.
    pub quads: usize,
    /// The left factor.
    pub left: LeftOperand<'a>,
    /// The panel of the right factor.
    pub right: &'a [u8],
    /// How many columns the panel has.
    pub width: usize,
    /// The first of its columns in the result.
    pub first: usize,
}

impl Int8Block<'_> {
    /// Hands all sums to `epilogue`.
    #[inline(always)]
    pub fn run<S: Bytes, E: Int8Epilogue<S>>(&self, s: S, epilogue: &mut E) {
        assert!(self.width.is_multiple_of(S::LANES));
        assert!(self.right.len() >= reach([[self.quads, 4, self.width]]));
        match self.left {
            LeftOperand::Panels(left) => self.columns::<S, E, true>(s, left, epilogue),
            LeftOperand::Rows(left) => self.columns::<S, E, false>(s, left, epilogue),
        }
    }

    #[inline(always)]
    fn columns<S: Bytes, E: Int8Epilogue<S>, const PANELS: bool>(
        &self,
        s: S,
        left: &[u8],
        epilogue: &mut E,
    ) {
        assert!(left.len() >= reach([[self.m, self.quads, 4]]));
        let mut j = 0;
        while j < self.width {
            // SAFETY: all rows of the left factor and the columns of the panel are there.
            unsafe {
                if self.width - j >= 4 * S::LANES {
                    self.rows::<S, E, PANELS, 4>(s, left, j, epilogue);
                    j += 4 * S::LANES;
                } else {
                    self.rows::<S, E, PANELS, 1>(s, left, j, epilogue);
                    j += S::LANES;
                }
            }
        }
    }

    /// All rows of the `V` vectors of columns from `j` on.
    ///
    /// # Safety
    /// The factors have all their elements, and the columns are in the panel.
    #[inline(always)]
    unsafe fn rows<S: Bytes, E: Int8Epilogue<S>, const PANELS: bool, const V: usize>(
        &self,
        s: S,
        left: &[u8],
        j: usize,
        epilogue: &mut E,
    ) {
        for panel in (0..self.m).step_by(PANEL_ROWS) {
            let height = PANEL_ROWS.min(self.m - panel);
            let mut i = 0;
            while i < height {
                // SAFETY: the tile's rows lie in the panel, the rest is the caller's.
                i += unsafe {
                    let at = left.as_ptr().add(panel * self.quads * 4);
                    match (V, S::LANES, height - i) {
                        (1, 16, 12) => self.tile::<S, E, PANELS, 12, 1>(
                            s,
                            (at, i, height),
                            (panel, j),
                            epilogue,
                        ),
                        (_, 16, 6..=7 | 9..) => self.tile::<S, E, PANELS, 6, V>(
                            s,
                            (at, i, height),
                            (panel, j),
                            epilogue,
                        ),
                        (_, 16, 4..) | (1, _, 4..) => self.tile::<S, E, PANELS, 4, V>(
                            s,
                            (at, i, height),
                            (panel, j),
                            epilogue,
                        ),
                        (_, 8.., 2..) => self.tile::<S, E, PANELS, 2, V>(
                            s,
                            (at, i, height),
                            (panel, j),
                            epilogue,
                        ),
                        _ => self.tile::<S, E, PANELS, 1, V>(
                            s,
                            (at, i, height),
                            (panel, j),
                            epilogue,
                        ),
                    }
                };
            }
        }
    }

    /// The tile of `R` rows and `V` vectors at row `i` of a panel of so many, and at column `j`;
    /// gives `R`.
    ///
    /// # Safety
    /// As for [`Int8Block::rows`]; the tile lies in the panels.
    #[inline(always)]
    unsafe fn tile<
        S: Bytes,
        E: Int8Epilogue<S>,
        const PANELS: bool,
        const R: usize,
        const V: usize,
    >(
        &self,
        s: S,
        (panel, i, height): (*const u8, usize, usize),
        (first, j): (usize, usize),
        epilogue: &mut E,
    ) -> usize {
        let (row, step) = if PANELS { (4, 4 * height) } else { (4 * self.quads, 4) };
        let (lanes, apart) = (S::LANES, 4 * S::LANES);
        let mut sums = [[s.level().splat_i32(0); V]; R];
        for (r, sums) in sums.iter_mut().enumerate() {
            for (v, sum) in sums.iter_mut().enumerate() {
                *sum = epilogue.start(s, first + i + r, self.first + j + v * lanes);
            }
        }
        // SAFETY: the caller vouches for `quads` steps through both panels.
        unsafe {
            // Where there are no quads, no byte is there.
            let mut left = panel.wrapping_add(i * row);
            let mut right = self.right.as_ptr().wrapping_add(4 * j);
            for _ in 0..self.quads {
                let mut columns = [s.level().splat_i32(0); V];
                for (v, column) in columns.iter_mut().enumerate() {
                    s.level().prefetch(right.wrapping_add(v * apart), AHEAD * 4 * self.width);
                    *column = s.load_bytes_at(right.add(v * apart));
                }
                for (r, sums) in sums.iter_mut().enumerate() {
                    let quad = left.add(r * row).cast::<i32>().read_unaligned();
                    let quad = s.level().splat_i32(quad);
                    for (sum, &column) in sums.iter_mut().zip(&columns) {
                        *sum = match PANELS {
                            true => s.dot(*sum, column, quad),
                            false => s.dot(*sum, quad, column),
                        };
                    }
                }
                left = left.wrapping_add(step);
                right = right.wrapping_add(4 * self.width);
            }
        }
        // By way of memory: what is handed out by reference does not stay in registers.
        let mut tile = [MaybeUninit::<[u8; MAX_BYTES]>::uninit(); MAX_TILE];
        let tile = tile.as_mut_ptr().cast::<u8>();
        for (r, sums) in sums.iter().enumerate() {
            for (v, &sum) in sums.iter().enumerate() {
                // SAFETY: a tile has room for `R · V` vectors.
                unsafe { s.store_bytes_at(sum, tile.add((r * V + v) * apart)) };
            }
        }
        for r in 0..R {
            let mut row = [s.level().splat_i32(0); V];
            for (v, sum) in row.iter_mut().enumerate() {
                // SAFETY: the vector was written above.
                *sum = unsafe { s.load_bytes_at(tile.add((r * V + v) * apart)) };
            }
            epilogue.take(s, first + i + r, self.first + j, &row);
        }
        R
    }
}
