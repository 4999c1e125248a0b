//! Pooling of NCHWc images with blocks of [`BLOCK`] channels, each a plane of the geometry.

use super::Pool;
use super::fold::{Counted, Largest, Mean};
use super::vectors::FoldVectors;
use crate::loops::geometry::BLOCK;
use crate::loops::window::Taps;
use crate::loops::window_axis::{Axis, TapRun};
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

/// The channels of a block at one pixel.
type Pixel = [f32; BLOCK];
/// Rows of the image that are folded together.
const ROWS: usize = 16;
/// States of a window that covers the whole image.
const STATES: usize = 8;
/// Pixels of folded rows that are kept at once.
const FOLDED: usize = 64;

impl<F: FoldVectors> WithSimd for Nchwc<'_, F> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let Nchwc { x, piece: Piece { planes, rows, mut y }, geometry, fold } = self;
        let taps = geometry.taps();
        let elements = taps.elements() * BLOCK;
        // A window that covers the image is a single row.
        let all = [taps.elements()];
        let folded = if taps.is_whole() { Taps::whole(&all) } else { taps };
        let mut memory = [[0.0; BLOCK]; FOLDED];
        let columns = Columns::of(s, fold, folded, geometry);
        for (i, plane) in planes.enumerate() {
            let x = &x[plane * elements..][..elements];
            columns.plane(x, rows.clone(), &mut memory, y.plane(i));
        }
    }
}

/// Windows along the last axis.
struct Columns<'a, S, F> {
    s: S,
    fold: F,
    taps: Taps<'a>,
    axis: Axis,
    /// The outputs whose windows are inside the image.
    inside: Range<usize>,
    /// The outputs whose columns fit in the memory of folded rows; 0 if columns are not folded
    /// first.
    at_once: usize,
    geometry: Pool<'a>,
}

impl<'a, S: Simd, F: FoldVectors> Columns<'a, S, F> {
    #[inline(always)]
    fn of(s: S, fold: F, taps: Taps<'a>, geometry: Pool<'a>) -> Self {
        let axis = Axis::last_of(&taps);
        let fit = FOLDED.checked_sub(axis.reach() + 1).map_or(0, |left| left / axis.stride + 1);
        // Windows that overlap by most of their columns share them.
        let at_once = if 2 * axis.stride < axis.kernel { fit } else { 0 };
        Columns { s, fold, inside: axis.inside(), axis, taps, at_once, geometry }
    }

    /// Folds the windows of some rows of the output.
    #[inline(always)]
    fn plane(&self, x: &[f32], rows: Range<usize>, memory: &mut [Pixel; FOLDED], y: &mut [f32]) {
        let (pixels, lines) = (x.as_chunks().0, self.taps.without_last());
        for (row, y) in rows.zip(y.chunks_exact_mut(self.axis.out * BLOCK)) {
            let (mut starts, mut count, mut seen) = ([0; ROWS], 0, 0);
            for line in lines.inputs(row) {
                if count == ROWS {
                    self.take(pixels, &starts, seen > 0, memory, y);
                    (seen, count) = (seen + ROWS, 0);
                }
                starts[count] = line * self.axis.size;
                count += 1;
            }
            self.take(pixels, &starts[..count], seen > 0, memory, y);
            let high = match self.fold.counted() {
                Some(of) if seen + count < lines.taps() => {
                    of.of(&lines, row, self.geometry.ends().0)
                }
                _ => lines.taps(),
            };
            self.finish(y, high);
        }
    }

    /// Folds lines of the image, which begin at these pixels, into the states of a row of outputs;
    /// `are_there` if there are states.
    #[inline(always)]
    fn take(
        &self,
        x: &[Pixel],
        lines: &[usize],
        are_there: bool,
        memory: &mut [Pixel; FOLDED],
        y: &mut [f32],
    ) {
        let is_whole = self.axis.kernel == self.axis.size && self.axis.is_inside();
        if let (&[line], 1, true, false) = (lines, self.axis.out, is_whole, are_there) {
            return self.whole(&x[line..][..self.axis.size], y);
        }
        if lines.len() < 2 || self.at_once == 0 {
            return self.windows(x, (lines, 0), 0..self.axis.out, are_there, y);
        }
        for first in (0..self.axis.out).step_by(self.at_once) {
            let outputs = first..self.axis.out.min(first + self.at_once);
            // Windows may begin in the padding behind the image.
            let from = (first * self.axis.stride).saturating_sub(self.axis.pad);
            let from = from.min(self.axis.size);
            let last = (outputs.end - 1) * self.axis.stride + self.axis.reach() + 1;
            let end = last.saturating_sub(self.axis.pad).min(self.axis.size);
            let columns = &mut memory[..end.saturating_sub(from)];
            self.columns(x, lines, from, columns);
            let y = &mut y[first * BLOCK..][..outputs.len() * BLOCK];
            self.windows(columns, (&[0], from), outputs, are_there, y);
        }
    }

    /// Folds all pixels of a line into the state of the only output, as several states that do not
    /// wait for one another.
    #[inline(always)]
    fn whole(&self, x: &[Pixel], y: &mut [f32]) {
        let (s, (together, last)) = (self.s, x.as_chunks::<STATES>());
        for lane in (0..BLOCK).step_by(S::LANES) {
            let mut states = [s.splat(self.fold.start()); STATES];
            for pixels in together.iter().map(|pixels| &pixels[..]).chain([last]) {
                for (state, x) in states.iter_mut().zip(pixels) {
                    *state = self.fold.take_vector(s, *state, s.load(&x[lane..]));
                }
            }
            let [first, others @ ..] = states;
            let all =
                others.into_iter().fold(first, |all, state| self.fold.take_vector(s, all, state));
            s.store(all, &mut y[lane..]);
        }
    }

    /// Folds columns of some lines, from column `from` on.
    #[inline(always)]
    fn columns(&self, x: &[Pixel], lines: &[usize], from: usize, to: &mut [Pixel]) {
        let s = self.s;
        let count = to.len();
        let line = |line: usize| &x[line + from..][..count];
        let (pairs, last) = lines.as_chunks::<2>();
        for (i, &[first, second]) in pairs.iter().enumerate() {
            let lines = line(first).iter().zip(line(second));
            for (to, (first, second)) in to.iter_mut().zip(lines) {
                for lane in (0..BLOCK).step_by(S::LANES) {
                    let before =
                        if i == 0 { s.splat(self.fold.start()) } else { s.load(&to[lane..]) };
                    let state = self.fold.take_vector(s, before, s.load(&first[lane..]));
                    let state = self.fold.take_vector(s, state, s.load(&second[lane..]));
                    s.store(state, &mut to[lane..]);
                }
            }
        }
        for &last in last {
            for (to, x) in to.iter_mut().zip(line(last)) {
                for lane in (0..BLOCK).step_by(S::LANES) {
                    let x = s.load(&x[lane..]);
                    s.store(self.fold.take_vector(s, s.load(&to[lane..]), x), &mut to[lane..]);
                }
            }
        }
    }

    /// Folds windows of lines, which begin at these pixels and with column `start`, into the states
    /// of some outputs; `are_there` if there are states.
    #[inline(always)]
    fn windows(
        &self,
        x: &[Pixel],
        (lines, start): (&[usize], usize),
        outputs: Range<usize>,
        are_there: bool,
        mut y: &mut [f32],
    ) {
        let mut place = outputs.start;
        while place < outputs.end {
            let TapRun { count, mut from, taps } =
                self.axis.tap_run(&self.inside, place, outputs.end);
            let of = (lines, taps.len(), are_there);
            let (mut run, later) = mem::take(&mut y).split_at_mut(count * BLOCK);
            y = later;
            while !run.is_empty() {
                let at_once = if run.len() >= 4 * BLOCK { 4 } else { 1 };
                let (now, later) = mem::take(&mut run).split_at_mut(at_once * BLOCK);
                // A window outside the image has no taps.
                let x = x.get(from.saturating_sub(start)..).unwrap_or(&[]);
                match at_once {
                    4 => self.places::<4>(x, of, now),
                    _ => self.places::<1>(x, of, now),
                }
                from += at_once * self.axis.stride;
                run = later;
            }
            place += count;
        }
    }

    /// Folds a few outputs, whose windows cover columns from the first of `x`.
    #[inline(always)]
    fn places<const PLACES: usize>(
        &self,
        x: &[Pixel],
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
                    let x = &x[line + tap * dilation..];
                    for (place, state) in states.iter_mut().enumerate() {
                        let x = s.load(&x[place * stride][lane..]);
                        *state = self.fold.take_vector(s, *state, x);
                    }
                }
            }
            for (&state, y) in states.iter().zip(y.chunks_exact_mut(BLOCK)) {
                s.store(state, &mut y[lane..]);
            }
        }
    }

    /// Computes the results from the states of a row of outputs, of whose windows `high` lines
    /// count.
    #[inline(always)]
    fn finish(&self, y: &mut [f32], high: usize) {
        let Some(of) = self.fold.counted() else { return };
        let (s, taps, ends) = (self.s, self.taps.only_last(), self.geometry.ends().1);
        for (place, y) in y.chunks_exact_mut(BLOCK).enumerate() {
            let count = match self.inside.contains(&place) {
                true => self.axis.kernel,
                false => of.of(&taps, place, ends),
            };
            let count = s.splat((high * count) as f32);
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
        for line in self.rows.inputs(self.row) {
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
