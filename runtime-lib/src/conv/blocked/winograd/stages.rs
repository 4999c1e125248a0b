//! The three stages of some rows of tiles: transformed, multiplied, and transformed back.

use super::{Rows, Tiles};
use crate::conv::product;
use crate::gemm::{
    BLOCK, Epilogue, PAIRS, Pixels, Span, Tiling, Transforms, WinogradInput, WinogradOutput,
};
use crate::threads::{self, By, PRODUCTS, Scratch, Share};

/// Some rows of the tiles.
#[derive(Clone, Copy)]
pub(super) struct Part<'a, const TILE: usize, const SPAN: usize, const PAIRED: bool> {
    tiles: &'a Tiles,
    rows: Rows,
    /// How many tiles they are.
    count: usize,
    /// From one number of theirs to the next, before the products.
    before: usize,
    /// After the products.
    pub apart: usize,
}

/// From one number of so many tiles to the next: an odd number of vectors, so that all numbers of a tile
/// find room in a cache.
const fn apart(count: usize, unit: usize) -> usize {
    ((count * unit).div_ceil(BLOCK) | 1) * BLOCK
}

impl<const TILE: usize, const SPAN: usize, const PAIRED: bool> Part<'_, TILE, SPAN, PAIRED>
where
    Tiling<TILE, SPAN>: Transforms<TILE, SPAN>,
{
    pub fn of(tiles: &Tiles, rows: Rows) -> Part<'_, TILE, SPAN, PAIRED> {
        let count = rows.count * tiles.across;
        Part { tiles, rows, count, before: apart(count, tiles.unit), apart: apart(count, BLOCK) }
    }

    /// Elements of all numbers of a block of input channels.
    pub fn block(&self) -> usize {
        SPAN * SPAN * self.before
    }

    /// Transforms the input: `[block, number, tile, unit]`.
    pub fn transform(&self, x: &[f32], numbers: &mut [f32], scratch: &mut [f32]) {
        let Part { tiles, rows, before: apart, .. } = *self;
        let (unit, size) = (self.block(), product(&tiles.size) * BLOCK);
        let scratch = Scratch::new(scratch);
        threads::share(numbers, unit, numbers.len(), |first, numbers| {
            scratch.with(|scratch| {
                for (block, numbers) in (first..).zip(numbers.chunks_exact_mut(unit)) {
                    for (i, row) in (rows.first..).take(rows.count).enumerate() {
                        let image = (row / tiles.down * tiles.blocks + block) * size;
                        WinogradInput::<TILE, SPAN, PAIRED> {
                            rows: tiles.reads(&x[image..][..size], row % tiles.down),
                            before: tiles.pads[1],
                            tiles: tiles.across,
                            scratch: &mut *scratch,
                            numbers: &mut numbers[i * tiles.across * tiles.unit..],
                            apart,
                        }
                        .compute();
                    }
                }
            });
        });
    }

    /// Multiplies: `[number, block of filters, tile, 16]`.
    pub fn multiply(&self, numbers: &[f32], w: &[f32], sums: &mut [f32]) {
        // Channels, or pairs of such.
        let depth = self.tiles.channels * self.tiles.unit / BLOCK;
        let unit = self.tiles.filters * self.apart;
        let cost = sums.len() * depth / PRODUCTS;
        threads::share(sums, unit, cost, |first, sums| {
            if PAIRED {
                self.products::<PAIRS, true>((numbers, w), first, sums, depth);
            } else {
                self.products::<BLOCK, false>((numbers, w), first, sums, depth);
            }
        });
    }

    /// The sums of the numbers from one on.
    fn products<const UNIT: usize, const IN_PAIRS: bool>(
        &self,
        (numbers, w): (&[f32], &[f32]),
        first: usize,
        sums: &mut [f32],
        depth: usize,
    ) {
        let Part { tiles, count, before, apart, .. } = *self;
        let (layer, weights) = (tiles.filters * apart, depth * tiles.filters * BLOCK);
        Pixels::<UNIT, IN_PAIRS> {
            x: numbers.get(first * before..).unwrap_or(&[]),
            x_block: SPAN * SPAN * before,
            x_row: 0,
            taps: &[0],
            spans: &[Span { first: 0, count: depth }],
            w: &w[first * weights..],
            bias: &[],
            add: &[],
            layers: sums.len() / layer,
            x_layer: before,
            y: Share::of(sums, apart),
            y_row: apart,
            y_col: BLOCK,
            blocks: tiles.filters,
            rows: 1,
            cols: count,
            kept: 0,
            clamp: None,
        }
        .compute();
    }

    /// Transforms the sums back, and finishes them: in all blocks of the images that the rows are of.
    pub fn transform_back(
        &self,
        sums: &[f32],
        addends: [&[f32]; 2],
        y: &mut Share<'_, f32>,
        f: Epilogue<f32>,
    ) {
        let Part { tiles, rows, .. } = *self;
        let images = rows.first / tiles.down..(rows.first + rows.count).div_ceil(tiles.down);
        let planes = images.start * tiles.filters..images.end * tiles.filters;
        let (first, len) = (planes.start, y.len());
        let y = y.part(planes, 0..len);
        y.hand_out(len, By::Planes, sums.len(), |mut piece| {
            for (i, plane) in piece.planes.enumerate() {
                self.rows_back(sums, addends, first + plane, piece.y.plane(i), f);
            }
        });
    }

    /// Those of a block of an image, of which `y` has all rows of the tiles.
    fn rows_back(
        &self,
        sums: &[f32],
        [bias, add]: [&[f32]; 2],
        plane: usize,
        y: &mut [f32],
        f: Epilogue<f32>,
    ) {
        let Part { tiles, rows, apart, .. } = *self;
        let row = TILE * tiles.out[1] * BLOCK;
        let block = plane % tiles.filters;
        let before = plane / tiles.filters * tiles.down;
        // Where the rows of this image are among all, and where it has them.
        let from = before.max(rows.first);
        let to = (before + tiles.down).min(rows.first + rows.count);
        let [start, end] = [from, to].map(|at| ((at - before) * row).min(y.len()));
        let y = &mut y[start..end];
        let bias = bias.get(block * BLOCK..).and_then(<[f32]>::first_chunk);
        let bias = bias.unwrap_or(&[0.0; BLOCK]);
        let add_from = plane * product(&tiles.out) * BLOCK + tiles.above * row + start;
        for (i, y) in y.chunks_mut(row).enumerate() {
            WinogradOutput::<TILE, SPAN> {
                sums: &sums[block * apart + (from - rows.first + i) * tiles.across * BLOCK..],
                apart: tiles.filters * apart,
                tiles: tiles.across,
                bias,
                add: add.get(add_from + i * row..).unwrap_or(&[]),
                y,
                cols: tiles.out[1],
                clamp: f.clamp(),
            }
            .compute();
        }
        let len = y.len();
        f.finish(y, 1, len, len);
    }
}
