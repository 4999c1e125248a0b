//! Convolutions of channels in blocks, whose input and weights are pairs of `bfloat16` numbers.

use super::{Ends, Pairs, Right, Row, WIDE, multiply};
use crate::gemm::pixels::{BLOCK, PAIRS, Pixels, bound};
use crate::simd::amx::Amx;
use crate::simd::{Simd, WithSimd, dispatch_pairs, tiles};

impl<'a, const UNIT: usize> Pixels<'a, UNIT> {
    /// Computes them from pairs, if the processor has tiles, and they pay; says whether.
    pub(in crate::gemm) fn by_tiles(&mut self) -> bool {
        let pixels = self.rows * self.cols;
        let pays = UNIT == PAIRS && self.kept == 0 && self.right().pays(pixels);
        let Some(amx) = tiles().filter(|_| pays) else { return false };
        dispatch_pairs(ByTiles { amx, of: self });
        true
    }

    /// The weights.
    fn right(&self) -> Right<'a> {
        Right::of_pairs(self.w, self.depth(), self.blocks * BLOCK)
    }
}

/// The pixels, by tiles.
struct ByTiles<'a, 'b, const UNIT: usize> {
    amx: Amx,
    of: &'a mut Pixels<'b, UNIT>,
}

impl<const UNIT: usize> WithSimd for ByTiles<'_, '_, UNIT> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        if S::LANES == BLOCK {
            let (right, pixels) = (self.of.right(), self.of.rows * self.of.cols);
            let mut ends = Blocks { s, of: self.of };
            multiply::<S, Pairs>(s, self.amx, right, pixels, &mut ends);
        }
    }
}

/// The pixels, at a level whose vectors are blocks.
struct Blocks<'a, 'b, S, const UNIT: usize> {
    s: S,
    of: &'a mut Pixels<'b, UNIT>,
}

impl<S: Simd, const UNIT: usize> Ends<f32> for Blocks<'_, '_, S, UNIT> {
    #[inline(always)]
    fn fill(&mut self, row: usize, to: &mut Row<'_>) {
        let Pixels { x, x_block, x_row, taps, spans, cols, .. } = *self.of;
        let at = row / cols * x_row + row % cols * UNIT;
        for span in spans {
            let (mut left, mut first) = (span.count, span.first % UNIT);
            let mut from = at + span.first / UNIT * x_block;
            while left > 0 {
                let count = left.min(UNIT - first);
                for &tap in taps {
                    let pairs = &x[from + tap + first..][..count];
                    match pairs.first_chunk::<UNIT>() {
                        Some(block) => to.push_few(block),
                        None => pairs.iter().for_each(|&pair| to.push_few(&[pair])),
                    }
                }
                from += x_block;
                left -= count;
                first = 0;
            }
        }
    }

    #[inline(always)]
    fn start(&self, column: usize, to: &mut [f32; WIDE]) {
        let bias = self.of.bias.get(column..).unwrap_or(&[]);
        to.iter_mut().zip(bias).for_each(|(to, &bias)| *to = bias);
    }

    #[inline(always)]
    fn take(&mut self, row: usize, column: usize, sums: &[[f32; WIDE]]) {
        let Blocks { s, of } = self;
        let (s, (low, high)) = (*s, of.clamp.unwrap_or_default());
        for block in column / BLOCK..of.blocks.min((column + WIDE) / BLOCK) {
            for (row, sums) in (row..).zip(sums) {
                let (row, col) = (row / of.cols, row % of.cols);
                let at = block * of.y_block + row * of.y_row + col * of.y_col;
                let mut sum = [s.load(&sums[block * BLOCK - column..])];
                if !of.add.is_empty() {
                    sum[0] = s.add(sum[0], s.load(&of.add[at..]));
                }
                if of.clamp.is_some() {
                    bound(s, &mut sum, low, high);
                }
                s.store(sum[0], &mut of.y[at..]);
            }
        }
    }
}
