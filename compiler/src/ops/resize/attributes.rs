//! The inputs and attributes of `Resize`.

use crate::{dim::Dim, tensor::Tensor};
use onnxc_runtime::kernels::resize::{Coordinates, Filter, Fit, Rounding};

/// Where the inputs stand.
pub(super) const ROI: usize = 1;
pub(super) const SCALES: usize = 2;
pub(super) const SIZES: usize = 3;

/// The input with axes made longer or shorter: region of interest, scales, sizes.
pub struct Resize {
    /// What an element is made of.
    pub mode: Mode,
    /// How places are found on the original axis.
    pub coordinates: Coordinates,
    /// What stands where there is nothing.
    pub extrapolation: f32,
    /// Which sizes keep the proportions, where they are kept.
    pub fit: Option<Fit>,
    /// The axes that the inputs name; by default all.
    pub axes: Option<Vec<i64>>,
}

/// What an element is made of.
#[derive(Clone, Copy)]
pub enum Mode {
    /// Of the nearest.
    Nearest(Rounding),
    /// Of several.
    Filter(Filter),
}

/// The elements of a constant, of single precision.
pub(super) fn single(tensor: &Tensor) -> Option<Vec<f32>> {
    Some(tensor.floats()?.into_iter().map(|x| x as f32).collect())
}

/// A size as a number, if it is known.
pub(super) fn number(dim: &Dim) -> Option<usize> {
    dim.known().and_then(|n| usize::try_from(n).ok())
}
