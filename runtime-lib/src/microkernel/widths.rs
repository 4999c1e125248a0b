//! How wide the tiles of a row of pixels are.

use crate::simd::Simd;

/// The widths of tiles, where a block is one vector: the narrower ones are for what is left.
const WIDE: [usize; 6] = [14, 8, 7, 4, 2, 1];
/// Likewise, where a block is two vectors.
const NARROW: [usize; 4] = [6, 4, 2, 1];

/// The width of the next tile when `n` pixels of a row are left, and how many of those that are
/// `done` it does again.
#[inline(always)]
pub(super) fn widths<S: Simd>(n: usize, done: usize) -> (usize, usize) {
    match S::LANES {
        16 => next(&WIDE, n, done),
        8 => next(&NARROW, n, done),
        _ => next(&NARROW[2..], n, done),
    }
}

/// The same, of such widths. Heights of tiles are chosen likewise.
#[inline(always)]
pub(super) fn next(widths: &[usize], n: usize, done: usize) -> (usize, usize) {
    // As many as two tiles of eight, which sixteen pixels are better cut into.
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
