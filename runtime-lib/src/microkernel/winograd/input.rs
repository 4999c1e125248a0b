//! What tiles read, transformed.

use super::transforms::load_row;
use super::{Tiling, Transforms};
use crate::loops::bounds::reach;
use crate::microkernel::conv_layout::{BLOCK, PAIRS};
use crate::simd::bf16_pair::PAIR;
use crate::simd::{self, MAX_LANES, Simd, WithSimd, dispatch, dispatch_pairs};

/// What a row of tiles reads of one block of channels, and the numbers that become of it, of neighboring
/// channels in pairs where they are `PAIRED`.
pub(crate) struct WinogradInput<'a, const TILE: usize, const SPAN: usize, const PAIRED: bool> {
    /// The rows of the input; nothing where there are only zeros.
    pub rows: [&'a [f32]; SPAN],
    /// How many columns of zeros are before them. There are as many behind them as the tiles read.
    pub before: usize,
    /// How many tiles there are.
    pub tiles: usize,
    /// Scratch memory: `SPAN` pixels for each column that the tiles read, where pairs become of them.
    pub scratch: &'a mut [f32],
    /// The numbers of the first tile, and so on.
    pub numbers: &'a mut [f32],
    /// How far one number of a tile starts from the next.
    pub apart: usize,
    /// How far one tile starts from the next: at least as far as a number has elements.
    pub step: usize,
}

impl<const TILE: usize, const SPAN: usize, const PAIRED: bool> WinogradInput<'_, TILE, SPAN, PAIRED>
where
    Tiling<TILE, SPAN>: Transforms<TILE, SPAN>,
{
    /// From the columns that a tile reads to those of the next.
    const STEP: usize = Tiling::<TILE, SPAN>::STEP;
    /// Elements of a pixel of the numbers.
    const UNIT: usize = if PAIRED { PAIRS } else { BLOCK };

    /// Computes them at the best level that the processor has.
    pub fn compute(self) {
        if PAIRED { dispatch_pairs(self) } else { dispatch(self) }
    }

    /// How many columns the tiles read.
    fn columns(&self) -> usize {
        self.tiles * Self::STEP + SPAN - Self::STEP
    }

    /// How many columns of the input are read; all rows have as many, and there is room for what becomes
    /// of them.
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
        // SAFETY: `check` has passed, and `lane` is one of a vector in a block.
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

/// A pixel where there are only zeros.
const ZEROS: [f32; BLOCK] = [0.0; BLOCK];

impl<const TILE: usize, const SPAN: usize, const PAIRED: bool> WinogradInput<'_, TILE, SPAN, PAIRED>
where
    Tiling<TILE, SPAN>: Transforms<TILE, SPAN>,
{
    /// Transforms one tile after the other, of which so many columns are of the input.
    ///
    /// # Safety
    /// `check` has passed.
    #[inline(always)]
    unsafe fn each_tile<S: Simd>(&mut self, s: S, inside: usize) {
        let WinogradInput { before, tiles, apart, step, .. } = *self;
        // Rows of zeros are one pixel.
        let mut rows = [(ZEROS.as_ptr(), 0); SPAN];
        for (to, row) in rows.iter_mut().zip(&self.rows) {
            if !row.is_empty() {
                *to = (row.as_ptr(), BLOCK);
            }
        }
        for tile in 0..tiles {
            let first = (tile * Self::STEP).wrapping_sub(before);
            for lane in (0..BLOCK).step_by(S::LANES) {
                // SAFETY: a column that is read is inside, or zeros are read; `check` saw room for all
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

/// What a tile reads of a row, given where this starts and how far its pixels are apart: from column `first`
/// on, zeros where that is not one of those `inside`.
///
/// # Safety
/// There are so many pixels, and such a vector in a block.
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
        // SAFETY: the caller's promise is the same.
        *x = unsafe { s.load_at(from.add(lane)) };
    }
    x
}

impl<const TILE: usize, const SPAN: usize, const PAIRED: bool> WinogradInput<'_, TILE, SPAN, PAIRED>
where
    Tiling<TILE, SPAN>: Transforms<TILE, SPAN>,
{
    /// Transforms each column, of which so many are of the input.
    ///
    /// # Safety
    /// `check` has passed, and a block has a vector at `lane`.
    #[inline(always)]
    unsafe fn down<S: Simd>(&mut self, s: S, lane: usize, inside: usize) {
        const ZEROS: [f32; BLOCK] = [0.0; BLOCK];
        // Rows of zeros are one pixel.
        let rows = self.rows.map(|row| match row {
            [] => (ZEROS.as_ptr(), 0),
            row => (row.as_ptr(), BLOCK),
        });
        let (columns, before) = (self.columns(), self.before);
        let to = self.scratch.as_mut_ptr();
        // SAFETY: `check` saw that all rows have so many columns, and that there is room for all.
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
    /// Likewise, and `down` has been there.
    #[inline(always)]
    unsafe fn across<S: Simd>(&mut self, s: S, lane: usize) {
        let WinogradInput { tiles, apart, step, .. } = *self;
        let together = if S::LANES == BLOCK { PAIR } else { 1 };
        for i in 0..SPAN {
            for tile in (0..tiles).step_by(together) {
                // SAFETY: a tile's columns are among all, and `check` saw room for its numbers.
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

    /// Row `i` of a tile's numbers, of a vector of channels.
    ///
    /// # Safety
    /// `down` has been there, for that vector, and there is such a tile.
    #[inline(always)]
    unsafe fn transformed<S: Simd>(&self, s: S, i: usize, tile: usize) -> [S::F32; SPAN] {
        let at = (i * self.columns() + tile * Self::STEP) * S::LANES;
        let row = each(
            s,
            #[inline(always)]
            // SAFETY: the columns of a tile are among all.
            |j| unsafe { s.load_at(self.scratch.as_ptr().add(at + j * S::LANES)) },
        );
        Tiling::transform(s, row)
    }
}

/// Stores the pairs of a vector of channels.
///
/// # Safety
/// There is room for half as many elements.
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
    // SAFETY: the caller's promise is the same.
    unsafe { to.copy_from_nonoverlapping(pairs.as_ptr(), S::LANES / PAIR) };
}

/// What a function gives for each row or column of a tile.
#[inline(always)]
fn each<S: Simd, const SPAN: usize>(s: S, f: impl Fn(usize) -> S::F32) -> [S::F32; SPAN] {
    let mut all = [s.splat(0.0); SPAN];
    all.iter_mut().enumerate().for_each(|(i, x)| *x = f(i));
    all
}
