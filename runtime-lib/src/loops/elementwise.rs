//! Loops over the elements of one operand.

use crate::simd::HAS_VECTORS;
use crate::{Elem, Float, Number};

/// Elements that are converted together, so that they stay in the cache.
const BLOCK: usize = 256;
/// Elements that are copied together. Each call of a function costs as much as several vectors.
const COPIED: usize = if HAS_VECTORS { 1024 } else { BLOCK };

/// Writes `f` of each element of `x`.
#[inline(always)]
pub(crate) fn map<A: Copy, Y>(x: &[A], y: &mut [Y], f: impl Fn(A) -> Y) {
    debug_assert_eq!(x.len(), y.len(), "a map has as many results as elements");
    for (y, &x) in y.iter_mut().zip(x) {
        *y = f(x);
    }
}

/// Replaces each element by `f` of it.
#[inline(always)]
pub(crate) fn map_in_place<A: Copy>(y: &mut [A], f: impl Fn(A) -> A) {
    for y in y {
        *y = f(*y);
    }
}

/// Writes `f` of each element of `x`; `f32` uses `vectors` in place.
#[inline(always)]
pub(crate) fn map_fast<T: Number>(
    x: &[T],
    y: &mut [T],
    vectors: impl Fn(&mut [f32]),
    f: impl Fn(T) -> T,
) {
    if T::as_f32(x).is_none() {
        return map(x, y, f);
    }
    for (x, y) in x.chunks(COPIED).zip(y.chunks_mut(COPIED)) {
        y.copy_from_slice(x);
        T::as_f32_mut(y).map(&vectors);
    }
}

/// Replaces each element by `f` of it; `f32` uses `vectors`.
#[inline(always)]
pub(crate) fn map_fast_in_place<T: Number>(
    y: &mut [T],
    vectors: impl Fn(&mut [f32]),
    f: impl Fn(T) -> T,
) {
    match T::as_f32_mut(y) {
        Some(y) => vectors(y),
        None => map_in_place(y, f),
    }
}

/// [`map_fast`] for a function that 16-bit types compute in `f32`.
#[inline(always)]
pub(crate) fn map_float<T: Float>(
    x: &[T],
    y: &mut [T],
    vectors: impl Fn(&mut [f32]),
    f: impl Fn(T) -> T,
) {
    for (x, y) in x.chunks(COPIED).zip(y.chunks_mut(COPIED)) {
        y.copy_from_slice(x);
        map_float_in_place(y, &vectors, &f);
    }
}

/// [`map_fast_in_place`] for a function that 16-bit types compute in `f32`.
#[inline(always)]
pub(crate) fn map_float_in_place<T: Float>(
    y: &mut [T],
    vectors: impl Fn(&mut [f32]),
    f: impl Fn(T) -> T,
) {
    let mut block = [T::Wide::ZERO; BLOCK];
    if T::as_f32(y).is_some() || T::Wide::as_f32(&block).is_none() {
        return map_fast_in_place(y, vectors, f);
    }
    for y in y.chunks_mut(BLOCK) {
        let block = &mut block[..y.len()];
        map(y, block, T::widen);
        T::Wide::as_f32_mut(block).map(&vectors);
        map(block, y, T::narrow);
    }
}

/// [`map_float`] for a function that is smaller for single numbers on targets without vectors.
#[inline(always)]
pub(crate) fn map_large<T: Float>(
    x: &[T],
    y: &mut [T],
    vectors: impl Fn(&mut [f32]),
    f: impl Fn(T) -> T,
) {
    if HAS_VECTORS { map_float(x, y, vectors, f) } else { map(x, y, f) }
}

/// [`map_large`] in place.
#[inline(always)]
pub(crate) fn map_large_in_place<T: Float>(
    y: &mut [T],
    vectors: impl Fn(&mut [f32]),
    f: impl Fn(T) -> T,
) {
    if HAS_VECTORS { map_float_in_place(y, vectors, f) } else { map_in_place(y, f) }
}
