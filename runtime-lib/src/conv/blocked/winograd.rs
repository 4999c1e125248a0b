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
use crate::gemm::{
    BLOCK, Epilogue, NUMBERS, Pixels, SPAN, Span, TILE, WinogradInput, WinogradOutput, columns,
};
use crate::simd::{Simd, WithSimd, dispatch};
use crate::threads::{self, Scratch};
use core::ops::Range;

/// In how many parts [`pack_winograd`] packs weights.
pub const WINOGRAD_PARTS: usize = NUMBERS;

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

    /// What a row of tiles reads of a block of an image, from a row of the output on: nothing of rows that
    /// are padding.
    fn reads<'x>(&self, x: &'x [f32], first: usize) -> [&'x [f32]; SPAN] {
        let row = self.size[1] * BLOCK;
        let mut reads = [&[][..]; SPAN];
        for (i, reads) in reads.iter_mut().enumerate() {
            let at = (first + i).checked_sub(self.pads[0]).filter(|&at| at < self.size[0]);
            *reads = at.map_or(&[], |at| &x[at * row..][..row]);
        }
        reads
    }

    /// Elements that a row of tiles needs on the way to its numbers.
    const fn row_scratch(&self) -> usize {
        SPAN * columns(self.across) * BLOCK
    }

    /// Elements of what a row of tiles is transformed to, before the products and after, and of what
    /// [`Part::apart`] adds to them.
    const fn row(&self) -> usize {
        (self.blocks + self.filters) * NUMBERS * (self.across + 1) * BLOCK
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

/// From where the weights of a convolution are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reading {
    /// A second-level cache, which has room for those of the whole model.
    Near,
    /// Memory behind it.
    Far,
}

/// Whether there is such a kernel for a convolution, and it pays.
pub const fn winograd_pays(conv: &Conv<'_>, weights: Reading) -> bool {
    pays(conv, weights, 0)
}

/// Likewise, where the weights are packed when the convolution runs: a window takes as long as 2800
/// products.
pub const fn winograd_pays_packed_now(conv: &Conv<'_>) -> bool {
    conv.channels > BLOCK && conv.filters > BLOCK && pays(conv, Reading::Far, 2800)
}

/// A product of two numbers is the unit of cost; a number of the input that is transformed takes as
/// long as 9, and one of the output as 19. A weight that is read takes as long as its products at
/// least as [`Reading`] says. What is over in some microseconds anyway stays small: weights and scratch
/// memory of tiles are several times as large.
const fn pays(conv: &Conv<'_>, weights: Reading, packing: usize) -> bool {
    const SOME: usize = 1 << 20;
    if conv.size.len() != 2 || conv.groups != 1 || !is_three(conv) || product(conv.out) == 0 {
        return false;
    }
    let tiles = Tiles::of(conv);
    let [channels, filters] = [tiles.blocks * BLOCK, tiles.filters * BLOCK];
    let products = conv.channels * filters;
    let batch = if conv.batch == 0 { 1 } else { conv.batch };
    // Weights are read for each image, or for some that are transformed at once.
    let together = match tiles.most_rows() / tiles.down {
        0 => 1,
        images => images,
    };
    let readings = batch.div_ceil(together);
    let least = match weights {
        Reading::Near => 6,
        Reading::Far => 24,
    };
    let count = batch * tiles.down * tiles.across;
    let multiplied = if count > readings * least { count } else { readings * least };
    let transforms = count * (NUMBERS * 9 * channels + TILE * TILE * 19 * filters);
    let ours = multiplied * NUMBERS * products + transforms + packing * products;
    let plain = batch * product(conv.out) * 9 * products;
    plain >= SOME && ours + ours / 8 < plain
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
    tiles.row_scratch() + tiles.rows(tiles.most_rows()) * tiles.row()
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
    let to = tiles.filters * product(&tiles.out) * BLOCK;
    if to == 0 {
        return;
    }
    let (all, row) = (y.len() / to * tiles.down, tiles.row());
    let (of_row, scratch) = scratch.split_at_mut(tiles.row_scratch());
    let most =
        tiles.rows(tiles.most_rows().min(scratch.len().checked_div(row).unwrap_or(1)).max(1));
    for first in (0..all).step_by(most) {
        let rows = Rows { first, count: most.min(all - first) };
        let part = Part::of(&tiles, rows);
        let (numbers, sums) = scratch.split_at_mut(tiles.blocks * NUMBERS * part.apart);
        let sums = &mut sums[..tiles.filters * NUMBERS * part.apart];
        part.transform(x, numbers, of_row);
        part.multiply(numbers, w, sums, geometry.channels);
        let images = first / tiles.down..(first + rows.count).div_ceil(tiles.down);
        let part_of = |of: Range<usize>| of.start * to..of.end * to;
        let addends = [bias, add.map(|add| &add[part_of(images.clone())])];
        let addends = addends.map(|x| x.unwrap_or(&[]));
        part.transform_back(sums, addends, &mut y[part_of(images)], f);
    }
}

/// Some rows of the tiles.
#[derive(Clone, Copy)]
struct Part<'a> {
    tiles: &'a Tiles,
    rows: Rows,
    /// How many tiles they are.
    count: usize,
    /// From one number of theirs to the next: an odd number of pixels, so that all numbers of a tile
    /// find room in a cache.
    apart: usize,
}

impl Part<'_> {
    fn of(tiles: &Tiles, rows: Rows) -> Part<'_> {
        let count = rows.count * tiles.across;
        Part { tiles, rows, count, apart: (count | 1) * BLOCK }
    }

    /// Transforms the input: `[block, number, tile, 16]`.
    fn transform(&self, x: &[f32], numbers: &mut [f32], scratch: &mut [f32]) {
        let Part { tiles, rows, apart, .. } = *self;
        let (unit, size) = (NUMBERS * apart, product(&tiles.size) * BLOCK);
        let scratch = Scratch::new(scratch);
        threads::share(numbers, unit, numbers.len(), |first, numbers| {
            scratch.with(|scratch| {
                for (block, numbers) in (first..).zip(numbers.chunks_exact_mut(unit)) {
                    for (i, row) in (rows.first..).take(rows.count).enumerate() {
                        let image = (row / tiles.down * tiles.blocks + block) * size;
                        WinogradInput {
                            rows: tiles.reads(&x[image..][..size], row % tiles.down * TILE),
                            before: tiles.pads[1],
                            tiles: tiles.across,
                            scratch: &mut *scratch,
                            numbers: &mut numbers[i * tiles.across * BLOCK..],
                            apart,
                        }
                        .compute();
                    }
                }
            });
        });
    }

    /// Multiplies: `[number, block of filters, tile, 16]`.
    fn multiply(&self, numbers: &[f32], w: &[f32], sums: &mut [f32], channels: usize) {
        let Part { tiles, count, apart, .. } = *self;
        let (unit, weights) = (tiles.filters * apart, channels * tiles.filters * BLOCK);
        let cost = sums.len() * channels / threads::PRODUCTS;
        threads::share(sums, unit, cost, |first, sums| {
            Pixels::<BLOCK> {
                x: numbers.get(first * apart..).unwrap_or(&[]),
                x_block: NUMBERS * apart,
                x_row: 0,
                taps: &[0],
                spans: &[Span { first: 0, count: channels }],
                w: &w[first * weights..],
                bias: &[],
                add: &[],
                layers: sums.len() / unit,
                x_layer: apart,
                y_layer: unit,
                y: sums,
                y_block: apart,
                y_row: apart,
                y_col: BLOCK,
                blocks: tiles.filters,
                rows: 1,
                cols: count,
                kept: 0,
                clamp: None,
            }
            .compute();
        });
    }

    /// Transforms the sums back, and finishes them: of the images that the rows are of.
    fn transform_back(
        &self,
        sums: &[f32],
        [bias, add]: [&[f32]; 2],
        y: &mut [f32],
        f: Epilogue<f32>,
    ) {
        let Part { tiles, rows, apart, .. } = *self;
        let (width, image) = (tiles.out[1] * BLOCK, product(&tiles.out) * BLOCK);
        threads::share(y, image, sums.len() / tiles.down, |first, y| {
            for (index, y) in (first..).zip(y.chunks_exact_mut(image)) {
                let block = index % tiles.filters;
                let above = (rows.first / tiles.down + index / tiles.filters) * tiles.down;
                // Where the rows of this image are among all, and where it has them.
                let from = above.max(rows.first);
                let to = (above + tiles.down).min(rows.first + rows.count);
                let [start, end] = [from, to].map(|row| ((row - above) * TILE * width).min(image));
                let y = &mut y[start..end];
                let bias = bias
                    .get(block * BLOCK..)
                    .and_then(<[f32]>::first_chunk)
                    .unwrap_or(&[0.0; BLOCK]);
                for (i, y) in y.chunks_mut(TILE * width).enumerate() {
                    let row = from - rows.first + i;
                    let at = index * image + start + i * TILE * width;
                    WinogradOutput {
                        sums: &sums[block * apart + row * tiles.across * BLOCK..],
                        apart: tiles.filters * apart,
                        tiles: tiles.across,
                        bias,
                        add: add.get(at..).unwrap_or(&[]),
                        y,
                        cols: tiles.out[1],
                        clamp: f.clamp(),
                    }
                    .compute();
                }
                let len = y.len();
                f.finish(y, 1, len, len);
            }
        });
    }
}
