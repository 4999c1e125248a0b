//! Convolutions of NCHW images with a column stride of 2, with weights in `bfloat16` pairs of two
//! neighboring columns. Two columns of the input are rounded to one column of pairs, and a
//! convolution of half as many columns follows.

use super::{Conv, ConvOperands, Groups, LARGE, Plane, Unit, convolve};
use crate::microkernel::FusedActivation;
use crate::simd::bf16_pair::PAIR;

/// Returns the scratch memory of [`im2col_nchwc`], in elements.
pub(crate) const fn im2col_nchwc_scratch(geometry: &Conv<'_>) -> usize {
    let halves = Halves::of(geometry);
    Plane::of(&halves.conv(geometry), geometry.channels, Unit::pairs(PAIR), LARGE).scratch()
}

/// The sizes of the convolution of pairs that differ from the original.
struct Halves {
    size: [usize; 2],
    kernel: [usize; 2],
    strides: [usize; 2],
    pads: [usize; 2],
}

impl Halves {
    const fn of(conv: &Conv<'_>) -> Halves {
        assert!(conv.size.len() == 2 && conv.strides[1] == PAIR && conv.dilations[1] == 1);
        assert!(conv.size[1].is_multiple_of(PAIR) && conv.kernel[1].is_multiple_of(PAIR));
        assert!(conv.pads[1].is_multiple_of(PAIR));
        Halves {
            size: [conv.size[0], conv.size[1] / PAIR],
            kernel: [conv.kernel[0], conv.kernel[1] / PAIR],
            strides: [conv.strides[0], 1],
            pads: [conv.pads[0], conv.pads[1] / PAIR],
        }
    }

    const fn conv<'a>(&'a self, of: &Conv<'a>) -> Conv<'a> {
        Conv {
            size: &self.size,
            kernel: &self.kernel,
            strides: &self.strides,
            pads: &self.pads,
            ..*of
        }
    }
}

/// Computes [`conv_nchw_to_nchwc`](super::conv_nchw_to_nchwc) with a column stride of 2. The
/// weights have the same packing, in pairs of two neighboring columns. The columns of the image, of
/// the window and of the padding before it are even numbers.
#[inline(never)]
pub(crate) fn im2col_nchwc(
    operands: ConvOperands<'_, f32>,
    y: &mut [f32],
    scratch: &mut [f32],
    geometry: &Conv<'_>,
    f: FusedActivation<f32>,
) {
    let halves = Halves::of(geometry);
    let groups = Groups::of(&halves.conv(geometry), 1);
    convolve::<1, true>(operands, y, scratch, &groups, f);
}
