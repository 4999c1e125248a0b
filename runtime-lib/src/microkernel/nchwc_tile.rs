//! Computes the tiles of an NCHWc convolution.

use super::conv_tile::{NchwcConv, bound, place};
use super::prefetch_schedule::{PrefetchSchedule, WeightStream};
use super::tile_run::Tile;
use crate::loops::geometry::BLOCK;
use crate::simd::{Simd, WithSimd};

impl<
    const UNIT: usize,
    const PAIRED: bool,
    const R: usize,
    const C: usize,
    const V: usize,
    const K: usize,
    const APART: usize,
> WithSimd for Tile<&mut NchwcConv<'_, UNIT, PAIRED>, R, C, V, K, APART>
{
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let Tile { conv, schedule, run } = self;
        let count = if const { APART > 0 } { 1 } else { run.count };
        for i in 0..count {
            let at = run.tile(i).at;
            // SAFETY: the contract of `NchwcConv::tile` holds.
            unsafe { conv.whole_tile::<S, R, C, V, K, APART>(s, schedule, at) };
        }
    }
}

impl<const UNIT: usize, const PAIRED: bool> NchwcConv<'_, UNIT, PAIRED> {
    /// Computes one tile at a block, row and column.
    ///
    /// # Safety
    ///
    /// The contract of [`NchwcConv::tile`].
    #[inline(always)]
    unsafe fn whole_tile<
        S: Simd,
        const R: usize,
        const C: usize,
        const V: usize,
        const K: usize,
        const APART: usize,
    >(
        &mut self,
        s: S,
        schedule: PrefetchSchedule,
        [block, row, col]: [usize; 3],
    ) {
        let w_block = schedule.w_block;
        let (y_block, y_row_stride, y_col_stride) =
            (self.y.apart(), self.y_row_stride, self.y_col_stride);
        let at = block * y_block + row * y_row_stride + col * y_col_stride;
        // SAFETY: the tile is inside the output, and `check` covered every access of all tiles.
        unsafe {
            let mut start = [s.splat(0.0); V];
            if !self.bias.is_empty() {
                for (v, start) in start.iter_mut().enumerate() {
                    *start = s.load_at(self.bias.as_ptr().add(block * BLOCK + v * S::LANES));
                }
            }
            let mut sums = [[start; C]; R];
            if !self.add.is_empty() {
                for (r, sums) in sums.iter_mut().enumerate() {
                    for (c, sums) in sums.iter_mut().enumerate() {
                        let add = self.add.as_ptr().add(at + r * y_row_stride + c * y_col_stride);
                        for (v, sum) in sums.iter_mut().enumerate() {
                            *sum = s.add(*sum, s.load_at(add.add(place::<S>(v, y_block))));
                        }
                    }
                }
            }
            let w = self.w.as_ptr().add(block * w_block);
            // Together, the tiles of these blocks prefetch the weights of the next blocks, also if
            // those belong to the next convolution.
            let weights = V * S::LANES * (w_block / BLOCK);
            let next = w.wrapping_add(weights + schedule.share(row * self.cols + col, weights));
            let step = schedule.share(R * C, V * S::LANES);
            // `wrapping_add`, because the input may be empty if there are no channels.
            let pixel = self.x.as_ptr().wrapping_add(row * self.x_row_stride + col * UNIT);
            let mut weights = WeightStream { w, next, step };
            for &span in self.spans {
                self.add_span::<S, R, C, V, K, APART>(
                    s,
                    &mut sums,
                    &mut weights,
                    (schedule, pixel),
                    span,
                );
            }
            if let Some((low, high)) = self.clamp {
                bound(s, sums.as_flattened_mut().as_flattened_mut(), low, high);
            }
            let y = self.y.as_mut_ptr().add(at);
            for (r, sums) in sums.iter().enumerate() {
                for (c, sums) in sums.iter().enumerate() {
                    let y = y.add(r * y_row_stride + c * y_col_stride);
                    for (v, &sum) in sums.iter().enumerate() {
                        s.store_at(sum, y.add(place::<S>(v, y_block)));
                    }
                }
            }
        }
    }
}
