//! NHWC images of bytes: `[batch, size…, channels]`, where the channels of a pixel are padded to a
//! multiple of four with arbitrary bytes, unless there are only one to three. Bytes are unsigned:
//! 128 is added to signed ones and to their zero point.
//!
//! The bytes that a convolution multiplies by four neighboring weights are contiguous in this
//! layout, so nothing is packed. The image is only copied, with its padding, if windows reach over
//! its border.

mod band;
mod conv;
mod depthwise;
mod moves;
mod operands;
mod pairs;
mod pool;
mod scalar;
#[cfg(all(test, feature = "std"))]
mod tests;
#[cfg(x86_avx512)]
mod tiles;
mod windows;

pub use conv::{
    Int8AddOperands, Int8Scratch, conv_scratch, conv_starts, int8_conv_add_nhwc, int8_conv_nhwc,
    pack_weights, packed_weights_len,
};
pub use depthwise::{
    depthwise_order, depthwise_scratch, depthwise_starts, int8_depthwise_nhwc,
    pack_depthwise_weights, packed_depthwise_weights_len,
};
pub use moves::{from_channels_first, to_channels_first};
pub use pool::{average_pool, max_pool};

/// Returns the bytes of a pixel. One to three channels are not padded, because rows of these pixels
/// form quads without padding.
pub const fn pixel_len(channels: usize) -> usize {
    if channels < QUAD { channels } else { channels.next_multiple_of(QUAD) }
}

/// The number of neighboring bytes that are multiplied at once.
const QUAD: usize = 4;

/// The channels of a block: those of four vectors of accumulators at the widest level.
pub const BLOCK: usize = 64;

/// The largest number of axes of an image.
pub const MAX_AXES: usize = 3;
