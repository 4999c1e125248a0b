//! `DeformConv`: convolutions whose taps have offsets.

use crate::kernels::conv::Conv;
use crate::loops::index::number;
use crate::{Float, Number};

/// Returns the number of elements of scratch memory that the convolution needs.
pub const fn deform_conv_scratch(channels: usize, taps: usize) -> usize {
    channels * taps
}

/// The maximal number of axes of an image.
pub const MAX_DEFORM_AXES: usize = 3;

/// The operands of a deformable convolution.
#[derive(Clone, Copy, Debug)]
pub struct DeformConvOperands<'a, T> {
    /// The input.
    pub x: &'a [T],
    /// The weights.
    pub w: &'a [T],
    /// The offsets of the taps along each axis.
    pub offset: &'a [T],
    /// One element for each output channel.
    pub bias: Option<&'a [T]>,
    /// The factors of the taps; 1 if absent.
    pub mask: Option<&'a [T]>,
}

/// Computes `y = w ∗ x + bias`. `offset` moves each tap along each axis, and `mask` multiplies it.
/// Between pixels the image is interpolated linearly; outside it is zero. Each of the
/// `offset_groups` groups of channels has its own offsets and mask.
pub fn deform_conv<T: Float>(
    operands: DeformConvOperands<'_, T>,
    y: &mut [T],
    scratch: &mut [T::Wide],
    geometry: Conv<'_>,
    offset_groups: usize,
) {
    let DeformConvOperands { x, w, offset, bias, mask } = operands;
    let Conv { batch, groups, channels, filters, .. } = geometry;
    let window = geometry.window();
    let (taps, places, size) = (window.taps(), window.places(), window.elements());
    let (all, axes) = (groups * channels, geometry.size.len());
    let per_group = all / offset_groups.max(1);
    for image in 0..batch {
        let x = &x[image * all * size..][..all * size];
        for place in 0..places {
            for group in 0..offset_groups {
                for tap in 0..taps {
                    let at = (image * offset_groups + group) * taps + tap;
                    let moved = |axis: usize| offset[(at * axes + axis) * places + place].widen();
                    let corners = Corners::of(&geometry, place, tap, moved);
                    let factor =
                        mask.map_or(T::Wide::ONE, |mask| mask[at * places + place].widen());
                    for channel in group * per_group..(group + 1) * per_group {
                        let sample = corners.sample(&x[channel * size..][..size]);
                        scratch[channel * taps + tap] = sample.mul(factor);
                    }
                }
            }
            for filter in 0..groups * filters {
                let k = channels * taps;
                let patch = &scratch[filter / filters * k..][..k];
                let w = &w[filter * k..][..k];
                let start = bias.map_or(T::Wide::ZERO, |bias| bias[filter].widen());
                let terms = w.iter().zip(patch).map(|(w, &x)| w.widen().mul(x));
                let sum = terms.fold(start, |sum, term| sum.add(term));
                y[(image * groups * filters + filter) * places + place] = T::narrow(sum);
            }
        }
    }
}

/// The pixels around a point, and their weights.
struct Corners<T> {
    /// The offset of each pixel from the start of the image, and its weight.
    each: [(usize, T); 1 << MAX_DEFORM_AXES],
    count: usize,
}

impl<T: Float> Corners<T> {
    /// Returns the pixels around the moved position of a tap.
    fn of(conv: &Conv<'_>, place: usize, tap: usize, moved: impl Fn(usize) -> T) -> Corners<T> {
        let mut corners = Corners { each: [(0, T::ZERO); 1 << MAX_DEFORM_AXES], count: 1 };
        corners.each[0] = (0, T::ONE);
        let (mut place, mut tap, mut stride) = (place, tap, 1);
        for axis in (0..conv.size.len()).rev() {
            let (out, kernel) = (conv.out[axis], conv.kernel[axis]);
            let at = place % out * conv.strides[axis] + tap % kernel * conv.dilations[axis];
            let at = number::<T>(at).sub(number(conv.pads[axis])).add(moved(axis));
            corners.split(at, conv.size[axis], stride);
            stride *= conv.size[axis];
            place /= out;
            tap /= kernel;
        }
        corners
    }

    /// Adds an axis, on which the point is at `at`: each pixel becomes two. Pixels outside the
    /// image are left out.
    fn split(&mut self, at: T, size: usize, stride: usize) {
        let low = at.floor();
        let part = at.sub(low);
        let (before, count) = (self.each, self.count);
        self.count = 0;
        for (element, weight) in [(low, T::ONE.sub(part)), (low.add(T::ONE), part)] {
            if !(element >= T::ZERO && element < number(size)) {
                continue;
            }
            let Ok(element) = usize::try_from(u64::from_f64(element.to_f64())) else { continue };
            for &(offset, factor) in &before[..count] {
                self.each[self.count] = (offset + element * stride, factor.mul(weight));
                self.count += 1;
            }
        }
    }

    fn sample(&self, x: &[impl Float<Wide = T>]) -> T {
        let each = self.each[..self.count].iter();
        each.fold(T::ZERO, |sum, &(at, factor)| sum.add(factor.mul(x[at].widen())))
    }
}

#[cfg(all(test, feature = "std"))]
mod tests {
    use super::*;
    use crate::kernels::conv::ConvOperands;
    use crate::kernels::conv::{WeightLayout, conv};
    use crate::loops::epilogue::Activation;
    use std::{vec, vec::Vec};

    fn geometry<'a>(size: &'a [usize; 2], out: &'a [usize; 2]) -> Conv<'a> {
        Conv {
            batch: 2,
            groups: 2,
            channels: 2,
            filters: 3,
            size,
            out,
            kernel: &[2, 3],
            strides: &[1, 2],
            dilations: &[2, 1],
            pads: &[1, 1],
            weights: WeightLayout::Plain,
        }
    }

    fn numbers(n: usize, seed: usize) -> Vec<f64> {
        (0..n).map(|i| ((i + seed) * 37 % 101) as f64 / 50.0 - 1.0).collect()
    }

    #[test]
    fn shifting_a_window_by_whole_elements_moves_it() {
        let (size, out) = ([5, 6], [5, 3]);
        let (x, w) = (numbers(2 * 4 * 30, 1), numbers(6 * 2 * 6, 2));
        let bias = numbers(6, 3);
        let mut scratch = vec![0.0; deform_conv_scratch(4, 6)];
        for shift in [0, 1] {
            let moved = Conv { pads: &[[1, 1], [0, 1]][shift], ..geometry(&size, &out) };
            let mut truth = vec![0.0; 2 * 6 * 15];
            conv(
                ConvOperands { x: &x, w: &w, bias: Some(&bias), add: None },
                &mut truth,
                moved,
                Activation::Identity,
            );
            // The first axis is moved by `shift` everywhere, the second one nowhere.
            let offset: Vec<f64> = (0..2 * 2 * 6 * 2 * 15)
                .map(|i| if i / 15 % 2 == 0 { shift as f64 } else { 0.0 })
                .collect();
            let mut y = vec![0.0; truth.len()];
            let g = geometry(&size, &out);
            deform_conv(
                DeformConvOperands { x: &x, w: &w, offset: &offset, bias: Some(&bias), mask: None },
                &mut y,
                &mut scratch,
                g,
                2,
            );
            assert!(y.iter().zip(&truth).all(|(y, t)| (y - t).abs() < 1e-12));
        }
    }

    #[test]
    fn samples_are_interpolated_inside_and_zero_outside() {
        let conv = Conv {
            batch: 1,
            groups: 1,
            channels: 1,
            filters: 1,
            size: &[2, 2],
            out: &[1, 4],
            kernel: &[1, 1],
            strides: &[1, 1],
            dilations: &[1, 1],
            pads: &[0, 0],
            weights: WeightLayout::Plain,
        };
        let x = [1.0, 2.0, 3.0, 4.0];
        let offset = [0.5, -0.5, f64::NAN, 1.0, 0.5, -1.0, 0.0, -3.25];
        let mut y = [9.0; 4];
        deform_conv(
            DeformConvOperands {
                x: &x,
                w: &[2.0],
                offset: &offset,
                bias: None,
                mask: Some(&[1.0, 1.0, 1.0, 3.0]),
            },
            &mut y,
            &mut [0.0],
            conv,
            1,
        );
        assert_eq!(y, [5.0, 1.0, 0.0, 13.5]);
    }
}
