//! Pools of images whose channels stand side by side.

use super::{BLOCK, QUAD};
use crate::kernels::conv::{Axis, TapRun};
use crate::kernels::pool::Pool;
use crate::kernels::quantized::{Requantize, requantized};
use crate::loops::window::Taps;
use crate::simd::HAS_VECTORS;
use crate::simd::Simd;
use crate::simd::int8::{Bytes, Vector, WithBytes, dispatch_bytes, is_scalar};
use crate::threads;
use core::array::from_fn;
use core::ops::Range;

/// The mean of each window, requantized: `factor` is what a mean is multiplied with. Where `padded`,
/// zeros of the padding are counted, else what lies in the image. There is a plane of `geometry`
/// for each image.
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

/// The largest byte of each window. There is a plane of `geometry` for each image.
#[inline(never)]
pub fn max_pool(x: &[u8], y: &mut [u8], geometry: Pool<'_>) {
    if is_scalar() {
        share(x, y, geometry, Largest);
    } else {
        share(x, y, geometry, LargestVector);
    }
}

/// What a window becomes, for some channels.
trait Fold: Copy + Sync {
    /// What has been seen of the pixels.
    type Seen<S: Bytes>;

    /// How many channels are seen at once.
    #[inline(always)]
    fn channels<S: Bytes>(self) -> usize {
        BLOCK
    }

    /// That of no pixel.
    fn none<S: Bytes>(self, s: S) -> Self::Seen<S>;
    /// And another one, whose channels are these: the first of so many.
    fn add<S: Bytes>(self, s: S, seen: &mut Self::Seen<S>, x: &[u8]);
    /// What is made of it, in a window that has so many pixels as it is told.
    fn finish<S: Bytes>(
        self,
        s: S,
        seen: &Self::Seen<S>,
        count: impl Fn(bool) -> usize,
        y: &mut [u8],
    );
}

/// Folds the channels of a pixel into so many numbers.
#[inline(always)]
fn fold<T: Copy>(seen: &mut [T; BLOCK], x: &[u8], f: impl Fn(T, u8) -> T) {
    match x.first_chunk::<BLOCK>() {
        // As many as are known become vectors.
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

/// The same, in a register.
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
    /// The sums of the channels, and of how many pixels.
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
        _: S,
        (sums, inside): &Self::Seen<S>,
        count: impl Fn(bool) -> usize,
        y: &mut [u8],
    ) {
        let factor = self.factor / count(self.padded) as f32;
        for (y, sum) in y.iter_mut().zip(sums) {
            *y = requantized(*sum - inside * self.to.x_zero, factor, self.to);
        }
    }
}

/// Hands out the rows of the output, to several threads where that pays.
fn share<F: Fold>(x: &[u8], y: &mut [u8], geometry: Pool<'_>, each: F) {
    let Pool { planes, size, out, kernel, strides, dilations, pads, .. } = geometry;
    let window = Taps { size, out, kernel, strides, dilations, pads };
    // What has no places has no pixels either.
    let Some(pixel) = y.len().checked_div(planes * window.places()).filter(|&pixel| pixel > 0)
    else {
        return;
    };
    let (cost, columns) = (y.len() * window.taps() / QUAD, Axis::last_of(&window));
    threads::share(y, columns.out * pixel, cost, |first, y| {
        dispatch_bytes(Pooled { x, first, y, pixel, window, columns, ends: geometry.ends, each });
    });
}

/// Some rows of the output.
struct Pooled<'a, F> {
    x: &'a [u8],
    first: usize,
    y: &'a mut [u8],
    /// Bytes of a pixel.
    pixel: usize,
    window: Taps<'a>,
    /// The last axis of the window.
    columns: Axis,
    ends: &'a [usize],
    each: F,
}

/// So many rows of a window are looked up once for all places of a row.
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
            let lines: [_; LINES] = from_fn(|tap| if tap < height { line(tap) } else { None });
            let line = |tap: usize| lines.get(tap).copied().unwrap_or_else(|| line(tap));
            let mut places =
                Places { axis: &columns, inside: &inside, next: 0, end: 0, from: 0, taps: 0 };
            for (place, y) in y.chunks_exact_mut(pixel).enumerate() {
                let (from, taps) = places.next();
                let place = row * columns.out + place;
                let count = |padded: bool| window.count(place, padded.then_some(ends));
                for (block, y) in y.chunks_mut(each.channels::<S>()).enumerate() {
                    let (first, n) = (block * each.channels::<S>(), y.len());
                    let mut seen = each.none(s);
                    // An iterator of what is there would not become a loop of vectors.
                    for start in (0..height).map(line) {
                        let Some(start) = start else { continue };
                        for tap in 0..taps {
                            let at = start + from + tap * columns.dilation;
                            each.add(s, &mut seen, &x[at * pixel + first..][..n]);
                        }
                    }
                    each.finish(s, &seen, count, y);
                }
            }
        }
    }
}

/// The places along the last axis, one after the other.
struct Places<'a> {
    axis: &'a Axis,
    /// Those whose windows see nothing but the image.
    inside: &'a Range<usize>,
    next: usize,
    /// Up to where windows see as many elements as the last one.
    end: usize,
    /// The first element of a row that lies under the next window, and how many do.
    from: usize,
    taps: usize,
}

impl Places<'_> {
    /// The first element of a row that lies under the window at the next place, and how many do.
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
