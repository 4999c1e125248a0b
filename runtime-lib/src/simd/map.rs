//! Applies functions of one number to slices.

use super::{MAX_LANES, Simd, WithSimd, dispatch};
use crate::threads::{self, MaybeSync};
use core::marker::PhantomData;
use core::slice::{from_raw_parts, from_raw_parts_mut};

/// A function of one number, written once for vectors of any length.
pub trait Pointwise: Copy + Sync {
    /// Returns the function's value. Every implementation must be `#[inline(always)]`.
    fn apply<S: Simd>(self, s: S, x: S::F32) -> S::F32;
}

/// The elements of a slice, which are computed from those of another slice, or in place.
pub(crate) struct Elements<'a> {
    from: *const f32,
    to: *mut f32,
    len: usize,
    slices: PhantomData<(&'a [f32], &'a mut [f32])>,
}

impl<'a> Elements<'a> {
    /// The elements of `y`, computed from those of `x`, or in place.
    #[inline(always)]
    pub fn of(x: Option<&'a [f32]>, y: &'a mut [f32]) -> Elements<'a> {
        let (to, len) = (y.as_mut_ptr(), y.len());
        let from = x.map_or(to.cast_const(), |x| x[..len].as_ptr());
        Elements { from, to, len, slices: PhantomData }
    }

    /// Computes each element as `f` of its source. Both forms share one loop.
    #[inline(always)]
    pub fn each<S: Simd>(self, s: S, f: impl Fn(S::F32) -> S::F32) {
        let Elements { from, to, len, .. } = self;
        let whole = len - len % S::LANES;
        for i in (0..whole).step_by(S::LANES) {
            // SAFETY: both slices have `len` elements, and `i + LANES <= len`. They are the same
            // or do not overlap, and the shared reference ends before the exclusive access.
            unsafe {
                let x = s.load_for_update(from_raw_parts(from.add(i), S::LANES));
                s.store_at(f(x), to.add(i));
            }
        }
        if whole < len {
            // SAFETY: as above, for the elements from `whole` to `len`.
            unsafe {
                let x = s.load_head(from_raw_parts(from.add(whole), len - whole));
                s.store_head(f(x), from_raw_parts_mut(to.add(whole), len - whole));
            }
        }
    }
}

/// Lets threads compute parts of `y`, from the same parts of `x` or in place.
#[inline(always)]
pub(crate) fn share(
    x: Option<&[f32]>,
    y: &mut [f32],
    compute: impl Fn(Option<&[f32]>, &mut [f32]) + MaybeSync,
) {
    let cost = y.len();
    threads::share(y, MAX_LANES, cost, |first, y| {
        compute(x.map(|x| &x[first * MAX_LANES..][..y.len()]), y);
    });
}

/// Computes `y[i] = f(x[i])`, or `y[i] = f(y[i])` without `x`.
#[inline(always)]
pub fn map<F: Pointwise>(x: Option<&[f32]>, y: &mut [f32], f: F) {
    share(x, y, |x, y| dispatch(Map { elements: Elements::of(x, y), f }));
}

/// Computes `y[i] = f(x[i])`, or `y[i] = f(y[i])` without `x`, at a level.
#[inline(always)]
pub fn map_at<S: Simd, F: Pointwise>(s: S, x: Option<&[f32]>, y: &mut [f32], f: F) {
    Map { elements: Elements::of(x, y), f }.run(s);
}

struct Map<'a, F> {
    elements: Elements<'a>,
    f: F,
}

impl<F: Pointwise> WithSimd for Map<'_, F> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        self.elements.each(
            s,
            #[inline(always)]
            |x| self.f.apply(s, x),
        );
    }
}
