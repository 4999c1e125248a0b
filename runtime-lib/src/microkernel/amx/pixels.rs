//! NCHWc convolutions whose input and weights are `bfloat16` pairs.

use super::{Pairs, Right, Row, TileEpilogue, WIDE, multiply};
use crate::loops::bounds::reach;
use crate::loops::geometry::BLOCK;
use crate::microkernel::conv_layout::Span;
use crate::microkernel::conv_tile::{NchwcConv, bound};
use crate::simd::amx::Amx;
use crate::simd::{Simd, WithSimd, dispatch_pairs, tiles};

impl<'a, const UNIT: usize, const PAIRED: bool> NchwcConv<'a, UNIT, PAIRED> {
    /// Computes the convolutions if the processor has tiles and they pay; returns whether it did.
    pub(in crate::microkernel) fn compute_with_tiles(&mut self) -> bool {
        // Tiles read the weights of all taps, one after the other.
        let pays = PAIRED
            && self.taps.unused == [0, 0]
            && self.blocks * self.rows * self.cols > 0
            && self.unit_count() <= MAX_UNITS
            && self.right().pays_for_pairs();
        let Some(amx) = tiles().filter(|_| pays) else { return false };
        dispatch_pairs(ByTiles { amx, of: self });
        true
    }

    /// Returns the number of units that a window reads.
    fn unit_count(&self) -> usize {
        let blocks = |span: &Span| (span.first % UNIT + span.count).div_ceil(UNIT);
        self.taps.offsets.len() * self.spans.iter().map(blocks).sum::<usize>()
    }

    /// Returns the units that a window reads, in the order of the weights.
    fn units<'u>(&self, units: &'u mut [Unit]) -> &'u [Unit] {
        let mut n = 0;
        for span in self.spans {
            let (mut left, mut first) = (span.count, span.first % UNIT);
            let mut from = span.first / UNIT * self.x_block_stride;
            while left > 0 {
                let count = left.min(UNIT - first);
                for &tap in self.taps.offsets {
                    units[n] = Unit { at: (from + tap + first) as u32, count: count as u32 };
                    n += 1;
                }
                from += self.x_block_stride;
                left -= count;
                first = 0;
            }
        }
        &units[..n]
    }

    /// Returns the weights.
    fn right(&self) -> Right<'a> {
        Right::of_pairs(self.w, self.depth(), self.blocks * BLOCK)
    }
}

/// The convolution with tiles.
struct ByTiles<'a, 'b, const UNIT: usize, const PAIRED: bool> {
    amx: Amx,
    of: &'a mut NchwcConv<'b, UNIT, PAIRED>,
}

impl<const UNIT: usize, const PAIRED: bool> WithSimd for ByTiles<'_, '_, UNIT, PAIRED> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        if S::LANES == BLOCK {
            let mut units = [Unit { at: 0, count: 0 }; MAX_UNITS];
            let units = self.of.units(&mut units);
            for _ in 0..self.of.layers {
                let (right, pixels) = (self.of.right(), self.of.rows * self.of.cols);
                let mut epilogue = Blocks::new(s, units, self.of);
                multiply::<Pairs>(self.amx, right, pixels, &mut epilogue);
                self.of.advance_layer();
            }
        }
    }
}

/// The largest number of units of a window: more than the longest rows that fit the buffer have, if
/// units are whole.
const MAX_UNITS: usize = 512;

/// Neighboring pairs that a window reads.
#[derive(Clone, Copy)]
struct Unit {
    /// Their offset from the first element of the window.
    at: u32,
    /// The number of pairs, at most those of a block.
    count: u32,
}

/// The pixels, at a level whose vectors are blocks.
struct Blocks<'a, 'b, S, const UNIT: usize, const PAIRED: bool> {
    s: S,
    /// The units that a window reads, in the order of the weights; all of them are inside the
    /// input.
    units: &'a [Unit],
    of: &'a mut NchwcConv<'b, UNIT, PAIRED>,
}

impl<'a, 'b, S: Simd, const UNIT: usize, const PAIRED: bool> Blocks<'a, 'b, S, UNIT, PAIRED> {
    #[inline(always)]
    fn new(s: S, units: &'a [Unit], of: &'a mut NchwcConv<'b, UNIT, PAIRED>) -> Self {
        let end =
            units.iter().map(|unit| unit.at as usize + unit.count as usize).max().unwrap_or(0);
        assert!(
            reach([[of.rows - 1, of.x_row_stride], [of.cols - 1, UNIT], [end, 1]]) <= of.x.len()
        );
        Blocks { s, units, of }
    }
}

impl<S: Simd, const UNIT: usize, const PAIRED: bool> TileEpilogue<f32>
    for Blocks<'_, '_, S, UNIT, PAIRED>
{
    #[inline(always)]
    fn fill(&mut self, row: usize, to: &mut Row<'_>) {
        let NchwcConv { x, x_row_stride, rows, cols, .. } = *self.of;
        assert!(row < rows * cols);
        let x = x[row / cols * x_row_stride + row % cols * UNIT..].as_ptr();
        for unit in self.units {
            let from = x.wrapping_add(unit.at as usize);
            // SAFETY: `new` checked that the units of the last window are inside the input, so
            // those of all windows are.
            unsafe {
                if unit.count as usize == UNIT {
                    to.push_few(&from.cast::<[f32; UNIT]>().read());
                } else {
                    (0..unit.count as usize).for_each(|i| to.push_few(&[from.add(i).read()]));
                }
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
        let Blocks { s, of, .. } = self;
        let (s, (low, high)) = (*s, of.clamp.unwrap_or((f32::NEG_INFINITY, f32::INFINITY)));
        let apart = of.y.apart();
        let blocks = column / BLOCK..of.blocks.min((column + WIDE) / BLOCK);
        for (row, sums) in (row..).zip(sums) {
            let first = row / of.cols * of.y_row_stride + row % of.cols * of.y_col_stride;
            for (block, sums) in blocks.clone().zip(sums.chunks_exact(BLOCK)) {
                let y = &mut of.y.plane(block)[first..];
                let mut sum = [s.load(sums)];
                if !of.add.is_empty() {
                    sum[0] = s.add(sum[0], s.load(&of.add[block * apart + first..]));
                }
                bound(s, &mut sum, low, high);
                match if block == 0 { of.kept } else { 0 } {
                    0 => s.store(sum[0], y),
                    kept => {
                        let mut all = [0.0; BLOCK];
                        s.store(sum[0], &mut all);
                        y[kept..BLOCK].copy_from_slice(&all[kept..]);
                    }
                }
            }
        }
    }
}
