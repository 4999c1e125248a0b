//! The micro-kernel of grouped NCHWc convolutions, several groups of which share a block.

use super::conv_layout::UsedTaps;
use crate::loops::bounds::reach;
use crate::loops::geometry::BLOCK;
use crate::simd::{Simd, WithSimd, dispatch};

/// A convolution that writes rows and columns of one block of channels. The block consists of
/// `GROUPS` groups, each with as many filters as channels.
///
/// In the input, the weights and the accumulators, the lanes of a block are *interleaved*: first
/// the first channel of each group, then the second of each, and so on. So the channels that are
/// multiplied at once, one of each group, follow each other, and one load repeats them for all
/// filters.
pub(crate) struct NarrowGroups<'a, const GROUPS: usize> {
    /// The input, whose pixels are interleaved blocks.
    pub x: &'a [f32],
    /// The input stride of a row of the output, in elements.
    pub x_row_stride: usize,
    /// The taps, and their input offsets.
    pub taps: UsedTaps<'a>,
    /// The weights: `[tap, channel of a group, BLOCK]`, interleaved.
    pub w: &'a [f32],
    /// The bias of each channel; empty for none.
    pub bias: &'a [f32],
    /// The residual, which is added to the output and has its layout; empty for none.
    pub add: &'a [f32],
    /// The output, from its first pixel on.
    pub y: &'a mut [f32],
    /// The row stride of the output, in elements.
    pub y_row_stride: usize,
    /// The number of output rows.
    pub rows: usize,
    /// The number of output columns.
    pub cols: usize,
    /// The minimum and the maximum of the result.
    pub clamp: Option<(f32, f32)>,
}

impl<const GROUPS: usize> NarrowGroups<'_, GROUPS> {
    /// The channels of a group.
    const CHANNELS: usize = BLOCK / GROUPS;

    /// Computes the convolution at the best SIMD level of the processor.
    #[inline(never)]
    pub fn compute(self) {
        dispatch(self);
    }

    /// Checks that every element that the tiles access is inside its slice.
    fn check(&self) {
        let NarrowGroups { x_row_stride, y_row_stride, rows, cols, .. } = *self;
        let pixels = reach([[rows - 1, y_row_stride], [cols - 1, BLOCK], [BLOCK, 1]]);
        assert!(pixels <= self.y.len());
        assert!(self.add.is_empty() || pixels <= self.add.len());
        assert!(self.bias.is_empty() || BLOCK <= self.bias.len());
        assert!(reach([[self.taps.weighted(), Self::CHANNELS * BLOCK]]) <= self.w.len());
        let Some(&tap) = self.taps.offsets.iter().max() else { return };
        let last = reach([[rows - 1, x_row_stride], [cols - 1, BLOCK], [tap, 1], [BLOCK, 1]]);
        assert!(last <= self.x.len());
    }
}

impl<const GROUPS: usize> WithSimd for NarrowGroups<'_, GROUPS> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(mut self, s: S) {
        if self.rows * self.cols == 0 {
            return;
        }
        self.check();
        for row in 0..self.rows {
            // SAFETY: `check` has passed, and a block is that number of vectors.
            unsafe {
                match S::LANES {
                    16 => self.row::<S, 1, 14, 7>(s, row),
                    8 => self.row::<S, 2, 5, 2>(s, row),
                    _ => self.row::<S, 4, 2, 1>(s, row),
                }
            }
        }
    }
}

impl<const GROUPS: usize> NarrowGroups<'_, GROUPS> {
    /// Computes a row in tiles of `C` pixels, or of `FEW`. The last one overlaps the one before.
    ///
    /// # Safety
    ///
    /// `check` has passed, the row exists, and a block is `V` vectors.
    #[inline(always)]
    unsafe fn row<S: Simd, const V: usize, const C: usize, const FEW: usize>(
        &mut self,
        s: S,
        row: usize,
    ) {
        let mut col = 0;
        while col < self.cols {
            let left = self.cols - col;
            // SAFETY: each tile ends at `cols` or before it.
            unsafe {
                if left >= C {
                    self.tile::<S, V, C>(s, row, col);
                    col += C;
                } else if left > FEW && self.cols >= C {
                    self.tile::<S, V, C>(s, row, self.cols - C);
                    col = self.cols;
                } else if left >= FEW {
                    self.tile::<S, V, FEW>(s, row, col);
                    col += FEW;
                } else if self.cols >= FEW {
                    self.tile::<S, V, FEW>(s, row, self.cols - FEW);
                    col = self.cols;
                } else {
                    self.tile::<S, V, 1>(s, row, col);
                    col += 1;
                }
            }
        }
    }

    /// Computes a tile of `C` pixels.
    ///
    /// # Safety
    ///
    /// `check` has passed, the pixels exist, and a block is `V` vectors.
    #[inline(always)]
    unsafe fn tile<S: Simd, const V: usize, const C: usize>(
        &mut self,
        s: S,
        row: usize,
        col: usize,
    ) {
        // SAFETY: by this function's contract, `check` covered these pixels of the input and of
        // the output, and all weights.
        unsafe {
            let sums = self.sums::<S, V, C>(s, row * self.x_row_stride + col * BLOCK);
            for (c, sums) in sums.into_iter().enumerate() {
                let sums = ordered::<S, V, GROUPS>(s, sums);
                let at = row * self.y_row_stride + (col + c) * BLOCK;
                for (v, mut sum) in sums.into_iter().enumerate() {
                    let lane = v * S::LANES;
                    if !self.bias.is_empty() {
                        sum = s.add(sum, s.load_at(self.bias.as_ptr().add(lane)));
                    }
                    if !self.add.is_empty() {
                        sum = s.add(sum, s.load_at(self.add.as_ptr().add(at + lane)));
                    }
                    if let Some((low, high)) = self.clamp {
                        sum = s.min(s.splat(high), s.max(s.splat(low), sum));
                    }
                    s.store_at(sum, self.y.as_mut_ptr().add(at + lane));
                }
            }
        }
    }

    /// Returns the accumulators of a tile, whose input starts at `x`.
    ///
    /// # Safety
    ///
    /// The contract of `tile`.
    #[inline(always)]
    unsafe fn sums<S: Simd, const V: usize, const C: usize>(
        &self,
        s: S,
        x: usize,
    ) -> [[S::F32; V]; C] {
        let mut sums = [[s.splat(0.0); V]; C];
        // SAFETY: by this function's contract, `check` covered the input and the weights.
        unsafe {
            let mut w = self.w.as_ptr().add(self.taps.unused[0] * Self::CHANNELS * BLOCK);
            for &tap in self.taps.offsets {
                let x = self.x.as_ptr().add(x + tap);
                for channel in 0..Self::CHANNELS {
                    let mut weights = [s.splat(0.0); V];
                    for (v, weights) in weights.iter_mut().enumerate() {
                        *weights = s.load_at(w.add(v * S::LANES));
                    }
                    for (c, sums) in sums.iter_mut().enumerate() {
                        let from = x.add(c * BLOCK + channel * GROUPS);
                        let x = if const { GROUPS == 2 } {
                            s.repeat_two(from)
                        } else {
                            s.repeat_four(from)
                        };
                        for (sum, &w) in sums.iter_mut().zip(&weights) {
                            *sum = s.mul_add(x, w, *sum);
                        }
                    }
                    w = w.add(BLOCK);
                }
            }
        }
        sums
    }
}

/// Returns the vectors of an interleaved block in the order of its channels.
#[inline(always)]
fn ordered<S: Simd, const V: usize, const GROUPS: usize>(s: S, mut x: [S::F32; V]) -> [S::F32; V] {
    const { assert!(GROUPS == 2 || GROUPS == 4) };
    for _ in 0..GROUPS / 2 {
        x = evens_first(s, x);
    }
    x
}

/// Interleaves the channels of the `GROUPS` groups of each block of `x`.
#[inline(always)]
pub(crate) fn interleave<S: Simd, const GROUPS: usize>(s: S, x: &[f32], y: &mut [f32]) {
    match S::LANES {
        16 => interleave_vectors::<S, 1, GROUPS>(s, x, y),
        8 => interleave_vectors::<S, 2, GROUPS>(s, x, y),
        _ => interleave_vectors::<S, 4, GROUPS>(s, x, y),
    }
}

/// [`interleave`] for blocks of `V` vectors.
#[inline(always)]
fn interleave_vectors<S: Simd, const V: usize, const GROUPS: usize>(
    s: S,
    x: &[f32],
    y: &mut [f32],
) {
    let mut block = [s.splat(0.0); V];
    for (v, block) in block.iter_mut().enumerate() {
        *block = s.load(&x[v * S::LANES..]);
    }
    // Four times in all, `evens_first` changes nothing.
    for _ in 0..4 - GROUPS / 2 {
        block = evens_first(s, block);
    }
    for (v, block) in block.into_iter().enumerate() {
        s.store(block, &mut y[v * S::LANES..]);
    }
}

/// Returns the lanes of a block with the even ones first.
#[inline(always)]
fn evens_first<S: Simd, const V: usize>(s: S, x: [S::F32; V]) -> [S::F32; V] {
    const HALVES: [f32; BLOCK] = {
        let mut halves = [1.0; BLOCK];
        halves.split_at_mut(BLOCK / 2).0.copy_from_slice(&[0.0; BLOCK / 2]);
        halves
    };
    let mut y = x;
    if V == 1 {
        let [evens, odds] = s.evens_and_odds(x[0], x[0]);
        y[0] = s.select(s.lt(s.load(&HALVES), s.splat(0.5)), evens, odds);
        return y;
    }
    for i in 0..V / 2 {
        [y[i], y[V / 2 + i]] = s.evens_and_odds(x[2 * i], x[2 * i + 1]);
    }
    y
}
