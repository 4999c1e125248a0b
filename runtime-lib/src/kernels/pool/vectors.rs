//! Pooling of `f32` with SIMD. The rows of windows are folded first, column by column, then the
//! columns, which a stride of two separates, and a larger one reads one by one. Several rows of
//! the output are computed together, because reading with other alignment what was just written is
//! slow.

use super::Pool;
use super::fold::{Fold, Largest, Mean};
use crate::loops::fold::fold_at;
use crate::loops::window_axis::{Axis, TapRun};
use crate::simd::{MAX_LANES, Simd, WithSimd};

/// A fold whose state is one element, so that it can be a vector. Every method must be
/// `#[inline(always)]`.
pub(super) trait FoldVectors: Fold<f32, State = f32> {
    /// [`Fold::take`] for vectors.
    fn take_vector<S: Simd>(self, s: S, state: S::F32, x: S::F32) -> S::F32;
    /// [`Fold::finish`] for vectors.
    fn finish_vector<S: Simd>(self, s: S, state: S::F32, counts: S::F32) -> S::F32;
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
}

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

/// Folds every window of at most three axes, unless one is too wide for the scratch memory.
/// Returns whether it did.
pub(super) struct FoldWindows<'a, F> {
    pub x: &'a [f32],
    pub y: &'a mut [f32],
    pub geometry: Pool<'a>,
    pub fold: F,
}

impl<F: FoldVectors> WithSimd for FoldWindows<'_, F> {
    type Output = bool;

    #[inline(always)]
    fn run<S: Simd>(self, s: S) -> bool {
        let FoldWindows { x, y, geometry, fold } = self;
        let taps = geometry.taps();
        let (d, h) = (taps.without_last().without_last(), taps.without_last());
        let axes = [d, h, taps].map(|taps| Axis::last_of(&taps));
        let w = axes[2];
        let at_once = COLUMNS.saturating_sub(w.reach()).checked_div(w.stride).unwrap_or(0);
        if taps.size.len() > 3 || at_once < columns::<S>(&w, 1) {
            return false;
        }
        Windows { geometry, axes, at_once: at_once.min(PLACES), fold }.fold(s, x, y);
        true
    }
}

/// Returns how many columns of the output are computed for `count`: vectors are full.
#[inline(always)]
fn columns<S: Simd>(w: &Axis, count: usize) -> usize {
    if w.stride <= 2 { count.max(S::LANES) } else { count }
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

/// Windows over slices, rows and columns.
struct Windows<'a, F> {
    geometry: Pool<'a>,
    /// The slices, the rows and the columns.
    axes: [Axis; 3],
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

/// The slices of the image that a slice of outputs depends on.
#[derive(Clone, Copy)]
struct Slices {
    first: usize,
    count: usize,
    /// The number of slices that are counted.
    deep: usize,
}

/// The rows of the image that a row of outputs depends on.
struct Rows {
    /// The first row of the first slice.
    first: usize,
    /// The number of rows of each slice.
    count: usize,
    slices: usize,
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
    /// Folds all windows.
    #[inline(always)]
    fn fold<S: Simd>(&self, s: S, x: &[f32], y: &mut [f32]) {
        let [d, h, w] = self.axes;
        let mut scratch = Scratch { columns: [0.0; COLUMNS], counts: [1.0; PLACES], first: None };
        let (size, inside) = (d.size * h.size * w.size, d.inside());
        for (at, y) in y.chunks_exact_mut((h.out * w.out).max(1)).enumerate() {
            let (plane, slice) = if d.out == 1 { (at, 0) } else { (at / d.out, at % d.out) };
            // The last vectors may read beyond the plane, together with its end.
            let x = &x[plane * size..];
            let TapRun { from, taps, .. } = d.tap_run(&inside, slice, slice + 1);
            let slices = Slices { first: from, count: taps.len(), deep: self.count(0, slice) };
            self.slice(s, x, slices, &mut scratch, y);
        }
    }

    /// Folds the windows of a slice of the output, which depend on slices of the plane with which
    /// `x` begins.
    #[inline(always)]
    fn slice<S: Simd>(
        &self,
        s: S,
        x: &[f32],
        slices: Slices,
        scratch: &mut Scratch,
        y: &mut [f32],
    ) {
        let [_, h, w] = self.axes;
        let inside = h.inside();
        let high = |row: usize| {
            let is_inside = inside.contains(&row) || self.fold.counted().is_none();
            slices.deep * if is_inside { h.kernel } else { self.count(1, row) }
        };
        let rows_of = |row: usize| {
            let TapRun { from, taps, .. } = h.tap_run(&inside, row, row + 1);
            Rows { first: slices.first * h.size + from, count: taps.len(), slices: slices.count }
        };
        for first in (0..w.out).step_by(self.at_once) {
            let part = self.part::<S>(first);
            self.prepare(&part, scratch);
            let are_pairs = w.stride == 2 && self.are_pairs(&part);
            let is_flat = slices.count == 1 && slices.deep == 1;
            if are_pairs && is_flat && h.kernel == 2 && inside == (0..h.out) {
                self.join_quads(s, x, &part, slices.first, y);
                continue;
            }
            if are_pairs {
                for (row, y) in y.chunks_exact_mut(w.out).enumerate() {
                    let counts = (high(row) as f32, &scratch.counts);
                    let y = &mut y[part.first..][..part.count];
                    self.join_pairs(s, x, &rows_of(row), &part, counts, y);
                }
                continue;
            }
            let rows = COLUMNS / part.pitch;
            for (band, y) in y.chunks_mut(rows * w.out).enumerate() {
                let row = |i: usize| band * rows + i;
                let lines = scratch.columns.chunks_exact_mut(part.pitch);
                for (i, line) in lines.enumerate().take(y.len() / w.out) {
                    let rows = rows_of(row(i));
                    match (rows.slices, rows.count) {
                        (1, 3) => self.gather::<S, 3, false>(s, x, &rows, &part, line),
                        (1, 5) => self.gather::<S, 5, false>(s, x, &rows, &part, line),
                        (1, _) => self.gather::<S, ANY, false>(s, x, &rows, &part, line),
                        _ => self.gather::<S, ANY, true>(s, x, &rows, &part, line),
                    }
                }
                let lines = scratch.columns.chunks_exact(part.pitch);
                for (i, line) in lines.enumerate().take(y.len() / w.out) {
                    let counts = (high(row(i)) as f32, &scratch.counts);
                    let y = &mut y[i * w.out + part.first..];
                    match (w.stride, w.kernel) {
                        (1, 3) => self.join::<S, 1, 3>(s, line, counts, part.count, y),
                        (1, 5) => self.join::<S, 1, 5>(s, line, counts, part.count, y),
                        (1, _) => self.join::<S, 1, ANY>(s, line, counts, part.count, y),
                        (2, 3) => self.join::<S, 2, 3>(s, line, counts, part.count, y),
                        (2, 5) => self.join::<S, 2, 5>(s, line, counts, part.count, y),
                        (2, _) => self.join::<S, 2, ANY>(s, line, counts, part.count, y),
                        _ => self.join_apart(line, counts, &mut y[..part.count]),
                    }
                }
            }
        }
    }

    /// Returns the number of counted elements of a window along an axis, or 1.
    #[inline(never)]
    fn count(&self, axis: usize, place: usize) -> usize {
        let (all, ends) = (self.geometry.taps(), self.geometry.ends);
        // The last of the three axes is the last one of the window.
        let Some(axis) = (axis + all.size.len()).checked_sub(3) else { return 1 };
        let Some(of) = self.fold.counted() else { return 1 };
        of.of(&all.only(axis), place, &ends[axis..=axis])
    }

    /// Returns as many columns of the output as fit, or as are left.
    #[inline(always)]
    fn part<S: Simd>(&self, first: usize) -> Part {
        let [_, _, w] = &self.axes;
        let count = self.at_once.min(w.out - first);
        let start = first * w.stride;
        let span = (count - 1) * w.stride + w.reach() + 1;
        let (skip, from) = (w.pad.saturating_sub(start).min(span), start.saturating_sub(w.pad));
        let seen = w.size.saturating_sub(from).min(span - skip);
        let pitch = columns::<S>(w, count) * w.stride + w.reach();
        Part { first, count, skip, from, seen, pitch }
    }

    /// Initializes what all rows share: empty states, and counts.
    #[inline(always)]
    fn prepare(&self, part: &Part, scratch: &mut Scratch) {
        if scratch.first.replace(part.first) == Some(part.first) {
            return;
        }
        scratch.columns.fill(self.fold.start());
        if self.fold.counted().is_some() {
            let [_, _, w] = self.axes;
            let inside = w.inside();
            for (place, count) in (part.first..).zip(&mut scratch.counts[..part.count]) {
                let seen = if inside.contains(&place) { w.kernel } else { self.count(2, place) };
                *count = seen as f32;
            }
        }
    }

    /// Returns whether the windows are pairs of adjacent columns that do not overlap.
    #[inline(always)]
    fn are_pairs(&self, part: &Part) -> bool {
        let [_, _, Axis { kernel, dilation, .. }] = self.axes;
        kernel == 2 && dilation == 1 && part.skip == 0 && part.seen == 2 * part.count
    }

    /// Computes the results of a plane for windows of two rows and two columns inside of the image.
    #[inline(always)]
    fn join_quads<S: Simd>(&self, s: S, x: &[f32], part: &Part, slice: usize, y: &mut [f32]) {
        let Windows { axes: [_, h, w], fold, .. } = *self;
        let (below, counts) = (h.dilation * w.size, s.splat(4.0));
        for (i, y) in y.chunks_exact_mut(w.out).enumerate() {
            let x = &x[(slice * h.size + i * h.stride - h.pad) * w.size + part.from..];
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
        rows: &Rows,
        part: &Part,
        (high, counts): (f32, &[f32; PLACES]),
        y: &mut [f32],
    ) {
        let fold = self.fold;
        for i in (0..y.len()).step_by(S::LANES) {
            let i = again::<S>(i, y.len());
            let first = self.column::<S, ANY, true>(s, x, rows, part.from + 2 * i);
            let second = self.column::<S, ANY, true>(s, x, rows, part.from + 2 * i + S::LANES);
            let [evens, odds] = s.evens_and_odds(first, second);
            let state = fold.take_vector(s, evens, odds);
            let counts = s.mul(s.splat(high), s.load(&counts[i..]));
            store(s, fold.finish_vector(s, state, counts), &mut y[i..]);
        }
    }

    /// Folds rows of the image at one vector of columns. There are `N` rows, or
    /// [`ANY`] number.
    #[inline(always)]
    fn column<S: Simd, const N: usize, const MANY: bool>(
        &self,
        s: S,
        x: &[f32],
        rows: &Rows,
        from: usize,
    ) -> S::F32 {
        let Windows { axes: [d, h, w], fold, .. } = *self;
        let step = h.dilation * w.size;
        let count = if N == ANY { rows.count } else { N };
        let mut state = s.splat(fold.start());
        for slice in 0..if MANY { rows.slices } else { 1 } {
            let first = (rows.first + slice * d.dilation * h.size) * w.size + from;
            // One check for all rows, except at the end of the last plane.
            let span = count.saturating_sub(1) * step + S::LANES;
            if let Some(x) = x.get(first..first + span) {
                for row in x.windows(S::LANES).step_by(step.max(1)).take(count) {
                    state = fold.take_vector(s, state, s.load(row));
                }
                continue;
            }
            for row in 0..count {
                state = fold.take_vector(s, state, load(s, x, first + row * step));
            }
        }
        state
    }

    /// Folds the rows of the windows of a row of outputs.
    #[inline(always)]
    fn gather<S: Simd, const N: usize, const MANY: bool>(
        &self,
        s: S,
        x: &[f32],
        rows: &Rows,
        part: &Part,
        line: &mut [f32],
    ) {
        let line = &mut line[part.skip..];
        if part.seen < S::LANES && line.len() >= S::LANES {
            // A whole vector, whose lanes behind the image stay empty.
            let inside = s.lt(s.load(&LANE_INDICES), s.splat(part.seen as f32));
            let state = self.column::<S, N, MANY>(s, x, rows, part.from);
            return s.store(s.select(inside, state, s.splat(self.fold.start())), line);
        }
        let line = &mut line[..part.seen];
        for i in (0..part.seen).step_by(S::LANES) {
            let i = again::<S>(i, part.seen);
            store(s, self.column::<S, N, MANY>(s, x, rows, part.from + i), &mut line[i..]);
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
        let Windows { axes: [_, _, w], fold, .. } = *self;
        let Axis { dilation, out, .. } = w;
        let kernel = if N == ANY { w.kernel } else { N };
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

impl<F: FoldVectors> Windows<'_, F> {
    /// Computes the results of a row of outputs from the folded columns, one by one.
    #[inline(always)]
    fn join_apart(&self, line: &[f32], (high, counts): (f32, &[f32; PLACES]), y: &mut [f32]) {
        let Windows { axes: [_, _, w], fold, .. } = *self;
        let Axis { kernel, stride, dilation, .. } = w;
        for ((i, y), wide) in y.iter_mut().enumerate().zip(counts) {
            let columns = line[i * stride..].iter().step_by(dilation).take(kernel);
            let state = columns.fold(fold.start(), |state, &column| fold.take(state, column));
            *y = fold.finish(state, (high * wide) as usize);
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
