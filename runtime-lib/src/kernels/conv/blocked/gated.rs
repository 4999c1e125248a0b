//! NCHWc convolutions of single pixels whose channels are multiplied by a gate first, as in
//! squeeze and excitation ([Hu et al., 2018](https://arxiv.org/abs/1709.01507)).

use super::super::{Conv, ConvOperands, product};
use super::{BLOCK, accumulate_nchwc, conv_nchwc_scratch, packed_blocks_len};
use crate::loops::epilogue::Activation;
use crate::microkernel::FusedActivation;
use crate::simd::{Simd, WithSimd, dispatch};

/// Returns whether fewer products scale the weights than the image.
const fn scales_weights(geometry: &Conv<'_>) -> bool {
    product(geometry.out) > geometry.filters.next_multiple_of(BLOCK)
}

/// The number of elements of an image, padded to whole blocks.
const fn image_len(geometry: &Conv<'_>) -> usize {
    geometry.channels.next_multiple_of(BLOCK) * product(geometry.out)
}

/// Returns the length of the scaled weights or of the scaled image, whichever is shorter.
const fn scaled_len(geometry: &Conv<'_>) -> usize {
    match scales_weights(geometry) {
        true => packed_blocks_len(geometry),
        false => image_len(geometry),
    }
}

/// Returns the best size of the scratch memory of [`gated_conv_nchwc`], in elements. It does not
/// shrink as the image grows.
pub const fn gated_conv_nchwc_scratch(geometry: &Conv<'_>) -> usize {
    let scaled = match scales_weights(geometry) {
        true => {
            geometry.filters.next_multiple_of(BLOCK) * geometry.channels.next_multiple_of(BLOCK)
        }
        false => image_len(geometry),
    };
    scaled + conv_nchwc_scratch(geometry)
}

/// Computes `y = f(w · (gate ⊙ x) + bias + add)` for a window of one pixel, one group and no
/// padding. The weights are packed by [`pack_blocks`](super::pack_blocks). The gate is an image of
/// one pixel, with the blocks of `x`.
///
/// # Panics
///
/// Panics if an operand is shorter than the geometry needs.
#[inline(always)]
pub fn gated_conv_nchwc(
    operands: ConvOperands<'_, f32>,
    gate: &[f32],
    y: &mut [f32],
    scratch: &mut [f32],
    geometry: Conv<'_>,
    f: Activation,
) {
    let compute = |y: &mut [_], f| each_image(operands, gate, y, scratch, &geometry, f);
    FusedActivation::within_all(f, y, compute);
}

#[inline(never)]
fn each_image(
    ConvOperands { x, w, bias, add }: ConvOperands<'_, f32>,
    gate: &[f32],
    y: &mut [f32],
    scratch: &mut [f32],
    geometry: &Conv<'_>,
    f: FusedActivation<f32>,
) {
    let to = geometry.filters.next_multiple_of(BLOCK) * product(geometry.out);
    if to == 0 {
        return;
    }
    let (from, channels) = (image_len(geometry), geometry.channels.next_multiple_of(BLOCK));
    let (scaled, scratch) = scratch.split_at_mut(scaled_len(geometry));
    for (image, y) in y.chunks_exact_mut(to).enumerate() {
        let x = &x[image * from..][..from];
        let gate = &gate[image * channels..][..channels];
        let add = add.map(|add| &add[image * to..][..to]);
        let (x, w) = if scales_weights(geometry) {
            dispatch(ScaledWeights { w, gate: &gate[..geometry.channels], to: &mut *scaled });
            (x, &*scaled)
        } else {
            dispatch(ScaledImage { x, gate, to: &mut *scaled });
            (&*scaled, w)
        };
        accumulate_nchwc(ConvOperands { x, w, bias, add }, y, scratch, geometry, f);
    }
}

/// Multiplies the blocks of images, `[batch, blocks, pixels, BLOCK]`, by a gate, `[batch, blocks,
/// BLOCK]`.
#[inline(never)]
pub fn gate_nchwc(x: &[f32], gate: &[f32], y: &mut [f32]) {
    dispatch(ScaledImage { x, gate, to: y });
}

/// Multiplies the vectors of packed weights, one for each channel, by the gate.
struct ScaledWeights<'a> {
    w: &'a [f32],
    gate: &'a [f32],
    to: &'a mut [f32],
}

impl WithSimd for ScaledWeights<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let each = (self.gate.len() * BLOCK).max(1);
        for (w, to) in self.w.chunks_exact(each).zip(self.to.chunks_exact_mut(each)) {
            let weights = w.chunks_exact(BLOCK).zip(to.chunks_exact_mut(BLOCK));
            for ((w, to), &gate) in weights.zip(self.gate) {
                for lane in (0..BLOCK).step_by(S::LANES) {
                    s.store(s.mul(s.load(&w[lane..]), s.splat(gate)), &mut to[lane..]);
                }
            }
        }
    }
}

/// Multiplies the blocks of an image by those of the gate.
struct ScaledImage<'a> {
    x: &'a [f32],
    gate: &'a [f32],
    to: &'a mut [f32],
}

impl WithSimd for ScaledImage<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let blocks = self.gate.len() / BLOCK;
        let each = (self.x.len() / blocks.max(1)).max(1);
        let planes = self.x.chunks_exact(each).zip(self.to.chunks_exact_mut(each));
        for ((x, to), gate) in planes.zip(self.gate.chunks_exact(BLOCK)) {
            for (x, to) in x.chunks_exact(BLOCK).zip(to.chunks_exact_mut(BLOCK)) {
                for lane in (0..BLOCK).step_by(S::LANES) {
                    let x = s.mul(s.load(&x[lane..]), s.load(&gate[lane..]));
                    s.store(x, &mut to[lane..]);
                }
            }
        }
    }
}
