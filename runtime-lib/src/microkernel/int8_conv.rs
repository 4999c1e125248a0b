//! Tiles of convolutions of bytes whose channels stand side by side: a few pixels times a few vectors
//! of filters are sums that stay in registers while the quads of a window run.

use crate::loops::bounds::{places, reach};
use crate::simd::Simd;
use crate::simd::int8::{Bytes, MAX_BYTES, Vector};
use core::mem::MaybeUninit;

/// Bytes that are multiplied at once.
const QUAD: usize = 4;
/// The most vectors of a tile.
const MOST_TILE: usize = 24;
/// The most addresses that stay in registers.
const MOST_ADDRESSES: usize = 6;

/// What windows see, and a panel of filters.
pub(crate) struct Int8Windows<'a> {
    x: &'a [u8],
    starts: &'a [u32],
    w: &'a [u8],
    width: usize,
    /// From how many places on there are all bytes that a window sees.
    places: usize,
}

impl<'a> Int8Windows<'a> {
    /// Of `x`, without a sign, a window sees the quads that start at `starts`, counted from its
    /// first; `w`, with a sign, has for each of these the four bytes of one of `width` filters after
    /// those of the other.
    pub fn new(x: &'a [u8], starts: &'a [u32], w: &'a [u8], width: usize) -> Int8Windows<'a> {
        assert!(w.len() >= reach([[starts.len(), width, QUAD]]));
        let reach = starts.iter().max().map_or(0, |&start| (start as usize).saturating_add(QUAD));
        Int8Windows { x, starts, w, width, places: places(x, reach) }
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
        assert!(reach([[column, 1], [V, S::LANES]]) <= self.width);
        assert!(at.iter().all(|&at| at < self.places));
        let mut sums = [[s.level().splat_i32(0); V]; R];
        for v in 0..V {
            let bias = s.load_sums(&bias[v * S::LANES..]);
            for sums in &mut sums {
                sums[v] = bias;
            }
        }
        // SAFETY: the windows are in `x`, and the panel has filters for each quad.
        unsafe {
            match step_of_fours(&at) {
                Some(step) => self.add_fours(s, &mut sums, at, step, column),
                None => self.add(s, &mut sums, at, column),
            }
        }
        sums
    }

    /// Adds the products of the windows that start at `at`.
    ///
    /// # Safety
    /// The windows are in `x`, and there are such vectors of filters.
    #[inline(always)]
    unsafe fn add<S: Bytes, const R: usize, const V: usize>(
        &self,
        s: S,
        sums: &mut Tile<S, R, V>,
        at: [usize; R],
        column: usize,
    ) {
        // SAFETY: the caller's promise is the same.
        unsafe {
            let mut w = self.w.as_ptr().wrapping_add(column * QUAD);
            for &start in self.starts {
                let x = self.x.as_ptr().add(start as usize);
                let columns = load_columns::<S, V>(s, w);
                for (r, sums) in sums.iter_mut().enumerate() {
                    add_quad(s, sums, x.add(at[r]), &columns);
                }
                w = w.wrapping_add(self.width * QUAD);
            }
        }
    }

    /// The same for windows of which each of four is `step` from the next. What all addresses of a tile are
    /// made of stays in registers then, which those themselves do not: each four have one that moves.
    ///
    /// # Safety
    /// As for `add`.
    #[inline(always)]
    unsafe fn add_fours<S: Bytes, const R: usize, const V: usize>(
        &self,
        s: S,
        sums: &mut Tile<S, R, V>,
        at: [usize; R],
        step: usize,
        column: usize,
    ) {
        // SAFETY: the caller's promise is the same.
        unsafe {
            let mut w = self.w.as_ptr().wrapping_add(column * QUAD);
            let mut x = at.map(|at| self.x.as_ptr().add(at));
            let mut before = 0;
            for &start in self.starts {
                let columns = load_columns::<S, V>(s, w);
                let further = (start as usize).wrapping_sub(before);
                before = start as usize;
                for (i, sums) in sums.as_chunks_mut::<4>().0.iter_mut().enumerate() {
                    x[i * 4] = x[i * 4].wrapping_add(further);
                    for (r, sums) in sums.iter_mut().enumerate() {
                        add_quad(s, sums, x[i * 4].add(r * step), &columns);
                    }
                }
                w = w.wrapping_add(self.width * QUAD);
            }
        }
    }
}

/// Vectors of filters, one after the other.
///
/// # Safety
/// There are `V` of them.
#[inline(always)]
unsafe fn load_columns<S: Bytes, const V: usize>(s: S, w: *const u8) -> [Vector<S>; V] {
    let mut columns = [s.level().splat_i32(0); V];
    for (v, column) in columns.iter_mut().enumerate() {
        // SAFETY: the caller's promise is the same.
        *column = unsafe { s.load_bytes_at(w.add(v * QUAD * S::LANES)) };
    }
    columns
}

/// Adds the products of the quad of a window.
///
/// # Safety
/// There is such a quad.
#[inline(always)]
unsafe fn add_quad<S: Bytes, const V: usize>(
    s: S,
    sums: &mut [Vector<S>; V],
    quad: *const u8,
    columns: &[Vector<S>; V],
) {
    // SAFETY: the caller's promise is the same.
    let quad = s.level().splat_i32(unsafe { quad.cast::<i32>().read_unaligned() });
    for (sum, &column) in sums.iter_mut().zip(columns) {
        *sum = s.dot(*sum, quad, column);
    }
}

/// How far each of four windows is from the next, where all are alike in this, and more than have their
/// addresses in registers.
#[inline(always)]
fn step_of_fours<const R: usize>(at: &[usize; R]) -> Option<usize> {
    if R <= MOST_ADDRESSES || !R.is_multiple_of(4) {
        return None;
    }
    let step = at[1].checked_sub(at[0])?;
    let mut alike = true;
    for r in 0..R {
        alike &= at[r] == at[r / 4 * 4] + r % 4 * step;
    }
    alike.then_some(step)
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
