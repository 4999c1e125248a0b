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

/// Replaces the elements of a row by a function of them and of the elements of `b` that are `step`
/// apart.
pub(crate) type ZipRow = fn(y: &mut [f32], b: &[f32], step: usize);

/// Computes `y = f(a, b)` by rows.
pub(crate) fn zip_vectors(
    (a, b): (&[f32], &[f32]),
    y: &mut [f32],
    geometry: Broadcast<'_>,
    zip_row: ZipRow,
) {
    zip_rows(a, b, y, geometry, |a, b, y, steps| {
        let cost = COST * y.len();
        threads::share(y, BLOCK, cost, |first, y| {
            for (block, y) in (first..).zip(y.chunks_mut(BLOCK)) {
                let [i, j] = steps.map(|step| block * BLOCK * step.cast_unsigned());
                copy_row(a, i, steps[0], y);
                zip_row(y, &b[j..], steps[1].cast_unsigned());
            }
        });
    });
}

/// Computes `y = f(y, b)` by rows.
pub(crate) fn zip_vectors_in_place(
    y: &mut [f32],
    b: &[f32],
    geometry: Broadcast<'_>,
    zip_row: ZipRow,
) {
    zip_rows_in_place(y, b, geometry, |y, b, step| {
        let cost = COST * y.len();
        threads::share(y, MAX_LANES, cost, |first, y| {
            zip_row(y, &b[first * MAX_LANES * step..], step);
        });
    });
}

/// A [`ZipRow`] of a function.
#[inline(always)]
pub(crate) fn zip_row<F: PairFunction>(y: &mut [f32], b: &[f32], step: usize, f: F) {
    dispatch(Zip { y, b, step, f });
}

struct Zip<'a, F> {
    y: &'a mut [f32],
    b: &'a [f32],
    step: usize,
    f: F,
}

impl<F: PairFunction> WithSimd for Zip<'_, F> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let Zip { y, b, step, f } = self;
        // The function is inlined once, so the last vector takes the same way as the others.
        for (i, y) in y.chunks_mut(S::LANES).enumerate() {
            let b = load_strided(s, &b[i * S::LANES * step..], step, y.len());
            let a = if y.len() == S::LANES { s.load(y) } else { s.load_head(y) };
            let a = f.apply(s, a, b);
            if y.len() == S::LANES { s.store(a, y) } else { s.store_head(a, y) }
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
