//! Matrices, and the sizes of the panels that they are packed into.

use crate::simd::MAX_LANES;

/// The rows of a panel of the left operand. The tile heights of all levels divide it.
pub(crate) const PANEL_ROWS: usize = 12;
/// The number of rows of a panel that are packed at once.
pub(super) const PACKED_ROWS: usize = 4;

/// Returns the columns of a panel of the right operand: the lanes of the widest vector, so that all
/// levels read the same panels.
pub(crate) const fn panel_cols<T>() -> usize {
    MAX_LANES * size_of::<f32>() / size_of::<T>()
}

/// A matrix: element (i, j) is `data[i · row + j · col]`.
#[derive(Clone, Copy)]
pub(crate) struct Matrix<'a, T> {
    /// The elements, from the first one on.
    pub data: &'a [T],
    /// The row stride, in elements.
    pub row: usize,
    /// The column stride, in elements.
    pub col: usize,
}

/// A range of an axis: its start and its length.
pub(crate) type Part = (usize, usize);
