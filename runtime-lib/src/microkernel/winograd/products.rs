//! Winograd products in place: the accumulators overwrite the transformed input.

use crate::loops::geometry::BLOCK;
use crate::simd::{Simd, WithSimd, dispatch};

/// The numbers of a tile that are multiplied together.
const FOUR: usize = 4;

/// The products of transformed tiles and transformed weights, accumulated over the channels of one
/// block, for one block of filters. The accumulators overwrite the tiles.
pub(crate) struct WinogradProducts<'a, const SPAN: usize> {
    /// The transformed tiles: `[tile, number, BLOCK]`.
    pub numbers: &'a mut [f32],
    /// The transformed weights: `[number, channel, BLOCK]`.
    pub w: &'a [f32],
    /// The number of channels.
    pub channels: usize,
}

impl<const SPAN: usize> WinogradProducts<'_, SPAN> {
    /// The numbers of a tile.
    const COUNT: usize = SPAN * SPAN;

    /// Computes the products at the best SIMD level of the processor.
    pub fn compute(self) {
        dispatch(self);
    }

    /// Returns the number of tiles, after checking that the weights are complete.
    fn check(&self) -> usize {
        assert!(Self::COUNT.is_multiple_of(FOUR));
        assert!(self.channels <= BLOCK && self.w.len() >= Self::COUNT * self.channels * BLOCK);
        self.numbers.len() / (Self::COUNT * BLOCK)
    }
}

impl<const SPAN: usize> WithSimd for WinogradProducts<'_, SPAN> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(mut self, s: S) {
        let tiles = self.check();
        // SAFETY: `check` has passed and returned `tiles`.
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
    /// Computes all products if a block is a vector: sixteen accumulators keep both multiply units
    /// busy.
    ///
    /// # Safety
    ///
    /// `check` has passed and returned `tiles`.
    #[inline(always)]
    unsafe fn wide<S: Simd>(&mut self, s: S, tiles: usize) {
        for number in (0..Self::COUNT).step_by(FOUR) {
            let mut tile = 0;
            while tile < tiles {
                // SAFETY: the arm's tiles are left, and four numbers are, because `COUNT` is a
                // multiple of four.
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

    /// Computes all products if a block is `V` vectors, for `T` tiles at once.
    ///
    /// # Safety
    ///
    /// `check` has passed and returned `tiles`.
    #[inline(always)]
    unsafe fn narrow<S: Simd, const T: usize, const V: usize>(&mut self, s: S, tiles: usize) {
        for number in 0..Self::COUNT {
            let whole = tiles - tiles % T;
            // SAFETY: `tile + T <= whole` in the first loop, `tile < tiles` in the second.
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

    /// Computes the accumulators of `N` numbers of `T` tiles.
    ///
    /// # Safety
    ///
    /// `check` has passed, the numbers and tiles exist, and a block is `V` vectors.
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
        // SAFETY: by this function's contract, `check` covered these numbers, tiles and weights.
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
