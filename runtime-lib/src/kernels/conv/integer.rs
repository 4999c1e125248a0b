//! Reference kernels of `ConvInteger` and `QLinearConv`, for every shape and element type. The
//! compiler selects faster ones, in [`quantized`](crate::kernels::quantized) (NCHW) and
//! [`nhwc`](crate::kernels::nhwc), where they apply.

use crate::kernels::conv::Conv;
use crate::kernels::matmul::i16_dot::{Rows, each_sum, requantized, widened, zero_point};
use crate::loops::window::Taps;
use crate::{Integer, Number};

/// The numbers of rows of the weights and of the input that are widened at once.
const BLOCK: [usize; 2] = [64, 32];
/// The number of columns of a depthwise convolution that are accumulated at once.
const COLUMNS: usize = 64;

/// Returns the number of elements of scratch memory with which the convolution is fastest.
pub const fn conv_integer_scratch(geometry: &Conv<'_>) -> usize {
    if is_depthwise(geometry) {
        return 0;
    }
    let pixels = product(geometry.out);
    let rows = if geometry.filters < BLOCK[0] { geometry.filters } else { BLOCK[0] };
    let places = if pixels < BLOCK[1] { pixels } else { BLOCK[1] };
    (rows + places) * depth(geometry)
}

const fn is_depthwise(geometry: &Conv<'_>) -> bool {
    geometry.channels == 1
}

/// Returns the length of a dot product.
const fn depth(geometry: &Conv<'_>) -> usize {
    geometry.channels * product(geometry.kernel)
}

const fn product(sizes: &[usize]) -> usize {
    let (mut product, mut axis) = (1, 0);
    while axis < sizes.len() {
        product *= sizes[axis];
        axis += 1;
    }
    product
}

/// Computes `y = (w - w_zero) ∗ (x - x_zero)`; accumulators wrap around. The weights have one zero
/// point, or one for each output channel.
pub fn conv_integer<X: Integer, W: Integer>(
    x: &[X],
    w: &[W],
    x_zero: Option<&[X]>,
    w_zero: Option<&[W]>,
    y: &mut [i32],
    scratch: &mut [i16],
    geometry: Conv<'_>,
) {
    let operands = Operands { x, w, x_zero: zero_point(x_zero, 0), w_zero };
    operands.each_sum(scratch, &geometry, |at, _, sum| y[at] = sum);
}

/// The operands of `QLinearConv`.
#[derive(Clone, Copy, Debug)]
pub struct QLinearConvOperands<'a, X, W, Y> {
    /// The input.
    pub x: &'a [X],
    /// The scale of the input.
    pub x_scale: &'a [f32],
    /// The zero point of the input.
    pub x_zero: &'a [X],
    /// The weights.
    pub w: &'a [W],
    /// The scales of the weights.
    pub w_scale: &'a [f32],
    /// The zero points of the weights.
    pub w_zero: &'a [W],
    /// The scale of the output.
    pub y_scale: &'a [f32],
    /// The zero point of the output.
    pub y_zero: &'a [Y],
    /// One element for each output channel.
    pub bias: Option<&'a [i32]>,
}

/// Computes `y = ((w - w_zero) ∗ (x - x_zero) + bias) · x_scale · w_scale / y_scale + y_zero`,
/// rounded to the nearest integer, with ties to even, before `y_zero` is added. The weights have
/// one zero point and one scale, or one for each output channel.
pub fn qlinear_conv<X: Integer, W: Integer, Y: Integer>(
    operands: QLinearConvOperands<'_, X, W, Y>,
    y: &mut [Y],
    scratch: &mut [i16],
    geometry: Conv<'_>,
) {
    let QLinearConvOperands { x, x_scale, x_zero, w, w_scale, w_zero, y_scale, y_zero, bias } =
        operands;
    let operands = Operands { x, w, x_zero: widened(x_zero[0], 0), w_zero: Some(w_zero) };
    operands.each_sum(scratch, &geometry, |at, filter, sum| {
        let sum = bias.map_or(sum, |bias| sum.wrapping_add(bias[filter]));
        let factor = x_scale[0] * w_scale[filter.min(w_scale.len() - 1)] / y_scale[0];
        y[at] = requantized(sum, factor, y_zero[0]);
    });
}

struct Operands<'a, X, W> {
    x: &'a [X],
    w: &'a [W],
    x_zero: i16,
    w_zero: Option<&'a [W]>,
}

impl<X: Integer, W: Integer> Operands<'_, X, W> {
    /// Calls `end` for each accumulator, with its index in the result and its output channel.
    fn each_sum(
        &self,
        scratch: &mut [i16],
        geometry: &Conv<'_>,
        mut end: impl FnMut(usize, usize, i32),
    ) {
        for image in 0..geometry.batch {
            for group in 0..geometry.groups {
                if is_depthwise(geometry) {
                    self.depthwise(image, group, geometry, &mut end);
                } else {
                    self.group(image, group, scratch, geometry, &mut end);
                }
            }
        }
    }

    /// Returns the zero point of an output channel's weights.
    fn w_zero(&self, filter: usize) -> i16 {
        let last = self.w_zero.map_or(0, |zeros| zeros.len().saturating_sub(1));
        zero_point(self.w_zero, filter.min(last))
    }

    /// Computes the accumulators of one group of an image, as dot products of rows: one row of
    /// weights for each output channel, one row of the input for each element of the output.
    fn group(
        &self,
        image: usize,
        group: usize,
        scratch: &mut [i16],
        geometry: &Conv<'_>,
        end: &mut impl FnMut(usize, usize, i32),
    ) {
        let window = geometry.window();
        let (filters, pixels, k) = (geometry.filters, window.places(), depth(geometry));
        let size = geometry.channels * window.elements();
        let x = &self.x[(image * geometry.groups + group) * size..][..size];
        if filters * pixels == 0 {
            return;
        }
        let available = scratch.len().checked_div(k).unwrap_or(BLOCK[0] + BLOCK[1]);
        let places = pixels.min(available / 3).max(1);
        let rows = filters.min(available - places).max(1);
        let (weights, patches) = scratch.split_at_mut(rows * k);
        for i in (0..filters).step_by(rows) {
            let count = rows.min(filters - i);
            let filter = group * filters + i;
            for (i, row) in (filter..filter + count).zip(weights.chunks_exact_mut(k.max(1))) {
                let (from, zero) = (&self.w[i * k..][..k], self.w_zero(i));
                row.iter_mut().zip(from).for_each(|(to, &w)| *to = widened(w, zero));
            }
            let weights = Rows { data: weights, count, k };
            for j in (0..pixels).step_by(places) {
                let count = places.min(pixels - j);
                self.gather(x, &window, j, patches[..count * k].chunks_exact_mut(k.max(1)));
                each_sum(weights, Rows { data: patches, count, k }, |row, place, sum| {
                    let filter = filter + row;
                    let channel = image * geometry.groups * filters + filter;
                    end(channel * pixels + j + place, filter, sum);
                });
            }
        }
    }

    /// Writes the input row of each output element from `first` on.
    fn gather<'p>(
        &self,
        x: &[X],
        window: &Taps<'_>,
        first: usize,
        patches: impl Iterator<Item = &'p mut [i16]>,
    ) {
        let (size, taps) = (window.elements(), window.taps());
        for (place, row) in (first..).zip(patches) {
            for tap in 0..taps {
                let to = row[tap..].iter_mut().step_by(taps);
                match window.input(place, tap) {
                    Some(at) => to
                        .zip(x[at..].iter().step_by(size))
                        .for_each(|(to, &x)| *to = widened(x, self.x_zero)),
                    None => to.for_each(|to| *to = 0),
                }
            }
        }
    }

    /// Computes the accumulators of a group with one input channel, row by row.
    fn depthwise(
        &self,
        image: usize,
        group: usize,
        geometry: &Conv<'_>,
        end: &mut impl FnMut(usize, usize, i32),
    ) {
        let window = geometry.window();
        let (size, taps, rows) = (window.elements(), window.taps(), window.without_last());
        let [columns, out, kernel, stride, dilation, pad] = window.last();
        let x = &self.x[(image * geometry.groups + group) * size..][..size];
        for filter in group * geometry.filters..(group + 1) * geometry.filters {
            let zeros = [self.x_zero, self.w_zero(filter)];
            let w = &self.w[filter * taps..][..taps];
            let last = Row { w, zeros, kernel, stride, dilation, pad };
            let channel = image * geometry.groups * geometry.filters + filter;
            for row in 0..rows.places() {
                for first in (0..out).step_by(COLUMNS) {
                    let mut sums = [0; COLUMNS];
                    let sums = &mut sums[..COLUMNS.min(out - first)];
                    for tap in 0..rows.taps() {
                        if let Some(line) = rows.input(row, tap) {
                            let x = &x[line * columns..][..columns];
                            last.add(x, tap * kernel, first, sums);
                        }
                    }
                    let to = (channel * rows.places() + row) * out + first;
                    sums.iter().zip(to..).for_each(|(&sum, to)| end(to, filter, sum));
                }
            }
        }
    }
}

/// The last axis of a convolution of one channel.
struct Row<'a, W> {
    w: &'a [W],
    /// The zero points of the input and of the weights.
    zeros: [i16; 2],
    kernel: usize,
    stride: usize,
    dilation: usize,
    pad: usize,
}

impl<W: Integer> Row<'_, W> {
    /// Adds the products of a row of the input and the weights from `taps` on to the accumulators
    /// of the columns from `first` on.
    fn add<X: Integer>(&self, x: &[X], taps: usize, first: usize, sums: &mut [i32]) {
        for (&w, place) in self.w[taps..][..self.kernel].iter().zip(0..) {
            let w = i32::from(widened(w, self.zeros[1]));
            // Column `c` reads the element `c · stride + at - pad`.
            let at = first * self.stride + place * self.dilation;
            let skip = self.pad.saturating_sub(at).div_ceil(self.stride);
            let from = (at + skip * self.stride).saturating_sub(self.pad);
            let inside = x.get(from..).unwrap_or_default().iter().step_by(self.stride);
            for (sum, &x) in sums.iter_mut().skip(skip).zip(inside) {
                let x = i32::from(widened(x, self.zeros[0]));
                *sum = sum.wrapping_add(w.mul(x));
            }
        }
    }
}

#[cfg(all(test, feature = "std"))]
mod tests {
    use super::*;
    use crate::kernels::conv::WeightLayout;
    use std::{vec, vec::Vec};

    fn bytes(n: usize, factor: usize) -> Vec<u8> {
        (0..n).map(|i| (i * factor % 251) as u8).collect()
    }

    /// The convolution, element by element.
    fn sums(x: &[u8], w: &[u8], zeros: (u8, &[u8]), conv: &Conv<'_>) -> Vec<i32> {
        let window = conv.window();
        let (places, taps, size) = (window.places(), window.taps(), window.elements());
        let sum = |at: usize| -> i32 {
            let (filter, place) = (at / places % (conv.groups * conv.filters), at % places);
            let image = at / places / (conv.groups * conv.filters);
            let zero = i32::from(zeros.1[filter % zeros.1.len()]);
            let terms = (0..conv.channels * taps).map(|i| {
                let channel = filter / conv.filters * conv.channels + i / taps;
                let Some(place) = window.input(place, i % taps) else { return 0 };
                let x = x[(image * conv.groups * conv.channels + channel) * size + place];
                let w = w[filter * conv.channels * taps + i];
                (i32::from(x) - i32::from(zeros.0)) * (i32::from(w) - zero)
            });
            terms.sum()
        };
        (0..conv.batch * conv.groups * conv.filters * places).map(sum).collect()
    }

    fn check(channels: usize, groups: usize, filters: usize, [stride, dilation, pad]: [usize; 3]) {
        let size = [7, 70];
        let out = size.map(|size| (size + 2 * pad - 2 * dilation - 1) / stride + 1);
        let conv = Conv {
            batch: 2,
            groups,
            channels,
            filters,
            size: &size,
            out: &out,
            kernel: &[3, 3],
            strides: &[stride; 2],
            dilations: &[dilation; 2],
            pads: &[pad; 2],
            weights: WeightLayout::Plain,
        };
        let x = bytes(2 * groups * channels * 490, 57);
        let w = bytes(groups * filters * channels * 9, 91);
        for zeros in [vec![3], bytes(groups * filters, 77)] {
            let truth = sums(&x, &w, (5, &zeros), &conv);
            for len in [conv_integer_scratch(&conv), 3 * depth(&conv)] {
                let (mut y, mut scratch) = (vec![0; truth.len()], vec![0; len]);
                conv_integer(&x, &w, Some(&[5]), Some(&zeros), &mut y, &mut scratch, conv);
                assert_eq!(y, truth, "{conv:?}");
                let mut z = vec![0u8; truth.len()];
                let scales: Vec<f32> = zeros.iter().map(|&x| 1e-4 + f32::from(x) / 1e6).collect();
                let bias: Vec<i32> = (0..groups * filters).map(|i| i as i32 * 1000).collect();
                qlinear_conv(
                    QLinearConvOperands {
                        x: &x,
                        x_scale: &[0.5],
                        x_zero: &[5],
                        w: &w,
                        w_scale: &scales,
                        w_zero: &zeros,
                        y_scale: &[2.0],
                        y_zero: &[100],
                        bias: Some(&bias),
                    },
                    &mut z,
                    &mut scratch,
                    conv,
                );
                for (at, (&z, &sum)) in z.iter().zip(&truth).enumerate() {
                    let filter = at / (out[0] * out[1]) % (groups * filters);
                    let factor = 0.5 * scales[filter % scales.len()] / 2.0;
                    assert_eq!(z, requantized(sum + bias[filter], factor, 100u8), "{at}");
                }
            }
        }
    }

    #[test]
    fn bytes_are_convolved() {
        for window in [[1, 1, 0], [1, 1, 1], [2, 1, 1], [1, 2, 2], [3, 2, 3]] {
            check(3, 1, 5, window);
            check(2, 3, 2, window);
            check(1, 4, 1, window);
            check(1, 2, 3, window);
        }
    }

    #[test]
    fn nothing_is_summed_to_zero() {
        let conv = Conv {
            batch: 1,
            groups: 1,
            channels: 0,
            filters: 2,
            size: &[3],
            out: &[3],
            kernel: &[1],
            strides: &[1],
            dilations: &[1],
            pads: &[0],
            weights: WeightLayout::Plain,
        };
        let mut y = [9; 6];
        conv_integer::<u8, i8>(&[], &[], None, None, &mut y, &mut [], conv);
        assert_eq!(y, [0; 6]);
    }
}
