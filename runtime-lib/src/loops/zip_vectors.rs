//! Vector functions of two numbers over operands that broadcast to one shape.

use crate::loops::broadcast::{zip_rows, zip_rows_in_place};
use crate::loops::geometry::Broadcast;
use crate::loops::strided::copy_row;
use crate::simd::{MAX_LANES, Simd, WithSimd, dispatch};
use crate::threads;

/// A function of two numbers, written once for vectors of any length.
pub(crate) trait PairFunction: Copy + Sync {
    /// Returns the function's value. Every implementation must be `#[inline(always)]`.
    fn apply<S: Simd>(self, s: S, a: S::F32, b: S::F32) -> S::F32;
}

/// Elements that are copied before the function is applied to them in the cache.
const BLOCK: usize = 64 * MAX_LANES;

/// The work for an element, in elements that are only added.
const COST: usize = 8;

/// `y = f(a, b)`.
#[inline(always)]
pub(crate) fn zip_vectors<F: PairFunction>(
    (a, b): (&[f32], &[f32]),
    y: &mut [f32],
    geometry: Broadcast<'_>,
    f: F,
) {
    zip_rows(a, b, y, geometry, |a, b, y, steps| {
        let cost = COST * y.len();
        threads::share(y, BLOCK, cost, |first, y| {
            for (block, y) in (first..).zip(y.chunks_mut(BLOCK)) {
                let [i, j] = steps.map(|step| block * BLOCK * step.cast_unsigned());
                copy_row(a, i, steps[0], y);
                dispatch(ZipRow { y, b: &b[j..], step: steps[1].cast_unsigned(), f });
            }
        });
    });
}

/// `y = f(y, b)`.
#[inline(always)]
pub(crate) fn zip_vectors_in_place<F: PairFunction>(
    y: &mut [f32],
    b: &[f32],
    geometry: Broadcast<'_>,
    f: F,
) {
    zip_rows_in_place(y, b, geometry, |y, b, step| {
        let cost = COST * y.len();
        threads::share(y, MAX_LANES, cost, |first, y| {
            dispatch(ZipRow { y, b: &b[first * MAX_LANES * step..], step, f });
        });
    });
}

/// A row of the left operand, which the result overwrites, and the right operand.
struct ZipRow<'a, F> {
    y: &'a mut [f32],
    b: &'a [f32],
    step: usize,
    f: F,
}

impl<F: PairFunction> WithSimd for ZipRow<'_, F> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let ZipRow { y, b, step, f } = self;
        let mut ys = y.chunks_exact_mut(S::LANES);
        let mut at = 0;
        for y in &mut ys {
            let b = load_strided(s, &b[at * step..], step, S::LANES);
            s.store(f.apply(s, s.load(y), b), y);
            at += S::LANES;
        }
        let y = ys.into_remainder();
        if !y.is_empty() {
            let b = load_strided(s, &b[at * step..], step, y.len());
            s.store_head(f.apply(s, s.load_head(y), b), y);
        }
    }
}

/// Loads the first `len` elements (at most a vector) that are `step` apart, filled with ones.
#[inline(always)]
fn load_strided<S: Simd>(s: S, from: &[f32], step: usize, len: usize) -> S::F32 {
    match step {
        0 => s.splat(from[0]),
        1 if len == S::LANES => s.load(from),
        step => {
            let mut numbers = [1.0; MAX_LANES];
            for (number, from) in numbers[..len].iter_mut().zip(from.iter().step_by(step)) {
                *number = *from;
            }
            s.load(&numbers)
        }
    }
}
