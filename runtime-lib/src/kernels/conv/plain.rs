//! Scalar convolutions of any element type, over any number of axes.

use super::{Conv, ConvOperands};
use crate::loops::epilogue::Activation;
use crate::{Float, Number};

/// Computes `y = f(w ∗ x + bias + add)`, with accumulators of the wide type. The weights have the
/// plain layout.
// Inlined, so that a program contains only the activation functions that its models use.
#[inline(always)]
pub fn conv<T: Float>(
    operands: ConvOperands<'_, T>,
    y: &mut [T],
    geometry: Conv<'_>,
    f: Activation,
) {
    sums(operands, y, geometry);
    f.apply_each(y.iter_mut());
}

/// Computes `y = w ∗ x + bias + add`.
#[inline(never)]
pub(super) fn sums<T: Float>(
    ConvOperands { x, w, bias, add }: ConvOperands<'_, T>,
    y: &mut [T],
    geometry: Conv<'_>,
) {
    let Conv { groups, channels, filters, .. } = geometry;
    let window = geometry.window();
    let (pixels, size, taps) = (window.places(), window.elements(), window.taps());
    if pixels == 0 {
        return;
    }
    for (filter, y) in y.chunks_exact_mut(pixels).enumerate() {
        let (image, filter) = (filter / (groups * filters), filter % (groups * filters));
        let first = image * groups * channels + filter / filters * channels;
        for (at, y) in y.iter_mut().enumerate() {
            let mut sum = bias.map_or(T::Wide::ZERO, |bias| bias[filter].widen());
            for tap in 0..taps {
                let Some(place) = window.input(at, tap) else { continue };
                for channel in 0..channels {
                    let x = x[(first + channel) * size + place].widen();
                    let w = w[(filter * channels + channel) * taps + tap].widen();
                    sum = sum.add(x.mul(w));
                }
            }
            let at = (image * groups * filters + filter) * pixels + at;
            let sum = add.map_or(sum, |add| sum.add(add[at].widen()));
            *y = T::narrow(sum);
        }
    }
}
