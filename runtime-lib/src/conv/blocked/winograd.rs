//! Convolutions of 3 × 3 windows with fewer products: F(4 × 4, 3 × 3) of A. Lavin and S. Gray,
//! "Fast Algorithms for Convolutional Neural Networks" (2015).
//!
//! A tile of 4 × 4 outputs of a channel reads 6 × 6 numbers of the input. Tile and window are each
//! transformed to 36 numbers, whose products, summed over the channels, are transformed back: 36
//! products where 16 windows have 144. A rounding error is a few times that of the plain sum, and
//! an input that is infinite or NaN makes NaN of every output of its tiles.

use super::product;
use crate::Number;
use crate::activation_fn::Activation;
use crate::conv::Conv;
use crate::gemm::{BLOCK, Epilogue, Pixels, Span};
use crate::simd::{Simd, WithSimd, dispatch};
use crate::threads;
use core::ops::Range;

/// Rows and columns of the outputs of a tile.
const TILE: usize = 4;
/// Rows and columns of what a tile reads.
const SPAN: usize = 6;
/// The numbers that a tile is transformed to.
const NUMBERS: usize = SPAN * SPAN;
/// In how many parts [`pack_winograd`] packs weights.
pub const WINOGRAD_PARTS: usize = NUMBERS;
/// A pixel of a block.
type Pixel = [f32; BLOCK];

/// The transform of a window, along one axis.
const WINDOW: [[f64; 3]; SPAN] = [
    [1.0 / 4.0, 0.0, 0.0],
    [-1.0 / 6.0, -1.0 / 6.0, -1.0 / 6.0],
    [-1.0 / 6.0, 1.0 / 6.0, -1.0 / 6.0],
    [1.0 / 24.0, 1.0 / 12.0, 1.0 / 6.0],
    [1.0 / 24.0, -1.0 / 12.0, 1.0 / 6.0],
    [0.0, 0.0, 1.0],
];

/// The images of the input and of the output, cut in tiles.
#[derive(Clone, Copy)]
struct Tiles {
    /// How many images there are.
    batch: usize,
    size: [usize; 2],
    out: [usize; 2],
    pads: [usize; 2],
    /// Tiles of an image above one another.
    down: usize,
    /// Tiles side by side.
    across: usize,
    /// Blocks of input channels.
    blocks: usize,
    /// Blocks of output channels.
    filters: usize,
}

/// Some rows of tiles, counted through all images.
#[derive(Clone, Copy)]
struct Rows {
    first: usize,
    count: usize,
}

impl Tiles {
    const fn of(conv: &Conv<'_>) -> Tiles {
        let (size, out) = ([conv.size[0], conv.size[1]], [conv.out[0], conv.out[1]]);
        Tiles {
            batch: conv.batch,
            size,
            out,
            pads: [conv.pads[0], conv.pads[1]],
            down: out[0].div_ceil(TILE),
            across: out[1].div_ceil(TILE),
            blocks: conv.channels.div_ceil(BLOCK),
            filters: conv.filters.div_ceil(BLOCK),
        }
    }

    /// Elements of what a row of tiles is transformed to, before the products and after.
    const fn row(&self) -> usize {
        (self.blocks + self.filters) * NUMBERS * self.across * BLOCK
    }

    /// The most rows of tiles that are best transformed at once: as many as are no larger than the
    /// weights, which are read anew for each, or leave room for them in a second-level cache.
    const fn most_rows(&self) -> usize {
        const FEW: usize = 128 * 1024;
        let weights = self.blocks * self.filters * NUMBERS * BLOCK * BLOCK;
        let most = if weights > FEW { weights } else { FEW } / self.row();
        if most == 0 { 1 } else { most }
    }

    /// How many rows are transformed at once, of all images, where there is memory for so many.
    const fn rows(&self, most: usize) -> usize {
        let all = self.down * if self.batch == 0 { 1 } else { self.batch };
        all.div_ceil(all.div_ceil(most))
    }
}

/// Whether there is such a kernel for a convolution, and it pays. A product of two numbers is
/// the unit of cost; a weight that is read takes as long as 30, a number of the input that is
/// transformed as long as 12, and one of the output as 19.
pub const fn winograd_pays(conv: &Conv<'_>) -> bool {
    pays(conv, 0)
}

/// Likewise, where the weights are packed when the convolution runs: a window takes as long as 2800.
pub const fn winograd_pays_packed_now(conv: &Conv<'_>) -> bool {
    pays(conv, 2800)
}

const fn pays(conv: &Conv<'_>, packing: usize) -> bool {
    if conv.size.len() != 2 || conv.groups != 1 || !is_three(conv) {
        return false;
    }
    // With one block, the transforms take longer than the products.
    if conv.channels <= BLOCK || conv.filters <= BLOCK || product(conv.out) == 0 {
        return false;
    }
    let (tiles, products) = (Tiles::of(conv), conv.channels * conv.filters);
    let batch = if conv.batch == 0 { 1 } else { conv.batch };
    // Weights are read for each image, or for some that are transformed at once.
    let together = match tiles.most_rows() / tiles.down {
        0 => 1,
        images => images,
    };
    let (count, readings) = (batch * tiles.down * tiles.across, batch.div_ceil(together));
    let transforms = count * (NUMBERS * 12 * conv.channels + TILE * TILE * 19 * conv.filters);
    let ours = (count + 30 * readings) * NUMBERS * products + transforms + packing * products;
    let plain = batch * (product(conv.out) + 30) * 9 * products;
    ours + ours / 4 < plain
}

const fn is_three(conv: &Conv<'_>) -> bool {
    let mut axis = 0;
    while axis < 2 {
        let steps = conv.strides[axis] == 1 && conv.dilations[axis] == 1;
        if conv.kernel[axis] != 3 || !steps {
            return false;
        }
        axis += 1;
    }
    true
}

/// How many elements of scratch memory [`winograd_in_blocks`] needs.
pub const fn winograd_in_blocks_scratch(geometry: &Conv<'_>) -> usize {
    let tiles = Tiles::of(geometry);
    if tiles.row() == 0 || tiles.down == 0 {
        return 0;
    }
    tiles.rows(tiles.most_rows()) * tiles.row()
}

/// How many elements [`pack_winograd`] writes, in all parts.
pub const fn packed_winograd_len(geometry: &Conv<'_>) -> usize {
    NUMBERS * geometry.channels * geometry.filters.next_multiple_of(BLOCK)
}

/// Packs one of the [parts](WINOGRAD_PARTS) of the weights of [`winograd_in_blocks`]: `[filters / 16, channels, 16]`
/// of one number of each transformed window.
pub fn pack_winograd<T: Number>(w: &[T], y: &mut [T], geometry: &Conv<'_>, part: usize) {
    let (down, across) = (WINDOW[part / SPAN], WINDOW[part % SPAN]);
    let channels = geometry.channels;
    for (at, y) in y.iter_mut().enumerate() {
        let (row, lane) = (at / BLOCK, at % BLOCK);
        let filter = row / channels * BLOCK + lane;
        let window = w.get((filter * channels + row % channels) * 9..).unwrap_or(&[]);
        let mut sum = 0.0;
        for (i, w) in window.iter().take(9).enumerate() {
            sum += down[i / 3] * across[i % 3] * w.to_f64();
        }
        *y = T::from_f64(sum);
    }
}

/// Packs all parts of the weights of [`winograd_in_blocks`], where they are no constants.
#[inline(never)]
pub fn pack_winograd_in_blocks(w: &[f32], y: &mut [f32], geometry: Conv<'_>) {
    dispatch(PackWinograd { w, y, channels: geometry.channels });
}

struct PackWinograd<'a> {
    w: &'a [f32],
    y: &'a mut [f32],
    channels: usize,
}

impl WithSimd for PackWinograd<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        let PackWinograd { w, y, channels } = self;
        let part = y.len() / NUMBERS;
        for (row, first) in (0..part).step_by(BLOCK).enumerate() {
            let mut windows = [[[0.0; BLOCK]; 3]; 3];
            for lane in 0..BLOCK {
                let filter = row / channels * BLOCK + lane;
                let window = w.get((filter * channels + row % channels) * 9..).unwrap_or(&[]);
                for (to, &w) in windows.as_flattened_mut().iter_mut().zip(window) {
                    to[lane] = f64::from(w);
                }
            }
            for (i, down) in WINDOW.iter().enumerate() {
                let mut columns = [[0.0; BLOCK]; 3];
                for (down, row) in down.iter().zip(&windows) {
                    add_scaled(columns.as_flattened_mut(), *down, row.as_flattened());
                }
                for (j, across) in WINDOW.iter().enumerate() {
                    let mut number = [0.0; BLOCK];
                    for (across, column) in across.iter().zip(&columns) {
                        add_scaled(&mut number, *across, column);
                    }
                    let to = &mut y[(i * SPAN + j) * part + first..][..BLOCK];
                    to.iter_mut().zip(number).for_each(|(to, x)| *to = f32::from_f64(x));
                }
            }
        }
    }
}

/// Adds `x · by`.
#[inline(always)]
fn add_scaled(to: &mut [f64], by: f64, x: &[f64]) {
    to.iter_mut().zip(x).for_each(|(to, x)| *to += by * x);
}

/// `y = f(w ∗ x + bias + add)` as [`conv_in_blocks`](super::conv_in_blocks) has it, for windows of
/// 3 × 3 one step apart. The weights are packed by [`pack_winograd`], one part after the other.
#[inline(always)]
#[expect(clippy::too_many_arguments, reason = "four operands, each on its own")]
pub fn winograd_in_blocks(
    x: &[f32],
    w: &[f32],
    bias: Option<&[f32]>,
    add: Option<&[f32]>,
    y: &mut [f32],
    scratch: &mut [f32],
    geometry: Conv<'_>,
    f: Activation,
) {
    Epilogue::within_all(f, y, |y, f| winograd([x, w], [bias, add], y, scratch, &geometry, f));
}

#[inline(never)]
fn winograd(
    [x, w]: [&[f32]; 2],
    [bias, add]: [Option<&[f32]>; 2],
    y: &mut [f32],
    scratch: &mut [f32],
    geometry: &Conv<'_>,
    f: Epilogue<f32>,
) {
    let tiles = Tiles::of(geometry);
    let to = tiles.filters * product(&tiles.out);
    let (x, y) = (x.as_chunks::<BLOCK>().0, y.as_chunks_mut::<BLOCK>().0);
    let (bias, add) = (bias.unwrap_or(&[]), add.unwrap_or(&[]).as_chunks::<BLOCK>().0);
    let bias = bias.as_chunks::<BLOCK>().0;
    if to == 0 {
        return;
    }
    let (all, row) = (y.len() / to * tiles.down, tiles.row());
    let most =
        tiles.rows(tiles.most_rows().min(scratch.len().checked_div(row).unwrap_or(1)).max(1));
    for first in (0..all).step_by(most) {
        let rows = Rows { first, count: most.min(all - first) };
        let part = Part { tiles: &tiles, rows, count: rows.count * tiles.across };
        let (numbers, sums) = scratch.split_at_mut(tiles.blocks * NUMBERS * part.count * BLOCK);
        let sums = &mut sums[..tiles.filters * NUMBERS * part.count * BLOCK];
        part.transform(x, numbers);
        part.multiply(numbers, w, sums, geometry.channels);
        let images = first / tiles.down..(first + rows.count).div_ceil(tiles.down);
        let part_of = |of: Range<usize>| of.start * to..of.end * to;
        let add = add.get(part_of(images.clone())).unwrap_or(&[]);
        part.transform_back(sums, [bias, add], &mut y[part_of(images)], f);
    }
}

/// Some rows of the tiles.
#[derive(Clone, Copy)]
struct Part<'a> {
    tiles: &'a Tiles,
    rows: Rows,
    /// How many tiles they are.
    count: usize,
}

impl Part<'_> {
    /// Transforms the input: `[block, number, tile, 16]`.
    fn transform(&self, x: &[Pixel], numbers: &mut [f32]) {
        let unit = NUMBERS * self.count * BLOCK;
        threads::share(numbers, unit, numbers.len(), |first, numbers| {
            for (block, numbers) in (first..).zip(numbers.chunks_exact_mut(unit)) {
                let numbers = numbers.as_chunks_mut().0;
                dispatch(Transform { part: *self, x, block, numbers });
            }
        });
    }

    /// Multiplies: `[number, block of filters, tile, 16]`.
    fn multiply(&self, numbers: &[f32], w: &[f32], sums: &mut [f32], channels: usize) {
        let Part { tiles, count, .. } = *self;
        let (unit, weights) = (tiles.filters * count * BLOCK, channels * tiles.filters * BLOCK);
        let cost = sums.len() * channels / threads::PRODUCTS;
        threads::share(sums, unit, cost, |first, sums| {
            for (number, sums) in (first..).zip(sums.chunks_exact_mut(unit)) {
                Pixels::<BLOCK> {
                    x: numbers.get(number * count * BLOCK..).unwrap_or(&[]),
                    x_block: NUMBERS * count * BLOCK,
                    x_row: 0,
                    taps: &[0],
                    spans: &[Span { first: 0, count: channels }],
                    w: &w[number * weights..],
                    bias: &[],
                    add: &[],
                    y: sums,
                    y_block: count * BLOCK,
                    y_row: count * BLOCK,
                    y_col: BLOCK,
                    blocks: tiles.filters,
                    rows: 1,
                    cols: count,
                    kept: 0,
                    clamp: None,
                }
                .compute();
            }
        });
    }

    /// Transforms the sums back, and finishes them: of the images that the rows are of.
    fn transform_back(
        &self,
        sums: &[f32],
        [bias, add]: [&[Pixel]; 2],
        y: &mut [Pixel],
        f: Epilogue<f32>,
    ) {
        let Part { tiles, rows, count } = *self;
        let ([height, width], image) = (tiles.out, product(&tiles.out));
        let sums = sums.as_chunks().0;
        threads::share(y, image, sums.len() * BLOCK / tiles.down, |first, y| {
            for (index, y) in (first..).zip(y.chunks_exact_mut(image)) {
                let block = index % tiles.filters;
                let above = (rows.first / tiles.down + index / tiles.filters) * tiles.down;
                // Where the rows of this image are among all, and where it has them.
                let from = above.max(rows.first);
                let to = (above + tiles.down).min(rows.first + rows.count);
                let [start, end] = [from, to].map(|row| ((row - above) * TILE).min(height));
                let y = &mut y[start * width..end * width];
                let add = add.get(index * image + start * width..).unwrap_or(&[]);
                let bias = bias.get(block).unwrap_or(&[0.0; BLOCK]);
                let sums = &sums[block * count + (from - rows.first) * tiles.across..];
                let those = (to - from) * tiles.across;
                dispatch(Back { part: *self, those, sums, bias, add, y, clamp: f.clamp() });
                let len = y.len() * BLOCK;
                f.finish(y.as_flattened_mut(), 1, len, len);
            }
        });
    }
}

/// The transform of a block of the input, of all images.
struct Transform<'a> {
    part: Part<'a>,
    x: &'a [Pixel],
    block: usize,
    /// `[number, tile]`.
    numbers: &'a mut [Pixel],
}

impl WithSimd for Transform<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let Part { tiles, rows, count } = self.part;
        let ([height, width], [above, before]) = (tiles.size, tiles.pads);
        let size = product(&tiles.size);
        for tile in 0..count {
            let row = rows.first + tile / tiles.across;
            let image = (row / tiles.down * tiles.blocks + self.block) * size;
            let x = &self.x[image..][..size];
            let row = row % tiles.down * TILE;
            let col = tile % tiles.across * TILE;
            let is_inside = row >= above
                && col >= before
                && row - above + SPAN <= height
                && col - before + SPAN <= width;
            let padded;
            let (x, pitch) = if is_inside {
                (&x[(row - above) * width + col - before..], width)
            } else {
                padded = self.part.padded(x, [row, col]);
                (&padded[..], SPAN)
            };
            transform_tile(s, x, pitch, &mut self.numbers[tile..], count);
        }
    }
}

impl Part<'_> {
    /// What a tile reads, with zeros where the image ends.
    fn padded(&self, x: &[Pixel], [row, col]: [usize; 2]) -> [Pixel; NUMBERS] {
        let ([height, width], [above, before]) = (self.tiles.size, self.tiles.pads);
        let mut tile = [[0.0; BLOCK]; NUMBERS];
        for (i, tile) in tile.chunks_exact_mut(SPAN).enumerate() {
            let Some(row) = (row + i).checked_sub(above).filter(|&row| row < height) else {
                continue;
            };
            let x = &x[row * width..][..width];
            for (j, tile) in tile.iter_mut().enumerate() {
                if let Some(x) = (col + j).checked_sub(before).and_then(|col| x.get(col)) {
                    *tile = *x;
                }
            }
        }
        tile
    }
}

/// Transforms a tile, whose rows start `pitch` pixels apart, to numbers that are `apart`.
#[inline(always)]
fn transform_tile<S: Simd>(s: S, x: &[Pixel], pitch: usize, numbers: &mut [Pixel], apart: usize) {
    for lane in (0..BLOCK).step_by(S::LANES) {
        let mut rows = [[s.splat(0.0); SPAN]; SPAN];
        for (i, row) in rows.iter_mut().enumerate() {
            for (x, number) in x[i * pitch..][..SPAN].iter().zip(row.iter_mut()) {
                *number = s.load(&x[lane..]);
            }
            *row = transform(s, *row);
        }
        for j in 0..SPAN {
            let mut column = [s.splat(0.0); SPAN];
            for (number, row) in column.iter_mut().zip(&rows) {
                *number = row[j];
            }
            for (i, &number) in transform(s, column).iter().enumerate() {
                s.store(number, &mut numbers[(i * SPAN + j) * apart][lane..]);
            }
        }
    }
}

/// `x · by + and`.
#[inline(always)]
fn times<S: Simd>(s: S, x: S::F32, by: f32, and: S::F32) -> S::F32 {
    s.mul_add(x, s.splat(by), and)
}

/// The transform of the input along one axis.
#[inline(always)]
fn transform<S: Simd>(s: S, x: [S::F32; SPAN]) -> [S::F32; SPAN] {
    let [even, odd] = [times(s, x[2], -4.0, x[4]), times(s, x[1], -4.0, x[3])];
    let [far, near] = [s.sub(x[4], x[2]), s.sub(x[3], x[1])];
    [
        times(s, x[0], 4.0, times(s, x[2], -5.0, x[4])),
        s.add(even, odd),
        s.sub(even, odd),
        times(s, near, 2.0, far),
        times(s, near, -2.0, far),
        times(s, x[1], 4.0, times(s, x[3], -5.0, x[5])),
    ]
}

/// The way back, to a block of the output.
struct Back<'a> {
    part: Part<'a>,
    /// How many tiles there are.
    those: usize,
    /// `[number, block of filters, tile]`, from the first one on.
    sums: &'a [Pixel],
    bias: &'a Pixel,
    /// From the first row on; nothing where empty.
    add: &'a [Pixel],
    /// The rows of these tiles.
    y: &'a mut [Pixel],
    clamp: Option<(f32, f32)>,
}

impl WithSimd for Back<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let Back { part: Part { tiles, count, .. }, those, sums, bias, add, y, clamp } = self;
        let (width, apart) = (tiles.out[1], tiles.filters * count);
        for tile in 0..those {
            let (row, col) = (tile / tiles.across * TILE, tile % tiles.across * TILE);
            let cols = TILE.min(width - col);
            for lane in (0..BLOCK).step_by(S::LANES) {
                let pixels = tile_back(s, &sums[tile..], apart, lane);
                let bias = s.load(&bias[lane..]);
                for (i, pixels) in pixels.iter().enumerate() {
                    let at = (row + i) * width + col;
                    let Some(y) = y.get_mut(at..at + cols) else { break };
                    for (i, (y, &pixel)) in y.iter_mut().zip(pixels).enumerate() {
                        let mut pixel = s.add(pixel, bias);
                        if let Some(add) = add.get(at + i) {
                            pixel = s.add(pixel, s.load(&add[lane..]));
                        }
                        if let Some((low, high)) = clamp {
                            pixel = s.min(s.splat(high), s.max(s.splat(low), pixel));
                        }
                        s.store(pixel, &mut y[lane..]);
                    }
                }
            }
        }
    }
}

/// The outputs of a tile, of a few channels of its block.
#[inline(always)]
fn tile_back<S: Simd>(s: S, sums: &[Pixel], apart: usize, lane: usize) -> [[S::F32; TILE]; TILE] {
    let mut rows = [[s.splat(0.0); SPAN]; TILE];
    for j in 0..SPAN {
        let mut column = [s.splat(0.0); SPAN];
        for (i, number) in column.iter_mut().enumerate() {
            *number = s.load(&sums[(i * SPAN + j) * apart][lane..]);
        }
        for (row, &number) in rows.iter_mut().zip(&transform_back(s, column)) {
            row[j] = number;
        }
    }
    let mut pixels = [[s.splat(0.0); TILE]; TILE];
    for (pixels, row) in pixels.iter_mut().zip(rows) {
        *pixels = transform_back(s, row);
    }
    pixels
}

/// The transform of the sums along one axis.
#[inline(always)]
fn transform_back<S: Simd>(s: S, x: [S::F32; SPAN]) -> [S::F32; TILE] {
    let [near, far] = [s.add(x[1], x[2]), s.add(x[3], x[4])];
    let [across, beyond] = [s.sub(x[1], x[2]), s.sub(x[3], x[4])];
    [
        s.add(s.add(x[0], near), far),
        times(s, beyond, 2.0, across),
        times(s, far, 4.0, near),
        s.add(times(s, beyond, 8.0, across), x[5]),
    ]
}
