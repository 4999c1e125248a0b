//! Averages of windows of 8-bit tensors.

use super::Requantize;
use crate::kernels::matmul::i16_dot::widened;
use crate::kernels::pool::Pool;
use crate::loops::window::Taps;
use crate::simd::int8::Byte;
use crate::{Float, Number};

/// Computes the mean of each window, times `factor`, requantized. If `padded`, the mean includes
/// the zeros of the padding.
pub fn average_pool<X: Byte, Y: Byte>(
    x: &[X],
    y: &mut [Y],
    geometry: Pool<'_>,
    to: Requantize,
    factor: f32,
    padded: bool,
) {
    let Pool { size, out, kernel, strides, dilations, pads, .. } = geometry;
    let window = Taps { size, out, kernel, strides, dilations, pads };
    let (elements, places, taps) = (window.elements(), window.places(), window.taps());
    let zero = to.x_zero as i16;
    for plane in 0..geometry.planes {
        let x = &x[plane * elements..][..elements];
        for (place, y) in y[plane * places..][..places].iter_mut().enumerate() {
            let sum = if window.is_whole() {
                x.iter().map(|&x| i32::from(widened(x, zero))).sum::<i32>()
            } else {
                let inside = (0..taps).filter_map(|tap| window.input(place, tap));
                inside.map(|at| i32::from(widened(x[at], zero))).sum::<i32>()
            };
            let count = window.count(place, padded.then_some(geometry.ends));
            *y = requantized(sum, factor / count as f32, to);
        }
    }
}

/// Computes the mean of each plane, requantized. All planes have the same size.
#[inline(always)]
pub fn small_means<X: Byte, Y: Byte>(x: &[X], y: &mut [Y], to: Requantize, factor: f32) {
    means(X::bits(x), X::FLIP, Y::bits_mut(y), &to, factor);
}

#[inline(never)]
fn means(x: &[u8], flip: u8, y: &mut [u8], to: &Requantize, factor: f32) {
    let len = x.len().checked_div(y.len()).unwrap_or(0).max(1);
    let (bounds, zero) = (to.bounds(), to.x_zero + i32::from(flip));
    for (y, x) in y.iter_mut().zip(x.chunks_exact(len)) {
        let sum = x.iter().map(|&x| i32::from(x ^ flip) - zero).sum::<i32>();
        *y = bounds.byte(Float::round(sum as f32 * (factor / len as f32)) as i32);
    }
}

/// Requantizes an accumulator.
pub(crate) fn requantized<Y: Byte>(sum: i32, factor: f32, to: Requantize) -> Y {
    let x = Float::round(sum as f32 * factor);
    let (low, high) = ((to.low - to.y_zero) as f32, (to.high - to.y_zero) as f32);
    let x = Number::minimum(Number::maximum(x, low), high);
    Y::from_i64(i64::from(x as i32 + to.y_zero))
}
