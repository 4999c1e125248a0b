//! Squares of `LANES` rows of `LANES` numbers, which are transposed in registers.

use super::{MAX_LANES, Simd};
use crate::loops::bounds::reach;

/// The rows of a square in memory.
#[derive(Clone, Copy)]
pub(crate) struct Rows {
    /// The distance of two rows, in elements.
    pub apart: usize,
    /// The number of rows. The others are read as zeros, and are not written.
    pub count: usize,
}

/// Transposes a square: element `j` of row `i` of `x` becomes element `i` of row `j` of `y`.
#[inline(always)]
pub(crate) fn transpose<S: Simd>(s: S, x: &[f32], apart: usize, y: &mut [f32], apart_y: usize) {
    let end = |apart| reach([[S::LANES - 1, apart], [S::LANES, 1]]);
    assert!(end(apart) <= x.len() && end(apart_y) <= y.len());
    let rows = |apart| Rows { apart, count: S::LANES };
    // SAFETY: the slices have `LANES` rows of `LANES` elements.
    unsafe { transpose_at(s, x.as_ptr(), rows(apart), y.as_mut_ptr(), rows(apart_y)) }
}

/// [`transpose`] of some rows at addresses.
///
/// # Safety
///
/// The rows of `x` can be read, and those of `y` can be written. Each has `LANES` elements.
#[inline(always)]
#[expect(clippy::needless_range_loop, reason = "rows stay in registers where constants index them")]
pub(crate) unsafe fn transpose_at<S: Simd>(s: S, x: *const f32, from: Rows, y: *mut f32, to: Rows) {
    let mut rows = [s.splat(0.0); MAX_LANES];
    for i in 0..S::LANES {
        if i < from.count {
            // SAFETY: the caller guarantees this row.
            rows[i] = unsafe { s.load_at(x.add(i * from.apart)) };
        }
    }
    s.transpose(&mut rows);
    for i in 0..S::LANES {
        if i < to.count {
            // SAFETY: the caller guarantees this row.
            unsafe { s.store_at(rows[i], y.add(i * to.apart)) };
        }
    }
}
