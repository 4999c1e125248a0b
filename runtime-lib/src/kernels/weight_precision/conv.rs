//! Convolutions with weights in pairs of `bfloat16`. If the processor has no instruction for pairs,
//! all weights are widened first.

use super::{Pairs, UNIT, all};
use crate::kernels::conv;
use crate::kernels::conv::{Conv, ConvOperands, Tile};
use crate::loops::epilogue::Activation;
use crate::microkernel::FusedActivation;
use crate::simd;
use crate::simd::has_pairs;

/// A convolution of an image with weights, with its operands, result and scratch memory.
type Sums = fn(ConvOperands<'_, f32>, &mut [f32], &mut [f32], &Conv<'_>, FusedActivation<f32>);

/// One convolution, with weights in pairs and with widened weights.
struct Variants {
    pairs: Sums,
    wide: Sums,
    /// Returns the number of weights.
    weights: fn(&Conv<'_>) -> usize,
}

impl Variants {
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

const NCHWC: Variants = Variants {
    pairs: conv::bf16_nchwc,
    wide: conv::accumulate_nchwc,
    weights: conv::packed_blocks_len,
};
const TO_BLOCKS: Variants = Variants {
    pairs: conv::im2col_nchwc,
    wide: conv::accumulate_nchw_to_nchwc,
    weights: conv::packed_blocks_len,
};
const TILES: Variants = Variants {
    pairs: conv::winograd_two_bf16,
    wide: conv::winograd_two,
    weights: |geometry| conv::packed_winograd_len(geometry, Tile::Two),
};

/// Returns the least scratch memory that [`conv_bf16`] needs, in elements.
pub const fn conv_scratch(geometry: &Conv<'_>) -> usize {
    let pairs = conv::bf16_nchwc_scratch(geometry);
    let wide = conv::packed_blocks_len(geometry) + conv::conv_nchwc_scratch(geometry);
    if pairs > wide { pairs } else { wide }
}

/// Computes [`conv::conv_nchwc`] of an even number of channels. `w` has the bits of `bfloat16`
/// numbers in the order of [`conv::pack_blocks`], except that the weights of two neighboring
/// channels form pairs, the first in the lower bits.
///
/// If the processor has an instruction for pairs, `x` is rounded to `bfloat16` too.
// Inlined, so that a program contains only the activation functions that its models use.
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

/// Returns the scratch memory that [`conv_nchw_to_nchwc_bf16`] needs, in elements.
pub const fn nchw_to_nchwc_scratch(geometry: &Conv<'_>) -> usize {
    let pairs = conv::im2col_nchwc_scratch(geometry);
    let wide = conv::packed_blocks_len(geometry) + conv::conv_nchw_to_nchwc_scratch(geometry);
    if pairs > wide { pairs } else { wide }
}

/// Computes [`conv::conv_nchw_to_nchwc`] with a column stride of 2. `w` has the bits of `bfloat16`
/// numbers in the order of [`conv::pack_blocks`], except that the weights of two neighboring
/// columns form pairs, the first in the lower bits. The numbers of columns of the image, of the
/// window and of the padding before it are even.
///
/// If the processor has an instruction for pairs, `x` is rounded to `bfloat16` too.
// Inlined, so that a program contains only the activation functions that its models use.
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

/// Returns the scratch memory that [`winograd_bf16`] needs, in elements.
pub const fn winograd_scratch(geometry: &Conv<'_>) -> usize {
    let pairs = conv::winograd_two_bf16_scratch(geometry);
    let wide = conv::packed_winograd_len(geometry, Tile::Two);
    let wide = wide + conv::winograd_two_scratch(geometry);
    if pairs > wide { pairs } else { wide }
}

/// Computes [`conv_bf16`] for windows of 3 × 3 with stride 1, by tiles of 2 × 2 outputs. The
/// weights are in the order of [`conv::pack_winograd`], in the same pairs.
///
/// If the processor has an instruction for pairs, the transformed `x` is rounded to `bfloat16` too.
// Inlined, so that a program contains only the activation functions that its models use.
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
