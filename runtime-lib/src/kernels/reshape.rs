//! Copies, and the sizes of reshaped tensors.

use crate::Elem;
use crate::error::{Error, Result};
use crate::loops::index::{check_axes, position, signed, size};
use crate::view::check_equal;

/// Copies a tensor.
pub fn identity<T: Elem>(x: &[T], y: &mut [T]) {
    y.clone_from_slice(x);
}

/// `Shape`: writes sizes.
pub fn shape(y: &mut [i64], sizes: &[usize]) {
    for (y, &size) in y.iter_mut().zip(sizes) {
        *y = signed(size);
    }
}

/// `Size`: writes the number of elements.
pub fn size_of(y: &mut [i64], sizes: &[usize]) {
    y.fill(signed(sizes.iter().product()));
}

/// Computes the sizes of `Reshape`: 0 keeps a size, and one -1 is inferred.
///
/// # Errors
///
/// Returns an error for sizes with another number of elements; the error names the `node`.
pub fn reshape_sizes(
    sizes: &mut [usize],
    shape: &[i64],
    from: &[usize],
    node: &'static str,
) -> Result {
    for (axis, (size_of, &wanted)) in sizes.iter_mut().zip(shape).enumerate() {
        *size_of = match wanted {
            -1 => 1,
            0 => *from.get(axis).ok_or(Error::Value("Reshape keeps the size of no axis"))?,
            wanted => size(wanted)?,
        };
    }
    // Copied axes are on both sides, and may be empty.
    infer_size(sizes, shape, from, node, |axis| shape.get(axis) == Some(&0))
}

/// [`reshape_sizes`] with `allowzero`: 0 is a size of zero.
///
/// # Errors
///
/// Returns an error for sizes with another number of elements; the error names the `node`.
pub fn reshape_sizes_allowing_zero(
    sizes: &mut [usize],
    shape: &[i64],
    from: &[usize],
    node: &'static str,
) -> Result {
    for (size_of, &wanted) in sizes.iter_mut().zip(shape) {
        *size_of = if wanted == -1 { 1 } else { size(wanted)? };
    }
    if shape.contains(&-1) && shape.contains(&0) {
        return Err(Error::Value("Reshape cannot find a size beside one of 0"));
    }
    infer_size(sizes, shape, from, node, |_| false)
}

/// The two sizes that `Reshape` compares, in words.
const ELEMENTS: &str = "the numbers of elements before and after";

/// Infers the size of the axis of -1, from the axes that are not copied.
fn infer_size(
    sizes: &mut [usize],
    shape: &[i64],
    from: &[usize],
    node: &'static str,
    is_copied: impl Fn(usize) -> bool,
) -> Result {
    debug_assert_eq!(sizes.len(), shape.len(), "the result has as many axes as the shape says");
    let mut unknown = shape.iter().enumerate().filter(|&(_, &wanted)| wanted == -1);
    let open = unknown.next();
    if unknown.next().is_some() {
        return Err(Error::Value("Reshape cannot find two sizes"));
    }
    let total = |sizes: &[usize]| {
        let kept = |axis: usize| open.is_none() || !is_copied(axis);
        let counted = sizes.iter().enumerate().filter(|&(axis, _)| kept(axis));
        counted.fold(1, |total: usize, (_, &size)| total.saturating_mul(size))
    };
    let elements = total(from);
    if let Some((axis, _)) = open {
        sizes[axis] = elements.checked_div(total(sizes)).unwrap_or(0);
    }
    check_equal(node, ELEMENTS, elements, total(sizes))
}

/// Computes the sizes of `Squeeze`: without the axes, or without all axes of size one.
///
/// # Errors
///
/// Returns an error for an axis out of range, or of another size than one.
pub fn squeeze_sizes(sizes: &mut [usize], axes: Option<&[i64]>, from: &[usize]) -> Result {
    check_axes(axes.unwrap_or_default(), from.len())?;
    let stays = |axis: usize| match axes {
        Some(_) => position(axes, axis, from.len()).is_none(),
        None => from[axis] != 1,
    };
    let mut left = sizes.iter_mut();
    for (axis, &size) in from.iter().enumerate() {
        if stays(axis) {
            *left.next().ok_or(Error::Value("Squeeze leaves more axes than expected"))? = size;
        } else if size != 1 {
            return Err(Error::Value("Squeeze takes away axes of size one only"));
        }
    }
    if left.next().is_some() {
        return Err(Error::Value("Squeeze leaves fewer axes than expected"));
    }
    Ok(())
}

/// Computes the sizes of `Unsqueeze`: an axis of size one at each of `axes` of the result.
///
/// # Errors
///
/// Returns an error for an axis out of range, or given twice.
pub fn unsqueeze_sizes(sizes: &mut [usize], axes: &[i64], from: &[usize]) -> Result {
    let rank = sizes.len();
    check_axes(axes, rank)?;
    debug_assert_eq!(rank, from.len() + axes.len(), "each axis of `axes` is a new one");
    let mut old = from.iter();
    for (axis, size) in sizes.iter_mut().enumerate() {
        let new = position(Some(axes), axis, rank).is_some();
        *size = if new { 1 } else { old.next().copied().unwrap_or(1) };
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    type Sizer = fn(&mut [usize], &[i64], &[usize]) -> Result;

    fn check<const N: usize>(
        sizer: Sizer,
        values: &[i64],
        from: &[usize],
        expected: Option<[usize; N]>,
    ) {
        let mut sizes = [99; N];
        let result = sizer(&mut sizes, values, from);
        assert_eq!(result.ok().map(|()| sizes), expected, "{values:?} of {from:?}");
    }

    #[test]
    fn a_shape_may_keep_and_infer_sizes() {
        let reshape: Sizer = |sizes, shape, from| reshape_sizes(sizes, shape, from, "y");
        let allowing_zero: Sizer =
            |sizes, shape, from| reshape_sizes_allowing_zero(sizes, shape, from, "y");
        check(reshape, &[0, -1], &[2, 3, 4], Some([2, 12]));
        check(reshape, &[-1], &[], Some([1]));
        check(reshape, &[], &[1, 1], Some([]));
        check(reshape, &[0, -1], &[0, 3], Some([0, 3]));
        check(reshape, &[0, -1], &[3, 0], Some([3, 0]));
        check(reshape, &[0, 4, -1], &[0, 6], None::<[usize; 3]>);
        check(reshape, &[5, -1], &[0, 3], Some([5, 0]));
        check(reshape, &[0, 5], &[0, 3], Some([0, 5]));
        check::<2>(reshape, &[-1, -1], &[4], None);
        check::<2>(reshape, &[3, -1], &[4], None);
        check::<2>(reshape, &[2, 0], &[2], None);
        check::<1>(reshape, &[-2], &[2], None);
        check::<1>(reshape, &[5], &[4], None);
        check::<2>(reshape, &[i64::MAX, i64::MAX], &[1], None);
        check(allowing_zero, &[0, 5], &[2, 0], Some([0, 5]));
        check::<2>(allowing_zero, &[0, -1], &[2, 0], None);
        check(allowing_zero, &[3, -1], &[6], Some([3, 2]));
    }

    #[test]
    fn a_shape_of_another_number_of_elements_names_the_node() {
        let (shape, from) = (&[2, 4], &[6]);
        for found in [
            reshape_sizes(&mut [0; 2], shape, from, "fold"),
            reshape_sizes_allowing_zero(&mut [0; 2], shape, from, "fold"),
        ] {
            assert_eq!(
                found,
                Err(Error::Mismatch { node: "fold", rule: ELEMENTS, left: 6, right: 8 })
            );
        }
    }

    #[test]
    fn only_axes_of_size_1_are_squeezed_and_unsqueezed() {
        let squeeze: Sizer = |sizes, axes, from| squeeze_sizes(sizes, Some(axes), from);
        let squeeze_all: Sizer = |sizes, _, from| squeeze_sizes(sizes, None, from);
        check(squeeze, &[0, -1], &[1, 3, 1], Some([3]));
        check::<2>(squeeze, &[1], &[1, 3, 1], None);
        check::<1>(squeeze, &[0, -3], &[1, 3, 1], None);
        check(squeeze_all, &[], &[1, 3, 1, 0], Some([3, 0]));
        check::<1>(squeeze_all, &[], &[1, 3, 1, 0], None);
        check::<3>(squeeze_all, &[], &[1, 3, 1, 0], None);
        check(unsqueeze_sizes, &[0, -1], &[3], Some([1, 3, 1]));
        check::<3>(unsqueeze_sizes, &[0, -3], &[3], None);
    }

    #[test]
    fn sizes_are_numbers() {
        let (mut y, mut n) = ([0; 2], [0]);
        shape(&mut y, &[3, 0]);
        size_of(&mut n, &[3, 5]);
        assert_eq!((y, n), ([3, 0], [15]));
    }
}
