//! Queries and keys, each times the root of the scale.

use crate::Float;
use crate::loops::index::number;

/// The root of a scale, in the type of the elements; of `1 / √depth` where there is none.
pub(super) fn root<T: Float>(scale: f64) -> T {
    T::from_f64(libm::sqrt(scale.abs()))
}

/// The factor of products: the one given, or `1 / √depth`.
pub(super) fn scale_or_default(scale: Option<f32>, depth: usize) -> f64 {
    scale.map_or_else(|| 1.0 / libm::sqrt(number(depth)), f64::from)
}

/// `y = x · √scale`, so that the product of two such factors is scaled without overflowing first.
pub fn scaled<T: Float>(x: &[T], y: &mut [T], scale: Option<f32>, depth: usize) {
    let root = root::<T>(scale_or_default(scale, depth));
    y.iter_mut().zip(x).for_each(|(y, x)| *y = x.mul(root));
}
