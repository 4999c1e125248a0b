//! The inner loops of F(4 × 4, 3 × 3) and F(2 × 2, 3 × 3), and of the latter for windows two steps apart: what
//! a row of tiles reads is transformed to the numbers of each, these are multiplied, and sums of products are
//! transformed back to outputs.

mod input;
mod output;
mod products;
mod transforms;

pub(crate) use input::WinogradInput;
pub(crate) use output::WinogradOutput;
pub(crate) use products::WinogradProducts;
pub(crate) use transforms::Transforms;

/// Tiles of `TILE` × `TILE` outputs, of which each reads `SPAN` × `SPAN` numbers.
pub(crate) struct Tiling<const TILE: usize, const SPAN: usize>;

impl<const TILE: usize, const SPAN: usize> Tiling<TILE, SPAN> {
    /// From the columns that a tile reads to those of the next. So many windows, three columns wide each, read
    /// as many columns as that only where they are so far apart.
    const STEP: usize = TILE * ((SPAN - 3) / (TILE - 1));
}
