//! Pooling of NHWC bytes.

use super::{BLOCK, QUAD};
use crate::kernels::pool::Pool;
use crate::kernels::quantized::{Requantize, requantize_sums};
use crate::loops::window::Taps;
use crate::loops::window_axis::{Axis, TapRun};
use crate::simd::HAS_VECTORS;
use crate::simd::Simd;
use crate::simd::int8::{Bytes, Vector, WithBytes, dispatch_bytes, is_scalar};
use crate::threads;
use core::ops::Range;

/// Computes the mean of each window, requantized by `factor`. If `padded`, the zeros of the padding
/// are counted, otherwise only elements of the image. `geometry` has a plane for each image.
#[inline(never)]
pub fn average_pool(
    x: &[u8],
    y: &mut [u8],
    geometry: Pool<'_>,
    to: Requantize,
    factor: f32,
    padded: bool,
) {
    let each = Mean { to, factor, padded };
    share(x, y, geometry, each);
}

/// Computes the maximum of each window. `geometry` has a plane for each image.
#[inline(never)]
pub fn max_pool(x: &[u8], y: &mut [u8], geometry: Pool<'_>) {
    if is_scalar() {
        share(x, y, geometry, Largest);
    } else {
        share(x, y, geometry, LargestVector);
    }
}

/// The operation on the pixels of a window, for some channels.
trait Fold: Copy + Sync {
    /// The accumulator.
    type Seen<S: Bytes>;

    /// Returns the number of channels that are processed at once.
    #[inline(always)]
    fn channels<S: Bytes>(self) -> usize {
        BLOCK
    }

    /// Returns the accumulator of no pixels.
    fn none<S: Bytes>(self, s: S) -> Self::Seen<S>;
    /// Adds a pixel, whose channels are `x`.
    fn add<S: Bytes>(self, s: S, seen: &mut Self::Seen<S>, x: &[u8]);
    /// Writes the result; `count` returns the number of pixels of the window, with padding if its
    /// argument is true.
    fn finish<S: Bytes>(
        self,
        s: S,
        seen: &Self::Seen<S>,
        count: impl Fn(bool) -> usize,
        y: &mut [u8],
    );
}

/// Combines the channels of a pixel with the accumulators.
#[inline(always)]
fn fold<T: Copy>(seen: &mut [T; BLOCK], x: &[u8], f: impl Fn(T, u8) -> T) {
    match x.first_chunk::<BLOCK>() {
        // With a constant length, the loop is vectorized.
        Some(x) if HAS_VECTORS => {
            seen.iter_mut().zip(x).for_each(|(seen, &x)| *seen = f(*seen, x));
        }
        _ => seen.iter_mut().zip(x).for_each(|(seen, &x)| *seen = f(*seen, x)),
    }
}

#[derive(Clone, Copy)]
struct Largest;

impl Fold for Largest {
    type Seen<S: Bytes> = [u8; BLOCK];

    #[inline(always)]
    fn none<S: Bytes>(self, _: S) -> [u8; BLOCK] {
        [0; BLOCK]
    }

    #[inline(always)]
    fn add<S: Bytes>(self, _: S, seen: &mut [u8; BLOCK], x: &[u8]) {
        fold(seen, x, u8::max);
    }

    #[inline(always)]
    fn finish<S: Bytes>(self, _: S, seen: &[u8; BLOCK], _: impl Fn(bool) -> usize, y: &mut [u8]) {
        y.copy_from_slice(&seen[..y.len()]);
    }
}

/// The maximum, in a register.
#[derive(Clone, Copy)]
struct LargestVector;

impl Fold for LargestVector {
    type Seen<S: Bytes> = Vector<S>;

    #[inline(always)]
    fn channels<S: Bytes>(self) -> usize {
        4 * S::LANES
    }

    #[inline(always)]
    fn none<S: Bytes>(self, s: S) -> Vector<S> {
        s.level().splat_i32(0)
    }

    #[inline(always)]
    fn add<S: Bytes>(self, s: S, seen: &mut Vector<S>, x: &[u8]) {
        *seen = s.max_u8(*seen, s.load_bytes(x));
    }

    #[inline(always)]
    fn finish<S: Bytes>(self, s: S, seen: &Vector<S>, _: impl Fn(bool) -> usize, y: &mut [u8]) {
        s.store_bytes(*seen, y);
    }
}

#[derive(Clone, Copy)]
struct Mean {
    to: Requantize,
    factor: f32,
    padded: bool,
}

impl Fold for Mean {
    /// The sums of the channels, and the number of pixels.
    type Seen<S: Bytes> = ([i32; BLOCK], i32);

    #[inline(always)]
    fn none<S: Bytes>(self, _: S) -> Self::Seen<S> {
        ([0; BLOCK], 0)
    }

    #[inline(always)]
    fn add<S: Bytes>(self, _: S, (sums, inside): &mut Self::Seen<S>, x: &[u8]) {
        fold(sums, x, |sum, x| sum + i32::from(x));
        *inside += 1;
    }

    #[inline(always)]
    fn finish<S: Bytes>(
        self,
        s: S,
        (sums, inside): &Self::Seen<S>,
        count: impl Fn(bool) -> usize,
        y: &mut [u8],
    ) {
        let factor = self.factor / count(self.padded).max(1) as f32;
        let zero = self.to.x_zero.wrapping_mul(*inside);
        requantize_sums(s, &sums[..y.len()], zero, factor, self.to, 0, y);
    }
}

/// Computes the rows of the output, on several threads where that pays.
fn share<F: Fold>(x: &[u8], y: &mut [u8], geometry: Pool<'_>, each: F) {
    let Pool { planes, size, out, kernel, strides, dilations, pads, .. } = geometry;
    let window = Taps { size, out, kernel, strides, dilations, pads };
    // An output without positions has no pixels either.
    let Some(pixel) = y.len().checked_div(planes * window.places()).filter(|&pixel| pixel > 0)
    else {
        return;
    };
    let (cost, columns) = (y.len() * window.taps() / QUAD, Axis::last_of(&window));
    threads::share(y, columns.out * pixel, cost, |first, y| {
        dispatch_bytes(Pooled { x, first, y, pixel, window, columns, ends: geometry.ends, each });
    });
}

/// The computation of some rows of the output.
struct Pooled<'a, F> {
    x: &'a [u8],
    first: usize,
    y: &'a mut [u8],
    /// The bytes of a pixel.
    pixel: usize,
    window: Taps<'a>,
    /// The last axis of the window.
    columns: Axis,
    ends: &'a [usize],
    each: F,
}

/// The number of rows of a window whose offsets are computed once for all positions of a row.
const LINES: usize = 8;

impl<F: Fold> WithBytes for Pooled<'_, F> {
    #[inline(always)]
    fn run<S: Bytes>(self, s: S) {
        let Pooled { x, first, y, pixel, window, columns, ends, each } = self;
        let (rows, inside) = (window.without_last(), columns.inside());
        let (down, height, image) = (rows.places(), rows.taps(), window.elements() * pixel);
        for (at, y) in (first..).zip(y.chunks_exact_mut(columns.out * pixel)) {
            let (x, row) = (&x[at / down * image..][..image], at % down);
            let line = |tap: usize| rows.input(row, tap).map(|line| line * columns.size);
            let (mut lines, mut count) = ([0; LINES], 0);
            for start in (0..height.min(LINES)).filter_map(line) {
                lines[count] = start;
                count += 1;
            }
            let (lines, step) = (&lines[..count], columns.dilation * pixel);
            let mut places =
                Places { axis: &columns, inside: &inside, next: 0, end: 0, from: 0, taps: 0 };
            for (place, y) in y.chunks_exact_mut(pixel).enumerate() {
                let (from, taps) = places.next();
                let place = row * columns.out + place;
                let count = |padded: bool| window.count(place, padded.then_some(ends));
                for (block, y) in y.chunks_mut(each.channels::<S>()).enumerate() {
                    let (first, n) = (block * each.channels::<S>(), y.len());
                    let mut seen = each.none(s);
                    // A filtering iterator would prevent vectorization.
                    for tap in 0..height {
                        let start = match lines.get(tap) {
                            Some(&start) => Some(start),
                            None if tap < LINES => None,
                            None => line(tap),
                        };
                        let Some(start) = start else { continue };
                        let mut at = (start + from) * pixel + first;
                        for _ in 0..taps {
                            each.add(s, &mut seen, &x[at..][..n]);
                            at += step;
                        }
                    }
                    each.finish(s, &seen, count, y);
                }
            }
        }
    }
}

/// The positions along the last axis, in order.
struct Places<'a> {
    axis: &'a Axis,
    /// The positions whose windows read no padding.
    inside: &'a Range<usize>,
    next: usize,
    /// The end of the run of windows with the same elements.
    end: usize,
    /// The first element of a row in the next window, and the number of elements.
    from: usize,
    taps: usize,
}

impl Places<'_> {
    /// Returns the first element of a row in the window at the next position, and the number of
    /// elements.
    #[inline(always)]
    fn next(&mut self) -> (usize, usize) {
        if self.next == self.end {
            let TapRun { count, from, taps } =
                self.axis.tap_run(self.inside, self.next, self.axis.out);
            (self.end, self.from, self.taps) = (self.next + count, from, taps.len());
        } else {
            self.from += self.axis.stride;
        }
        self.next += 1;
        (self.from, self.taps)
    }
}
