//! Gathering by indices: `Gather`, `GatherElements` and `GatherND`.

use crate::error::Result;
use crate::loops::geometry::{Axis, Elements, Points};
use crate::loops::index::index;
use crate::loops::strided::copy;
use crate::{Elem, Integer};

/// `Gather`: copies the slices of `x` at the indices along the axis.
///
/// # Errors
///
/// Returns an error for an index out of range.
pub fn gather<T: Elem, I: Integer>(x: &[T], indices: &[I], y: &mut [T], geometry: Axis) -> Result {
    let Axis { outer, len, inner } = geometry;
    debug_assert_eq!(y.len(), outer * indices.len() * inner, "each index gives a slice");
    if inner == 1 {
        return gather_single(x, indices, y, len);
    }
    if x.is_empty() || y.is_empty() {
        return indices.iter().try_for_each(|&at| index(at, len).map(|_| ()));
    }
    let blocks = y.chunks_exact_mut(indices.len() * inner).take(outer);
    for (x, y) in x.chunks_exact(len * inner).zip(blocks) {
        for (y, &at) in y.chunks_exact_mut(inner).zip(indices) {
            copy(&x[index(at, len)? * inner..][..inner], y);
        }
    }
    Ok(())
}

fn gather_single<T: Elem, I: Integer>(x: &[T], indices: &[I], y: &mut [T], len: usize) -> Result {
    if indices.is_empty() {
        return Ok(());
    }
    for (o, y) in y.chunks_exact_mut(indices.len()).enumerate() {
        gather_row(&x[o * len..][..len], indices, y)?;
    }
    Ok(())
}

/// Copies the element of `x` at each index.
#[inline(always)]
fn gather_row<T: Elem, I: Integer>(x: &[T], indices: &[I], y: &mut [T]) -> Result {
    for (y, &at) in y.iter_mut().zip(indices) {
        *y = x[index(at, x.len())?].clone();
    }
    Ok(())
}

/// `GatherElements`: copies the element at each index along the axis; its position along the other
/// axes is that of the index.
///
/// # Errors
///
/// Returns an error for an index out of range.
pub fn gather_elements<T: Elem, I: Integer>(
    x: &[T],
    indices: &[I],
    y: &mut [T],
    geometry: Elements<'_>,
) -> Result {
    let Elements { len, step, .. } = geometry;
    geometry.each_row(indices, |row| {
        let y = &mut y[row.first..][..row.indices.len()];
        if row.distance == 0 && step == 1 {
            // The row chooses from neighbors, so that the check of an index is that of the slice.
            return gather_row(&x[row.start..][..len], row.indices, y);
        }
        for (j, (y, &wanted)) in y.iter_mut().zip(row.indices).enumerate() {
            *y = x[row.start + j * row.distance + index(wanted, len)? * step].clone();
        }
        Ok(())
    })
}

/// `GatherND`: copies the slices at the points.
///
/// # Errors
///
/// Returns an error for an index out of range.
pub fn gather_nd<T: Elem, I: Integer>(
    x: &[T],
    indices: &[I],
    y: &mut [T],
    geometry: Points<'_>,
) -> Result {
    geometry.each(indices, |at, i| {
        let inner = geometry.inner;
        y[i * inner..][..inner].clone_from_slice(&x[at * inner..][..inner]);
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Error;
    use core::array::from_fn;

    #[test]
    fn slices_are_picked_along_any_axis() {
        let x: [u8; 24] = from_fn(|i| i as u8);
        let indices = [1i64, -1, 0, -2, 1];
        for (outer, len, inner) in [(1, 2, 12), (2, 3, 4), (6, 4, 1), (24, 1, 1)] {
            let indices = indices.map(|i| if len == 1 { -(i & 1) } else { i });
            let mut y = [99; 120];
            let y = &mut y[..outer * 5 * inner];
            assert_eq!(gather(&x, &indices, y, Axis { outer, len, inner }), Ok(()));
            for (at, &y) in y.iter().enumerate() {
                let [o, i, j] = [at / (5 * inner), at / inner % 5, at % inner];
                let place = (indices[i] + len as i64) as usize % len;
                assert_eq!(y, x[(o * len + place) * inner + j]);
            }
        }
    }

    #[test]
    fn indices_out_of_range_are_errors() {
        let geometry = Axis { outer: 1, len: 2, inner: 1 };
        let error = Err(Error::Index { index: 2, size: 2 });
        assert_eq!(gather(&[1, 2], &[0i32, 2], &mut [0, 0], geometry), error);
        let geometry = Axis { outer: 1, len: 1, inner: 2 };
        assert!(gather(&[1, 2], &[-2i32], &mut [0, 0], geometry).is_err());
        let geometry = Elements { sizes: &[1], strides: &[0], len: 2, step: 1 };
        assert_eq!(gather_elements(&[1, 2], &[2i64], &mut [0], geometry), error);
        let geometry = Points { batch: 1, count: 1, sizes: &[2, 1], inner: 1 };
        assert_eq!(gather_nd(&[1, 2], &[2i64, 0], &mut [0], geometry), error);
        let geometry = Axis { outer: 0, len: 0, inner: 1 };
        assert_eq!(gather::<u8, i64>(&[], &[], &mut [], geometry), Ok(()));
    }

    #[test]
    fn elements_are_picked_along_any_axis_up_to_the_first_error() {
        let (sizes, strides) = ([3, 4, 5], [20, 5, 1]);
        let x: [u8; 60] = from_fn(|i| i as u8);
        for axis in 0..3 {
            let len = sizes[axis];
            let indices: [i64; 60] = from_fn(|i| (i * 7 % (2 * len)) as i64 - len as i64);
            let mut others = strides;
            others[axis] = 0;
            let step = strides[axis];
            let geometry = Elements { sizes: &sizes, strides: &others, len, step };
            let mut y = [99; 60];
            assert_eq!(gather_elements(&x, &indices, &mut y, geometry), Ok(()));
            for (i, &y) in y.iter().enumerate() {
                let place = (indices[i] + len as i64) as usize % len;
                let at = i - i / step % len * step + place * step;
                assert_eq!(y, x[at], "axis {axis}, index {i}");
            }
            let mut wrong = indices;
            (wrong[23], wrong[24], wrong[51]) = (len as i64, i64::MIN, i64::MAX);
            let error = Err(Error::Index { index: len as i64, size: len });
            assert_eq!(gather_elements(&x, &wrong, &mut y, geometry), error);
        }
    }

    #[test]
    fn indices_may_cover_fewer_columns_than_the_data() {
        // `x` is [3, 2]; the indices have fewer columns.
        let (x, mut y) = ([0, 1, 2, 3, 4, 5], [9; 4]);
        let geometry = Elements { sizes: &[4, 1], strides: &[0, 1], len: 3, step: 2 };
        assert_eq!(gather_elements(&x, &[2i64, -3, 1, 1], &mut y, geometry), Ok(()));
        assert_eq!(y, [4, 0, 2, 2]);
        let geometry = Elements { sizes: &[2, 2], strides: &[2, 0], len: 2, step: 1 };
        assert_eq!(gather_elements(&x, &[1i32, 1, 0, -1], &mut y, geometry), Ok(()));
        assert_eq!(y, [1, 1, 2, 3]);
    }

    #[test]
    fn points_name_slices_in_each_tensor() {
        let x: [u8; 24] = from_fn(|i| i as u8);
        let mut y = [9; 8];
        let geometry = Points { batch: 2, count: 2, sizes: &[2, 3], inner: 2 };
        let indices = [0i64, 1, -1, -1, 1, 0, 0, 0];
        assert_eq!(gather_nd(&x, &indices, &mut y, geometry), Ok(()));
        assert_eq!(y, [2, 3, 10, 11, 18, 19, 12, 13]);
    }
}
