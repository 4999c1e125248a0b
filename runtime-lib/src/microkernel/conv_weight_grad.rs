//! The inner loops of a derivative by a convolution's weights, where the channels of the result stand
//! in blocks: a tile of a few weights and one or two blocks of output channels is held in registers
//! while pixels run.

use super::BLOCK;
use crate::loops::bounds::reach;
use crate::simd::{Simd, WithSimd, dispatch};

/// The derivatives by the weights of all windows of some rows and columns.
///
/// Weight `k` is that of channel `c = k / taps` and tap `t = k % taps`; for the window at row `i` and
/// column `j` it is multiplied with `x[c / unit · x_block + c % unit + i · x_row + j · unit + taps[t]]`.
pub(crate) struct NchwcWeightGrad<'a> {
    /// The input, as [`super::NchwcConv`] has it.
    pub x: &'a [f32],
    /// How far one block of input channels starts from the next.
    pub x_block: usize,
    /// How far apart in the input is what rows of windows read.
    pub x_row: usize,
    /// How many channels of the input stand side by side.
    pub unit: usize,
    /// Where in the input each element of the window is.
    pub taps: &'a [usize],
    /// Input channels.
    pub channels: usize,
    /// The derivatives by the windows' sums.
    pub dy: &'a [f32],
    /// How far one block of output channels starts from the next.
    pub dy_block: usize,
    /// How far one row of the output starts from the next.
    pub dy_row: usize,
    /// Blocks of output channels.
    pub blocks: usize,
    /// Rows of the output.
    pub rows: usize,
    /// Columns of the output.
    pub cols: usize,
    /// What is added to: `[output block, weight, BLOCK]`.
    pub sums: &'a mut [f32],
}

impl NchwcWeightGrad<'_> {
    /// Adds the derivatives, at the best level that the processor has.
    #[inline(never)]
    pub fn compute(self) {
        dispatch(self);
    }

    /// How many weights an output channel has.
    fn count(&self) -> usize {
        self.channels * self.taps.len()
    }

    /// Where what weight `k` is multiplied with lies for the first window.
    #[inline(always)]
    fn start(&self, k: usize) -> usize {
        let (channel, tap) = (k / self.taps.len(), k % self.taps.len());
        channel / self.unit * self.x_block + channel % self.unit + self.taps[tap]
    }

    /// That every element which the tiles touch is there.
    fn check(&self) {
        let NchwcWeightGrad { x_block, x_row, unit, dy_block, dy_row, blocks, rows, cols, .. } =
            *self;
        let gradients = reach([[blocks - 1, dy_block], [rows - 1, dy_row], [cols, BLOCK]]);
        assert!(gradients <= self.dy.len());
        assert!(reach([[blocks, self.count(), BLOCK]]) <= self.sums.len());
        let tap = self.taps.iter().max().copied().unwrap_or(0);
        let (last, lane) = ((self.channels - 1) / unit, (self.channels - 1).min(unit - 1));
        let first = reach([[rows - 1, x_row], [cols - 1, unit], [tap, 1]]);
        assert!(reach([[first, 1], [last, x_block], [lane, 1]]) < self.x.len());
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
            // SAFETY: `check` has passed, and so many blocks are left.
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
    /// All tiles of the `V` vectors that start at block `block`.
    ///
    /// # Safety
    /// `check` has passed, and as many blocks are left.
    #[inline(always)]
    unsafe fn tiles<S: Simd, const K: usize, const V: usize>(&mut self, s: S, block: usize) {
        let count = self.count();
        let mut k = 0;
        while k < count {
            // SAFETY: there are weights from `k` on.
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

    /// A tile of half as many weights.
    ///
    /// # Safety
    /// As for `tile`.
    #[inline(always)]
    unsafe fn half<S: Simd, const K: usize, const V: usize>(
        &mut self,
        s: S,
        block: usize,
        k: usize,
    ) {
        // SAFETY: as the caller vouches for.
        unsafe {
            match K {
                12 => self.tile::<S, 6, V>(s, block, k),
                6 => self.tile::<S, 3, V>(s, block, k),
                _ => self.tile::<S, 1, V>(s, block, k),
            }
        }
    }

    /// The tile of `K` weights, or as many as are left, and `V` vectors of channels at a block.
    ///
    /// # Safety
    /// `check` has passed, and the block and the first weight are there.
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
            // What is missing to a whole tile is the last one again, and is not written.
            *start = self.start((first + k).min(count - 1));
        }
        // SAFETY: every address lies where `check` saw elements.
        unsafe {
            let mut sums = [[s.splat(0.0); V]; K];
            for row in 0..self.rows {
                let mut x = self.x.as_ptr().add(row * self.x_row);
                let mut dy = self.dy.as_ptr().add(block * self.dy_block + row * self.dy_row);
                for _ in 0..self.cols {
                    let mut gradients = [s.splat(0.0); V];
                    for (v, gradient) in gradients.iter_mut().enumerate() {
                        *gradient = s.load_at(dy.add(place(v, self.dy_block)));
                    }
                    for (sums, &start) in sums.iter_mut().zip(&starts) {
                        let x = s.splat(*x.add(start));
                        for (sum, &gradient) in sums.iter_mut().zip(&gradients) {
                            *sum = s.mul_add(x, gradient, *sum);
                        }
                    }
                    // Not past what `check` saw: the last pixel has nothing behind it.
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
