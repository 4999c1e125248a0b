//! The micro-kernel of NHWC convolutions of bytes at levels that multiply pairs of 16-bit numbers.

use super::int8_conv::Int8Windows;
use super::int8_operands::PANEL_ROWS;
use super::int8_pairs::{COLUMNS, DEPTH, Part, Sums, Widened};
use crate::simd::int8::Bytes;

/// The number of windows that are computed together.
pub(crate) const WINDOWS: usize = PANEL_ROWS;

/// The memory of [`Int8Windows::add_pairs`].
pub(crate) struct PairsMemory {
    widened: Widened,
    /// The accumulators of each window.
    pub sums: Sums,
}

impl PairsMemory {
    /// Creates the memory.
    #[inline(always)]
    pub fn new() -> PairsMemory {
        PairsMemory { widened: Widened::new(), sums: [[0; COLUMNS]; WINDOWS] }
    }
}

impl Int8Windows<'_> {
    /// Computes the accumulators of the windows that start at `at`, at most [`WINDOWS`], for all
    /// filters of the panel, at most [`COLUMNS`]. They start with the bias of each filter.
    #[inline(always)]
    pub fn add_pairs<S: Bytes>(&self, s: S, at: &[usize], bias: &[i32], memory: &mut PairsMemory) {
        assert!(self.width.is_multiple_of(S::LANES));
        for sums in &mut memory.sums[..at.len()] {
            sums[..self.width].copy_from_slice(&bias[..self.width]);
        }
        for first in (0..self.starts.len()).step_by(DEPTH) {
            let depth = DEPTH.min(self.starts.len() - first);
            self.widen(s, at, &self.starts[first..][..depth], &mut memory.widened);
            let right = &self.w[4 * self.width * first..][..4 * self.width * depth];
            let (widened, height, width) = (&memory.widened, at.len(), self.width);
            let part = Part::<false> { widened, height, depth, right, width };
            part.add(s, 0, width / S::LANES, &mut memory.sums);
        }
    }

    /// Widens the quads at the offsets `starts` of the windows that start at `at`.
    #[inline(always)]
    fn widen<S: Bytes>(&self, s: S, at: &[usize], starts: &[u32], to: &mut Widened) {
        let mut quad = 0;
        while let Some(start) = starts.get(quad) {
            for (row, &at) in at.iter().enumerate() {
                to.set_row(s, &self.x[at + *start as usize..], row, quad);
            }
            quad += neighbors(&starts[quad..], S::LANES);
        }
    }
}

/// Returns the number of quads that are next to each other, from the first on, up to `most`.
#[inline(always)]
fn neighbors(starts: &[u32], most: usize) -> usize {
    let is_next = |pair: &&[u32]| pair[1].wrapping_sub(pair[0]) == 4;
    1 + starts.windows(2).take(most - 1).take_while(is_next).count()
}
