//! The convolutions where no vectors are: each sum in a register of its own.

use super::{BLOCK, QUAD, conv, depthwise, pixel_len};
use crate::quantized::{Channels, Multiplier, Requantize};
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
    /// The pixels from one on, for a few channels after the other.
    #[inline(never)]
    pub(super) fn narrow(&self, first: usize, y: &mut [u8]) {
        for channel in (0..self.pixel).step_by(QUAD) {
            let mut places = self.windows.from(first);
            let group = Group::of(self, channel);
            for y in y.chunks_exact_mut(self.pixel) {
                let sums = group.sums(places.next());
                if let Some(y) = y.get_mut(channel..).and_then(|y| y.first_chunk_mut()) {
                    *y = group.bytes(sums);
                }
            }
        }
    }
}

/// Four neighboring channels.
struct Group<'a> {
    of: &'a depthwise::Work<'a>,
    channel: usize,
    /// The weights of their block, those of its first quad from theirs on.
    weights: &'a [[u8; QUAD]],
    /// Where their numbers start.
    numbers: usize,
    bias: [i32; QUAD],
    factors: [Option<Multiplier>; QUAD],
}

impl<'a> Group<'a> {
    fn of(of: &'a depthwise::Work<'a>, channel: usize) -> Group<'a> {
        let (block, inside) = (channel / BLOCK, channel % BLOCK);
        let place = inside % 16 / QUAD * 16 + inside / 16 * QUAD;
        let numbers = block * BLOCK + place;
        let (weights, _) = of.w.as_chunks::<QUAD>();
        let has_offset = !of.channels.offset.is_empty();
        let factor = |i: usize| Multiplier::of(of.channels.factor[numbers + i]);
        Group {
            of,
            channel,
            weights: &weights[block * of.starts.len() * BLOCK + place..],
            numbers,
            bias: core::array::from_fn(|i| of.channels.bias[numbers + i]),
            factors: core::array::from_fn(|i| if has_offset { None } else { factor(i) }),
        }
    }

    /// The sums of the window at a place.
    #[inline(always)]
    fn sums(&self, at: usize) -> [i32; QUAD] {
        let (mut sums, at) = (self.bias, at + self.channel);
        for (starts, weights) in self.of.starts.iter().zip(self.weights.chunks(BLOCK)) {
            let rows = turn(starts.map(|start| word(self.of.x, at + start as usize)));
            for ((sum, x), w) in sums.iter_mut().zip(rows).zip(weights) {
                let w = Quad::signed(u32::from_ne_bytes(*w));
                *sum = Quad::unsigned(x).add_products(w, *sum);
            }
        }
        sums
    }

    /// What they become.
    #[inline(always)]
    fn bytes(&self, sums: [i32; QUAD]) -> [u8; QUAD] {
        let (to, mut y) = (self.of.to.bounds(), [0; QUAD]);
        for (i, (y, sum)) in y.iter_mut().zip(sums).enumerate() {
            *y = match self.factors[i] {
                Some(factor) => to.byte(factor.scaled(sum)),
                None => any_byte(sum, self.of, self.numbers + i),
            };
        }
        y
    }
}

/// The byte that a sum becomes, whatever the numbers of its channel.
#[inline(never)]
fn any_byte(sum: i32, of: &depthwise::Work<'_>, at: usize) -> u8 {
    let [y] = bytes([sum], &of.channels, at, &of.to);
    y
}
