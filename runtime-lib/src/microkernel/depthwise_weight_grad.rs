//! The micro-kernel of the weight gradient of NCHWc depthwise convolutions: the accumulators of a
//! few taps of one block stay in registers while it iterates over pixels.

use crate::loops::bounds::reach;
use crate::loops::geometry::BLOCK;
use crate::simd::{Simd, WithSimd, dispatch};

/// The weight gradient of one block of channels, accumulated over the windows of some rows and
/// columns.
///
/// For the window at row `i` and column `j`, the input of tap `t` is the channels from
/// `x[i · x_row_stride + j · BLOCK + taps[t]]` on.
pub(crate) struct DepthwiseWeightGrad<'a> {
    /// The input.
    pub x: &'a [f32],
    /// The input stride of a row of windows, in elements.
    pub x_row_stride: usize,
    /// The input offset of each tap.
    pub taps: &'a [usize],
    /// The gradient of the output.
    pub dy: &'a [f32],
    /// The row stride of `dy`, in elements.
    pub dy_row_stride: usize,
    /// The number of rows of windows.
    pub rows: usize,
    /// The number of columns of windows.
    pub cols: usize,
    /// The accumulators: `[tap, BLOCK]`.
    pub sums: &'a mut [f32],
}

impl DepthwiseWeightGrad<'_> {
    /// Accumulates the gradient, at the best SIMD level of the processor.
    #[inline(never)]
    pub fn compute(self) {
        dispatch(self);
    }

    /// Checks that every element that the tiles access is inside its slice.
    fn check(&self) {
        let (last, row) = (self.rows - 1, [self.cols, BLOCK]);
        assert!(reach([[last, self.dy_row_stride], row]) <= self.dy.len());
        assert!(self.taps.len() * BLOCK <= self.sums.len());
        let tap = self.taps.iter().max().copied().unwrap_or(0);
        assert!(reach([[last, self.x_row_stride], [tap, 1], row]) <= self.x.len());
    }
}

impl WithSimd for DepthwiseWeightGrad<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(mut self, s: S) {
        if self.rows * self.cols * self.taps.len() == 0 {
            return;
        }
        self.check();
        for lane in (0..BLOCK).step_by(S::LANES) {
            let mut tap = 0;
            while tap < self.taps.len() {
                // SAFETY: `check` has passed, `tap < taps.len()`, and `lane` is that of a vector in
                // the block.
                tap += unsafe {
                    match self.taps.len() - tap {
                        6.. => self.tile::<S, 9>(s, lane, tap),
                        2.. => self.tile::<S, 5>(s, lane, tap),
                        _ => self.tile::<S, 1>(s, lane, tap),
                    }
                };
            }
        }
    }
}

impl DepthwiseWeightGrad<'_> {
    /// Computes the tile of `K` taps, or of the remaining ones, and one vector of channels. Returns
    /// `K`.
    ///
    /// # Safety
    ///
    /// `check` has passed, `first` is a tap, and a vector at `lane` is inside the block.
    #[inline(always)]
    unsafe fn tile<S: Simd, const K: usize>(&mut self, s: S, lane: usize, first: usize) -> usize {
        let mut starts = [lane; K];
        for (k, start) in starts.iter_mut().enumerate() {
            // Missing taps repeat the last one; their results are not stored.
            *start += self.taps[(first + k).min(self.taps.len() - 1)];
        }
        let mut sums = [s.splat(0.0); K];
        for row in 0..self.rows {
            let x = self.x.as_ptr().wrapping_add(row * self.x_row_stride);
            let dy = self.dy.as_ptr().wrapping_add(row * self.dy_row_stride + lane);
            for col in 0..self.cols {
                // SAFETY: `check` covered the block of each tap at every pixel, and its gradient.
                unsafe {
                    let gradient = s.load_at(dy.add(col * BLOCK));
                    for (sum, &start) in sums.iter_mut().zip(&starts) {
                        *sum = s.mul_add(s.load_at(x.add(start + col * BLOCK)), gradient, *sum);
                    }
                }
            }
        }
        for (&sum, to) in sums.iter().zip(self.sums.chunks_exact_mut(BLOCK).skip(first)) {
            let to = &mut to[lane..];
            s.store(s.add(s.load(to), sum), to);
        }
        K
    }
}
