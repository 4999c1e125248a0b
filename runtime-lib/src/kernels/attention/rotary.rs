//! `RotaryEmbedding`: rotates pairs of elements of each head by angles that depend on the position
//! of the row.

use crate::Float;
use crate::error::Result;
use crate::loops::index::index;
use crate::simd::{Simd, WithSimd, dispatch};

/// The sizes and strides of a rotary embedding.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rotary {
    /// The number of sequences.
    pub batch: usize,
    /// The number of heads of a row.
    pub heads: usize,
    /// The number of rows of a sequence.
    pub len: usize,
    /// The number of elements of a head.
    pub size: usize,
    /// The number of pairs that are rotated; the elements after them are copied.
    pub pairs: usize,
    /// The strides of sequences, heads and rows.
    pub x: [usize; 3],
    /// The strides of sequences and rows in the positions, or in the angles if there are no
    /// positions.
    pub places: [usize; 2],
    /// The number of rows of angles that positions select from; 0 without positions.
    pub angles: usize,
}

/// Rotates element `i` of each head with element `pairs + i`.
///
/// # Errors
///
/// Returns an error if a position is out of range.
pub fn rotary_embedding<T: Float>(
    x: &[T],
    cos: &[T],
    sin: &[T],
    places: Option<&[i64]>,
    y: &mut [T],
    geometry: Rotary,
) -> Result {
    y.copy_from_slice(x);
    rotary_embedding_in_place(y, cos, sin, places, geometry)
}

/// [`rotary_embedding`] in place.
///
/// # Errors
///
/// Returns an error under the conditions of [`rotary_embedding`].
pub fn rotary_embedding_in_place<T: Float>(
    y: &mut [T],
    cos: &[T],
    sin: &[T],
    places: Option<&[i64]>,
    geometry: Rotary,
) -> Result {
    let Rotary { pairs, .. } = geometry;
    each_head(y, (cos, sin), places, geometry, &mut |head, cos, sin| {
        let (a, b) = head[..2 * pairs].split_at_mut(pairs);
        match (T::as_f32_mut(a), T::as_f32_mut(b), T::as_f32(cos), T::as_f32(sin)) {
            (Some(a), Some(b), Some(cos), Some(sin)) => rotate_f32(a, b, cos, sin),
            _ => {
                let angles = cos.iter().zip(sin);
                a.iter_mut().zip(b).zip(angles).for_each(|((a, b), (&cos, &sin))| {
                    (*a, *b) = rotated(*a, *b, cos, sin);
                });
            }
        }
    })
}

/// Rotates element `2i` of each head with element `2i + 1`.
///
/// # Errors
///
/// Returns an error if a position is out of range.
pub fn rotary_embedding_interleaved<T: Float>(
    x: &[T],
    cos: &[T],
    sin: &[T],
    places: Option<&[i64]>,
    y: &mut [T],
    geometry: Rotary,
) -> Result {
    y.copy_from_slice(x);
    rotary_embedding_interleaved_in_place(y, cos, sin, places, geometry)
}

/// [`rotary_embedding_interleaved`] in place.
///
/// # Errors
///
/// Returns an error under the conditions of [`rotary_embedding_interleaved`].
pub fn rotary_embedding_interleaved_in_place<T: Float>(
    y: &mut [T],
    cos: &[T],
    sin: &[T],
    places: Option<&[i64]>,
    geometry: Rotary,
) -> Result {
    each_head(y, (cos, sin), places, geometry, &mut |head, cos, sin| {
        for (pair, (&cos, &sin)) in head.chunks_exact_mut(2).zip(cos.iter().zip(sin)) {
            (pair[0], pair[1]) = rotated(pair[0], pair[1], cos, sin);
        }
    })
}

/// Rotates a pair. Products and sums are rounded to the type, as in numpy.
#[inline(always)]
fn rotated<T: Float>(a: T, b: T, cos: T, sin: T) -> (T, T) {
    (cos.mul(a).sub(sin.mul(b)), sin.mul(a).add(cos.mul(b)))
}

/// A function of a head, its cosines and its sines.
type Visit<'a, T> = dyn FnMut(&mut [T], &[T], &[T]) + 'a;

/// Calls `visit` with each head of each row, and its cosines and sines.
fn each_head<T: Float>(
    y: &mut [T],
    (cos, sin): (&[T], &[T]),
    places: Option<&[i64]>,
    geometry: Rotary,
    visit: &mut Visit<'_, T>,
) -> Result {
    let Rotary { batch, heads, len, size, pairs, x, places: strides, angles } = geometry;
    if y.is_empty() {
        return Ok(());
    }
    for (b, row) in (0..batch).flat_map(|b| (0..len).map(move |row| (b, row))) {
        let at = b * strides[0] + row * strides[1];
        let at = match places {
            Some(places) => index(places[at], angles)? * pairs,
            None => at,
        };
        let (cos, sin) = (&cos[at..][..pairs], &sin[at..][..pairs]);
        for head in 0..heads {
            visit(&mut y[b * x[0] + head * x[1] + row * x[2]..][..size], cos, sin);
        }
    }
    Ok(())
}

#[inline(never)]
fn rotate_f32(a: &mut [f32], b: &mut [f32], cos: &[f32], sin: &[f32]) {
    dispatch(Rotate { a, b, cos, sin });
}

struct Rotate<'a> {
    a: &'a mut [f32],
    b: &'a mut [f32],
    cos: &'a [f32],
    sin: &'a [f32],
}

impl WithSimd for Rotate<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let Rotate { a, b, cos, sin } = self;
        let n = a.len();
        for i in (0..n).step_by(S::LANES) {
            let part = i..(i + S::LANES).min(n);
            let (a, b) = (&mut a[part.clone()], &mut b[part.clone()]);
            let (cos, sin) = (s.load_head(&cos[part.clone()]), s.load_head(&sin[part]));
            let (x, y) = (s.load_head(a), s.load_head(b));
            s.store_head(s.sub(s.mul(cos, x), s.mul(sin, y)), a);
            s.store_head(s.add(s.mul(sin, x), s.mul(cos, y)), b);
        }
    }
}

#[cfg(all(test, feature = "std"))]
mod tests {
    use super::*;
    use crate::error::Error;
    use std::{vec, vec::Vec};

    const GEOMETRY: Rotary = Rotary {
        batch: 2,
        heads: 3,
        len: 4,
        size: 50,
        pairs: 21,
        x: [600, 50, 150],
        places: [4, 1],
        angles: 7,
    };

    fn numbers(n: usize, step: usize) -> Vec<f32> {
        (0..n).map(|i| ((i * step) % 97) as f32 / 50.0 - 1.0).collect()
    }

    type Kernel = fn(&[f32], &[f32], &[f32], Option<&[i64]>, &mut [f32], Rotary) -> Result;

    /// Compares a kernel with the formula. `pair` returns the indices of a pair in a head.
    fn check(kernel: Kernel, pair: fn(usize) -> [usize; 2]) {
        let (x, cos, sin) = (numbers(1200, 7), numbers(147, 11), numbers(147, 13));
        let places: Vec<i64> = (0..8).map(|i| (i * 5) % 14 - 7).collect();
        let mut y = vec![0.0; 1200];
        kernel(&x, &cos, &sin, Some(&places), &mut y, GEOMETRY)
            .expect("all positions are in range");
        let mut truth = x.clone();
        for i in 0..2 * 4 * 3 * 21 {
            let (head, row, i) = (i / 21 * 50, i / 63, i % 21);
            let angle = places[row].rem_euclid(7) as usize * 21 + i;
            let [a, b] = pair(i).map(|at| head + at);
            truth[a] = cos[angle] * x[a] - sin[angle] * x[b];
            truth[b] = sin[angle] * x[a] + cos[angle] * x[b];
        }
        assert_eq!(y, truth);
        // The same angles, with one row of them for each row.
        let each = |all: &[f32]| -> Vec<f32> {
            let at = |&place: &i64| &all[place.rem_euclid(7) as usize * 21..][..21];
            places.iter().flat_map(at).copied().collect()
        };
        let geometry = Rotary { places: [84, 21], angles: 0, ..GEOMETRY };
        kernel(&x, &each(&cos), &each(&sin), None, &mut y, geometry).expect("nothing to refuse");
        assert_eq!(y, truth);
        let refused = kernel(&x, &cos, &sin, Some(&[7; 8]), &mut y, GEOMETRY);
        assert_eq!(refused, Err(Error::Index { index: 7, size: 7 }));
    }

    #[test]
    fn pairs_are_rotated_and_the_rest_stays() {
        check(rotary_embedding::<f32>, |i| [i, 21 + i]);
        check(rotary_embedding_interleaved::<f32>, |i| [2 * i, 2 * i + 1]);
    }

    #[test]
    fn every_simd_level_rotates_the_same() {
        crate::simd::each_level(|_| check(rotary_embedding::<f32>, |i| [i, 21 + i]));
    }
}
