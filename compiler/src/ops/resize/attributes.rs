//! The inputs and attributes of `Resize`.

use crate::{dim::Dim, tensor::Tensor};
use onnxc_runtime::kernels::resize::{Coordinates, Filter, Fit, Rounding};

/// The indices of the optional inputs.
pub(super) const ROI: usize = 1;
pub(super) const SCALES: usize = 2;
pub(super) const SIZES: usize = 3;

/// The input resized along axes. Inputs: data, region of interest, scales, sizes.
pub struct Resize {
    /// The interpolation.
    pub mode: Mode,
    /// The mapping from output to input coordinates.
    pub coordinates: Coordinates,
    /// The value outside of the input.
    pub extrapolation: f32,
    /// The policy that keeps the aspect ratio, if it is kept.
    pub fit: Option<Fit>,
    /// The axes that the inputs describe; all by default.
    pub axes: Option<Vec<i64>>,
}

/// An interpolation.
#[derive(Clone, Copy)]
pub enum Mode {
    /// Takes the nearest element.
    Nearest(Rounding),
    /// Takes a weighted sum of elements.
    Filter(Filter),
}

/// Returns the elements of a constant as `f32`.
pub(super) fn single(tensor: &Tensor) -> Option<Vec<f32>> {
    Some(tensor.floats()?.into_iter().map(|x| x as f32).collect())
}

/// Returns a size as a number, if it is fixed.
pub(super) fn number(dim: &Dim) -> Option<usize> {
    dim.known().and_then(|n| usize::try_from(n).ok())
}
