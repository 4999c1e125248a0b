//! Convolutions whose weights stand in pairs of `bfloat16` numbers. Where the processor does not multiply
//! pairs, all weights are widened first.

use super::{Pairs, UNIT, all};
use crate::kernels::conv;
use crate::kernels::conv::{Conv, ConvOperands, Tile};
use crate::loops::epilogue::Activation;
use crate::microkernel::FusedActivation;
use crate::simd;
use crate::simd::has_pairs;

/// A convolution of an image with weights, with its operands, result and scratch memory.
type Sums = fn(ConvOperands<'_, f32>, &mut [f32], &mut [f32], &Conv<'_>, FusedActivation<f32>);

/// The same convolution of pairs, and of the numbers that they are widened to.
struct Ways {
    pairs: Sums,
    wide: Sums,
    /// How many numbers the weights have.
    weights: fn(&Conv<'_>) -> usize,
}

impl Ways {
    #[inline(never)]
    fn convolve(
        &self,
        ConvOperands { x, w, bias, add }: ConvOperands<'_, f32, u32>,
        y: &mut [f32],
        scratch: &mut [f32],
        geometry: &Conv<'_>,
        f: FusedActivation<f32>,
    ) {
        if has_pairs() {
            let operands = ConvOperands { x, w: simd::bf16_pair::words(w), bias, add };
            return (self.pairs)(operands, y, scratch, geometry, f);
        }
        let (wide, scratch) = scratch.split_at_mut((self.weights)(geometry));
        all(&Pairs(w), wide, UNIT);
        (self.wide)(ConvOperands { x, w: wide, bias, add }, y, scratch, geometry, f);
    }
}

const NCHWC: Ways = Ways {
    pairs: conv::bf16_nchwc,
    wide: conv::accumulate_nchwc,
    weights: conv::packed_blocks_len,
};
const TO_BLOCKS: Ways = Ways {
    pairs: conv::im2col_nchwc,
    wide: conv::accumulate_nchw_to_nchwc,
    weights: conv::packed_blocks_len,
};
const TILES: Ways = Ways {
    pairs: conv::winograd_two_bf16,
    wide: conv::winograd_two,
    weights: |geometry| conv::packed_winograd_len(geometry, Tile::Two),
};

/// How many elements of scratch memory [`conv_bf16`] needs at least.
pub const fn conv_scratch(geometry: &Conv<'_>) -> usize {
    let pairs = conv::bf16_nchwc_scratch(geometry);
    let wide = conv::packed_blocks_len(geometry) + conv::conv_nchwc_scratch(geometry);
    if pairs > wide { pairs } else { wide }
}

/// [`conv::conv_nchwc`] of an even number of channels, where `w` has the bits of `bfloat16` numbers,
/// in the order of [`conv::pack_blocks`], but those of two neighboring channels as one of pairs: the first
/// has the lower bits.
///
/// Where the processor multiplies pairs, `x` is rounded to `bfloat16`, too.
// Inlined, so that a program has no functions but those that its models name.
#[inline(always)]
pub fn conv_bf16(
    operands: ConvOperands<'_, f32, u32>,
    y: &mut [f32],
    scratch: &mut [f32],
    geometry: Conv<'_>,
    f: Activation,
) {
    FusedActivation::within_all(f, y, |y, f| {
        NCHWC.convolve(operands, y, scratch, &geometry, f);
    });
}

/// How many elements of scratch memory [`conv_nchw_to_nchwc_bf16`] needs.
pub const fn nchw_to_nchwc_scratch(geometry: &Conv<'_>) -> usize {
    let pairs = conv::im2col_nchwc_scratch(geometry);
    let wide = conv::packed_blocks_len(geometry) + conv::conv_nchw_to_nchwc_scratch(geometry);
    if pairs > wide { pairs } else { wide }
}

/// [`conv::conv_nchw_to_nchwc`] of images whose windows are two columns apart, where `w` has the bits of
/// `bfloat16` numbers, in the order of [`conv::pack_blocks`], but those of two neighboring columns as one of
/// pairs: the first has the lower bits. Columns of the image, of the window and of the padding before it are
/// even numbers.
///
/// Where the processor multiplies pairs, `x` is rounded to `bfloat16`, too.
// Inlined, so that a program has no functions but those that its models name.
#[inline(always)]
pub fn conv_nchw_to_nchwc_bf16(
    operands: ConvOperands<'_, f32, u32>,
    y: &mut [f32],
    scratch: &mut [f32],
    geometry: Conv<'_>,
    f: Activation,
) {
    FusedActivation::within_all(f, y, |y, f| {
        TO_BLOCKS.convolve(operands, y, scratch, &geometry, f);
    });
}

/// How many elements of scratch memory [`winograd_bf16`] needs.
pub const fn winograd_scratch(geometry: &Conv<'_>) -> usize {
    let pairs = conv::winograd_two_bf16_scratch(geometry);
    let wide = conv::packed_winograd_len(geometry, Tile::Two);
    let wide = wide + conv::winograd_two_scratch(geometry);
    if pairs > wide { pairs } else { wide }
}

/// [`conv_bf16`] for windows of 3 × 3 one step apart, by tiles of 2 × 2 outputs. The weights are in the order
/// of [`conv::pack_winograd`], in pairs likewise.
///
/// Where the processor multiplies pairs, what `x` is transformed to is rounded to `bfloat16`, too.
// Inlined, so that a program has no functions but those that its models name.
#[inline(always)]
pub fn winograd_bf16(
    operands: ConvOperands<'_, f32, u32>,
    y: &mut [f32],
    scratch: &mut [f32],
    geometry: Conv<'_>,
    f: Activation,
) {
    FusedActivation::within_all(f, y, |y, f| {
        TILES.convolve(operands, y, scratch, &geometry, f);
    });
}
