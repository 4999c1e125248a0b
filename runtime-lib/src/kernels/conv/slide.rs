//! Convolutions with one filter in a group, such as depthwise ones: a window slides over planes.

use crate::simd::taps::Taps;
use crate::simd::{Simd, WithSimd, dispatch};

/// Vectors of outputs that stay in registers.
const VECTORS: usize = 8;

/// A window that slides over the planes of a band, in which neighboring outputs read neighboring
/// elements.
pub(super) struct Slide<'a> {
    /// The planes, and a vector behind them.
    pub planes: &'a [f32],
    /// The row stride of a plane, in elements.
    pub pitch: usize,
    /// The elements of the window.
    pub taps: Taps<'a>,
    pub bias: f32,
    /// The residual, with the layout of the output; empty for none.
    pub add: &'a [f32],
    /// The output.
    pub y: &'a mut [f32],
    /// The row stride of the output, in elements.
    pub y_row_stride: usize,
    /// The rows and the columns that are computed.
    pub rows: usize,
    pub cols: usize,
    /// The minimum and the maximum of the result.
    pub clamp: Option<(f32, f32)>,
}

impl Slide<'_> {
    /// Computes the output at the best SIMD level of the processor.
    #[inline(never)]
    pub fn compute(self) {
        dispatch(self);
    }
}

impl WithSimd for Slide<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let Slide { planes, pitch, taps, bias, add, y, y_row_stride, rows, cols, clamp } = self;
        let (width, count) = (S::LANES.min(cols), rows * cols.div_ceil(S::LANES));
        let (mut row, mut col) = (0, 0);
        for first in (0..count).step_by(VECTORS) {
            let (mut from, mut to) = ([0; VECTORS], [0; VECTORS]);
            for (from, to) in from.iter_mut().zip(&mut to).take(count - first) {
                // The last vector of a row overlaps the one before it.
                let at = col.min(cols - width);
                (*from, *to) = (row * pitch + at, row * y_row_stride + at);
                col += S::LANES;
                if col >= cols {
                    (row, col) = (row + 1, 0);
                }
            }
            let mut sums = [s.splat(bias); VECTORS];
            if !add.is_empty() {
                for (sum, &to) in sums.iter_mut().zip(&to).take(count - first) {
                    *sum = s.add(*sum, s.load_head(&add[to..to + width]));
                }
            }
            taps.add(s, &mut sums, planes, &from);
            if let Some((low, high)) = clamp {
                let (low, high) = (s.splat(low), s.splat(high));
                for sum in &mut sums {
                    // NaN stays NaN.
                    *sum = s.min(high, s.max(low, *sum));
                }
            }
            for (&sum, &to) in sums.iter().zip(&to).take(count - first) {
                let y = &mut y[to..to + width];
                if width == S::LANES { s.store(sum, y) } else { s.store_head(sum, y) }
            }
        }
    }
}
