//! Copies the input of a few rows of the output at a time, for some channels, so that it stays in
//! an L1 cache.

use super::windows::Windows;
use crate::loops::window_axis::Axis;
use crate::simd::int8::{Bytes, MAX_BYTES};

/// The size of a band, in bytes, up to which it has several rows.
const BAND: usize = 48 << 10;

/// The layout of a band: the input of some rows of the output, with padding, for some channels. The
/// inputs of the planes of a kernel follow each other. The methods take the bytes of a pixel.
pub(super) struct Band {
    axes: [Axis; 3],
    /// The largest number of rows of the output.
    pub rows: usize,
}

impl Band {
    /// Returns the band for pixels of at most `pixel` bytes.
    pub const fn of(windows: &Windows, pixel: usize) -> Band {
        let axes = *windows.axes();
        let [d, h, w] = &axes;
        let line = d.kernel * w.extent() * pixel;
        let most = (BAND / if line == 0 { 1 } else { line }).saturating_sub(h.reach() + 1);
        let rows = most / h.stride + 1;
        Band { axes, rows: if rows < h.out { rows } else { h.out } }
    }

    /// Returns the bytes of the band, including a vector that is read from its last pixel on.
    pub const fn len(&self, pixel: usize) -> usize {
        self.axes[0].kernel * self.lines() * self.line(pixel) + MAX_BYTES
    }

    /// Returns the rows of the image for each plane of the kernel.
    const fn lines(&self) -> usize {
        let h = &self.axes[1];
        self.rows.saturating_sub(1) * h.stride + h.reach() + 1
    }

    /// Returns the bytes of a row.
    pub const fn line(&self, pixel: usize) -> usize {
        self.axes[2].extent() * pixel
    }

    /// Returns the distance of the windows of neighboring rows of the output, in bytes.
    pub const fn step(&self, pixel: usize) -> usize {
        self.axes[1].stride * self.line(pixel)
    }

    /// Returns the offset of an element of a window from its first element, in pixels.
    pub const fn tap(&self, [i, j, k]: [usize; 3]) -> usize {
        let [_, h, w] = &self.axes;
        (i * self.lines() + j * h.dilation) * w.extent() + k * w.dilation
    }

    /// Copies the input of `rows` rows of the output, from `row` on among the rows of all planes:
    /// `n` channels from `channel` on of an image whose pixels have `pixel` bytes.
    #[inline(always)]
    pub fn fill<S: Bytes>(
        &self,
        s: S,
        (image, pixel): (&[u8], usize),
        (channel, n): (usize, usize),
        (row, rows): (usize, usize),
        zero: u8,
        to: &mut [u8],
    ) {
        let [d, h, w] = &self.axes;
        let (plane, row) = (row / h.out, row % h.out);
        let before = w.pad.min(w.extent()) * n;
        let lines = (rows - 1) * h.stride + h.reach() + 1;
        for i in 0..d.kernel {
            let to = &mut to[i * self.lines() * self.line(n)..];
            for (l, to) in to.chunks_exact_mut(self.line(n)).take(lines).enumerate() {
                let inside =
                    |at: usize, axis: &Axis| at.checked_sub(axis.pad).filter(|&at| at < axis.size);
                let depth = inside(plane * d.stride + i * d.dilation, d);
                let (Some(depth), Some(line)) = (depth, inside(row * h.stride + l, h)) else {
                    to.fill(zero);
                    continue;
                };
                let from = &image[(depth * h.size + line) * w.size * pixel..][..w.size * pixel];
                let (left, to) = to.split_at_mut(before);
                let (middle, right) = to.split_at_mut((w.size * n).min(to.len()));
                left.fill(zero);
                copy_channels(s, (from, pixel), (channel, n), middle);
                right.fill(zero);
            }
        }
    }
}

/// Copies some channels of pixels, without gaps.
#[inline(always)]
fn copy_channels<S: Bytes>(
    s: S,
    (from, pixel): (&[u8], usize),
    (channel, n): (usize, usize),
    to: &mut [u8],
) {
    if pixel == n {
        return to.copy_from_slice(&from[..to.len()]);
    }
    for (from, to) in from.chunks_exact(pixel).zip(to.chunks_exact_mut(n)) {
        s.store_bytes(s.load_bytes(&from[channel..][..n]), to);
    }
}
