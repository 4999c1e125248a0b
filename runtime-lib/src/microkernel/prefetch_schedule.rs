//! The software-prefetch schedule of a layer's weights.

use super::overlap::Overlap;

/// The number of weights of a block, and the share of the next blocks' weights that each tile
/// prefetches. It is the same for all tiles of a layer.
#[derive(Clone, Copy)]
pub(super) struct PrefetchSchedule {
    /// The weights of a block.
    pub w_block: usize,
    /// The overlap of the taps, if they share the elements that they read.
    pub overlap: Option<Overlap>,
    /// The share of one pixel, in units of 1 / [`PrefetchSchedule::ALL`].
    pixel: u64,
}

impl PrefetchSchedule {
    const ALL: u64 = 1 << 24;

    #[inline(always)]
    pub fn of(w_block: usize, pixels: usize, overlap: Option<Overlap>) -> PrefetchSchedule {
        PrefetchSchedule { w_block, overlap, pixel: PrefetchSchedule::ALL / pixels.max(1) as u64 }
    }

    /// Returns the share of `pixels` pixels in `all`. A division would cost a tile as much as some
    /// products.
    #[inline(always)]
    pub fn share(self, pixels: usize, all: usize) -> usize {
        (pixels as u64 * self.pixel * all as u64 / PrefetchSchedule::ALL) as usize
    }
}

/// A tile's position in the weights.
pub(super) struct WeightStream {
    /// The next weights to multiply.
    pub w: *const f32,
    /// The next weights of a next tile to prefetch.
    pub next: *const f32,
    /// The distance of two prefetches, in elements.
    pub step: usize,
}
