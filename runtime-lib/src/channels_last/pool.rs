//! Pools of images whose channels stand side by side.

use super::{BLOCK, QUAD};
use crate::pool::Pool;
use crate::quantized::{Requantize, requantized};
use crate::simd::HAS_VECTORS;
use crate::simd::bytes::{Bytes, WithBytes, dispatch_bytes};
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
    share(x, y, geometry, Largest);
}

/// What a window becomes, for some channels.
trait Fold: Copy + Sync {
    /// What has been seen of the pixels.
    type Seen;

    /// That of no pixel.
    fn none(self) -> Self::Seen;
    /// And another one, whose channels are these: the first of so many.
    fn add(self, seen: &mut Self::Seen, x: &[u8]);
    /// What is made of it, in a window that has so many pixels as it is told.
    fn finish(self, seen: &Self::Seen, count: impl Fn(bool) -> usize, y: &mut [u8]);
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
    type Seen = [u8; BLOCK];

    #[inline(always)]
    fn none(self) -> [u8; BLOCK] {
        [0; BLOCK]
    }

    #[inline(always)]
    fn add(self, seen: &mut [u8; BLOCK], x: &[u8]) {
        fold(seen, x, u8::max);
    }

    #[inline(always)]
    fn finish(self, seen: &[u8; BLOCK], _: impl Fn(bool) -> usize, y: &mut [u8]) {
        y.copy_from_slice(&seen[..y.len()]);
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
    type Seen = ([i32; BLOCK], i32);

    #[inline(always)]
    fn none(self) -> Self::Seen {
        ([0; BLOCK], 0)
    }

    #[inline(always)]
    fn add(self, (sums, inside): &mut Self::Seen, x: &[u8]) {
        fold(sums, x, |sum, x| sum + i32::from(x));
        *inside += 1;
    }

    #[inline(always)]
    fn finish(self, (sums, inside): &Self::Seen, count: impl Fn(bool) -> usize, y: &mut [u8]) {
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
    fn run<S: Bytes>(self, _: S) {
        let Pooled { x, first, y, pixel, window, ends, each } = self;
        let (places, image) = (window.places(), window.elements() * pixel);
        for (at, y) in y.chunks_exact_mut(pixel).enumerate() {
            let (i, place) = ((first + at) / places, (first + at) % places);
            let x = &x[i * image..][..image];
            let count = |padded: bool| window.count(place, padded.then_some(ends));
            let inside = Inside::at(&window, place);
            for (block, y) in y.chunks_mut(BLOCK).enumerate() {
                let (first, n) = (block * BLOCK, y.len());
                let mut seen = each.none();
                for line in 0..inside.lines {
                    let Some(start) = inside.start(line) else { continue };
                    for tap in 0..inside.taps {
                        let at = start + tap * inside.dilation;
                        each.add(&mut seen, &x[at * pixel + first..][..n]);
                    }
                }
                each.finish(&seen, count, y);
            }
        }
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
        // Elements of a row of the window before one of the image.
        let before = |at: usize| at.saturating_sub(start).div_ceil(dilation).min(kernel);
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

    /// The first element of the image in a row of the window, if the image has that row.
    #[inline(always)]
    fn start(&self, line: usize) -> Option<usize> {
        Some(self.rows.input(self.place, line)? * self.size + self.first)
    }
}
