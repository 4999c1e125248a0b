//! NCHWc convolutions with weights in `bfloat16` pairs, for processors that multiply pairs: the
//! channels of the input are rounded to pairs, and a convolution of half as many channels follows.

use super::{BLOCK, Conv, ConvOperands, Groups, LARGE, Plane, Unit, convolve};
use crate::microkernel::{FusedActivation, PAIRS};
use crate::simd::bf16_pair::PAIR;

/// Returns the scratch memory of [`bf16_nchwc`], in elements.
pub(crate) const fn bf16_nchwc_scratch(geometry: &Conv<'_>) -> usize {
    let pairs = of_pairs(geometry);
    Plane::of(&pairs, pairs.channels, Unit::pairs(BLOCK), LARGE).scratch()
}

/// Returns the convolution of pairs instead of channels, whose number is even.
const fn of_pairs<'a>(geometry: &Conv<'a>) -> Conv<'a> {
    Conv { channels: geometry.channels / PAIR, ..*geometry }
}

/// Computes [`conv_nchwc`](super::conv_nchwc) of an even number of channels. The weights have the
/// same packing, in pairs of two neighboring channels.
#[inline(never)]
pub(crate) fn bf16_nchwc(
    operands: ConvOperands<'_, f32>,
    y: &mut [f32],
    scratch: &mut [f32],
    geometry: &Conv<'_>,
    f: FusedActivation<f32>,
) {
    let groups = Groups::of(&of_pairs(geometry), 1);
    convolve::<PAIRS, true>(operands, y, scratch, &groups, f);
}
