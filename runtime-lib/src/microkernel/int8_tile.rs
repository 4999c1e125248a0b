//! The micro-kernel of int8 GEMM: 32-bit accumulators stay in registers while it iterates over `k`.

use super::int8_operands::{AHEAD, Int8Block, Int8Epilogue, LeftOperand, PANEL_ROWS};
use super::int8_pairs;
use crate::loops::bounds::reach;
use crate::simd::Simd;
use crate::simd::int8::{Bytes, MAX_BYTES};
use core::mem::MaybeUninit;

/// The largest number of vectors of a tile.
const MAX_TILE: usize = 24;

impl Int8Block<'_> {
    /// Computes the block, passing all accumulators to `epilogue`.
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
        if S::PAIRS {
            return int8_pairs::run::<S, E, PANELS>(self, s, left, epilogue);
        }
        let mut j = 0;
        while j < self.width {
            // SAFETY: the assertions above cover all rows of the left operand and the panel's
            // columns.
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

    /// Computes all rows of the `V` vectors of columns from `j` on.
    ///
    /// # Safety
    ///
    /// The operands have all their elements, and the columns are in the panel.
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
                // SAFETY: `i + R <= height`, so the tile's rows are in the panel; the caller
                // guarantees the columns.
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

    /// Computes the tile of `R` rows and `V` vectors at row `i` of a panel of `height` rows, and at
    /// column `j`. Returns `R`.
    ///
    /// # Safety
    ///
    /// The contract of [`Int8Block::rows`], and the tile is inside the panels.
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
        // SAFETY: by this function's contract, both panels have `quads` quads.
        unsafe {
            // `wrapping_add`, because the panels may be empty if there are no quads.
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
        // Stored to memory first: accumulators passed by reference do not stay in registers.
        const { assert!(R * V <= MAX_TILE) };
        let mut tile = [MaybeUninit::<[u8; MAX_BYTES]>::uninit(); MAX_TILE];
        let tile = tile.as_mut_ptr().cast::<u8>();
        for (r, sums) in sums.iter().enumerate() {
            for (v, &sum) in sums.iter().enumerate() {
                // SAFETY: `R * V <= MAX_TILE`, so vector `r * V + v` is inside the tile.
                unsafe { s.store_bytes_at(sum, tile.add((r * V + v) * apart)) };
            }
        }
        for r in 0..R {
            let mut row = [s.level().splat_i32(0); V];
            for (v, sum) in row.iter_mut().enumerate() {
                // SAFETY: the loop above initialized the vector.
                *sum = unsafe { s.load_bytes_at(tile.add((r * V + v) * apart)) };
            }
            epilogue.take(s, first + i + r, self.first + j, &row);
        }
        R
    }
}
