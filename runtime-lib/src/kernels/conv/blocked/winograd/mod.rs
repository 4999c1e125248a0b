//! Convolutions of 3 × 3 windows with fewer products: F(4 × 4, 3 × 3) and F(2 × 2, 3 × 3) of A. Lavin
//! and S. Gray, "Fast Algorithms for Convolutional Neural Networks" (2015).
//!
//! A tile of 4 × 4 outputs of a channel reads 6 × 6 numbers of the input. Tile and window are each
//! transformed to 36 numbers, whose products, summed over the channels, are transformed back: 36
//! products where 16 windows have 144. A rounding error is a few times that of the plain sum, and
//! an input that is infinite or NaN makes NaN of every output of its tiles.
//!
//! Tiles of 2 × 2 outputs have 16 numbers, and 16 products where 4 windows have 36. Their transforms
//! only add, so a rounding error is less than twice that of the plain sum: what is multiplied may be
//! rounded to `bfloat16`.
//!
//! Windows two steps apart are sums of four: of elements that meet even or odd rows, and even or odd
//! columns. Along an axis the outer two are F(2, 2), three products where two windows have four, and the
//! middle one is its two products. So a tile of 2 × 2 outputs reads 5 × 5 numbers and has 25 products, where
//! 4 windows have 36; they are summed to 9 numbers before these are transformed back.

mod cost;
mod stages;
mod tile;
mod weights;

use super::{ConvOperands, product};
use crate::kernels::conv::Conv;
use crate::loops::epilogue::Activation;
use crate::microkernel::{BLOCK, FusedActivation, PAIRS, Tiling, Transforms};
use crate::threads::{By, MACS_PER_ELEMENT, Scratch, Share};
use cost::FAR;
pub use cost::{Reading, winograd_pays_in_pairs, winograd_pays_packed_now, winograd_tile};
use stages::Part;
pub use tile::Tile;
pub use weights::{
    pack_winograd, pack_winograd_nchwc, packed_winograd_len, packed_winograd_part_len,
};

/// The images of the input and of the output, cut in tiles.
#[derive(Clone, Copy)]
struct Tiles {
    /// How many images there are, one at least.
    batch: usize,
    size: [usize; 2],
    out: [usize; 2],
    pads: [usize; 2],
    /// Rows of tiles of an image before the first of these.
    above: usize,
    /// Rows of tiles of an image.
    down: usize,
    /// Tiles side by side.
    across: usize,
    /// Input channels, and blocks of such.
    channels: usize,
    blocks: usize,
    /// Blocks of output channels.
    filters: usize,
    tile: Tile,
    /// Elements of a pixel of what is multiplied: [`BLOCK`], or [`PAIRS`].
    unit: usize,
}

/// So many tiles are in a first-level cache together with most of the weights.
const FEW_TILES: usize = 8;

/// Some rows of tiles, counted through all images.
#[derive(Clone, Copy)]
struct Rows {
    first: usize,
    count: usize,
}

impl Tiles {
    const fn of(conv: &Conv<'_>, tile: Tile, unit: usize) -> Tiles {
        let (size, out) = ([conv.size[0], conv.size[1]], [conv.out[0], conv.out[1]]);
        Tiles {
            batch: if conv.batch == 0 { 1 } else { conv.batch },
            size,
            out,
            pads: [conv.pads[0], conv.pads[1]],
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

    /// What a row of tiles reads of a block of an image: nothing of rows that are padding.
    fn reads<'x, const SPAN: usize>(&self, x: &'x [f32], index: usize) -> [&'x [f32]; SPAN] {
        let (first, row) = ((self.above + index) * self.tile.step(), self.size[1] * BLOCK);
        let mut reads = [&[][..]; SPAN];
        for (i, reads) in reads.iter_mut().enumerate() {
            let at = (first + i).checked_sub(self.pads[0]).filter(|&at| at < self.size[0]);
            *reads = at.map_or(&[], |at| &x[at * row..][..row]);
        }
        reads
    }

    /// Elements that a row of tiles needs on the way to its numbers, where pairs become of them.
    const fn row_scratch(&self) -> usize {
        if self.unit == BLOCK {
            return 0;
        }
        let columns = self.across * self.tile.step() + self.tile.span() - self.tile.step();
        self.tile.span() * columns * BLOCK
    }

    /// Elements of what a row of tiles is transformed to, before the products and after, and of what
    /// [`apart`] adds to them.
    const fn row(&self) -> usize {
        if self.in_place() {
            return self.tile.numbers() * self.across * BLOCK;
        }
        let before = self.blocks * (self.across * self.unit + 2 * BLOCK - self.unit);
        let after = self.filters * (self.across + 1) * BLOCK;
        self.tile.numbers() * before + self.tile.parts() * after
    }

    /// Whether sums take the places of what they were made of: where there is a block of these and of those,
    /// so that weights are few, and each is made of one.
    const fn in_place(&self) -> bool {
        let alone = self.tile.sums() == self.tile.span();
        self.blocks == 1 && self.filters == 1 && self.unit == BLOCK && alone
    }

    /// The most rows of tiles that are best transformed at once: as many as are no larger than the
    /// weights, which are read anew for each, or leave room for them in a second-level cache.
    const fn most_rows(&self) -> usize {
        const FEW: usize = 128 * 1024;
        if self.in_place() {
            return if self.across == 0 { 1 } else { FEW_TILES.div_ceil(self.across) };
        }
        let weights = self.blocks * self.filters * self.tile.numbers() * self.unit * BLOCK;
        let most = if weights > FEW { weights } else { FEW } / self.row();
        if most == 0 { 1 } else { most }
    }

    /// How many elements of scratch memory serve best.
    const fn scratch(&self) -> usize {
        if self.row() == 0 || self.down == 0 {
            return 0;
        }
        self.row_scratch() + self.rows(self.most_rows()) * self.row()
    }

    /// How many rows are transformed at once, of all images, where there is memory for so many.
    const fn rows(&self, most: usize) -> usize {
        let all = self.down * self.batch;
        all.div_ceil(all.div_ceil(most))
    }
}

/// How many elements of scratch memory [`winograd_nchwc`] needs.
pub const fn winograd_nchwc_scratch(geometry: &Conv<'_>) -> usize {
    match Tile::of(geometry) {
        Some(tile) => Tiles::of(geometry, tile, BLOCK).scratch(),
        None => 0,
    }
}

/// How many elements of scratch memory [`sums_of_tiles`] needs.
pub(crate) const fn sums_of_tiles_scratch(geometry: &Conv<'_>) -> usize {
    Tiles::of(geometry, Tile::Two, BLOCK).scratch()
}

/// How many elements of scratch memory [`pairs_of_tiles`] needs.
pub(crate) const fn pairs_of_tiles_scratch(geometry: &Conv<'_>) -> usize {
    Tiles::of(geometry, Tile::Two, PAIRS).scratch()
}

/// `y = f(w ∗ x + bias + add)` as [`conv_nchwc`](super::conv_nchwc) has it, for windows of
/// 3 × 3, all one step apart, or all two. The weights are packed by [`pack_winograd`] for tiles of
/// [`Tile::Four`], or [`Tile::TwoApart`], one part after the other.
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

/// The same by tiles of [`Tile::Two`].
#[inline(never)]
pub(crate) fn sums_of_tiles(
    operands: ConvOperands<'_, f32>,
    y: &mut [f32],
    scratch: &mut [f32],
    geometry: &Conv<'_>,
    f: FusedActivation<f32>,
) {
    let tiles = Tiles::of(geometry, Tile::Two, BLOCK);
    tiles.convolve::<2, 4, false>(operands, y, scratch, f);
}

/// The same of an even number of channels, with weights that are packed likewise, but those of two
/// neighboring channels in a pair of `bfloat16` numbers.
#[inline(never)]
pub(crate) fn pairs_of_tiles(
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
    /// The convolution, by tiles of `TILE` × `TILE` outputs, of numbers or of pairs.
    fn convolve<const TILE: usize, const SPAN: usize, const PAIRED: bool>(
        &self,
        ConvOperands { x, w, bias, add }: ConvOperands<'_, f32>,
        y: &mut [f32],
        scratch: &mut [f32],
        f: FusedActivation<f32>,
    ) where
        Tiling<TILE, SPAN>: Transforms<TILE, SPAN>,
    {
        let (block, row) = (product(&self.out) * BLOCK, self.tile.side() * self.out[1] * BLOCK);
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
        let cost = self.expansion() * (input + output + output * self.channels / MACS_PER_ELEMENT);
        y.hand_out(row, By::OnlyRows, cost, |piece| {
            let tiles = Tiles { above: piece.rows.start, down: piece.rows.len(), ..*self };
            convolve(&tiles, piece.y);
        });
    }

    /// About so many numbers stand for an element.
    const fn expansion(&self) -> usize {
        self.tile.numbers() / (self.tile.step() * self.tile.step())
    }

    /// Whether threads, two of them, had better get rows of tiles than numbers. Each then reads all
    /// weights, for half of the tiles; else each hands on half of the input, and of the numbers before
    /// and after the products. To read one of those takes as long as so many products.
    fn pays_in_rows(&self, [input, output]: [usize; 2], weights: usize) -> bool {
        const MOVED: usize = 15;
        let tiles = self.down * self.across;
        let moved = (input + self.expansion() * (input + output)) * MOVED / 2;
        tiles.div_ceil(2).max(FAR) * weights <= tiles.max(FAR) * weights / 2 + moved
    }

    /// The rows of the tiles, in all blocks of all images.
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
        let (all, row) = (y.planes() / self.filters * self.down, self.row());
        let (of_row, scratch) = scratch.split_at_mut(self.row_scratch());
        let most =
            self.rows(self.most_rows().min(scratch.len().checked_div(row).unwrap_or(1)).max(1));
        for first in (0..all).step_by(most) {
            let rows = Rows { first, count: most.min(all - first) };
            let part = Part::<TILE, SPAN, PAIRED>::of(self, rows);
            part.compute([x, w], addends, &mut y, [&mut *of_row, &mut *scratch], f);
        }
    }
}
