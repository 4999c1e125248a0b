//! Tensors as rows of the elements along the last axes.

use crate::{dim::Dim, plan::geometry::Axis};

/// A tensor of `shape` as rows, each of the elements along the axes from `axis` on.
pub(super) fn rows(shape: &[Dim], axis: usize) -> Axis {
    let (outer, len) = shape.split_at(axis);
    Axis { outer: outer.iter().product(), len: len.iter().product(), inner: 1.into() }
}

/// Returns whether an operand of shape `scale` has exactly one number for each element of a row of
/// `shape`.
pub(crate) fn is_row(scale: &[Dim], shape: &[Dim], axis: usize) -> bool {
    let missing = shape.len() - scale.len();
    let fits = |i: usize| {
        let size = i.checked_sub(missing).map_or_else(|| 1.into(), |i| scale[i].clone());
        if i < axis { size.known() == Some(1) } else { size == shape[i] }
    };
    (0..shape.len()).all(fits)
}
