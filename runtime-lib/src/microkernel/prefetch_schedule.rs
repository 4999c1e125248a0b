//! How the tiles of a layer go through its weights.

use super::overlap::Overlap;

/// How many weights a block has, and how many of those to come each tile asks for: the same for all tiles of
/// a layer.
#[derive(Clone, Copy)]
pub(super) struct PrefetchSchedule {
    /// How many weights a block has.
    pub w_block: usize,
    /// How taps share what they read, if they do.
    pub overlap: Option<Overlap>,
    /// A pixel's share of what all pixels do: so many parts of [`PrefetchSchedule::ALL`].
    pixel: u64,
}

impl PrefetchSchedule {
    const ALL: u64 = 1 << 24;

    #[inline(always)]
    pub fn of(w_block: usize, pixels: usize, overlap: Option<Overlap>) -> PrefetchSchedule {
        PrefetchSchedule { w_block, overlap, pixel: PrefetchSchedule::ALL / pixels.max(1) as u64 }
    }

    /// What so many pixels do of `all`. A division for each tile would take as long as some products.
    #[inline(always)]
    pub fn share(self, pixels: usize, all: usize) -> usize {
        (pixels as u64 * self.pixel * all as u64 / PrefetchSchedule::ALL) as usize
    }
}

/// Where a tile is in the weights.
pub(super) struct WeightStream {
    /// Those that are multiplied next.
    pub w: *const f32,
    /// Those of a later tile that are asked for meanwhile.
    pub later: *const f32,
    /// How far apart those are.
    pub step: usize,
}
