//! The inner loops before and after the products of F(4 × 4, 3 × 3): what a row of tiles reads is
//! transformed to the numbers of each, and sums of products back to outputs.

use super::pixels::{BLOCK, bound};
use crate::simd::{Simd, WithSimd, dispatch};

/// Rows and columns of the outputs of a tile.
pub(crate) const TILE: usize = 4;
/// Rows and columns of what a tile reads.
pub(crate) const SPAN: usize = 6;
/// The numbers that a tile is transformed to.
pub(crate) const NUMBERS: usize = SPAN * SPAN;

/// How many columns a row of so many tiles reads.
pub(crate) const fn columns(tiles: usize) -> usize {
    tiles * TILE + SPAN - TILE
}

/// What a row of tiles reads of one block of channels, and the numbers that become of it.
pub(crate) struct WinogradInput<'a> {
    /// The rows of the input; nothing where there are only zeros.
    pub rows: [&'a [f32]; SPAN],
    /// How many columns of zeros are before them. There are as many behind them as the tiles read.
    pub before: usize,
    /// How many tiles there are.
    pub tiles: usize,
    /// Scratch memory: [`SPAN`] times [`columns`] pixels.
    pub scratch: &'a mut [f32],
    /// The numbers of the first tile, and so on.
    pub numbers: &'a mut [f32],
    /// How far one number of a tile starts from the next.
    pub apart: usize,
}

impl WinogradInput<'_> {
    /// Computes them at the best level that the processor has.
    pub fn compute(self) {
        dispatch(self);
    }

    /// How many columns of the input are read; all rows have as many, and there is room for what becomes
    /// of them.
    fn check(&self) -> usize {
        let columns = columns(self.tiles);
        assert!(self.before <= columns);
        let most = self.rows.iter().map(|row| row.len() / BLOCK).max().unwrap_or(0);
        let inside = most.min(columns - self.before);
        assert!(self.rows.iter().all(|row| row.is_empty() || row.len() >= inside * BLOCK));
        assert!(self.scratch.len() >= SPAN * columns * BLOCK);
        assert!(self.numbers.len() >= (NUMBERS - 1) * self.apart + self.tiles * BLOCK);
        inside
    }
}

impl WithSimd for WinogradInput<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(mut self, s: S) {
        let inside = self.check();
        for lane in (0..BLOCK).step_by(S::LANES) {
            // SAFETY: `check` has passed, and `lane` is one of a vector in a block.
            unsafe {
                self.down(s, lane, inside);
                self.across(s, lane);
            }
        }
    }
}

impl WinogradInput<'_> {
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
        let (columns, before) = (columns(self.tiles), self.before);
        let to = self.scratch.as_mut_ptr();
        // SAFETY: `check` saw that all rows have so many columns, and that there is room for all.
        unsafe {
            for col in 0..inside {
                let column = six(
                    #[inline(always)]
                    |i| s.load_at(rows[i].0.add(col * rows[i].1 + lane)),
                );
                for (i, x) in transform(s, column).into_iter().enumerate() {
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

    /// Transforms the rows of each tile.
    ///
    /// # Safety
    /// Likewise, and `down` has been there.
    #[inline(always)]
    unsafe fn across<S: Simd>(&mut self, s: S, lane: usize) {
        let WinogradInput { tiles, apart, .. } = *self;
        let row = columns(tiles) * S::LANES;
        let (from, to) = (self.scratch.as_ptr(), self.numbers.as_mut_ptr());
        for i in 0..SPAN {
            for tile in 0..tiles {
                // SAFETY: a tile's columns are among all, and `check` saw room for its numbers.
                unsafe {
                    let from = from.add(i * row + tile * TILE * S::LANES);
                    let to = to.add(i * SPAN * apart + tile * BLOCK + lane);
                    let row = six(
                        #[inline(always)]
                        |j| s.load_at(from.add(j * S::LANES)),
                    );
                    for (j, x) in transform(s, row).into_iter().enumerate() {
                        s.store_at(x, to.add(j * apart));
                    }
                }
            }
        }
    }
}

/// What a function gives for each row or column of a tile.
#[inline(always)]
fn six<T>(f: impl Fn(usize) -> T) -> [T; SPAN] {
    [f(0), f(1), f(2), f(3), f(4), f(5)]
}

/// `x · by + and`.
#[inline(always)]
fn times<S: Simd>(s: S, x: S::F32, by: f32, and: S::F32) -> S::F32 {
    s.mul_add(x, s.splat(by), and)
}

/// The transform of the input along one axis.
#[inline(always)]
fn transform<S: Simd>(s: S, x: [S::F32; SPAN]) -> [S::F32; SPAN] {
    let [even, odd] = [times(s, x[2], -4.0, x[4]), times(s, x[1], -4.0, x[3])];
    let [far, near] = [s.sub(x[4], x[2]), s.sub(x[3], x[1])];
    [
        times(s, x[0], 4.0, times(s, x[2], -5.0, x[4])),
        s.add(even, odd),
        s.sub(even, odd),
        times(s, near, 2.0, far),
        times(s, near, -2.0, far),
        times(s, x[1], 4.0, times(s, x[3], -5.0, x[5])),
    ]
}

/// The sums of a row of tiles of one block of channels, and the outputs that become of them.
pub(crate) struct WinogradOutput<'a> {
    /// The sums of the first tile, and so on.
    pub sums: &'a [f32],
    /// How far one number of a tile starts from the next.
    pub apart: usize,
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

impl WinogradOutput<'_> {
    /// Computes them at the best level that the processor has.
    pub fn compute(self) {
        dispatch(self);
    }

    /// How many rows the output has; every element which the tiles touch is there.
    fn check(&self) -> usize {
        let (row, rows) = (self.cols * BLOCK, self.y.len() / (self.cols * BLOCK).max(1));
        assert!(self.cols.div_ceil(TILE) == self.tiles && rows <= TILE);
        assert!(self.sums.len() >= (NUMBERS - 1) * self.apart + self.tiles * BLOCK);
        assert!(self.add.is_empty() || self.add.len() >= rows * row);
        rows
    }
}

impl WithSimd for WinogradOutput<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(mut self, s: S) {
        let rows = self.check();
        for tile in 0..self.tiles {
            for lane in (0..BLOCK).step_by(S::LANES) {
                // SAFETY: `check` has passed, and there are such a tile and such a vector in a block.
                unsafe { self.tile(s, rows, tile, lane) };
            }
        }
    }
}

impl WinogradOutput<'_> {
    /// Some channels of a tile.
    ///
    /// # Safety
    /// `check` has passed, there is such a tile, and a block has a vector at `lane`.
    #[inline(always)]
    unsafe fn tile<S: Simd>(&mut self, s: S, rows: usize, tile: usize, lane: usize) {
        let bias = s.load(&self.bias[lane..]);
        // SAFETY: `check` saw all numbers of the tile.
        let mut pixels = unsafe {
            let sums = self.sums.as_ptr().add(tile * BLOCK + lane);
            transform_tile_back(s, sums, self.apart)
        };
        let (width, col) = (self.cols, tile * TILE);
        let cols = TILE.min(width - col);
        for pixel in pixels.as_flattened_mut() {
            *pixel = s.add(*pixel, bias);
        }
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

/// The outputs of a tile, of a vector of channels.
///
/// # Safety
/// There are such vectors of all numbers of the tile, `apart` from one another.
#[inline(always)]
unsafe fn transform_tile_back<S: Simd>(
    s: S,
    sums: *const f32,
    apart: usize,
) -> [[S::F32; TILE]; TILE] {
    let columns = six(
        #[inline(always)]
        |j| {
            let column = six(
                #[inline(always)]
                // SAFETY: as the caller says.
                |i| unsafe { s.load_at(sums.add((i * SPAN + j) * apart)) },
            );
            transform_back(s, column)
        },
    );
    let mut rows = [[s.splat(0.0); TILE]; TILE];
    for (i, row) in rows.iter_mut().enumerate() {
        *row = transform_back(
            s,
            six(
                #[inline(always)]
                |j| columns[j][i],
            ),
        );
    }
    rows
}

/// The transform of sums along one axis.
#[inline(always)]
fn transform_back<S: Simd>(s: S, x: [S::F32; SPAN]) -> [S::F32; TILE] {
    let [near, far] = [s.add(x[1], x[2]), s.add(x[3], x[4])];
    let [across, beyond] = [s.sub(x[1], x[2]), s.sub(x[3], x[4])];
    [
        s.add(s.add(x[0], near), far),
        times(s, beyond, 2.0, across),
        times(s, far, 4.0, near),
        s.add(times(s, beyond, 8.0, across), x[5]),
    ]
}
