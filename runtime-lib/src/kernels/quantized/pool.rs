//! Averages of windows of 8-bit tensors.

use super::{Limits, Requantize};
use crate::Float;
use crate::kernels::pool::Pool;
use crate::loops::window::Taps;
use crate::loops::window_axis::{Axis, TapRun};
use crate::simd::Simd;
use crate::simd::int8::{Byte, Bytes, WithBytes, dispatch_bytes};
use crate::threads;

/// Computes the mean of each window, times `factor`, requantized. If `padded`, the mean includes
/// the zeros of the padding.
pub fn average_pool<X: Byte, Y: Byte>(
    x: &[X],
    y: &mut [Y],
    geometry: Pool<'_>,
    to: Requantize,
    factor: f32,
    padded: bool,
) {
    let means = Means { flips: [X::FLIP, Y::FLIP], to, factor, padded };
    means.share(X::bits(x), Y::bits_mut(y), geometry);
}

/// The parameters of [`average_pool`].
#[derive(Clone, Copy)]
struct Means {
    /// The XOR masks that map the bytes of the input and of the result to unsigned ones.
    flips: [u8; 2],
    to: Requantize,
    factor: f32,
    padded: bool,
}

impl Means {
    /// Computes planes, on several threads where that pays.
    #[inline(never)]
    fn share(self, x: &[u8], y: &mut [u8], geometry: Pool<'_>) {
        let Pool { size, out, kernel, strides, dilations, pads, .. } = geometry;
        let window = Taps { size, out, kernel, strides, dilations, pads };
        let ends = self.padded.then_some(geometry.ends);
        let (places, cost) = (window.places().max(1), y.len() * window.taps() / QUAD);
        threads::share(y, places, cost, |first, y| {
            let x = &x[first * window.elements()..];
            dispatch_bytes(Planes { x, y, window, ends, means: self });
        });
    }
}

/// The bytes that are summed in the time of the work on one element.
const QUAD: usize = 4;

/// The computation of some planes.
struct Planes<'a> {
    x: &'a [u8],
    y: &'a mut [u8],
    window: Taps<'a>,
    /// The padding after the image, if it counts.
    ends: Option<&'a [usize]>,
    means: Means,
}

/// The number of neighboring windows whose sums are computed at once.
const SUMS: usize = 64;

impl WithBytes for Planes<'_> {
    #[inline(always)]
    fn run<S: Bytes>(self, s: S) {
        let Planes { x, y, window, ends, means } = self;
        let (elements, places) = (window.elements(), window.places().max(1));
        let flip = means.flips[0];
        for (plane, y) in y.chunks_exact_mut(places).enumerate() {
            let x = &x[plane * elements..][..elements];
            if window.is_whole() {
                let sum = x.iter().map(|&x| i32::from(x ^ flip)).sum();
                means.finish(s, &[sum], elements, window.count(0, ends), y);
            } else {
                means.plane(s, x, y, window, ends);
            }
        }
    }
}

impl Means {
    /// Computes the means of the windows of a plane.
    #[inline(always)]
    fn plane<S: Bytes>(
        self,
        s: S,
        x: &[u8],
        y: &mut [u8],
        window: Taps<'_>,
        ends: Option<&[usize]>,
    ) {
        let (rows, columns) = (window.without_last(), Axis::last_of(&window));
        let inside = columns.inside();
        for (row, y) in y.chunks_exact_mut(columns.out.max(1)).enumerate() {
            let mut next = 0;
            while next < columns.out {
                let mut run = columns.tap_run(&inside, next, columns.out);
                run.count = run.count.min(SUMS);
                let mut sums = [0; SUMS];
                let mut lines = 0;
                for line in rows.inputs(row) {
                    let line = &x[line * columns.size..][..columns.size];
                    self.add_line(line, &mut sums[..run.count], &columns, &run);
                    lines += 1;
                }
                let count = window.count(row * columns.out + next, ends);
                let y = &mut y[next..][..run.count];
                self.finish(s, &sums[..run.count], lines * run.taps.len(), count, y);
                next += run.count;
            }
        }
    }

    /// Adds the elements of a line to the sums of the windows of a run.
    #[inline(always)]
    fn add_line(self, line: &[u8], sums: &mut [i32], columns: &Axis, run: &TapRun) {
        let flip = self.flips[0];
        for tap in 0..run.taps.len() {
            let line = &line[run.from + tap * columns.dilation..];
            // With constant strides, the loops are vectorized.
            match columns.stride {
                1 => add(sums, line.iter(), flip),
                2 if line.len() >= 2 * sums.len() => {
                    let (pairs, _) = line.as_chunks::<2>();
                    add(sums, pairs.iter().map(|[first, _]| first), flip);
                }
                stride => add(sums, line.iter().step_by(stride), flip),
            }
        }
    }

    /// Requantizes the sums of neighboring windows, each of `inside` elements. The means are over
    /// `count`, which may include padding.
    #[inline(always)]
    fn finish<S: Bytes>(self, s: S, sums: &[i32], inside: usize, count: usize, y: &mut [u8]) {
        let Means { flips: [x_flip, y_flip], to, factor, .. } = self;
        let zero = (to.x_zero + i32::from(x_flip)).wrapping_mul(inside as i32);
        requantize_sums(s, sums, zero, factor / count.max(1) as f32, to, y_flip, y);
    }
}

/// Adds bytes to sums.
#[inline(always)]
fn add<'a>(sums: &mut [i32], bytes: impl Iterator<Item = &'a u8>, flip: u8) {
    sums.iter_mut().zip(bytes).for_each(|(sum, &x)| *sum += i32::from(x ^ flip));
}

/// Subtracts `zero` from sums, multiplies them by `factor`, and rounds them to bytes that differ
/// from unsigned ones by an XOR with `flip`.
#[inline(always)]
pub(crate) fn requantize_sums<S: Bytes>(
    s: S,
    sums: &[i32],
    zero: i32,
    factor: f32,
    to: Requantize,
    flip: u8,
    y: &mut [u8],
) {
    if S::IS_SCALAR || sums.len() == 1 {
        for (y, &sum) in y.iter_mut().zip(sums) {
            let x = Float::round(sum.wrapping_sub(zero) as f32 * factor) as i32;
            *y = to.bounds().byte(x);
        }
        return;
    }
    let (l, limits) = (s.level(), Limits::new(s, to, flip));
    let (zero, factor) = (l.splat_i32(zero), l.splat(factor));
    for (y, sums) in y.chunks_mut(4 * S::LANES).zip(sums.chunks(4 * S::LANES)) {
        let mut lanes = [l.splat_i32(0); 4];
        for (lane, sums) in lanes.iter_mut().zip(sums.chunks(S::LANES)) {
            let sum = l.sub_i32(s.load_sums(sums), zero);
            *lane = limits.round(s, l.mul(l.to_f32(sum), factor));
        }
        s.store_bytes(limits.bits(s, s.join(lanes)), y);
    }
}

/// Computes the mean of each plane, requantized. All planes have the same size.
#[inline(always)]
pub fn small_means<X: Byte, Y: Byte>(x: &[X], y: &mut [Y], to: Requantize, factor: f32) {
    means(X::bits(x), X::FLIP, Y::bits_mut(y), &to, factor);
}

#[inline(never)]
fn means(x: &[u8], flip: u8, y: &mut [u8], to: &Requantize, factor: f32) {
    let len = x.len().checked_div(y.len()).unwrap_or(0).max(1);
    let (bounds, zero) = (to.bounds(), to.x_zero + i32::from(flip));
    for (y, x) in y.iter_mut().zip(x.chunks_exact(len)) {
        let sum = x.iter().map(|&x| i32::from(x ^ flip) - zero).sum::<i32>();
        *y = bounds.byte(Float::round(sum as f32 * (factor / len as f32)) as i32);
    }
}
