//! Matrices, and the panels that they are packed into.

use crate::simd::MAX_LANES;

/// Rows in a panel of the left factor. All levels' tiles divide it.
pub(crate) const PANEL_ROWS: usize = 12;
/// Rows of a panel that packing writes at once.
pub(super) const PACKED_ROWS: usize = 4;

/// Columns in a panel of the right factor: as many as the widest vector has lanes, so that every
/// level can take its tiles from the same panels.
pub(crate) const fn panel_cols<T>() -> usize {
    MAX_LANES * size_of::<f32>() / size_of::<T>()
}

/// A matrix: element (i, j) is `data[i · row + j · col]`.
#[derive(Clone, Copy)]
pub(crate) struct Matrix<'a, T> {
    /// The matrix, from its first element on.
    pub data: &'a [T],
    /// How far one row starts from the next.
    pub row: usize,
    /// How far one column starts from the next.
    pub col: usize,
}

/// A part of an axis: where it starts and how long it is.
pub(crate) type Part = (usize, usize);
