//! The cost model that chooses between Winograd tiles and direct convolution.

use super::{Tile, Tiles};
use crate::kernels::conv::{Conv, product};
use crate::loops::geometry::BLOCK;
use crate::loops::window_axis::Axis;

/// The memory from which the weights of a convolution are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reading {
    /// An L2 cache, which holds the weights of the whole model.
    Near,
    /// Memory behind the L2 cache.
    Far,
}

/// Returns the tile with which Winograd is faster than a direct convolution, if there is one.
pub const fn winograd_tile(conv: &Conv<'_>, weights: Reading) -> Option<Tile> {
    match Tile::of(conv) {
        Some(tile) if pays(conv, tile, weights, 0) => Some(tile),
        _ => None,
    }
}

/// Returns whether [`Tile::Two`] pays with weights in `bfloat16` pairs.
pub const fn winograd_pays_in_pairs(conv: &Conv<'_>) -> bool {
    is_flat(conv) && pays(conv, Tile::Two, Reading::Far, 0)
}

/// Returns whether [`Tile::Four`] suits a convolution of two axes.
const fn is_flat(conv: &Conv<'_>) -> bool {
    conv.size.len() == 2 && matches!(Tile::of(conv), Some(Tile::Four))
}

/// Returns whether [`Tile::Four`] pays if the weights are packed at run time: packing a window
/// takes as long as 2800 products.
pub const fn winograd_pays_packed_now(conv: &Conv<'_>) -> bool {
    let large = conv.channels > BLOCK && conv.filters > BLOCK;
    large && is_flat(conv) && pays(conv, Tile::Four, Reading::Far, 2800)
}

/// The number of products of a weight that take as long as reading it from behind an L2 cache.
pub(super) const FAR: usize = 24;

/// Returns whether Winograd is faster. Convolutions of a few microseconds are excluded, because
/// weights and scratch memory of tiles are several times as large.
const fn pays(conv: &Conv<'_>, tile: Tile, weights: Reading, packing: usize) -> bool {
    const SOME: usize = 1 << 20;
    if product(conv.out) == 0 {
        return false;
    }
    let tiles = Tiles::of(conv, tile, BLOCK);
    let winograd = tiles.cost(weights) + packing * conv.channels * tiles.filters * BLOCK;
    let [products, copies] = windows_cost(&tiles);
    products >= SOME && winograd + winograd / 16 < products + copies
}

/// Returns the cost of a direct convolution, in products of two numbers: of its arithmetic, and of
/// copying the padded input and storing the output.
const fn windows_cost(tiles: &Tiles) -> [usize; 2] {
    let Tiles { depth, blocks, filters, channels, .. } = *tiles;
    let [size, out] = [product(&tiles.size), product(&tiles.out)];
    let products = planes_read(&depth) * out * 9 * channels * filters * BLOCK;
    let copies = (8 * depth.size * size * blocks + 6 * depth.out * out * filters) * BLOCK;
    [tiles.batch * products, tiles.batch * copies]
}

/// Returns the number of planes that all windows read along the depth, without padding.
const fn planes_read(depth: &Axis) -> usize {
    let (mut sum, mut tap) = (0, 0);
    while tap < depth.kernel {
        // The windows up to the one whose element reads the end of the image, and the start.
        let place = tap * depth.dilation;
        let end = (depth.pad + depth.size).saturating_sub(place).div_ceil(depth.stride);
        let start = depth.pad.saturating_sub(place).div_ceil(depth.stride);
        let end = if end < depth.out { end } else { depth.out };
        sum += end.saturating_sub(start);
        tap += 1;
    }
    sum
}

impl Tiles {
    /// Returns the cost of Winograd, in products of two numbers. The cost of transforming an input
    /// or an output depends on the tile. Reading a weight costs at least the number of products
    /// that [`Reading`] stands for.
    const fn cost(&self, weights: Reading) -> usize {
        let [channels, filters] = [self.blocks * BLOCK, self.filters * BLOCK];
        // Weights are read for each image, or for several that are transformed at once.
        let some = Tiles { depths: self.depths_at_once(), ..*self };
        let parts = self.depths.div_ceil(some.depths);
        let together = match some.most_rows() / self.down {
            _ if self.in_place() => self.batch,
            0 => 1,
            images => images,
        };
        let readings = self.batch.div_ceil(together) * parts;
        let least = match weights {
            Reading::Near => 6,
            Reading::Far => FAR,
        };
        let [number, output] = match self.tile {
            // Two numbers of pairs are multiplied at once.
            Tile::Two => [12, 40],
            Tile::Four => [9, 19],
            Tile::TwoApart => [12, 17],
        };
        let of_plane = self.batch * self.down * self.across;
        let [before, count] = [parts * some.planes() * of_plane, self.depths * of_plane];
        let multiplied = if count > readings * least { count } else { readings * least };
        let (numbers, outputs) = (self.tile.numbers(), self.tile.side() * self.tile.side());
        let transforms = before * numbers * number * channels + count * outputs * output * filters;
        multiplied * numbers * self.depth.kernel * self.channels * filters + transforms
    }
}
