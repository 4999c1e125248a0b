//! Applies functions of one number to slices.

use super::{MAX_LANES, Simd, WithSimd, dispatch};
use crate::threads;

/// A function of one number, written once for vectors of any length.
pub trait Pointwise: Copy + Sync {
    /// Returns the function's value. Every implementation must be `#[inline(always)]`.
    fn apply<S: Simd>(self, s: S, x: S::F32) -> S::F32;
}

/// Computes `y[i] = f(x[i])`.
#[inline(always)]
pub fn map<F: Pointwise>(x: &[f32], y: &mut [f32], f: F) {
    debug_assert_eq!(x.len(), y.len());
    let cost = y.len();
    threads::share(y, MAX_LANES, cost, |first, y| {
        let x = &x[first * MAX_LANES..][..y.len()];
        dispatch(Map { x, y, f });
    });
}

/// Computes `y[i] = f(y[i])`.
#[inline(always)]
pub fn map_in_place<F: Pointwise>(y: &mut [f32], f: F) {
    let cost = y.len();
    threads::share(y, MAX_LANES, cost, |_, y| dispatch(MapInPlace { y, f }));
}

/// Computes `y[i] = f(x[i])`, at a level.
#[inline(always)]
pub fn map_at<S: Simd, F: Pointwise>(s: S, x: &[f32], y: &mut [f32], f: F) {
    let mut xs = x.chunks_exact(S::LANES);
    let mut ys = y.chunks_exact_mut(S::LANES);
    for (x, y) in (&mut xs).zip(&mut ys) {
        s.store(f.apply(s, s.load(x)), y);
    }
    let (x, y) = (xs.remainder(), ys.into_remainder());
    if !x.is_empty() {
        s.store_head(f.apply(s, s.load_head(x)), y);
    }
}

/// Computes `y[i] = f(y[i])`, at a level.
#[inline(always)]
pub fn map_in_place_at<S: Simd, F: Pointwise>(s: S, y: &mut [f32], f: F) {
    let mut ys = y.chunks_exact_mut(S::LANES);
    for y in &mut ys {
        s.store(f.apply(s, s.load_for_update(y)), y);
    }
    let y = ys.into_remainder();
    if !y.is_empty() {
        s.store_head(f.apply(s, s.load_head(y)), y);
    }
}

struct Map<'a, F> {
    x: &'a [f32],
    y: &'a mut [f32],
    f: F,
}

impl<F: Pointwise> WithSimd for Map<'_, F> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        map_at(s, self.x, self.y, self.f);
    }
}

struct MapInPlace<'a, F> {
    y: &'a mut [f32],
    f: F,
}

impl<F: Pointwise> WithSimd for MapInPlace<'_, F> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        map_in_place_at(s, self.y, self.f);
    }
}
