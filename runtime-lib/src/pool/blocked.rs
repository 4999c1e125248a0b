//! Pools of images whose channels stand in blocks of [`BLOCK`], each a plane of the geometry.

use super::Pool;
use super::fold::{Counted, Fold, Largest, Mean};
use crate::gemm::BLOCK;
use crate::simd::{Simd, WithSimd, dispatch};
use crate::taps::Taps;
use crate::threads::{By, Piece, Share};

/// The largest element of each window of each channel; NaN where one is.
#[inline(never)]
pub fn max_pool_in_blocks(x: &[f32], y: &mut [f32], geometry: Pool<'_>) {
    in_blocks(x, y, geometry, Largest);
}

/// The mean of the elements of each window that lie in the image.
#[inline(never)]
pub fn average_pool_in_blocks(x: &[f32], y: &mut [f32], geometry: Pool<'_>) {
    in_blocks(x, y, geometry, Mean(Counted::InImage));
}

/// The mean of the elements of each window that lie in the image or its padding, which is zero.
#[inline(never)]
pub fn average_pool_padded_in_blocks(x: &[f32], y: &mut [f32], geometry: Pool<'_>) {
    in_blocks(x, y, geometry, Mean(Counted::Padded));
}

#[inline(always)]
fn in_blocks(x: &[f32], y: &mut [f32], geometry: Pool<'_>, fold: impl Fold<f32, State = f32>) {
    let taps = geometry.taps();
    let (places, [_, out, ..]) = (taps.places() * BLOCK, taps.last());
    let cost = x.len() + y.len();
    Share::of(y, places).hand_out(out * BLOCK, By::Rows, cost, |piece| {
        dispatch(InBlocks { x, piece, geometry, fold });
    });
}

/// A fold of the windows of every channel.
struct InBlocks<'a, F> {
    x: &'a [f32],
    piece: Piece<'a, f32>,
    geometry: Pool<'a>,
    fold: F,
}

impl<F: Fold<f32, State = f32>> WithSimd for InBlocks<'_, F> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        let InBlocks { x, piece: Piece { planes, rows: of, mut y }, geometry, fold } = self;
        let taps = geometry.taps();
        let elements = taps.elements() * BLOCK;
        // A window that is the image is a single row of both.
        let all = [taps.elements()];
        let folded = if taps.is_whole() { Taps::whole(&all) } else { taps };
        let [size, out, ..] = folded.last();
        let rows = folded.without_last();
        for (i, plane) in planes.enumerate() {
            let x = &x[plane * elements..][..elements];
            for (row, y) in of.clone().zip(y.plane(i).chunks_exact_mut(out * BLOCK)) {
                y.fill(fold.start());
                for from in (0..rows.taps()).filter_map(|tap| rows.input(row, tap)) {
                    let x = &x[from * size * BLOCK..][..size * BLOCK];
                    take(x, y, folded.last(), fold);
                }
                finish(y, row * out, geometry, fold);
            }
        }
    }
}

/// Takes a row of the image into the states of a row of places, as the last axis tells.
#[inline(always)]
fn take<F: Fold<f32, State = f32>>(x: &[f32], y: &mut [f32], last: [usize; 6], fold: F) {
    let [_, _, kernel, stride, dilation, pad] = last;
    for (place, y) in y.chunks_exact_mut(BLOCK).enumerate() {
        let mut state = [0.0; BLOCK];
        state.copy_from_slice(y);
        for tap in 0..kernel {
            // What lies before the image wraps around, to behind it.
            let at = (place * stride + tap * dilation).wrapping_sub(pad).wrapping_mul(BLOCK);
            let Some((x, _)) = x.get(at..).and_then(|x| x.split_first_chunk::<BLOCK>()) else {
                continue;
            };
            for (state, &x) in state.iter_mut().zip(x) {
                *state = fold.take(*state, x);
            }
        }
        y.copy_from_slice(&state);
    }
}

/// Makes results of the states from a place on.
#[inline(always)]
fn finish<F: Fold<f32, State = f32>>(y: &mut [f32], first: usize, geometry: Pool<'_>, fold: F) {
    let taps = geometry.taps();
    for (i, y) in y.chunks_exact_mut(BLOCK).enumerate() {
        let count = fold.counted().map_or(1, |of| of.of(&taps, first + i, geometry.ends));
        y.iter_mut().for_each(|y| *y = fold.finish(*y, count));
    }
}

/// The derivative of [`max_pool_in_blocks`] by the image: that by each window's largest element goes to
/// the first that is as large, or NaN.
#[inline(never)]
pub fn max_pool_gradient_in_blocks(x: &[f32], dy: &[f32], dx: &mut [f32], geometry: Pool<'_>) {
    dispatch(Slopes { x, dy, dx, geometry });
}

/// The derivatives of the largest elements of every channel.
struct Slopes<'a> {
    x: &'a [f32],
    dy: &'a [f32],
    dx: &'a mut [f32],
    geometry: Pool<'a>,
}

impl WithSimd for Slopes<'_> {
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

/// The pixels that an element of the result is taken of.
#[derive(Clone, Copy)]
struct Window<'a> {
    /// All axes but the last, and the place along them.
    rows: Taps<'a>,
    row: usize,
    /// The first column, in the padded image, and how many there are, how far apart.
    first: usize,
    kernel: usize,
    dilation: usize,
    pad: usize,
    /// How many columns the image has.
    width: usize,
}

impl Window<'_> {
    /// Visits those that are in the image, each with its number among them.
    #[inline(always)]
    fn each_pixel(&self, mut visit: impl FnMut(usize, i32)) {
        let mut number = 0;
        for line in (0..self.rows.taps()).filter_map(|tap| self.rows.input(self.row, tap)) {
            for tap in 0..self.kernel {
                // Before the image that is a number so large that there is no such column.
                let column = (self.first + tap * self.dilation).wrapping_sub(self.pad);
                if column < self.width {
                    visit(line * self.width + column, number);
                    number += 1;
                }
            }
        }
    }

    /// The number of the pixel that each channel is largest at, or NaN: the first such one.
    #[inline(always)]
    fn largest<S: Simd>(&self, s: S, x: &[f32]) -> S::I32 {
        let (mut largest, mut at) = (s.splat(f32::NEG_INFINITY), s.splat_i32(0));
        self.each_pixel(
            #[inline(always)]
            |pixel, number| {
                let x = s.load(&x[pixel * BLOCK..]);
                // Neither is less or equal where one is NaN, and NaN stays.
                let (less, stays) = (s.le(x, largest), s.eq(largest, largest));
                let number = s.with_bits(s.splat_i32(number));
                let is_at = s.with_bits(at);
                at = s.bits(s.select(stays, s.select(less, is_at, number), is_at));
                largest = s.select(stays, s.select(less, largest, x), largest);
            },
        );
        at
    }

    /// Adds derivatives to those of the pixels that have these numbers. (All pixels are visited once
    /// more, as vectors are added sooner than numbers are scattered.)
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
