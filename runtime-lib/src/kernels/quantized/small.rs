//! Convolutions and products with little code, for programs that optimize size: one loop gathers
//! the bytes of a window, and another one multiplies them by weights in ONNX's order.

use super::{Int8Operands, Requantize, scaled_byte};
use crate::kernels::conv::{Conv, WindowScratch, each_window};
use crate::simd::int8::{Byte, dot};

/// `y = w ∗ (x - x_zero)`, requantized, for any number of axes. A matrix product is a convolution
/// without axes, with an image per row. The weights have no zero point. The bias includes `-x_zero`
/// times the sum of the weights, for unsigned `x`. `starts` has an element for each tap of a
/// channel, and `window` an element for each tap of all channels.
#[inline(always)]
pub fn small_int8_conv_nchw<X: Byte, Y: Byte>(
    operands: Int8Operands<'_, X>,
    y: &mut [Y],
    starts: &mut [u32],
    window: &mut [u8],
    geometry: Conv<'_>,
    to: Requantize,
) {
    let Int8Operands { x, w, bias, factor, offset } = operands;
    let operands = Operands { x: X::bits(x), flip: X::FLIP, w: i8::bits(w), bias, factor, offset };
    convolve(operands, Y::bits_mut(y), WindowScratch { starts, window }, &geometry, &to);
}

/// [`Int8Operands`] as bytes.
struct Operands<'a> {
    x: &'a [u8],
    /// XORed with each byte of `x` to make it unsigned.
    flip: u8,
    w: &'a [u8],
    bias: &'a [i32],
    factor: &'a [f32],
    offset: Option<&'a [f32]>,
}

#[inline(never)]
fn convolve(
    Operands { x, flip, w, bias, factor, offset }: Operands<'_>,
    y: &mut [u8],
    scratch: WindowScratch<'_, u8>,
    geometry: &Conv<'_>,
    to: &Requantize,
) {
    let (bounds, outside) = (to.bounds(), to.x_zero as u8);
    let (places, depth) = (geometry.window().places(), geometry.depth().max(1));
    let Conv { groups, filters, .. } = *geometry;
    each_window(
        x,
        scratch,
        geometry,
        outside,
        |x| x ^ flip,
        |window, mut at| {
            let (mut windows, mut weights) = (window.chunks_exact(depth), w.chunks_exact(depth));
            let (mut numbers, mut filter) = (bias.iter().zip(factor), 0);
            for _ in 0..groups {
                // Without weights the window is empty and the sum is the bias.
                let window = windows.next().unwrap_or_default();
                for _ in 0..filters {
                    let w = weights.next().unwrap_or_default();
                    let offset = offset.and_then(|offset| offset.get(filter));
                    if let Some(((&bias, &factor), y)) = numbers.next().zip(y.get_mut(at)) {
                        *y = scaled_byte(dot(window, w, bias), factor, offset, bounds);
                    }
                    (filter, at) = (filter + 1, at + places);
                }
            }
        },
    );
}
