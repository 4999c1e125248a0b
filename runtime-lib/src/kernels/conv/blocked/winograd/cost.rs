//! Whether tiles take less than windows.

use super::{Tile, Tiles};
use crate::kernels::conv::{Conv, product};
use crate::microkernel::BLOCK;

/// From where the weights of a convolution are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reading {
    /// A second-level cache, which has room for those of the whole model.
    Near,
    /// Memory behind it.
    Far,
}

/// The tiles by which a convolution is computed soonest, where it is by any.
pub const fn winograd_tile(conv: &Conv<'_>, weights: Reading) -> Option<Tile> {
    match Tile::of(conv) {
        Some(tile) if pays(conv, tile, weights, 0) => Some(tile),
        _ => None,
    }
}

/// Whether tiles of [`Tile::Two`] pay, where the weights stand in pairs of `bfloat16` numbers.
pub const fn winograd_pays_in_pairs(conv: &Conv<'_>) -> bool {
    matches!(Tile::of(conv), Some(Tile::Four)) && pays(conv, Tile::Two, Reading::Far, 0)
}

/// Whether tiles of [`Tile::Four`] pay, where the weights are packed when the convolution runs: a window takes
/// as long as 2800 products.
pub const fn winograd_pays_packed_now(conv: &Conv<'_>) -> bool {
    let large = conv.channels > BLOCK && conv.filters > BLOCK;
    large
        && matches!(Tile::of(conv), Some(Tile::Four))
        && pays(conv, Tile::Four, Reading::Far, 2800)
}

/// So many products of a weight take as long as to read it from behind a second-level cache.
pub(super) const FAR: usize = 24;

/// Whether tiles take less than windows. What is over in some microseconds anyway stays small: weights and
/// scratch memory of tiles are several times as large.
const fn pays(conv: &Conv<'_>, tile: Tile, weights: Reading, packing: usize) -> bool {
    const SOME: usize = 1 << 20;
    if product(conv.out) == 0 {
        return false;
    }
    let tiles = Tiles::of(conv, tile, BLOCK);
    let ours = tiles.cost(weights) + packing * conv.channels * tiles.filters * BLOCK;
    let [products, copies] = windows_cost(&tiles);
    products >= SOME && ours + ours / 16 < products + copies
}

/// What windows take, a product of two numbers being the unit of cost, and what copying their input with its
/// padding and storing the output do.
const fn windows_cost(tiles: &Tiles) -> [usize; 2] {
    let Tiles { blocks, filters, channels, .. } = *tiles;
    let [size, out] = [product(&tiles.size), product(&tiles.out)];
    let products = out * 9 * channels * filters * BLOCK;
    let copies = (8 * size * blocks + 6 * out * filters) * BLOCK;
    [tiles.batch * products, tiles.batch * copies]
}

impl Tiles {
    /// What tiles take, likewise: what a number of the input that is transformed takes as long as, and one of
    /// the output, is a matter of tiles. A weight that is read takes as long as its products at least as
    /// [`Reading`] says.
    const fn cost(&self, weights: Reading) -> usize {
        let [channels, filters] = [self.blocks * BLOCK, self.filters * BLOCK];
        // Weights are read for each image, or for some that are transformed at once.
        let together = match self.most_rows() / self.down {
            _ if self.in_place() => self.batch,
            0 => 1,
            images => images,
        };
        let readings = self.batch.div_ceil(together);
        let least = match weights {
            Reading::Near => 6,
            Reading::Far => FAR,
        };
        let [number, output] = match self.tile {
            // Of pairs, two are multiplied at once.
            Tile::Two => [12, 40],
            Tile::Four => [9, 19],
            Tile::TwoApart => [12, 17],
        };
        let count = self.batch * self.down * self.across;
        let multiplied = if count > readings * least { count } else { readings * least };
        let (numbers, outputs) = (self.tile.numbers(), self.tile.side() * self.tile.side());
        let transforms = count * (numbers * number * channels + outputs * output * filters);
        multiplied * numbers * self.channels * filters + transforms
    }
}
