//! The gradient of max pooling.

use super::Pool;
use crate::loops::window::Taps;
use crate::{Float, Number};

/// The number of positions of a row that are computed at once.
const PLACES: usize = 64;

/// Computes `dx`: the gradient of each window goes to its first maximum, or first NaN.
#[inline(never)]
pub fn max_pool_grad<T: Float>(x: &[T], dy: &[T], dx: &mut [T], geometry: Pool<'_>) {
    let taps = geometry.taps();
    let (size, places) = (taps.elements(), taps.places());
    dx.fill(T::ZERO);
    if size * places == 0 {
        return;
    }
    let images = x.chunks_exact(size).zip(dx.chunks_exact_mut(size));
    for ((x, dx), dy) in images.zip(dy.chunks_exact(places)) {
        let [_, out, ..] = taps.last();
        for (row, dy) in dy.chunks_exact(out).enumerate() {
            for (i, dy) in dy.chunks(PLACES).enumerate() {
                let (mut largest, mut at) = ([T::LOWEST; PLACES], [usize::MAX; PLACES]);
                let (largest, at) = (&mut largest[..dy.len()], &mut at[..dy.len()]);
                find(x, &taps, (row, i * PLACES), largest, at);
                for (&at, &dy) in at.iter().zip(dy) {
                    if let Some(dx) = dx.get_mut(at) {
                        *dx = dx.add(dy);
                    }
                }
            }
        }
    }
}

/// Finds the maxima of windows in a row of positions, from the given one on, and their indices in
/// the image.
fn find<T: Number>(
    x: &[T],
    taps: &Taps<'_>,
    (row, first): (usize, usize),
    largest: &mut [T],
    at: &mut [usize],
) {
    let [width, _, kernel, stride, dilation, pad] = taps.last();
    let rows = taps.without_last();
    for line in rows.inputs(row) {
        let x = &x[line * width..][..width];
        for tap in 0..kernel {
            let start = first * stride + tap * dilation;
            for (place, (largest, at)) in largest.iter_mut().zip(&mut *at).enumerate() {
                // A column before the image wraps around to a number beyond its width.
                let column = (start + place * stride).wrapping_sub(pad);
                let Some(&x) = x.get(column) else { continue };
                let none = *at == usize::MAX;
                if none || x > *largest || (x.is_nan() && !largest.is_nan()) {
                    (*largest, *at) = (x, line * width + column);
                }
            }
        }
    }
}
