//! Images of bytes whose channels stand side by side: `[batch, size…, channels]`, where the
//! channels of a pixel are filled up to a multiple of four with bytes that mean nothing, unless there
//! are only one to three. Bytes have no sign here: those that had one have moved by 128, and so has
//! their zero point.
//!
//! What a convolution multiplies with four neighboring weights lies in one piece as it is, so that
//! nothing is laid out anew; only where windows reach over the border of the image is it copied,
//! with its padding.

mod band;
mod conv;
mod depthwise;
mod moves;
mod operands;
mod pool;
mod scalar;
#[cfg(all(test, feature = "std"))]
mod tests;
#[cfg(target_arch = "x86_64")]
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

/// How many bytes a pixel of so many channels has. One to three are not filled up: rows of their
/// pixels are quads as they are.
pub const fn pixel_len(channels: usize) -> usize {
    if channels < QUAD { channels } else { channels.next_multiple_of(QUAD) }
}

/// So many neighboring bytes are multiplied at once.
const QUAD: usize = 4;

/// Channels come in blocks of so many: those that four vectors of sums hold at the widest level.
pub const BLOCK: usize = 64;

/// The most axes that an image may have.
pub const MOST_AXES: usize = 3;
