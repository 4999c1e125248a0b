//! Chooses the widths of tiles in a row of pixels.

use crate::simd::Simd;

/// The widths of tiles if a block is one vector. The narrower ones are for the remainder.
const WIDE: [usize; 6] = [14, 8, 7, 4, 2, 1];
/// The widths of tiles if a block is two vectors.
const NARROW: [usize; 4] = [6, 4, 2, 1];

/// Returns the width of the next tile if `n` pixels of a row are left, and the number of the `done`
/// pixels that it recomputes.
#[inline(always)]
pub(super) fn widths<S: Simd>(n: usize, done: usize) -> (usize, usize) {
    match S::LANES {
        16 => next(&WIDE, n, done),
        8 => next(&NARROW, n, done),
        _ => next(&NARROW[2..], n, done),
    }
}

/// Returns [`widths`] for a list of widths. The heights of tiles are chosen in the same way.
#[inline(always)]
pub(super) fn next(widths: &[usize], n: usize, done: usize) -> (usize, usize) {
    // Two tiles of eight are better than 14 and a remainder.
    if widths[0] == 14 && (n == 15 || n == 16) {
        return (8, 0);
    }
    let mut wider = widths[0];
    for &width in widths {
        if width <= n {
            let again = wider.saturating_sub(n);
            let once_more = width < n && 0 < again && again <= done.min(2);
            return if once_more { (wider, again) } else { (width, 0) };
        }
        wider = width;
    }
    (1, 0)
}
