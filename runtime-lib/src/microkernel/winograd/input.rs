//! The Winograd transform of the input.

use super::transforms::load_row;
use super::{Tiling, Transforms};
use crate::loops::bounds::reach;
use crate::loops::geometry::BLOCK;
use crate::microkernel::conv_layout::PAIRS;
use crate::simd::bf16_pair::PAIR;
use crate::simd::{self, MAX_LANES, Simd, WithSimd, dispatch, dispatch_pairs};

/// The input of a row of tiles, of one block of channels, and its transform. If `PAIRED`, the
/// transform is stored as pairs of neighboring channels.
pub(crate) struct WinogradInput<'a, const TILE: usize, const SPAN: usize, const PAIRED: bool> {
    /// The rows of the input; an empty row is all zeros.
    pub rows: [&'a [f32]; SPAN],
    /// The columns of zeros before the rows. Zeros also follow them, as far as the tiles read.
    pub before: usize,
    /// The number of tiles.
    pub tiles: usize,
    /// Scratch memory for pairs: `SPAN` pixels for each column that the tiles read.
    pub scratch: &'a mut [f32],
    /// The transformed tiles.
    pub numbers: &'a mut [f32],
    /// The stride of the numbers of a tile, in elements.
    pub apart: usize,
    /// The stride of tiles, in elements; at least the elements of a number.
    pub step: usize,
}

impl<const TILE: usize, const SPAN: usize, const PAIRED: bool> WinogradInput<'_, TILE, SPAN, PAIRED>
where
    Tiling<TILE, SPAN>: Transforms<TILE, SPAN>,
{
    /// The distance of the input columns of two tiles.
    const STEP: usize = Tiling::<TILE, SPAN>::STEP;
    /// The elements of a number of one block.
    const UNIT: usize = if PAIRED { PAIRS } else { BLOCK };

    /// Computes the transform at the best SIMD level of the processor.
    pub fn compute(self) {
        if PAIRED { dispatch_pairs(self) } else { dispatch(self) }
    }

    /// Returns the number of columns that the tiles read.
    fn columns(&self) -> usize {
        self.tiles * Self::STEP + SPAN - Self::STEP
    }

    /// Returns the number of columns of the input that are read, after checking that all rows have
    /// them and that the transform fits its slices.
    fn check(&self) -> usize {
        let columns = self.columns();
        assert!(self.before <= columns);
        let most = self.rows.iter().map(|row| row.len() / BLOCK).max().unwrap_or(0);
        let inside = most.min(columns - self.before);
        assert!(self.rows.iter().all(|row| row.is_empty() || row.len() >= inside * BLOCK));
        assert!(!PAIRED || self.scratch.len() >= reach([[SPAN, columns, BLOCK]]));
        let (number, tile) = (SPAN * SPAN - 1, self.tiles.saturating_sub(1));
        let end = reach([[number, self.apart], [tile, self.step], [Self::UNIT, 1]]);
        assert!(self.step >= Self::UNIT && self.numbers.len() >= end);
        inside
    }
}

impl<const TILE: usize, const SPAN: usize, const PAIRED: bool> WithSimd
    for WinogradInput<'_, TILE, SPAN, PAIRED>
where
    Tiling<TILE, SPAN>: Transforms<TILE, SPAN>,
{
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(mut self, s: S) {
        let inside = self.check();
        // SAFETY: `check` has passed, and a vector at `lane` is inside a block.
        unsafe {
            if !PAIRED {
                return self.each_tile(s, inside);
            }
            for lane in (0..BLOCK).step_by(S::LANES) {
                self.down(s, lane, inside);
                self.across(s, lane);
            }
        }
    }
}

/// A pixel of zeros.
const ZEROS: [f32; BLOCK] = [0.0; BLOCK];

impl<const TILE: usize, const SPAN: usize, const PAIRED: bool> WinogradInput<'_, TILE, SPAN, PAIRED>
where
    Tiling<TILE, SPAN>: Transforms<TILE, SPAN>,
{
    /// Transforms one tile at a time; `inside` columns are from the input.
    ///
    /// # Safety
    ///
    /// `check` has passed, so that every access of every tile is inside its slice.
    #[inline(always)]
    unsafe fn each_tile<S: Simd>(&mut self, s: S, inside: usize) {
        let WinogradInput { before, tiles, apart, step, .. } = *self;
        // A row of zeros is one pixel, with the stride 0.
        let mut rows = [(ZEROS.as_ptr(), 0); SPAN];
        for (to, row) in rows.iter_mut().zip(&self.rows) {
            if !row.is_empty() {
                *to = (row.as_ptr(), BLOCK);
            }
        }
        for tile in 0..tiles {
            let first = (tile * Self::STEP).wrapping_sub(before);
            for lane in (0..BLOCK).step_by(S::LANES) {
                // SAFETY: columns outside the input are replaced by zeros; `check` covered all
                // numbers.
                unsafe {
                    let to = self.numbers.as_mut_ptr().add(tile * step + lane);
                    if first < inside && inside - first >= SPAN {
                        Tiling::transform_tile(
                            s,
                            #[inline(always)]
                            |i: usize| {
                                let (row, pixel) = rows[i];
                                load_row(s, row.add(first * pixel + lane), pixel)
                            },
                            to,
                            apart,
                        );
                    } else {
                        Tiling::transform_tile(
                            s,
                            #[inline(always)]
                            |i: usize| load_inside(s, rows[i], first, inside, lane),
                            to,
                            apart,
                        );
                    }
                }
            }
        }
    }
}

/// Loads the pixels that a tile reads of a row, given its address and pixel stride: from column
/// `first` on, zeros for those that are not below `inside`.
///
/// # Safety
///
/// The row has `inside` pixels, and a vector at `lane` is inside a block.
#[inline(always)]
unsafe fn load_inside<S: Simd, const SPAN: usize>(
    s: S,
    (row, pixel): (*const f32, usize),
    first: usize,
    inside: usize,
    lane: usize,
) -> [S::F32; SPAN] {
    let mut x = [s.splat(0.0); SPAN];
    for (j, x) in x.iter_mut().enumerate() {
        let at = first.wrapping_add(j);
        let from = row.wrapping_add(at.wrapping_mul(pixel));
        let from = if at < inside { from } else { ZEROS.as_ptr() };
        // SAFETY: `from` is a pixel of the row or `ZEROS`, and both have a vector at `lane`.
        *x = unsafe { s.load_at(from.add(lane)) };
    }
    x
}

impl<const TILE: usize, const SPAN: usize, const PAIRED: bool> WinogradInput<'_, TILE, SPAN, PAIRED>
where
    Tiling<TILE, SPAN>: Transforms<TILE, SPAN>,
{
    /// Transforms each column; `inside` columns are from the input.
    ///
    /// # Safety
    ///
    /// `check` has passed, and a vector at `lane` is inside a block.
    #[inline(always)]
    unsafe fn down<S: Simd>(&mut self, s: S, lane: usize, inside: usize) {
        const ZEROS: [f32; BLOCK] = [0.0; BLOCK];
        // A row of zeros is one pixel, with the stride 0.
        let rows = self.rows.map(|row| match row {
            [] => (ZEROS.as_ptr(), 0),
            row => (row.as_ptr(), BLOCK),
        });
        let (columns, before) = (self.columns(), self.before);
        let to = self.scratch.as_mut_ptr();
        // SAFETY: `check` covered `inside` columns of all rows, and all columns of the scratch
        // memory.
        unsafe {
            for col in 0..inside {
                let column = each(
                    s,
                    #[inline(always)]
                    |i| s.load_at(rows[i].0.add(col * rows[i].1 + lane)),
                );
                for (i, x) in Tiling::transform(s, column).into_iter().enumerate() {
                    s.store_at(x, to.add((i * columns + before + col) * S::LANES));
                }
            }
            for col in (0..before).chain(before + inside..columns) {
                for i in 0..SPAN {
                    s.store_at(s.splat(0.0), to.add((i * columns + col) * S::LANES));
                }
            }
        }
    }

    /// Transforms the rows of each tile to pairs.
    ///
    /// # Safety
    ///
    /// `check` has passed, `down` has transformed the columns at `lane`, and a vector at `lane` is
    /// inside a block.
    #[inline(always)]
    unsafe fn across<S: Simd>(&mut self, s: S, lane: usize) {
        let WinogradInput { tiles, apart, step, .. } = *self;
        let together = if S::LANES == BLOCK { PAIR } else { 1 };
        for i in 0..SPAN {
            for tile in (0..tiles).step_by(together) {
                // SAFETY: `check` covered the columns and the numbers of every tile.
                unsafe {
                    let to = self.numbers.as_mut_ptr().add(i * SPAN * apart + tile * step);
                    let row = self.transformed(s, i, tile);
                    if together == PAIR && tile + 1 < tiles {
                        let next = self.transformed(s, i, tile + 1);
                        for (j, x) in row.into_iter().zip(next).enumerate() {
                            s.store_at(s.pairs(x.into()), to.add(j * apart));
                        }
                    } else {
                        for (j, x) in row.into_iter().enumerate() {
                            store_pairs(s, x, to.add(j * apart + lane / PAIR));
                        }
                    }
                }
            }
        }
    }

    /// Returns row `i` of a tile's transform, for one vector of channels.
    ///
    /// # Safety
    ///
    /// `down` has transformed the columns of that vector, and the tile exists.
    #[inline(always)]
    unsafe fn transformed<S: Simd>(&self, s: S, i: usize, tile: usize) -> [S::F32; SPAN] {
        let at = (i * self.columns() + tile * Self::STEP) * S::LANES;
        let row = each(
            s,
            #[inline(always)]
            // SAFETY: by this function's contract, the columns of the tile are in the scratch
            // memory.
            |j| unsafe { s.load_at(self.scratch.as_ptr().add(at + j * S::LANES)) },
        );
        Tiling::transform(s, row)
    }
}

/// Stores a vector of channels as pairs.
///
/// # Safety
///
/// Half a vector of elements can be written to `to`.
#[inline(always)]
unsafe fn store_pairs<S: Simd>(s: S, x: S::F32, to: *mut f32) {
    let mut pairs = [0.0; MAX_LANES];
    if S::LANES == BLOCK {
        s.store(s.pairs([x, x]), &mut pairs);
    } else {
        let mut numbers = [0.0; MAX_LANES];
        s.store(x, &mut numbers);
        for (pair, &x) in pairs.iter_mut().zip(numbers.as_chunks().0) {
            *pair = simd::bf16_pair::of(x);
        }
    }
    // SAFETY: by this function's contract, half a vector can be written.
    unsafe { to.copy_from_nonoverlapping(pairs.as_ptr(), S::LANES / PAIR) };
}

/// Calls `f` for each row or column of a tile.
#[inline(always)]
fn each<S: Simd, const SPAN: usize>(s: S, f: impl Fn(usize) -> S::F32) -> [S::F32; SPAN] {
    let mut all = [s.splat(0.0); SPAN];
    all.iter_mut().enumerate().for_each(|(i, x)| *x = f(i));
    all
}
