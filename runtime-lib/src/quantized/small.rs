//! Convolutions and products in few instructions, for where space matters more than time: one loop
//! gathers the bytes of a window, another one multiplies them with weights in ONNX's own order.

use super::{Requantize, scaled_byte};
use crate::conv::{Conv, Room, each_window};
use crate::simd::bytes::{Byte, dot};

/// `y = w ∗ (x - x_zero)`, requantized, for any number of axes; a product of matrices is one of none,
/// with an image for each row. From the addends `x_zero` times the sum of the weights, which have no
/// zero point, is taken away already, as if `x` had no sign. `starts` and `window` are for the elements
/// of a window of one channel, and of all channels of a group.
#[inline(always)]
#[expect(clippy::too_many_arguments, reason = "each operand on its own")]
pub fn small_conv<X: Byte, Y: Byte>(
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
    let channels = Channels { w: i8::bits(w), bias, factor };
    convolve(
        X::bits(x),
        X::FLIP,
        &channels,
        offset,
        Y::bits_mut(y),
        Room { starts, window },
        &geometry,
        &to,
    );
}

/// What sums are made of, and what they are multiplied with.
struct Channels<'a> {
    w: &'a [u8],
    bias: &'a [i32],
    factor: &'a [f32],
}

impl Channels<'_> {
    /// The weights of a filter, which are so many, and its numbers.
    #[inline(always)]
    fn of(&self, filter: usize, depth: usize) -> Option<(&[u8], i32, f32)> {
        let w = self.w.get(filter * depth..(filter + 1) * depth)?;
        Some((w, *self.bias.get(filter)?, *self.factor.get(filter)?))
    }
}

#[inline(never)]
#[expect(clippy::too_many_arguments, reason = "each operand on its own")]
fn convolve(
    x: &[u8],
    flip: u8,
    of: &Channels<'_>,
    offset: Option<&[f32]>,
    y: &mut [u8],
    room: Room<'_, u8>,
    geometry: &Conv<'_>,
    to: &Requantize,
) {
    let (bounds, outside) = (to.bounds(), to.x_zero as u8);
    each_window(
        x,
        room,
        geometry,
        |x| x.copied().unwrap_or(outside) ^ flip,
        |window, filter, at| {
            let offset = offset.and_then(|offset| offset.get(filter));
            let found = of.of(filter, window.len()).zip(y.get_mut(at));
            if let Some(((w, bias, factor), y)) = found {
                *y = scaled_byte(dot(window, w, bias), factor, offset, bounds);
            }
        },
    );
}
