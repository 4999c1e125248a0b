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

/// Returns whether a loop that reads `from` and writes `to` is faster from the end.
///
/// A processor compares the last 12 bits of addresses first: a load waits for an earlier store
/// whose bits it shares, although their addresses differ. Loads run ahead of stores, so the loop
/// takes the direction in which no later load has the bits of an earlier store.
#[inline(always)]
fn backwards_is_faster(from: *const f32, to: *const f32) -> bool {
    let ahead = to.addr().wrapping_sub(from.addr()) % 4096;
    (1..2048).contains(&ahead)
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
        self.each_vector(
            s,
            #[inline(always)]
            |_, x| f(x),
        );
        let whole = len - len % S::LANES;
        if whole < len {
            // SAFETY: both slices have `len` elements. They are the same or do not overlap, and the
            // shared reference ends before the exclusive access.
            unsafe {
                let x = s.load_head(from_raw_parts(from.add(whole), len - whole));
                s.store_head(f(x), from_raw_parts_mut(to.add(whole), len - whole));
            }
        }
    }

    /// Computes each element of the whole vectors as `f` of its source, and of the index of the
    /// first element of its vector.
    #[inline(always)]
    pub fn each_vector<S: Simd>(&self, s: S, f: impl Fn(usize, S::F32) -> S::F32) {
        let &Elements { from, to, len, .. } = self;
        let vectors = len / S::LANES;
        // Forwards from the first vector, or backwards from the last one.
        let (mut i, step) = match backwards_is_faster(from, to) {
            false => (0, S::LANES),
            true => (vectors.wrapping_sub(1).wrapping_mul(S::LANES), S::LANES.wrapping_neg()),
        };
        for _ in 0..vectors {
            // SAFETY: both slices have `len` elements, and `i` takes each multiple of LANES below
            // `vectors · LANES` once, so that `i + LANES <= len`. The slices are the same or do not
            // overlap, and the shared reference ends before the exclusive access.
            unsafe {
                let x = s.load_for_update(from_raw_parts(from.add(i), S::LANES));
                s.store_at(f(i, x), to.add(i));
            }
            i = i.wrapping_add(step);
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
