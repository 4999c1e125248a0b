//! Scattering by indices: `ScatterElements`, `ScatterND` and `TensorScatter`.

use crate::error::{Error, Result};
use crate::loops::geometry::{Elements, Points};
use crate::loops::index::signed;
use crate::{Elem, Integer, Number};

/// `ScatterElements`: writes each update at its index along the axis; its position along the other
/// axes is its own.
///
/// # Errors
///
/// Returns an error for an index out of range.
pub fn scatter_elements<T: Elem, I: Integer>(
    x: &[T],
    indices: &[I],
    updates: &[T],
    y: &mut [T],
    geometry: Elements<'_>,
) -> Result {
    y.clone_from_slice(x);
    scatter_elements_in_place(y, indices, updates, geometry)
}

/// [`scatter_elements`] in place.
///
/// # Errors
///
/// Returns an error under the conditions of [`scatter_elements`].
pub fn scatter_elements_in_place<T: Elem, I: Integer>(
    y: &mut [T],
    indices: &[I],
    updates: &[T],
    geometry: Elements<'_>,
) -> Result {
    replace_elements(y, indices, updates, geometry, |_, update| update.clone())
}

/// `ScatterElements` with reduction `add`.
///
/// # Errors
///
/// Returns an error for an index out of range.
pub fn scatter_elements_add<T: Number, I: Integer>(
    x: &[T],
    indices: &[I],
    updates: &[T],
    y: &mut [T],
    geometry: Elements<'_>,
) -> Result {
    y.clone_from_slice(x);
    scatter_elements_add_in_place(y, indices, updates, geometry)
}

/// [`scatter_elements_add`] in place.
///
/// # Errors
///
/// Returns an error under the conditions of [`scatter_elements`].
pub fn scatter_elements_add_in_place<T: Number, I: Integer>(
    y: &mut [T],
    indices: &[I],
    updates: &[T],
    geometry: Elements<'_>,
) -> Result {
    replace_elements(y, indices, updates, geometry, |y, update| y.add(*update))
}

/// `ScatterElements` with reduction `mul`.
///
/// # Errors
///
/// Returns an error for an index out of range.
pub fn scatter_elements_mul<T: Number, I: Integer>(
    x: &[T],
    indices: &[I],
    updates: &[T],
    y: &mut [T],
    geometry: Elements<'_>,
) -> Result {
    y.clone_from_slice(x);
    scatter_elements_mul_in_place(y, indices, updates, geometry)
}

/// [`scatter_elements_mul`] in place.
///
/// # Errors
///
/// Returns an error under the conditions of [`scatter_elements`].
pub fn scatter_elements_mul_in_place<T: Number, I: Integer>(
    y: &mut [T],
    indices: &[I],
    updates: &[T],
    geometry: Elements<'_>,
) -> Result {
    replace_elements(y, indices, updates, geometry, |y, update| y.mul(*update))
}

/// `ScatterElements` with reduction `max`.
///
/// # Errors
///
/// Returns an error for an index out of range.
pub fn scatter_elements_max<T: Number, I: Integer>(
    x: &[T],
    indices: &[I],
    updates: &[T],
    y: &mut [T],
    geometry: Elements<'_>,
) -> Result {
    y.clone_from_slice(x);
    scatter_elements_max_in_place(y, indices, updates, geometry)
}

/// [`scatter_elements_max`] in place.
///
/// # Errors
///
/// Returns an error under the conditions of [`scatter_elements`].
pub fn scatter_elements_max_in_place<T: Number, I: Integer>(
    y: &mut [T],
    indices: &[I],
    updates: &[T],
    geometry: Elements<'_>,
) -> Result {
    replace_elements(y, indices, updates, geometry, |y, update| y.maximum(*update))
}

/// `ScatterElements` with reduction `min`.
///
/// # Errors
///
/// Returns an error for an index out of range.
pub fn scatter_elements_min<T: Number, I: Integer>(
    x: &[T],
    indices: &[I],
    updates: &[T],
    y: &mut [T],
    geometry: Elements<'_>,
) -> Result {
    y.clone_from_slice(x);
    scatter_elements_min_in_place(y, indices, updates, geometry)
}

/// [`scatter_elements_min`] in place.
///
/// # Errors
///
/// Returns an error under the conditions of [`scatter_elements`].
pub fn scatter_elements_min_in_place<T: Number, I: Integer>(
    y: &mut [T],
    indices: &[I],
    updates: &[T],
    geometry: Elements<'_>,
) -> Result {
    replace_elements(y, indices, updates, geometry, |y, update| y.minimum(*update))
}

/// `ScatterND`: overwrites the slices at the points with the updates.
///
/// # Errors
///
/// Returns an error for an index out of range.
pub fn scatter_nd<T: Elem, I: Integer>(
    x: &[T],
    indices: &[I],
    updates: &[T],
    y: &mut [T],
    geometry: Points<'_>,
) -> Result {
    y.clone_from_slice(x);
    scatter_nd_in_place(y, indices, updates, geometry)
}

/// [`scatter_nd`] in place.
///
/// # Errors
///
/// Returns an error under the conditions of [`scatter_nd`].
pub fn scatter_nd_in_place<T: Elem, I: Integer>(
    y: &mut [T],
    indices: &[I],
    updates: &[T],
    geometry: Points<'_>,
) -> Result {
    replace_slices(y, indices, updates, geometry, |_, update| update.clone())
}

/// `ScatterND` with reduction `add`.
///
/// # Errors
///
/// Returns an error for an index out of range.
pub fn scatter_nd_add<T: Number, I: Integer>(
    x: &[T],
    indices: &[I],
    updates: &[T],
    y: &mut [T],
    geometry: Points<'_>,
) -> Result {
    y.clone_from_slice(x);
    scatter_nd_add_in_place(y, indices, updates, geometry)
}

/// [`scatter_nd_add`] in place.
///
/// # Errors
///
/// Returns an error under the conditions of [`scatter_nd`].
pub fn scatter_nd_add_in_place<T: Number, I: Integer>(
    y: &mut [T],
    indices: &[I],
    updates: &[T],
    geometry: Points<'_>,
) -> Result {
    replace_slices(y, indices, updates, geometry, |y, update| y.add(*update))
}

/// `ScatterND` with reduction `mul`.
///
/// # Errors
///
/// Returns an error for an index out of range.
pub fn scatter_nd_mul<T: Number, I: Integer>(
    x: &[T],
    indices: &[I],
    updates: &[T],
    y: &mut [T],
    geometry: Points<'_>,
) -> Result {
    y.clone_from_slice(x);
    scatter_nd_mul_in_place(y, indices, updates, geometry)
}

/// [`scatter_nd_mul`] in place.
///
/// # Errors
///
/// Returns an error under the conditions of [`scatter_nd`].
pub fn scatter_nd_mul_in_place<T: Number, I: Integer>(
    y: &mut [T],
    indices: &[I],
    updates: &[T],
    geometry: Points<'_>,
) -> Result {
    replace_slices(y, indices, updates, geometry, |y, update| y.mul(*update))
}

/// `ScatterND` with reduction `max`.
///
/// # Errors
///
/// Returns an error for an index out of range.
pub fn scatter_nd_max<T: Number, I: Integer>(
    x: &[T],
    indices: &[I],
    updates: &[T],
    y: &mut [T],
    geometry: Points<'_>,
) -> Result {
    y.clone_from_slice(x);
    scatter_nd_max_in_place(y, indices, updates, geometry)
}

/// [`scatter_nd_max`] in place.
///
/// # Errors
///
/// Returns an error under the conditions of [`scatter_nd`].
pub fn scatter_nd_max_in_place<T: Number, I: Integer>(
    y: &mut [T],
    indices: &[I],
    updates: &[T],
    geometry: Points<'_>,
) -> Result {
    replace_slices(y, indices, updates, geometry, |y, update| y.maximum(*update))
}

/// `ScatterND` with reduction `min`.
///
/// # Errors
///
/// Returns an error for an index out of range.
pub fn scatter_nd_min<T: Number, I: Integer>(
    x: &[T],
    indices: &[I],
    updates: &[T],
    y: &mut [T],
    geometry: Points<'_>,
) -> Result {
    y.clone_from_slice(x);
    scatter_nd_min_in_place(y, indices, updates, geometry)
}

/// [`scatter_nd_min`] in place.
///
/// # Errors
///
/// Returns an error under the conditions of [`scatter_nd`].
pub fn scatter_nd_min_in_place<T: Number, I: Integer>(
    y: &mut [T],
    indices: &[I],
    updates: &[T],
    geometry: Points<'_>,
) -> Result {
    replace_slices(y, indices, updates, geometry, |y, update| y.minimum(*update))
}

#[inline(always)]
fn replace_elements<T: Elem, I: Integer>(
    y: &mut [T],
    indices: &[I],
    updates: &[T],
    geometry: Elements<'_>,
    f: impl Fn(&T, &T) -> T,
) -> Result {
    geometry.each(indices, |at, i| y[at] = f(&y[at], &updates[i]))
}

#[inline(always)]
fn replace_slices<T: Elem, I: Integer>(
    y: &mut [T],
    indices: &[I],
    updates: &[T],
    geometry: Points<'_>,
    f: impl Fn(&T, &T) -> T,
) -> Result {
    let inner = geometry.inner;
    geometry.each(indices, |at, i| {
        for (y, update) in y[at * inner..][..inner].iter_mut().zip(&updates[i * inner..]) {
            *y = f(y, update);
        }
    })
}

/// The geometry of sequences that are written into caches, one cache per batch entry.
#[derive(Clone, Copy, Debug)]
pub struct Caches {
    /// The batch size.
    pub batch: usize,
    /// The product of the axes between the batch and the sequence.
    pub outer: usize,
    /// The length of a cache.
    pub len: usize,
    /// The length of an update.
    pub update: usize,
    /// The number of elements per position.
    pub inner: usize,
}

/// `TensorScatter`: writes each update into its cache, from the batch entry's write index on;
/// without write indices, from the start.
///
/// # Errors
///
/// Returns an error for an update that exceeds its cache.
pub fn tensor_scatter<T: Elem>(
    x: &[T],
    update: &[T],
    starts: Option<&[i64]>,
    y: &mut [T],
    geometry: Caches,
) -> Result {
    y.clone_from_slice(x);
    tensor_scatter_in_place(y, update, starts, geometry)
}

/// [`tensor_scatter`] in place.
///
/// # Errors
///
/// Returns an error under the conditions of [`tensor_scatter`].
pub fn tensor_scatter_in_place<T: Elem>(
    y: &mut [T],
    update: &[T],
    starts: Option<&[i64]>,
    geometry: Caches,
) -> Result {
    let last = geometry.len.checked_sub(geometry.update);
    for &start in starts.unwrap_or(&[0]) {
        let fits = usize::try_from(start).is_ok_and(|start| Some(start) <= last);
        if !fits {
            return Err(Error::Index { index: start, size: geometry.len });
        }
    }
    write_caches(y, update, starts, geometry);
    Ok(())
}

/// [`tensor_scatter`] with mode `circular`: the write position wraps around at the end of a cache.
///
/// # Errors
///
/// Never returns an error; the type is that of [`tensor_scatter`].
pub fn tensor_scatter_circular<T: Elem>(
    x: &[T],
    update: &[T],
    starts: Option<&[i64]>,
    y: &mut [T],
    geometry: Caches,
) -> Result {
    y.clone_from_slice(x);
    tensor_scatter_circular_in_place(y, update, starts, geometry)
}

/// [`tensor_scatter_circular`] in place.
///
/// # Errors
///
/// Returns an error under the conditions of [`tensor_scatter_circular`].
pub fn tensor_scatter_circular_in_place<T: Elem>(
    y: &mut [T],
    update: &[T],
    starts: Option<&[i64]>,
    geometry: Caches,
) -> Result {
    write_caches(y, update, starts, geometry);
    Ok(())
}

fn write_caches<T: Elem>(y: &mut [T], update: &[T], starts: Option<&[i64]>, geometry: Caches) {
    let Caches { batch: _, outer, len, update: steps, inner } = geometry;
    if update.is_empty() || y.is_empty() {
        return;
    }
    let sequences = update.chunks_exact(steps * inner).zip(y.chunks_exact_mut(len * inner));
    for (i, (update, y)) in sequences.enumerate() {
        let start = starts.map_or(0, |starts| starts[i / outer]);
        let first = usize::try_from(start.rem_euclid(signed(len))).unwrap_or(0);
        for (step, update) in update.chunks_exact(inner).enumerate() {
            y[(first + step) % len * inner..][..inner].clone_from_slice(update);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_are_replaced_or_joined_one_after_the_other() {
        type Kernel = fn(&[i32], &[i64], &[i32], &mut [i32], Elements<'_>) -> Result;
        let kernels: [(Kernel, [i32; 4]); 5] = [
            (scatter_elements, [1, 1, 3, 20]),
            (scatter_elements_add, [1, 13, 3, 24]),
            (scatter_elements_mul, [1, 20, 3, 80]),
            (scatter_elements_max, [1, 10, 3, 20]),
            (scatter_elements_min, [1, 1, 3, 4]),
        ];
        let geometry = Elements { sizes: &[3], strides: &[0], len: 4, step: 1 };
        for (kernel, expected) in kernels {
            let mut y = [0; 4];
            assert_eq!(kernel(&[1, 2, 3, 4], &[1, -1, 1], &[10, 20, 1], &mut y, geometry), Ok(()));
            assert_eq!(y, expected);
            assert!(kernel(&[1, 2, 3, 4], &[1, 4, 1], &[10, 20, 1], &mut y, geometry).is_err());
        }
    }

    #[test]
    fn indices_may_cover_fewer_columns_than_the_target() {
        // `y` is [2, 3]; the updates cover two of its columns.
        let mut y = [0; 6];
        let geometry = Elements { sizes: &[1, 2], strides: &[0, 1], len: 2, step: 3 };
        assert_eq!(scatter_elements_in_place(&mut y, &[1i32, 0], &[7, 8], geometry), Ok(()));
        assert_eq!(y, [0, 8, 0, 7, 0, 0]);
    }

    #[test]
    fn slices_are_replaced_or_joined() {
        type Kernel = fn(&[f32], &[i32], &[f32], &mut [f32], Points<'_>) -> Result;
        let kernels: [(Kernel, [f32; 4]); 5] = [
            (scatter_nd, [1.0, 2.0, 7.0, 8.0]),
            (scatter_nd_add, [1.0, 2.0, 15.0, 18.0]),
            (scatter_nd_mul, [1.0, 2.0, 105.0, 192.0]),
            (scatter_nd_max, [1.0, 2.0, 7.0, 8.0]),
            (scatter_nd_min, [1.0, 2.0, 3.0, 4.0]),
        ];
        let geometry = Points { batch: 1, count: 2, sizes: &[2], inner: 2 };
        for (kernel, expected) in kernels {
            let (x, updates, mut y) = ([1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0], [0.0; 4]);
            assert_eq!(kernel(&x, &[1, -1], &updates, &mut y, geometry), Ok(()));
            assert_eq!(y, expected);
            assert!(kernel(&x, &[1, -3], &updates, &mut y, geometry).is_err());
        }
    }

    #[test]
    fn points_may_name_single_elements_or_nothing() {
        let mut y = [0; 4];
        let geometry = Points { batch: 1, count: 2, sizes: &[2, 2], inner: 1 };
        assert_eq!(scatter_nd_in_place(&mut y, &[1i64, 0, 0, 1], &[5, 6], geometry), Ok(()));
        assert_eq!(y, [0, 6, 5, 0]);
        let geometry = Points { batch: 1, count: 0, sizes: &[2, 2], inner: 1 };
        assert_eq!(scatter_nd_in_place::<i32, i64>(&mut y, &[], &[], geometry), Ok(()));
    }

    #[test]
    fn sequences_are_written_from_their_starts_on() {
        let geometry = Caches { batch: 2, outer: 1, len: 3, update: 2, inner: 1 };
        let (x, update, mut y) = ([0; 6], [1, 2, 3, 4], [9; 6]);
        assert_eq!(tensor_scatter(&x, &update, Some(&[1, 0]), &mut y, geometry), Ok(()));
        assert_eq!(y, [0, 1, 2, 3, 4, 0]);
        assert_eq!(tensor_scatter(&x, &update, None, &mut y, geometry), Ok(()));
        assert_eq!(y, [1, 2, 0, 3, 4, 0]);
        assert!(tensor_scatter(&x, &update, Some(&[0, 2]), &mut y, geometry).is_err());
        assert!(tensor_scatter(&x, &update, Some(&[0, -1]), &mut y, geometry).is_err());
        assert_eq!(tensor_scatter_circular(&x, &update, Some(&[2, 4]), &mut y, geometry), Ok(()));
        assert_eq!(y, [2, 0, 1, 0, 3, 4]);
        let geometry = Caches { batch: 1, outer: 2, len: 2, update: 1, inner: 2 };
        let mut y = [0; 8];
        let result = tensor_scatter_in_place(&mut y, &update, Some(&[1]), geometry);
        assert_eq!((result, y), (Ok(()), [0, 0, 1, 2, 0, 0, 3, 4]));
    }
}
