//! Sizes of the blocks, tiles and windows of NCHWc convolutions.

use crate::simd::bf16_pair::PAIR;

/// Channels of a block: as many as the widest vector has lanes.
pub const BLOCK: usize = 16;
/// Pairs of channels in a block.
pub(crate) const PAIRS: usize = BLOCK / PAIR;
/// The most taps that a window has.
pub(crate) const MAX_TAPS: usize = 128;

/// The most pixels that a tile has.
pub(super) const MAX_TILE: usize = 20;

/// Neighboring channels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Span {
    /// The first one.
    pub first: usize,
    /// How many they are.
    pub count: usize,
}
