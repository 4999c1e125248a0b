//! Scaling of queries and keys by the root of the scale.

use crate::Float;
use crate::loops::index::number;

/// The root of a scale, rounded to the element type.
pub(super) fn root<T: Float>(scale: f64) -> T {
    T::from_f64(libm::sqrt(scale.abs()))
}

/// The scale: the given one, or `1 / √depth`.
pub(super) fn scale_or_default(scale: Option<f32>, depth: usize) -> f64 {
    scale.map_or_else(|| 1.0 / libm::sqrt(number(depth)), f64::from)
}

/// `y = x · √scale`, so that the product of two scaled operands is scaled without overflow.
pub fn scaled<T: Float>(x: &[T], y: &mut [T], scale: Option<f32>, depth: usize) {
    let root = root::<T>(scale_or_default(scale, depth));
    y.iter_mut().zip(x).for_each(|(y, x)| *y = x.mul(root));
}
