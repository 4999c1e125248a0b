//! The Winograd transform of the accumulators to outputs.

use super::{Tiling, Transforms};
use crate::loops::bounds::reach;
use crate::loops::geometry::BLOCK;
use crate::microkernel::conv_tile::bound;
use crate::simd::{Simd, WithSimd, dispatch};

/// The accumulators of a row of tiles of one block of channels, and their outputs.
pub(crate) struct WinogradOutput<'a, const TILE: usize, const SPAN: usize> {
    /// The accumulators, tile after tile.
    pub sums: &'a [f32],
    /// The stride of the numbers of a tile, in elements.
    pub apart: usize,
    /// The stride of tiles, in elements; at least the elements of a number.
    pub step: usize,
    /// The number of tiles.
    pub tiles: usize,
    /// The bias of each channel.
    pub bias: &'a [f32; BLOCK],
    /// The residual, which is added to the output and has its layout; empty for none.
    pub add: &'a [f32],
    /// The output: contiguous rows, at most as many as a tile has.
    pub y: &'a mut [f32],
    /// The columns of the output.
    pub cols: usize,
    /// The minimum and the maximum of the result.
    pub clamp: Option<(f32, f32)>,
}

impl<const TILE: usize, const SPAN: usize> WinogradOutput<'_, TILE, SPAN>
where
    Tiling<TILE, SPAN>: Transforms<TILE, SPAN>,
{
    /// Computes the outputs at the best SIMD level of the processor.
    pub fn compute(self) {
        dispatch(self);
    }

    /// Returns the number of output rows, after checking that every element that the tiles access
    /// is inside its slice.
    fn check(&self) -> usize {
        let row = reach([[self.cols, BLOCK]]);
        let rows = self.y.len() / row.max(1);
        assert!(self.cols.div_ceil(TILE) == self.tiles && rows <= TILE);
        let sums = <Tiling<TILE, SPAN>>::SUMS;
        let (number, tile) = (sums * sums - 1, self.tiles.saturating_sub(1));
        let end = reach([[number, self.apart], [tile, self.step], [BLOCK, 1]]);
        assert!(self.step >= BLOCK && self.sums.len() >= end);
        assert!(self.add.is_empty() || self.add.len() >= reach([[rows, row]]));
        rows
    }
}

impl<const TILE: usize, const SPAN: usize> WithSimd for WinogradOutput<'_, TILE, SPAN>
where
    Tiling<TILE, SPAN>: Transforms<TILE, SPAN>,
{
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(mut self, s: S) {
        let rows = self.check();
        // SAFETY: `check` has passed and returned `rows`.
        unsafe {
            // With this constant stride, all numbers of a tile have constant offsets.
            match self.apart {
                BLOCK => self.each_tile(s, rows, BLOCK),
                apart => self.each_tile(s, rows, apart),
            }
        }
    }
}

impl<const TILE: usize, const SPAN: usize> WinogradOutput<'_, TILE, SPAN>
where
    Tiling<TILE, SPAN>: Transforms<TILE, SPAN>,
{
    /// Computes all tiles, whose numbers have the stride `apart`.
    ///
    /// # Safety
    ///
    /// `check` has passed and returned `rows`.
    #[inline(always)]
    unsafe fn each_tile<S: Simd>(&mut self, s: S, rows: usize, apart: usize) {
        for tile in 0..self.tiles {
            for lane in (0..BLOCK).step_by(S::LANES) {
                // SAFETY: `tile < tiles`, and a vector at `lane` is inside a block.
                unsafe { self.tile(s, rows, [tile, lane], apart) };
            }
        }
    }

    /// Computes a vector of channels of a tile.
    ///
    /// # Safety
    ///
    /// `check` has passed, the tile exists, and a vector at `lane` is inside a block.
    #[inline(always)]
    unsafe fn tile<S: Simd>(&mut self, s: S, rows: usize, [tile, lane]: [usize; 2], apart: usize) {
        let bias = s.load(&self.bias[lane..]);
        // SAFETY: `check` covered all numbers of every tile.
        let mut pixels = unsafe {
            let sums = self.sums.as_ptr().add(tile * self.step + lane);
            Tiling::transform_tile_back(s, sums, apart, bias)
        };
        let (width, col) = (self.cols, tile * TILE);
        let cols = TILE.min(width - col);
        // SAFETY: `check` covered `rows` rows and all columns of the output and the residual, and
        // other pixels of the tile are skipped.
        unsafe {
            if !self.add.is_empty() {
                let add = self.add.as_ptr().add(col * BLOCK + lane);
                for (i, pixels) in pixels.iter_mut().enumerate() {
                    for (j, pixel) in pixels.iter_mut().enumerate() {
                        if i < rows && j < cols {
                            let add = add.add((i * width + j) * BLOCK);
                            *pixel = s.add(*pixel, s.load_at(add));
                        }
                    }
                }
            }
            if let Some((low, high)) = self.clamp {
                bound(s, pixels.as_flattened_mut(), low, high);
            }
            let y = self.y.as_mut_ptr().add(col * BLOCK + lane);
            for (i, pixels) in pixels.iter().enumerate() {
                for (j, &pixel) in pixels.iter().enumerate() {
                    if i < rows && j < cols {
                        s.store_at(pixel, y.add((i * width + j) * BLOCK));
                    }
                }
            }
        }
    }
}
