//! Describes tiles of an NCHWc convolution that one call computes.

use super::prefetch_schedule::PrefetchSchedule;
use crate::loops::geometry::BLOCK;
use crate::simd::Simd;

/// Returns whether this number of accumulators fits in the registers of a level.
pub(super) const fn fits<S: Simd>(vectors: usize) -> bool {
    vectors <= if S::LANES == BLOCK { 28 } else { 12 }
}

/// Tiles of `R` rows, `C` columns and `V` vectors of all channels, for which the contract of
/// `NchwcConv::tile` holds. The rows of their windows are `K` taps that overlap as in
/// `overlap::add_rows`, one tile at a time, or do not overlap if `APART` is 0. Each size is a
/// function of its own: one function with all sizes would take many times as long to compile.
pub(super) struct Tile<
    N,
    const R: usize,
    const C: usize,
    const V: usize,
    const K: usize,
    const APART: usize,
> {
    pub conv: N,
    pub schedule: PrefetchSchedule,
    pub run: TileRun,
}

/// Tiles of the same size, which one call computes.
#[derive(Clone, Copy)]
pub(super) struct TileRun {
    /// The block, row and column of the first tile.
    pub at: [usize; 3],
    /// The number of tiles.
    pub count: usize,
    /// The distance of two tiles, in rows and columns.
    pub step: [usize; 2],
}

impl TileRun {
    /// Returns one of the tiles.
    #[inline(always)]
    pub fn tile(self, i: usize) -> TileRun {
        let TileRun { at: [block, row, col], step: [down, along], .. } = self;
        TileRun { at: [block, row + i * down, col + i * along], count: 1, ..self }
    }
}
