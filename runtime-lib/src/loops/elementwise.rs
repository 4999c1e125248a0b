//! Loops over the elements of one operand.

use crate::simd::HAS_VECTORS;
use crate::{Elem, Float, Number};

/// Elements that are converted together, so that they stay in the cache.
const BLOCK: usize = 256;

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

/// Writes `f` of each element of `x`; `f32` uses `vectors`, which computes its second argument from
/// the first, or in place.
#[inline(always)]
pub(crate) fn map_fast<T: Number>(
    x: &[T],
    y: &mut [T],
    vectors: impl Fn(Option<&[f32]>, &mut [f32]),
    f: impl Fn(T) -> T,
) {
    match (T::as_f32(x), T::as_f32_mut(y)) {
        (Some(x), Some(y)) => vectors(Some(x), y),
        _ => map(x, y, f),
    }
}

/// Replaces each element by `f` of it; `f32` uses `vectors`.
#[inline(always)]
pub(crate) fn map_fast_in_place<T: Number>(
    y: &mut [T],
    vectors: impl Fn(Option<&[f32]>, &mut [f32]),
    f: impl Fn(T) -> T,
) {
    match T::as_f32_mut(y) {
        Some(y) => vectors(None, y),
        None => map_in_place(y, f),
    }
}

/// [`map_fast`] for a function that 16-bit types compute in `f32`.
#[inline(always)]
pub(crate) fn map_float<T: Float>(
    x: &[T],
    y: &mut [T],
    vectors: impl Fn(Option<&[f32]>, &mut [f32]),
    f: impl Fn(T) -> T,
) {
    if !computes_in_f32::<T>() {
        return map_fast(x, y, vectors, f);
    }
    for (x, y) in x.chunks(BLOCK).zip(y.chunks_mut(BLOCK)) {
        y.copy_from_slice(x);
        map_block(y, &vectors);
    }
}

/// [`map_fast_in_place`] for a function that 16-bit types compute in `f32`.
#[inline(always)]
pub(crate) fn map_float_in_place<T: Float>(
    y: &mut [T],
    vectors: impl Fn(Option<&[f32]>, &mut [f32]),
    f: impl Fn(T) -> T,
) {
    if !computes_in_f32::<T>() {
        return map_fast_in_place(y, vectors, f);
    }
    for y in y.chunks_mut(BLOCK) {
        map_block(y, &vectors);
    }
}

/// Returns whether a type of 16 bits computes in `f32`.
#[inline(always)]
fn computes_in_f32<T: Float>() -> bool {
    T::as_f32(&[]).is_none() && T::Wide::as_f32(&[]).is_some()
}

/// Converts at most [`BLOCK`] elements to `f32` and back, and computes `vectors` in between.
#[inline(always)]
fn map_block<T: Float>(y: &mut [T], vectors: impl Fn(Option<&[f32]>, &mut [f32])) {
    let mut block = [T::Wide::ZERO; BLOCK];
    let block = &mut block[..y.len()];
    map(y, block, T::widen);
    if let Some(block) = T::Wide::as_f32_mut(block) {
        vectors(None, block);
    }
    map(block, y, T::narrow);
}

/// [`map_float`] for a function that is smaller for single numbers on targets without vectors.
#[inline(always)]
pub(crate) fn map_large<T: Float>(
    x: &[T],
    y: &mut [T],
    vectors: impl Fn(Option<&[f32]>, &mut [f32]),
    f: impl Fn(T) -> T,
) {
    if HAS_VECTORS { map_float(x, y, vectors, f) } else { map(x, y, f) }
}

/// [`map_large`] in place.
#[inline(always)]
pub(crate) fn map_large_in_place<T: Float>(
    y: &mut [T],
    vectors: impl Fn(Option<&[f32]>, &mut [f32]),
    f: impl Fn(T) -> T,
) {
    if HAS_VECTORS { map_float_in_place(y, vectors, f) } else { map_in_place(y, f) }
}
