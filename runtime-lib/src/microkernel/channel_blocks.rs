//! Conversions of pixels between rows of channels and NCHWc, by squares. The last square of a row
//! overlaps the one before it.

use crate::loops::bounds::reach;
use crate::loops::geometry::BLOCK;
use crate::simd::square::{Rows, transpose_at};
use crate::simd::{Simd, WithSimd};
use crate::threads::Share;

/// Converts some pixels to one block of channels; channels that do not exist are zeros.
pub(crate) struct Block<'a> {
    /// The channels, from the first pixel on.
    pub x: &'a [f32],
    /// The distance of two channels, in elements.
    pub apart: usize,
    /// The number of channels, from one to [`BLOCK`].
    pub channels: usize,
    /// The pixels of the block.
    pub y: &'a mut [f32],
}

impl WithSimd for Block<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let Block { x, apart, channels, y } = self;
        let pixels = y.len() / BLOCK;
        if pixels < S::LANES {
            for (pixel, y) in y.chunks_exact_mut(BLOCK).enumerate() {
                y.fill(0.0);
                let x = x[pixel..].iter().step_by(apart);
                y[..channels].iter_mut().zip(x).for_each(|(y, &x)| *y = x);
            }
            return;
        }
        assert!((1..=BLOCK).contains(&channels));
        assert!(reach([[channels - 1, apart], [pixels, 1]]) <= x.len());
        let to = Rows { apart: BLOCK, count: S::LANES };
        for pixel in (0..pixels).step_by(S::LANES).map(|at| at.min(pixels - S::LANES)) {
            for lane in (0..BLOCK).step_by(S::LANES) {
                let from = Rows { apart, count: channels.saturating_sub(lane) };
                let x = x.as_ptr().wrapping_add(lane * apart + pixel);
                let y = y.as_mut_ptr().wrapping_add(pixel * BLOCK + lane);
                // SAFETY: the channels of `x` have the pixels from `pixel` on by the assertion, and
                // `y` has `LANES` pixels from there on, because `pixel` is at most `pixels` less
                // `LANES`.
                unsafe { transpose_at(s, x, from, y, to) }
            }
        }
    }
}

/// Converts some pixels of one block of channels to channels.
pub(crate) struct Unblock<'a, 'y> {
    /// The pixels of the block.
    pub x: &'a [f32],
    /// The number of channels, at most [`BLOCK`].
    pub channels: usize,
    /// The first channel.
    pub first: usize,
    /// The channels, each a plane of as many pixels.
    pub y: &'a mut Share<'y, f32>,
}

impl WithSimd for Unblock<'_, '_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let Unblock { x, channels, first, y } = self;
        let pixels = x.len() / BLOCK;
        if pixels < S::LANES {
            for lane in 0..channels {
                let x = x[lane..].iter().step_by(BLOCK);
                y.plane(first + lane).iter_mut().zip(x).for_each(|(y, &x)| *y = x);
            }
            return;
        }
        assert!(pixels <= y.len() && channels <= BLOCK && first + channels <= y.planes());
        let (apart, from) = (y.apart(), Rows { apart: BLOCK, count: S::LANES });
        for pixel in (0..pixels).step_by(S::LANES).map(|at| at.min(pixels - S::LANES)) {
            for lane in (0..BLOCK).step_by(S::LANES) {
                let to = Rows { apart, count: channels.saturating_sub(lane) };
                let x = x.as_ptr().wrapping_add(pixel * BLOCK + lane);
                let y = y.as_mut_ptr().wrapping_add((first + lane) * apart + pixel);
                // SAFETY: `x` has `LANES` pixels from `pixel` on, because `pixel` is at most
                // `pixels` less `LANES`. The share has the planes and their pixels by the
                // assertion.
                unsafe { transpose_at(s, x, from, y, to) }
            }
        }
    }
}
