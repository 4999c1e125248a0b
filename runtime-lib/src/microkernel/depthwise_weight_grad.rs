//! The inner loop of a derivative by the weights of a depthwise convolution whose channels stand in
//! blocks: the sums of a few taps of one block are held in registers while pixels run.

use super::BLOCK;
use crate::loops::bounds::reach;
use crate::simd::{Simd, WithSimd, dispatch};

/// The derivatives by the weights of all windows of some rows and columns, in one block of channels.
///
/// For the window at row `i` and column `j`, tap `t` is multiplied with the channels from
/// `x[i · x_row + j · BLOCK + taps[t]]` on.
pub(crate) struct DepthwiseWeightGrad<'a> {
    /// The input.
    pub x: &'a [f32],
    /// How far apart in the input is what rows of windows read.
    pub x_row: usize,
    /// Where in the input each element of the window is.
    pub taps: &'a [usize],
    /// The derivatives by the windows' sums.
    pub dy: &'a [f32],
    /// How far one row of them starts from the next.
    pub dy_row: usize,
    /// Rows of windows.
    pub rows: usize,
    /// Columns of windows.
    pub cols: usize,
    /// What is added to: `[tap, BLOCK]`.
    pub sums: &'a mut [f32],
}

impl DepthwiseWeightGrad<'_> {
    /// Adds the derivatives, at the best level that the processor has.
    #[inline(never)]
    pub fn compute(self) {
        dispatch(self);
    }

    /// That every element which the tiles touch is there.
    fn check(&self) {
        let (last, row) = (self.rows - 1, [self.cols, BLOCK]);
        assert!(reach([[last, self.dy_row], row]) <= self.dy.len());
        assert!(self.taps.len() * BLOCK <= self.sums.len());
        let tap = self.taps.iter().max().copied().unwrap_or(0);
        assert!(reach([[last, self.x_row], [tap, 1], row]) <= self.x.len());
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
                // SAFETY: `check` has passed, and there are taps from `tap` on.
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
    /// The tile of `K` taps, or as many as are left, and one vector of channels; `K`.
    ///
    /// # Safety
    /// `check` has passed, and the lane and the first tap are there.
    #[inline(always)]
    unsafe fn tile<S: Simd, const K: usize>(&mut self, s: S, lane: usize, first: usize) -> usize {
        let mut starts = [lane; K];
        for (k, start) in starts.iter_mut().enumerate() {
            // What is missing to a whole tile is the last one again, and is not written.
            *start += self.taps[(first + k).min(self.taps.len() - 1)];
        }
        let mut sums = [s.splat(0.0); K];
        for row in 0..self.rows {
            let x = self.x.as_ptr().wrapping_add(row * self.x_row);
            let dy = self.dy.as_ptr().wrapping_add(row * self.dy_row + lane);
            for col in 0..self.cols {
                // SAFETY: `check` saw the block of each tap at this pixel, and its derivatives.
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
