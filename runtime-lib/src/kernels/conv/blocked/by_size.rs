//! Convolutions of sizes that only a run tells: each run chooses the algorithm that a module of the
//! same fixed sizes uses, so that both give the same bits in the same time.

use super::{
    ConvOperands, Reading, conv_nchwc, conv_nchwc_scratch, packed_blocks_len, winograd_nchwc,
    winograd_nchwc_scratch, winograd_tile,
};
use crate::kernels::conv::Conv;
use crate::loops::epilogue::Activation;

/// A convolution that chooses between direct convolution and Winograd tiles.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ConvBySize<'a> {
    /// The convolution.
    pub conv: Conv<'a>,
    /// The memory from which it reads weights.
    pub reading: Reading,
}

impl ConvBySize<'_> {
    /// Returns whether Winograd is faster.
    const fn transforms(&self) -> bool {
        winograd_tile(&self.conv, self.reading).is_some()
    }
}

/// Returns the best size of the scratch memory of [`conv_by_size_nchwc`], in elements.
pub const fn conv_by_size_nchwc_scratch(geometry: &ConvBySize<'_>) -> usize {
    if geometry.transforms() {
        winograd_nchwc_scratch(&geometry.conv)
    } else {
        conv_nchwc_scratch(&geometry.conv)
    }
}

/// Computes `y = f(w ∗ x + bias + add)`, like [`conv_nchwc`]. The weights are those of
/// [`conv_nchwc`], followed by those of [`winograd_nchwc`].
#[inline(always)]
pub fn conv_by_size_nchwc(
    operands: ConvOperands<'_, f32>,
    y: &mut [f32],
    scratch: &mut [f32],
    geometry: ConvBySize<'_>,
    f: Activation,
) {
    let (direct, transformed) = operands.w.split_at(packed_blocks_len(&geometry.conv));
    if geometry.transforms() {
        winograd_nchwc(ConvOperands { w: transformed, ..operands }, y, scratch, geometry.conv, f);
    } else {
        conv_nchwc(ConvOperands { w: direct, ..operands }, y, scratch, geometry.conv, f);
    }
}
