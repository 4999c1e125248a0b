//! Pools of images whose channels stand side by side.

use super::BLOCK;
use crate::pool::Pool;
use crate::quantized::{Requantize, requantized};
use crate::simd::bytes::{Bytes, WithBytes, dispatch_bytes};
use crate::taps::Taps;

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
    dispatch_bytes(Pooled { x, y, geometry, each });
}

/// The largest byte of each window. There is a plane of `geometry` for each image.
#[inline(never)]
pub fn max_pool(x: &[u8], y: &mut [u8], geometry: Pool<'_>) {
    dispatch_bytes(Pooled { x, y, geometry, each: Largest });
}

/// What a window becomes, for some channels. Pixels are handed to a closure, since loops over what
/// several iterators are made of do not become loops of machine code.
trait Fold: Copy {
    /// Of pixels whose channels are these, in a window that has so many as it is told.
    fn fold<'a>(
        self,
        pixels: impl Iterator<Item = &'a [u8]>,
        count: impl Fn(bool) -> usize,
        y: &mut [u8],
    );
}

#[derive(Clone, Copy)]
struct Largest;

impl Fold for Largest {
    #[inline(always)]
    fn fold<'a>(
        self,
        pixels: impl Iterator<Item = &'a [u8]>,
        _: impl Fn(bool) -> usize,
        y: &mut [u8],
    ) {
        y.fill(0);
        pixels.for_each(|x| y.iter_mut().zip(x).for_each(|(y, &x)| *y = x.max(*y)));
    }
}

#[derive(Clone, Copy)]
struct Mean {
    to: Requantize,
    factor: f32,
    padded: bool,
}

impl Fold for Mean {
    #[inline(always)]
    fn fold<'a>(
        self,
        pixels: impl Iterator<Item = &'a [u8]>,
        count: impl Fn(bool) -> usize,
        y: &mut [u8],
    ) {
        let (mut sums, mut inside) = ([0i32; BLOCK], 0);
        let sums = &mut sums[..y.len()];
        pixels.for_each(|x| {
            sums.iter_mut().zip(x).for_each(|(sum, &x)| *sum += i32::from(x));
            inside += 1;
        });
        let factor = self.factor / count(self.padded) as f32;
        for (y, sum) in y.iter_mut().zip(sums) {
            *y = requantized(*sum - inside * self.to.x_zero, factor, self.to);
        }
    }
}

struct Pooled<'a, F> {
    x: &'a [u8],
    y: &'a mut [u8],
    geometry: Pool<'a>,
    each: F,
}

impl<F: Fold> WithBytes for Pooled<'_, F> {
    #[inline(always)]
    fn run<S: Bytes>(self, _: S) {
        let Pooled { x, y, geometry, each } = self;
        let Pool { planes, size, out, kernel, strides, dilations, pads, ends, .. } = geometry;
        let window = Taps { size, out, kernel, strides, dilations, pads };
        let (places, taps) = (window.places(), window.taps());
        // What has no places has no pixels either.
        let Some(pixel) = y.len().checked_div(planes * places).filter(|&pixel| pixel > 0) else {
            return;
        };
        let image = window.elements() * pixel;
        for (at, y) in y.chunks_exact_mut(pixel).enumerate() {
            let (i, place) = (at / places, at % places);
            let x = &x[i * image..][..image];
            let count = |padded: bool| window.count(place, padded.then_some(ends));
            for (block, y) in y.chunks_mut(BLOCK).enumerate() {
                let (first, n) = (block * BLOCK, y.len());
                let pixel = |at: usize| &x[at * pixel + first..][..n];
                if window.is_whole() {
                    each.fold((0..taps).map(pixel), count, y);
                } else {
                    each.fold(inside(&window, place).map(pixel), count, y);
                }
            }
        }
    }
}

/// Which elements of the image lie under the window at a place.
#[inline(always)]
fn inside(window: &Taps<'_>, place: usize) -> impl Iterator<Item = usize> {
    let (lines, [size, out, kernel, stride, dilation, pad]) =
        (window.without_last(), window.last());
    let (line, start) = (place / out, place % out * stride);
    // Elements of a row of the window before one of the image.
    let before = |at: usize| at.saturating_sub(start).div_ceil(dilation).min(kernel);
    let taps = before(pad)..before(pad + size);
    let lines = (0..lines.taps()).filter_map(move |tap| lines.input(line, tap));
    lines.flat_map(move |line| {
        taps.clone().map(move |tap| line * size + start + tap * dilation - pad)
    })
}
