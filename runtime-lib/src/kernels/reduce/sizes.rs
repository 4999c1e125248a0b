//! Sizes of reductions along axes that are inputs.

use crate::error::{Error, Result};
use crate::loops::index::{check_axes, position};

/// Computes the sizes of a tensor of sizes `from` reduced along `axes` with `keepdims`.
///
/// # Errors
///
/// Returns an error for an axis out of range.
pub fn kept_sizes(sizes: &mut [usize], axes: &[i64], from: &[usize]) -> Result {
    let rank = from.len();
    check_axes(axes, rank)?;
    for (axis, (size, &from)) in sizes.iter_mut().zip(from).enumerate() {
        *size = if position(Some(axes), axis, rank).is_some() { 1 } else { from };
    }
    Ok(())
}

/// [`kept_sizes`], where no axes mean all axes.
///
/// # Errors
///
/// Returns an error for an axis out of range.
pub fn kept_or_all_sizes(sizes: &mut [usize], axes: &[i64], from: &[usize]) -> Result {
    if axes.is_empty() {
        sizes.fill(1);
        return Ok(());
    }
    kept_sizes(sizes, axes, from)
}

/// [`kept_sizes`], followed by the sizes without the reduced axes.
///
/// # Errors
///
/// Returns an error for an axis out of range.
pub fn pruned_sizes(sizes: &mut [usize], axes: &[i64], from: &[usize]) -> Result {
    let (kept, pruned) = sizes.split_at_mut(from.len());
    kept_sizes(kept, axes, from)?;
    if pruned.len() + axes.len() != from.len() {
        return Err(Error::Value("the number of axes to reduce is not the one expected"));
    }
    let staying = (0..from.len()).filter(|&axis| position(Some(axes), axis, from.len()).is_none());
    for (size, axis) in pruned.iter_mut().zip(staying) {
        *size = from[axis];
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reduced_axes_have_size_1_or_are_removed() {
        let from = [2, 3, 0, 5];
        let mut sizes = [9; 4];
        assert_eq!(kept_sizes(&mut sizes, &[-1, 1], &from), Ok(()));
        assert_eq!(sizes, [2, 1, 0, 1]);
        assert_eq!(kept_sizes(&mut sizes, &[], &from), Ok(()));
        assert_eq!(sizes, from);
        assert_eq!(kept_or_all_sizes(&mut sizes, &[], &from), Ok(()));
        assert_eq!(sizes, [1; 4]);
        assert_eq!(kept_or_all_sizes(&mut sizes, &[2], &from), Ok(()));
        assert_eq!(sizes, [2, 3, 1, 5]);
        let mut sizes = [9; 6];
        assert_eq!(pruned_sizes(&mut sizes, &[-4, 2], &from), Ok(()));
        assert_eq!(sizes, [1, 3, 1, 5, 3, 5]);
    }

    #[test]
    fn axes_must_be_in_range_and_distinct() {
        let mut sizes = [9; 3];
        assert!(kept_sizes(&mut sizes[..2], &[2], &[4, 5]).is_err());
        assert!(kept_sizes(&mut sizes[..2], &[1, -1], &[4, 5]).is_err());
        assert!(pruned_sizes(&mut sizes, &[0, 1], &[4, 5]).is_err());
    }
}
