//! `Concat` and `Split`.

use crate::Elem;
use crate::error::{Error, Result};
use crate::loops::geometry::Strided;
use crate::loops::index::size;
use crate::loops::strided::{copy_from, copy_to};

/// Copies one operand of a `Concat` to its place in the result, whose strides `geometry` has.
pub fn concat<T: Elem>(x: &[T], y: &mut [T], geometry: Strided<'_>) {
    copy_to(x, y, geometry);
}

/// Copies one result of a `Split` from its place in the operand, whose strides `geometry` has.
pub fn split<T: Elem>(x: &[T], y: &mut [T], geometry: Strided<'_>) {
    copy_from(x, y, geometry);
}

/// Computes the sizes of the parts of a `Split` of an axis of `len` elements.
///
/// # Errors
///
/// Returns an error for sizes that are negative, or whose sum is not `len`.
pub fn split_sizes(sizes: &mut [usize], split: &[i64], len: usize) -> Result {
    let mut left = len;
    for (size_of, &part) in sizes.iter_mut().zip(split) {
        *size_of = size(part)?;
        left = left.checked_sub(*size_of).ok_or(PARTS_DIFFER)?;
    }
    if left == 0 { Ok(()) } else { Err(PARTS_DIFFER) }
}

const PARTS_DIFFER: Error = Error::Value("the parts of Split do not add up to the axis");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn split_parts_can_be_concatenated() {
        let x: [u8; 54] = core::array::from_fn(|i| i as u8);
        for code in 0..4 * 4 * 27 {
            let (outer, inner) = (code & 3, code >> 2 & 3);
            let parts = [code / 16 % 3, code / 48 % 3, code / 144];
            let all = parts.iter().sum::<usize>() * inner;
            let (x, mut y) = (&x[..outer * all], [99; 54]);
            let mut start = 0;
            for len in parts.map(|part| part * inner) {
                let strides = &[all.cast_signed(), 1];
                let geometry = Strided { sizes: &[outer, len], strides, start };
                let mut part = [99; 18];
                let part = &mut part[..outer * len];
                split(x, part, geometry);
                for (at, &element) in part.iter().enumerate() {
                    assert_eq!(element, x[at / len * all + start + at % len]);
                }
                concat(part, &mut y, geometry);
                start += len;
            }
            assert_eq!(&y[..x.len()], x);
        }
    }

    #[test]
    fn parts_must_add_up() {
        let mut sizes = [0; 2];
        assert_eq!(split_sizes(&mut sizes, &[2, 3], 5), Ok(()));
        assert_eq!(sizes, [2, 3]);
        for wrong in [[2, 2], [3, 3], [-1, 6], [i64::MAX, i64::MAX]] {
            assert!(split_sizes(&mut sizes, &wrong, 5).is_err());
        }
    }
}
