//! The micro-kernel of NHWC convolutions of bytes: the accumulators of a few pixels and a few
//! vectors of filters stay in registers while it iterates over the quads of a window.

use crate::loops::bounds::{places, reach};
use crate::simd::Simd;
use crate::simd::int8::{Bytes, MAX_BYTES, Vector};
use core::mem::MaybeUninit;

/// The number of bytes that are multiplied at once.
const QUAD: usize = 4;
/// The largest number of vectors of a tile.
const MAX_TILE: usize = 24;
/// The largest number of addresses that stay in registers.
const MAX_ADDRESSES: usize = 6;

/// The quads that windows read, and a panel of filters.
pub(crate) struct Int8Windows<'a> {
    pub(super) x: &'a [u8],
    pub(super) starts: &'a [u32],
    pub(super) w: &'a [u8],
    pub(super) width: usize,
    /// The number of offsets at which a whole window is inside `x`.
    places: usize,
}

impl<'a> Int8Windows<'a> {
    /// Creates the operands. A window reads the quads of `x` (unsigned) at the offsets `starts`
    /// from its first byte. For each quad, `w` (signed) has the four bytes of each of `width`
    /// filters.
    pub fn new(x: &'a [u8], starts: &'a [u32], w: &'a [u8], width: usize) -> Int8Windows<'a> {
        assert!(w.len() >= reach([[starts.len(), width, QUAD]]));
        let reach = starts.iter().max().map_or(0, |&start| (start as usize).saturating_add(QUAD));
        Int8Windows { x, starts, w, width, places: places(x, reach) }
    }

    /// Returns the accumulators of the windows that start at `at` for `V` vectors of filters from
    /// `column` on. They start with the bias of each filter.
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
        // SAFETY: the assertions above cover the windows in `x` and the filters in the panel.
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
    ///
    /// The windows are inside `x`, and the panel has `V` vectors of filters from `column` on.
    #[inline(always)]
    unsafe fn add<S: Bytes, const R: usize, const V: usize>(
        &self,
        s: S,
        sums: &mut Tile<S, R, V>,
        at: [usize; R],
        column: usize,
    ) {
        // SAFETY: by this function's contract, the windows and filters are inside their slices.
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

    /// Adds the products of windows, if each group of four has the stride `step`. One moving
    /// address serves four windows, so all addresses stay in registers.
    ///
    /// # Safety
    ///
    /// The contract of `add`.
    #[inline(always)]
    unsafe fn add_fours<S: Bytes, const R: usize, const V: usize>(
        &self,
        s: S,
        sums: &mut Tile<S, R, V>,
        at: [usize; R],
        step: usize,
        column: usize,
    ) {
        // SAFETY: by this function's contract, the windows and filters are inside their slices.
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

/// Loads consecutive vectors of filters.
///
/// # Safety
///
/// `V` vectors can be read from `w`.
#[inline(always)]
unsafe fn load_columns<S: Bytes, const V: usize>(s: S, w: *const u8) -> [Vector<S>; V] {
    let mut columns = [s.level().splat_i32(0); V];
    for (v, column) in columns.iter_mut().enumerate() {
        // SAFETY: by this function's contract, `V` vectors can be read.
        *column = unsafe { s.load_bytes_at(w.add(v * QUAD * S::LANES)) };
    }
    columns
}

/// Adds the products of a quad of a window.
///
/// # Safety
///
/// Four bytes can be read from `quad`.
#[inline(always)]
unsafe fn add_quad<S: Bytes, const V: usize>(
    s: S,
    sums: &mut [Vector<S>; V],
    quad: *const u8,
    columns: &[Vector<S>; V],
) {
    // SAFETY: by this function's contract, four bytes can be read; the read is unaligned.
    let quad = s.level().splat_i32(unsafe { quad.cast::<i32>().read_unaligned() });
    for (sum, &column) in sums.iter_mut().zip(columns) {
        *sum = s.dot(*sum, quad, column);
    }
}

/// Returns the stride of the windows in each group of four, if it is the same for all groups and
/// there are more windows than addresses that fit in registers.
#[inline(always)]
fn step_of_fours<const R: usize>(at: &[usize; R]) -> Option<usize> {
    if R <= MAX_ADDRESSES || !R.is_multiple_of(4) {
        return None;
    }
    let step = at[1].checked_sub(at[0])?;
    let mut alike = true;
    for r in 0..R {
        alike &= at[r] == at[r / 4 * 4] + r % 4 * step;
    }
    alike.then_some(step)
}

/// The accumulators of `R` windows, of `V` vectors of filters each.
pub(crate) type Tile<S, const R: usize, const V: usize> = [[Vector<S>; V]; R];

/// Calls `end` with the accumulators of each window. They are stored to memory first: passed by
/// reference from registers, they would be spilled for every window.
#[inline(always)]
pub(crate) fn each_window<S: Bytes, const R: usize, const V: usize>(
    s: S,
    sums: &Tile<S, R, V>,
    mut end: impl FnMut([Vector<S>; V]),
) {
    let mut tile = [MaybeUninit::<[u8; MAX_BYTES]>::uninit(); MAX_TILE];
    let tile = tile.as_mut_ptr().cast::<u8>();
    for (r, sums) in sums.iter().enumerate() {
        for (v, &sum) in sums.iter().enumerate() {
            // SAFETY: `R * V <= MAX_TILE`, so vector `r * V + v` is inside the tile.
            unsafe { s.store_bytes_at(sum, tile.add((r * V + v) * QUAD * S::LANES)) };
        }
    }
    const { assert!(R * V <= MAX_TILE) };
    for r in 0..R {
        let mut row = [s.level().splat_i32(0); V];
        for (v, sum) in row.iter_mut().enumerate() {
            // SAFETY: the loop above initialized the vector.
            *sum = unsafe { s.load_bytes_at(tile.add((r * V + v) * QUAD * S::LANES)) };
        }
        end(row);
    }
}
