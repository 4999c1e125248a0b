//! Pooling of `f32` with SIMD. The rows of windows are folded first, column by column, then the
//! columns, which a stride of two separates. Several rows of the output are computed together,
//! because reading with other alignment what was just written is slow.

use super::Pool;
use super::fold::{Counted, Fold, Largest, LargestNumber, Mean};
use crate::kernels::conv::{Axis, TapRun};
use crate::loops::fold::fold_at;
use crate::loops::window::Taps;
use crate::simd::{MAX_LANES, Simd, WithSimd};
use core::ops::Range;

/// A fold whose state is one element, so that it can be a vector. Every method must be
/// `#[inline(always)]`.
pub(super) trait FoldVectors: Fold<f32, State = f32> {
    /// [`Fold::take`] for vectors.
    fn take_vector<S: Simd>(self, s: S, state: S::F32, x: S::F32) -> S::F32;
    /// [`Fold::finish`] for vectors.
    fn finish_vector<S: Simd>(self, s: S, state: S::F32, counts: S::F32) -> S::F32;
    /// Returns the fold, if it is faster, that has the same results where no element is NaN. The
    /// check takes as long as a few elements of each window.
    fn of_numbers(self) -> Option<impl FoldVectors>;
}

impl FoldVectors for Largest {
    #[inline(always)]
    fn take_vector<S: Simd>(self, s: S, state: S::F32, x: S::F32) -> S::F32 {
        // The maximum instruction returns `state` if either operand is NaN; a NaN in `x` must win.
        s.select(s.eq(x, x), s.max(x, state), x)
    }
    #[inline(always)]
    fn finish_vector<S: Simd>(self, _: S, state: S::F32, _: S::F32) -> S::F32 {
        state
    }
    #[inline(always)]
    fn of_numbers(self) -> Option<impl FoldVectors> {
        Some(LargestNumber)
    }
}

impl FoldVectors for LargestNumber {
    #[inline(always)]
    fn take_vector<S: Simd>(self, s: S, state: S::F32, x: S::F32) -> S::F32 {
        s.max(x, state)
    }
    #[inline(always)]
    fn finish_vector<S: Simd>(self, _: S, state: S::F32, _: S::F32) -> S::F32 {
        state
    }
    #[inline(always)]
    fn of_numbers(self) -> Option<impl FoldVectors> {
        None::<LargestNumber>
    }
}

impl FoldVectors for Mean {
    #[inline(always)]
    fn take_vector<S: Simd>(self, s: S, state: S::F32, x: S::F32) -> S::F32 {
        s.add(state, x)
    }
    #[inline(always)]
    fn finish_vector<S: Simd>(self, s: S, state: S::F32, counts: S::F32) -> S::F32 {
        s.div(state, counts)
    }
    #[inline(always)]
    fn of_numbers(self) -> Option<impl FoldVectors> {
        None::<Mean>
    }
}

/// Returns whether no element is NaN or infinite.
#[inline(always)]
pub(super) fn are_finite<S: Simd>(s: S, x: &[f32]) -> bool {
    let zero = s.splat(0.0);
    // A product of zero and an infinity, too, is NaN.
    let products = fold_at(
        s,
        x,
        0.0,
        #[inline(always)]
        |sum, x| s.mul_add(x, zero, sum),
    );
    s.sum(products) == 0.0
}

/// The elements of a window from which on a check for NaN is worth it.
pub(super) const CHECKED_TAPS: usize = 16;

/// Columns of the output that are computed together.
const PLACES: usize = 128;
/// Columns of folded rows that are stored together.
const COLUMNS: usize = 512;

/// A number of taps that is known only at run time.
const ANY: usize = 0;

/// The index of each lane.
const LANE_INDICES: [f32; MAX_LANES] = {
    let mut indices = [0.0; MAX_LANES];
    let mut i = 1;
    while i < MAX_LANES {
        indices[i] = indices[i - 1] + 1.0;
        i += 1;
    }
    indices
};

/// Folds every window of at most two axes if neighbors are one or two columns apart. Returns
/// whether it did.
#[inline(always)]
pub(super) fn fold_vectors<S: Simd, F: FoldVectors>(
    s: S,
    x: &[f32],
    y: &mut [f32],
    geometry: Pool<'_>,
    fold: F,
) -> bool {
    let taps = geometry.taps();
    let (h, w) = (Axis::last_of(&taps.without_last()), Axis::last_of(&taps));
    let at_once = COLUMNS.saturating_sub(w.reach()).checked_div(w.stride).unwrap_or(0);
    if taps.is_whole() || taps.size.len() > 2 || at_once < S::LANES {
        return false;
    }
    let windows = Windows { geometry, h, w, at_once: at_once.min(PLACES), fold };
    match w.stride {
        1 => windows.fold::<S, 1>(s, x, y),
        2 => windows.fold::<S, 2>(s, x, y),
        _ => return false,
    }
    true
}

/// Windows that are as large as the image, in a function of their own.
pub(super) struct Whole<'a, F> {
    pub x: &'a [f32],
    pub y: &'a mut [f32],
    /// The elements of an image.
    pub size: usize,
    pub fold: F,
}

impl<F: FoldVectors> WithSimd for Whole<'_, F> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let Whole { x, y, size, fold } = self;
        // An image without elements has a result, too.
        for (plane, y) in y.iter_mut().enumerate() {
            let x = &x[plane * size..][..size];
            let states = fold_at(
                s,
                x,
                fold.start(),
                #[inline(always)]
                |state, x| fold.take_vector(s, state, x),
            );
            let state = s.fold(
                states,
                #[inline(always)]
                |a, b| fold.join(a, b),
            );
            *y = fold.finish(state, size);
        }
    }
}

/// Windows over rows and columns.
struct Windows<'a, F> {
    geometry: Pool<'a>,
    h: Axis,
    w: Axis,
    /// The columns of the output that fit in the scratch memory.
    at_once: usize,
    fold: F,
}

/// Adjacent columns of the output.
#[derive(Clone, Copy)]
struct Part {
    /// The first column and the number of columns.
    first: usize,
    count: usize,
    /// The number of columns of their windows before the image.
    skip: usize,
    /// The columns of the image that they cover: the first one and their number.
    from: usize,
    seen: usize,
    /// The row stride of the folded rows, in elements.
    pitch: usize,
}

/// Scratch memory of folded rows.
struct Scratch {
    columns: [f32; COLUMNS],
    /// The number of counted elements of the windows along the last axis.
    counts: [f32; PLACES],
    /// The first output column that the counts are for.
    first: Option<usize>,
}

impl<F: FoldVectors> Windows<'_, F> {
    /// Folds all windows, whose columns are `STRIDE` apart.
    #[inline(always)]
    fn fold<S: Simd, const STRIDE: usize>(&self, s: S, x: &[f32], y: &mut [f32]) {
        let Windows { geometry, h, w, at_once, fold } = *self;
        let mut scratch = Scratch { columns: [0.0; COLUMNS], counts: [1.0; PLACES], first: None };
        let size = h.size * w.size;
        for (plane, y) in y.chunks_exact_mut((h.out * w.out).max(1)).enumerate() {
            // The last vectors may read beyond the plane, together with its end.
            let x = &x[plane * size..];
            if h.kernel * w.kernel >= CHECKED_TAPS
                && let Some(fold) = fold.of_numbers()
                && are_finite(s, &x[..size])
            {
                let windows = Windows { geometry, h, w, at_once, fold };
                windows.plane::<S, STRIDE>(s, x, &mut scratch, y);
            } else {
                self.plane::<S, STRIDE>(s, x, &mut scratch, y);
            }
        }
    }

    /// Folds the windows of a plane, with which `x` begins.
    #[inline(always)]
    fn plane<S: Simd, const STRIDE: usize>(
        &self,
        s: S,
        x: &[f32],
        scratch: &mut Scratch,
        y: &mut [f32],
    ) {
        let Windows { h, w, .. } = *self;
        let inside = h.inside();
        for first in (0..w.out).step_by(self.at_once) {
            let part = self.part::<S>(first);
            self.prepare(&part, scratch);
            if STRIDE == 2 && self.are_pairs(&part) && h.kernel == 2 && inside == (0..h.out) {
                self.join_quads(s, x, &part, y);
                continue;
            }
            if STRIDE == 2 && self.are_pairs(&part) {
                for (i, y) in y.chunks_exact_mut(w.out).enumerate() {
                    let (high, rows) = (self.high(i, &inside), h.tap_run(&inside, i, i + 1));
                    let y = &mut y[part.first..][..part.count];
                    self.join_pairs(s, x, &rows, &part, (high, &scratch.counts), y);
                }
                continue;
            }
            let rows = COLUMNS / part.pitch;
            for (band, y) in y.chunks_mut(rows * w.out).enumerate() {
                let row = |i: usize| band * rows + i;
                let lines = scratch.columns.chunks_exact_mut(part.pitch);
                for (i, line) in lines.enumerate().take(y.len() / w.out) {
                    let taps = h.tap_run(&inside, row(i), row(i) + 1);
                    match taps.taps.len() {
                        3 => self.gather::<S, 3>(s, x, &taps, &part, line),
                        5 => self.gather::<S, 5>(s, x, &taps, &part, line),
                        _ => self.gather::<S, ANY>(s, x, &taps, &part, line),
                    }
                }
                let lines = scratch.columns.chunks_exact(part.pitch);
                for (i, line) in lines.enumerate().take(y.len() / w.out) {
                    let counts = (self.high(row(i), &inside), &scratch.counts);
                    let y = &mut y[i * w.out + part.first..];
                    match w.kernel {
                        3 => self.join::<S, STRIDE, 3>(s, line, counts, part.count, y),
                        5 => self.join::<S, STRIDE, 5>(s, line, counts, part.count, y),
                        _ => self.join::<S, STRIDE, ANY>(s, line, counts, part.count, y),
                    }
                }
            }
        }
    }

    /// Returns as many columns of the output as fit, or as are left.
    #[inline(always)]
    fn part<S: Simd>(&self, first: usize) -> Part {
        let w = &self.w;
        let count = self.at_once.min(w.out - first);
        let start = first * w.stride;
        let span = (count - 1) * w.stride + w.reach() + 1;
        let (skip, from) = (w.pad.saturating_sub(start).min(span), start.saturating_sub(w.pad));
        let seen = w.size.saturating_sub(from).min(span - skip);
        // Vectors are full.
        let pitch = count.max(S::LANES) * w.stride + w.reach();
        Part { first, count, skip, from, seen, pitch }
    }

    /// Initializes what all rows share: empty states, and counts.
    #[inline(always)]
    fn prepare(&self, part: &Part, scratch: &mut Scratch) {
        if scratch.first.replace(part.first) == Some(part.first) {
            return;
        }
        scratch.columns.fill(self.fold.start());
        if let Some(of) = self.fold.counted() {
            let inside = self.w.inside();
            for (place, count) in (part.first..).zip(&mut scratch.counts[..part.count]) {
                *count = self.count(of, 1, place, &inside) as f32;
            }
        }
    }

    /// Returns the number of counted rows of a window.
    #[inline(always)]
    fn high(&self, row: usize, inside: &Range<usize>) -> f32 {
        self.fold.counted().map_or(1, |of| self.count(of, 0, row, inside)) as f32
    }

    /// Returns the number of counted elements of a window along the first or the last axis; windows
    /// at `inside` are complete.
    #[inline(always)]
    fn count(&self, of: Counted, axis: usize, place: usize, inside: &Range<usize>) -> usize {
        let (all, (above, last)) = (self.geometry.taps(), self.geometry.ends());
        let (kernel, taps, ends): (_, Taps<'_>, _) = match axis {
            0 => (self.h.kernel, all.without_last(), above),
            _ => (self.w.kernel, all.only_last(), last),
        };
        if inside.contains(&place) { kernel } else { of.of(&taps, place, ends) }
    }

    /// Returns whether the windows are pairs of adjacent columns that do not overlap.
    #[inline(always)]
    fn are_pairs(&self, part: &Part) -> bool {
        let Axis { kernel, dilation, .. } = self.w;
        kernel == 2 && dilation == 1 && part.skip == 0 && part.seen == 2 * part.count
    }

    /// Computes the results of a plane for windows of two rows and two columns inside of the image.
    #[inline(always)]
    fn join_quads<S: Simd>(&self, s: S, x: &[f32], part: &Part, y: &mut [f32]) {
        let Windows { h, w, fold, .. } = *self;
        let (below, counts) = (h.dilation * w.size, s.splat(4.0));
        for (i, y) in y.chunks_exact_mut(w.out).enumerate() {
            let x = &x[(i * h.stride - h.pad) * w.size + part.from..];
            let y = &mut y[part.first..][..part.count];
            for i in (0..y.len()).step_by(S::LANES) {
                let i = again::<S>(i, y.len());
                let (first, second) = (2 * i, 2 * i + S::LANES);
                let second = fold.take_vector(s, load(s, x, second), load(s, x, second + below));
                let first = fold.take_vector(s, load(s, x, first), load(s, x, first + below));
                let [evens, odds] = s.evens_and_odds(first, second);
                let state = fold.take_vector(s, evens, odds);
                store(s, fold.finish_vector(s, state, counts), &mut y[i..]);
            }
        }
    }

    /// Computes the results of windows of two columns; the folded rows stay in registers.
    #[inline(always)]
    fn join_pairs<S: Simd>(
        &self,
        s: S,
        x: &[f32],
        rows: &TapRun,
        part: &Part,
        (high, counts): (f32, &[f32; PLACES]),
        y: &mut [f32],
    ) {
        let fold = self.fold;
        for i in (0..y.len()).step_by(S::LANES) {
            let i = again::<S>(i, y.len());
            let first = self.column::<S, ANY>(s, x, rows, part.from + 2 * i);
            let second = self.column::<S, ANY>(s, x, rows, part.from + 2 * i + S::LANES);
            let [evens, odds] = s.evens_and_odds(first, second);
            let state = fold.take_vector(s, evens, odds);
            let counts = s.mul(s.splat(high), s.load(&counts[i..]));
            store(s, fold.finish_vector(s, state, counts), &mut y[i..]);
        }
    }

    /// Folds rows of the image at one vector of columns. There are `N` rows, or [`ANY`] number.
    #[inline(always)]
    fn column<S: Simd, const N: usize>(
        &self,
        s: S,
        x: &[f32],
        rows: &TapRun,
        from: usize,
    ) -> S::F32 {
        let Windows { h, w, fold, .. } = *self;
        let (first, step) = (rows.from * w.size + from, h.dilation * w.size);
        let count = if N == ANY { rows.taps.len() } else { N };
        let mut state = s.splat(fold.start());
        // One check for all rows, except at the end of the last plane.
        let span = count.saturating_sub(1) * step + S::LANES;
        if let Some(x) = x.get(first..first + span) {
            for row in x.windows(S::LANES).step_by(step.max(1)).take(count) {
                state = fold.take_vector(s, state, s.load(row));
            }
            return state;
        }
        for row in 0..count {
            state = fold.take_vector(s, state, load(s, x, first + row * step));
        }
        state
    }

    /// Folds the rows of the windows of a row of outputs.
    #[inline(always)]
    fn gather<S: Simd, const N: usize>(
        &self,
        s: S,
        x: &[f32],
        rows: &TapRun,
        part: &Part,
        line: &mut [f32],
    ) {
        let line = &mut line[part.skip..];
        if part.seen < S::LANES && line.len() >= S::LANES {
            // A whole vector, whose lanes behind the image stay empty.
            let inside = s.lt(s.load(&LANE_INDICES), s.splat(part.seen as f32));
            let state = self.column::<S, N>(s, x, rows, part.from);
            return s.store(s.select(inside, state, s.splat(self.fold.start())), line);
        }
        let line = &mut line[..part.seen];
        for i in (0..part.seen).step_by(S::LANES) {
            let i = again::<S>(i, part.seen);
            store(s, self.column::<S, N>(s, x, rows, part.from + i), &mut line[i..]);
        }
    }

    /// Computes the results from the folded columns of a row of `count` outputs, with which `y`
    /// begins. Windows have `N` columns, or [`ANY`] number.
    #[inline(always)]
    fn join<S: Simd, const STRIDE: usize, const N: usize>(
        &self,
        s: S,
        line: &[f32],
        (high, counts): (f32, &[f32; PLACES]),
        count: usize,
        y: &mut [f32],
    ) {
        let (fold, Axis { dilation, out, .. }) = (self.fold, self.w);
        let kernel = if N == ANY { self.w.kernel } else { N };
        // The next row overwrites what a whole vector stores of it.
        let is_short = count == out && count < S::LANES && y.len() >= S::LANES;
        let y = &mut y[..if is_short { S::LANES } else { count }];
        for i in (0..count).step_by(S::LANES) {
            let i = again::<S>(i, count);
            let mut state = s.splat(fold.start());
            let mut tap = 0;
            while tap < kernel {
                let columns = &line[i * STRIDE + tap * dilation..];
                let first = s.load(columns);
                tap += 1;
                if STRIDE == 1 {
                    state = fold.take_vector(s, state, first);
                    continue;
                }
                let [evens, odds] = s.evens_and_odds(first, s.load(&columns[S::LANES..]));
                state = fold.take_vector(s, state, evens);
                if dilation == 1 && tap < kernel {
                    state = fold.take_vector(s, state, odds);
                    tap += 1;
                }
            }
            let counts = s.mul(s.splat(high), s.load(&counts[i..]));
            store(s, fold.finish_vector(s, state, counts), &mut y[i..]);
        }
    }
}

/// Returns the start of a vector at `i` of `n` elements: the last vector overlaps the one before
/// it, if there are enough elements.
#[inline(always)]
fn again<S: Simd>(i: usize, n: usize) -> usize {
    i.min(n.saturating_sub(S::LANES))
}

/// Loads a vector.
#[inline(always)]
fn load<S: Simd>(s: S, x: &[f32], at: usize) -> S::F32 {
    match x.get(at..at + S::LANES) {
        Some(x) => s.load(x),
        None => s.load_head(x.get(at..).unwrap_or(&[])),
    }
}

#[inline(always)]
fn store<S: Simd>(s: S, x: S::F32, to: &mut [f32]) {
    if to.len() >= S::LANES { s.store(x, to) } else { s.store_head(x, to) }
}
