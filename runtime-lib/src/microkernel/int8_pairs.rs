//! Products of bytes at levels that multiply pairs of 16-bit numbers. Bytes are widened first:
//! those of the left operand once for many columns, a part of the depth at a time, and those of the
//! right operand in each tile.

use super::int8_operands::{AHEAD, Int8Block, Int8Epilogue, PANEL_ROWS};
use crate::loops::bounds::reach;
use crate::simd::Simd;
use crate::simd::int8::{Bytes, MAX_SUMS, Vector};

/// The number of quads that are widened together: with [`PANEL_ROWS`] rows, they take 6 KiB.
pub(super) const DEPTH: usize = 64;
/// The distance of widened rows: a vector may be stored from their last quad on.
const APART: usize = DEPTH + MAX_SUMS;
/// The vectors of columns that a block passes to its epilogue together.
const SHARING: usize = 4;
/// The largest number of columns whose accumulators are in memory.
pub(crate) const COLUMNS: usize = 64;

/// The accumulators of some columns, for the rows of a panel.
pub(crate) type Sums = [[i32; COLUMNS]; PANEL_ROWS];

/// A part of the rows of the left operand: the pairs of the even bytes of each quad, and those of
/// the odd bytes.
pub(crate) struct Widened {
    pairs: [[i32; APART * PANEL_ROWS]; 2],
}

impl Widened {
    /// Creates memory for a panel.
    #[inline(always)]
    pub fn new() -> Widened {
        Widened { pairs: [[0; APART * PANEL_ROWS]; 2] }
    }

    /// Widens signed bytes of a packed panel.
    #[inline(always)]
    fn set_panel<S: Bytes>(&mut self, s: S, bytes: &[u8]) {
        for (i, bytes) in bytes.chunks(4 * S::LANES).enumerate() {
            self.set(s, s.widen_signed(s.load_bytes(bytes)), i * S::LANES);
        }
    }

    /// Widens the first bytes of a slice, at most a vector: quads of row `row` from `quad` on.
    #[inline(always)]
    pub fn set_row<S: Bytes>(&mut self, s: S, bytes: &[u8], row: usize, quad: usize) {
        self.set(s, s.widen_unsigned(s.load_bytes(bytes)), row * APART + quad);
    }

    #[inline(always)]
    fn set<S: Bytes>(&mut self, s: S, pairs: [Vector<S>; 2], at: usize) {
        for (to, pairs) in self.pairs.iter_mut().zip(pairs) {
            s.store_sums(pairs, &mut to[at..][..S::LANES]);
        }
    }
}

/// Computes the block, passing all accumulators to `epilogue`. The left operand is in `PANELS`, or
/// in rows.
#[inline(always)]
pub(super) fn run<S: Bytes, E: Int8Epilogue<S>, const PANELS: bool>(
    block: &Int8Block<'_>,
    s: S,
    left: &[u8],
    epilogue: &mut E,
) {
    let (mut widened, mut sums) = (Widened::new(), [[0; COLUMNS]; PANEL_ROWS]);
    let memory = (&mut widened, &mut sums);
    for first in (0..block.m).step_by(PANEL_ROWS) {
        let height = PANEL_ROWS.min(block.m - first);
        let left = &left[first * 4 * block.quads..][..height * 4 * block.quads];
        let panel = Panel::<PANELS> { block, first, height, left };
        let mut j = 0;
        while j < block.width {
            if block.width - j >= SHARING * S::LANES {
                panel.columns::<S, E, SHARING>(s, j, (&mut *memory.0, &mut *memory.1), epilogue);
                j += SHARING * S::LANES;
            } else {
                panel.columns::<S, E, 1>(s, j, (&mut *memory.0, &mut *memory.1), epilogue);
                j += S::LANES;
            }
        }
    }
}

/// The rows of a panel.
struct Panel<'a, const PANELS: bool> {
    block: &'a Int8Block<'a>,
    first: usize,
    height: usize,
    left: &'a [u8],
}

impl<const PANELS: bool> Panel<'_, PANELS> {
    /// Computes the `V` vectors of columns from `j` on.
    #[inline(always)]
    fn columns<S: Bytes, E: Int8Epilogue<S>, const V: usize>(
        &self,
        s: S,
        j: usize,
        (widened, sums): (&mut Widened, &mut Sums),
        epilogue: &mut E,
    ) {
        let (width, at) = (self.block.width, self.block.first + j);
        for (i, sums) in sums[..self.height].iter_mut().enumerate() {
            for (v, sums) in sums.chunks_exact_mut(S::LANES).take(V).enumerate() {
                s.store_sums(epilogue.start(s, self.first + i, at + v * S::LANES), sums);
            }
        }
        for first in (0..self.block.quads).step_by(DEPTH) {
            let depth = DEPTH.min(self.block.quads - first);
            self.widen(s, first, depth, widened);
            let right = &self.block.right[4 * width * first..][..4 * width * depth];
            let part = Part::<PANELS> { widened, height: self.height, depth, right, width };
            part.add(s, j, V, sums);
        }
        for (i, sums) in sums[..self.height].iter().enumerate() {
            let mut row = [s.level().splat_i32(0); V];
            for (v, row) in row.iter_mut().enumerate() {
                *row = s.load_sums(&sums[v * S::LANES..]);
            }
            epilogue.take(s, self.first + i, at, &row);
        }
    }

    /// Widens `depth` quads of each row from quad `first` on.
    #[inline(always)]
    fn widen<S: Bytes>(&self, s: S, first: usize, depth: usize, to: &mut Widened) {
        if PANELS {
            let bytes = &self.left[first * 4 * self.height..][..depth * 4 * self.height];
            return to.set_panel(s, bytes);
        }
        for (r, row) in self.left.chunks_exact(4 * self.block.quads).enumerate() {
            let bytes = &row[4 * first..][..4 * depth];
            for (i, bytes) in bytes.chunks(4 * S::LANES).enumerate() {
                to.set_row(s, bytes, r, i * S::LANES);
            }
        }
    }
}

/// A part of the depth: the widened left operand of `height` rows, in the order of `PANELS` or in
/// rows, and the panel of the right operand.
pub(super) struct Part<'a, const PANELS: bool> {
    pub widened: &'a Widened,
    pub height: usize,
    /// The number of quads.
    pub depth: usize,
    /// The quads of `width` columns. With `PANELS` they are unsigned, else signed.
    pub right: &'a [u8],
    pub width: usize,
}

impl<const PANELS: bool> Part<'_, PANELS> {
    /// Adds the products of all rows and of `vectors` vectors of columns from `first` on.
    #[inline(always)]
    pub fn add<S: Bytes>(&self, s: S, first: usize, vectors: usize, sums: &mut Sums) {
        let mut v = 0;
        while v < vectors {
            let at = [v * S::LANES, first + v * S::LANES];
            v += if vectors - v >= 2 {
                self.rows::<S, 2>(s, at, sums)
            } else {
                self.rows::<S, 1>(s, at, sums)
            };
        }
    }

    /// Adds the products of all rows and `W` vectors. Returns `W`.
    #[inline(always)]
    fn rows<S: Bytes, const W: usize>(&self, s: S, at: [usize; 2], sums: &mut Sums) -> usize {
        let mut i = 0;
        while i < self.height {
            i += match self.height - i {
                4.. => self.tile::<S, 4, W>(s, i, at, sums),
                2.. => self.tile::<S, 2, W>(s, i, at, sums),
                _ => self.tile::<S, 1, W>(s, i, at, sums),
            };
        }
        W
    }

    /// Adds the products of `R` rows from `i` on and of `W` vectors, which start at column `to` of
    /// the accumulators and `column` of the panel. Returns `R`.
    #[inline(always)]
    fn tile<S: Bytes, const R: usize, const W: usize>(
        &self,
        s: S,
        i: usize,
        [to, column]: [usize; 2],
        sums: &mut Sums,
    ) -> usize {
        let Part { depth, right, width, .. } = *self;
        let (row, step) = if PANELS { (1, self.height) } else { (APART, 1) };
        let pairs = &self.widened.pairs;
        assert!(i + R <= self.height && self.height <= PANEL_ROWS && depth <= DEPTH);
        assert!(column + W * S::LANES <= width && to + W * S::LANES <= COLUMNS);
        assert!(right.len() >= reach([[depth, 4, width]]));
        let sums: &mut [_; R] = sums[i..].first_chunk_mut().expect("the rows are in a panel");
        let mut tile = [[s.level().splat_i32(0); W]; R];
        for (tile, sums) in tile.iter_mut().zip(&*sums) {
            for (w, tile) in tile.iter_mut().enumerate() {
                *tile = s.load_sums(&sums[to + w * S::LANES..]);
            }
        }
        // SAFETY: by the assertions, `PANEL_ROWS` rows of `DEPTH` quads contain the pairs in both
        // layouts, and the right operand has `depth` quads of `width` columns.
        unsafe {
            let mut left = pairs.as_ptr().cast::<i32>().add(i * row);
            let mut right = right.as_ptr().add(4 * column);
            for _ in 0..depth {
                let mut columns = [[s.level().splat_i32(0); 2]; W];
                for (w, column) in columns.iter_mut().enumerate() {
                    let at = right.add(w * 4 * S::LANES);
                    s.level().prefetch(at, AHEAD * 4 * width);
                    let bytes = s.load_bytes_at(at);
                    *column = if PANELS { s.widen_unsigned(bytes) } else { s.widen_signed(bytes) };
                }
                for half in 0..2 {
                    for (r, sums) in tile.iter_mut().enumerate() {
                        let pair = *left.add(half * pairs[0].len() + r * row);
                        let pair = s.level().splat_i32(pair);
                        for (sum, column) in sums.iter_mut().zip(&columns) {
                            *sum = s.add_pairs(*sum, pair, column[half]);
                        }
                    }
                }
                left = left.wrapping_add(step);
                right = right.wrapping_add(4 * width);
            }
        }
        for (tile, sums) in tile.iter().zip(sums) {
            for (w, &tile) in tile.iter().enumerate() {
                s.store_sums(tile, &mut sums[to + w * S::LANES..][..S::LANES]);
            }
        }
        R
    }
}
