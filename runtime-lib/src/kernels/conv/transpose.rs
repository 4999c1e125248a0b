//! `ConvTranspose`: each input element adds the kernel, times the element, to the output.

use super::ConvOperands;
use super::{WeightLayout, product};
use crate::kernels::matmul::{Packing, pack_a, packed_a_len};
use crate::loops::epilogue::Activation;
use crate::loops::window::Taps;
use crate::microkernel::{
    Addend, FusedActivation, GemmElem, Matrix, Operand, PANEL_ROWS, Product, Target, scratch,
};
use crate::{Float, Number};

/// A transposed convolution of `[batch, groups · channels, size…]`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ConvTranspose<'a> {
    /// The number of inputs.
    pub batch: usize,
    /// The number of groups of channels.
    pub groups: usize,
    /// The input channels of a group.
    pub channels: usize,
    /// The output channels of a group.
    pub filters: usize,
    /// The sizes of the input.
    pub size: &'a [usize],
    /// The sizes of the output.
    pub out: &'a [usize],
    /// The sizes of the kernel.
    pub kernel: &'a [usize],
    /// The distance in the output of the kernels of neighboring input elements.
    pub strides: &'a [usize],
    /// The dilations of the kernel.
    pub dilations: &'a [usize],
    /// The number of elements cut off before the output. The number behind it follows from the
    /// sizes.
    pub pads: &'a [usize],
    /// The layout of the weights: `[groups · channels, filters, kernel…]`, or packed.
    pub weights: WeightLayout,
}

/// The size of the products, in elements, that leaves space in an L2 cache.
const PRODUCTS: usize = 64 * 1024;
/// The fewest columns that are worth reading all weights.
const FEW_COLUMNS: usize = 64;

impl<'a> ConvTranspose<'a> {
    /// Returns the window that slides over the output; its positions are the elements of the input.
    fn window(&self) -> Taps<'a> {
        let ConvTranspose { size, out, kernel, strides, dilations, pads, .. } = *self;
        Taps { size: out, out: size, kernel, strides, dilations, pads }
    }

    /// Returns the number of products of each input element.
    const fn height(&self) -> usize {
        self.filters * product(self.kernel)
    }

    /// Returns the packing of the weights of a group as a left operand.
    const fn packing(&self) -> Packing {
        let rows = self.height();
        Packing { rows, cols: self.channels, strides: [1, rows] }
    }

    /// Returns the scratch memory of a product of `n` columns, in elements.
    const fn scratch_of_product(&self, n: usize) -> usize {
        let plain = matches!(self.weights, WeightLayout::Plain);
        scratch(self.height(), n, self.channels, plain, true)
    }

    /// Returns the best number of input elements of a channel to multiply at once.
    const fn columns(&self) -> usize {
        let pixels = product(self.size);
        match PRODUCTS.checked_div(self.height()) {
            Some(columns) if columns >= pixels => pixels,
            Some(columns) if columns > FEW_COLUMNS => columns,
            _ if pixels < FEW_COLUMNS => pixels,
            _ => FEW_COLUMNS,
        }
    }

    /// Returns the scratch memory to multiply `columns` elements at once, in elements.
    const fn scratch(&self, columns: usize) -> usize {
        columns * self.height() + self.scratch_of_product(columns)
    }
}

/// Returns the best size of the scratch memory of the kernel of `f32` or `f64`, in elements.
pub const fn conv_transpose_scratch(geometry: &ConvTranspose<'_>) -> usize {
    geometry.scratch(geometry.columns()) + packed_at_first(geometry)
}

/// Returns the size of weights that are packed once per call instead of for each product, in
/// elements; 0 if that does not pay.
const fn packed_at_first(geometry: &ConvTranspose<'_>) -> usize {
    let plain = matches!(geometry.weights, WeightLayout::Plain);
    if plain && geometry.height() >= PANEL_ROWS {
        packed_transpose_weights_len(geometry)
    } else {
        0
    }
}

/// Returns the smallest scratch memory of the kernel of `f32` or `f64`, in elements.
pub const fn conv_transpose_least_scratch(geometry: &ConvTranspose<'_>) -> usize {
    geometry.scratch(1)
}

/// Returns the number of elements that [`pack_transpose_weights`] writes.
pub const fn packed_transpose_weights_len(geometry: &ConvTranspose<'_>) -> usize {
    geometry.groups * packed_a_len(&geometry.packing())
}

/// Packs the weights. The result is best aligned to 64 bytes.
pub fn pack_transpose_weights<T: Number>(w: &[T], y: &mut [T], geometry: &ConvTranspose<'_>) {
    let packing = geometry.packing();
    let (from, to) = (packing.rows * packing.cols, packed_a_len(&packing));
    if from > 0 {
        let groups = w.chunks_exact(from).zip(y.chunks_exact_mut(to));
        groups.for_each(|(w, y)| pack_a(w, y, packing));
    }
}

/// Computes `y = f(transposed convolution + bias + add)`.
// Inlined, so that a program contains only the activation functions that its models use.
#[inline(always)]
pub fn conv_transpose_f32(
    operands: ConvOperands<'_, f32>,
    y: &mut [f32],
    scratch: &mut [f32],
    geometry: ConvTranspose<'_>,
    f: Activation,
) {
    FusedActivation::within_all(f, y, |y, f| transposed_f32(&operands, y, scratch, &geometry, f));
}

#[inline(never)]
fn transposed_f32(
    operands: &ConvOperands<'_, f32>,
    y: &mut [f32],
    scratch: &mut [f32],
    geometry: &ConvTranspose<'_>,
    f: FusedActivation<f32>,
) {
    transposed(operands, y, scratch, geometry, f);
}

/// Computes `y = f(transposed convolution + bias + add)`.
// Inlined, so that a program contains only the activation functions that its models use.
#[inline(always)]
pub fn conv_transpose_f64(
    operands: ConvOperands<'_, f64>,
    y: &mut [f64],
    scratch: &mut [f64],
    geometry: ConvTranspose<'_>,
    f: Activation,
) {
    FusedActivation::within_all(f, y, |y, f| transposed_f64(&operands, y, scratch, &geometry, f));
}

#[inline]
fn transposed_f64(
    operands: &ConvOperands<'_, f64>,
    y: &mut [f64],
    scratch: &mut [f64],
    geometry: &ConvTranspose<'_>,
    f: FusedActivation<f64>,
) {
    transposed(operands, y, scratch, geometry, f);
}

/// Computes `y = f(transposed convolution + bias + add)` for any real numbers, with accumulators of
/// the wide type. The weights have the plain layout.
pub fn conv_transpose<T: Float>(
    operands: ConvOperands<'_, T>,
    y: &mut [T],
    geometry: ConvTranspose<'_>,
    f: Activation,
) {
    let ConvOperands { x, w, bias, add } = operands;
    let ConvTranspose { groups, channels, filters, .. } = geometry;
    let window = geometry.window();
    let (pixels, size, taps) = (window.elements(), window.places(), window.taps());
    for (index, y) in y.iter_mut().enumerate() {
        let (filter, element) = (index / pixels, index % pixels);
        let (image, filter) = (filter / (groups * filters), filter % (groups * filters));
        let first = filter / filters * channels;
        let mut sum = bias.map_or(T::Wide::ZERO, |bias| bias[filter].widen());
        for tap in 0..taps {
            let Some(place) = window.place(element, tap) else { continue };
            for channel in first..first + channels {
                let x = x[(image * groups * channels + channel) * size + place].widen();
                let w = w[(channel * filters + filter % filters) * taps + tap].widen();
                sum = sum.add(x.mul(w));
            }
        }
        let sum = add.map_or(sum, |add| sum.add(add[index].widen()));
        *y = T::narrow(f.of(sum));
    }
}

/// Computes `y = f(transposed convolution + bias + add)`.
fn transposed<T: GemmElem>(
    operands: &ConvOperands<'_, T>,
    y: &mut [T],
    scratch: &mut [T],
    geometry: &ConvTranspose<'_>,
    f: FusedActivation<T>,
) {
    let ConvTranspose { groups, channels, filters, .. } = *geometry;
    let window = geometry.window();
    let (pixels, size) = (window.elements(), window.places());
    if filters * pixels == 0 {
        return;
    }
    let packed = packed_at_first(geometry);
    if packed > 0 && scratch.len() >= conv_transpose_least_scratch(geometry) + packed {
        let (panels, scratch) = scratch.split_at_mut(packed);
        pack_transpose_weights(operands.w, panels, geometry);
        let operands = ConvOperands { w: panels, ..*operands };
        let geometry = ConvTranspose { weights: WeightLayout::Packed, ..*geometry };
        return transposed(&operands, y, scratch, &geometry, f);
    }
    let mut columns = geometry.columns();
    while columns > 1 && geometry.scratch(columns) > scratch.len() {
        columns /= 2;
    }
    for (index, y) in y.chunks_exact_mut(filters * pixels).enumerate() {
        let group = index % groups;
        match operands.add {
            Some(add) => y.copy_from_slice(&add[index * filters * pixels..][..filters * pixels]),
            None => y.fill(T::ZERO),
        }
        if let Some(bias) = operands.bias {
            for (y, &bias) in y.chunks_exact_mut(pixels).zip(&bias[group * filters..]) {
                y.iter_mut().for_each(|y| *y = y.add(bias));
            }
        }
        let x = &operands.x[index * channels * size..][..channels * size];
        let w = geometry.factor(operands.w, group);
        for first in (0..size).step_by(columns.max(1)) {
            let n = columns.min(size - first);
            let (products, scratch) = scratch.split_at_mut(geometry.height() * n);
            geometry.multiply(w, x, (first, n), products, scratch);
            add_products(&window, (first, n), products, y);
        }
        f.apply(y, filters, pixels, pixels);
    }
}

impl ConvTranspose<'_> {
    /// Returns the weights of a group.
    fn factor<'w, T>(&self, w: &'w [T], group: usize) -> Operand<'w, T> {
        let packing = self.packing();
        match self.weights {
            WeightLayout::Plain => {
                let data = &w[group * packing.rows * packing.cols..];
                Operand::Matrix(Matrix { data, row: 1, col: packing.rows })
            }
            WeightLayout::Packed => Operand::Panels(&w[group * packed_a_len(&packing)..]),
        }
    }

    /// Computes the products of the weights with `n` elements of each channel: one row for each
    /// filter and element of the kernel.
    fn multiply<T: GemmElem>(
        &self,
        w: Operand<'_, T>,
        x: &[T],
        (first, n): (usize, usize),
        products: &mut [T],
        scratch: &mut [T],
    ) {
        let (m, k) = (self.height(), self.channels);
        let data = x.get(first..).unwrap_or(&[]);
        let b = Operand::Matrix(Matrix { data, row: product(self.size), col: 1 });
        let (addends, f) = ([Addend::NONE; 2], FusedActivation::NONE);
        let product = Product { m, n, k, a: w, b, alpha: T::ONE, addends, f };
        product.run(products, Target::whole(n), scratch);
    }
}

/// Adds the products of the positions from `first` on to their output elements.
fn add_products<T: GemmElem>(
    window: &Taps<'_>,
    (first, n): (usize, usize),
    products: &[T],
    y: &mut [T],
) {
    let [width, row_places, kernel, stride, dilation, pad] = window.last();
    let (rows, pixels) = (window.without_last(), window.elements());
    let mut at = first;
    while at < first + n {
        // The positions of one row.
        let (row, start) = (at / row_places, at % row_places);
        let count = (row_places - start).min(first + n - at);
        for tap in 0..rows.taps() {
            let Some(to) = rows.input(row, tap) else { continue };
            for (filter, y) in y.chunks_exact_mut(pixels).enumerate() {
                let y = &mut y[to * width..][..width];
                for last in 0..kernel {
                    let product = (filter * rows.taps() + tap) * kernel + last;
                    let from = &products[product * n + at - first..][..count];
                    // The first position whose element is not before the row.
                    let place = start * stride + last * dilation;
                    let skip = pad.saturating_sub(place).div_ceil(stride);
                    let to = (place + skip * stride).saturating_sub(pad);
                    let from = from.get(skip..).unwrap_or(&[]);
                    let to = y.get_mut(to..).unwrap_or(&mut []);
                    add_every(stride, from, to);
                }
            }
        }
        at += count;
    }
}

/// Adds numbers to every `stride`-th element.
fn add_every<T: GemmElem>(stride: usize, from: &[T], to: &mut [T]) {
    if stride == 1 {
        to.iter_mut().zip(from).for_each(|(to, &from)| *to = to.add(from));
    } else {
        to.iter_mut().step_by(stride).zip(from).for_each(|(to, &from)| *to = to.add(from));
    }
}
