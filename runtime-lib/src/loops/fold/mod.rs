//! The loops of reductions along any axes.

mod element;
mod kinds;
mod vectors;

pub use element::Reduce;
pub(crate) use kinds::{All, Any, L1, L2, LogSum, LogSumExp, Max, Mean, Min, Prod, Sum, SumSquare};
pub(crate) use vectors::{fold_at, sum_at, sum_exp_at};

use crate::loops::geometry::Reduction;
use crate::loops::walk::{Row, walk};
use crate::simd::{HAS_VECTORS, Simd, WithSimd, dispatch};

/// Combines elements. Every method must be `#[inline(always)]`.
pub(crate) trait Fold<T>: Copy {
    /// The accumulator.
    type State: Copy;

    /// Returns the state of no elements.
    fn start(self) -> Self::State;
    /// Adds an element.
    fn take(self, state: Self::State, x: T) -> Self::State;
    /// Combines two states.
    fn join(self, a: Self::State, b: Self::State) -> Self::State;
    /// Returns the result.
    fn finish(self, state: Self::State) -> T;

    /// Whether `take_all` is that of this trait, so that many short slices can be folded at once.
    const TAKES_ONE_BY_ONE: bool = true;

    /// Folds a slice.
    #[inline(always)]
    fn take_all(self, x: &[T]) -> Self::State
    where
        T: Copy,
    {
        // Short slices are not worth a function call.
        if x.len() < LANES {
            return x.iter().fold(self.start(), |state, &x| self.take(state, x));
        }
        dispatch(TakeAll { fold: self, x })
    }

    /// Folds a slice at a SIMD level.
    #[inline(always)]
    fn take_slice<S: Simd>(self, s: S, x: &[T]) -> Self::State
    where
        T: Copy,
    {
        take_all_at(s, self, x)
    }
}

/// The number of parallel states of a slice: a few vectors.
const LANES: usize = 32;

/// The most elements that a state accumulates before it is combined with others, so that the
/// rounding error of a long sum grows slowly.
const RUN: usize = 128;

struct TakeAll<'a, T, F> {
    fold: F,
    x: &'a [T],
}

impl<T: Copy, F: Fold<T>> WithSimd for TakeAll<'_, T, F> {
    type Output = F::State;

    #[inline(always)]
    fn run<S: Simd>(self, s: S) -> F::State {
        self.fold.take_slice(s, self.x)
    }
}

/// Folds a slice, several lanes at once.
#[inline(always)]
pub(crate) fn take_all_at<T: Copy, F: Fold<T>, S: Simd>(_: S, fold: F, x: &[T]) -> F::State {
    let mut state = fold.start();
    for run in x.chunks(RUN * LANES) {
        let mut lanes = [fold.start(); LANES];
        let mut groups = run.chunks_exact(LANES);
        for group in &mut groups {
            for (lane, &x) in lanes.iter_mut().zip(group) {
                *lane = fold.take(*lane, x);
            }
        }
        // Smaller groups, so that the last elements of short rows are added in vectors, too.
        let rest = take_group::<16, _, _>(fold, &mut lanes, groups.remainder());
        let rest = take_group::<8, _, _>(fold, &mut lanes, rest);
        // Not in the lanes: a variable number of them would not stay in registers.
        state = rest.iter().fold(state, |state, &x| fold.take(state, x));
        let mut half = LANES;
        while half > 1 {
            half /= 2;
            for i in 0..half {
                lanes[i] = fold.join(lanes[i], lanes[half + i]);
            }
        }
        state = fold.join(state, lanes[0]);
    }
    state
}

/// Adds the first `N` elements, if there are as many, and returns the rest.
#[inline(always)]
fn take_group<'x, const N: usize, T: Copy, F: Fold<T>>(
    fold: F,
    lanes: &mut [F::State; LANES],
    x: &'x [T],
) -> &'x [T] {
    let Some((group, rest)) = x.split_first_chunk::<N>() else { return x };
    for (lane, &x) in lanes.iter_mut().zip(group) {
        *lane = fold.take(*lane, x);
    }
    rest
}

/// Reduces `x` to `y`. A result may depend on the previous element of `y`: `fold` receives it.
#[inline(always)]
pub(crate) fn reduce<T: Copy, F: Fold<T>>(
    x: &[T],
    y: &mut [T],
    geometry: Reduction<'_>,
    fold: impl Fn(T) -> F,
) {
    let Reduction { kept, kept_strides, reduced, reduced_strides } = geometry;
    debug_assert_eq!(y.len(), kept.iter().product(), "the result has the sizes that are kept");
    if x.is_empty() {
        for y in y {
            let fold = fold(*y);
            *y = fold.finish(fold.start());
        }
        return;
    }
    let row = Row::of(reduced, [reduced_strides]);
    if row.steps[0] != 1 {
        return reduce_columns(x, y, geometry, fold);
    }
    let rows = Row::of(kept, [kept_strides]);
    let are_adjacent = rows.len == 1 || rows.steps[0] == row.len.cast_signed();
    if HAS_VECTORS && F::TAKES_ONE_BY_ONE && row.rank == 0 && rows.rank == 0 && are_adjacent {
        return dispatch(TakeEach { x, y, len: row.len, fold });
    }
    let mut results = y.iter_mut();
    walk(kept, [kept_strides], [0], &mut |[at]| {
        if let Some(y) = results.next() {
            let fold = fold(*y);
            let mut state = fold.start();
            walk(&reduced[..row.rank], [reduced_strides], [at], &mut |[at]| {
                state = fold.join(state, fold.take_all(&x[at..][..row.len]));
            });
            *y = fold.finish(state);
        }
    });
}

/// Folds adjacent rows of `len` elements.
struct TakeEach<'a, T, G> {
    x: &'a [T],
    y: &'a mut [T],
    len: usize,
    fold: G,
}

impl<T: Copy, F: Fold<T>, G: Fn(T) -> F> WithSimd for TakeEach<'_, T, G> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        for (x, y) in self.x.chunks_exact(self.len).zip(self.y) {
            let fold = (self.fold)(*y);
            *y = fold.finish(fold.take_slice(s, x));
        }
    }
}

/// The number of results that are accumulated together where both `x` and `y` are contiguous.
const COLUMNS: usize = 64;

/// Reduces along strided axes to contiguous rows.
#[inline(always)]
fn reduce_columns<T: Copy, F: Fold<T>>(
    x: &[T],
    y: &mut [T],
    geometry: Reduction<'_>,
    fold: impl Fn(T) -> F,
) {
    let Reduction { kept, kept_strides, reduced, reduced_strides } = geometry;
    let mut across = Row::of(kept, [kept_strides]);
    if across.steps[0] != 1 {
        across = Row { rank: kept.len(), len: 1, steps: [1] };
    }
    let along = Row::of(reduced, [reduced_strides]);
    let mut rows = y.chunks_exact_mut(across.len);
    walk(&kept[..across.rank], [kept_strides], [0], &mut |[at]| {
        for (i, y) in rows.next().unwrap_or_default().chunks_mut(COLUMNS).enumerate() {
            let mut folds = [fold(y[0]); COLUMNS];
            for (into, &y) in folds.iter_mut().zip(&*y) {
                *into = fold(y);
            }
            let mut states = [folds[0].start(); COLUMNS];
            let at = at + i * COLUMNS;
            walk(&reduced[..along.rank], [reduced_strides], [at], &mut |[at]| {
                let (x, step) = (&x[at..], along.steps[0].cast_unsigned());
                let states = &mut states[..y.len()];
                dispatch(TakeRows { folds: &folds, states, x, step, rows: along.len });
            });
            for (y, (fold, state)) in y.iter_mut().zip(folds.iter().zip(states)) {
                *y = fold.finish(state);
            }
        }
    });
}

struct TakeRows<'a, T, F: Fold<T>> {
    folds: &'a [F; COLUMNS],
    states: &'a mut [F::State],
    x: &'a [T],
    step: usize,
    rows: usize,
}

impl<T: Copy, F: Fold<T>> WithSimd for TakeRows<'_, T, F> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        let columns = self.states.len();
        let rows = |first: usize| (first..self.rows).take(RUN).map(|i| &self.x[i * self.step..]);
        for first in (0..self.rows).step_by(RUN) {
            let mut states = [self.folds[0].start(); COLUMNS];
            if columns == COLUMNS {
                // All states stay in registers.
                for x in rows(first) {
                    take_row(self.folds, &mut states, &x[..COLUMNS]);
                }
            } else {
                for x in rows(first) {
                    take_row(self.folds, &mut states[..columns], &x[..columns]);
                }
            }
            for (into, (fold, state)) in self.states.iter_mut().zip(self.folds.iter().zip(states)) {
                *into = fold.join(*into, state);
            }
        }
    }
}

#[inline(always)]
fn take_row<T: Copy, F: Fold<T>>(folds: &[F; COLUMNS], states: &mut [F::State], x: &[T]) {
    for (state, (fold, &x)) in states.iter_mut().zip(folds.iter().zip(x)) {
        *state = fold.take(*state, x);
    }
}
