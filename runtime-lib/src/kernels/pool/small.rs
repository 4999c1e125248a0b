//! Small pooling kernels for `--optimize size`, which process one element at a time.

use super::Pool;
use crate::Number;

/// Computes the mean of each plane; all planes have the same size.
#[inline(never)]
pub fn small_means(x: &[f32], y: &mut [f32]) {
    let len = x.len().checked_div(y.len()).unwrap_or(0);
    let mut planes = x.chunks_exact(len.max(1));
    for y in y {
        *y = planes.next().unwrap_or_default().iter().sum::<f32>() / len as f32;
    }
}

/// Computes [`super::max_pool`].
#[inline(never)]
pub fn small_max_pool<T: Number>(x: &[T], y: &mut [T], geometry: Pool<'_>) {
    y.fill(T::LOWEST);
    each_seen(x, y, &geometry, |y, x| *y = y.maximum(x));
}

/// Computes [`super::average_pool`].
#[inline(never)]
pub fn small_average_pool(x: &[f32], y: &mut [f32], geometry: Pool<'_>) {
    average(x, y, &geometry, None);
}

/// Computes [`super::average_pool_padded`].
#[inline(never)]
pub fn small_average_pool_padded(x: &[f32], y: &mut [f32], geometry: Pool<'_>) {
    average(x, y, &geometry, Some(geometry.ends));
}

#[inline(always)]
fn average(x: &[f32], y: &mut [f32], geometry: &Pool<'_>, ends: Option<&[usize]>) {
    y.fill(0.0);
    each_seen(x, y, geometry, |y, x| *y += x);
    let taps = geometry.taps();
    let step = taps.places().max(1);
    for place in 0..taps.places() {
        let count = taps.count(place, ends) as f32;
        y.iter_mut().skip(place).step_by(step).for_each(|y| *y /= count);
    }
}

/// Calls `then` with each element of an image that a window covers, and with its output.
#[inline(always)]
fn each_seen<T: Copy>(x: &[T], y: &mut [T], geometry: &Pool<'_>, then: impl Fn(&mut T, T)) {
    let taps = geometry.taps();
    let (elements, places) = (taps.elements().max(1), taps.places().max(1));
    for place in 0..taps.places() {
        for at in taps.inputs(place) {
            let seen = x.iter().skip(at).step_by(elements);
            let results = y.iter_mut().skip(place).step_by(places);
            results.zip(seen).for_each(|(y, &x)| then(y, x));
        }
    }
}
