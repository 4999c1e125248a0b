//! Checked conversion of tensor elements to indices and sizes.

use crate::error::{Error, Result};
use crate::loops::geometry::{Elements, Points};
use crate::loops::walk::{Row, walk};
use crate::{Integer, Number};

/// Converts an index; a negative one counts from the end.
///
/// # Errors
///
/// Returns an error for an index out of range.
#[inline(always)]
pub(crate) fn index<I: Integer>(index: I, size: usize) -> Result<usize> {
    let index = index.to_i64();
    // Without a branch for the sign. A negative result is a large unsigned number.
    let place = index.wrapping_add((index >> (i64::BITS - 1)) & signed(size)).cast_unsigned();
    match usize::try_from(place) {
        Ok(place) if place < size => Ok(place),
        _ => Err(Error::Index { index, size }),
    }
}

/// Converts a size.
///
/// # Errors
///
/// Returns an error for a negative size.
#[inline]
pub(crate) fn size<I: Integer>(size: I) -> Result<usize> {
    usize::try_from(size.to_i64()).map_err(|_| Error::Value("a size is negative"))
}

/// Returns the position of `axis` in `axes`, which are all axes if absent, of a tensor of `rank`
/// axes.
#[inline]
pub(crate) fn position<I: Integer>(axes: Option<&[I]>, axis: usize, rank: usize) -> Option<usize> {
    let Some(axes) = axes else { return Some(axis) };
    axes.iter().position(|&named| index(named, rank) == Ok(axis))
}

/// Checks that axes exist and are distinct.
///
/// # Errors
///
/// Returns an error for an axis out of range, or given twice.
pub(crate) fn check_axes<I: Integer>(axes: &[I], rank: usize) -> Result {
    for (i, &axis) in axes.iter().enumerate() {
        let axis = index(axis, rank)?;
        if position(Some(&axes[..i]), axis, rank).is_some() {
            return Err(Error::Value("an axis is named twice"));
        }
    }
    Ok(())
}

/// Checks that a slice has as many elements as the sizes.
///
/// # Errors
///
/// Returns an error for another number of elements.
pub(crate) fn check_length(found: usize, sizes: impl Iterator<Item = usize>) -> Result {
    let expected = sizes.fold(1, usize::saturating_mul);
    if found == expected { Ok(()) } else { Err(Error::Length { expected, found }) }
}

/// Converts an index from a table that the compiler wrote.
#[inline(always)]
pub(crate) fn place(n: u32) -> usize {
    usize::try_from(n).unwrap_or(usize::MAX)
}

/// Converts a size to an element.
#[inline]
pub(crate) fn number<T: Number>(size: usize) -> T {
    T::from_f64(u64::try_from(size).unwrap_or(u64::MAX).to_f64())
}

/// Converts a size to an element of an index tensor.
#[inline]
pub(crate) fn signed(size: usize) -> i64 {
    i64::try_from(size).unwrap_or(i64::MAX)
}

/// Indices that follow each other, and the elements of the tensor that they choose from.
pub(crate) struct ElementRow<'a, I> {
    /// The offset of the first index.
    pub first: usize,
    /// The indices.
    pub indices: &'a [I],
    /// The offset of the tensor's element that index 0 chooses for the first one.
    pub start: usize,
    /// The distance of those of two neighboring indices, in elements.
    pub distance: usize,
}

impl Elements<'_> {
    /// Calls `visit` with the offset that each index refers to, and the offset of the index.
    ///
    /// # Errors
    ///
    /// Returns the first error for an index out of range.
    #[inline(always)]
    pub(crate) fn each<I: Integer>(
        self,
        indices: &[I],
        mut visit: impl FnMut(usize, usize),
    ) -> Result {
        self.each_row(indices, |row| {
            for (j, &wanted) in row.indices.iter().enumerate() {
                let place = index(wanted, self.len)? * self.step;
                visit(row.start + j * row.distance + place, row.first + j);
            }
            Ok(())
        })
    }

    /// Calls `visit` with every row of indices, up to an error.
    ///
    /// # Errors
    ///
    /// Returns the first error of `visit`.
    #[inline(always)]
    pub(crate) fn each_row<I: Integer>(
        self,
        indices: &[I],
        mut visit: impl FnMut(ElementRow<'_, I>) -> Result,
    ) -> Result {
        let Elements { sizes, strides, .. } = self;
        debug_assert_eq!(indices.len(), sizes.iter().product(), "the indices have the sizes");
        if indices.is_empty() {
            return Ok(());
        }
        let row = Row::of(sizes, [strides]);
        let distance = row.steps[0].cast_unsigned();
        let (mut result, mut first) = (Ok(()), 0);
        walk(&sizes[..row.rank], [strides], [0], &mut |[start]| {
            if result.is_ok() {
                let indices = &indices[first..][..row.len];
                result = visit(ElementRow { first, indices, start, distance });
                first += row.len;
            }
        });
        result
    }
}

impl Points<'_> {
    /// Calls `visit` with the slice that each point refers to, and the point.
    ///
    /// # Errors
    ///
    /// Returns an error for an index out of range.
    #[inline(always)]
    pub(crate) fn each<I: Integer>(
        self,
        indices: &[I],
        mut visit: impl FnMut(usize, usize),
    ) -> Result {
        let Points { batch, count, sizes, inner: _ } = self;
        let (axes, slices) = (sizes.len(), sizes.iter().product::<usize>());
        debug_assert_eq!(indices.len(), batch * count * axes, "a point has an index for each axis");
        for i in 0..batch * count {
            let mut slice = 0;
            for (&wanted, &size) in indices[i * axes..][..axes].iter().zip(sizes) {
                slice = slice * size + index(wanted, size)?;
            }
            visit(i / count * slices + slice, i);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_negative_index_counts_from_the_end() {
        assert_eq!([-3, -1, 0, 2].map(|i| index(i, 3)), [Ok(0), Ok(2), Ok(0), Ok(2)]);
        for wrong in [-4, 3, i64::MIN, i64::MAX] {
            assert_eq!(index(wrong, 3), Err(Error::Index { index: wrong, size: 3 }));
        }
        assert!(index(0i32, 0).is_err() && index(-1i32, 0).is_err());
    }

    #[test]
    fn axes_must_be_distinct_and_in_range() {
        assert_eq!(check_axes(&[0i64, -1], 2), Ok(()));
        assert!(check_axes(&[1, -1], 2).is_err());
        assert!(check_axes(&[2], 2).is_err());
        assert_eq!(position(Some(&[-1, 0]), 1, 2), Some(0));
        assert_eq!(position::<i64>(None, 1, 2), Some(1));
        assert_eq!(position(Some(&[0]), 1, 2), None);
    }
}
