//! Sizes of the channel blocks, tiles and windows of NCHWc convolutions.

use crate::loops::geometry::BLOCK;
use crate::simd::bf16_pair::PAIR;

/// The pairs of channels in a block.
pub(crate) const PAIRS: usize = BLOCK / PAIR;
/// The largest number of taps of a window.
pub(crate) const MAX_TAPS: usize = 128;

/// The largest number of pixels of a tile.
pub(super) const MAX_TILE: usize = 20;

/// The taps of a window that read the image. The others read only padding, which adds nothing.
#[derive(Clone, Copy)]
pub(crate) struct UsedTaps<'a> {
    /// The input offset of each tap.
    pub offsets: &'a [usize],
    /// The numbers of unused taps before and behind these. They have weights, too.
    pub unused: [usize; 2],
}

impl<'a> UsedTaps<'a> {
    /// All taps of a window.
    pub fn all(offsets: &'a [usize]) -> UsedTaps<'a> {
        UsedTaps { offsets, unused: [0, 0] }
    }

    /// Returns the number of taps that have weights.
    pub fn weighted(&self) -> usize {
        self.unused[0] + self.offsets.len() + self.unused[1]
    }
}

/// A range of neighboring channels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Span {
    /// The first channel.
    pub first: usize,
    /// The number of channels.
    pub count: usize,
}
