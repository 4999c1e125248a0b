//! The inner loop of a depthwise convolution whose channels stand in blocks: a few pixels of one
//! block are held in registers while the taps run.

use super::pixels::{BLOCK, finish, start, widths};
use crate::simd::{Simd, WithSimd, dispatch, sixteen};

/// Rows and columns of the output of a depthwise convolution, in one block of channels.
///
/// The input is read where it stands: what tap `t` of the output at row `i` and column `j` reads
/// starts at `x[i · x_row + j · BLOCK + taps[t]]`.
pub(crate) struct Depthwise<'a> {
    /// The input.
    pub x: &'a [f32],
    /// How far apart in the input is what rows of the output read.
    pub x_row: usize,
    /// Where in the input each element of the window is.
    pub taps: &'a [usize],
    /// The weights: `[tap, BLOCK]`.
    pub w: &'a [f32],
    /// What is added to each channel; nothing where empty.
    pub bias: &'a [f32],
    /// What is added to each element of the output, laid out likewise; nothing where empty.
    pub add: &'a [f32],
    /// The output.
    pub y: &'a mut [f32],
    /// How far one row of the output starts from the next.
    pub y_row: usize,
    /// How far one column of the output starts from the next.
    pub y_col: usize,
    /// Rows of the output.
    pub rows: usize,
    /// Columns of the output.
    pub cols: usize,
    /// The least and the largest result.
    pub clamp: Option<(f32, f32)>,
}

impl Depthwise<'_> {
    /// Computes them at the best level that the processor has.
    #[inline(never)]
    pub fn compute(self) {
        dispatch(self);
    }

    /// That every element which the tiles touch is there.
    fn check(&self) {
        let outputs = (self.rows - 1) * self.y_row + (self.cols - 1) * self.y_col + BLOCK;
        assert!(outputs <= self.y.len());
        assert!(self.add.is_empty() || outputs <= self.add.len());
        assert!(self.bias.is_empty() || BLOCK <= self.bias.len());
        assert!(self.taps.len() * BLOCK <= self.w.len());
        let last = self.taps.iter().max().map_or(0, |tap| tap + self.cols * BLOCK);
        assert!(self.taps.is_empty() || (self.rows - 1) * self.x_row + last <= self.x.len());
    }
}

impl WithSimd for Depthwise<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(mut self, s: S) {
        if self.rows * self.cols == 0 {
            return;
        }
        self.check();
        if S::NARROW {
            // SAFETY: `check` has passed.
            return unsafe { self.each(s) };
        }
        let mut row = 0;
        while row < self.rows {
            // A narrow image gives sums enough to keep the processor busy only in several rows.
            let wide = S::LANES == BLOCK;
            // SAFETY: `check` has passed, and so many rows are left.
            row += unsafe {
                match (self.rows - row, self.cols) {
                    (4.., ..=4) if wide => self.tiles::<S, 4>(s, row),
                    (2.., ..=8) if wide => self.tiles::<S, 2>(s, row),
                    _ => self.tiles::<S, 1>(s, row),
                }
            };
        }
    }
}

impl Depthwise<'_> {
    /// One pixel after the other.
    ///
    /// # Safety
    /// `check` has passed.
    #[inline(always)]
    unsafe fn each<S: Simd>(&mut self, s: S) {
        for row in 0..self.rows {
            for col in 0..self.cols {
                let at = row * self.y_row + col * self.y_col;
                let mut sums = start(self.bias, self.add.get(at..).unwrap_or(&[]));
                // SAFETY: `check` saw the channels of each tap, and their weights.
                unsafe {
                    let x = self.x.as_ptr().add(row * self.x_row + col * BLOCK);
                    sixteen::add_pairs(&mut sums, self.w.as_ptr(), x, self.taps);
                }
                finish(s, &sums, self.clamp, 0, &mut self.y[at..at + BLOCK]);
            }
        }
    }

    /// The tiles of `R` rows; how many rows that are.
    ///
    /// # Safety
    /// `check` has passed, and there are such rows.
    #[inline(always)]
    unsafe fn tiles<S: Simd, const R: usize>(&mut self, s: S, row: usize) -> usize {
        let mut col = 0;
        while col < self.cols {
            let (width, again) = widths::<S>(self.cols - col, col);
            let at = [row, col - again];
            // SAFETY: the tile is not wider than what is left and what is done again.
            unsafe {
                match (S::LANES, width) {
                    (16, 14) if R == 1 => self.tile::<S, 1, 14, 1>(s, at),
                    (16, 8) if R < 4 => self.tile::<S, R, 8, 1>(s, at),
                    (16, 7) if R < 4 => self.tile::<S, R, 7, 1>(s, at),
                    (16, 4) => self.tile::<S, R, 4, 1>(s, at),
                    (16, 2) => self.tile::<S, R, 2, 1>(s, at),
                    (16, _) => self.tile::<S, R, 1, 1>(s, at),
                    (8, 6) => self.tile::<S, 1, 6, 2>(s, at),
                    (8, 4) => self.tile::<S, 1, 4, 2>(s, at),
                    (8, 2) => self.tile::<S, 1, 2, 2>(s, at),
                    (8, _) => self.tile::<S, 1, 1, 2>(s, at),
                    (_, 2) => self.tile::<S, 1, 2, 4>(s, at),
                    _ => self.tile::<S, 1, 1, 4>(s, at),
                }
            }
            col += width - again;
        }
        R
    }

    /// The tile of `R` rows and `C` columns, each of `V` vectors, at a row and column.
    ///
    /// # Safety
    /// `check` has passed, and the tile lies inside.
    #[inline(always)]
    unsafe fn tile<S: Simd, const R: usize, const C: usize, const V: usize>(
        &mut self,
        s: S,
        [row, col]: [usize; 2],
    ) {
        let at = row * self.y_row + col * self.y_col;
        // SAFETY: every address lies where `check` saw elements, as the tile lies inside.
        unsafe {
            let mut sums = [[[s.splat(0.0); V]; C]; R];
            if !self.bias.is_empty() {
                for sums in sums.as_flattened_mut() {
                    for (v, sum) in sums.iter_mut().enumerate() {
                        *sum = s.load_at(self.bias.as_ptr().add(v * S::LANES));
                    }
                }
            }
            if !self.add.is_empty() {
                for (r, sums) in sums.iter_mut().enumerate() {
                    for (c, sums) in sums.iter_mut().enumerate() {
                        let add = self.add.as_ptr().add(at + r * self.y_row + c * self.y_col);
                        for (v, sum) in sums.iter_mut().enumerate() {
                            *sum = s.add(*sum, s.load_at(add.add(v * S::LANES)));
                        }
                    }
                }
            }
            let x = self.x.as_ptr().add(row * self.x_row + col * BLOCK);
            let mut w = self.w.as_ptr();
            for &tap in self.taps {
                for v in 0..V {
                    let weights = s.load_at(w.add(v * S::LANES));
                    for (r, sums) in sums.iter_mut().enumerate() {
                        let x = x.add(tap + r * self.x_row + v * S::LANES);
                        for (c, sums) in sums.iter_mut().enumerate() {
                            sums[v] = s.mul_add(s.load_at(x.add(c * BLOCK)), weights, sums[v]);
                        }
                    }
                }
                w = w.add(BLOCK);
            }
            for (r, sums) in sums.iter().enumerate() {
                for (c, sums) in sums.iter().enumerate() {
                    let y = self.y.as_mut_ptr().add(at + r * self.y_row + c * self.y_col);
                    for (v, &sum) in sums.iter().enumerate() {
                        let sum = match self.clamp {
                            Some((low, high)) => s.min(s.splat(high), s.max(s.splat(low), sum)),
                            None => sum,
                        };
                        s.store_at(sum, y.add(v * S::LANES));
                    }
                }
            }
        }
    }
}
