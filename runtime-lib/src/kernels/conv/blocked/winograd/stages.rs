//! The three stages of a Winograd convolution, for some rows of tiles: transform, multiply,
//! transform back.

use super::{MAX_DEPTH, Rows, Tiles};
use crate::kernels::conv::product;
use crate::loops::geometry::BLOCK;
use crate::microkernel::{
    FusedActivation, NchwcConv, PAIRS, Span, Tiling, Transforms, UsedTaps, WinogradInput,
    WinogradOutput, WinogradProducts,
};
use crate::threads::{self, By, MACS_PER_ELEMENT, Scratch, Share};
use core::ops::Range;

/// Some rows of the tiles, at all depths.
#[derive(Clone, Copy)]
pub(super) struct Part<'a, const TILE: usize, const SPAN: usize, const PAIRED: bool> {
    tiles: &'a Tiles,
    rows: Rows,
    /// The number of tiles.
    count: usize,
    /// The strides of the transformed input.
    before: TileStrides,
    /// The strides of the accumulators.
    after: TileStrides,
}

/// The strides of transformed tiles, in elements.
#[derive(Clone, Copy)]
struct TileStrides {
    /// The stride of blocks of channels.
    block: usize,
    /// The stride of a tile's numbers.
    number: usize,
    /// The stride of tiles.
    tile: usize,
}

/// Returns the stride of a tile's numbers for `count` tiles, in elements. It is an odd number of
/// blocks, so that the numbers of a tile do not compete for the same cache sets.
const fn number_stride(count: usize, unit: usize) -> usize {
    ((count * unit).div_ceil(BLOCK) | 1) * BLOCK
}

impl<const TILE: usize, const SPAN: usize, const PAIRED: bool> Part<'_, TILE, SPAN, PAIRED>
where
    Tiling<TILE, SPAN>: Transforms<TILE, SPAN>,
{
    pub fn of(tiles: &Tiles, rows: Rows) -> Part<'_, TILE, SPAN, PAIRED> {
        let count = rows.count * tiles.depths * tiles.across;
        let [numbers, unit] = [tiles.tile.numbers(), tiles.unit];
        if tiles.in_place() {
            let strides = TileStrides {
                block: count * numbers * BLOCK,
                number: BLOCK,
                tile: numbers * BLOCK,
            };
            return Part { tiles, rows, count, before: strides, after: strides };
        }
        let from = number_stride(rows.count * tiles.planes() * tiles.across, unit);
        let to = number_stride(count, BLOCK);
        let before = TileStrides { block: numbers * from, number: from, tile: unit };
        let after = TileStrides { block: to, number: tiles.filters * to, tile: BLOCK };
        Part { tiles, rows, count, before, after }
    }

    /// Runs the three stages and writes the rows of the output.
    pub fn compute(
        &self,
        [x, w]: [&[f32]; 2],
        addends: [&[f32]; 2],
        y: &mut Share<'_, f32>,
        [of_row, scratch]: [&mut [f32]; 2],
        f: FusedActivation<f32>,
    ) {
        let (numbers, sums) = scratch.split_at_mut(self.tiles.blocks * self.before.block);
        self.transform(x, numbers, of_row);
        if self.tiles.in_place() {
            self.multiply_in_place(numbers, w);
            return self.transform_back(numbers, addends, y, f);
        }
        let sums = &mut sums[..self.tiles.tile.parts() * self.after.number];
        self.multiply(numbers, w, sums);
        self.transform_back(sums, addends, y, f);
    }

    /// Transforms the input to `[block, number, row of tiles, plane, tile of the row, unit]`. The
    /// planes are ordered by their phase of the stride along the depth.
    fn transform(&self, x: &[f32], numbers: &mut [f32], scratch: &mut [f32]) {
        let Part { tiles, rows, before, .. } = *self;
        let unit = before.block;
        let scratch = Scratch::new(scratch);
        threads::share(numbers, unit, numbers.len(), |first, numbers| {
            scratch.with(|scratch| {
                for (block, numbers) in (first..).zip(numbers.chunks_exact_mut(unit)) {
                    let rows = (rows.first..).take(rows.count);
                    let rows = rows.flat_map(|row| (0..tiles.planes()).map(move |at| (row, at)));
                    for (i, (row, at)) in rows.enumerate() {
                        let plane = tiles.plane(x, (row / tiles.down, block), at);
                        WinogradInput::<TILE, SPAN, PAIRED> {
                            rows: tiles.reads(plane, row % tiles.down),
                            before: tiles.pads[1],
                            tiles: tiles.across,
                            scratch: &mut *scratch,
                            numbers: &mut numbers[i * tiles.across * before.tile..],
                            apart: before.number,
                            step: before.tile,
                        }
                        .compute();
                    }
                }
            });
        });
    }

    /// Multiplies the transformed input by the weights, to accumulators `[number, block of filters,
    /// tile, 16]`.
    fn multiply(&self, numbers: &[f32], w: &[f32], sums: &mut [f32]) {
        // The number of channels, or of pairs.
        let depth = self.tiles.channels * self.tiles.unit / BLOCK;
        let unit = self.after.number;
        let cost = sums.len() * depth / MACS_PER_ELEMENT;
        threads::share(sums, unit, cost, |first, sums| {
            if PAIRED {
                self.sums::<PAIRS, true>((numbers, w), first, sums, depth);
            } else {
                self.sums::<BLOCK, false>((numbers, w), first, sums, depth);
            }
        });
    }

    /// Multiplies the transformed input by the weights in place, with the layout `[tile, number,
    /// 16]`.
    fn multiply_in_place(&self, numbers: &mut [f32], w: &[f32]) {
        let Part { tiles: &Tiles { channels, .. }, after, .. } = *self;
        let cost = numbers.len() * channels / MACS_PER_ELEMENT;
        threads::share(numbers, after.tile, cost, |_, numbers| {
            WinogradProducts::<SPAN> { numbers, w, channels }.compute();
        });
    }

    /// Computes the accumulators from `first` on.
    fn sums<const UNIT: usize, const IN_PAIRS: bool>(
        &self,
        (numbers, w): (&[f32], &[f32]),
        first: usize,
        sums: &mut [f32],
        depth: usize,
    ) {
        let Part { tiles: &Tiles { tile, filters, .. }, before, after, .. } = *self;
        let weights = self.tiles.depth.kernel * depth * filters * BLOCK;
        let mut taps = [0; MAX_DEPTH * 4];
        if tile.sums() == tile.span() {
            // Each accumulator uses one number.
            let numbers = numbers.get(first * before.number..).unwrap_or(&[]);
            let (of, taps) = ((numbers, &w[first * weights..]), self.taps(0..1, &mut taps));
            return self.products::<UNIT, IN_PAIRS>(of, taps, sums, depth);
        }
        let mut w =
            &w[(0..first).map(|sum| tile.numbers_of(sum).count()).sum::<usize>() * weights..];
        for (sum, sums) in (first..).zip(sums.chunks_exact_mut(after.number)) {
            let of_sum = tile.numbers_of(sum);
            let taps = self.taps(of_sum.clone(), &mut taps);
            self.products::<UNIT, IN_PAIRS>((numbers, w), taps, sums, depth);
            w = &w[of_sum.count() * weights..];
        }
    }

    /// Returns the taps of an accumulator of these numbers: at each element of the window along the
    /// depth, all numbers.
    fn taps<'t>(
        &self,
        numbers: impl Iterator<Item = usize> + Clone,
        taps: &'t mut [usize],
    ) -> UsedTaps<'t> {
        let Part { tiles, before, .. } = *self;
        let (windows, used) = (tiles.windows(), tiles.used_taps());
        let of_depth = |at: usize| {
            let (phase, place) = windows.tap(at);
            let plane = phase * windows.plane() + place;
            let offset = move |number| number * before.number;
            numbers.clone().map(move |n| plane * tiles.across * before.tile + offset(n))
        };
        let mut count = 0;
        for (to, offset) in taps.iter_mut().zip(used.clone().flat_map(of_depth)) {
            *to = offset;
            count += 1;
        }
        let each = numbers.clone().count();
        let unused = [used.start, windows.kernel - used.end].map(|taps| taps * each);
        UsedTaps { offsets: &taps[..count], unused }
    }

    /// Accumulates the products of the numbers at `taps`.
    fn products<const UNIT: usize, const IN_PAIRS: bool>(
        &self,
        (x, w): (&[f32], &[f32]),
        taps: UsedTaps<'_>,
        sums: &mut [f32],
        depth: usize,
    ) {
        let Part { tiles, rows, count, before, after } = *self;
        let layer = after.number;
        // Without planes between them, all tiles follow each other.
        let [rows, cols] = match tiles.planes() == tiles.depths {
            true => [1, count],
            false => [rows.count, tiles.depths * tiles.across],
        };
        NchwcConv::<UNIT, IN_PAIRS> {
            x,
            x_block_stride: before.block,
            x_row_stride: tiles.planes() * tiles.across * before.tile,
            taps,
            spans: &[Span { first: 0, count: depth }],
            w,
            bias: &[],
            add: &[],
            layers: sums.len() / layer,
            x_layer_stride: before.number,
            y: Share::of(sums, after.block),
            y_row_stride: cols * BLOCK,
            y_col_stride: BLOCK,
            blocks: tiles.filters,
            rows,
            cols,
            kept: 0,
            clamp: None,
        }
        .compute();
    }

    /// Transforms the accumulators back and applies the epilogue, for all blocks of the images that
    /// the rows belong to.
    fn transform_back(
        &self,
        sums: &[f32],
        addends: [&[f32]; 2],
        y: &mut Share<'_, f32>,
        f: FusedActivation<f32>,
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

    /// Transforms a block of an image back; `y` has all rows of the tiles.
    fn rows_back(
        &self,
        sums: &[f32],
        [bias, add]: [&[f32]; 2],
        plane: usize,
        y: &mut [f32],
        f: FusedActivation<f32>,
    ) {
        let Part { tiles, rows, after, .. } = *self;
        let (row, len) = (TILE * tiles.out[1] * BLOCK, y.len() / tiles.depths);
        let block = plane % tiles.filters;
        let before = plane / tiles.filters * tiles.down;
        // The rows of this image, among all rows.
        let from = before.max(rows.first);
        let to = (before + tiles.down).min(rows.first + rows.count);
        let bias = bias.get(block * BLOCK..).and_then(<[f32]>::first_chunk);
        let bias = bias.unwrap_or(&[0.0; BLOCK]);
        let add_from = (plane * tiles.depth.out + tiles.first_depth) * product(&tiles.out) * BLOCK;
        let add_from = add_from + tiles.above * row;
        for (depth, y) in y.chunks_exact_mut(len).enumerate() {
            let [start, end] = [from, to].map(|at| ((at - before) * row).min(len));
            for (i, y) in (from - rows.first..).zip(y[start..end].chunks_mut(row)) {
                let at = (i * tiles.depths + depth) * tiles.across * after.tile;
                let add_from = add_from + depth * len + (i + rows.first - before) * row;
                WinogradOutput::<TILE, SPAN> {
                    sums: &sums[block * after.block + at..],
                    apart: after.number,
                    step: after.tile,
                    tiles: tiles.across,
                    bias,
                    add: add.get(add_from..).unwrap_or(&[]),
                    y,
                    cols: tiles.out[1],
                    clamp: f.clamp(),
                }
                .compute();
            }
            let y = &mut y[start..end];
            let len = y.len();
            f.finish(y, 1, len, len);
        }
    }
}

impl Tiles {
    /// Returns a plane of a block of an image that is transformed; `None` for padding.
    fn plane<'x>(
        &self,
        x: &'x [f32],
        (image, block): (usize, usize),
        at: usize,
    ) -> Option<&'x [f32]> {
        let Tiles { depth, blocks, first_depth, .. } = *self;
        let (each, len) = (self.windows().plane(), product(&self.size) * BLOCK);
        let place = depth.input(first_depth + at % each, at / each)?;
        Some(&x[((image * blocks + block) * depth.size + place) * len..][..len])
    }

    /// Returns the elements of the window along the depth that read the image at any depth.
    fn used_taps(&self) -> Range<usize> {
        let (inside, last) = (self.depth.inside(), self.first_depth + self.depths - 1);
        let taps = |at: usize| self.depth.tap_run(&inside, at, at + 1).taps;
        taps(last).start..taps(self.first_depth).end
    }
}
