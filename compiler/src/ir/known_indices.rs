//! Checks of the indices that inference knows. Kernels check the others.

use super::{Infer, Inferred};
use crate::diag::Code;
use std::ops::Range;

impl Infer<'_> {
    /// Requires indices to be inside an axis of input `i`, if its size is known. A negative index
    /// counts from the end.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Infer::ty`], or an error if an index is outside the axis.
    pub fn require_inside_axis(
        &self,
        indices: impl IntoIterator<Item = i64>,
        i: usize,
        axis: usize,
    ) -> Inferred<()> {
        let Some(size) = self.shape(i)?[axis].known() else { return Ok(()) };
        let place = || format!("axis {axis} of input {i}, whose size is {size}");
        self.require_inside(indices, -size..size, place)
    }

    /// Requires the indices of input 1, if they are known, to be inside an axis of input 0.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Infer::require_inside_axis`].
    pub fn require_indices_inside(&self, axis: usize) -> Inferred<()> {
        self.require_inside_axis(self.ints(1).unwrap_or_default(), 0, axis)
    }

    /// Requires the points in the rows of input 1, if they are known, to be inside the `axes` axes
    /// of input 0 from `first` on.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Infer::require_inside_axis`].
    pub fn require_points_inside(&self, first: usize, axes: usize) -> Inferred<()> {
        let points = self.ints(1).unwrap_or_default();
        (0..axes).try_for_each(|k| {
            let along = points.iter().skip(k).step_by(axes).copied();
            self.require_inside_axis(along, 0, first + k)
        })
    }

    /// Requires indices to be in `range`; `place` names it in the error.
    ///
    /// # Errors
    ///
    /// Returns an error if an index is outside the range.
    pub fn require_inside(
        &self,
        indices: impl IntoIterator<Item = i64>,
        range: Range<i64>,
        place: impl FnOnce() -> String,
    ) -> Inferred<()> {
        let Some(index) = indices.into_iter().find(|index| !range.contains(index)) else {
            return Ok(());
        };
        let message = format!("the index {index} is outside {}", place());
        Err(self.diagnostic(Code::ShapeMismatch, message))
    }
}
