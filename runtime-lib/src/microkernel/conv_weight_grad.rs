//! The micro-kernel of the weight gradient of NCHWc convolutions: the accumulators of a few weights
//! and one or two blocks of output channels stay in registers while it iterates over pixels.

use crate::loops::bounds::reach;
use crate::loops::geometry::BLOCK;
use crate::simd::{Simd, WithSimd, dispatch};

/// The weight gradient, accumulated over the windows of some rows and columns.
///
/// Weight `k` is that of channel `c = k / taps` and tap `t = k % taps`. For the window at row `i`
/// and column `j` its input is
///
/// ```text
/// x[c / unit · x_block_stride + c % unit + i · x_row_stride + j · unit + taps[t]]
/// ```
pub(crate) struct NchwcWeightGrad<'a> {
    /// The input, with the layout of [`super::NchwcConv`].
    pub x: &'a [f32],
    /// The stride of a block of input channels, in elements.
    pub x_block_stride: usize,
    /// The input stride of a row of windows, in elements.
    pub x_row_stride: usize,
    /// The number of contiguous input channels: [`BLOCK`], or 1 for NCHW.
    pub unit: usize,
    /// The input offset of each tap.
    pub taps: &'a [usize],
    /// The number of input channels.
    pub channels: usize,
    /// The gradient of the output.
    pub dy: &'a [f32],
    /// The stride of a block of output channels, in elements.
    pub dy_block_stride: usize,
    /// The row stride of `dy`, in elements.
    pub dy_row_stride: usize,
    /// The number of blocks of output channels.
    pub blocks: usize,
    /// The number of output rows.
    pub rows: usize,
    /// The number of output columns.
    pub cols: usize,
    /// The accumulators: `[output block, weight, BLOCK]`.
    pub sums: &'a mut [f32],
}

impl NchwcWeightGrad<'_> {
    /// Accumulates the gradient, at the best SIMD level of the processor.
    #[inline(never)]
    pub fn compute(self) {
        dispatch(self);
    }

    /// Returns the number of weights of an output channel.
    fn count(&self) -> usize {
        self.channels * self.taps.len()
    }

    /// Returns the offset of the input of weight `k` in the first window.
    #[inline(always)]
    fn start(&self, k: usize) -> usize {
        let (channel, tap) = (k / self.taps.len(), k % self.taps.len());
        channel / self.unit * self.x_block_stride + channel % self.unit + self.taps[tap]
    }

    /// Checks that every element that the tiles access is inside its slice.
    fn check(&self) {
        let NchwcWeightGrad {
            x_block_stride,
            x_row_stride,
            unit,
            dy_block_stride,
            dy_row_stride,
            blocks,
            rows,
            cols,
            ..
        } = *self;
        let gradients =
            reach([[blocks - 1, dy_block_stride], [rows - 1, dy_row_stride], [cols, BLOCK]]);
        assert!(gradients <= self.dy.len());
        assert!(reach([[blocks, self.count(), BLOCK]]) <= self.sums.len());
        let tap = self.taps.iter().max().copied().unwrap_or(0);
        let (last, lane) = ((self.channels - 1) / unit, (self.channels - 1).min(unit - 1));
        let first = reach([[rows - 1, x_row_stride], [cols - 1, unit], [tap, 1]]);
        assert!(reach([[first, 1], [last, x_block_stride], [lane, 1]]) < self.x.len());
    }
}

impl WithSimd for NchwcWeightGrad<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(mut self, s: S) {
        if self.blocks * self.rows * self.cols * self.count() == 0 {
            return;
        }
        self.check();
        let mut block = 0;
        while block < self.blocks {
            let pair = S::LANES == BLOCK && self.blocks - block > 1;
            // SAFETY: `check` has passed, and two blocks are left if `pair`, otherwise one.
            unsafe {
                match S::LANES {
                    16 if pair => self.tiles::<S, 12, 2>(s, block),
                    16 => self.tiles::<S, 12, 1>(s, block),
                    8 => self.tiles::<S, 6, 2>(s, block),
                    _ => self.tiles::<S, 2, 4>(s, block),
                }
            }
            block += if pair { 2 } else { 1 };
        }
    }
}

impl NchwcWeightGrad<'_> {
    /// Computes all tiles of the `V` vectors of channels from block `block` on.
    ///
    /// # Safety
    ///
    /// `check` has passed, and the blocks of the `V` vectors exist.
    #[inline(always)]
    unsafe fn tiles<S: Simd, const K: usize, const V: usize>(&mut self, s: S, block: usize) {
        let count = self.count();
        let mut k = 0;
        while k < count {
            // SAFETY: `k < count`, and the caller guarantees the blocks.
            unsafe {
                if count - k <= K / 2 {
                    self.half::<S, K, V>(s, block, k);
                    k += K / 2;
                } else {
                    self.tile::<S, K, V>(s, block, k);
                    k += K;
                }
            }
        }
    }

    /// Computes a tile of half as many weights.
    ///
    /// # Safety
    ///
    /// The contract of `tile`.
    #[inline(always)]
    unsafe fn half<S: Simd, const K: usize, const V: usize>(
        &mut self,
        s: S,
        block: usize,
        k: usize,
    ) {
        // SAFETY: the contract is that of this function.
        unsafe {
            match K {
                12 => self.tile::<S, 6, V>(s, block, k),
                6 => self.tile::<S, 3, V>(s, block, k),
                _ => self.tile::<S, 1, V>(s, block, k),
            }
        }
    }

    /// Computes the tile of `K` weights, or of the remaining ones, and `V` vectors of channels at a
    /// block.
    ///
    /// # Safety
    ///
    /// `check` has passed, and the block and weight `first` exist.
    #[inline(always)]
    unsafe fn tile<S: Simd, const K: usize, const V: usize>(
        &mut self,
        s: S,
        block: usize,
        first: usize,
    ) {
        let (count, unit) = (self.count(), self.unit);
        let place = |v: usize, apart: usize| v * S::LANES / BLOCK * apart + v * S::LANES % BLOCK;
        let mut starts = [0; K];
        for (k, start) in starts.iter_mut().enumerate() {
            // Missing weights repeat the last one; their results are not stored.
            *start = self.start((first + k).min(count - 1));
        }
        // SAFETY: `check` covered every access of all weights, blocks, rows and columns.
        unsafe {
            let mut sums = [[s.splat(0.0); V]; K];
            for row in 0..self.rows {
                let mut x = self.x.as_ptr().add(row * self.x_row_stride);
                let mut dy =
                    self.dy.as_ptr().add(block * self.dy_block_stride + row * self.dy_row_stride);
                for _ in 0..self.cols {
                    let mut gradients = [s.splat(0.0); V];
                    for (v, gradient) in gradients.iter_mut().enumerate() {
                        *gradient = s.load_at(dy.add(place(v, self.dy_block_stride)));
                    }
                    for (sums, &start) in sums.iter_mut().zip(&starts) {
                        let x = s.splat(*x.add(start));
                        for (sum, &gradient) in sums.iter_mut().zip(&gradients) {
                            *sum = s.mul_add(x, gradient, *sum);
                        }
                    }
                    // `wrapping_add`, because nothing may follow the last pixel.
                    x = x.wrapping_add(unit);
                    dy = dy.wrapping_add(BLOCK);
                }
            }
            for (k, sums) in sums.iter().enumerate().take(count - first) {
                let to = self.sums.as_mut_ptr().add((block * count + first + k) * BLOCK);
                for (v, &sum) in sums.iter().enumerate() {
                    let to = to.add(place(v, count * BLOCK));
                    s.store_at(s.add(s.load_at(to), sum), to);
                }
            }
        }
    }
}
