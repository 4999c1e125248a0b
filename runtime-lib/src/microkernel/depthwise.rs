//! The micro-kernel of NCHWc depthwise convolutions: the accumulators of a few pixels of one block
//! stay in registers while it iterates over taps.

use super::conv_layout::MAX_TAPS;
use super::conv_tile::{bound, finish, next, start, widths};
use crate::loops::bounds::reach;
use crate::loops::geometry::BLOCK;
use crate::simd;
use crate::simd::{Simd, WithSimd};

/// A depthwise convolution that writes rows and columns of one block of channels, whose windows all
/// use the same part of the kernel.
///
/// The input is read without a copy: the output at row `i` and column `j` multiplies the kernel's
/// element at row `k` and column `l` with the channels from this element on:
///
/// ```text
/// x[i · x_strides[0] + j · x_strides[1] + k · tap_strides[0] + l · tap_strides[1]]
/// ```
pub(crate) struct Depthwise<'a> {
    /// The input, from the first element that the first output reads.
    pub x: &'a [f32],
    /// The input strides of a row and of a column of the output, in elements.
    pub x_strides: [usize; 2],
    /// The number of rows and columns of the kernel that are used.
    pub kernel: [usize; 2],
    /// The input strides of a row and of a column of the kernel, in elements.
    pub tap_strides: [usize; 2],
    /// The weights, from the first one that is used: `[kernel column, BLOCK]` for each row.
    pub w: &'a [f32],
    /// The stride of a kernel row in `w`, in elements.
    pub w_row_stride: usize,
    /// The bias of each channel; empty for none.
    pub bias: &'a [f32],
    /// The residual, which is added to the output and has its layout; empty for none.
    pub add: &'a [f32],
    /// The output.
    pub y: &'a mut [f32],
    /// The row and column strides of the output, in elements.
    pub y_strides: [usize; 2],
    /// The number of output rows.
    pub rows: usize,
    /// The number of output columns.
    pub cols: usize,
    /// The minimum and the maximum of the result.
    pub clamp: Option<(f32, f32)>,
}

impl Depthwise<'_> {
    /// Checks that every element that the tiles access is inside its slice.
    fn check(&self) {
        let [rows, cols] = [self.rows - 1, self.cols - 1];
        let end = |[row, col]: [usize; 2]| reach([[rows, row], [cols, col], [BLOCK, 1]]);
        assert!(end(self.y_strides) <= self.y.len());
        assert!(self.add.is_empty() || end(self.y_strides) <= self.add.len());
        assert!(self.bias.is_empty() || BLOCK <= self.bias.len());
        let [height, width] = self.kernel;
        if height > 0 && width > 0 {
            let [tap_row_stride, tap_col_stride] = self.tap_strides;
            let last = reach([[height - 1, tap_row_stride], [width - 1, tap_col_stride]]);
            assert!(reach([[end(self.x_strides), 1], [last, 1]]) <= self.x.len());
            assert!(reach([[height - 1, self.w_row_stride], [width, BLOCK]]) <= self.w.len());
        }
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
        if S::IS_SCALAR {
            // SAFETY: `check` has passed, so that every access of every tile is inside its slice.
            return unsafe { self.compute_pixels(s) };
        }
        match self.x_strides[1] / BLOCK {
            1 => s.run(Rows::<1>(&mut self)),
            2 => s.run(Rows::<2>(&mut self)),
            _ => s.run(Rows::<0>(&mut self)),
        }
    }
}

/// All rows of a convolution for which `check` has passed. The columns of the output are `STEP`
/// pixels apart in the input, or any number if `STEP` is 0. Each is a function of its own:
/// together, they would take longer to compile.
struct Rows<'t, 'a, const STEP: usize>(&'t mut Depthwise<'a>);

impl<const STEP: usize> WithSimd for Rows<'_, '_, STEP> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        // SAFETY: `check` has passed, so that every access of every tile is inside its slice.
        unsafe { self.0.rows::<S, STEP>(s) }
    }
}

impl Depthwise<'_> {
    /// Computes one pixel at a time, with scalars.
    ///
    /// # Safety
    ///
    /// `check` has passed, so that every access of every tile is inside its slice.
    #[inline(always)]
    unsafe fn compute_pixels<S: Simd>(&mut self, s: S) {
        let [[x_row_stride, x_col_stride], [y_row_stride, y_col_stride]] =
            [self.x_strides, self.y_strides];
        let ([height, width], [tap_row_stride, tap_col_stride]) = (self.kernel, self.tap_strides);
        let mut taps = [0; MAX_TAPS];
        let taps = &mut taps[..height * width];
        for (i, tap) in taps.iter_mut().enumerate() {
            *tap = i / width * tap_row_stride + i % width * tap_col_stride;
        }
        // Whole rows of weights are contiguous, so all taps are one run.
        let run = if width * BLOCK == self.w_row_stride { taps.len() } else { width };
        for row in 0..self.rows {
            for col in 0..self.cols {
                let at = row * y_row_stride + col * y_col_stride;
                let mut sums = start(self.bias, self.add.get(at..).unwrap_or(&[]));
                for (i, taps) in taps.chunks(run.max(1)).enumerate() {
                    // SAFETY: `check` covered the channels of each tap, and their weights.
                    unsafe {
                        let x = self.x.as_ptr().add(row * x_row_stride + col * x_col_stride);
                        let w = self.w.as_ptr().add(i * self.w_row_stride);
                        simd::scalar_tile::add_pairs(&mut sums, w, x, taps);
                    }
                }
                finish(s, &sums, self.clamp, 0, &mut self.y[at..at + BLOCK]);
            }
        }
    }

    /// Computes all tiles. The columns of the output are `STEP` pixels apart in the input, or any
    /// number if `STEP` is 0.
    ///
    /// # Safety
    ///
    /// `check` has passed, so that every access of every tile is inside its slice.
    #[inline(always)]
    unsafe fn rows<S: Simd, const STEP: usize>(&mut self, s: S) {
        // A row of a narrow image has too few accumulators to hide the latency of additions, so a
        // tile has several rows.
        let wide = S::LANES == BLOCK && STEP > 0;
        let heights: &[usize] = match self.cols {
            1 if wide => &[8, 4, 2, 1],
            ..=4 if wide => &[4, 2, 1],
            ..=14 if wide => &[2, 1],
            _ => &[1],
        };
        let mut row = 0;
        while row < self.rows {
            let (height, again) = next(heights, self.rows - row, row);
            // SAFETY: `check` has passed, and a tile covers at most the remaining rows and the
            // `again` rows before them.
            unsafe {
                match height {
                    8 => self.tiles::<S, 8, STEP>(s, row - again),
                    4 => self.tiles::<S, 4, STEP>(s, row - again),
                    2 => self.tiles::<S, 2, STEP>(s, row - again),
                    _ => self.tiles::<S, 1, STEP>(s, row - again),
                }
            }
            row += height - again;
        }
    }

    /// Computes the tiles of `R` rows.
    ///
    /// # Safety
    ///
    /// `check` has passed, and the `R` rows from `row` on exist.
    #[inline(always)]
    unsafe fn tiles<S: Simd, const R: usize, const STEP: usize>(&mut self, s: S, row: usize) {
        let mut col = 0;
        while col < self.cols {
            let left = self.cols - col;
            let (width, again) = match (STEP, R) {
                (0, _) => (1, 0),
                // Several rows: the whole width, or two halves if it is more than 7.
                (_, 2..) => (if left > 7 { left.div_ceil(2) } else { left }, 0),
                _ => widths::<S>(left, col),
            };
            let at = [row, col - again];
            // SAFETY: a tile covers at most the remaining columns and the `again` columns before
            // them.
            unsafe {
                match (S::LANES, width) {
                    (16, 14) if R == 1 => self.tile::<S, 1, 14, 1, STEP>(s, at),
                    (16, 8) if R == 1 => self.tile::<S, 1, 8, 1, STEP>(s, at),
                    (16, 7) if R < 4 => self.tile::<S, R, 7, 1, STEP>(s, at),
                    (16, 6) if R == 2 => self.tile::<S, 2, 6, 1, STEP>(s, at),
                    (16, 5) if R == 2 => self.tile::<S, 2, 5, 1, STEP>(s, at),
                    (16, 4) if R < 8 => self.tile::<S, R, 4, 1, STEP>(s, at),
                    (16, 3) if R == 2 || R == 4 => self.tile::<S, R, 3, 1, STEP>(s, at),
                    (16, 2) if R < 8 => self.tile::<S, R, 2, 1, STEP>(s, at),
                    (16, _) => self.tile::<S, R, 1, 1, STEP>(s, at),
                    (8, 6) => self.tile::<S, 1, 6, 2, STEP>(s, at),
                    (8, 4) => self.tile::<S, 1, 4, 2, STEP>(s, at),
                    (8, 2) => self.tile::<S, 1, 2, 2, STEP>(s, at),
                    (8, _) => self.tile::<S, 1, 1, 2, STEP>(s, at),
                    (_, 2) => self.tile::<S, 1, 2, 4, STEP>(s, at),
                    _ => self.tile::<S, 1, 1, 4, STEP>(s, at),
                }
            }
            col += width - again;
        }
    }

    /// Computes the tile of `R` rows and `C` columns, of `V` vectors each, at a row and column.
    ///
    /// # Safety
    ///
    /// `check` has passed, the tile is inside the output, and `C` is 1 if `STEP` is 0.
    #[inline(always)]
    unsafe fn tile<S: Simd, const R: usize, const C: usize, const V: usize, const STEP: usize>(
        &mut self,
        s: S,
        [row, col]: [usize; 2],
    ) {
        let [[x_row_stride, x_col_stride], [y_row_stride, y_col_stride]] =
            [self.x_strides, self.y_strides];
        let [tap_row_stride, tap_col_stride] = self.tap_strides;
        let at = row * y_row_stride + col * y_col_stride;
        // SAFETY: the tile is inside the output, and `check` covered every access of all tiles.
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
                        let add = self.add.as_ptr().add(at + r * y_row_stride + c * y_col_stride);
                        for (v, sum) in sums.iter_mut().enumerate() {
                            *sum = s.add(*sum, s.load_at(add.add(v * S::LANES)));
                        }
                    }
                }
            }
            let mut x = self.x.as_ptr().wrapping_add(row * x_row_stride + col * x_col_stride);
            let mut w = self.w.as_ptr();
            for _ in 0..self.kernel[0] {
                let mut tap = (x, w);
                for _ in 0..self.kernel[1] {
                    for v in 0..V {
                        let weights = s.load_at(tap.1.add(v * S::LANES));
                        for (r, sums) in sums.iter_mut().enumerate() {
                            let x = tap.0.add(r * x_row_stride + v * S::LANES);
                            for (c, sums) in sums.iter_mut().enumerate() {
                                let x = s.load_at(x.add(c * STEP * BLOCK));
                                sums[v] = s.mul_add(x, weights, sums[v]);
                            }
                        }
                    }
                    // `wrapping_add`, because nothing may follow the last tap and the last weights.
                    tap = (tap.0.wrapping_add(tap_col_stride), tap.1.wrapping_add(BLOCK));
                }
                x = x.wrapping_add(tap_row_stride);
                w = w.wrapping_add(self.w_row_stride);
            }
            if let Some((low, high)) = self.clamp {
                bound(s, sums.as_flattened_mut().as_flattened_mut(), low, high);
            }
            for (r, sums) in sums.iter().enumerate() {
                for (c, sums) in sums.iter().enumerate() {
                    let y = self.y.as_mut_ptr().add(at + r * y_row_stride + c * y_col_stride);
                    for (v, &sum) in sums.iter().enumerate() {
                        s.store_at(sum, y.add(v * S::LANES));
                    }
                }
            }
        }
    }
}
