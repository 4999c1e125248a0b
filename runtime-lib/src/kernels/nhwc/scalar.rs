//! Convolutions at a level without vectors, with accumulators in general-purpose registers.

use super::operands::{ConvOperands, DepthwiseOperands};
use super::{BLOCK, QUAD, depthwise, pixel_len};
use crate::kernels::quantized::{Channels, Requantize};
use crate::simd::int8::{
    CHANNELS, COLUMNS, Factors, Quad, Quads, Tap, Taps, add_products, scale, scale_pixels, set,
};

/// The number of filters that are accumulated at once; it divides a block.
const ROWS: usize = 16;

/// Returns the word of the four bytes from `at` on.
#[inline(always)]
fn word(bytes: &[u8], at: usize) -> u32 {
    let four = bytes.get(at..).and_then(|bytes| bytes.first_chunk());
    four.map_or(0, |four| u32::from_ne_bytes(*four))
}

/// Requantizes accumulators of the channel whose parameters are at index `at`.
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

impl ConvOperands<'_> {
    /// Computes the pixels from `first` on, a few at a time.
    #[inline(never)]
    pub(super) fn run_scalar(&self, first: usize, y: &mut [u8], scratch: &mut [u8]) {
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

    /// Computes all filters of some pixels.
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
            let n = ROWS.min(pixel - filter);
            if self.channels.is_plain() && y.len() == COLUMNS * pixel && n.is_multiple_of(QUAD) {
                let factors = &self.channels.factor[filter..][..n];
                scale_pixels(&sums[..n], factors, self.to.bounds(), &mut y[filter..], pixel);
            } else {
                self.any_pixels(filter, &sums[..starts.len()], y, pixel);
            }
        }
    }

    /// Requantizes a few filters, for any parameters.
    #[inline(never)]
    fn any_pixels(&self, filter: usize, sums: &[[i32; COLUMNS]], y: &mut [u8], pixel: usize) {
        for (filter, sums) in (filter..).zip(sums) {
            let bytes = bytes(*sums, &self.channels, filter, &self.to);
            for (y, byte) in y.iter_mut().skip(filter).step_by(pixel).zip(bytes) {
                *y = byte;
            }
        }
    }
}

impl DepthwiseOperands<'_> {
    /// Computes the pixels from `first` on, a few channels at a time.
    #[inline(never)]
    pub(super) fn run_scalar(&self, first: usize, y: &mut [u8], scratch: &mut [u8]) {
        let n = self.pixel.min(CHANNELS);
        for channel in (0..self.pixel).step_by(CHANNELS) {
            // The last group of channels overlaps the one before.
            let channel = channel.min(self.pixel - n);
            let group = Group::of(self, channel, n, Tap::memory(scratch));
            let mut places = self.windows.from(first);
            for y in y.chunks_exact_mut(self.pixel) {
                let Some(y) = y.get_mut(channel..) else { return };
                let bytes = group.bytes(places.next());
                match y.first_chunk_mut() {
                    Some(y) => *y = bytes,
                    None => y.iter_mut().zip(bytes).for_each(|(y, byte)| *y = byte),
                }
            }
        }
    }

    /// Returns the weights of a block of channels, and the position of a channel's weights in it.
    fn weights(&self, channel: usize) -> (&[[u8; QUAD]], usize) {
        let (block, inside) = (channel / BLOCK, channel % BLOCK);
        let place = depthwise::depthwise_place(inside);
        let (weights, _) = self.w.as_chunks::<QUAD>();
        (&weights[block * self.starts.len() * BLOCK..], place)
    }

    /// Returns the index of a channel's parameters.
    fn number(&self, channel: usize) -> usize {
        channel / BLOCK * BLOCK + self.weights(channel).1
    }
}

/// A few neighboring channels.
struct Group<'a> {
    of: &'a DepthwiseOperands<'a>,
    channel: usize,
    /// The number of channels.
    n: usize,
    taps: Taps<'a>,
    bias: [i32; CHANNELS],
    /// The multipliers of the accumulators, if no channel has an offset.
    factors: Option<Factors>,
}

impl<'a> Group<'a> {
    fn of(
        of: &'a DepthwiseOperands<'a>,
        channel: usize,
        n: usize,
        memory: &'a mut [Tap],
    ) -> Group<'a> {
        let (mut bias, mut factors) = ([0; CHANNELS], [0.0; CHANNELS]);
        for i in 0..n {
            let number = of.number(channel + i);
            (bias[i], factors[i]) = (of.channels.bias[number], of.channels.factor[number]);
        }
        let taps = Group::taps(of, channel, n, memory);
        let factors = if of.channels.offset.is_empty() { Factors::of(factors) } else { None };
        Group { of, channel, n, taps: Taps::new(of.x, taps, n), bias, factors }
    }

    /// Writes and returns the weights, element by element of the kernel.
    fn taps(
        of: &DepthwiseOperands<'_>,
        channel: usize,
        n: usize,
        memory: &'a mut [Tap],
    ) -> &'a [Tap] {
        let mut count = 0;
        depthwise::each_tap(of.windows.kernel(), |_, at| {
            let (quad, i) = (at / QUAD, at % QUAD);
            let mut bytes = [0; CHANNELS];
            for (channel, byte) in (channel..channel + n).zip(&mut bytes) {
                let (weights, place) = of.weights(channel);
                *byte = weights[quad * BLOCK + place][i];
            }
            memory[count] = Tap::new(of.starts[quad][i] + channel as u32, bytes);
            count += 1;
        });
        &memory[..count]
    }

    /// Returns the results of the window at an offset.
    #[inline(always)]
    fn bytes(&self, at: usize) -> [u8; CHANNELS] {
        let mut sums = self.bias;
        self.taps.add_products(at, &mut sums);
        match &self.factors {
            Some(factors) => factors.scale(&sums, self.of.to.bounds()),
            None => self.any_bytes(&sums),
        }
    }

    /// Requantizes the accumulators, for any parameters.
    #[inline(never)]
    fn any_bytes(&self, sums: &[i32; CHANNELS]) -> [u8; CHANNELS] {
        let mut y = [0; CHANNELS];
        for i in 0..self.n {
            let at = self.of.number(self.channel + i);
            [y[i]] = bytes([sums[i]], &self.of.channels, at, &self.of.to);
        }
        y
    }
}
