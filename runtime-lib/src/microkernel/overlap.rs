//! Overlapping windows: a tap reads for one pixel the element that its neighbor reads for the pixel
//! before. A tile of single vectors is limited by its loads, so it loads these elements once.

use super::conv_layout::MAX_TILE;
use crate::loops::geometry::BLOCK;
use crate::simd::Simd;

/// The order of a kernel row's taps in the input, if they share elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Overlap {
    /// Three taps, each one element behind the one before.
    Three,
    /// Five taps, each one element behind the one before.
    Five,
    /// Three taps, the third one element behind the first: windows with a column stride of 2.
    ThreeApart,
}

impl Overlap {
    /// Returns the overlap that all rows of a window have.
    pub fn of(taps: &[usize]) -> Option<Overlap> {
        let all = |row: usize, apart: usize| {
            let rows = taps.chunks_exact(row);
            let last = rows.remainder();
            let mut neighbors = rows.flat_map(|row| row.iter().zip(&row[apart..]));
            !taps.is_empty() && last.is_empty() && neighbors.all(|(tap, next)| tap + 1 == *next)
        };
        match () {
            () if all(5, 1) => Some(Overlap::Five),
            () if all(3, 1) => Some(Overlap::Three),
            () if all(3, 2) => Some(Overlap::ThreeApart),
            () => None,
        }
    }
}

/// Returns whether a tile of `pixels` vectors shares its loads: only a large one, which most pixels
/// belong to.
pub(super) const fn pays<S: Simd>(pixels: usize) -> bool {
    S::LANES == BLOCK && pixels >= BLOCK
}

/// Unrolls a loop over the pixels of a tile, at most [`MAX_TILE`]. The compiler would unroll it too
/// late, after register allocation of the accumulators.
macro_rules! each_pixel {
    (|$pixel:ident| $do:expr) => {
        $crate::microkernel::overlap::each_pixel!(
            @ $pixel $do; 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19
        )
    };
    (@ $pixel:ident $do:expr; $($i:literal)*) => {$({
        let $pixel = $i;
        $do
    })*};
}
pub(super) use each_pixel;

/// Adds the products of one channel to the accumulators of a tile of `R` rows and `C` columns, one
/// vector for each pixel, and advances `w` to the next channel. A row of the window is `K` taps,
/// each one element behind the tap `APART` before it. `x` is the tile's input and its row stride.
///
/// # Safety
///
/// Every tap of every pixel can be read from `x` on, and their weights from `w` on.
#[inline(always)]
pub(super) unsafe fn add_rows<
    S: Simd,
    const R: usize,
    const C: usize,
    const V: usize,
    const K: usize,
    const APART: usize,
>(
    s: S,
    sums: &mut [[[S::F32; V]; C]; R],
    w: &mut *const f32,
    (x, x_row_stride): (*const f32, usize),
    taps: &[usize],
) {
    const { assert!(R * C <= MAX_TILE) };
    for taps in taps.chunks_exact(K) {
        // SAFETY: by this function's contract, taps and weights can be read. Tap `k` reads for a
        // pixel the element of tap `k - APART` for the next one, so the address is one of those.
        unsafe {
            let mut weights = [s.splat(0.0); K];
            for (k, weights) in weights.iter_mut().enumerate() {
                *weights = s.load_at(w.add(k * BLOCK));
            }
            let mut read = [s.splat(0.0); K];
            each_pixel!(|pixel| if pixel < R * C {
                let (row, col) = (pixel / C, pixel % C);
                for k in 0..K {
                    read[k] = if col > 0 && k + APART < K {
                        read[k + APART]
                    } else {
                        s.splat(*x.add(row * x_row_stride + col + taps[k % APART] + k / APART))
                    };
                }
                let sum = &mut sums[row][col][0];
                for (&x, &w) in read.iter().zip(&weights) {
                    *sum = s.mul_add(x, w, *sum);
                }
            });
            *w = w.add(K * BLOCK);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Overlap;

    #[test]
    fn adjacent_taps_are_detected() {
        assert_eq!(Overlap::of(&[0, 1, 2, 34, 35, 36]), Some(Overlap::Three));
        assert_eq!(Overlap::of(&[7, 8, 9, 10, 11]), Some(Overlap::Five));
        // The columns of one phase follow those of the other.
        assert_eq!(Overlap::of(&[0, 17, 1, 34, 51, 35]), Some(Overlap::ThreeApart));
        for others in [&[][..], &[0], &[0, 1], &[0, 2, 4], &[0, 1, 2, 34, 35, 37], &[0, 16, 32]] {
            assert_eq!(Overlap::of(others), None, "{others:?}");
        }
    }
}
