//! Conversions to and from NCHWc: `[batch, channels…]` as `[batch, channels / 16, …, 16]`, the
//! layout of the convolutions in blocks. The padding channels of the last block are zeros.

mod channel;
mod convert;

use crate::loops::epilogue::Activation;
pub use crate::loops::geometry::BLOCK;
use crate::microkernel::FusedActivation;
use crate::simd::{Simd, WithSimd, dispatch};
use crate::threads::{By, Share};
pub use channel::{
    blocked_channel_grad, blocked_channel_grad_in_place, blocked_channel_moments,
    blocked_channel_sums, channel_factors,
};
pub use convert::{block, unblock};

/// The geometry of images.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Channels {
    /// The number of images.
    pub batch: usize,
    /// The number of channels.
    pub channels: usize,
    /// The elements of a channel.
    pub pixels: usize,
}

impl Channels {
    fn blocks(&self) -> usize {
        self.channels.div_ceil(BLOCK)
    }

    /// Returns the offset of the first channel of block `index`, counted through all images, and
    /// the number of channels.
    fn block(&self, index: usize) -> (usize, usize) {
        let (image, block) = (index / self.blocks(), index % self.blocks());
        let first = block * BLOCK;
        let start = (image * self.channels + first) * self.pixels;
        (start, BLOCK.min(self.channels - first))
    }
}

/// Shuffles the channels of `x`, in NCHWc, from `groups` groups: takes the first channel of each
/// group, then the second of each, and so on.
#[inline(never)]
pub fn shuffle(x: &[f32], y: &mut [f32], geometry: Channels, groups: usize) {
    let Channels { channels, pixels, .. } = geometry;
    let (len, blocks) = (pixels * BLOCK, geometry.blocks());
    if len == 0 {
        return;
    }
    let images = x.chunks_exact(blocks * len).zip(y.chunks_exact_mut(blocks * len));
    for (x, y) in images {
        for (block, y) in y.chunks_exact_mut(len).enumerate() {
            y.fill(0.0);
            for (lane, channel) in (block * BLOCK..channels).take(BLOCK).enumerate() {
                let from = channel % groups * (channels / groups) + channel / groups;
                let x = x[from / BLOCK * len + from % BLOCK..].iter().step_by(BLOCK);
                y[lane..].iter_mut().step_by(BLOCK).zip(x).for_each(|(y, &x)| *y = x);
            }
        }
    }
}

/// Pads a number for each channel with zeros to whole blocks.
#[inline(never)]
pub fn pad_channels(x: &[f32], y: &mut [f32]) {
    let (numbers, missing) = y.split_at_mut(x.len());
    numbers.copy_from_slice(x);
    missing.fill(0.0);
}

/// Computes `y = f(scale · x + shift)`, with a number for each channel of the blocks. `x` and `y`
/// are NCHWc.
// Inlined, so that a program contains only the activation functions that its models use.
#[inline(always)]
pub fn affine(
    x: &[f32],
    scale: &[f32],
    shift: &[f32],
    y: &mut [f32],
    geometry: Channels,
    f: Activation,
) {
    FusedActivation::within_all(f, y, |y, f| affine_apart(x, [scale, shift], y, geometry, f));
}

#[inline(never)]
fn affine_apart(
    x: &[f32],
    [scale, shift]: [&[f32]; 2],
    y: &mut [f32],
    geometry: Channels,
    f: FusedActivation<f32>,
) {
    let (len, cost) = (geometry.pixels * BLOCK, y.len());
    Share::of(y, len).hand_out(BLOCK, By::Rows, cost, |mut piece| {
        for (i, index) in piece.planes.enumerate() {
            let y = piece.y.plane(i);
            let x = &x[index * len + piece.rows.start * BLOCK..][..y.len()];
            let affine = geometry.affine(index, scale, shift, f);
            dispatch(Apart { x, y, affine });
            affine.finish(y, f);
        }
    });
}

/// Computes `y = f(scale · y + shift)`, with a number for each channel of the blocks. `y` is NCHWc.
// Inlined, so that a program contains only the activation functions that its models use.
#[inline(always)]
pub fn affine_in_place(
    y: &mut [f32],
    scale: &[f32],
    shift: &[f32],
    geometry: Channels,
    f: Activation,
) {
    FusedActivation::within_all(f, y, |y, f| affine_there(y, [scale, shift], geometry, f));
}

#[inline(never)]
fn affine_there(
    y: &mut [f32],
    [scale, shift]: [&[f32]; 2],
    geometry: Channels,
    f: FusedActivation<f32>,
) {
    let (len, cost) = (geometry.pixels * BLOCK, y.len());
    Share::of(y, len).hand_out(BLOCK, By::Rows, cost, |mut piece| {
        for (i, index) in piece.planes.enumerate() {
            let y = piece.y.plane(i);
            let affine = geometry.affine(index, scale, shift, f);
            dispatch(InPlace { y, affine });
            affine.finish(y, f);
        }
    });
}

impl Channels {
    /// Returns the operation on block `index`, counted through all images.
    fn affine<'a>(
        &self,
        index: usize,
        scale: &'a [f32],
        shift: &'a [f32],
        f: FusedActivation<f32>,
    ) -> Affine<'a> {
        let first = index % self.blocks() * BLOCK;
        let (scale, shift) = (&scale[first..][..BLOCK], &shift[first..][..BLOCK]);
        Affine { scale, shift, relu: f.clamp() == Some((0.0, f32::INFINITY)) }
    }
}

/// The operation on a block of an image.
#[derive(Clone, Copy)]
struct Affine<'a> {
    scale: &'a [f32],
    shift: &'a [f32],
    relu: bool,
}

impl Affine<'_> {
    /// Applies the activation, unless it is Relu, which is already applied.
    fn finish(self, y: &mut [f32], f: FusedActivation<f32>) {
        if !self.relu {
            let len = y.len();
            f.apply(y, 1, len, len);
        }
    }

    /// Returns the scales and shifts of the channels from `first` on, and the minimum of the
    /// results.
    #[inline(always)]
    fn numbers<S: Simd>(self, s: S, first: usize) -> [S::F32; 3] {
        let least = s.splat(if self.relu { 0.0 } else { f32::NEG_INFINITY });
        [s.load(&self.scale[first..]), s.load(&self.shift[first..]), least]
    }
}

struct Apart<'a> {
    x: &'a [f32],
    y: &'a mut [f32],
    affine: Affine<'a>,
}

impl WithSimd for Apart<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        for first in (0..BLOCK).step_by(S::LANES) {
            let [scale, shift, least] = self.affine.numbers(s, first);
            let pixels = self.x.chunks_exact(BLOCK).zip(self.y.chunks_exact_mut(BLOCK));
            for (x, y) in pixels {
                let x = s.load(&x[first..][..S::LANES]);
                s.store(s.max(least, s.mul_add(x, scale, shift)), &mut y[first..][..S::LANES]);
            }
        }
    }
}

struct InPlace<'a> {
    y: &'a mut [f32],
    affine: Affine<'a>,
}

impl WithSimd for InPlace<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        for first in (0..BLOCK).step_by(S::LANES) {
            let [scale, shift, least] = self.affine.numbers(s, first);
            for y in self.y.chunks_exact_mut(BLOCK) {
                let y = &mut y[first..][..S::LANES];
                s.store(s.max(least, s.mul_add(s.load(y), scale, shift)), y);
            }
        }
    }
}

#[cfg(all(test, feature = "std"))]
mod tests {
    use super::*;
    use crate::simd::each_level;
    use std::{vec, vec::Vec};

    #[test]
    fn channels_are_shuffled() {
        let geometry = Channels { batch: 2, channels: 34, pixels: 3 };
        let x: Vec<f32> = (0..2 * 34 * 3).map(|i| i as f32).collect();
        let [mut blocks, mut dealt] = [(); 2].map(|()| vec![f32::NAN; 2 * 48 * 3]);
        block(&x, &mut blocks, geometry);
        shuffle(&blocks, &mut dealt, geometry, 2);
        let mut y = vec![f32::NAN; x.len()];
        unblock(&dealt, &mut y, geometry);
        for (at, y) in y.iter().enumerate() {
            let (image, channel, pixel) = (at / 3 / 34, at / 3 % 34, at % 3);
            let from = channel % 2 * 17 + channel / 2;
            assert_eq!(*y, ((image * 34 + from) * 3 + pixel) as f32);
        }
    }

    #[test]
    fn each_channel_has_its_factor_and_shift() {
        let geometry = Channels { batch: 2, channels: 20, pixels: 3 };
        let numbers = |n: usize| (0..n).map(|i| i as f32 - 9.0).collect::<Vec<f32>>();
        let (x, scale, shift) = (numbers(2 * 32 * 3), numbers(32), numbers(32));
        each_level(|level| {
            for f in [Activation::Identity, Activation::Relu, Activation::HardSwish] {
                let mut y = vec![f32::NAN; x.len()];
                affine(&x, &scale, &shift, &mut y, geometry, f);
                for (at, (x, y)) in x.iter().zip(&y).enumerate() {
                    let channel = at / 48 % 2 * BLOCK + at % BLOCK;
                    let truth = f.of(scale[channel] * x + shift[channel]);
                    assert!((y - truth).abs() <= 1e-3, "{level:?} {f:?}: {y} is not {truth}");
                }
            }
        });
    }
}
