//! Pools of images whose channels stand side by side.

use super::{BLOCK, QUAD};
use crate::pool::Pool;
use crate::quantized::{Requantize, requantized};
use crate::simd::HAS_VECTORS;
use crate::simd::Simd;
use crate::simd::bytes::{Bytes, Vector, WithBytes, dispatch_bytes, is_narrow};
use crate::taps::Taps;
use crate::threads;

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
    if is_narrow() {
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

/// Hands out the pixels of the output, to several threads where that pays.
fn share<F: Fold>(x: &[u8], y: &mut [u8], geometry: Pool<'_>, each: F) {
    let Pool { planes, size, out, kernel, strides, dilations, pads, .. } = geometry;
    let window = Taps { size, out, kernel, strides, dilations, pads };
    // What has no places has no pixels either.
    let Some(pixel) = y.len().checked_div(planes * window.places()).filter(|&pixel| pixel > 0)
    else {
        return;
    };
    let cost = y.len() * window.taps() / QUAD;
    threads::share(y, pixel, cost, |first, y| {
        dispatch_bytes(Pooled { x, first, y, pixel, window, ends: geometry.ends, each });
    });
}

/// Some pixels of the output.
struct Pooled<'a, F> {
    x: &'a [u8],
    first: usize,
    y: &'a mut [u8],
    /// Bytes of a pixel.
    pixel: usize,
    window: Taps<'a>,
    ends: &'a [usize],
    each: F,
}

impl<F: Fold> WithBytes for Pooled<'_, F> {
    #[inline(always)]
    fn run<S: Bytes>(self, s: S) {
        let Pooled { x, first, y, pixel, window, ends, each } = self;
        let (places, image) = (window.places(), window.elements() * pixel);
        let mut lines = Lines { starts: [None; LINES], row: None };
        for (at, y) in y.chunks_exact_mut(pixel).enumerate() {
            let (i, place) = ((first + at) / places, (first + at) % places);
            let x = &x[i * image..][..image];
            let count = |padded: bool| window.count(place, padded.then_some(ends));
            let inside = Inside::at(&window, place);
            lines.see(&inside);
            for (block, y) in y.chunks_mut(each.channels::<S>()).enumerate() {
                let (first, n) = (block * each.channels::<S>(), y.len());
                let mut seen = each.none(s);
                for line in 0..inside.lines {
                    let Some(start) = lines.start(&inside, line) else { continue };
                    for tap in 0..inside.taps {
                        let at = start + tap * inside.dilation;
                        each.add(s, &mut seen, &x[at * pixel + first..][..n]);
                    }
                }
                each.finish(s, &seen, count, y);
            }
        }
    }
}

/// So many rows of a window are looked up once for all places of a row.
const LINES: usize = 8;

/// Where the first rows of the image that lie under the windows of a row of places start.
struct Lines {
    starts: [Option<usize>; LINES],
    /// Which row of places it is.
    row: Option<usize>,
}

impl Lines {
    /// Looks up those of a window, unless it is in the same row as the last.
    #[inline(always)]
    fn see(&mut self, window: &Inside<'_>) {
        if self.row != Some(window.place) {
            self.row = Some(window.place);
            for (line, start) in self.starts.iter_mut().take(window.lines).enumerate() {
                *start = window.rows.input(window.place, line);
            }
        }
    }

    /// The first element of the image in a row of the window, if the image has that row.
    #[inline(always)]
    fn start(&self, window: &Inside<'_>, line: usize) -> Option<usize> {
        let row = match self.starts.get(line) {
            Some(&row) => row,
            None => window.rows.input(window.place, line),
        };
        Some(row? * window.size + window.first)
    }
}

/// Which elements of the image lie under the window at a place. They are walked through by plain loops,
/// since those over what several iterators are made of do not become loops of vectors.
struct Inside<'a> {
    /// The rows of the window.
    rows: Taps<'a>,
    /// How many these are.
    lines: usize,
    /// Which row of the places the window is in.
    place: usize,
    /// The elements of an image's row.
    size: usize,
    /// The first element of a row that lies under the window.
    first: usize,
    /// How many of them do.
    taps: usize,
    dilation: usize,
}

impl<'a> Inside<'a> {
    #[inline(always)]
    fn at(window: &Taps<'a>, place: usize) -> Inside<'a> {
        let [size, out, kernel, stride, dilation, pad] = window.last();
        let start = place % out * stride;
        // Elements of a row of the window before one of the image; divisions take time.
        let apart = |n: usize| if dilation == 1 { n } else { n.div_ceil(dilation) };
        let before = |at: usize| apart(at.saturating_sub(start)).min(kernel);
        let (skipped, end) = (before(pad), before(pad + size));
        let rows = window.without_last();
        Inside {
            lines: rows.taps(),
            rows,
            place: place / out,
            size,
            first: (start + skipped * dilation).saturating_sub(pad),
            taps: end - skipped,
            dilation,
        }
    }
}
