//! `Softmax`, `LogSoftmax` and `Hardmax`, along one axis.
//!
//! In `f32` the error along an axis of `K` elements is at most `1e-6 √K`: relative for `Softmax`;
//! for `LogSoftmax` relative to results of magnitude 1 or more, and absolute otherwise.

mod lanes;

use crate::kernels::unary::exp_in_place;
use crate::loops::find::first_equal;
use crate::loops::fold::{Fold, Max, Reduce, Sum, fold_at, sum_exp_at};
use crate::loops::geometry::Axis;
use crate::simd::{HAS_VECTORS, MAX_LANES, Pointwise, Simd, math};
use crate::{Float, Number};
use lanes::{Columns, Way, share_lanes};

/// `y = e^x / Σ e^x` along the axis, computed relative to the largest `x`, so that no `e^x`
/// overflows.
pub fn softmax<T: Float>(x: &[T], y: &mut [T], geometry: Axis) {
    copy_and(x, y, geometry, softmax_in_place);
}

/// [`softmax`] in place.
pub fn softmax_in_place<T: Float>(y: &mut [T], geometry: Axis) {
    match T::as_f32_mut(y) {
        Some(y) if HAS_VECTORS => softmax_f32(y, geometry),
        Some(y) => softmax_by_number(y, geometry),
        None => each_lane(y, geometry, |lane| lane.softmax()),
    }
}

/// `y = x - ln(Σ e^x)` along the axis.
pub fn log_softmax<T: Float>(x: &[T], y: &mut [T], geometry: Axis) {
    copy_and(x, y, geometry, log_softmax_in_place);
}

/// [`log_softmax`] in place.
pub fn log_softmax_in_place<T: Float>(y: &mut [T], geometry: Axis) {
    match T::as_f32_mut(y) {
        Some(y) => log_softmax_f32(y, geometry),
        None => each_lane(y, geometry, |lane| lane.log_softmax()),
    }
}

/// 1 at the first maximum along the axis, and 0 elsewhere.
pub fn hardmax<T: Reduce>(x: &[T], y: &mut [T], geometry: Axis) {
    y.fill(T::ZERO);
    let Axis { outer, len, inner } = geometry;
    if y.is_empty() {
        return;
    }
    if HAS_VECTORS && inner == 1 {
        for (x, y) in x.chunks_exact(len).zip(y.chunks_exact_mut(len)) {
            let largest: T = Max.finish(Max.take_all(x));
            if let Some(place) = first_equal(x, largest) {
                y[place] = T::ONE;
            } else {
                hardmax_lane(x, y, 1);
            }
        }
        return;
    }
    for at in (0..outer).flat_map(|o| (0..inner).map(move |i| o * len * inner + i)) {
        let end = (at + len * inner).min(x.len());
        hardmax_lane(&x[at.min(end)..end], &mut y[at.min(end)..end], inner);
    }
}

/// Writes 1 at the first maximum of the elements with the stride `inner`. NaN is no maximum, unless
/// it comes first.
fn hardmax_lane<T: Number>(x: &[T], y: &mut [T], inner: usize) {
    let places = (0..x.len()).step_by(inner);
    if let Some(largest) = places.reduce(|a, b| if x[b] > x[a] { b } else { a }) {
        y[largest] = T::ONE;
    }
}

/// Elements that are copied together, so that they stay in the cache.
const BLOCK: usize = 4096;

/// Copies a few rows at a time and applies an in-place function to them.
fn copy_and<T: Float>(x: &[T], y: &mut [T], geometry: Axis, in_place: fn(&mut [T], Axis)) {
    let Axis { outer: _, len, inner } = geometry;
    if x.is_empty() {
        return;
    }
    let rows = BLOCK.div_ceil(len * inner);
    for (x, y) in x.chunks(rows * len * inner).zip(y.chunks_mut(rows * len * inner)) {
        y.copy_from_slice(x);
        in_place(y, Axis { outer: x.len() / (len * inner), len, inner });
    }
}

#[inline(never)]
fn softmax_f32(y: &mut [f32], geometry: Axis) {
    share_lanes(y, geometry, Softmax);
}

/// Softmax on targets without SIMD.
#[inline(never)]
fn softmax_by_number(y: &mut [f32], geometry: Axis) {
    let Axis { outer: _, len, inner } = geometry;
    for y in y.chunks_exact_mut((len * inner).max(1)) {
        for first in 0..inner {
            let y = y.get_mut(first..).unwrap_or_default();
            let larger = |max, &x| if x > max { x } else { max };
            let max = y.iter().step_by(inner).fold(f32::NEG_INFINITY, larger);
            let mut sum = 0.0;
            for x in y.iter_mut().step_by(inner) {
                *x = math::exp_of_negative(*x - max);
                sum += *x;
            }
            let factor = 1.0 / sum;
            y.iter_mut().step_by(inner).for_each(|x| *x *= factor);
        }
    }
}

#[inline(never)]
fn log_softmax_f32(y: &mut [f32], geometry: Axis) {
    share_lanes(y, geometry, LogSoftmax);
}

#[derive(Clone, Copy)]
struct Softmax;

impl Way for Softmax {
    #[inline(always)]
    fn row<S: Simd>(self, s: S, y: &mut [f32]) {
        let (whole, end) = End::of(s, y);
        let shift = s.splat(s.largest(s.max(end.x, max_of_vectors(s, &y[..whole]))));
        let last = math::exp_to_one(s, s.sub(end.x, shift));
        let mut sum = s.mul(last, end.is_new);
        for y in y[..whole].chunks_exact_mut(S::LANES) {
            let e = math::exp_to_one(s, s.sub(s.load_for_update(y), shift));
            s.store(e, y);
            sum = s.add(sum, e);
        }
        let factor = s.splat(1.0 / s.sum(sum));
        for y in y[..whole].chunks_exact_mut(S::LANES) {
            s.store(s.mul(s.load_for_update(y), factor), y);
        }
        // After the loop: to load what was stored in two parts takes long.
        end.store(s, s.mul(last, factor), y);
    }

    #[inline(always)]
    fn vector<S: Simd>(self, s: S, y: S::F32) -> S::F32 {
        let e = math::exp_to_one(s, s.sub(y, s.splat(s.largest(y))));
        s.mul(e, s.splat(1.0 / s.sum(e)))
    }

    #[inline(always)]
    fn columns<S: Simd>(self, s: S, mut y: Columns<'_>) {
        let max = y.max(s);
        let mut sum = s.splat(0.0);
        for i in 0..y.len {
            let e = math::exp(s, s.sub(y.load(s, i), max));
            y.store(s, i, e);
            sum = s.add(sum, e);
        }
        let factor = s.div(s.splat(1.0), sum);
        for i in 0..y.len {
            y.store(s, i, s.mul(y.load(s, i), factor));
        }
    }
}

#[derive(Clone, Copy)]
struct LogSoftmax;

impl Way for LogSoftmax {
    #[inline(always)]
    fn row<S: Simd>(self, s: S, y: &mut [f32]) {
        let (whole, end) = End::of(s, y);
        let shift = s.splat(s.largest(s.max(end.x, max_of_vectors(s, &y[..whole]))));
        let log = s.splat(sum_exp_at(s, y, shift).ln());
        for y in y[..whole].chunks_exact_mut(S::LANES) {
            s.store(s.sub(s.sub(s.load_for_update(y), shift), log), y);
        }
        end.store(s, s.sub(s.sub(end.x, shift), log), y);
    }

    #[inline(always)]
    fn vector<S: Simd>(self, s: S, y: S::F32) -> S::F32 {
        let shift = s.splat(s.largest(y));
        let sum = s.sum(math::exp_to_one(s, s.sub(y, shift)));
        s.sub(s.sub(y, shift), math::ln(s, s.splat(sum)))
    }

    #[inline(always)]
    fn columns<S: Simd>(self, s: S, mut y: Columns<'_>) {
        let max = y.max(s);
        let mut sum = s.splat(0.0);
        for i in 0..y.len {
            sum = s.add(sum, math::exp(s, s.sub(y.load(s, i), max)));
        }
        let log = math::ln(s, sum);
        for i in 0..y.len {
            y.store(s, i, s.sub(s.sub(y.load(s, i), max), log));
        }
    }
}

/// The last vector of a row, which repeats elements of the vectors before it.
pub(crate) struct End<S: Simd> {
    pub x: S::F32,
    /// 1 in the lanes that no other vector has, and 0 in the others.
    pub is_new: S::F32,
}

impl<S: Simd> End<S> {
    /// Returns the number of elements of the vectors before the last one of `x`, which has at least
    /// a vector, and the last one.
    #[inline(always)]
    pub fn of(s: S, x: &[f32]) -> (usize, End<S>) {
        const IS_NEW: [f32; 2 * MAX_LANES] = {
            let mut is_new = [0.0; 2 * MAX_LANES];
            is_new.split_at_mut(MAX_LANES).1.copy_from_slice(&[1.0; MAX_LANES]);
            is_new
        };
        let (whole, start) = ((x.len() - 1) / S::LANES * S::LANES, x.len() - S::LANES);
        let is_new = s.load(&IS_NEW[MAX_LANES - (whole - start)..]);
        (whole, End { x: s.load(&x[start..]), is_new })
    }

    /// Stores the last vector of `y`.
    #[inline(always)]
    pub fn store(&self, s: S, x: S::F32, y: &mut [f32]) {
        let start = y.len() - S::LANES;
        s.store(x, &mut y[start..]);
    }
}

/// Returns the largest numbers, lane by lane. (If an element is NaN, so are its exponential and the
/// whole result.)
#[inline(always)]
pub(crate) fn max_of_vectors<S: Simd>(s: S, x: &[f32]) -> S::F32 {
    fold_at(
        s,
        x,
        f32::NEG_INFINITY,
        #[inline(always)]
        |max, x| s.max(max, x),
    )
}

/// `x` times a number.
#[derive(Clone, Copy)]
pub(crate) struct Times(pub f32);

impl Pointwise for Times {
    #[inline(always)]
    fn apply<S: Simd>(self, s: S, x: S::F32) -> S::F32 {
        s.mul(x, s.splat(self.0))
    }
}

/// A lane of a tensor of another type than `f32`, processed in blocks of the wide type.
struct Lane<'a, T> {
    y: &'a mut [T],
    len: usize,
    inner: usize,
}

fn each_lane<T: Float>(y: &mut [T], geometry: Axis, work: fn(Lane<'_, T>)) {
    let Axis { outer, len, inner } = geometry;
    if y.is_empty() {
        return;
    }
    for at in (0..outer).flat_map(|o| (0..inner).map(move |i| o * len * inner + i)) {
        work(Lane { y: &mut y[at..], len, inner });
    }
}

impl<T: Float> Lane<'_, T> {
    /// Each step is rounded to the element type, as in the function that defines the operator.
    fn softmax(mut self) {
        let round = |x| T::narrow(x).widen();
        let max = self.max();
        let mut sum = T::Wide::ZERO;
        self.each_block(|block, _| {
            exp_minus_rounded(block, max, round);
            let more = sum_rounded::<T, _>(block, round);
            sum = if T::ROUNDS_SUMS { round(sum.add(more)) } else { sum.add(more) };
        });
        let sum = round(sum);
        self.replace(|block| {
            exp_minus_rounded(block, max, round);
            block.iter_mut().for_each(|e| *e = e.div(sum));
        });
    }

    fn log_softmax(mut self) {
        let max = self.max();
        let log = self.sum_exp(max).ln();
        self.replace(|block| block.iter_mut().for_each(|x| *x = x.sub(max).sub(log)));
    }

    fn max(&self) -> T::Wide {
        let elements = self.y.iter().step_by(self.inner).take(self.len);
        elements.fold(T::Wide::LOWEST, |max, x| max.maximum(x.widen()))
    }

    fn sum_exp(&mut self, max: T::Wide) -> T::Wide {
        let mut sum = T::Wide::ZERO;
        self.each_block(|block, _| {
            exp_minus(block, max);
            sum = sum.add(Sum.take_all(block));
        });
        sum
    }

    fn replace(&mut self, f: impl Fn(&mut [T::Wide])) {
        let inner = self.inner;
        self.each_block(|block, y| {
            f(block);
            for (y, &e) in y.iter_mut().step_by(inner).zip(&*block) {
                *y = T::narrow(e);
            }
        });
    }

    /// Calls `visit` with the next elements, widened, and with their source.
    fn each_block(&mut self, mut visit: impl FnMut(&mut [T::Wide], &mut [T])) {
        let mut block = [T::Wide::ZERO; 256];
        for first in (0..self.len).step_by(block.len()) {
            let block = &mut block[..256.min(self.len - first)];
            let y = &mut self.y[first * self.inner..];
            for (wide, y) in block.iter_mut().zip(y.iter().step_by(self.inner)) {
                *wide = y.widen();
            }
            visit(block, y);
        }
    }
}

/// Softmax of a row of `T`s stored in a wide type; every step is rounded to `T`.
pub(crate) fn softmax_rounded<T: Float, W: Float>(row: &mut [W], round: fn(W) -> W) {
    let max = row.iter().fold(W::LOWEST, |max, &x| max.maximum(x));
    exp_minus_rounded(row, max, round);
    let sum = round(sum_rounded::<T, W>(row, round));
    row.iter_mut().for_each(|e| *e = round(e.div(sum)));
}

/// `e^(x - max)`, where the difference is rounded, too.
fn exp_minus_rounded<W: Float>(x: &mut [W], max: W, round: impl Fn(W) -> W) {
    x.iter_mut().for_each(|x| *x = round(x.sub(max)));
    exp_in_place(x);
    x.iter_mut().for_each(|x| *x = round(*x));
}

/// Sums `T`s with each step rounded, if the type requires it: the halves of a long row separately,
/// so that rounding errors do not add up.
fn sum_rounded<T: Float, W: Float>(x: &[W], round: impl Fn(W) -> W + Copy) -> W {
    const SHORT: usize = 8;
    if !T::ROUNDS_SUMS {
        return W::narrow(Sum.take_all(x));
    }
    if x.len() <= SHORT {
        return x.iter().fold(W::ZERO, |sum, &x| round(sum.add(x)));
    }
    let (a, b) = x.split_at(x.len() / 2);
    round(sum_rounded::<T, W>(a, round).add(sum_rounded::<T, W>(b, round)))
}

fn exp_minus<W: Float>(x: &mut [W], max: W) {
    for x in &mut *x {
        *x = x.sub(max);
    }
    exp_in_place(x);
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::array::from_fn;

    type Kernel<T> = fn(&[T], &mut [T], Axis);

    const GEOMETRIES: [(usize, usize, usize); 12] = [
        (2, 3, 4),
        (1, 1, 1),
        (3, 17, 1),
        (1, 300, 1),
        (1, 5, 37),
        (7, 16, 1),
        (35, 8, 1),
        (2, 31, 3),
        (5, 33, 1),
        (2, 130, 1),
        (0, 3, 1),
        (2, 0, 3),
    ];

    /// Compares both kernels with their formulas in `f64`.
    fn check<T: Float>(softmax: Kernel<T>, log_softmax: Kernel<T>, error: f64) {
        let x: [T; 300] = from_fn(|i| T::from_f64(((i * 37) % 101) as f64 / 8.0 - 6.0));
        for (outer, len, inner) in GEOMETRIES {
            let (mut y, mut z, n) = ([T::ZERO; 300], [T::ZERO; 300], outer * len * inner);
            softmax(&x[..n], &mut y[..n], Axis { outer, len, inner });
            log_softmax(&x[..n], &mut z[..n], Axis { outer, len, inner });
            for i in 0..n {
                let first = i / (len * inner) * len * inner + i % inner;
                let lane = (0..len).map(|j| x[first + j * inner].to_f64());
                let max = lane.clone().fold(f64::NEG_INFINITY, f64::max);
                let log = libm::log(lane.map(|x| libm::exp(x - max)).sum());
                let expected = x[i].to_f64() - max - log;
                let close = |y: T, expected: f64, scale: f64| {
                    (y.to_f64() - expected).abs() <= error * expected.abs().max(scale)
                };
                assert!(close(y[i], libm::exp(expected), 1e-3), "{i}: {}", y[i].to_f64());
                assert!(close(z[i], expected, 1.0), "{i}: {} {expected}", z[i].to_f64());
            }
        }
    }

    #[test]
    fn every_lane_is_the_formula() {
        check::<f32>(softmax, log_softmax, 1e-6);
        check::<f32>(
            |x, y, geometry| copy_and(x, y, geometry, softmax_by_number),
            log_softmax,
            1e-6,
        );
        check::<f64>(softmax, log_softmax, 1e-14);
        #[cfg(feature = "half")]
        check::<half::f16>(softmax, log_softmax, 1e-3);
    }

    #[cfg(feature = "std")]
    #[test]
    fn every_level_is_the_formula() {
        crate::simd::each_level(|_| check::<f32>(softmax, log_softmax, 1e-6));
    }

    #[test]
    fn a_softmax_row_sums_to_one_for_large_inputs() {
        for softmax in [softmax_in_place::<f32>, softmax_by_number] {
            let mut y = [3e38f32, 3e38, -3e38, f32::NEG_INFINITY];
            softmax(&mut y, Axis { outer: 1, len: 4, inner: 1 });
            assert_eq!(y, [0.5, 0.5, 0.0, 0.0]);
        }
        let mut y = [3e38f32, -3e38, f32::NEG_INFINITY];
        log_softmax_in_place(&mut y, Axis { outer: 1, len: 3, inner: 1 });
        assert_eq!(y, [0.0, f32::NEG_INFINITY, f32::NEG_INFINITY]);
    }

    #[test]
    fn a_nan_affects_only_its_lane() {
        for (geometry, spoiled) in [
            (Axis { outer: 2, len: 3, inner: 1 }, [true, true, true, false, false, false]),
            (Axis { outer: 1, len: 3, inner: 2 }, [true, false, true, false, true, false]),
        ] {
            for softmax in [softmax_in_place::<f32>, softmax_by_number] {
                let mut y = [100.0f32, 1.0, 2.0, 1.0, 2.0, 3.0];
                y[usize::from(geometry.inner == 2) * 2] = f32::NAN;
                y[0] = f32::NAN;
                softmax(&mut y, geometry);
                assert_eq!(y.map(f32::is_nan), spoiled);
            }
        }
    }

    #[cfg(feature = "half")]
    #[test]
    fn a_long_sum_of_16_bit_numbers_keeps_growing() {
        let mut y = [half::bf16::ONE; 1000];
        softmax_in_place(&mut y, Axis { outer: 1, len: 1000, inner: 1 });
        assert!(y.iter().all(|y| (y.to_f64() * 1000.0 - 1.0).abs() < 0.01), "{}", y[0]);
    }

    #[test]
    fn the_first_of_the_largest_is_one() {
        let mut y = [9; 6];
        hardmax(&[1, 3, 3, 5, 4, 5], &mut y, Axis { outer: 2, len: 3, inner: 1 });
        assert_eq!(y, [0, 1, 0, 1, 0, 0]);
        hardmax(&[1, 3, 3, 3, 3, 4], &mut y, Axis { outer: 1, len: 3, inner: 2 });
        assert_eq!(y, [0, 0, 1, 0, 0, 1]);
    }

    #[test]
    fn an_empty_tensor_takes_no_time() {
        let geometry = Axis { outer: usize::MAX, len: 0, inner: 2 };
        hardmax::<f32>(&[], &mut [], geometry);
        softmax_in_place::<f32>(&mut [], geometry);
        softmax_in_place::<f64>(&mut [], geometry);
        log_softmax_in_place::<f64>(&mut [], geometry);
    }
}
