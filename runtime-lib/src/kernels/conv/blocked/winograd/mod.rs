//! Winograd convolutions of 3 × 3 windows: F(4 × 4, 3 × 3) and F(2 × 2, 3 × 3) of A. Lavin and S.
//! Gray, "Fast Algorithms for Convolutional Neural Networks" (2015).
//!
//! A tile of 4 × 4 outputs of a channel reads 6 × 6 inputs. Tile and window are each transformed to
//! 36 numbers, whose products are accumulated over the channels and transformed back: 36 products
//! instead of the 144 of 16 windows. The rounding error is a few times that of a direct
//! convolution, and an infinity or NaN in the input makes every output of its tiles NaN.
//!
//! Tiles of 2 × 2 outputs have 16 numbers, and 16 products instead of the 36 of 4 windows. Their
//! transforms only add, so the rounding error is less than twice that of a direct convolution, and
//! the products may be of numbers rounded to `bfloat16`.
//!
//! Windows with a stride of 2 are sums of four windows: of the elements that read even or odd rows,
//! and even or odd columns. Along an axis the outer two elements are F(2, 2), with three products
//! instead of four, and the middle one has its two products. So a tile of 2 × 2 outputs reads 5 × 5
//! inputs and has 25 products instead of the 36 of 4 windows; they are added to 9 accumulators
//! before the transform back.
//!
//! Windows of three axes are sums of such windows, one for each element along the first axis. Each
//! input plane is transformed once for all output planes that read it.

mod cost;
mod stages;
mod tile;
mod weights;

use super::{ConvOperands, product};
use crate::kernels::conv::Conv;
use crate::loops::epilogue::Activation;
use crate::loops::geometry::BLOCK;
use crate::loops::window_axis::Axis;
use crate::microkernel::{FusedActivation, PAIRS, Tiling, Transforms};
use crate::threads::{By, MACS_PER_ELEMENT, Scratch, Share};
use cost::FAR;
pub use cost::{Reading, winograd_pays_in_pairs, winograd_pays_packed_now, winograd_tile};
use stages::Part;
use tile::MAX_DEPTH;
pub use tile::Tile;
pub use weights::{
    pack_winograd, pack_winograd_nchwc, packed_winograd_len, packed_winograd_part_len,
};

/// The images of the input and of the output, divided into tiles.
#[derive(Clone, Copy)]
struct Tiles {
    /// The number of images, at least one.
    batch: usize,
    /// The first of three axes; [`Axis::NONE`] if there are two.
    depth: Axis,
    /// The depths of the output before the first of these.
    first_depth: usize,
    /// The number of depths of the output.
    depths: usize,
    size: [usize; 2],
    out: [usize; 2],
    pads: [usize; 2],
    /// The rows of tiles of an image before the first of these.
    above: usize,
    /// The rows of tiles of an image.
    down: usize,
    /// The tiles of a row.
    across: usize,
    /// The number of input channels, and of their blocks.
    channels: usize,
    blocks: usize,
    /// The blocks of output channels.
    filters: usize,
    tile: Tile,
    /// The elements of a pixel of the transformed input: [`BLOCK`], or [`PAIRS`].
    unit: usize,
}

/// The number of tiles that fit in an L1 cache together with most of the weights.
const FEW_TILES: usize = 8;

/// A range of rows of tiles, counted through all images.
#[derive(Clone, Copy)]
struct Rows {
    first: usize,
    count: usize,
}

impl Tiles {
    const fn of(conv: &Conv<'_>, tile: Tile, unit: usize) -> Tiles {
        let [h, w] = conv.last_two_axes();
        let (size, out) = ([h.size, w.size], [h.out, w.out]);
        let depth = if conv.size.len() > 2 { conv.axis(0) } else { Axis::NONE };
        Tiles {
            batch: if conv.batch == 0 { 1 } else { conv.batch },
            depth,
            first_depth: 0,
            depths: depth.out,
            size,
            out,
            pads: [h.pad, w.pad],
            above: 0,
            down: out[0].div_ceil(tile.side()),
            across: out[1].div_ceil(tile.side()),
            channels: conv.channels,
            blocks: conv.channels.div_ceil(BLOCK),
            filters: conv.filters.div_ceil(BLOCK),
            tile,
            unit,
        }
    }

    /// Returns the rows that a row of tiles reads of a plane of a block, `None` for padding;
    /// padding rows are empty.
    fn reads<'x, const SPAN: usize>(
        &self,
        plane: Option<&'x [f32]>,
        index: usize,
    ) -> [&'x [f32]; SPAN] {
        let (first, row) = ((self.above + index) * self.tile.step(), self.size[1] * BLOCK);
        let mut reads = [&[][..]; SPAN];
        let Some(plane) = plane else { return reads };
        for (i, reads) in reads.iter_mut().enumerate() {
            let at = (first + i).checked_sub(self.pads[0]).filter(|&at| at < self.size[0]);
            *reads = at.map_or(&[], |at| &plane[at * row..][..row]);
        }
        reads
    }

    /// Returns the first axis with the depths of these tiles.
    const fn windows(&self) -> Axis {
        Axis { out: self.depths, ..self.depth }
    }

    /// Returns the number of planes of a block that are transformed.
    const fn planes(&self) -> usize {
        self.windows().phases() * self.windows().plane()
    }

    /// Returns the scratch memory in which a row of tiles is transformed to pairs, in elements.
    const fn row_scratch(&self) -> usize {
        if self.unit == BLOCK {
            return 0;
        }
        let columns = self.across * self.tile.step() + self.tile.span() - self.tile.step();
        self.tile.span() * columns * BLOCK
    }

    /// Returns the elements of a transformed row of tiles at all depths, before and after the
    /// products, including the padding by `number_stride`.
    const fn row(&self) -> usize {
        let [before, after] = [self.planes() * self.across, self.depths * self.across];
        if self.in_place() {
            return self.tile.numbers() * after * BLOCK;
        }
        let before = self.blocks * (before * self.unit + 2 * BLOCK - self.unit);
        let after = self.filters * (after + 1) * BLOCK;
        self.tile.numbers() * before + self.tile.parts() * after
    }

    /// Returns whether the accumulators overwrite the transformed input: if there is one block of
    /// each, so that weights are few, and each accumulator uses one number.
    const fn in_place(&self) -> bool {
        let alone = self.tile.sums() == self.tile.span() && self.depth.kernel == 1;
        self.blocks == 1 && self.filters == 1 && self.unit == BLOCK && alone
    }

    /// Returns the best size of transformed rows of tiles, in elements: they are no larger than the
    /// weights, which are read for each transform, or leave space for the weights in an L2 cache.
    const fn limit(&self) -> usize {
        const FEW: usize = 128 * 1024;
        let numbers = self.tile.numbers() * self.depth.kernel;
        let weights = self.blocks * self.filters * numbers * self.unit * BLOCK;
        if weights > FEW { weights } else { FEW }
    }

    /// Returns the best number of rows of tiles to transform at once.
    const fn most_rows(&self) -> usize {
        if self.in_place() {
            let across = self.depths * self.across;
            return if across == 0 { 1 } else { FEW_TILES.div_ceil(across) };
        }
        let most = self.limit() / self.row();
        if most == 0 { 1 } else { most }
    }

    /// Returns the number of depths to compute at once: all, unless a row of tiles is too large.
    /// Where parts meet, planes are transformed for each of them.
    const fn depths_at_once(&self) -> usize {
        let mut tiles = *self;
        while tiles.depths > self.depth.kernel && tiles.row() > self.limit() {
            tiles.depths = tiles.depths.div_ceil(2);
        }
        tiles.depths
    }

    /// Returns the best size of the scratch memory, in elements.
    const fn scratch(&self) -> usize {
        if self.row() == 0 || self.down == 0 {
            return 0;
        }
        let tiles = Tiles { depths: self.depths_at_once(), ..*self };
        tiles.row_scratch() + tiles.rows(tiles.most_rows()) * tiles.row()
    }

    /// Returns the number of rows that are transformed at once, of all images, at most `most`.
    const fn rows(&self, most: usize) -> usize {
        let all = self.down * self.batch;
        all.div_ceil(all.div_ceil(most))
    }
}

/// Returns the scratch memory of [`winograd_nchwc`], in elements.
pub const fn winograd_nchwc_scratch(geometry: &Conv<'_>) -> usize {
    match Tile::of(geometry) {
        Some(tile) => Tiles::of(geometry, tile, BLOCK).scratch(),
        None => 0,
    }
}

/// Returns the scratch memory of [`winograd_two`], in elements.
pub(crate) const fn winograd_two_scratch(geometry: &Conv<'_>) -> usize {
    Tiles::of(geometry, Tile::Two, BLOCK).scratch()
}

/// Returns the scratch memory of [`winograd_two_bf16`], in elements.
pub(crate) const fn winograd_two_bf16_scratch(geometry: &Conv<'_>) -> usize {
    Tiles::of(geometry, Tile::Two, PAIRS).scratch()
}

/// Computes `y = f(w ∗ x + bias + add)`, like [`conv_nchwc`](super::conv_nchwc), for 3 × 3 windows
/// with both strides 1 or both 2. The weights are packed by [`pack_winograd`] for tiles of
/// [`Tile::Four`] or [`Tile::TwoApart`], one part after another.
#[inline(always)]
pub fn winograd_nchwc(
    operands: ConvOperands<'_, f32>,
    y: &mut [f32],
    scratch: &mut [f32],
    geometry: Conv<'_>,
    f: Activation,
) {
    FusedActivation::within_all(f, y, |y, f| winograd(operands, y, scratch, &geometry, f));
}

#[inline(never)]
fn winograd(
    operands: ConvOperands<'_, f32>,
    y: &mut [f32],
    scratch: &mut [f32],
    geometry: &Conv<'_>,
    f: FusedActivation<f32>,
) {
    match Tile::of(geometry) {
        Some(tile @ Tile::TwoApart) => {
            Tiles::of(geometry, tile, BLOCK).convolve::<2, 5, false>(operands, y, scratch, f)
        }
        _ => {
            Tiles::of(geometry, Tile::Four, BLOCK).convolve::<4, 6, false>(operands, y, scratch, f)
        }
    }
}

/// Computes a convolution with tiles of [`Tile::Two`].
#[inline(never)]
pub(crate) fn winograd_two(
    operands: ConvOperands<'_, f32>,
    y: &mut [f32],
    scratch: &mut [f32],
    geometry: &Conv<'_>,
    f: FusedActivation<f32>,
) {
    let tiles = Tiles::of(geometry, Tile::Two, BLOCK);
    tiles.convolve::<2, 4, false>(operands, y, scratch, f);
}

/// Computes a convolution of an even number of channels with tiles of [`Tile::Two`]. The weights
/// have the same packing, in `bfloat16` pairs of two neighboring channels.
#[inline(never)]
pub(crate) fn winograd_two_bf16(
    operands: ConvOperands<'_, f32>,
    y: &mut [f32],
    scratch: &mut [f32],
    geometry: &Conv<'_>,
    f: FusedActivation<f32>,
) {
    let tiles = Tiles::of(geometry, Tile::Two, PAIRS);
    tiles.convolve::<2, 4, true>(operands, y, scratch, f);
}

impl Tiles {
    /// Computes the convolution with tiles of `TILE` × `TILE` outputs, of numbers or of pairs.
    fn convolve<const TILE: usize, const SPAN: usize, const PAIRED: bool>(
        &self,
        ConvOperands { x, w, bias, add }: ConvOperands<'_, f32>,
        y: &mut [f32],
        scratch: &mut [f32],
        f: FusedActivation<f32>,
    ) where
        Tiling<TILE, SPAN>: Transforms<TILE, SPAN>,
    {
        let (plane, row) = (product(&self.out) * BLOCK, self.tile.side() * self.out[1] * BLOCK);
        let block = self.depths * plane;
        if block * self.filters == 0 {
            return;
        }
        let addends = [bias, add].map(|x| x.unwrap_or(&[]));
        let scratch = Scratch::new(scratch);
        let convolve = |tiles: &Tiles, y: Share<'_, f32>| {
            scratch
                .with(|scratch| tiles.fill::<TILE, SPAN, PAIRED>([x, w], addends, y, scratch, f));
        };
        let y = Share::of(y, block);
        let (input, output) = (x.len(), y.planes() * y.len());
        if !self.pays_in_rows([input, output], w.len()) {
            return convolve(self, y);
        }
        let products = output * self.depth.kernel * self.channels / MACS_PER_ELEMENT;
        let cost = self.expansion() * (input + output + products);
        if self.depths > 1 {
            return y.hand_out(plane, By::OnlyRows, cost, |piece| {
                let tiles =
                    Tiles { first_depth: piece.rows.start, depths: piece.rows.len(), ..*self };
                convolve(&tiles, piece.y);
            });
        }
        y.hand_out(row, By::OnlyRows, cost, |piece| {
            let tiles = Tiles { above: piece.rows.start, down: piece.rows.len(), ..*self };
            convolve(&tiles, piece.y);
        });
    }

    /// Returns the number of transformed numbers of an input element, rounded down.
    const fn expansion(&self) -> usize {
        self.tile.numbers() / (self.tile.step() * self.tile.step())
    }

    /// Returns whether two threads are faster if each computes rows of tiles, or depths, than if
    /// each computes a part of the numbers. With rows, each reads all weights, for half of the
    /// tiles; with numbers, each passes half of the input and of the numbers before and after the
    /// products to the other. Moving a number takes as long as [`MOVED`] products.
    fn pays_in_rows(&self, [input, output]: [usize; 2], weights: usize) -> bool {
        const MOVED: usize = 15;
        let tiles = self.depths * self.down * self.across;
        let moved = (input + self.expansion() * (input + output)) * MOVED / 2;
        tiles.div_ceil(2).max(FAR) * weights <= tiles.max(FAR) * weights / 2 + moved
    }

    /// Computes the depths and rows of the tiles, in all blocks of all images.
    fn fill<const TILE: usize, const SPAN: usize, const PAIRED: bool>(
        &self,
        [x, w]: [&[f32]; 2],
        addends: [&[f32]; 2],
        mut y: Share<'_, f32>,
        scratch: &mut [f32],
        f: FusedActivation<f32>,
    ) where
        Tiling<TILE, SPAN>: Transforms<TILE, SPAN>,
    {
        let (at_once, plane) = (self.depths_at_once(), y.len() / self.depths);
        for first in (0..self.depths).step_by(at_once) {
            let depths = at_once.min(self.depths - first);
            let tiles = Tiles { first_depth: self.first_depth + first, depths, ..*self };
            let y = y.part(0..y.planes(), first * plane..(first + depths) * plane);
            tiles.fill_depths::<TILE, SPAN, PAIRED>([x, w], addends, y, scratch, f);
        }
    }

    /// Computes rows of the tiles at all depths at once.
    fn fill_depths<const TILE: usize, const SPAN: usize, const PAIRED: bool>(
        &self,
        operands: [&[f32]; 2],
        addends: [&[f32]; 2],
        mut y: Share<'_, f32>,
        scratch: &mut [f32],
        f: FusedActivation<f32>,
    ) where
        Tiling<TILE, SPAN>: Transforms<TILE, SPAN>,
    {
        let (all, row) = (y.planes() / self.filters * self.down, self.row());
        let (of_row, scratch) = scratch.split_at_mut(self.row_scratch());
        let most =
            self.rows(self.most_rows().min(scratch.len().checked_div(row).unwrap_or(1)).max(1));
        for first in (0..all).step_by(most) {
            let rows = Rows { first, count: most.min(all - first) };
            let part = Part::<TILE, SPAN, PAIRED>::of(self, rows);
            part.compute(operands, addends, &mut y, [&mut *of_row, &mut *scratch], f);
        }
    }
}
