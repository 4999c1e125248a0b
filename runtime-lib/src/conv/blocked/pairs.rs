//! Convolutions whose weights stand in pairs of `bfloat16` numbers, for a processor that multiplies
//! such: channels of the input are rounded to pairs, and a convolution of half as many pairs follows.

use super::{Applied, Conv, Groups, LARGE, Plane, convolve, within};
use crate::activation_fn::Activation;
use crate::gemm::PAIRS;
use crate::simd::pair::PAIR;

/// How many elements of scratch memory [`pairs_in_blocks`] needs.
pub(crate) const fn pairs_in_blocks_scratch(geometry: &Conv<'_>) -> usize {
    let pairs = of_pairs(geometry);
    Plane::of(&pairs, pairs.channels, PAIRS, LARGE).scratch()
}

/// The convolution of pairs instead of channels, of which there is an even number.
const fn of_pairs<'a>(geometry: &Conv<'a>) -> Conv<'a> {
    Conv { channels: geometry.channels / PAIR, ..*geometry }
}

/// [`conv_in_blocks`](super::conv_in_blocks) of an even number of channels, with weights that are
/// packed likewise, but those of two neighboring channels in a pair.
#[inline(never)]
#[expect(clippy::too_many_arguments, reason = "four operands, each on its own")]
pub(crate) fn pairs_in_blocks(
    x: &[f32],
    w: &[f32],
    bias: Option<&[f32]>,
    add: Option<&[f32]>,
    y: &mut [f32],
    scratch: &mut [f32],
    geometry: Conv<'_>,
    f: Activation,
) {
    let groups = Groups::of(&of_pairs(&geometry), 1);
    within(f, y, |y, f: Applied| {
        convolve::<PAIRS>([x, w], [bias, add], y, scratch, &groups, f);
    });
}
