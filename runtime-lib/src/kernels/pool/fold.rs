//! The loops of pooling. They fold the rows of a window first, column by column, then the columns;
//! both loops run over contiguous memory.

use super::Pool;
use crate::loops::window::Taps;
use crate::loops::window_axis::Axis;
use crate::{Float, Number};

/// Combines the elements of a window. Every method must be `#[inline(always)]`.
pub(super) trait Fold<T>: Copy + Sync {
    /// The accumulator.
    type State: Copy;

    /// Returns the state of no elements.
    fn start(self) -> Self::State;
    /// Adds an element.
    fn take(self, state: Self::State, x: T) -> Self::State;
    /// Combines two states.
    fn join(self, a: Self::State, b: Self::State) -> Self::State;
    /// Returns the elements of a window whose number the result depends on, if any.
    fn counted(self) -> Option<Counted>;
    /// Returns the result; `count` elements of the window are counted.
    fn finish(self, state: Self::State, count: usize) -> T;
}

/// The elements of a window that count.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Counted {
    /// The elements inside of the image.
    InImage,
    /// The elements inside of the image and its padding.
    Padded,
}

impl Counted {
    /// Returns the number of elements of the window at `place`; the padding ends `ends` after the
    /// image.
    pub fn of(self, taps: &Taps<'_>, place: usize, ends: &[usize]) -> usize {
        taps.count(place, (self == Counted::Padded).then_some(ends))
    }
}

/// The maximum.
#[derive(Clone, Copy)]
pub(super) struct Largest;

impl<T: Number> Fold<T> for Largest {
    type State = T;

    #[inline(always)]
    fn start(self) -> T {
        T::LOWEST
    }
    #[inline(always)]
    fn take(self, state: T, x: T) -> T {
        state.maximum(x)
    }
    #[inline(always)]
    fn join(self, a: T, b: T) -> T {
        a.maximum(b)
    }
    #[inline(always)]
    fn counted(self) -> Option<Counted> {
        None
    }
    #[inline(always)]
    fn finish(self, state: T, _: usize) -> T {
        state
    }
}

/// The mean.
#[derive(Clone, Copy)]
pub(super) struct Mean(pub Counted);

impl<T: Float> Fold<T> for Mean {
    type State = T::Wide;

    #[inline(always)]
    fn start(self) -> T::Wide {
        T::Wide::ZERO
    }
    #[inline(always)]
    fn take(self, state: T::Wide, x: T) -> T::Wide {
        state.add(x.widen())
    }
    #[inline(always)]
    fn join(self, a: T::Wide, b: T::Wide) -> T::Wide {
        a.add(b)
    }
    #[inline(always)]
    fn counted(self) -> Option<Counted> {
        Some(self.0)
    }
    #[inline(always)]
    fn finish(self, state: T::Wide, count: usize) -> T {
        let count = u32::try_from(count).unwrap_or(u32::MAX);
        T::narrow(state.div(T::Wide::from_f64(f64::from(count))))
    }
}

/// `(Σ |x|^p)^(1/p)`.
#[derive(Clone, Copy)]
pub(super) struct Norm {
    pub p: u32,
}

impl<T: Float> Fold<T> for Norm {
    type State = T::Wide;

    #[inline(always)]
    fn start(self) -> T::Wide {
        T::Wide::ZERO
    }
    #[inline(always)]
    fn take(self, state: T::Wide, x: T) -> T::Wide {
        let x = x.widen().abs();
        state.add(match self.p {
            1 => x,
            2 => x.mul(x),
            p => x.powf(T::Wide::from_f64(f64::from(p))),
        })
    }
    #[inline(always)]
    fn join(self, a: T::Wide, b: T::Wide) -> T::Wide {
        a.add(b)
    }
    #[inline(always)]
    fn counted(self) -> Option<Counted> {
        None
    }
    #[inline(always)]
    fn finish(self, state: T::Wide, _: usize) -> T {
        T::narrow(match self.p {
            1 => state,
            2 => state.sqrt(),
            p => state.powf(T::Wide::from_f64(1.0 / f64::from(p))),
        })
    }
}

/// Columns of the output that are computed together.
const PLACES: usize = 64;
/// Columns of the image that are folded together.
const COLUMNS: usize = 256;

/// Folds every window.
#[inline(always)]
pub(super) fn fold<T: Copy, F: Fold<T>>(x: &[T], y: &mut [T], geometry: Pool<'_>, fold: F) {
    let taps = geometry.taps();
    let (size, places) = (taps.elements(), taps.places());
    if places == 0 {
        return;
    }
    let mut scratch = Scratch {
        columns: [fold.start(); COLUMNS],
        states: [fold.start(); PLACES],
        counts: [1; PLACES],
        counted: None,
    };
    for (plane, y) in y.chunks_exact_mut(places).enumerate() {
        let x = &x[plane * size..][..size];
        if taps.is_whole() {
            y[0] = fold.finish(all(x, fold), size);
        } else {
            let ends = geometry.ends;
            Plane { x, taps, ends, fold }.rows(y, &mut scratch);
        }
    }
}

/// Folds all elements.
#[inline(always)]
fn all<T: Copy, F: Fold<T>>(x: &[T], fold: F) -> F::State {
    // Uses as many lanes as a few vectors have.
    const LANES: usize = 32;
    let mut lanes = [fold.start(); LANES];
    let mut groups = x.chunks_exact(LANES);
    for group in &mut groups {
        for (lane, &x) in lanes.iter_mut().zip(group) {
            *lane = fold.take(*lane, x);
        }
    }
    for (lane, &x) in lanes.iter_mut().zip(groups.remainder()) {
        *lane = fold.take(*lane, x);
    }
    lanes.into_iter().fold(fold.start(), |a, b| fold.join(a, b))
}

/// Scratch memory of states: of the columns of an image, and of its windows.
struct Scratch<S> {
    columns: [S; COLUMNS],
    states: [S; PLACES],
    /// The number of counted elements of the windows along the last axis.
    counts: [usize; PLACES],
    /// The first window that the counts are for.
    counted: Option<usize>,
}

/// One image.
struct Plane<'a, T, F> {
    x: &'a [T],
    taps: Taps<'a>,
    ends: &'a [usize],
    fold: F,
}

/// The last axis.
#[derive(Clone, Copy)]
struct Last {
    size: usize,
    kernel: usize,
    stride: usize,
    dilation: usize,
    pad: usize,
}

impl Last {
    /// Returns the number of image columns that `places` outputs cover.
    fn span(&self, places: usize) -> usize {
        (places - 1) * self.stride + (self.kernel - 1) * self.dilation + 1
    }

    /// Returns the number of outputs whose columns fit in the scratch memory.
    fn places(&self) -> usize {
        let left = COLUMNS.checked_sub(self.span(1));
        left.map_or(0, |left| (left / self.stride + 1).min(PLACES))
    }
}

impl<T: Copy, F: Fold<T>> Plane<'_, T, F> {
    /// Folds the windows of the image.
    #[inline(always)]
    fn rows(&self, y: &mut [T], scratch: &mut Scratch<F::State>) {
        let [size, out, kernel, stride, dilation, pad] = self.taps.last();
        let last = Last { size, kernel, stride, dilation, pad };
        let at_once = last.places();
        let rows = self.taps.without_last();
        let above = &self.ends[..self.ends.len().saturating_sub(1)];
        for (row, y) in y.chunks_exact_mut(out).enumerate() {
            if at_once == 0 {
                for (place, y) in y.iter_mut().enumerate() {
                    let place = row * out + place;
                    let count =
                        self.fold.counted().map_or(1, |of| of.of(&self.taps, place, self.ends));
                    *y = self.fold.finish(self.window(place), count);
                }
                continue;
            }
            let high = self.fold.counted().map_or(1, |of| of.of(&rows, row, above));
            for (first, y) in (0..out).step_by(at_once).zip(y.chunks_mut(at_once)) {
                self.places(last, row, (first, y.len()), scratch);
                for ((y, &state), &wide) in y.iter_mut().zip(&scratch.states).zip(&scratch.counts) {
                    *y = self.fold.finish(state, high * wide);
                }
            }
        }
    }

    /// Counts the elements of windows along the last axis.
    #[inline(always)]
    fn count(&self, (first, n): (usize, usize), scratch: &mut Scratch<F::State>) {
        let Some(of) = self.fold.counted().filter(|_| scratch.counted != Some(first)) else {
            return;
        };
        let (last, ends) = (self.taps.only_last(), &self.ends[self.ends.len().saturating_sub(1)..]);
        for (i, count) in scratch.counts[..n].iter_mut().enumerate() {
            *count = of.of(&last, first + i, ends);
        }
        scratch.counted = Some(first);
    }

    /// Folds one window, element by element.
    fn window(&self, place: usize) -> F::State {
        let axis = Axis::last_of(&self.taps);
        let (row, column) = (place / axis.out, place % axis.out);
        let run = axis.tap_run(&(0..0), column, column + 1);
        let mut state = self.fold.start();
        for line in self.taps.without_last().inputs(row) {
            let x = &self.x[line * axis.size..][..axis.size];
            for &x in x.iter().skip(run.from).step_by(axis.dilation).take(run.taps.len()) {
                state = self.fold.take(state, x);
            }
        }
        state
    }

    /// Folds `n` windows of a row of outputs, and counts their elements.
    #[inline(always)]
    fn places(
        &self,
        last: Last,
        row: usize,
        (first, n): (usize, usize),
        scratch: &mut Scratch<F::State>,
    ) {
        self.count((first, n), scratch);
        let columns = &mut scratch.columns[..last.span(n)];
        let states = &mut scratch.states[..n];
        columns.fill(self.fold.start());
        states.fill(self.fold.start());
        let rows = self.taps.without_last();
        // The first covered column, and the offset of the image among the columns.
        let start = first * last.stride;
        let skip = last.pad.saturating_sub(start);
        let from = start.saturating_sub(last.pad).min(last.size);
        if let Some(columns) = columns.get_mut(skip..) {
            for row in rows.inputs(row) {
                let x = &self.x[row * last.size..][from..last.size];
                for (column, &x) in columns.iter_mut().zip(x) {
                    *column = self.fold.take(*column, x);
                }
            }
        }
        for tap in 0..last.kernel {
            let columns = &columns[tap * last.dilation..];
            match last.stride {
                1 => self.join(states, columns.iter()),
                2 => self.join(states, columns.chunks(2).map(|pair| &pair[0])),
                stride => self.join(states, columns.iter().step_by(stride)),
            }
        }
    }

    #[inline(always)]
    fn join<'s>(&self, states: &mut [F::State], columns: impl Iterator<Item = &'s F::State>)
    where
        F::State: 's,
    {
        for (state, &column) in states.iter_mut().zip(columns) {
            *state = self.fold.join(*state, column);
        }
    }
}
