//! The inner loops of a convolution whose channels stand in blocks: a tile of a few pixels and one
//! or two blocks of output channels is held in registers while taps and input channels run.

use super::conv_layout::{BLOCK, MAX_TILE, Span};
use super::overlap::Overlap;
use super::prefetch_schedule::{PrefetchSchedule, WeightStream};
pub(super) use super::widths::{next, widths};
use crate::loops::bounds::reach;
use crate::simd::{self, Simd, WithSimd, dispatch, dispatch_pairs};
use crate::threads::Share;

/// Rows and columns of the output of a convolution, in all blocks of its channels.
///
/// The input is read where it stands: the element of channel `c` and tap `t` for the output at row
/// `i` and column `j` is `x[c / UNIT · x_block + c % UNIT + i · x_row + j · UNIT + taps[t]]`. `UNIT`
/// is [`BLOCK`] where the channels of the input stand in blocks, too, and 1 where they do not. Where they are
/// `PAIRED`, an element is a pair of `bfloat16` numbers, and so is one of the weights: of neighboring
/// channels, of which a block has [`PAIRS`], or of neighboring columns.
pub(crate) struct NchwcConv<'a, const UNIT: usize, const PAIRED: bool = false> {
    /// The input.
    pub x: &'a [f32],
    /// How far one block of input channels starts from the next.
    pub x_block: usize,
    /// How far apart in the input is what rows of the output read.
    pub x_row: usize,
    /// Where in the input each element of the window is.
    pub taps: &'a [usize],
    /// The input channels that are read, which are as many neighbors as each span tells.
    pub spans: &'a [Span],
    /// The weights: `[output block, span, input block, tap, input channel of the block, BLOCK]`.
    pub w: &'a [f32],
    /// What is added to each output channel; nothing where empty.
    pub bias: &'a [f32],
    /// What is added to each element of the output, laid out likewise; nothing where empty.
    pub add: &'a [f32],
    /// The output: a plane for each block, those of one layer after another.
    pub y: Share<'a, f32>,
    /// How far one row of the output starts from the next.
    pub y_row: usize,
    /// How far one column of the output starts from the next.
    pub y_col: usize,
    /// Blocks of output channels.
    pub blocks: usize,
    /// Rows of the output.
    pub rows: usize,
    /// Columns of the output.
    pub cols: usize,
    /// How many channels of the first block of the output stay what they are.
    pub kept: usize,
    /// The least and the largest result.
    pub clamp: Option<(f32, f32)>,
    /// How many such there are, with weights one after the other, and the same of all else.
    pub layers: usize,
    /// How far one of their inputs starts from the next.
    pub x_layer: usize,
}

impl<const UNIT: usize, const PAIRED: bool> NchwcConv<'_, UNIT, PAIRED> {
    /// Computes them at the best level that the processor has.
    #[inline(never)]
    #[cfg_attr(not(target_arch = "x86_64"), expect(unused_mut, reason = "only there are tiles"))]
    pub fn compute(mut self) {
        if !PAIRED {
            return dispatch(self);
        }
        #[cfg(target_arch = "x86_64")]
        if self.by_tiles() {
            return;
        }
        dispatch_pairs(self);
    }

    /// That every element which the tiles touch is there.
    fn check(&self) {
        let NchwcConv { x_block, x_row, y_row, y_col, blocks, rows, cols, .. } = *self;
        let [row, col, layer] = [rows - 1, cols - 1, self.layers - 1];
        let pixels = reach([[row, y_row], [col, y_col], [BLOCK, 1]]);
        assert!(reach([[col, y_col], [BLOCK, 1]]) <= y_row || rows == 1);
        assert!(reach([[self.layers, blocks]]) <= self.y.planes() && pixels <= self.y.len());
        let addends = reach([[blocks - 1, self.y.apart()], [pixels, 1]]);
        assert!(self.add.is_empty() || addends <= self.add.len());
        assert!(self.bias.is_empty() || reach([[blocks, BLOCK]]) <= self.bias.len());
        assert!(reach([[self.layers, blocks, self.depth(), BLOCK]]) <= self.w.len());
        let Some(&tap) = self.taps.iter().max() else { return };
        let first = reach([[layer, self.x_layer], [row, x_row], [col, UNIT], [tap, 1]]);
        for span in self.spans.iter().filter(|span| span.count > 0) {
            let last = reach([[span.first, 1], [span.count - 1, 1]]);
            let lane = last.min(UNIT - 1);
            assert!(reach([[first, 1], [last / UNIT, x_block], [lane, 1]]) < self.x.len());
        }
    }

    /// How many products an output is the sum of.
    pub(super) fn depth(&self) -> usize {
        let channels = self.spans.iter().fold(0, |sum: usize, span| sum.saturating_add(span.count));
        self.taps.len().saturating_mul(channels)
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
            // SAFETY: `check` has passed, and the slices start with a layer's.
            unsafe { self.layer(s) };
            self.pass();
        }
    }
}

impl<const UNIT: usize, const PAIRED: bool> NchwcConv<'_, UNIT, PAIRED> {
    /// Goes on to the next layer.
    pub(super) fn pass(&mut self) {
        let w_layer = self.blocks * self.depth() * BLOCK;
        self.x = self.x.get(self.x_layer..).unwrap_or(&[]);
        self.w = self.w.get(w_layer..).unwrap_or(&[]);
        self.y.skip(self.blocks);
    }

    /// All of one layer.
    ///
    /// # Safety
    /// `check` has passed, and the slices start with the layer's.
    #[inline(always)]
    unsafe fn layer<S: Simd>(&mut self, s: S) {
        if S::IS_SCALAR && !PAIRED {
            // SAFETY: the caller's promise is the same.
            return unsafe { self.each(s) };
        }
        // Told to all tiles, none of which is to have the loop that counts them.
        let schedule = PrefetchSchedule::of(
            self.depth() * BLOCK,
            self.rows * self.cols,
            Overlap::of(self.taps),
        );
        let mut block = 0;
        while block < self.blocks {
            let together = match self.blocks - block {
                4.. if S::LANES == BLOCK && self.rows == 1 && self.cols <= FEW => 4,
                2.. if S::LANES == BLOCK => 2,
                _ => 1,
            };
            // SAFETY: the caller vouches for the layer, and so many blocks are left.
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
    /// One pixel after the other, each of one block.
    ///
    /// # Safety
    /// `check` has passed.
    #[inline(always)]
    unsafe fn each<S: Simd>(&mut self, s: S) {
        let depth = self.depth() * BLOCK;
        for block in 0..self.blocks {
            for row in 0..self.rows {
                for col in 0..self.cols {
                    let at = row * self.y_row + col * self.y_col;
                    let bias = self.bias.get(block * BLOCK..).unwrap_or(&[]);
                    let add = self.add.get(block * self.y.apart() + at..).unwrap_or(&[]);
                    let mut sums = start(bias, add);
                    let mut w = block * depth;
                    for span in self.spans {
                        let (mut left, mut lane) = (span.count, span.first % UNIT);
                        let mut x = row * self.x_row + col * UNIT;
                        x += span.first / UNIT * self.x_block;
                        while left > 0 {
                            let lanes = left.min(UNIT - lane);
                            let (from, weights) = (self.x.as_ptr(), self.w.as_ptr());
                            // SAFETY: `check` saw the channels of each tap, and their weights.
                            unsafe {
                                let (from, weights) = (from.add(x + lane), weights.add(w));
                                simd::scalar_tile::add_products(
                                    &mut sums, weights, from, self.taps, lanes,
                                );
                            }
                            w += self.taps.len() * lanes * BLOCK;
                            x += self.x_block;
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

/// What the sums of a pixel start with: nothing where a slice is empty.
#[inline(always)]
pub(super) fn start(bias: &[f32], add: &[f32]) -> [f32; BLOCK] {
    let mut sums = *bias.first_chunk().unwrap_or(&[0.0; BLOCK]);
    if let Some(add) = add.first_chunk::<BLOCK>() {
        sums.iter_mut().zip(add).for_each(|(sum, add)| *sum += add);
    }
    sums
}

/// Stores the sums of a pixel, but for the first ones, of which so many are kept.
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

/// Bounds sums.
#[inline(always)]
pub(super) fn bound<S: Simd>(s: S, sums: &mut [S::F32], low: f32, high: f32) {
    for sum in sums.iter_mut() {
        *sum = s.max(s.splat(low), *sum);
    }
    // Most have no upper one.
    if high < f32::INFINITY {
        for sum in sums.iter_mut() {
            *sum = s.min(s.splat(high), *sum);
        }
    }
}

/// Where vector `v` is among blocks that start so far apart.
#[inline(always)]
pub(super) fn place<S: Simd>(v: usize, apart: usize) -> usize {
    v * S::LANES / BLOCK * apart + v * S::LANES % BLOCK
}

/// As many pixels leave room for the sums of four blocks.
const FEW: usize = 4;

impl<const UNIT: usize, const PAIRED: bool> NchwcConv<'_, UNIT, PAIRED> {
    /// All tiles of the `V` vectors that start at block `block`, which go at this schedule.
    ///
    /// # Safety
    /// `check` has passed, and as many blocks are left.
    #[inline(always)]
    unsafe fn tiles<S: Simd, const V: usize>(
        &mut self,
        s: S,
        schedule: PrefetchSchedule,
        block: usize,
    ) {
        let mut row = 0;
        while row < self.rows {
            let two = S::LANES == BLOCK && row + 1 < self.rows;
            // SAFETY: the caller vouches for the block; the tiles are cut from what is left.
            unsafe {
                match self.cols {
                    10 if two && V == 1 => self.tile::<S, 2, 10, V>(s, schedule, [block, row, 0]),
                    7 if two => self.tile::<S, 2, 7, V>(s, schedule, [block, row, 0]),
                    6 if two => self.tile::<S, 2, 6, V>(s, schedule, [block, row, 0]),
                    5 if two => self.tile::<S, 2, 5, V>(s, schedule, [block, row, 0]),
                    4 if two => self.tile::<S, 2, 4, V>(s, schedule, [block, row, 0]),
                    _ => {
                        self.row::<S, V>(s, schedule, [block, row]);
                        row += 1;
                        continue;
                    }
                }
            }
            row += 2;
        }
    }

    /// The tile of a few pixels, and of four blocks, which are vectors: fewer sums would have to wait
    /// for one another.
    ///
    /// # Safety
    /// `check` has passed, as many blocks are left, and there is one row, of at most [`FEW`] columns.
    #[inline(always)]
    unsafe fn few<S: Simd>(&mut self, s: S, schedule: PrefetchSchedule, block: usize) {
        // SAFETY: the caller vouches for the block and the tile.
        unsafe {
            match self.cols {
                4 => self.tile::<S, 1, 4, 4>(s, schedule, [block, 0, 0]),
                3 => self.tile::<S, 1, 3, 4>(s, schedule, [block, 0, 0]),
                2 => self.tile::<S, 1, 2, 4>(s, schedule, [block, 0, 0]),
                _ => self.tile::<S, 1, 1, 4>(s, schedule, [block, 0, 0]),
            }
        }
    }

    /// The tiles of one row.
    ///
    /// # Safety
    /// As for `tiles`, and there is such a row.
    #[inline(always)]
    unsafe fn row<S: Simd, const V: usize>(
        &mut self,
        s: S,
        schedule: PrefetchSchedule,
        [block, row]: [usize; 2],
    ) {
        let mut col = 0;
        while col < self.cols {
            let n = self.cols - col;
            // A vector for each pixel leaves room for more of them.
            let wider = S::LANES == BLOCK && V == 1 && (n == 16 || n >= 30);
            let (width, again) = match n {
                _ if wider => (16, 0),
                // Less is left than of eight, and less is done again.
                9 | 13 if S::LANES == BLOCK => (9, 0),
                // Two that are left alone would wait for their own sums.
                10 if S::LANES == BLOCK => (10, 0),
                _ => widths::<S>(n, col),
            };
            let at = [block, row, col - again];
            // SAFETY: the tile is not wider than what is left and what is done again.
            unsafe {
                match (S::LANES, width) {
                    (16, 16) if V == 1 => self.tile::<S, 1, 16, V>(s, schedule, at),
                    (16, 14) => self.tile::<S, 1, 14, V>(s, schedule, at),
                    (16, 10) => self.tile::<S, 1, 10, V>(s, schedule, at),
                    (16, 9) => self.tile::<S, 1, 9, V>(s, schedule, at),
                    (16, 8) => self.tile::<S, 1, 8, V>(s, schedule, at),
                    (16, 7) => self.tile::<S, 1, 7, V>(s, schedule, at),
                    (8, 6) => self.tile::<S, 1, 6, V>(s, schedule, at),
                    (8.., 4) => self.tile::<S, 1, 4, V>(s, schedule, at),
                    (_, 2) => self.tile::<S, 1, 2, V>(s, schedule, at),
                    _ => self.tile::<S, 1, 1, V>(s, schedule, at),
                }
            }
            col += width - again;
        }
    }

    /// The tile of `R` rows, `C` columns and `V` vectors of channels at a block, row and column.
    ///
    /// # Safety
    /// `check` has passed, and the tile lies inside.
    #[inline(always)]
    unsafe fn tile<S: Simd, const R: usize, const C: usize, const V: usize>(
        &mut self,
        s: S,
        schedule: PrefetchSchedule,
        [block, row, col]: [usize; 3],
    ) {
        // What is kept is put back: a tile that knew of it would not keep its sums in registers.
        let at = row * self.y_row + col * self.y_col;
        let before = (block == 0 && self.kept > 0).then(|| self.pixels(at, [R, C]));
        // SAFETY: the caller's promise is the same.
        unsafe { self.whole_tile::<S, R, C, V>(s, schedule, [block, row, col]) };
        if let Some(before) = before {
            self.put_back(at, [R, C], &before);
        }
    }

    /// The first block of the pixels of a tile of so many rows and columns.
    #[inline(never)]
    fn pixels(&mut self, at: usize, tile: [usize; 2]) -> [[f32; BLOCK]; MAX_TILE] {
        let mut pixels = [[0.0; BLOCK]; MAX_TILE];
        for (pixel, at) in pixels.iter_mut().zip(self.places(at, tile)) {
            pixel.copy_from_slice(&self.y.plane(0)[at..][..BLOCK]);
        }
        pixels
    }

    /// Puts back what is kept of them.
    #[inline(never)]
    fn put_back(&mut self, at: usize, tile: [usize; 2], before: &[[f32; BLOCK]; MAX_TILE]) {
        for (pixel, at) in before.iter().zip(self.places(at, tile)) {
            self.y.plane(0)[at..][..self.kept].copy_from_slice(&pixel[..self.kept]);
        }
    }

    /// Where the pixels of a tile are, whose first one is there.
    fn places(
        &self,
        at: usize,
        [rows, cols]: [usize; 2],
    ) -> impl Iterator<Item = usize> + use<UNIT, PAIRED> {
        let (y_row, y_col) = (self.y_row, self.y_col);
        (0..rows * cols).map(move |i| at + i / cols * y_row + i % cols * y_col)
    }

    /// The same, with all channels.
    ///
    /// # Safety
    /// As for `tile`.
    #[inline(always)]
    unsafe fn whole_tile<S: Simd, const R: usize, const C: usize, const V: usize>(
        &mut self,
        s: S,
        schedule: PrefetchSchedule,
        [block, row, col]: [usize; 3],
    ) {
        let w_block = schedule.w_block;
        let (y_block, y_row, y_col) = (self.y.apart(), self.y_row, self.y_col);
        let at = block * y_block + row * y_row + col * y_col;
        // SAFETY: every address lies where `check` saw elements, as the tile lies inside.
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
                        let add = self.add.as_ptr().add(at + r * y_row + c * y_col);
                        for (v, sum) in sums.iter_mut().enumerate() {
                            *sum = s.add(*sum, s.load_at(add.add(place::<S>(v, y_block))));
                        }
                    }
                }
            }
            let w = self.w.as_ptr().add(block * w_block);
            // All tiles of these blocks together ask for the weights of those that come after them,
            // also where they belong to the convolution that follows.
            let weights = V * S::LANES * (w_block / BLOCK);
            let later = w.wrapping_add(weights + schedule.share(row * self.cols + col, weights));
            let step = schedule.share(R * C, V * S::LANES);
            // Where there are no channels, no element is there.
            let pixel = self.x.as_ptr().wrapping_add(row * self.x_row + col * UNIT);
            let mut weights = WeightStream { w, later, step };
            for &span in self.spans {
                self.add_span(s, &mut sums, &mut weights, (schedule, pixel), span);
            }
            if let Some((low, high)) = self.clamp {
                bound(s, sums.as_flattened_mut().as_flattened_mut(), low, high);
            }
            let y = self.y.as_mut_ptr().add(at);
            for (r, sums) in sums.iter().enumerate() {
                for (c, sums) in sums.iter().enumerate() {
                    let y = y.add(r * y_row + c * y_col);
                    for (v, &sum) in sums.iter().enumerate() {
                        s.store_at(sum, y.add(place::<S>(v, y_block)));
                    }
                }
            }
        }
    }
}
