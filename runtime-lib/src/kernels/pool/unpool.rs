//! `MaxUnpool`: the inverse of a max pooling that kept the indices of the maxima.

use crate::error::{Error, Result};
use crate::loops::index::{check_length, size};
use crate::{Integer, Number};

/// Writes `x` at `indices`, and zeros elsewhere. Indices refer to a tensor of `sizes`, which is
/// placed at the start of `y`, of sizes `out`.
///
/// # Errors
///
/// Returns an error if an index is out of range.
pub fn max_unpool<T: Number>(
    x: &[T],
    indices: &[i64],
    y: &mut [T],
    sizes: &[usize],
    out: &[usize],
) -> Result {
    check_length(y.len(), out.iter().copied())?;
    y.fill(T::ZERO);
    let count = sizes.iter().product();
    for (&x, &index) in x.iter().zip(indices) {
        let outside = Error::Index { index, size: count };
        let place = usize::try_from(index).ok().filter(|&place| place < count);
        let at = place.and_then(|place| moved(place, sizes, out)).ok_or(outside)?;
        y[at] = x;
    }
    Ok(())
}

/// Maps an index of a tensor of `sizes` to one of a tensor of sizes `out`.
fn moved(mut place: usize, sizes: &[usize], out: &[usize]) -> Option<usize> {
    let (mut at, mut stride) = (0, 1);
    for (&size, &out) in sizes.iter().zip(out).rev() {
        let along = place % size;
        at += (along < out).then_some(along)? * stride;
        place /= size;
        stride *= out;
    }
    Some(at)
}

/// Reads the sizes of `output_shape`.
///
/// # Errors
///
/// Returns an error if a size is negative.
pub fn max_unpool_sizes<I: Integer>(sizes: &mut [usize], output_shape: &[I]) -> Result {
    for (to, &from) in sizes.iter_mut().zip(output_shape) {
        *to = size(from)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unpooling_restores_positions() {
        let mut y = [9.0; 12];
        let wide = max_unpool(&[5.0, 6.0], &[1, 5], &mut y, &[1, 2, 3], &[1, 3, 4]);
        assert_eq!(wide, Ok(()));
        assert_eq!(y, [0.0, 5.0, 0.0, 0.0, 0.0, 0.0, 6.0, 0.0, 0.0, 0.0, 0.0, 0.0]);
    }

    #[test]
    fn an_index_out_of_range_is_rejected() {
        let mut y = [0.0; 6];
        for index in [-1, 6, i64::MIN, i64::MAX] {
            let found = max_unpool(&[5.0], &[index], &mut y, &[2, 3], &[2, 3]);
            assert_eq!(found, Err(Error::Index { index, size: 6 }));
        }
        assert!(max_unpool(&[5.0], &[2], &mut y, &[2, 3], &[3, 2]).is_err());
        assert!(max_unpool(&[5.0], &[2], &mut y, &[2, 3], &[3, 3]).is_err());
        assert!(max_unpool_sizes(&mut [0; 2], &[2, -1i64]).is_err());
    }
}
