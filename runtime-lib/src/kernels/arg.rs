//! Indices of the largest and smallest elements: `ArgMax`, `ArgMin` and `TopK`.

use crate::Number;
use crate::error::{Error, Result};
use crate::kernels::reduce::Reduce;
use crate::loops::find::{first_equal, last_equal};
use crate::loops::fold::{Fold, Max, Min};
use crate::loops::geometry::Axis;
use crate::loops::index::{place, signed, size};
use crate::simd::{HAS_VECTORS, MAX_LANES, Simd, WithSimd, dispatch};
use core::array::from_fn;

/// Returns the index of the largest element along the axis; the first of equal ones.
pub fn arg_max<T: Reduce>(x: &[T], y: &mut [i64], geometry: Axis) {
    arg::<T, Largest, false>(x, y, geometry);
}

/// Returns the index of the largest element along the axis; the last of equal ones.
pub fn arg_max_last<T: Reduce>(x: &[T], y: &mut [i64], geometry: Axis) {
    arg::<T, Largest, true>(x, y, geometry);
}

/// Returns the index of the smallest element along the axis; the first of equal ones.
pub fn arg_min<T: Reduce>(x: &[T], y: &mut [i64], geometry: Axis) {
    arg::<T, Smallest, false>(x, y, geometry);
}

/// Returns the index of the smallest element along the axis; the last of equal ones.
pub fn arg_min_last<T: Reduce>(x: &[T], y: &mut [i64], geometry: Axis) {
    arg::<T, Smallest, true>(x, y, geometry);
}

/// Writes the largest elements along the axis in descending order, and their indices. The length of
/// the results is `k`. Equal elements keep their order. NaN counts as the largest.
pub fn top_k<T: Number>(x: &[T], values: &mut [T], places: &mut [i64], geometry: Axis) {
    top::<T, Largest>(x, values, places, geometry);
}

/// Writes the smallest elements along the axis in ascending order, and their indices, like
/// [`top_k`].
pub fn top_k_smallest<T: Number>(x: &[T], values: &mut [T], places: &mut [i64], geometry: Axis) {
    top::<T, Smallest>(x, values, places, geometry);
}

/// Computes the sizes of the results of `TopK` for a tensor of sizes `from`.
///
/// # Errors
///
/// Returns an error if `k` is not one number from 0 to the size of the axis.
pub fn top_k_sizes(sizes: &mut [usize], k: &[i64], from: &[usize], axis: usize) -> Result {
    let &[k] = k else { return Err(Error::Value("TopK wants one number")) };
    sizes.clone_from_slice(from);
    sizes[axis] = size(k)?;
    if sizes[axis] > from[axis] {
        return Err(Error::Index { index: k, size: from[axis] });
    }
    Ok(())
}

/// The order of a search: largest or smallest first.
trait Order {
    /// The factor by which the order is that of ascending numbers, or of descending ones.
    const SIGN: f32;

    /// Returns whether `a` comes before `b`.
    fn before<T: Number>(a: T, b: T) -> bool;
    /// Returns the element that comes first.
    fn first<T: Reduce>(x: &[T]) -> T;
}

struct Largest;

impl Order for Largest {
    const SIGN: f32 = 1.0;

    #[inline(always)]
    fn before<T: Number>(a: T, b: T) -> bool {
        a > b || (a.is_nan() && !b.is_nan())
    }

    fn first<T: Reduce>(x: &[T]) -> T {
        Max.finish(Max.take_all(x))
    }
}

struct Smallest;

impl Order for Smallest {
    const SIGN: f32 = -1.0;

    #[inline(always)]
    fn before<T: Number>(a: T, b: T) -> bool {
        a < b || (b.is_nan() && !a.is_nan())
    }

    fn first<T: Reduce>(x: &[T]) -> T {
        Min.finish(Min.take_all(x))
    }
}

/// Columns that are searched together.
const COLUMNS: usize = 64;

fn arg<T: Reduce, O: Order, const LAST: bool>(x: &[T], y: &mut [i64], geometry: Axis) {
    let Axis { outer, len, inner } = geometry;
    debug_assert_eq!(y.len(), outer * inner, "there is a result for each place beside the axis");
    if x.is_empty() {
        return y.fill(0);
    }
    if inner == 1 {
        for (x, y) in x.chunks_exact(len).zip(y) {
            *y = arg_row::<T, O, LAST>(x);
        }
        return;
    }
    if let (Some(x), true) = (T::as_f32(x), HAS_VECTORS) {
        return arg_columns_f32::<LAST>(ArgColumns { x, y, len, inner, sign: O::SIGN });
    }
    for (x, y) in x.chunks_exact(len * inner).zip(y.chunks_exact_mut(inner)) {
        for (i, y) in y.chunks_mut(COLUMNS).enumerate() {
            arg_columns::<T, O, LAST>(&x[i * COLUMNS..], y, inner);
        }
    }
}

/// A maximum or minimum with a NaN is NaN, so the search looks for NaN then.
fn arg_row<T: Reduce, O: Order, const LAST: bool>(x: &[T]) -> i64 {
    let first = O::first(x);
    let place = match (first.is_nan(), LAST) {
        (false, false) => first_equal(x, first),
        (false, true) => last_equal(x, first),
        (true, false) => x.iter().position(|x| x.is_nan()),
        (true, true) => x.iter().rposition(|x| x.is_nan()),
    };
    signed(place.unwrap_or(0))
}

fn arg_columns<T: Reduce, O: Order, const LAST: bool>(x: &[T], y: &mut [i64], inner: usize) {
    y.fill(0);
    let mut best = [T::ZERO; COLUMNS];
    let best = &mut best[..y.len()];
    best.clone_from_slice(&x[..y.len()]);
    for (place, x) in (0..).zip(x.chunks(inner)) {
        for ((y, best), &x) in y.iter_mut().zip(&mut *best).zip(x) {
            // NaN comes before all other elements, as in a row.
            let better = match (x.is_nan(), best.is_nan()) {
                (false, false) => O::before(x, *best) || (LAST && x == *best),
                (nan, best_is_nan) => nan && (LAST || !best_is_nan),
            };
            if better {
                (*y, *best) = (place, x);
            }
        }
    }
}

#[inline(never)]
fn arg_columns_f32<const LAST: bool>(columns: ArgColumns<'_, LAST>) {
    dispatch(columns);
}

/// [`arg_columns`] of all columns of `f32`: the largest of the products with `sign`.
struct ArgColumns<'a, const LAST: bool> {
    x: &'a [f32],
    y: &'a mut [i64],
    len: usize,
    inner: usize,
    sign: f32,
}

impl<const LAST: bool> WithSimd for ArgColumns<'_, LAST> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let ArgColumns { x, y, len, inner, sign } = self;
        for (x, y) in x.chunks_exact(len * inner).zip(y.chunks_exact_mut(inner)) {
            let mut first = 0;
            while first < y.len() {
                let (x, y) = (&x[first..], &mut y[first..]);
                first += match y.len() >= TOGETHER * S::LANES {
                    true => arg_vectors::<S, LAST, TOGETHER>(s, x, y, inner, sign),
                    false => arg_vectors::<S, LAST, 1>(s, x, y, inner, sign),
                };
            }
        }
    }
}

/// Vectors of columns that are searched together, so that their lines are fetched in a row and one
/// comparison does not wait for another.
const TOGETHER: usize = 4;

/// Writes the indices of the largest products with `sign` of the first columns, of up to `N`
/// vectors, and returns the number of columns.
#[inline(always)]
fn arg_vectors<S: Simd, const LAST: bool, const N: usize>(
    s: S,
    x: &[f32],
    y: &mut [i64],
    inner: usize,
    sign: f32,
) -> usize {
    let width = y.len().min(N * S::LANES);
    let (zero, one, sign) = (s.splat(0.0), s.splat(1.0), s.splat(sign));
    let column = |x: &[f32], n: usize| {
        let x = &x[n * S::LANES..width.min((n + 1) * S::LANES)];
        s.mul(s.load_head(x), sign)
    };
    let mut best: [S::F32; N] = from_fn(|n| column(x, n));
    let mut places = [zero; N];
    for (place, x) in (0..).zip(x.chunks(inner)).skip(1) {
        let at = s.with_bits(s.splat_i32(place));
        for n in 0..N {
            let new = column(x, n);
            let better = if LAST { s.le(best[n], new) } else { s.lt(best[n], new) };
            // NaN comes before all other elements, as in a row.
            let best_is_number = s.select(s.eq(best[n], best[n]), one, zero);
            let before_nan = if LAST { one } else { best_is_number };
            let better = s.select(s.eq(new, new), s.select(better, one, zero), before_nan);
            let better = s.lt(zero, better);
            best[n] = s.select(better, new, best[n]);
            places[n] = s.select(better, at, places[n]);
        }
    }
    for (y, places) in y[..width].chunks_mut(S::LANES).zip(places) {
        let mut lanes = [0.0; MAX_LANES];
        s.store(places, &mut lanes);
        // The lanes hold the bits of integers.
        y.iter_mut().zip(lanes).for_each(|(y, place)| *y = i64::from(place.to_bits()));
    }
    width
}

fn top<T: Number, O: Order>(x: &[T], values: &mut [T], places: &mut [i64], geometry: Axis) {
    let Axis { outer, len, inner } = geometry;
    if x.is_empty() || values.is_empty() {
        return;
    }
    let k = values.len() / (outer * inner);
    let results = values.chunks_exact_mut(k * inner).zip(places.chunks_exact_mut(k * inner));
    for (x, (values, places)) in x.chunks_exact(len * inner).zip(results) {
        if let (Some(x), Some(values), 1) = (T::as_f32(x), T::as_f32_mut(values), inner)
            && HAS_VECTORS
            && u32::try_from(len).is_ok()
        {
            top_row::<O>(x, values, places);
            continue;
        }
        for i in 0..inner {
            let mut heap = Heap { values: &mut values[i..], places: &mut places[i..], inner };
            heap.fill::<O>(&x[i..], k);
            heap.sort::<O>(k);
        }
    }
}

/// Elements that are compared together: of a long row, most groups have no element that is kept.
const GROUP: usize = 32;

/// [`top`] of a row of at most 2³² - 1 `f32`. An element and its place are one integer, which is
/// larger for an element that comes before.
#[inline(never)]
fn top_row<O: Order>(x: &[f32], values: &mut [f32], places: &mut [i64]) {
    let rank_of = |(place, &x): (u32, &f32)| {
        let rank = if O::SIGN > 0.0 { ascending(x) } else { !ascending(x) };
        // Half of the range of `u64` below zero, so that the order is that of `i64`.
        (u64::from(rank) << 32 | u64::from(!place)).cast_signed() ^ i64::MIN
    };
    places.iter_mut().zip((0..).zip(x)).for_each(|(to, element)| *to = rank_of(element));
    if places.len() < x.len() {
        heapify(places);
        let mut worst = x[place_of(places[0])];
        let groups = x[places.len()..].chunks(GROUP);
        for (first, group) in (places.len() as u32..).step_by(GROUP).zip(groups) {
            // A loop that always visits all elements becomes vectors.
            if !group.iter().fold(false, |any, &x| any | O::before(x, worst)) {
                continue;
            }
            for element in (first..).zip(group) {
                if O::before(*element.1, worst) {
                    places[0] = rank_of(element);
                    sink(places, 0);
                    worst = x[place_of(places[0])];
                }
            }
        }
    }
    places.sort_unstable_by(|a, b| b.cmp(a));
    for (value, place) in values.iter_mut().zip(places) {
        let at = place_of(*place);
        (*value, *place) = (x[at], signed(at));
    }
}

/// Returns the place in a rank, which its lower half holds.
#[inline(always)]
fn place_of(rank: i64) -> usize {
    place(!(rank as u32))
}

/// Returns an integer that is larger for a larger number; the largest for NaN.
#[inline(always)]
fn ascending(x: f32) -> u32 {
    if x.is_nan() {
        return u32::MAX;
    }
    // The addition gives both zeros the same bits.
    let bits = (x + 0.0).to_bits();
    if bits >> 31 == 1 { !bits } else { bits | 1 << 31 }
}

/// Orders integers as a heap with the smallest at the root.
fn heapify(heap: &mut [i64]) {
    (0..heap.len() / 2).rev().for_each(|i| sink(heap, i));
}

/// Moves an element down, so that no element has a smaller one below it.
fn sink(heap: &mut [i64], mut i: usize) {
    let moved = heap[i];
    while let Some(&[left, right]) = heap.get(2 * i + 1..2 * i + 3).and_then(|x| x.first_chunk()) {
        let child = 2 * i + 1 + usize::from(right < left);
        if left.min(right) >= moved {
            break;
        }
        heap[i] = heap[child];
        i = child;
    }
    // The last element may have no sibling.
    let left = 2 * i + 1;
    if left + 1 == heap.len() && heap[left] < moved {
        heap[i] = heap[left];
        i = left;
    }
    heap[i] = moved;
}

/// A heap of the best elements so far, with the worst of them at the root, stored in the results.
struct Heap<'a, T> {
    values: &'a mut [T],
    places: &'a mut [i64],
    inner: usize,
}

impl<T: Number> Heap<'_, T> {
    fn get(&self, i: usize) -> (T, i64) {
        (self.values[i * self.inner], self.places[i * self.inner])
    }

    fn set(&mut self, i: usize, (value, place): (T, i64)) {
        self.values[i * self.inner] = value;
        self.places[i * self.inner] = place;
    }

    /// Takes the first `k` elements, then every element that is better than the worst.
    fn fill<O: Order>(&mut self, x: &[T], k: usize) {
        let mut elements = x.iter().step_by(self.inner).copied().zip(0..);
        for (i, element) in elements.by_ref().take(k).enumerate() {
            self.set(i, element);
        }
        for i in (0..k / 2).rev() {
            self.sink::<O>(i, self.get(i), k);
        }
        for element in elements {
            if O::before(element.0, self.values[0]) {
                self.sink::<O>(0, element, k);
            }
        }
    }

    /// Sorts the heap: moves the root to the end, then the root of the rest before it, and so on.
    fn sort<O: Order>(&mut self, k: usize) {
        for n in (1..k).rev() {
            let last = self.get(n);
            self.set(n, self.get(0));
            self.sink::<O>(0, last, n);
        }
    }

    /// Inserts an element at `i` or below, so that no element has a worse one under it.
    fn sink<O: Order>(&mut self, mut i: usize, element: (T, i64), len: usize) {
        let worse =
            |a: (T, i64), b: (T, i64)| O::before(b.0, a.0) || (!O::before(a.0, b.0) && a.1 > b.1);
        loop {
            let mut child = 2 * i + 1;
            if child >= len {
                break;
            }
            if child + 1 < len && worse(self.get(child + 1), self.get(child)) {
                child += 1;
            }
            if !worse(self.get(child), element) {
                break;
            }
            self.set(i, self.get(child));
            i = child;
        }
        self.set(i, element);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::array::from_fn;
    use core::cmp::Ordering;

    type Arg = fn(&[f32], &mut [i64], Axis);

    #[test]
    fn the_first_or_the_last_of_equals_is_found_along_every_axis() {
        let kernels: [(Arg, bool, bool); 4] = [
            (arg_max, true, false),
            (arg_max_last, true, true),
            (arg_min, false, false),
            (arg_min_last, false, true),
        ];
        let x: [f32; 6 * 70] = from_fn(|i| match i % 11 {
            7 if i > 300 => f32::NAN,
            i => (i * 5 % 4) as f32,
        });
        for (outer, len, inner) in [(6, 1, 70), (3, 2, 70), (2, 70, 3), (84, 5, 1), (4, 105, 1)] {
            for (kernel, largest, last) in kernels {
                let mut y = [9; 420];
                let y = &mut y[..outer * inner];
                kernel(&x, y, Axis { outer, len, inner });
                for (i, &y) in y.iter().enumerate() {
                    let at = |j: usize| x[i / inner * len * inner + j * inner + i % inner];
                    let better = |a: f32, b: f32| {
                        let beats = if largest { a > b } else { a < b };
                        let same = a == b || (a.is_nan() && b.is_nan());
                        (a.is_nan() && !b.is_nan()) || (beats && !b.is_nan()) || (last && same)
                    };
                    let found =
                        (1..len).fold(0, |best, j| if better(at(j), at(best)) { j } else { best });
                    assert_eq!(y, found as i64, "{len} {inner} {largest} {last}");
                }
            }
        }
    }

    #[test]
    fn arg_max_of_an_empty_axis_is_zero() {
        let mut y = [9; 2];
        arg_max::<i32>(&[], &mut y, Axis { outer: 2, len: 0, inner: 1 });
        assert_eq!(y, [0, 0]);
        top_k::<i32>(&[], &mut [], &mut [], Axis { outer: 0, len: 3, inner: 1 });
        top_k(&[1, 2], &mut [], &mut [], Axis { outer: 1, len: 2, inner: 1 });
    }

    #[test]
    fn every_small_top_k_is_the_start_of_the_sorted_elements() {
        let x: [f32; 14] =
            [3.0, 1.0, 3.0, f32::NAN, -1.0, 3.0, 0.0, -0.0, 1.0, f32::INFINITY, 2.0, 2.0, 5.0, 4.0];
        let falling = |a: f32, b: f32| match (a.is_nan(), b.is_nan()) {
            (false, false) => b.partial_cmp(&a).expect("neither is NaN"),
            (a, b) => b.cmp(&a),
        };
        for (outer, len, inner) in [(1, 14, 1), (2, 7, 1), (1, 7, 2), (7, 1, 2), (1, 2, 7)] {
            for (k, largest) in (1..=len).flat_map(|k| [(k, true), (k, false)]) {
                let (mut values, mut places) = ([0.0; 14], [0; 14]);
                let n = outer * inner * k;
                let (values, places) = (&mut values[..n], &mut places[..n]);
                let kernel = if largest { top_k::<f32> } else { top_k_smallest };
                kernel(&x, values, places, Axis { outer, len, inner });
                for (o, i) in (0..outer).flat_map(|o| (0..inner).map(move |i| (o, i))) {
                    let at = |j: i64| x[o * len * inner + j as usize * inner + i];
                    let mut order: [i64; 14] = from_fn(|j| j as i64);
                    order[..len].sort_by(|&a, &b| {
                        let order: Ordering = falling(at(a), at(b));
                        if largest { order } else { order.reverse() }
                    });
                    for (j, &place) in order[..k].iter().enumerate() {
                        let found = o * k * inner + j * inner + i;
                        assert_eq!(places[found], place, "{len} {inner} {k} {largest}");
                        assert_eq!(values[found].to_bits(), at(place).to_bits());
                    }
                }
            }
        }
    }

    #[test]
    fn long_rows_are_sorted_by_both_halves_of_the_order() {
        // Few distinct numbers, zeros of both signs, and NaN.
        let x: [f32; 1001] = from_fn(|i| match i * i % 23 {
            0 => f32::NAN,
            1 => -0.0,
            n => (n % 7) as f32 - 3.0,
        });
        for (k, largest) in
            [1, 2, 9, 10, 500, 1000, 1001].iter().flat_map(|&k| [(k, true), (k, false)])
        {
            let (mut values, mut places) = ([0.0; 1001], [0; 1001]);
            let (values, places) = (&mut values[..k], &mut places[..k]);
            let kernel = if largest { top_k::<f32> } else { top_k_smallest };
            kernel(&x, values, places, Axis { outer: 1, len: 1001, inner: 1 });
            let mut order: [i64; 1001] = from_fn(|i| i as i64);
            let key = |i: i64| match x[i as usize] {
                x if x.is_nan() => 99,
                x => x as i64,
            };
            order.sort_by_key(|&i| if largest { -key(i) } else { key(i) });
            assert_eq!(places, &order[..k]);
            for (value, &place) in values.iter().zip(&*places) {
                assert_eq!(value.to_bits(), x[place as usize].to_bits());
            }
        }
    }

    #[test]
    fn top_k_beyond_the_axis_is_an_error() {
        let mut sizes = [0; 2];
        assert_eq!(top_k_sizes(&mut sizes, &[2], &[4, 3], 1), Ok(()));
        assert_eq!(sizes, [4, 2]);
        assert!(top_k_sizes(&mut sizes, &[4], &[4, 3], 1).is_err());
        assert!(top_k_sizes(&mut sizes, &[-1], &[4, 3], 1).is_err());
    }
}
