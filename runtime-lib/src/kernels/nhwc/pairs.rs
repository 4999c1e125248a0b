//! Convolutions at levels that multiply pairs of 16-bit numbers.

use super::conv::Columns;
use super::operands::ConvOperands;
use super::pixel_len;
use crate::kernels::quantized::Limits;
use crate::microkernel::int8_conv::Int8Windows;
use crate::microkernel::int8_conv_pairs::{PairsMemory, WINDOWS};
use crate::simd::Simd;
use crate::simd::int8::{Bytes, Vector, WithBytes};

/// The computation of some pixels of the output, for a panel of filters.
pub(super) struct ByPairs<'a> {
    pub of: &'a ConvOperands<'a>,
    pub windows: &'a Int8Windows<'a>,
    /// The index of the first filter.
    pub panel: usize,
    /// The filters of the panel.
    pub width: usize,
    /// The first pixel.
    pub first: usize,
    pub y: &'a mut [u8],
}

impl WithBytes for ByPairs<'_> {
    #[inline(always)]
    fn run<S: Bytes>(self, s: S) {
        let ByPairs { of, windows, panel, width, first, y } = self;
        let (pixel, limits) = (pixel_len(of.filters), Limits::new(s, of.to, 0));
        let (mut places, mut memory) = (of.windows.from(first), PairsMemory::new());
        let mut rest = y;
        while !rest.is_empty() {
            let left = rest.len() / pixel;
            // Tiles of about the same size.
            let rows = left.div_ceil(left.div_ceil(WINDOWS));
            let (y, after) = rest.split_at_mut(rows * pixel);
            let mut at = [0; WINDOWS];
            at[..rows].fill_with(|| places.next());
            windows.add_pairs(s, &at[..rows], &of.channels.bias[panel..], &mut memory);
            let mut column = 0;
            while column < width {
                let filter = panel + column;
                let columns = Columns { of, windows, column, filter, limits };
                column += match (width - column) / S::LANES {
                    4.. => columns.finish_all::<4>(s, &memory, y),
                    2.. => columns.finish_all::<2>(s, &memory, y),
                    _ => columns.finish_all::<1>(s, &memory, y),
                } * S::LANES;
            }
            rest = after;
        }
    }
}

impl<S: Bytes> Columns<'_, S> {
    /// Requantizes and stores the accumulators of all pixels of `y`. Returns `V`.
    #[inline(always)]
    fn finish_all<const V: usize>(&self, s: S, memory: &PairsMemory, y: &mut [u8]) -> usize {
        let pixel = pixel_len(self.of.filters);
        let (sums, y) = (memory.sums.chunks(2), y.chunks_mut(2 * pixel));
        for (sums, y) in sums.zip(y) {
            match (sums, y.len() / pixel) {
                ([a, b], 2) => self.finish(s, &[self.vectors::<V>(s, a), self.vectors(s, b)], y),
                ([a, ..], _) => self.finish(s, &[self.vectors::<V>(s, a)], y),
                _ => {}
            }
        }
        V
    }

    /// Loads the accumulators of a pixel.
    #[inline(always)]
    fn vectors<const V: usize>(&self, s: S, sums: &[i32]) -> [Vector<S>; V] {
        let mut vectors = [s.level().splat_i32(0); V];
        for (v, vector) in vectors.iter_mut().enumerate() {
            *vector = s.load_sums(&sums[self.column + v * S::LANES..]);
        }
        vectors
    }
}
