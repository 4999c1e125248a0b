//! Convolutions whose weights stand in pairs of `bfloat16` numbers, for a processor that multiplies
//! such: channels of the input are rounded to pairs, and a convolution of half as many pairs follows.

use super::{BLOCK, Conv, ConvOperands, Groups, LARGE, Plane, Unit, convolve};
use crate::microkernel::{FusedActivation, PAIRS};
use crate::simd::bf16_pair::PAIR;

/// How many elements of scratch memory [`bf16_nchwc`] needs.
pub(crate) const fn bf16_nchwc_scratch(geometry: &Conv<'_>) -> usize {
    let pairs = of_pairs(geometry);
    Plane::of(&pairs, pairs.channels, Unit::pairs(BLOCK), LARGE).scratch()
}

/// The convolution of pairs instead of channels, of which there is an even number.
const fn of_pairs<'a>(geometry: &Conv<'a>) -> Conv<'a> {
    Conv { channels: geometry.channels / PAIR, ..*geometry }
}

/// [`conv_nchwc`](super::conv_nchwc) of an even number of channels, with weights that are
/// packed likewise, but those of two neighboring channels in a pair.
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
