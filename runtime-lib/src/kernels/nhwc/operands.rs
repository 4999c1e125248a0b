//! The operands of the convolutions, as each thread reads them.

use super::QUAD;
use super::windows::Windows;
use crate::kernels::quantized::{Channels, Requantize};

/// The operands of a convolution of one image.
pub(super) struct ConvOperands<'a> {
    /// The padded input of the windows.
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
    /// The image; at a level without vectors, the padded input of the windows.
    pub x: &'a [u8],
    pub w: &'a [u8],
    /// The offset of each element of a window, in pixels of a band; at a level without vectors, in
    /// bytes of `x`.
    pub starts: &'a [[u32; QUAD]],
    pub channels: Channels<'a>,
    pub windows: Windows,
    /// The bytes of a pixel.
    pub pixel: usize,
    pub to: Requantize,
}
