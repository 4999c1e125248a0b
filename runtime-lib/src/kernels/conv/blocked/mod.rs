//! NCHWc convolutions, with blocks of [`BLOCK`] channels: `[batch, channels / 16, size…, 16]`. The
//! last block may have channels that are padding, with finite but arbitrary numbers.
//!
//! A block is one vector of the widest SIMD level. So the accumulators of a pixel are a few
//! contiguous vectors, and each number of the input is multiplied by whole vectors of weights.
//!
//! The input of a band of the output is first copied to scratch memory, unless it can be read in
//! place. The copy is padded, and it groups the columns by their remainder modulo the stride (their
//! *phase*). For depthwise convolutions, this copy would cost as much as the arithmetic, so windows
//! at the edges use a part of the kernel instead.

mod band;
mod by_size;
mod columns;
mod copy;
mod depthwise;
mod gated;
mod groups;
mod narrow;
mod pairs;
#[cfg(all(test, feature = "std"))]
mod tests;
mod transpose;
mod weight_grad;
mod winograd;

use super::{Conv, ConvOperands, product};
use crate::Number;
use crate::loops::epilogue::Activation;
use crate::loops::geometry::BLOCK;
use crate::microkernel::{FusedActivation, MAX_TAPS, NchwcConv, UsedTaps};
use crate::simd::bf16_pair::PAIR;
use crate::threads::{self, By, Piece, Scratch, Share};
use band::{Band, LARGE, Plane, Unit};
pub use by_size::{ConvBySize, conv_by_size_nchwc, conv_by_size_nchwc_scratch};
pub(crate) use columns::{im2col_nchwc, im2col_nchwc_scratch};
pub use depthwise::{depthwise_nchwc, pack_depthwise_blocks};
pub use gated::{gate_nchwc, gated_conv_nchwc, gated_conv_nchwc_scratch};
use groups::Groups;
pub use groups::{MAX_SHUFFLED, pack_group, pack_groups, packed_group_len, packed_groups_len};
pub use narrow::{
    has_narrow_groups, narrow_groups_nchwc, narrow_groups_nchwc_scratch, pack_narrow,
    pack_narrow_groups,
};
pub(crate) use pairs::{bf16_nchwc, bf16_nchwc_scratch};
pub use transpose::{
    conv_transpose_nchwc, conv_transpose_nchwc_scratch, has_nchwc_conv_transpose, pack_transposed,
    packed_transposed_len, transpose_depthwise,
};
pub use weight_grad::{
    conv_weight_grad_nchw_to_nchwc, conv_weight_grad_nchw_to_nchwc_scratch, conv_weight_grad_nchwc,
    conv_weight_grad_nchwc_scratch, depthwise_conv_weight_grad, depthwise_conv_weight_grad_scratch,
};
pub use winograd::{
    Reading, Tile, pack_winograd, pack_winograd_nchwc, packed_winograd_len,
    packed_winograd_part_len, winograd_nchwc, winograd_nchwc_scratch, winograd_pays_in_pairs,
    winograd_pays_packed_now, winograd_tile,
};
pub(crate) use winograd::{
    winograd_two, winograd_two_bf16, winograd_two_bf16_scratch, winograd_two_scratch,
};

/// Returns the best size of the scratch memory of [`conv_nchwc`], in elements.
pub const fn conv_nchwc_scratch(geometry: &Conv<'_>) -> usize {
    Plane::of(geometry, geometry.groups * geometry.channels, Unit::of(BLOCK), LARGE).scratch()
}

/// Returns the best size of the scratch memory of [`conv_nchw_to_nchwc`], in elements.
pub const fn conv_nchw_to_nchwc_scratch(geometry: &Conv<'_>) -> usize {
    Plane::of(geometry, geometry.channels, Unit::of(1), LARGE).scratch()
}

/// Returns whether [`conv_nchwc`] and [`conv_nchw_to_nchwc`] take a window: whether it has one to
/// three axes, and at most `MAX_TAPS` taps.
pub const fn has_blocks(kernel: &[usize]) -> bool {
    let axes = kernel.len();
    axes > 0 && axes <= 3 && product(kernel) <= MAX_TAPS
}

/// Returns whether the other kernels of this module take a window: whether it has no third axis.
pub const fn has_flat_blocks(kernel: &[usize]) -> bool {
    kernel.len() <= 2 && has_blocks(kernel)
}

/// Returns the number of elements that [`pack_blocks`] and [`pack_depthwise_blocks`] write.
pub const fn packed_blocks_len(geometry: &Conv<'_>) -> usize {
    (geometry.groups * geometry.filters).div_ceil(BLOCK) * geometry.depth() * BLOCK
}

/// Packs the weights of [`conv_nchwc`], at run time.
#[inline(never)]
pub fn pack_nchwc(w: &[f32], y: &mut [f32], geometry: Conv<'_>) {
    pack_blocks(w, y, &geometry, BLOCK);
}

/// Packs the weights of [`conv_nchw_to_nchwc`], at run time.
#[inline(never)]
pub fn pack_nchw_to_nchwc(w: &[f32], y: &mut [f32], geometry: Conv<'_>) {
    pack_blocks(w, y, &geometry, 1);
}

/// Packs the weights of [`depthwise_nchwc`], at run time.
#[inline(never)]
pub fn pack_depthwise(w: &[f32], y: &mut [f32], geometry: Conv<'_>) {
    pack_depthwise_blocks(w, y, &geometry);
}

/// Packs weights as `[filter block, channel unit, tap, channel of the unit, 16]`. A unit has `unit`
/// channels: [`BLOCK`], or 1 for an NCHW input.
pub fn pack_blocks<T: Number>(w: &[T], y: &mut [T], geometry: &Conv<'_>, unit: usize) {
    let (channels, taps) = (geometry.channels, product(geometry.kernel));
    let mut y = y.chunks_exact_mut(BLOCK);
    for filter in (0..geometry.filters).step_by(BLOCK) {
        for first in (0..channels).step_by(unit) {
            for tap in 0..taps {
                for channel in first..channels.min(first + unit) {
                    let Some(y) = y.next() else { return };
                    for (lane, y) in y.iter_mut().enumerate() {
                        let at = ((filter + lane) * channels + channel) * taps + tap;
                        *y = w.get(at).copied().unwrap_or(T::ZERO);
                    }
                }
            }
        }
    }
}

/// Computes `y = f(w ∗ x + bias + add)`. All operands but the weights and the bias are NCHWc. The
/// weights are packed by [`pack_blocks`]; the bias has a number for each channel of the blocks.
#[inline(always)]
pub fn conv_nchwc(
    operands: ConvOperands<'_, f32>,
    y: &mut [f32],
    scratch: &mut [f32],
    geometry: Conv<'_>,
    f: Activation,
) {
    let compute = |y: &mut [_], f| accumulate_nchwc(operands, y, scratch, &geometry, f);
    FusedActivation::within_all(f, y, compute);
}

/// Computes [`conv_nchwc`] for another kernel, with a fused activation.
#[inline(never)]
pub(crate) fn accumulate_nchwc(
    operands: ConvOperands<'_, f32>,
    y: &mut [f32],
    scratch: &mut [f32],
    geometry: &Conv<'_>,
    f: FusedActivation<f32>,
) {
    nchwc(operands, y, scratch, &Groups::of(geometry, 1), f);
}

/// Computes `y = f(w ∗ x + bias + add)` for any number of groups. The channels of `x` have the
/// order before a channel shuffle of `shuffled` groups, at most [`MAX_SHUFFLED`]. The shuffle takes
/// the first channel of each group, then the second of each, and so on. The weights are packed by
/// [`pack_group`].
#[inline(always)]
pub fn grouped_conv_nchwc(
    operands: ConvOperands<'_, f32>,
    y: &mut [f32],
    scratch: &mut [f32],
    geometry: Conv<'_>,
    shuffled: usize,
    f: Activation,
) {
    let groups = Groups::of(&geometry, shuffled);
    FusedActivation::within_all(f, y, |y, f| nchwc(operands, y, scratch, &groups, f));
}

#[inline(never)]
fn nchwc(
    operands: ConvOperands<'_, f32>,
    y: &mut [f32],
    scratch: &mut [f32],
    groups: &Groups<'_>,
    f: FusedActivation<f32>,
) {
    convolve::<BLOCK, false>(operands, y, scratch, groups, f);
}

/// Computes `y = f(w ∗ x + bias + add)` for an NCHW input. The weights are packed by
/// [`pack_blocks`].
#[inline(always)]
pub fn conv_nchw_to_nchwc(
    operands: ConvOperands<'_, f32>,
    y: &mut [f32],
    scratch: &mut [f32],
    geometry: Conv<'_>,
    f: Activation,
) {
    let compute = |y: &mut [_], f| accumulate_nchw_to_nchwc(operands, y, scratch, &geometry, f);
    FusedActivation::within_all(f, y, compute);
}

/// Computes [`conv_nchw_to_nchwc`] for another kernel, with a fused activation.
#[inline(never)]
pub(crate) fn accumulate_nchw_to_nchwc(
    operands: ConvOperands<'_, f32>,
    y: &mut [f32],
    scratch: &mut [f32],
    geometry: &Conv<'_>,
    f: FusedActivation<f32>,
) {
    convolve::<1, false>(operands, y, scratch, &Groups::of(geometry, 1), f);
}

fn convolve<const UNIT: usize, const PAIRED: bool>(
    ConvOperands { x, w, bias, add }: ConvOperands<'_, f32>,
    y: &mut [f32],
    scratch: &mut [f32],
    groups: &Groups<'_>,
    f: FusedActivation<f32>,
) {
    let geometry = &groups.geometry;
    let [channels, filters] =
        [geometry.channels, geometry.filters].map(|count| geometry.groups * count);
    let unit = if PAIRED { Unit::pairs(PAIR * UNIT) } else { Unit::of(UNIT) };
    let plane = Plane::of(geometry, channels, unit, LARGE);
    let pixels = product(geometry.out);
    let (from, to) = (plane.image(), filters.div_ceil(BLOCK) * pixels * BLOCK);
    if to == 0 {
        return;
    }
    let band = plane.band(scratch.len());
    let mut taps = [0; MAX_TAPS];
    let taps = band.taps(&plane, &mut taps);
    let scratch = Scratch::new(scratch);
    // If the threads share the rows, each reads all weights; if they share the blocks, each reads
    // the whole image.
    let by = if w.len() <= from { By::Rows } else { By::Planes };
    for (image, y) in y.chunks_exact_mut(to).enumerate() {
        let add = add.map_or(&[][..], |add| &add[image * to..][..to]);
        let cost = to * geometry.depth() / threads::MACS_PER_ELEMENT;
        Share::of(y, pixels * BLOCK).hand_out(plane.cut(), by, cost, |piece| {
            let image = Image::<UNIT, PAIRED> {
                x: &x[image * from..][..from],
                w,
                bias: bias.unwrap_or(&[]),
                add,
                groups,
                taps,
                f,
            };
            scratch.with(|scratch| image.convolve(&plane, &band, piece, scratch));
        });
    }
}

/// The operands of one image.
struct Image<'a, const UNIT: usize, const PAIRED: bool> {
    x: &'a [f32],
    w: &'a [f32],
    bias: &'a [f32],
    add: &'a [f32],
    groups: &'a Groups<'a>,
    taps: &'a [usize],
    f: FusedActivation<f32>,
}

impl<const UNIT: usize, const PAIRED: bool> Image<'_, UNIT, PAIRED> {
    /// Returns the taps that read the image for the outputs at a depth. With pairs, those are all:
    /// AMX reads the weights one after the other.
    fn used_taps(&self, plane: &Plane, depth: usize) -> UsedTaps<'_> {
        if PAIRED { UsedTaps::all(self.taps) } else { plane.used_taps(self.taps, depth) }
    }

    /// Computes the rows and blocks of `piece`.
    fn convolve(&self, plane: &Plane, band: &Band, piece: Piece<'_, f32>, scratch: &mut [f32]) {
        let Piece { planes: blocks, rows: of, mut y } = piece;
        let ([height, width], start) = (plane.out(), of.start * plane.cut());
        let places = plane.windows(of).flat_map(|(depth, window)| {
            plane.places(band, window).map(move |place| (depth, place))
        });
        for (depth, [row, rows, col, cols]) in places {
            let at = ((depth * height + row) * width + col) * BLOCK;
            let pixels = at - start..at - start + ((rows - 1) * width + cols) * BLOCK;
            let x = band.input(plane, self.x, depth, [row, rows, col], scratch);
            self.groups.parts(blocks.start, blocks.len(), |part| {
                let block = blocks.start + part.block;
                NchwcConv::<UNIT, PAIRED> {
                    x,
                    x_block_stride: band.block,
                    x_row_stride: band.row,
                    taps: self.used_taps(plane, depth),
                    spans: part.spans,
                    w: &self.w[part.weights..],
                    bias: self.bias.get(block * BLOCK..).unwrap_or(&[]),
                    add: self.add.get(block * y.apart() + at..).unwrap_or(&[]),
                    y: y.part(part.block..part.block + part.blocks, pixels.clone()),
                    y_row_stride: width * BLOCK,
                    y_col_stride: BLOCK,
                    blocks: part.blocks,
                    rows,
                    cols,
                    kept: part.kept,
                    clamp: self.f.clamp(),
                    layers: 1,
                    x_layer_stride: 0,
                }
                .compute();
            });
            for block in 0..blocks.len() {
                let y = &mut y.plane(block)[pixels.clone()];
                let len = y.len();
                self.f.finish(y, 1, len, len);
            }
        }
    }
}
