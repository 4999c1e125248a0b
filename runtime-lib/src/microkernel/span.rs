//! The inner loops of NCHWc convolutions: a range of input channels for a tile of pixels.

use super::conv_layout::{MAX_TILE, Span};
use super::conv_tile::{NchwcConv, place};
use super::overlap::{self, each_pixel};
use super::prefetch_schedule::{PrefetchSchedule, WeightStream};
use crate::loops::geometry::BLOCK;
use crate::simd::Simd;

/// The number of rows of weights to prefetch ahead: more than the latency of an L2 cache.
const AHEAD: usize = 6;

impl<const UNIT: usize, const PAIRED: bool> NchwcConv<'_, UNIT, PAIRED> {
    /// Adds the products of a span of channels to the accumulators of a tile, whose input starts at
    /// `pixel`.
    ///
    /// # Safety
    ///
    /// The contract of a tile, and `weights` is at the span's first weights. The taps overlap as
    /// `K` and `APART` say, unless `APART` is 0.
    #[inline(always)]
    pub(super) unsafe fn add_span<
        S: Simd,
        const R: usize,
        const C: usize,
        const V: usize,
        const K: usize,
        const APART: usize,
    >(
        &self,
        s: S,
        sums: &mut [[[S::F32; V]; C]; R],
        weights: &mut WeightStream,
        (schedule, pixel): (PrefetchSchedule, *const f32),
        span: Span,
    ) {
        let mut x = pixel.wrapping_add(span.first / UNIT * self.x_block_stride);
        let (mut left, mut first) = (span.count, span.first % UNIT);
        while left > 0 {
            let lanes = left.min(UNIT - first);
            if UNIT > 1 && left > lanes {
                for r in 0..R {
                    for c in 0..C {
                        s.prefetch(
                            x.wrapping_add(r * self.x_row_stride + c * UNIT),
                            self.x_block_stride,
                        );
                    }
                }
            }
            let [before, behind] = self.taps.unused.map(|taps| taps * lanes * BLOCK);
            weights.w = weights.w.wrapping_add(before);
            // SAFETY: the tile is inside the output, and `check` covered every access of all tiles.
            unsafe {
                if const { APART > 0 } {
                    let x = (x, self.x_row_stride);
                    overlap::add_rows::<S, R, C, V, K, APART>(
                        s,
                        sums,
                        &mut weights.w,
                        x,
                        self.taps.offsets,
                    );
                } else {
                    self.add_lanes(s, sums, weights, (schedule, x.wrapping_add(first)), lanes);
                }
            }
            weights.w = weights.w.wrapping_add(behind);
            // `wrapping_add`, because nothing may follow the last block.
            x = x.wrapping_add(self.x_block_stride);
            left -= lanes;
            first = 0;
        }
    }

    /// Adds the products of `lanes` channels of a block, starting at `x`.
    ///
    /// # Safety
    ///
    /// The contract of `add_span`.
    #[inline(always)]
    unsafe fn add_lanes<S: Simd, const R: usize, const C: usize, const V: usize>(
        &self,
        s: S,
        sums: &mut [[[S::F32; V]; C]; R],
        WeightStream { w, next, step }: &mut WeightStream,
        (PrefetchSchedule { w_block, .. }, x): (PrefetchSchedule, *const f32),
        lanes: usize,
    ) {
        for &tap in self.taps.offsets {
            for lane in 0..lanes {
                // A tile of single vectors is limited by its loads, so it does not prefetch.
                if V > 1 {
                    for block in 0..V * S::LANES / BLOCK {
                        s.prefetch(w.wrapping_add(block * w_block), AHEAD * BLOCK);
                    }
                    s.prefetch_l2(*next);
                    *next = next.wrapping_add(*step);
                }
                // SAFETY: by this function's contract, the taps of the channels and their weights
                // can be read.
                unsafe {
                    let mut weights = [s.splat(0.0); V];
                    for (v, weights) in weights.iter_mut().enumerate() {
                        *weights = s.load_at(w.add(place::<S>(v, w_block)));
                    }
                    let x = x.add(tap + lane);
                    if const { UNIT == 1 && V > 1 && S::LANES == BLOCK } {
                        self.add_neighbors(s, sums, &weights, x);
                    } else {
                        for (r, sums) in sums.iter_mut().enumerate() {
                            let x = x.add(r * self.x_row_stride);
                            for (c, sums) in sums.iter_mut().enumerate() {
                                add::<S, V, PAIRED>(s, sums, *x.add(c * UNIT), &weights);
                            }
                        }
                    }
                    *w = w.add(BLOCK);
                }
            }
        }
    }

    /// Adds the products of one tap of a channel whose pixels are neighbors. The factor of each
    /// pixel is loaded after the sums of the one before.
    ///
    /// # Safety
    ///
    /// The factor of each pixel can be read from `x` on.
    #[inline(always)]
    unsafe fn add_neighbors<S: Simd, const R: usize, const C: usize, const V: usize>(
        &self,
        s: S,
        sums: &mut [[[S::F32; V]; C]; R],
        weights: &[S::F32; V],
        x: *const f32,
    ) {
        const { assert!(R * C <= MAX_TILE) };
        let mut first = 0;
        each_pixel!(|pixel| if pixel < R * C {
            let (row, col) = (pixel / C, pixel % C);
            let sums = &mut sums[row][col];
            // SAFETY: by this function's contract, the factor can be read.
            let factor = unsafe { *x.add(first + row * self.x_row_stride + col) };
            add::<S, V, PAIRED>(s, sums, factor, weights);
            for sum in sums {
                (*sum, first) = s.in_turn(*sum, first);
            }
        });
    }
}

/// Adds the products of a factor and weights.
#[inline(always)]
fn add<S: Simd, const V: usize, const PAIRED: bool>(
    s: S,
    sums: &mut [S::F32; V],
    factor: f32,
    weights: &[S::F32; V],
) {
    let factor = s.splat(factor);
    for (sum, &w) in sums.iter_mut().zip(weights) {
        *sum = if PAIRED { s.add_pairs(factor, w, *sum) } else { s.mul_add(factor, w, *sum) };
    }
}
