//! Tiles of convolutions of bytes whose channels stand side by side: a few pixels times a few vectors
//! of filters are sums that stay in registers while the quads of a window run.

use crate::simd::Simd;
use crate::simd::bytes::{Bytes, MAX_BYTES, Vector};
use core::mem::MaybeUninit;

/// Bytes that are multiplied at once.
const QUAD: usize = 4;
/// The most vectors of a tile.
const MOST_TILE: usize = 24;

/// What windows see, and a panel of filters.
pub(crate) struct Pixels<'a> {
    x: &'a [u8],
    starts: &'a [u32],
    w: &'a [u8],
    width: usize,
    /// How many bytes from its first on a window sees.
    reach: usize,
}

impl<'a> Pixels<'a> {
    /// Of `x`, without a sign, a window sees the quads that start at `starts`, counted from its
    /// first; `w`, with a sign, has for each of these the four bytes of one of `width` filters after
    /// those of the other.
    pub fn new(x: &'a [u8], starts: &'a [u32], w: &'a [u8], width: usize) -> Pixels<'a> {
        assert!(w.len() >= starts.len() * width * QUAD);
        let reach = starts.iter().max().map_or(0, |&start| start as usize + QUAD);
        Pixels { x, starts, w, width, reach }
    }

    /// The sums of the windows that start at `at`, for `V` vectors of filters from `column` on,
    /// added to what each filter starts with.
    #[inline(always)]
    pub fn tile<S: Bytes, const R: usize, const V: usize>(
        &self,
        s: S,
        at: [usize; R],
        column: usize,
        bias: &[i32],
    ) -> Tile<S, R, V> {
        assert!(column + V * S::LANES <= self.width);
        assert!(at.iter().all(|at| at + self.reach <= self.x.len()));
        let mut sums = [[s.level().splat_i32(0); V]; R];
        for v in 0..V {
            let bias = s.load_sums(&bias[v * S::LANES..]);
            for sums in &mut sums {
                sums[v] = bias;
            }
        }
        // SAFETY: the windows are in `x`, and the panel has filters for each quad.
        unsafe {
            let mut w = self.w.as_ptr().add(column * QUAD);
            for &start in self.starts {
                let x = self.x.as_ptr().add(start as usize);
                let mut columns = [s.level().splat_i32(0); V];
                for (v, column) in columns.iter_mut().enumerate() {
                    *column = s.load_bytes_at(w.add(v * QUAD * S::LANES));
                }
                for (r, sums) in sums.iter_mut().enumerate() {
                    let quad = x.add(at[r]).cast::<i32>().read_unaligned();
                    let quad = s.level().splat_i32(quad);
                    for (sum, &column) in sums.iter_mut().zip(&columns) {
                        *sum = s.dot(*sum, quad, column);
                    }
                }
                w = w.wrapping_add(self.width * QUAD);
            }
        }
        sums
    }
}

/// The sums of some windows, for some vectors of filters each.
pub(crate) type Tile<S, const R: usize, const V: usize> = [[Vector<S>; V]; R];

/// Gives the sums of one window after the other to `end`. They go by way of memory: the others would not
/// stay in registers, either, were they read by reference.
#[inline(always)]
pub(crate) fn each_window<S: Bytes, const R: usize, const V: usize>(
    s: S,
    sums: &Tile<S, R, V>,
    mut end: impl FnMut([Vector<S>; V]),
) {
    let mut tile = [MaybeUninit::<[u8; MAX_BYTES]>::uninit(); MOST_TILE];
    let tile = tile.as_mut_ptr().cast::<u8>();
    for (r, sums) in sums.iter().enumerate() {
        for (v, &sum) in sums.iter().enumerate() {
            // SAFETY: a tile has room for `R · V` vectors.
            unsafe { s.store_bytes_at(sum, tile.add((r * V + v) * QUAD * S::LANES)) };
        }
    }
    const { assert!(R * V <= MOST_TILE) };
    for r in 0..R {
        let mut row = [s.level().splat_i32(0); V];
        for (v, sum) in row.iter_mut().enumerate() {
            // SAFETY: the vector was written above.
            *sum = unsafe { s.load_bytes_at(tile.add((r * V + v) * QUAD * S::LANES)) };
        }
        end(row);
    }
}
