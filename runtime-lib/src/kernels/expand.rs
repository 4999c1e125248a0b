//! `Expand`, which repeats along axes of size one, and `Tile`, which repeats along any axis.

use crate::Elem;
use crate::error::Result;
use crate::loops::geometry::{Shapes, broadcast_sizes};
use crate::loops::index::size;

/// Repeats `x` along its axes of size one.
pub fn expand<T: Elem>(x: &[T], y: &mut [T], geometry: Shapes<'_>) {
    tile(x, y, geometry);
}

/// Repeats `x` along each axis as often as it fits into the result.
pub fn tile<T: Elem>(x: &[T], y: &mut [T], geometry: Shapes<'_>) {
    let Shapes { from, to } = geometry;
    debug_assert_eq!(y.len(), to.iter().product(), "the result has the sizes");
    let (leading, to) = to.split_at(to.len() - from.len());
    if y.is_empty() || x.is_empty() {
        return;
    }
    let once = y.len() / leading.iter().product::<usize>();
    tile_axes(x, &mut y[..once], from, to);
    repeat(y, once);
}

fn tile_axes<T: Elem>(x: &[T], y: &mut [T], from: &[usize], to: &[usize]) {
    let ([size, from @ ..], [wanted, to @ ..]) = (from, to) else {
        return y.clone_from_slice(x);
    };
    let (block_x, block_y) = (x.len() / size, y.len() / wanted);
    if block_x == block_y {
        y[..x.len()].clone_from_slice(x);
    } else {
        for (x, y) in x.chunks_exact(block_x).zip(y.chunks_exact_mut(block_y)) {
            tile_axes(x, y, from, to);
        }
    }
    repeat(y, size * block_y);
}

/// Repeats the first `once` elements of `y` to its end.
fn repeat<T: Elem>(y: &mut [T], once: usize) {
    let (first, others) = y.split_at_mut(once);
    if let [first] = first {
        return others.fill(first.clone());
    }
    for other in others.chunks_exact_mut(once) {
        other.clone_from_slice(first);
    }
}

/// Computes the sizes of `Expand`: `from` broadcast with `shape`.
///
/// # Errors
///
/// Returns an error for sizes that do not broadcast.
pub fn expand_sizes(sizes: &mut [usize], shape: &[i64], from: &[usize]) -> Result {
    let missing = sizes.len() - shape.len();
    sizes[..missing].fill(1);
    for (size_of, &wanted) in sizes[missing..].iter_mut().zip(shape) {
        *size_of = size(wanted)?;
    }
    let offset = sizes.len() - from.len();
    for (size_of, from) in sizes[offset..].iter_mut().zip(from) {
        let mut both = [0];
        broadcast_sizes(&mut both, &[*size_of], &[*from])?;
        [*size_of] = both;
    }
    Ok(())
}

/// Computes the sizes of `Tile`: `from` times `repeats`.
///
/// # Errors
///
/// Returns an error for a negative number of repeats.
pub fn tile_sizes(sizes: &mut [usize], repeats: &[i64], from: &[usize]) -> Result {
    for (size_of, (&from, &repeats)) in sizes.iter_mut().zip(from.iter().zip(repeats)) {
        *size_of = from.saturating_mul(size(repeats)?);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::array::from_fn;

    #[test]
    fn every_small_tensor_is_tiled() {
        let x: [u16; 27] = from_fn(|i| i as u16 + 1);
        for code in 0..64 * 64 {
            let from: [usize; 3] = from_fn(|axis| code >> (2 * axis) & 3);
            let to: [usize; 3] = from_fn(|axis| from[axis] * (code >> (6 + 2 * axis) & 3));
            let mut y = [0; 729];
            let y = &mut y[..to.iter().product()];
            tile(&x[..from.iter().product()], y, Shapes { from: &from, to: &to });
            for (at, &y) in y.iter().enumerate() {
                let [i, j, k] = [at / (to[1] * to[2]), at / to[2] % to[1], at % to[2]];
                let at = (i % from[0] * from[1] + j % from[1]) * from[2] + k % from[2];
                assert_eq!(y, x[at]);
            }
        }
    }

    #[test]
    fn axes_may_be_put_in_front() {
        let mut y = [0; 12];
        expand(&[1, 2], &mut y, Shapes { from: &[2, 1], to: &[2, 2, 3] });
        assert_eq!(y, [1, 1, 1, 2, 2, 2, 1, 1, 1, 2, 2, 2]);
        expand(&[5], &mut y, Shapes { from: &[], to: &[3, 4] });
        assert_eq!(y, [5; 12]);
        expand::<i32>(&[], &mut [], Shapes { from: &[0, 1], to: &[0, 4] });
    }

    #[test]
    fn sizes_follow_from_values() {
        let mut sizes = [9; 3];
        assert_eq!(expand_sizes(&mut sizes, &[2, 1, 6], &[3, 1]), Ok(()));
        assert_eq!(sizes, [2, 3, 6]);
        assert_eq!(expand_sizes(&mut sizes, &[1], &[4, 0, 1]), Ok(()));
        assert_eq!(sizes, [4, 0, 1]);
        assert!(expand_sizes(&mut sizes, &[2, 2, 2], &[3, 1]).is_err());
        assert!(expand_sizes(&mut sizes, &[-1, 2, 2], &[1, 1]).is_err());
        assert_eq!(tile_sizes(&mut sizes, &[2, 0, 1], &[3, 4, 5]), Ok(()));
        assert_eq!(sizes, [6, 0, 5]);
        assert!(tile_sizes(&mut sizes, &[2, -1, 1], &[3, 4, 5]).is_err());
    }
}
