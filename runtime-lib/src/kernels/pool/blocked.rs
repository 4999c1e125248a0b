//! Pooling of NCHWc images with blocks of [`BLOCK`] channels, each a plane of the geometry.

use super::Pool;
use super::fold::{Counted, Largest, Mean};
use super::vectors::FoldVectors;
use crate::kernels::conv::{Axis, TapRun};
use crate::loops::window::Taps;
use crate::microkernel::BLOCK;
use crate::simd::{Simd, WithSimd, dispatch};
use crate::threads::{By, Piece, Share};
use core::mem;
use core::ops::Range;

/// The maximum of each window of each channel; NaN if an element is NaN.
#[inline(never)]
pub fn max_pool_nchwc(x: &[f32], y: &mut [f32], geometry: Pool<'_>) {
    nchwc(x, y, geometry, Largest);
}

/// The mean of the elements of each window inside of the image.
#[inline(never)]
pub fn average_pool_nchwc(x: &[f32], y: &mut [f32], geometry: Pool<'_>) {
    nchwc(x, y, geometry, Mean(Counted::InImage));
}

/// The mean of the elements of each window, zero padding included.
#[inline(never)]
pub fn average_pool_padded_nchwc(x: &[f32], y: &mut [f32], geometry: Pool<'_>) {
    nchwc(x, y, geometry, Mean(Counted::Padded));
}

#[inline(always)]
fn nchwc(x: &[f32], y: &mut [f32], geometry: Pool<'_>, fold: impl FoldVectors) {
    let taps = geometry.taps();
    let (places, [_, out, ..]) = (taps.places() * BLOCK, taps.last());
    let cost = x.len() + y.len();
    Share::of(y, places).hand_out(out * BLOCK, By::Rows, cost, |piece| {
        dispatch(Nchwc { x, piece, geometry, fold });
    });
}

/// A fold of the windows of every channel.
struct Nchwc<'a, F> {
    x: &'a [f32],
    piece: Piece<'a, f32>,
    geometry: Pool<'a>,
    fold: F,
}

/// Rows of the image that are folded together.
const ROWS: usize = 16;

impl<F: FoldVectors> WithSimd for Nchwc<'_, F> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let Nchwc { x, piece: Piece { planes, rows: of, mut y }, geometry, fold } = self;
        let taps = geometry.taps();
        let elements = taps.elements() * BLOCK;
        // A window that covers the image is a single row.
        let all = [taps.elements()];
        let folded = if taps.is_whole() { Taps::whole(&all) } else { taps };
        let (rows, columns) = (folded.without_last(), Axis::last_of(&folded));
        let columns = Columns { s, fold, inside: columns.inside(), axis: columns };
        for (i, plane) in planes.enumerate() {
            let x = &x[plane * elements..][..elements];
            for (row, y) in of.clone().zip(y.plane(i).chunks_exact_mut(columns.axis.out * BLOCK)) {
                let (mut lines, mut count, mut seen) = ([0; ROWS], 0, 0);
                for line in (0..rows.taps()).filter_map(|tap| rows.input(row, tap)) {
                    if count == ROWS {
                        columns.take(x, &lines, seen > 0, y);
                        (seen, count) = (seen + ROWS, 0);
                    }
                    lines[count] = line * columns.axis.size * BLOCK;
                    count += 1;
                }
                columns.take(x, &lines[..count], seen > 0, y);
                let lines = match fold.counted() {
                    Some(of) if seen + count < rows.taps() => of.of(&rows, row, geometry.ends().0),
                    _ => rows.taps(),
                };
                columns.finish(y, lines, &folded, geometry.ends().1);
            }
        }
    }
}

/// Windows along the last axis.
struct Columns<S, F> {
    s: S,
    fold: F,
    axis: Axis,
    /// The outputs whose windows are inside the image.
    inside: Range<usize>,
}

impl<S: Simd, F: FoldVectors> Columns<S, F> {
    /// Folds lines of the image at these offsets into the states of a row of outputs; `are_there`
    /// if there are states.
    #[inline(always)]
    fn take(&self, x: &[f32], lines: &[usize], are_there: bool, y: &mut [f32]) {
        let mut place = 0;
        while place < self.axis.out {
            let TapRun { count, mut from, taps } =
                self.axis.tap_run(&self.inside, place, self.axis.out);
            let (of, mut y) =
                ((lines, taps.len(), are_there), &mut y[place * BLOCK..][..count * BLOCK]);
            while !y.is_empty() {
                let at_once = if y.len() >= 4 * BLOCK { 4 } else { 1 };
                let (now, later) = mem::take(&mut y).split_at_mut(at_once * BLOCK);
                let x = x.get(from * BLOCK..).unwrap_or(&[]);
                match at_once {
                    4 => self.places::<4>(x, of, now),
                    _ => self.places::<1>(x, of, now),
                }
                from += at_once * self.axis.stride;
                y = later;
            }
            place += count;
        }
    }

    /// Folds a few outputs, whose windows cover columns from the first of `x`.
    #[inline(always)]
    fn places<const PLACES: usize>(
        &self,
        x: &[f32],
        (lines, taps, are_there): (&[usize], usize, bool),
        y: &mut [f32],
    ) {
        let (s, Axis { stride, dilation, .. }) = (self.s, self.axis);
        for lane in (0..BLOCK).step_by(S::LANES) {
            let mut states = [s.splat(self.fold.start()); PLACES];
            if are_there {
                for (state, y) in states.iter_mut().zip(y.chunks_exact(BLOCK)) {
                    *state = s.load(&y[lane..]);
                }
            }
            for &line in lines {
                for tap in 0..taps {
                    let x = &x[line + tap * dilation * BLOCK + lane..];
                    for (place, state) in states.iter_mut().enumerate() {
                        let x = s.load(&x[place * stride * BLOCK..]);
                        *state = self.fold.take_vector(s, *state, x);
                    }
                }
            }
            for (&state, y) in states.iter().zip(y.chunks_exact_mut(BLOCK)) {
                s.store(state, &mut y[lane..]);
            }
        }
    }

    /// Computes the results from the states of a row of outputs; `lines` of each window count. The
    /// padding ends `ends` after the image.
    #[inline(always)]
    fn finish(&self, y: &mut [f32], lines: usize, taps: &Taps<'_>, ends: &[usize]) {
        let Some(of) = self.fold.counted() else { return };
        let (s, taps) = (self.s, taps.only_last());
        for (place, y) in y.chunks_exact_mut(BLOCK).enumerate() {
            let count = match self.inside.contains(&place) {
                true => self.axis.kernel,
                false => of.of(&taps, place, ends),
            };
            let count = s.splat((lines * count) as f32);
            for y in y.chunks_exact_mut(S::LANES) {
                s.store(self.fold.finish_vector(s, s.load(y), count), y);
            }
        }
    }
}

/// The gradient of [`max_pool_nchwc`]: the gradient of each window goes to its first maximum, or
/// first NaN.
#[inline(never)]
pub fn max_pool_grad_nchwc(x: &[f32], dy: &[f32], dx: &mut [f32], geometry: Pool<'_>) {
    dispatch(Grads { x, dy, dx, geometry });
}

/// The gradients of every channel.
struct Grads<'a> {
    x: &'a [f32],
    dy: &'a [f32],
    dx: &'a mut [f32],
    geometry: Pool<'a>,
}

impl WithSimd for Grads<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let taps = self.geometry.taps();
        let (elements, places) = (taps.elements() * BLOCK, taps.places() * BLOCK);
        self.dx.fill(0.0);
        if elements * places == 0 {
            return;
        }
        let [width, out, kernel, stride, dilation, pad] = taps.last();
        let rows = taps.without_last();
        let images = self.x.chunks_exact(elements).zip(self.dx.chunks_exact_mut(elements));
        for ((x, dx), dy) in images.zip(self.dy.chunks_exact(places)) {
            for (place, dy) in dy.chunks_exact(BLOCK).enumerate() {
                let (row, first) = (place / out, place % out * stride);
                let window = Window { rows, row, first, kernel, dilation, pad, width };
                for lane in (0..BLOCK).step_by(S::LANES) {
                    let at = window.largest(s, &x[lane..]);
                    window.add(s, at, s.load(&dy[lane..]), &mut dx[lane..]);
                }
            }
        }
    }
}

/// The pixels of a window.
#[derive(Clone, Copy)]
struct Window<'a> {
    /// All axes but the last, and the position along them.
    rows: Taps<'a>,
    row: usize,
    /// The first column in the padded image, the number of columns, and their distance.
    first: usize,
    kernel: usize,
    dilation: usize,
    pad: usize,
    /// The width of the image.
    width: usize,
}

impl Window<'_> {
    /// Calls `visit` with the pixels inside of the image and their indices in the window.
    #[inline(always)]
    fn each_pixel(&self, mut visit: impl FnMut(usize, i32)) {
        let mut number = 0;
        for line in (0..self.rows.taps()).filter_map(|tap| self.rows.input(self.row, tap)) {
            for tap in 0..self.kernel {
                // A column before the image wraps around to a number beyond its width.
                let column = (self.first + tap * self.dilation).wrapping_sub(self.pad);
                if column < self.width {
                    visit(line * self.width + column, number);
                    number += 1;
                }
            }
        }
    }

    /// Returns the index of the pixel with the maximum or NaN of each channel; the first of equal
    /// ones.
    #[inline(always)]
    fn largest<S: Simd>(&self, s: S, x: &[f32]) -> S::I32 {
        let (mut largest, mut at) = (s.splat(f32::NEG_INFINITY), s.splat_i32(0));
        self.each_pixel(
            #[inline(always)]
            |pixel, number| {
                let x = s.load(&x[pixel * BLOCK..]);
                // Comparisons with NaN are false, and a NaN stays.
                let (less, stays) = (s.le(x, largest), s.eq(largest, largest));
                let number = s.with_bits(s.splat_i32(number));
                let is_at = s.with_bits(at);
                at = s.bits(s.select(stays, s.select(less, is_at, number), is_at));
                largest = s.select(stays, s.select(less, largest, x), largest);
            },
        );
        at
    }

    /// Adds gradients to the pixels with these indices. (All pixels are visited again, because
    /// adding vectors is faster than scattering elements.)
    #[inline(always)]
    fn add<S: Simd>(&self, s: S, at: S::I32, dy: S::F32, dx: &mut [f32]) {
        self.each_pixel(
            #[inline(always)]
            |pixel, number| {
                let dx = &mut dx[pixel * BLOCK..];
                let away = s.to_f32(s.sub_i32(at, s.splat_i32(number)));
                let zero = s.splat(0.0);
                let added = s.select(s.eq(away, zero), dy, zero);
                s.store(s.add(s.load(dx), added), dx);
            },
        );
    }
}
