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

    /// Transforms a tile along both axes: what becomes of a row is added where it belongs before the next one
    /// is read, so that registers have room for all.
    ///
    /// # Safety
    /// There is room for a vector of all numbers, `apart` from one another.
    unsafe fn transform_tile<S: Simd>(
        s: S,
        row: impl Fn(usize) -> [S::F32; SPAN],
        to: *mut f32,
        apart: usize,
    );

    /// Transforms sums back along both axes, likewise, and adds to each output the same: one of the numbers
    /// is a part of all.
    ///
    /// # Safety
    /// There are such vectors of all numbers of the tile, `apart` from one another.
    unsafe fn transform_tile_back<S: Simd>(
        s: S,
        sums: *const f32,
        apart: usize,
        bias: S::F32,
    ) -> [[S::F32; TILE]; TILE];
}

/// The sums of a row, from the first one on.
///
/// # Safety
/// There are such vectors of all.
#[inline(always)]
unsafe fn load_row<S: Simd, const SPAN: usize>(
    s: S,
    sums: *const f32,
    apart: usize,
) -> [S::F32; SPAN] {
    let mut x = [s.splat(0.0); SPAN];
    for (j, x) in x.iter_mut().enumerate() {
        // SAFETY: the caller's promise is the same.
        *x = unsafe { s.load_at(sums.add(j * apart)) };
    }
    x
}

impl Transforms<4, 6> for Tiling<4, 6> {
    #[inline(always)]
    fn transform<S: Simd>(s: S, x: [S::F32; 6]) -> [S::F32; 6] {
        let [even, odd] = [times(s, x[2], -4.0, x[4]), times(s, x[1], -4.0, x[3])];
        let [far, near] = [s.sub(x[4], x[2]), s.sub(x[3], x[1])];
        [
            times(s, s.sub(x[0], x[2]), 4.0, far),
            s.add(even, odd),
            s.sub(even, odd),
            times(s, near, 2.0, far),
            times(s, near, -2.0, far),
            times(s, near, -4.0, s.sub(x[5], x[3])),
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

    #[inline(always)]
    unsafe fn transform_tile<S: Simd>(
        s: S,
        row: impl Fn(usize) -> [S::F32; 6],
        to: *mut f32,
        apart: usize,
    ) {
        // SAFETY: the caller's promise is the same.
        unsafe {
            let row = |i: usize| Self::transform(s, row(i));
            let store = |x: S::F32, i: usize, j: usize| s.store_at(x, to.add((i * 6 + j) * apart));
            let (second, fourth) = (row(2), row(4));
            let mut far = second;
            let mut even = second;
            for j in 0..6 {
                far[j] = s.sub(fourth[j], second[j]);
                even[j] = times(s, second[j], -4.0, fourth[j]);
            }
            let x = row(0);
            for j in 0..6 {
                store(times(s, s.sub(x[j], second[j]), 4.0, far[j]), 0, j);
            }
            let (first, third) = (row(1), row(3));
            let mut near = first;
            for j in 0..6 {
                near[j] = s.sub(third[j], first[j]);
                let odd = times(s, first[j], -4.0, third[j]);
                store(s.add(even[j], odd), 1, j);
                store(s.sub(even[j], odd), 2, j);
                store(times(s, near[j], 2.0, far[j]), 3, j);
                store(times(s, near[j], -2.0, far[j]), 4, j);
            }
            let x = row(5);
            for j in 0..6 {
                store(times(s, near[j], -4.0, s.sub(x[j], third[j])), 5, j);
            }
        }
    }

    #[inline(always)]
    unsafe fn transform_tile_back<S: Simd>(
        s: S,
        sums: *const f32,
        apart: usize,
        bias: S::F32,
    ) -> [[S::F32; 4]; 4] {
        // SAFETY: the caller's promise is the same.
        let row = |i: usize| unsafe { load_row::<S, 6>(s, sums.add(i * 6 * apart), apart) };
        let mut first = row(1);
        first[1] = s.add(first[1], bias);
        let mut rows = [[s.splat(0.0); 4]; 4];
        let [near, across] =
            sum_and_difference(s, Self::transform_back(s, first), Self::transform_back(s, row(2)));
        let [far, beyond] =
            sum_and_difference(s, Self::transform_back(s, row(3)), Self::transform_back(s, row(4)));
        for j in 0..4 {
            rows[1][j] = times(s, beyond[j], 2.0, across[j]);
            rows[2][j] = times(s, far[j], 4.0, near[j]);
            rows[3][j] = times(s, beyond[j], 8.0, across[j]);
            rows[0][j] = s.add(near[j], far[j]);
        }
        let x = Self::transform_back(s, row(0));
        for j in 0..4 {
            rows[0][j] = s.add(x[j], rows[0][j]);
        }
        let x = Self::transform_back(s, row(5));
        for j in 0..4 {
            rows[3][j] = s.add(x[j], rows[3][j]);
        }
        rows
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

    #[expect(
        clippy::needless_range_loop,
        reason = "sums stay in registers where constants index them"
    )]
    #[inline(always)]
    unsafe fn transform_tile<S: Simd>(
        s: S,
        row: impl Fn(usize) -> [S::F32; 4],
        to: *mut f32,
        apart: usize,
    ) {
        // SAFETY: the caller's promise is the same.
        unsafe {
            let mut across = [[s.splat(0.0); 4]; 4];
            for i in 0..4 {
                across[i] = Self::transform(s, row(i));
            }
            for j in 0..4 {
                let [a, b, c, d] = across;
                let column = Tiling::<2, 4>::transform(s, [a[j], b[j], c[j], d[j]]);
                for i in 0..4 {
                    s.store_at(column[i], to.add((i * 4 + j) * apart));
                }
            }
        }
    }

    #[inline(always)]
    unsafe fn transform_tile_back<S: Simd>(
        s: S,
        sums: *const f32,
        apart: usize,
        bias: S::F32,
    ) -> [[S::F32; 2]; 2] {
        // SAFETY: the caller's promise is the same.
        let row = |i: usize| unsafe { load_row::<S, 4>(s, sums.add(i * 4 * apart), apart) };
        let mut first = row(1);
        first[1] = s.add(first[1], bias);
        let (first, second) = (Self::transform_back(s, first), Self::transform_back(s, row(2)));
        let (x, last) = (Self::transform_back(s, row(0)), Self::transform_back(s, row(3)));
        let mut rows = [x, last];
        for j in 0..2 {
            rows[0][j] = s.add(s.add(x[j], first[j]), second[j]);
            rows[1][j] = s.sub(s.sub(first[j], second[j]), last[j]);
        }
        rows
    }
}

/// `[x + y, x - y]`, one by one.
#[inline(always)]
fn sum_and_difference<S: Simd, const N: usize>(
    s: S,
    mut x: [S::F32; N],
    y: [S::F32; N],
) -> [[S::F32; N]; 2] {
    let mut difference = x;
    for j in 0..N {
        difference[j] = s.sub(x[j], y[j]);
        x[j] = s.add(x[j], y[j]);
    }
    [x, difference]
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
        assert!(!PAIRED || self.scratch.len() >= SPAN * columns * BLOCK);
        let last = (SPAN * SPAN - 1) * self.apart + self.tiles.saturating_sub(1) * self.step;
        assert!(self.step >= Self::UNIT && self.numbers.len() >= last + Self::UNIT);
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
    #[expect(
        clippy::needless_range_loop,
        reason = "numbers stay in registers where constants index them"
    )]
    #[inline(always)]
    unsafe fn each_tile<S: Simd>(&mut self, s: S, inside: usize) {
        let WinogradInput { before, tiles, apart, step, .. } = *self;
        let zeros = ZEROS.as_ptr();
        // Rows of zeros are one pixel.
        let mut rows = [(zeros, 0); SPAN];
        for i in 0..SPAN {
            if !self.rows[i].is_empty() {
                rows[i] = (self.rows[i].as_ptr(), BLOCK);
            }
        }
        for tile in 0..tiles {
            let first = (tile * TILE).wrapping_sub(before);
            for lane in (0..BLOCK).step_by(S::LANES) {
                // SAFETY: a column that is read is inside, or zeros are read; `check` saw room for all numbers.
                unsafe {
                    let to = self.numbers.as_mut_ptr().add(tile * step + lane);
                    if first < inside && inside - first >= SPAN {
                        Tiling::transform_tile(
                            s,
                            #[inline(always)]
                            |i: usize| {
                                let (row, pixel) = rows[i];
                                let row = row.add(first * pixel + lane);
                                load_row::<S, SPAN>(s, row, pixel)
                            },
                            to,
                            apart,
                        );
                    } else {
                        Tiling::transform_tile(
                            s,
                            #[inline(always)]
                            |i: usize| {
                                let (row, pixel) = rows[i];
                                let mut x = [s.splat(0.0); SPAN];
                                for j in 0..SPAN {
                                    let at = first.wrapping_add(j);
                                    let from = row.wrapping_add(at.wrapping_mul(pixel));
                                    let from = if at < inside { from } else { zeros };
                                    x[j] = s.load_at(from.add(lane));
                                }
                                x
                            },
                            to,
                            apart,
                        );
                    }
                }
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

/// Numbers of a tile that are multiplied together.
const FOUR: usize = 4;

/// The products of the numbers of some tiles with those of windows, summed over the channels, where these
/// are a block, and so are the filters: sums take the places of what they were made of.
pub(crate) struct WinogradProducts<'a, const SPAN: usize> {
    /// The numbers: `[tile, number, BLOCK]`.
    pub numbers: &'a mut [f32],
    /// The weights: `[number, channel, BLOCK]`.
    pub w: &'a [f32],
    /// How many channels are multiplied.
    pub channels: usize,
}

impl<const SPAN: usize> WinogradProducts<'_, SPAN> {
    /// How many numbers a tile has.
    const COUNT: usize = SPAN * SPAN;

    /// Computes them at the best level that the processor has.
    pub fn compute(self) {
        const { assert!(Self::COUNT.is_multiple_of(FOUR)) };
        dispatch(self);
    }

    /// How many tiles there are; all that their products need is there.
    fn check(&self) -> usize {
        assert!(self.channels <= BLOCK && self.w.len() >= Self::COUNT * self.channels * BLOCK);
        self.numbers.len() / (Self::COUNT * BLOCK)
    }
}

impl<const SPAN: usize> WithSimd for WinogradProducts<'_, SPAN> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(mut self, s: S) {
        let tiles = self.check();
        // SAFETY: `check` has passed.
        unsafe {
            match S::LANES {
                16 => self.wide(s, tiles),
                8 => self.narrow::<S, 4, 2>(s, tiles),
                _ => self.narrow::<S, 4, 4>(s, tiles),
            }
        }
    }
}

impl<const SPAN: usize> WinogradProducts<'_, SPAN> {
    /// All products, where a block is a vector: sixteen sums keep both units that multiply busy.
    ///
    /// # Safety
    /// `check` has seen so many tiles.
    #[inline(always)]
    unsafe fn wide<S: Simd>(&mut self, s: S, tiles: usize) {
        for number in (0..Self::COUNT).step_by(FOUR) {
            let mut tile = 0;
            while tile < tiles {
                // SAFETY: so many tiles are left, and four numbers are: there are a multiple of it.
                unsafe {
                    match tiles - tile {
                        8.. => {
                            self.sums::<S, 2, 8, 1>(s, number, tile);
                            self.sums::<S, 2, 8, 1>(s, number + 2, tile);
                            tile += 8;
                        }
                        4.. => {
                            self.sums::<S, FOUR, 4, 1>(s, number, tile);
                            tile += 4;
                        }
                        _ => {
                            self.sums::<S, FOUR, 1, 1>(s, number, tile);
                            tile += 1;
                        }
                    }
                }
            }
        }
    }

    /// All products, where a block is `V` vectors: of `T` tiles at once.
    ///
    /// # Safety
    /// `check` has seen so many tiles.
    #[inline(always)]
    unsafe fn narrow<S: Simd, const T: usize, const V: usize>(&mut self, s: S, tiles: usize) {
        for number in 0..Self::COUNT {
            let whole = tiles - tiles % T;
            // SAFETY: there are as many tiles.
            unsafe {
                for tile in (0..whole).step_by(T) {
                    self.sums::<S, 1, T, V>(s, number, tile);
                }
                for tile in whole..tiles {
                    self.sums::<S, 1, 1, V>(s, number, tile);
                }
            }
        }
    }

    /// The sums of `N` numbers of `T` tiles.
    ///
    /// # Safety
    /// `check` has passed, there are so many of both, and a block is `V` vectors.
    #[expect(
        clippy::needless_range_loop,
        reason = "sums stay in registers where constants index them"
    )]
    #[inline(always)]
    unsafe fn sums<S: Simd, const N: usize, const T: usize, const V: usize>(
        &mut self,
        s: S,
        number: usize,
        tile: usize,
    ) {
        let (step, weights) = (Self::COUNT * BLOCK, self.channels * BLOCK);
        let mut sums = [[[s.splat(0.0); V]; T]; N];
        // SAFETY: all of it is where `check` saw elements.
        unsafe {
            let numbers = self.numbers.as_mut_ptr().add(tile * step + number * BLOCK);
            let w = self.w.as_ptr().add(number * weights);
            for channel in 0..self.channels {
                for n in 0..N {
                    let w = w.add(n * weights + channel * BLOCK);
                    let mut row = [s.splat(0.0); V];
                    for v in 0..V {
                        row[v] = s.load_at(w.add(v * S::LANES));
                    }
                    for t in 0..T {
                        let x = s.splat(*numbers.add(t * step + n * BLOCK + channel));
                        for v in 0..V {
                            sums[n][t][v] = s.mul_add(x, row[v], sums[n][t][v]);
                        }
                    }
                }
            }
            for n in 0..N {
                for t in 0..T {
                    for v in 0..V {
                        let to = numbers.add(t * step + n * BLOCK + v * S::LANES);
                        s.store_at(sums[n][t][v], to);
                    }
                }
            }
        }
    }
}

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
        let (row, rows) = (self.cols * BLOCK, self.y.len() / (self.cols * BLOCK).max(1));
        assert!(self.cols.div_ceil(TILE) == self.tiles && rows <= TILE);
        let last = (SPAN * SPAN - 1) * self.apart + self.tiles.saturating_sub(1) * self.step;
        assert!(self.step >= BLOCK && self.sums.len() >= last + BLOCK);
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
