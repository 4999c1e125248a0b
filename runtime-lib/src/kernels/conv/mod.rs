//! `Conv`: convolutions over any number of axes, `y = f(w ∗ x + bias + add)`.
//!
//! The kernels of `f32` and `f64` copy the input to scratch memory, padded, with one *plane* for
//! each phase of the strides, so that the elements that one weight multiplies are contiguous. The
//! rest is a GEMM whose right operand has its rows at offsets in the planes. A *band* of the output
//! is computed at once, as large as the scratch memory allows: [`conv_scratch`] returns the best
//! size, [`conv_least_scratch`] the smallest. A group of one filter in `f32` slides over the planes
//! instead: the GEMM would compute rows that do not exist.
//!
//! In `f32` the relative error of a sum of `K` products of one sign is at most `1e-6 √K`, for every
//! kernel and level; if terms cancel, it is relative to the sum of their absolute values.

mod axes;
mod blocked;
mod causal;
mod deform;
mod group;
mod integer;
mod plain;
mod planes;
mod slide;
mod small;
#[cfg(all(test, feature = "std"))]
mod tests;
mod transpose;
mod weight_grad;

pub use blocked::{
    ConvBySize, MAX_SHUFFLED, Reading, Tile, conv_by_size_nchwc, conv_by_size_nchwc_scratch,
    conv_nchw_to_nchwc, conv_nchw_to_nchwc_scratch, conv_nchwc, conv_nchwc_scratch,
    conv_transpose_nchwc, conv_transpose_nchwc_scratch, conv_weight_grad_nchw_to_nchwc,
    conv_weight_grad_nchw_to_nchwc_scratch, conv_weight_grad_nchwc, conv_weight_grad_nchwc_scratch,
    depthwise_conv_weight_grad, depthwise_conv_weight_grad_scratch, depthwise_nchwc, gate_nchwc,
    gated_conv_nchwc, gated_conv_nchwc_scratch, grouped_conv_nchwc, has_blocks, has_flat_blocks,
    has_narrow_groups, has_nchwc_conv_transpose, narrow_groups_nchwc, narrow_groups_nchwc_scratch,
    pack_blocks, pack_depthwise, pack_depthwise_blocks, pack_group, pack_groups, pack_narrow,
    pack_narrow_groups, pack_nchw_to_nchwc, pack_nchwc, pack_transposed, pack_winograd,
    pack_winograd_nchwc, packed_blocks_len, packed_group_len, packed_groups_len,
    packed_transposed_len, packed_winograd_len, packed_winograd_part_len, transpose_depthwise,
    winograd_nchwc, winograd_nchwc_scratch, winograd_pays_in_pairs, winograd_pays_packed_now,
    winograd_tile,
};
pub(crate) use blocked::{
    accumulate_nchw_to_nchwc, accumulate_nchwc, bf16_nchwc, bf16_nchwc_scratch, im2col_nchwc,
    im2col_nchwc_scratch, winograd_two, winograd_two_bf16, winograd_two_bf16_scratch,
    winograd_two_scratch,
};
pub use causal::{CausalConv, CausalConvOperands, causal_conv_with_state};
pub use deform::{DeformConvOperands, MAX_DEFORM_AXES, deform_conv, deform_conv_scratch};
pub use integer::{QLinearConvOperands, conv_integer, conv_integer_scratch, qlinear_conv};
pub use plain::conv;
pub use small::small_conv;
pub(crate) use small::{WindowScratch, each_window};
pub use transpose::{
    ConvTranspose, conv_transpose, conv_transpose_f32, conv_transpose_f64,
    conv_transpose_least_scratch, conv_transpose_scratch, pack_transpose_weights,
    packed_transpose_weights_len,
};
pub use weight_grad::{
    conv_weight_grad, conv_weight_grad_f32, conv_weight_grad_f64, conv_weight_grad_scratch,
    correlate_least_scratch,
};

use crate::Number;
use crate::kernels::matmul::{Packing, pack_a, packed_a_len};
use crate::loops::epilogue::Activation;
use crate::loops::window::Taps;
use crate::microkernel::{FusedActivation, scratch};
use group::conv_real;
use planes::Window;

/// A convolution of `[batch, groups · channels, size…]`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Conv<'a> {
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
    /// The strides of the window.
    pub strides: &'a [usize],
    /// The dilations of the kernel.
    pub dilations: &'a [usize],
    /// The padding before the input. The padding behind it follows from the sizes.
    pub pads: &'a [usize],
    /// The layout of the weights.
    pub weights: WeightLayout,
}

/// The operands of a convolution, `y = f(w ∗ x + bias + add)`.
#[derive(Clone, Copy, Debug)]
pub struct ConvOperands<'a, T, W = T> {
    /// The input: `[batch, groups · channels, size…]`.
    pub x: &'a [T],
    /// The weights.
    pub w: &'a [W],
    /// One element for each output channel.
    pub bias: Option<&'a [T]>,
    /// The residual, with the shape of the output.
    pub add: Option<&'a [T]>,
}

/// The layout of the weights of a convolution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WeightLayout {
    /// `[groups · filters, channels, kernel…]`, as in ONNX: for depthwise convolutions, for outputs
    /// of one element, and for weights that are not constant.
    Plain,
    /// As packed by [`pack_weights`].
    Packed,
}

/// The size of the planes, in elements, that leaves space for weights in an L2 cache.
const PLANES: usize = 96 * 1024;

/// The fewest filters of a group that are worth packing, since panels have many rows.
const FEW_FILTERS: usize = 4;

/// The fewest columns that are worth reading all weights.
const COLUMNS: usize = 64;

impl<'a> Conv<'a> {
    /// Returns the window that slides over each channel.
    pub(crate) fn window(&self) -> Taps<'a> {
        let Conv { size, out, kernel, strides, dilations, pads, .. } = *self;
        Taps { size, out, kernel, strides, dilations, pads }
    }

    /// Returns the number of products that an output element accumulates.
    pub(crate) const fn depth(&self) -> usize {
        self.channels * product(self.kernel)
    }

    /// Returns whether each output element reads only the input elements at its own position.
    const fn is_pointwise(&self) -> bool {
        let mut axis = 0;
        while axis < self.size.len() {
            if self.kernel[axis] != 1 || self.strides[axis] != 1 || self.pads[axis] != 0 {
                return false;
            }
            if self.size[axis] != self.out[axis] {
                return false;
            }
            axis += 1;
        }
        true
    }

    const fn packing(&self) -> Packing {
        let depth = self.depth();
        Packing { rows: self.filters, cols: depth, strides: [depth, 1] }
    }

    /// Returns the scratch memory of the product of a group, in elements.
    const fn scratch_of_product(&self, columns: usize) -> usize {
        let plain = matches!(self.weights, WeightLayout::Plain);
        scratch(self.filters, columns, self.depth(), plain, self.is_pointwise())
    }
}

const fn product(sizes: &[usize]) -> usize {
    let mut product = 1;
    let mut axis = 0;
    while axis < sizes.len() {
        product *= sizes[axis];
        axis += 1;
    }
    product
}

/// Returns the best size of the scratch memory of the convolution of `f32` or `f64`, in elements.
pub const fn conv_scratch(geometry: &Conv<'_>) -> usize {
    scratch_for(geometry, PLANES) + packed_at_first(geometry)
}

/// Returns the size of weights that are packed once per call instead of for each product, in
/// elements; 0 if that does not pay.
const fn packed_at_first(geometry: &Conv<'_>) -> usize {
    let plain = matches!(geometry.weights, WeightLayout::Plain);
    if plain && geometry.filters >= FEW_FILTERS && product(geometry.out) > 1 {
        packed_weights_len(geometry)
    } else {
        0
    }
}

/// Returns the smallest scratch memory of the convolution of `f32` or `f64`, in elements.
pub const fn conv_least_scratch(geometry: &Conv<'_>) -> usize {
    scratch_for(geometry, 0)
}

const fn scratch_for(geometry: &Conv<'_>, planes: usize) -> usize {
    if geometry.is_pointwise() {
        return geometry.scratch_of_product(product(geometry.out));
    }
    let Some(window) = Window::of(geometry) else { return 0 };
    let band = window.band_of_at_least(if planes > 0 { COLUMNS } else { 1 }, planes);
    window.starts_len() + band.planes_len::<f32>() + geometry.scratch_of_product(0)
}

/// Returns the number of elements that [`pack_weights`] writes.
pub const fn packed_weights_len(geometry: &Conv<'_>) -> usize {
    geometry.groups * packed_a_len(&geometry.packing())
}

/// Packs the weights of a convolution. The result is best aligned to 64 bytes.
pub fn pack_weights<T: Number>(w: &[T], y: &mut [T], geometry: &Conv<'_>) {
    let packing = geometry.packing();
    let (from, to) = (packing.rows * packing.cols, packed_a_len(&packing));
    if from > 0 {
        let groups = w.chunks_exact(from).zip(y.chunks_exact_mut(to));
        groups.for_each(|(w, y)| pack_a(w, y, packing));
    }
}

/// Computes `y = f(w ∗ x + bias + add)`.
// Inlined, so that a program contains only the activation functions that its models use.
#[inline(always)]
pub fn conv_f32(
    operands: ConvOperands<'_, f32>,
    y: &mut [f32],
    scratch: &mut [f32],
    geometry: Conv<'_>,
    f: Activation,
) {
    FusedActivation::within_all(f, y, |y, f| products_f32(&operands, y, scratch, geometry, f));
}

#[inline(never)]
fn products_f32(
    operands: &ConvOperands<'_, f32>,
    y: &mut [f32],
    scratch: &mut [f32],
    geometry: Conv<'_>,
    f: FusedActivation<f32>,
) {
    conv_real(operands, y, scratch, geometry, f);
}

/// Computes `y = f(w ∗ x + bias + add)`.
// Inlined, so that a program contains only the activation functions that its models use.
#[inline(always)]
pub fn conv_f64(
    operands: ConvOperands<'_, f64>,
    y: &mut [f64],
    scratch: &mut [f64],
    geometry: Conv<'_>,
    f: Activation,
) {
    FusedActivation::within_all(f, y, |y, f| products_f64(&operands, y, scratch, geometry, f));
}

#[inline]
fn products_f64(
    operands: &ConvOperands<'_, f64>,
    y: &mut [f64],
    scratch: &mut [f64],
    geometry: Conv<'_>,
    f: FusedActivation<f64>,
) {
    conv_real(operands, y, scratch, geometry, f);
}
