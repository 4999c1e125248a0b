//! Pooling. Global pooling is a window as large as the image. In `f32` the relative error of means
//! and norms of `K` elements is at most `1e-6 √K`.

mod blocked;
mod fold;
mod gradient;
mod small;
#[cfg(all(test, feature = "std"))]
mod tests;
mod unpool;
mod vectors;

pub use blocked::{
    average_pool_nchwc, average_pool_padded_nchwc, max_pool_grad_nchwc, max_pool_nchwc,
};
pub use gradient::max_pool_grad;
pub use small::{small_average_pool, small_average_pool_padded, small_max_pool, small_means};
pub use unpool::{max_unpool, max_unpool_sizes};

use crate::loops::window::Taps;
use crate::simd::{HAS_VECTORS, dispatch};
use crate::threads;
use crate::{Float, Number};
use fold::{Counted, Largest, Mean, Norm, fold};
use vectors::{FoldVectors, FoldWindows, Whole};

/// The geometry of windows over `[planes, size…]`. Elements outside of the image do not count,
/// unless a kernel says otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pool<'a> {
    /// The number of planes: batch times channels.
    pub planes: usize,
    /// The spatial sizes.
    pub size: &'a [usize],
    /// The spatial sizes of the output.
    pub out: &'a [usize],
    /// The sizes of the window.
    pub kernel: &'a [usize],
    /// The strides of the window.
    pub strides: &'a [usize],
    /// The dilations of the window.
    pub dilations: &'a [usize],
    /// The padding before the image.
    pub pads: &'a [usize],
    /// The padding after the image.
    pub ends: &'a [usize],
}

impl<'a> Pool<'a> {
    fn taps(&self) -> Taps<'a> {
        let Pool { size, out, kernel, strides, dilations, pads, .. } = *self;
        Taps { size, out, kernel, strides, dilations, pads }
    }

    /// Returns the padding after the image along the axes before the last, and along the last.
    fn ends(&self) -> (&[usize], &[usize]) {
        self.ends.split_at(self.ends.len().saturating_sub(1))
    }

    /// Distributes planes with `cost` elements per output over threads, if that pays; each part is
    /// an input and an output.
    #[inline(always)]
    fn share(
        &self,
        x: &[f32],
        y: &mut [f32],
        unit: usize,
        part: impl Fn(&[f32], &mut [f32]) + Sync,
    ) {
        let taps = self.taps();
        let (elements, places) = (taps.elements() * unit, taps.places() * unit);
        let cost = x.len() + y.len();
        threads::share(y, places, cost, |first, y| part(&x[first * elements..], y));
    }
}

/// The maximum of each window; NaN if an element is NaN.
pub fn max_pool<T: Number>(x: &[T], y: &mut [T], geometry: Pool<'_>) {
    match (T::as_f32(x), T::as_f32_mut(y)) {
        (Some(x), Some(y)) => max_pool_f32(x, y, geometry),
        _ => fold(x, y, geometry, Largest),
    }
}

/// The mean of the elements of each window inside of the image.
pub fn average_pool<T: Float>(x: &[T], y: &mut [T], geometry: Pool<'_>) {
    match (T::as_f32(x), T::as_f32_mut(y)) {
        (Some(x), Some(y)) => average_pool_f32(x, y, geometry, Counted::InImage),
        _ => fold(x, y, geometry, Mean(Counted::InImage)),
    }
}

/// The mean of the elements of each window, zero padding included.
pub fn average_pool_padded<T: Float>(x: &[T], y: &mut [T], geometry: Pool<'_>) {
    match (T::as_f32(x), T::as_f32_mut(y)) {
        (Some(x), Some(y)) => average_pool_f32(x, y, geometry, Counted::Padded),
        _ => fold(x, y, geometry, Mean(Counted::Padded)),
    }
}

/// `(Σ |x|^p)^(1/p)` of each window.
pub fn lp_pool<T: Float>(x: &[T], y: &mut [T], geometry: Pool<'_>, p: u32) {
    fold(x, y, geometry, Norm { p });
}

/// The maximum of each window, and its index in all of `x`, counted with these strides of the axes
/// of an image.
pub fn max_pool_indices<T: Number>(
    x: &[T],
    y: &mut [T],
    indices: &mut [i64],
    geometry: Pool<'_>,
    index_strides: &[usize],
) {
    let taps = geometry.taps();
    let (places, size) = (taps.places(), taps.elements());
    for (at, (y, index)) in y.iter_mut().zip(indices).enumerate() {
        let (plane, place) = (at / places, at % places);
        let image = &x[plane * size..][..size];
        let largest = taps.inputs(place).reduce(|best, input| {
            let (x, largest) = (image[input], image[best]);
            if x > largest || (x.is_nan() && !largest.is_nan()) { input } else { best }
        });
        *y = largest.map_or(T::LOWEST, |input| image[input]);
        let index_in_plane = largest.map_or(0, |input| taps.along(input, index_strides));
        *index = i64::try_from(plane * size + index_in_plane).unwrap_or(i64::MAX);
    }
}

#[inline(never)]
fn max_pool_f32(x: &[f32], y: &mut [f32], geometry: Pool<'_>) {
    pool_f32(x, y, geometry, Largest);
}

#[inline(never)]
fn average_pool_f32(x: &[f32], y: &mut [f32], geometry: Pool<'_>, counted: Counted) {
    pool_f32(x, y, geometry, Mean(counted));
}

#[inline(always)]
fn pool_f32(x: &[f32], y: &mut [f32], geometry: Pool<'_>, of: impl FoldVectors) {
    let taps = geometry.taps();
    if HAS_VECTORS && taps.is_whole() {
        let size = taps.elements();
        return geometry.share(x, y, 1, |x, y| dispatch(Whole { x, y, size, fold: of }));
    }
    geometry.share(x, y, 1, |x, y| {
        if !(HAS_VECTORS && dispatch(FoldWindows { x, y: &mut *y, geometry, fold: of })) {
            fold(x, y, geometry, of);
        }
    });
}
