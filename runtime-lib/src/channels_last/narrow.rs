//! The convolutions where no vectors are: each sum in a register of its own.

use super::{BLOCK, QUAD, conv, depthwise, pixel_len};
use crate::quantized::{Channels, Requantize};
use crate::simd::bytes::{COLUMNS, Quad, Quads, add_products, scale, set, turn};

/// So many filters are summed up at once; a block is a multiple of them.
const ROWS: usize = 16;

/// The word of four bytes that start at a place.
#[inline(always)]
fn word(bytes: &[u8], at: usize) -> u32 {
    let four = bytes.get(at..).and_then(|bytes| bytes.first_chunk());
    four.map_or(0, |four| u32::from_ne_bytes(*four))
}

/// Sums of a channel, whose numbers stand at `at`, as bytes.
#[inline(always)]
fn bytes<const N: usize>(
    sums: [i32; N],
    channels: &Channels<'_>,
    at: usize,
    to: &Requantize,
) -> [u8; N] {
    let (bounds, factor, mut y) = (to.bounds(), channels.factor[at], [0; N]);
    match channels.offset.get(at) {
        None => scale(&sums, factor, bounds, &mut y),
        Some(offset) => {
            for (y, sum) in y.iter_mut().zip(sums) {
                *y = bounds.byte(crate::Float::round(sum as f32 * factor + offset) as i32);
            }
        }
    }
    y
}

impl conv::Work<'_> {
    /// The pixels from one on, a few at a time.
    #[inline(never)]
    pub(super) fn narrow(&self, first: usize, y: &mut [u8], scratch: &mut [u8]) {
        let panel = &mut Quad::memory(scratch)[..self.starts.len()];
        let (mut places, pixel) = (self.windows.from(first), pixel_len(self.filters));
        for y in y.chunks_mut(COLUMNS * pixel) {
            let mut at = [0; COLUMNS];
            at[..y.len() / pixel].iter_mut().for_each(|at| *at = places.next());
            for (quad, &start) in self.starts.iter().enumerate() {
                set(panel, quad, at.map(|at| word(self.x, start as usize + at)));
            }
            self.filters(panel, y, pixel);
        }
    }

    /// What all filters make of some pixels.
    #[inline(always)]
    fn filters(&self, panel: &[Quads], y: &mut [u8], pixel: usize) {
        let (weights, _) = self.w.as_chunks::<QUAD>();
        let all = weights.len().checked_div(panel.len()).unwrap_or(0);
        let mut sums = [[0; COLUMNS]; ROWS];
        for (i, starts) in self.channels.bias[..self.filters].chunks(ROWS).enumerate() {
            let filter = i * ROWS;
            let first = filter / BLOCK * BLOCK;
            let weights = &weights[first * panel.len() + filter - first..];
            add_products(panel, weights, BLOCK.min(all - first), starts, &mut sums);
            for (filter, sums) in (filter..).zip(&sums[..starts.len()]) {
                let bytes = bytes(*sums, &self.channels, filter, &self.to);
                for (y, byte) in y.iter_mut().skip(filter).step_by(pixel).zip(bytes) {
                    *y = byte;
                }
            }
        }
    }
}

impl depthwise::Work<'_> {
    /// The pixels from one on, a few channels at a time.
    #[inline(never)]
    pub(super) fn narrow(&self, first: usize, y: &mut [u8]) {
        let mut places = self.windows.from(first);
        for y in y.chunks_exact_mut(self.pixel) {
            let at = places.next();
            for (i, y) in y.as_chunks_mut::<QUAD>().0.iter_mut().enumerate() {
                *y = self.quad(at + i * QUAD, i * QUAD);
            }
        }
    }

    /// Four channels of a pixel.
    #[inline(always)]
    fn quad(&self, at: usize, channel: usize) -> [u8; QUAD] {
        let (block, inside) = (channel / BLOCK, channel % BLOCK);
        let place = inside % 16 / QUAD * 16 + inside / 16 * QUAD;
        let (weights, _) = self.w.as_chunks::<QUAD>();
        let weights = weights[block * self.starts.len() * BLOCK..].chunks_exact(BLOCK);
        let numbers = block * BLOCK + place;
        let mut sums: [i32; QUAD] = core::array::from_fn(|i| self.channels.bias[numbers + i]);
        for (starts, weights) in self.starts.iter().zip(weights) {
            let rows = turn(starts.map(|start| word(self.x, at + start as usize)));
            for ((sum, x), w) in sums.iter_mut().zip(rows).zip(&weights[place..]) {
                let w = Quad::signed(u32::from_ne_bytes(*w));
                *sum = Quad::unsigned(x).add_products(w, *sum);
            }
        }
        let mut y = [0; QUAD];
        for (i, (y, sum)) in y.iter_mut().zip(sums).enumerate() {
            [*y] = bytes([sum], &self.channels, numbers + i, &self.to);
        }
        y
    }
}
