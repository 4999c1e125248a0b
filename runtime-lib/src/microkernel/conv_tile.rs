//! The micro-kernel of NCHWc convolutions: the accumulators of a few pixels and one or two blocks
//! of output channels stay in registers while it iterates over taps and input channels.

use super::conv_layout::{MAX_TILE, Span, UsedTaps};
use super::overlap::{self, Overlap};
use super::prefetch_schedule::PrefetchSchedule;
use super::tile_run::{Tile, TileRun, fits};
pub(super) use super::widths::{next, widths};
use crate::loops::bounds::reach;
use crate::loops::geometry::BLOCK;
use crate::simd::{self, Simd, WithSimd, dispatch, dispatch_pairs};
use crate::threads::Share;

/// A convolution that writes rows and columns of all channel blocks of an output.
///
/// The input is read without a copy: channel `c` and tap `t` of the output at row `i` and column
/// `j` is
///
/// ```text
/// x[c / UNIT · x_block_stride + c % UNIT + i · x_row_stride + j · UNIT + taps.offsets[t]]
/// ```
///
/// `UNIT` is [`BLOCK`] for an NCHWc input and 1 for an NCHW input. If `PAIRED`, an element of the
/// input and of the weights is a pair of `bfloat16` numbers: two neighboring channels ([`PAIRS`]
/// pairs in a block), or two neighboring columns.
pub(crate) struct NchwcConv<'a, const UNIT: usize, const PAIRED: bool = false> {
    /// The input.
    pub x: &'a [f32],
    /// The stride of a block of input channels, in elements.
    pub x_block_stride: usize,
    /// The input stride of a row of the output, in elements.
    pub x_row_stride: usize,
    /// The taps, and their input offsets.
    pub taps: UsedTaps<'a>,
    /// The ranges of input channels that are read.
    pub spans: &'a [Span],
    /// The weights: `[output block, span, input block, tap, input channel of the block, BLOCK]`.
    pub w: &'a [f32],
    /// The bias of each output channel; empty for none.
    pub bias: &'a [f32],
    /// The residual, which is added to the output and has its layout; empty for none.
    pub add: &'a [f32],
    /// The output: one plane for each block, those of one layer after another.
    pub y: Share<'a, f32>,
    /// The row stride of the output, in elements.
    pub y_row_stride: usize,
    /// The column stride of the output, in elements.
    pub y_col_stride: usize,
    /// The number of blocks of output channels.
    pub blocks: usize,
    /// The number of output rows.
    pub rows: usize,
    /// The number of output columns.
    pub cols: usize,
    /// The number of channels at the start of the output's first block that are not written.
    pub kept: usize,
    /// The minimum and the maximum of the result.
    pub clamp: Option<(f32, f32)>,
    /// The number of convolutions of the same shape, whose weights follow each other.
    pub layers: usize,
    /// The input stride of these convolutions, in elements.
    pub x_layer_stride: usize,
}

impl<const UNIT: usize, const PAIRED: bool> NchwcConv<'_, UNIT, PAIRED> {
    /// Computes the convolutions at the best SIMD level of the processor.
    #[inline(never)]
    #[cfg_attr(not(x86_avx512), expect(unused_mut, reason = "only there are tiles"))]
    pub fn compute(mut self) {
        if !PAIRED {
            return dispatch(self);
        }
        #[cfg(x86_avx512)]
        if self.compute_with_tiles() {
            return;
        }
        dispatch_pairs(self);
    }

    /// Checks that every element that the tiles access is inside its slice.
    fn check(&self) {
        let NchwcConv {
            x_block_stride,
            x_row_stride,
            y_row_stride,
            y_col_stride,
            blocks,
            rows,
            cols,
            ..
        } = *self;
        let [row, col, layer] = [rows - 1, cols - 1, self.layers - 1];
        let pixels = reach([[row, y_row_stride], [col, y_col_stride], [BLOCK, 1]]);
        assert!(reach([[col, y_col_stride], [BLOCK, 1]]) <= y_row_stride || rows == 1);
        assert!(reach([[self.layers, blocks]]) <= self.y.planes() && pixels <= self.y.len());
        let addends = reach([[blocks - 1, self.y.apart()], [pixels, 1]]);
        assert!(self.add.is_empty() || addends <= self.add.len());
        assert!(self.bias.is_empty() || reach([[blocks, BLOCK]]) <= self.bias.len());
        assert!(reach([[self.layers, blocks, self.depth(), BLOCK]]) <= self.w.len());
        let Some(&tap) = self.taps.offsets.iter().max() else { return };
        let first =
            reach([[layer, self.x_layer_stride], [row, x_row_stride], [col, UNIT], [tap, 1]]);
        for span in self.spans.iter().filter(|span| span.count > 0) {
            let last = reach([[span.first, 1], [span.count - 1, 1]]);
            let lane = last.min(UNIT - 1);
            assert!(reach([[first, 1], [last / UNIT, x_block_stride], [lane, 1]]) < self.x.len());
        }
    }

    /// Returns the number of weights of each channel of the output.
    pub(super) fn depth(&self) -> usize {
        let channels = self.spans.iter().fold(0, |sum: usize, span| sum.saturating_add(span.count));
        self.taps.weighted().saturating_mul(channels)
    }
}

impl<const UNIT: usize, const PAIRED: bool> WithSimd for NchwcConv<'_, UNIT, PAIRED> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(mut self, s: S) {
        if self.layers * self.blocks * self.rows * self.cols == 0 {
            return;
        }
        self.check();
        for _ in 0..self.layers {
            // SAFETY: `check` has passed, and after `advance_layer` the slices start at the current
            // layer.
            unsafe { self.layer(s) };
            self.advance_layer();
        }
    }
}

impl<const UNIT: usize, const PAIRED: bool> NchwcConv<'_, UNIT, PAIRED> {
    /// Advances the slices to the next layer.
    pub(super) fn advance_layer(&mut self) {
        let w_layer = self.blocks * self.depth() * BLOCK;
        self.x = self.x.get(self.x_layer_stride..).unwrap_or(&[]);
        self.w = self.w.get(w_layer..).unwrap_or(&[]);
        self.y.skip(self.blocks);
    }

    /// Computes one layer.
    ///
    /// # Safety
    ///
    /// `check` has passed, and the slices start at the layer.
    #[inline(always)]
    unsafe fn layer<S: Simd>(&mut self, s: S) {
        if S::IS_SCALAR && !PAIRED {
            // SAFETY: `check` has passed, by this function's contract.
            return unsafe { self.compute_pixels(s) };
        }
        // Computed here, once for all tiles, so that no tile contains the loop that counts
        // channels.
        let schedule = PrefetchSchedule::of(
            self.depth() * BLOCK,
            self.rows * self.cols,
            Overlap::of(self.taps.offsets),
        );
        let mut block = 0;
        while block < self.blocks {
            let together = match self.blocks - block {
                4.. if S::LANES == BLOCK && self.rows == 1 && self.cols <= FEW => 4,
                2.. if S::LANES == BLOCK => 2,
                _ => 1,
            };
            // SAFETY: `check` has passed, and at least `together` blocks start at `block`.
            unsafe {
                match (S::LANES, together) {
                    (16, 4) => self.few(s, schedule, block),
                    (16, 2) => self.tiles::<S, 2>(s, schedule, block),
                    (16, _) => self.tiles::<S, 1>(s, schedule, block),
                    (8, _) => self.tiles::<S, 2>(s, schedule, block),
                    _ => self.tiles::<S, 4>(s, schedule, block),
                }
            }
            block += together;
        }
    }
}

impl<const UNIT: usize, const PAIRED: bool> NchwcConv<'_, UNIT, PAIRED> {
    /// Computes one pixel of one block at a time, with scalars.
    ///
    /// # Safety
    ///
    /// `check` has passed, so that every access of every tile is inside its slice.
    #[inline(always)]
    unsafe fn compute_pixels<S: Simd>(&mut self, s: S) {
        let depth = self.depth() * BLOCK;
        for block in 0..self.blocks {
            for row in 0..self.rows {
                for col in 0..self.cols {
                    let at = row * self.y_row_stride + col * self.y_col_stride;
                    let bias = self.bias.get(block * BLOCK..).unwrap_or(&[]);
                    let add = self.add.get(block * self.y.apart() + at..).unwrap_or(&[]);
                    let mut sums = start(bias, add);
                    let mut w = block * depth;
                    for span in self.spans {
                        let (mut left, mut lane) = (span.count, span.first % UNIT);
                        let mut x = row * self.x_row_stride + col * UNIT;
                        x += span.first / UNIT * self.x_block_stride;
                        while left > 0 {
                            let lanes = left.min(UNIT - lane);
                            let first = w + self.taps.unused[0] * lanes * BLOCK;
                            let (from, weights) = (self.x.as_ptr(), self.w.as_ptr());
                            let (from, taps) = (from.wrapping_add(x + lane), self.taps.offsets);
                            // SAFETY: `check` covered the channels of each tap, and their weights.
                            unsafe {
                                let weights = weights.add(first);
                                simd::scalar_tile::add_products(
                                    &mut sums, weights, from, taps, lanes,
                                );
                            }
                            w += self.taps.weighted() * lanes * BLOCK;
                            x += self.x_block_stride;
                            left -= lanes;
                            lane = 0;
                        }
                    }
                    let kept = if block == 0 { self.kept } else { 0 };
                    finish(s, &sums, self.clamp, kept, &mut self.y.plane(block)[at..at + BLOCK]);
                }
            }
        }
    }
}

/// Returns the initial accumulators of a pixel; an empty slice adds nothing.
#[inline(always)]
pub(super) fn start(bias: &[f32], add: &[f32]) -> [f32; BLOCK] {
    let mut sums = *bias.first_chunk().unwrap_or(&[0.0; BLOCK]);
    if let Some(add) = add.first_chunk::<BLOCK>() {
        sums.iter_mut().zip(add).for_each(|(sum, add)| *sum += add);
    }
    sums
}

/// Stores the accumulators of a pixel, except the first `kept`.
#[inline(always)]
pub(super) fn finish<S: Simd>(
    s: S,
    sums: &[f32; BLOCK],
    clamp: Option<(f32, f32)>,
    kept: usize,
    y: &mut [f32],
) {
    let (low, high) = clamp.unwrap_or_default();
    let (low, high) = (s.splat(low), s.splat(high));
    let mut bounded = *sums;
    for bounded in bounded.chunks_exact_mut(S::LANES).filter(|_| clamp.is_some()) {
        s.store(s.min(high, s.max(low, s.load(bounded))), bounded);
    }
    for (y, sum) in y.iter_mut().zip(bounded).skip(kept) {
        *y = sum;
    }
}

/// Clamps accumulators to `low` and `high`.
#[inline(always)]
pub(super) fn bound<S: Simd>(s: S, sums: &mut [S::F32], low: f32, high: f32) {
    for sum in sums.iter_mut() {
        *sum = s.max(s.splat(low), *sum);
    }
    // Most activations have no maximum.
    if high < f32::INFINITY {
        for sum in sums.iter_mut() {
            *sum = s.min(s.splat(high), *sum);
        }
    }
}

/// Returns the offset of vector `v` among blocks with the stride `apart`.
#[inline(always)]
pub(super) fn place<S: Simd>(v: usize, apart: usize) -> usize {
    v * S::LANES / BLOCK * apart + v * S::LANES % BLOCK
}

/// The widest row for which the accumulators of four blocks fit in registers.
const FEW: usize = 4;

impl<const UNIT: usize, const PAIRED: bool> NchwcConv<'_, UNIT, PAIRED> {
    /// Computes all tiles of the `V` vectors of channels from block `block` on.
    ///
    /// # Safety
    ///
    /// `check` has passed, and `block` and the blocks of the `V` vectors exist.
    #[inline(always)]
    unsafe fn tiles<S: Simd, const V: usize>(
        &mut self,
        s: S,
        schedule: PrefetchSchedule,
        block: usize,
    ) {
        let keeps = self.keeps(block);
        let mut row = 0;
        while row < self.rows {
            let two = S::LANES == BLOCK && row + 1 < self.rows;
            if !(two && (matches!(self.cols, 4..=7) || self.cols == 10 && V == 1)) {
                // SAFETY: the caller guarantees the blocks, and the row exists.
                row += unsafe { self.row::<S, V>(s, schedule, [block, row]) };
                continue;
            }
            let count = if keeps { 1 } else { (self.rows - row) / 2 };
            let run = TileRun { at: [block, row, 0], count, step: [2, 0] };
            // SAFETY: the caller guarantees the blocks; the tiles are inside the remaining rows.
            self.keep(
                run,
                [2, self.cols],
                #[inline(always)]
                |conv| unsafe {
                    match conv.cols {
                        10 => conv.tile::<S, 2, 10, V>(s, schedule, run),
                        7 => conv.tile::<S, 2, 7, V>(s, schedule, run),
                        6 => conv.tile::<S, 2, 6, V>(s, schedule, run),
                        5 => conv.tile::<S, 2, 5, V>(s, schedule, run),
                        _ => conv.tile::<S, 2, 4, V>(s, schedule, run),
                    }
                },
            );
            row += 2 * count;
        }
    }

    /// Computes a tile of a few pixels and four blocks of one vector each: with fewer accumulators,
    /// the latency of additions would show.
    ///
    /// # Safety
    ///
    /// `check` has passed, four blocks start at `block`, and there is one row of at most [`FEW`]
    /// columns.
    #[inline(always)]
    unsafe fn few<S: Simd>(&mut self, s: S, schedule: PrefetchSchedule, block: usize) {
        let run = TileRun { at: [block, 0, 0], count: 1, step: [0, 0] };
        // SAFETY: the caller guarantees the blocks and the row, and `cols` is the width of the
        // tile.
        self.keep(
            run,
            [1, self.cols],
            #[inline(always)]
            |conv| unsafe {
                match conv.cols {
                    4 => conv.tile::<S, 1, 4, 4>(s, schedule, run),
                    3 => conv.tile::<S, 1, 3, 4>(s, schedule, run),
                    2 => conv.tile::<S, 1, 2, 4>(s, schedule, run),
                    _ => conv.tile::<S, 1, 1, 4>(s, schedule, run),
                }
            },
        );
    }

    /// Computes the tiles of one row, or of all rows from this one on if each is one tile. Returns
    /// the number of rows.
    ///
    /// # Safety
    ///
    /// The contract of `tiles`, and `row` exists.
    #[inline(always)]
    unsafe fn row<S: Simd, const V: usize>(
        &mut self,
        s: S,
        schedule: PrefetchSchedule,
        [block, row]: [usize; 2],
    ) -> usize {
        let keeps = self.keeps(block);
        let mut rows = 1;
        let mut col = 0;
        while col < self.cols {
            let (width, again) = self.width::<S, V>(col);
            let mut run = TileRun { at: [block, row, col - again], count: 1, step: [0, width] };
            col += width - again;
            if width == self.cols && !keeps {
                rows = self.rows - row;
                run = TileRun { count: rows, step: [1, 0], ..run };
            }
            while col < self.cols && !keeps && self.width::<S, V>(col) == (width, 0) {
                run.count += 1;
                col += width;
            }
            // SAFETY: a tile covers at most the remaining columns and the `again` columns before
            // them.
            self.keep(
                run,
                [1, width],
                #[inline(always)]
                |conv| unsafe {
                    match (S::LANES, width) {
                        (16, 16) if V == 1 => conv.tile::<S, 1, 16, V>(s, schedule, run),
                        (16, 14) => conv.tile::<S, 1, 14, V>(s, schedule, run),
                        (16, 10) => conv.tile::<S, 1, 10, V>(s, schedule, run),
                        (16, 9) => conv.tile::<S, 1, 9, V>(s, schedule, run),
                        (16, 8) => conv.tile::<S, 1, 8, V>(s, schedule, run),
                        (16, 7) => conv.tile::<S, 1, 7, V>(s, schedule, run),
                        (8, 6) => conv.tile::<S, 1, 6, V>(s, schedule, run),
                        (8.., 4) => conv.tile::<S, 1, 4, V>(s, schedule, run),
                        (_, 2) => conv.tile::<S, 1, 2, V>(s, schedule, run),
                        _ => conv.tile::<S, 1, 1, V>(s, schedule, run),
                    }
                },
            );
        }
        rows
    }

    /// Returns the width of the tile at a column, and the number of columns that it recomputes.
    #[inline(always)]
    fn width<S: Simd, const V: usize>(&self, col: usize) -> (usize, usize) {
        match self.cols - col {
            // With one vector per pixel, more pixels fit in registers.
            16 | 30.. if S::LANES == BLOCK && V == 1 => (16, 0),
            // A remainder below eight pixels recomputes fewer of them.
            9 | 13 if S::LANES == BLOCK => (9, 0),
            // Two pixels alone would not hide the latency of additions.
            10 if S::LANES == BLOCK => (10, 0),
            n => widths::<S>(n, col),
        }
    }

    /// Returns whether some channels of a block must not change.
    #[inline(always)]
    fn keeps(&self, block: usize) -> bool {
        block == 0 && self.kept > 0
    }

    /// Computes tiles of this size by `tile`. Channels that must not change are restored after the
    /// only tile: a branch in the tile would spill its accumulators.
    #[inline(always)]
    fn keep(&mut self, run: TileRun, size: [usize; 2], tile: impl FnOnce(&mut Self)) {
        let TileRun { at: [block, row, col], .. } = run;
        let at = row * self.y_row_stride + col * self.y_col_stride;
        let before = self.keeps(block).then(|| self.pixels(at, size));
        tile(self);
        if let Some(before) = before {
            self.restore(at, size, &before);
        }
    }

    /// Computes tiles of `R` rows, `C` columns and `V` vectors of channels, with all channels.
    ///
    /// # Safety
    ///
    /// `check` has passed, and the tiles are inside the output.
    #[inline(always)]
    unsafe fn tile<S: Simd, const R: usize, const C: usize, const V: usize>(
        &mut self,
        s: S,
        schedule: PrefetchSchedule,
        run: TileRun,
    ) {
        // Constants, so that tiles are not compiled for levels, and overlaps not for tiles, that do
        // not use them.
        debug_assert!(fits::<S>(R * C * V), "no level has tiles that do not fit in its registers");
        if const { !fits::<S>(R * C * V) } {
            return;
        }
        // One tile at a time where taps overlap: in a loop, its accumulators would spill.
        if const { UNIT == 1 && !PAIRED && V == 1 && overlap::pays::<S>(R * C) } {
            let tiles = (0..run.count).map(|i| run.tile(i));
            match schedule.overlap {
                Some(Overlap::Three) => tiles.for_each(|run| {
                    s.run(Tile::<_, R, C, V, 3, 1> { conv: &mut *self, schedule, run });
                }),
                Some(Overlap::Five) => tiles.for_each(|run| {
                    s.run(Tile::<_, R, C, V, 5, 1> { conv: &mut *self, schedule, run });
                }),
                Some(Overlap::ThreeApart) => tiles.for_each(|run| {
                    s.run(Tile::<_, R, C, V, 3, 2> { conv: &mut *self, schedule, run });
                }),
                None => s.run(Tile::<_, R, C, V, 1, 0> { conv: self, schedule, run }),
            }
            return;
        }
        s.run(Tile::<_, R, C, V, 1, 0> { conv: self, schedule, run });
    }

    /// Returns the first block of the pixels of a tile.
    #[inline(never)]
    fn pixels(&mut self, at: usize, tile: [usize; 2]) -> [[f32; BLOCK]; MAX_TILE] {
        let mut pixels = [[0.0; BLOCK]; MAX_TILE];
        for (pixel, at) in pixels.iter_mut().zip(self.places(at, tile)) {
            pixel.copy_from_slice(&self.y.plane(0)[at..][..BLOCK]);
        }
        pixels
    }

    /// Restores the first channels of a tile's pixels.
    #[inline(never)]
    fn restore(&mut self, at: usize, tile: [usize; 2], before: &[[f32; BLOCK]; MAX_TILE]) {
        for (pixel, at) in before.iter().zip(self.places(at, tile)) {
            self.y.plane(0)[at..][..self.kept].copy_from_slice(&pixel[..self.kept]);
        }
    }

    /// Returns the offsets of a tile's pixels, starting at `at`.
    fn places(
        &self,
        at: usize,
        [rows, cols]: [usize; 2],
    ) -> impl Iterator<Item = usize> + use<UNIT, PAIRED> {
        let (y_row_stride, y_col_stride) = (self.y_row_stride, self.y_col_stride);
        (0..rows * cols).map(move |i| at + i / cols * y_row_stride + i % cols * y_col_stride)
    }
}
