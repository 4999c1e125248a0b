//! The operands of the convolutions, as each thread reads them.

use super::QUAD;
use super::windows::Windows;
use crate::kernels::quantized::{Channels, Requantize};

/// The operands of a convolution of one image.
pub(super) struct ConvOperands<'a> {
    /// What the windows see.
    pub x: &'a [u8],
    pub w: &'a [u8],
    pub starts: &'a [u32],
    pub channels: Channels<'a>,
    pub windows: Windows,
    pub filters: usize,
    pub to: Requantize,
}

/// The operands of a depthwise convolution of one image.
pub(super) struct DepthwiseOperands<'a> {
    /// The image; where no vectors are, what the windows see.
    pub x: &'a [u8],
    pub w: &'a [u8],
    /// Where the elements of a window are, in pixels of a band; where no vectors are, in bytes of `x`.
    pub starts: &'a [[u32; QUAD]],
    pub channels: Channels<'a>,
    pub windows: Windows,
    /// Bytes of a pixel.
    pub pixel: usize,
    pub to: Requantize,
}
