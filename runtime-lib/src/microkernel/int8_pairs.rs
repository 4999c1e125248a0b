//! The micro-kernel of int8 GEMM at levels that multiply pairs of 16-bit numbers. Bytes are widened
//! first: those of the left operand once for several vectors of columns, a part of the depth at a
//! time, and those of the right operand in each tile.

use super::int8_operands::{AHEAD, Int8Block, Int8Epilogue, PANEL_ROWS};
use crate::loops::bounds::reach;
use crate::simd::Simd;
use crate::simd::int8::{Bytes, Vector};

/// The number of quads that are widened together: with [`PANEL_ROWS`] rows, they take 6 KiB.
const DEPTH: usize = 64;
/// The vectors of columns that share a widened left operand.
const SHARING: usize = 4;

/// A part of a panel of the left operand: the pairs of the even bytes of each quad, and those of
/// the odd bytes.
type Widened = [[i32; DEPTH * PANEL_ROWS]; 2];

/// The accumulators of `V` vectors of columns, for the rows of a panel.
type Sums<S, const V: usize> = [[Vector<S>; V]; PANEL_ROWS];

/// Computes the block, passing all accumulators to `epilogue`. The left operand is in `PANELS`, or
/// in rows.
#[inline(always)]
pub(super) fn run<S: Bytes, E: Int8Epilogue<S>, const PANELS: bool>(
    block: &Int8Block<'_>,
    s: S,
    left: &[u8],
    epilogue: &mut E,
) {
    let mut widened = [[0; DEPTH * PANEL_ROWS]; 2];
    for first in (0..block.m).step_by(PANEL_ROWS) {
        let height = PANEL_ROWS.min(block.m - first);
        let left = &left[first * 4 * block.quads..][..height * 4 * block.quads];
        let panel = Panel::<PANELS> { block, first, height, left };
        let mut j = 0;
        while j < block.width {
            if block.width - j >= SHARING * S::LANES {
                panel.columns::<S, E, SHARING>(s, j, &mut widened, epilogue);
                j += SHARING * S::LANES;
            } else {
                panel.columns::<S, E, 1>(s, j, &mut widened, epilogue);
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
        widened: &mut Widened,
        epilogue: &mut E,
    ) {
        let mut sums: Sums<S, V> = [[s.level().splat_i32(0); V]; PANEL_ROWS];
        for (i, sums) in sums[..self.height].iter_mut().enumerate() {
            for (v, sum) in sums.iter_mut().enumerate() {
                let column = self.block.first + j + v * S::LANES;
                *sum = epilogue.start(s, self.first + i, column);
            }
        }
        for first in (0..self.block.quads).step_by(DEPTH) {
            let depth = DEPTH.min(self.block.quads - first);
            self.widen(s, first, depth, widened);
            self.add(s, [first, depth], j, widened, &mut sums);
        }
        for (i, sums) in sums[..self.height].iter().enumerate() {
            epilogue.take(s, self.first + i, self.block.first + j, sums);
        }
    }

    /// The distances between rows and between quads of the widened part.
    #[inline(always)]
    fn strides(&self) -> [usize; 2] {
        if PANELS { [1, self.height] } else { [DEPTH, 1] }
    }

    /// Widens `depth` quads of each row from quad `first` on.
    #[inline(always)]
    fn widen<S: Bytes>(&self, s: S, first: usize, depth: usize, to: &mut Widened) {
        if PANELS {
            let bytes = &self.left[first * 4 * self.height..][..depth * 4 * self.height];
            return widen(s, bytes, |x| s.widen_signed(x), to, 0);
        }
        for (r, row) in self.left.chunks_exact(4 * self.block.quads).enumerate() {
            let bytes = &row[4 * first..][..4 * depth];
            widen(s, bytes, |x| s.widen_unsigned(x), to, r * DEPTH);
        }
    }

    /// Adds the products of `depth` quads from `first` on to the accumulators of all rows.
    #[inline(always)]
    fn add<S: Bytes, const V: usize>(
        &self,
        s: S,
        [first, depth]: [usize; 2],
        j: usize,
        widened: &Widened,
        sums: &mut Sums<S, V>,
    ) {
        let width = self.block.width;
        let right = &self.block.right[4 * width * first..][..4 * width * depth];
        let tiles = Tiles::<PANELS> { widened, strides: self.strides(), right, width, depth };
        for v in (0..V).step_by(2) {
            let column = j + v * S::LANES;
            let mut i = 0;
            while i < self.height {
                i += match (self.height - i, V) {
                    (4.., 2..) => tiles.add::<S, V, 4, 2>(s, sums, [i, v], column),
                    (2.., 2..) => tiles.add::<S, V, 2, 2>(s, sums, [i, v], column),
                    (_, 2..) => tiles.add::<S, V, 1, 2>(s, sums, [i, v], column),
                    (4.., _) => tiles.add::<S, V, 4, 1>(s, sums, [i, v], column),
                    _ => tiles.add::<S, V, 1, 1>(s, sums, [i, v], column),
                };
            }
        }
    }
}

/// Writes the pairs of bytes from index `at` on.
#[inline(always)]
fn widen<S: Bytes>(
    s: S,
    bytes: &[u8],
    pairs: impl Fn(Vector<S>) -> [Vector<S>; 2],
    [even, odd]: &mut Widened,
    at: usize,
) {
    let to = even[at..].chunks_exact_mut(S::LANES).zip(odd[at..].chunks_exact_mut(S::LANES));
    for (bytes, (even, odd)) in bytes.chunks(4 * S::LANES).zip(to) {
        let pairs = pairs(s.load_bytes(bytes));
        s.store_sums(pairs[0], even);
        s.store_sums(pairs[1], odd);
    }
}

/// The operands of tiles: a part of the depth.
struct Tiles<'a, const PANELS: bool> {
    widened: &'a Widened,
    strides: [usize; 2],
    right: &'a [u8],
    width: usize,
    depth: usize,
}

impl<const PANELS: bool> Tiles<'_, PANELS> {
    /// Adds the products of `R` rows from `i` on and `W` vectors from `v` on, which start at
    /// `column` of the panel. Returns `R`.
    #[inline(always)]
    fn add<S: Bytes, const V: usize, const R: usize, const W: usize>(
        &self,
        s: S,
        sums: &mut Sums<S, V>,
        [i, v]: [usize; 2],
        column: usize,
    ) -> usize {
        let Tiles { widened: [even, odd], strides: [row, step], right, width, depth } = *self;
        assert!(reach([[depth - 1, step], [i + R - 1, row], [1, 1]]) <= even.len());
        assert!(right.len() >= reach([[depth, 4 * width]]) && column + W * S::LANES <= width);
        let mut tile = [[s.level().splat_i32(0); W]; R];
        for (tile, sums) in tile.iter_mut().zip(&sums[i..i + R]) {
            tile.copy_from_slice(&sums[v..v + W]);
        }
        // SAFETY: the assertions above cover the rows of the widened part and the columns.
        unsafe {
            let (mut even, mut odd) = (even.as_ptr().add(i * row), odd.as_ptr().add(i * row));
            let mut right = right.as_ptr().add(4 * column);
            for _ in 0..depth {
                let mut columns = [[s.level().splat_i32(0); 2]; W];
                for (w, column) in columns.iter_mut().enumerate() {
                    let at = right.add(w * 4 * S::LANES);
                    s.level().prefetch(at, AHEAD * 4 * width);
                    let bytes = s.load_bytes_at(at);
                    *column = if PANELS { s.widen_unsigned(bytes) } else { s.widen_signed(bytes) };
                }
                for (half, rows) in [even, odd].into_iter().enumerate() {
                    for (r, sums) in tile.iter_mut().enumerate() {
                        let pair = s.level().splat_i32(*rows.add(r * row));
                        for (sum, column) in sums.iter_mut().zip(&columns) {
                            *sum = s.add_pairs(*sum, pair, column[half]);
                        }
                    }
                }
                (even, odd) = (even.wrapping_add(step), odd.wrapping_add(step));
                right = right.wrapping_add(4 * width);
            }
        }
        for (sums, tile) in sums[i..i + R].iter_mut().zip(&tile) {
            sums[v..v + W].copy_from_slice(tile);
        }
        R
    }
}
