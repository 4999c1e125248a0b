//! The geometry of tensors: sizes and strides.
//!
//! Strides count elements. The stride of an axis of size one is never used.

use crate::error::{Error, Result};

/// The channels of a block of NCHWc images: the number of lanes of the widest vector.
pub const BLOCK: usize = 16;

/// A tensor as seen from one axis: `outer · len · inner` elements.
#[derive(Clone, Copy, Debug)]
pub struct Axis {
    /// The product of the sizes before the axis.
    pub outer: usize,
    /// The size of the axis.
    pub len: usize,
    /// The product of the sizes after the axis.
    pub inner: usize,
}

/// Two operands that broadcast to one shape: a stride is 0 along a broadcast axis.
#[derive(Clone, Copy, Debug)]
pub struct Broadcast<'a> {
    /// The sizes of the result, which is contiguous.
    pub sizes: &'a [usize],
    /// The strides of the left operand.
    pub a: &'a [usize],
    /// The strides of the right operand.
    pub b: &'a [usize],
}

/// Three operands that broadcast to one shape: a stride is 0 along a broadcast axis.
#[derive(Clone, Copy, Debug)]
pub struct Broadcast3<'a> {
    /// The sizes of the result, which is contiguous.
    pub sizes: &'a [usize],
    /// The strides of the first operand.
    pub a: &'a [usize],
    /// The strides of the second operand.
    pub b: &'a [usize],
    /// The strides of the third operand.
    pub c: &'a [usize],
}

/// A strided view of a tensor.
#[derive(Clone, Copy, Debug)]
pub struct Strided<'a> {
    /// The sizes of the view.
    pub sizes: &'a [usize],
    /// The strides of its axes, negative for reversed axes.
    pub strides: &'a [isize],
    /// The offset of its first element.
    pub start: usize,
}

/// The shapes of an operand and of the result that repeats it.
#[derive(Clone, Copy, Debug)]
pub struct Shapes<'a> {
    /// The sizes of the operand; leading axes may be missing.
    pub from: &'a [usize],
    /// The sizes of the result.
    pub to: &'a [usize],
}

/// The numbers of elements added before and after a tensor along each axis; negative numbers remove
/// elements.
#[derive(Clone, Copy, Debug)]
pub struct Pads<'a> {
    /// The sizes of the tensor.
    pub sizes: &'a [usize],
    /// The elements added before.
    pub before: &'a [isize],
    /// The elements added after.
    pub after: &'a [isize],
}

/// A batch of matrices.
#[derive(Clone, Copy, Debug)]
pub struct BatchedMatrices {
    /// The number of matrices.
    pub count: usize,
    /// The number of rows of a matrix.
    pub rows: usize,
    /// The number of columns of a matrix.
    pub columns: usize,
}

/// Sliding blocks of an image of any rank.
#[derive(Clone, Copy, Debug)]
pub struct Blocks<'a> {
    /// The number of images.
    pub planes: usize,
    /// The sizes of an image.
    pub image: &'a [usize],
    /// The sizes of a block.
    pub block: &'a [usize],
    /// The number of blocks along each axis.
    pub places: &'a [usize],
    /// The strides of the blocks.
    pub strides: &'a [usize],
    /// The dilations of the elements of a block.
    pub dilations: &'a [usize],
    /// The padding before the image.
    pub pads: &'a [usize],
}

/// The kept and the reduced axes of a reduction.
#[derive(Clone, Copy, Debug)]
pub struct Reduction<'a> {
    /// The sizes of the kept axes: those of the result, which is contiguous.
    pub kept: &'a [usize],
    /// The strides of the kept axes in the operand.
    pub kept_strides: &'a [usize],
    /// The sizes of the reduced axes, the one with the smallest stride last.
    pub reduced: &'a [usize],
    /// The strides of the reduced axes in the operand.
    pub reduced_strides: &'a [usize],
}

/// The geometry of gathering single elements by an index along one axis.
#[derive(Clone, Copy, Debug)]
pub struct Elements<'a> {
    /// The sizes of the indices.
    pub sizes: &'a [usize],
    /// The strides of the tensor, 0 along the indexed axis.
    pub strides: &'a [usize],
    /// The size of the indexed axis.
    pub len: usize,
    /// The stride of the indexed axis.
    pub step: usize,
}

/// The geometry of gathering slices by an index along each of the first axes.
#[derive(Clone, Copy, Debug)]
pub struct Points<'a> {
    /// The number of tensors.
    pub batch: usize,
    /// The number of points per tensor.
    pub count: usize,
    /// The sizes of the indexed axes.
    pub sizes: &'a [usize],
    /// The number of elements of a slice.
    pub inner: usize,
}

/// Writes the row-major strides of a tensor of `sizes`: 0 for axes of size one and for the
/// additional leading axes of `strides`, so that the result serves in a [`Broadcast`].
pub fn broadcast_strides(strides: &mut [usize], sizes: &[usize]) {
    debug_assert!(sizes.len() <= strides.len(), "an operand has at most the axes of the result");
    let missing = strides.len() - sizes.len();
    let mut stride = 1;
    for (into, &size) in strides[missing..].iter_mut().zip(sizes).rev() {
        *into = if size == 1 { 0 } else { stride };
        stride *= size;
    }
    strides[..missing].fill(0);
}

/// Writes the sizes that tensors of sizes `a` and `b` broadcast to.
///
/// # Errors
///
/// Returns an error for sizes that do not broadcast.
pub fn broadcast_sizes(sizes: &mut [usize], a: &[usize], b: &[usize]) -> Result {
    let rank = sizes.len();
    debug_assert_eq!(rank, a.len().max(b.len()), "the result has the axes of the longer operand");
    for (i, size) in sizes.iter_mut().enumerate() {
        let of = |sizes: &[usize]| (i + sizes.len()).checked_sub(rank).map_or(1, |i| sizes[i]);
        *size = match (of(a), of(b)) {
            (1, b) => b,
            (a, 1) => a,
            (a, b) if a == b => a,
            _ => return Err(Error::Value("the sizes of two operands do not fit together")),
        };
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_of_size_one_and_missing_axes_are_repeated() {
        let mut strides = [9; 4];
        broadcast_strides(&mut strides, &[2, 1, 3]);
        assert_eq!(strides, [0, 3, 0, 1]);
        broadcast_strides(&mut strides, &[]);
        assert_eq!(strides, [0; 4]);
    }

    #[test]
    fn sizes_broadcast_from_the_last_axis() {
        let mut sizes = [9; 3];
        assert_eq!(broadcast_sizes(&mut sizes, &[2, 1, 3], &[4, 1]), Ok(()));
        assert_eq!(sizes, [2, 4, 3]);
        assert_eq!(broadcast_sizes(&mut sizes, &[2, 1, 1], &[0, 1]), Ok(()));
        assert_eq!(sizes, [2, 0, 1]);
        assert!(broadcast_sizes(&mut sizes, &[2, 1, 3], &[2]).is_err());
    }
}
