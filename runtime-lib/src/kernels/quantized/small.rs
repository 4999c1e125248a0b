//! Convolutions and products in few instructions, for where space matters more than time: one loop
//! gathers the bytes of a window, another one multiplies them with weights in ONNX's own order.

use super::{Requantize, scaled_byte};
use crate::kernels::conv::{Conv, WindowScratch, each_window};
use crate::simd::int8::{Byte, dot};

/// `y = w ∗ (x - x_zero)`, requantized, for any number of axes; a product of matrices is one of none,
/// with an image for each row. From the addends `x_zero` times the sum of the weights, which have no
/// zero point, is taken away already, as if `x` had no sign. `starts` and `window` are for the elements
/// of a window of one channel, and of all channels.
#[inline(always)]
#[expect(clippy::too_many_arguments, reason = "each operand on its own")]
pub fn small_int8_conv_nchw<X: Byte, Y: Byte>(
    x: &[X],
    w: &[i8],
    bias: &[i32],
    factor: &[f32],
    offset: Option<&[f32]>,
    y: &mut [Y],
    starts: &mut [u32],
    window: &mut [u8],
    geometry: Conv<'_>,
    to: Requantize,
) {
    let channels = Channels { bias, factor };
    convolve(
        X::bits(x),
        X::FLIP,
        i8::bits(w),
        &channels,
        offset,
        Y::bits_mut(y),
        WindowScratch { starts, window },
        &geometry,
        &to,
    );
}

/// Numbers of each channel: what sums start with, and what they are multiplied with.
struct Channels<'a> {
    bias: &'a [i32],
    factor: &'a [f32],
}

#[inline(never)]
#[expect(clippy::too_many_arguments, reason = "each operand on its own")]
fn convolve(
    x: &[u8],
    flip: u8,
    w: &[u8],
    of: &Channels<'_>,
    offset: Option<&[f32]>,
    y: &mut [u8],
    room: WindowScratch<'_, u8>,
    geometry: &Conv<'_>,
    to: &Requantize,
) {
    let (bounds, outside) = (to.bounds(), to.x_zero as u8);
    let (places, depth) = (geometry.window().places(), geometry.depth().max(1));
    let Conv { groups, filters, .. } = *geometry;
    each_window(
        x,
        room,
        geometry,
        outside,
        |x| x ^ flip,
        |window, mut at| {
            let (mut windows, mut weights) = (window.chunks_exact(depth), w.chunks_exact(depth));
            let (mut numbers, mut filter) = (of.bias.iter().zip(of.factor), 0);
            for _ in 0..groups {
                // No weights, no window: a sum of nothing.
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
