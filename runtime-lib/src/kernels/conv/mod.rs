//! `Conv`: convolutions over any number of axes, `y = f(w ∗ x + bias + add)`.
//!
//! The kernel of `f32` first lays the input out anew in scratch memory, padded, with one *plane*
//! for each phase of the strides, so that what one weight is multiplied with lies in one piece;
//! the rest is a product of matrices whose right rows are places in the planes. It works on as
//! many rows of the output at once as the scratch memory has room for: [`conv_scratch`] says what
//! serves best, [`conv_least_scratch`] what is needed.
//!
//! In `f32` the relative error of a sum of `K` products of one sign is at most `1e-6 √K`, by every
//! kernel and at every level; where terms cancel, it is that of the sum of their sizes.

mod axis;
mod blocked;
mod causal;
mod deform;
mod group;
mod integer;
mod plain;
mod planes;
mod small;
#[cfg(all(test, feature = "std"))]
mod tests;
mod transpose;
mod weight_grad;

pub(crate) use axis::{Axis, TapRun};
pub use blocked::{
    MAX_SHUFFLED, Reading, Tile, conv_nchw_to_nchwc, conv_nchw_to_nchwc_scratch, conv_nchwc,
    conv_nchwc_scratch, conv_transpose_nchwc, conv_transpose_nchwc_scratch,
    conv_weight_grad_nchw_to_nchwc, conv_weight_grad_nchw_to_nchwc_scratch, conv_weight_grad_nchwc,
    conv_weight_grad_nchwc_scratch, depthwise_conv_weight_grad, depthwise_conv_weight_grad_scratch,
    depthwise_nchwc, grouped_conv_nchwc, has_blocks, has_nchwc_conv_transpose, pack_blocks,
    pack_depthwise, pack_depthwise_blocks, pack_group, pack_groups, pack_nchw_to_nchwc, pack_nchwc,
    pack_transposed, pack_winograd, pack_winograd_nchwc, packed_blocks_len, packed_group_len,
    packed_groups_len, packed_transposed_len, packed_winograd_len, packed_winograd_part_len,
    transpose_depthwise, winograd_nchwc, winograd_nchwc_scratch, winograd_pays_in_pairs,
    winograd_pays_packed_now, winograd_tile,
};
pub(crate) use blocked::{
    accumulate_nchw_to_nchwc, accumulate_nchwc, bf16_nchwc, bf16_nchwc_scratch, im2col_nchwc,
    im2col_nchwc_scratch, pairs_of_tiles, pairs_of_tiles_scratch, sums_of_tiles,
    sums_of_tiles_scratch,
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
    /// How many inputs there are.
    pub batch: usize,
    /// How many groups of channels are convolved apart.
    pub groups: usize,
    /// Input channels of a group.
    pub channels: usize,
    /// Output channels of a group.
    pub filters: usize,
    /// The sizes of the input.
    pub size: &'a [usize],
    /// The sizes of the output.
    pub out: &'a [usize],
    /// The sizes of the kernel.
    pub kernel: &'a [usize],
    /// The steps of the kernel.
    pub strides: &'a [usize],
    /// The distances of the kernel's elements.
    pub dilations: &'a [usize],
    /// The zeros before the input. Those behind it follow from the sizes.
    pub pads: &'a [usize],
    /// How the weights stand in memory.
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
    /// As many elements as the output has.
    pub add: Option<&'a [T]>,
}

/// How the weights of a convolution stand in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WeightLayout {
    /// `[groups · filters, channels, kernel…]`, as in ONNX: for depthwise convolutions, for
    /// outputs of one element, and for weights that are not constant.
    Plain,
    /// As [`pack_weights`] leaves them.
    Packed,
}

/// Elements of scratch memory for planes that leave room in a second-level cache.
const PLANES: usize = 96 * 1024;

/// Fewer filters of a group are not worth packing: panels have many rows.
const FEW_FILTERS: usize = 4;

/// Columns that are worth the reading of all weights.
const COLUMNS: usize = 64;

impl<'a> Conv<'a> {
    /// The window that slides over each channel.
    pub(crate) fn window(&self) -> Taps<'a> {
        let Conv { size, out, kernel, strides, dilations, pads, .. } = *self;
        Taps { size, out, kernel, strides, dilations, pads }
    }

    /// How many weights one output element is the sum of.
    pub(crate) const fn depth(&self) -> usize {
        self.channels * product(self.kernel)
    }

    /// Whether each output element reads the input elements at its own place only.
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

    /// The product that a group is.
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

/// How many elements of scratch memory the convolution of `f32` or `f64` wants, to be fastest.
pub const fn conv_scratch(geometry: &Conv<'_>) -> usize {
    scratch_for(geometry, PLANES) + packed_at_first(geometry)
}

/// How many elements weights have that are packed once when the convolution runs, rather than for each
/// product; none where that does not pay.
const fn packed_at_first(geometry: &Conv<'_>) -> usize {
    let plain = matches!(geometry.weights, WeightLayout::Plain);
    if plain && geometry.filters >= FEW_FILTERS && product(geometry.out) > 1 {
        packed_weights_len(geometry)
    } else {
        0
    }
}

/// How many elements of scratch memory the convolution of `f32` or `f64` needs.
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

/// How many elements [`pack_weights`] writes.
pub const fn packed_weights_len(geometry: &Conv<'_>) -> usize {
    geometry.groups * packed_a_len(&geometry.packing())
}

/// Packs the weights of a convolution; what is packed is best placed at a multiple of 64 bytes.
pub fn pack_weights<T: Number>(w: &[T], y: &mut [T], geometry: &Conv<'_>) {
    let packing = geometry.packing();
    let (from, to) = (packing.rows * packing.cols, packed_a_len(&packing));
    if from > 0 {
        let groups = w.chunks_exact(from).zip(y.chunks_exact_mut(to));
        groups.for_each(|(w, y)| pack_a(w, y, packing));
    }
}

/// `y = f(w ∗ x + bias + add)`.
// Inlined, so that a program has no functions but those that its models name.
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

/// `y = f(w ∗ x + bias + add)`.
// Inlined, so that a program has no functions but those that its models name.
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

#[inline(never)]
fn products_f64(
    operands: &ConvOperands<'_, f64>,
    y: &mut [f64],
    scratch: &mut [f64],
    geometry: Conv<'_>,
    f: FusedActivation<f64>,
) {
    conv_real(operands, y, scratch, geometry, f);
}
