//! The inner loops of Winograd convolutions F(4 × 4, 3 × 3) and F(2 × 2, 3 × 3), the latter also
//! for windows with a stride of 2: transforms the input of a row of tiles, multiplies it by the
//! transformed weights, and transforms the accumulators to outputs.

mod input;
mod output;
mod products;
mod transforms;

pub(crate) use input::WinogradInput;
pub(crate) use output::WinogradOutput;
pub(crate) use products::WinogradProducts;
pub(crate) use transforms::Transforms;

/// Tiles of `TILE` × `TILE` outputs. Each tile reads `SPAN` × `SPAN` inputs.
pub(crate) struct Tiling<const TILE: usize, const SPAN: usize>;

impl<const TILE: usize, const SPAN: usize> Tiling<TILE, SPAN> {
    /// The distance of the input columns of two tiles: `TILE` times the stride of the windows,
    /// which follows from `SPAN = (TILE - 1) · stride + 3`.
    const STEP: usize = TILE * ((SPAN - 3) / (TILE - 1));
}
