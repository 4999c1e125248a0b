//! The inner loops before and after the products of F(4 × 4, 3 × 3) and F(2 × 2, 3 × 3): what a row of
//! tiles reads is transformed to the numbers of each, and sums of products back to outputs.

use super::pixels::{BLOCK, PAIRS, bound};
use crate::simd::pair::{self, PAIR};
use crate::simd::{MAX_LANES, Simd, WithSimd, dispatch, dispatch_pairs};

/// Tiles of `TILE` × `TILE` outputs, of which each reads `SPAN` × `SPAN` numbers.
pub(crate) struct Tiling<const TILE: usize, const SPAN: usize>;

/// The transforms of a tile along one axis.
pub(crate) trait Transforms<const TILE: usize, const SPAN: usize> {
    /// That of the input.
    fn transform<S: Simd>(s: S, x: [S::F32; SPAN]) -> [S::F32; SPAN];
    /// That of sums.
    fn transform_back<S: Simd>(s: S, x: [S::F32; SPAN]) -> [S::F32; TILE];
}

impl Transforms<4, 6> for Tiling<4, 6> {
    #[inline(always)]
    fn transform<S: Simd>(s: S, x: [S::F32; 6]) -> [S::F32; 6] {
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

    #[inline(always)]
    fn transform_back<S: Simd>(s: S, x: [S::F32; 6]) -> [S::F32; 4] {
        let [near, far] = [s.add(x[1], x[2]), s.add(x[3], x[4])];
        let [across, beyond] = [s.sub(x[1], x[2]), s.sub(x[3], x[4])];
        [
            s.add(s.add(x[0], near), far),
            times(s, beyond, 2.0, across),
            times(s, far, 4.0, near),
            s.add(times(s, beyond, 8.0, across), x[5]),
        ]
    }
}

impl Transforms<2, 4> for Tiling<2, 4> {
    #[inline(always)]
    fn transform<S: Simd>(s: S, x: [S::F32; 4]) -> [S::F32; 4] {
        [s.sub(x[0], x[2]), s.add(x[1], x[2]), s.sub(x[2], x[1]), s.sub(x[1], x[3])]
    }

    #[inline(always)]
    fn transform_back<S: Simd>(s: S, x: [S::F32; 4]) -> [S::F32; 2] {
        [s.add(s.add(x[0], x[1]), x[2]), s.sub(s.sub(x[1], x[2]), x[3])]
    }
}

/// What a function gives for each row or column of a tile.
#[inline(always)]
fn each<S: Simd, const SPAN: usize>(s: S, f: impl Fn(usize) -> S::F32) -> [S::F32; SPAN] {
    let mut all = [s.splat(0.0); SPAN];
    all.iter_mut().enumerate().for_each(|(i, x)| *x = f(i));
    all
}

/// `x · by + and`.
#[inline(always)]
fn times<S: Simd>(s: S, x: S::F32, by: f32, and: S::F32) -> S::F32 {
    s.mul_add(x, s.splat(by), and)
}

/// What a row of tiles reads of one block of channels, and the numbers that become of it, of neighboring
/// channels in pairs where they are `PAIRED`.
pub(crate) struct WinogradInput<'a, const TILE: usize, const SPAN: usize, const PAIRED: bool> {
    /// The rows of the input; nothing where there are only zeros.
    pub rows: [&'a [f32]; SPAN],
    /// How many columns of zeros are before them. There are as many behind them as the tiles read.
    pub before: usize,
    /// How many tiles there are.
    pub tiles: usize,
    /// Scratch memory: `SPAN` pixels for each column that the tiles read.
    pub scratch: &'a mut [f32],
    /// The numbers of the first tile, and so on.
    pub numbers: &'a mut [f32],
    /// How far one number of a tile starts from the next.
    pub apart: usize,
}

impl<const TILE: usize, const SPAN: usize, const PAIRED: bool> WinogradInput<'_, TILE, SPAN, PAIRED>
where
    Tiling<TILE, SPAN>: Transforms<TILE, SPAN>,
{
    /// Elements of a pixel of the numbers.
    const UNIT: usize = if PAIRED { PAIRS } else { BLOCK };

    /// Computes them at the best level that the processor has.
    pub fn compute(self) {
        if PAIRED { dispatch_pairs(self) } else { dispatch(self) }
    }

    /// How many columns the tiles read.
    fn columns(&self) -> usize {
        self.tiles * TILE + SPAN - TILE
    }

    /// How many columns of the input are read; all rows have as many, and there is room for what becomes
    /// of them.
    fn check(&self) -> usize {
        let columns = self.columns();
        assert!(self.before <= columns);
        let most = self.rows.iter().map(|row| row.len() / BLOCK).max().unwrap_or(0);
        let inside = most.min(columns - self.before);
        assert!(self.rows.iter().all(|row| row.is_empty() || row.len() >= inside * BLOCK));
        assert!(self.scratch.len() >= SPAN * columns * BLOCK);
        assert!(self.numbers.len() >= (SPAN * SPAN - 1) * self.apart + self.tiles * Self::UNIT);
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
        for lane in (0..BLOCK).step_by(S::LANES) {
            // SAFETY: `check` has passed, and `lane` is one of a vector in a block.
            unsafe {
                self.down(s, lane, inside);
                self.across(s, lane);
            }
        }
    }
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

    /// Transforms the rows of each tile.
    ///
    /// # Safety
    /// Likewise, and `down` has been there.
    #[inline(always)]
    unsafe fn across<S: Simd>(&mut self, s: S, lane: usize) {
        let WinogradInput { tiles, apart, .. } = *self;
        let step = if PAIRED && S::LANES == BLOCK { PAIR } else { 1 };
        for i in 0..SPAN {
            for tile in (0..tiles).step_by(step) {
                // SAFETY: a tile's columns are among all, and `check` saw room for its numbers.
                unsafe {
                    let to = self.numbers.as_mut_ptr().add(i * SPAN * apart + tile * Self::UNIT);
                    let row = self.transformed(s, i, tile);
                    if !PAIRED {
                        for (j, x) in row.into_iter().enumerate() {
                            s.store_at(x, to.add(j * apart + lane));
                        }
                    } else if step == PAIR && tile + 1 < tiles {
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
        let at = (i * self.columns() + tile * TILE) * S::LANES;
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
            *pair = pair::of(x);
        }
    }
    // SAFETY: the caller's promise is the same.
    unsafe { to.copy_from_nonoverlapping(pairs.as_ptr(), S::LANES / PAIR) };
}

/// The sums of a row of tiles of one block of channels, and the outputs that become of them.
pub(crate) struct WinogradOutput<'a, const TILE: usize, const SPAN: usize> {
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
        let (row, rows) = (self.cols * BLOCK, self.y.len() / (self.cols * BLOCK).max(1));
        assert!(self.cols.div_ceil(TILE) == self.tiles && rows <= TILE);
        assert!(self.sums.len() >= (SPAN * SPAN - 1) * self.apart + self.tiles * BLOCK);
        assert!(self.add.is_empty() || self.add.len() >= rows * row);
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
        for tile in 0..self.tiles {
            for lane in (0..BLOCK).step_by(S::LANES) {
                // SAFETY: `check` has passed, and there are such a tile and such a vector in a block.
                unsafe { self.tile(s, rows, tile, lane) };
            }
        }
    }
}

impl<const TILE: usize, const SPAN: usize> WinogradOutput<'_, TILE, SPAN>
where
    Tiling<TILE, SPAN>: Transforms<TILE, SPAN>,
{
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
unsafe fn transform_tile_back<S: Simd, const TILE: usize, const SPAN: usize>(
    s: S,
    sums: *const f32,
    apart: usize,
) -> [[S::F32; TILE]; TILE]
where
    Tiling<TILE, SPAN>: Transforms<TILE, SPAN>,
{
    let mut columns = [[s.splat(0.0); TILE]; SPAN];
    for (j, column) in columns.iter_mut().enumerate() {
        let sums = each(
            s,
            #[inline(always)]
            // SAFETY: as the caller says.
            |i| unsafe { s.load_at(sums.add((i * SPAN + j) * apart)) },
        );
        *column = Tiling::transform_back(s, sums);
    }
    let mut rows = [[s.splat(0.0); TILE]; TILE];
    for (i, row) in rows.iter_mut().enumerate() {
        let sums = each(
            s,
            #[inline(always)]
            |j| columns[j][i],
        );
        *row = Tiling::transform_back(s, sums);
    }
    rows
}
