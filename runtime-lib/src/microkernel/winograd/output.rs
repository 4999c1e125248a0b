//! Sums of products, transformed back.

use super::{Tiling, Transforms};
use crate::loops::bounds::reach;
use crate::microkernel::conv_layout::BLOCK;
use crate::microkernel::conv_tile::bound;
use crate::simd::{Simd, WithSimd, dispatch};

/// The sums of a row of tiles of one block of channels, and the outputs that become of them.
pub(crate) struct WinogradOutput<'a, const TILE: usize, const SPAN: usize> {
    /// The sums of the first tile, and so on.
    pub sums: &'a [f32],
    /// How far one number of a tile starts from the next.
    pub apart: usize,
    /// How far one tile starts from the next: at least as far as a number has elements.
    pub step: usize,
    /// How many tiles there are.
    pub tiles: usize,
    /// What is added to each channel.
    pub bias: &'a [f32; BLOCK],
    /// What is added to each element of the output, laid out likewise; nothing where empty.
    pub add: &'a [f32],
    /// The output: rows with nothing between them, as many as tiles have or fewer.
    pub y: &'a mut [f32],
    /// How many columns the output has.
    pub cols: usize,
    /// The least and the largest result.
    pub clamp: Option<(f32, f32)>,
}

impl<const TILE: usize, const SPAN: usize> WinogradOutput<'_, TILE, SPAN>
where
    Tiling<TILE, SPAN>: Transforms<TILE, SPAN>,
{
    /// Computes them at the best level that the processor has.
    pub fn compute(self) {
        dispatch(self);
    }

    /// How many rows the output has; every element which the tiles touch is there.
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
        // SAFETY: `check` has passed.
        unsafe {
            // Where neighbors are so near, all numbers of a tile are at known distances.
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
    /// All tiles, whose numbers are so far apart.
    ///
    /// # Safety
    /// `check` has passed, and said so many rows.
    #[inline(always)]
    unsafe fn each_tile<S: Simd>(&mut self, s: S, rows: usize, apart: usize) {
        for tile in 0..self.tiles {
            for lane in (0..BLOCK).step_by(S::LANES) {
                // SAFETY: there are such a tile and such a vector in a block.
                unsafe { self.tile(s, rows, [tile, lane], apart) };
            }
        }
    }

    /// Some channels of a tile.
    ///
    /// # Safety
    /// `check` has passed, there is such a tile, and a block has a vector at `lane`.
    #[inline(always)]
    unsafe fn tile<S: Simd>(&mut self, s: S, rows: usize, [tile, lane]: [usize; 2], apart: usize) {
        let bias = s.load(&self.bias[lane..]);
        // SAFETY: `check` saw all numbers of the tile.
        let mut pixels = unsafe {
            let sums = self.sums.as_ptr().add(tile * self.step + lane);
            Tiling::transform_tile_back(s, sums, apart, bias)
        };
        let (width, col) = (self.cols, tile * TILE);
        let cols = TILE.min(width - col);
        // SAFETY: there are such rows, and such columns, of the output and of what is added.
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
