//! Conversions between NCHW and NCHWc.

use super::Channels;
use crate::loops::geometry::BLOCK;
use crate::microkernel::{Block, Unblock};
use crate::simd::dispatch;
use crate::threads::{By, Share};

/// The number of pixels by which images are cut for threads.
const PIXELS: usize = 16;

/// Converts `x` from NCHW to NCHWc.
#[inline(never)]
pub fn block(x: &[f32], y: &mut [f32], geometry: Channels) {
    let (pixels, cost) = (geometry.pixels, y.len());
    if pixels == 1 && geometry.channels > 0 {
        return block_pixels(x, y, geometry);
    }
    Share::of(y, pixels * BLOCK).hand_out(PIXELS * BLOCK, By::Rows, cost, |mut piece| {
        let first = piece.rows.start * PIXELS;
        for (i, index) in piece.planes.enumerate() {
            let (start, channels) = geometry.block(index);
            let x = &x[start..][..channels * pixels][first..];
            dispatch(Block { x, apart: pixels, channels, y: piece.y.plane(i) });
        }
    });
}

/// Converts `x` from NCHWc to NCHW.
#[inline(never)]
pub fn unblock(x: &[f32], y: &mut [f32], geometry: Channels) {
    let (pixels, cost) = (geometry.pixels, y.len());
    match pixels {
        0 => return,
        1 if geometry.channels > 0 => return unblock_pixels(x, y, geometry),
        _ => {}
    }
    Share::of(y, pixels).hand_out(PIXELS, By::OnlyRows, cost, |mut piece| {
        let first = piece.rows.start * PIXELS;
        for (index, x) in x.chunks_exact(pixels * BLOCK).enumerate() {
            let (start, channels) = geometry.block(index);
            let x = &x[first * BLOCK..][..piece.y.len() * BLOCK];
            dispatch(Unblock { x, channels, first: start / pixels, y: &mut piece.y });
        }
    });
}

/// Converts images of one pixel, whose channels have the same order in both layouts.
fn block_pixels(x: &[f32], y: &mut [f32], geometry: Channels) {
    let images = y.chunks_exact_mut(geometry.blocks() * BLOCK);
    for (y, x) in images.zip(x.chunks_exact(geometry.channels)) {
        let (channels, missing) = y.split_at_mut(geometry.channels);
        channels.copy_from_slice(x);
        missing.fill(0.0);
    }
}

/// Inverts [`block_pixels`].
fn unblock_pixels(x: &[f32], y: &mut [f32], geometry: Channels) {
    let images = x.chunks_exact(geometry.blocks() * BLOCK);
    for (x, y) in images.zip(y.chunks_exact_mut(geometry.channels)) {
        y.copy_from_slice(&x[..geometry.channels]);
    }
}

#[cfg(all(test, feature = "std"))]
mod tests {
    use super::*;
    use crate::simd::each_level;
    use std::{vec, vec::Vec};

    #[test]
    fn unblock_inverts_block() {
        each_level(|level| {
            for (batch, channels, pixels) in [
                (1, 16, 16),
                (2, 5, 3),
                (1, 40, 33),
                (2, 19, 17),
                (1, 9, 1),
                (3, 37, 1),
                (1, 3, 0),
                (1, 0, 1),
            ] {
                let geometry = Channels { batch, channels, pixels };
                let x: Vec<f32> = (0..batch * channels * pixels).map(|i| i as f32).collect();
                let blocks = channels.div_ceil(BLOCK);
                let mut blocked = vec![f32::NAN; batch * blocks * pixels * BLOCK];
                block(&x, &mut blocked, geometry);
                for (at, &number) in blocked.iter().enumerate() {
                    let (image, pixel) = (at / (pixels * BLOCK) / blocks, at / BLOCK % pixels);
                    let channel = at / (pixels * BLOCK) % blocks * BLOCK + at % BLOCK;
                    let truth = match channel < channels {
                        true => x[(image * channels + channel) * pixels + pixel],
                        false => 0.0,
                    };
                    assert_eq!(number, truth, "{level:?}: element {at} of {geometry:?}");
                }
                let mut y = vec![f32::NAN; x.len()];
                unblock(&blocked, &mut y, geometry);
                assert_eq!(x, y, "{level:?} {geometry:?}");
            }
        });
    }
}
