//! Convolutions and products in few instructions, for where space matters more than time: one loop
//! gathers the bytes of a window, another one multiplies them with weights in ONNX's own order.

use super::{Bounds, Requantize, scaled_byte};
use crate::conv::Conv;
use crate::simd::bytes::{Byte, dot};

/// Where the elements of a window are that lie outside of the image.
const OUTSIDE: u32 = u32::MAX;

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
    let sums = Sums { w: i8::bits(w), bias, factor, offset: offset.unwrap_or(&[]) };
    convolve(X::bits(x), X::FLIP, &sums, Y::bits_mut(y), starts, window, &geometry, &to);
}

/// What the sums of each filter are made of, and what is made of them.
struct Sums<'a> {
    w: &'a [u8],
    bias: &'a [i32],
    factor: &'a [f32],
    offset: &'a [f32],
}

impl Sums<'_> {
    /// What a filter makes of a window.
    #[inline(always)]
    fn byte(&self, filter: usize, window: &[u8], to: Bounds) -> u8 {
        let w = &self.w[filter * window.len()..];
        let sum = dot(window, w, self.bias[filter]);
        scaled_byte(sum, self.factor[filter], self.offset.get(filter), to)
    }
}

#[inline(never)]
#[expect(clippy::too_many_arguments, reason = "each operand on its own")]
fn convolve(
    x: &[u8],
    flip: u8,
    sums: &Sums<'_>,
    y: &mut [u8],
    starts: &mut [u32],
    window: &mut [u8],
    geometry: &Conv<'_>,
    to: &Requantize,
) {
    let Conv { batch, groups, channels, filters, .. } = *geometry;
    let (taps, bounds) = (geometry.window(), to.bounds());
    let (elements, places) = (taps.elements(), taps.places());
    let outside = to.x_zero as u8;
    for place in 0..places {
        for (tap, start) in starts.iter_mut().enumerate() {
            *start = taps.input(place, tap).map_or(OUTSIDE, |at| at as u32);
        }
        for group in 0..batch * groups {
            let mut tos = window.iter_mut();
            for channel in 0..channels {
                let x = &x[(group * channels + channel) * elements..];
                for (&start, to) in starts.iter().zip(&mut tos) {
                    *to = x.get(start as usize).copied().unwrap_or(outside) ^ flip;
                }
            }
            for filter in 0..filters {
                let of = group % groups * filters + filter;
                y[(group * filters + filter) * places + place] = sums.byte(of, window, bounds);
            }
        }
    }
}
