//! Int8 depthwise convolutions of NHWC images: multiplies four elements of a column of the kernel
//! at once, for as many channels as four vectors of accumulators hold.

use super::band::Band;
use super::operands::DepthwiseOperands;
use super::windows::Windows;
use super::{BLOCK, MAX_AXES, QUAD, pixel_len};
use crate::kernels::conv::Conv;
use crate::kernels::quantized::Int8Operands;
use crate::kernels::quantized::{Channels, Limits, Requantize, Steady, split_aligned};
use crate::microkernel::int8_depthwise::{Lanes, SHARED};
use crate::simd::Simd;
use crate::simd::int8::{
    Byte, Bytes, MAX_BYTES, TAP_BYTES, Vector, WithBytes, dispatch_bytes, is_scalar,
};
use crate::threads::{self, Scratch};

/// Returns the number of quads of a window; the quads of each column of the kernel are whole.
const fn quads(geometry: &Conv<'_>) -> usize {
    let (mut columns, rank) = (1, geometry.kernel.len());
    let mut axis = 0;
    while axis < rank {
        let size = geometry.kernel[axis];
        columns *= if axis + 2 == rank { size.div_ceil(QUAD) } else { size };
        axis += 1;
    }
    columns
}

/// Returns the number of offsets of taps that the convolution needs as scratch memory.
pub const fn depthwise_starts(geometry: &Conv<'_>) -> usize {
    quads(geometry) * QUAD
}

/// Returns the number of bytes of scratch memory that the convolution needs.
pub const fn depthwise_scratch(geometry: &Conv<'_>) -> usize {
    let pixel = pixel_len(geometry.groups);
    let windows = Windows::of(geometry, pixel);
    let scalar = windows.copy_len() + windows.runs() * windows.run_taps() * TAP_BYTES;
    let most = if pixel < BLOCK { pixel } else { BLOCK };
    let few = if pixel.is_multiple_of(BLOCK) { 0 } else { quads(geometry) * QUAD * BLOCK };
    let wide = Band::of(&windows, most).len(most) + few;
    if scalar < wide { wide + 2 * MAX_BYTES } else { scalar + 2 * MAX_BYTES }
}

/// Returns the number of bytes that [`pack_depthwise_weights`] writes.
pub const fn packed_depthwise_weights_len(geometry: &Conv<'_>) -> usize {
    geometry.groups.next_multiple_of(BLOCK) * quads(geometry) * QUAD
}

/// Returns the channel of a block whose accumulator is at `place`.
pub const fn depthwise_order(place: usize) -> usize {
    place / 4 % 4 * 16 + place / 16 * 4 + place % 4
}

/// Returns the place of the accumulator of a channel of a block; the inverse of
/// [`depthwise_order`].
pub(super) const fn depthwise_place(channel: usize) -> usize {
    channel % 16 / 4 * 16 + channel / 16 * 4 + channel % 4
}

/// Calls `f` with each element of the kernel and its place in the quads of a window: column by
/// column, each padded to whole quads.
pub(super) fn each_tap(kernel: [usize; MAX_AXES], mut f: impl FnMut([usize; MAX_AXES], usize)) {
    let [depth, rows, columns] = kernel;
    let mut quad = 0;
    for i in 0..depth {
        for k in 0..columns {
            (0..rows).for_each(|j| f([i, j, k], quad * QUAD + j));
            quad += rows.div_ceil(QUAD);
        }
    }
}

/// Packs weights `[channels, 1, kernel…]`: for each block of channels and each quad, four bytes of
/// each channel, in the order of [`depthwise_order`].
pub fn pack_depthwise_weights<T: Copy + Default>(w: &[T], y: &mut [T], geometry: &Conv<'_>) {
    let kernel = Windows::of(geometry, QUAD).kernel();
    let [_, rows, columns] = kernel;
    let (taps, block) = (kernel.iter().product::<usize>(), quads(geometry) * QUAD * BLOCK);
    y.fill(T::default());
    for (i, y) in y.chunks_exact_mut(block.max(1)).enumerate() {
        for place in 0..BLOCK {
            let channel = i * BLOCK + depthwise_order(place);
            let Some(w) = w.get(channel * taps..).filter(|w| w.len() >= taps) else { continue };
            each_tap(kernel, |[i, j, k], at| {
                let quad = at / QUAD * BLOCK + place;
                y[quad * QUAD + at % QUAD] = w[(i * rows + j) * columns + k];
            });
        }
    }
}

/// Computes `y = w ∗ (x - x_zero)` for each of more than three channels, requantized. The weights
/// are packed by [`pack_depthwise_weights`]. The parameters of the channels are in the order of
/// [`depthwise_order`], block by block, and `x_zero` times the sum of the weights is already
/// subtracted from the biases.
#[inline(never)]
pub fn int8_depthwise_nhwc(
    operands: Int8Operands<'_, u8>,
    y: &mut [u8],
    starts: &mut [u32],
    scratch: &mut [u8],
    geometry: Conv<'_>,
    to: Requantize,
) {
    let Int8Operands { x, w, bias, factor, offset } = operands;
    let pixel = pixel_len(geometry.groups);
    let windows = Windows::of(&geometry, pixel);
    let image = windows.image();
    if y.is_empty() {
        return;
    }
    let is_scalar = is_scalar();
    let band = Band::of(&windows, pixel.min(BLOCK));
    // Taps that pad a quad are multiplied by zeros.
    starts.fill(0);
    each_tap(windows.kernel(), |tap, at| {
        starts[at] = if is_scalar { windows.tap(tap) } else { band.tap(tap) } as u32;
    });
    let (starts, _) = starts.as_chunks();
    let (copy, scratch) = split_aligned(scratch, if is_scalar { windows.copy_len() } else { 0 });
    let scratch = Scratch::new(scratch);
    for (i, y) in y.chunks_exact_mut(windows.places() * pixel).enumerate() {
        let image = &x[i * image..][..image];
        let all = DepthwiseOperands {
            x: if is_scalar { windows.seen(image, to.x_zero as u8, copy) } else { image },
            w: i8::bits(w),
            starts,
            channels: Channels::new(bias, factor, offset),
            windows,
            pixel,
            to,
        };
        let cost = y.len() * starts.len() / (threads::MACS_PER_ELEMENT / 4);
        let unit = if is_scalar { pixel } else { windows.columns() * pixel };
        threads::share(y, unit, cost, |first, y| {
            scratch.with(|scratch| dispatch_bytes(Part { of: &all, first, y, scratch }));
        });
    }
}

/// Some rows of the output, or some pixels if there are no vectors.
struct Part<'a> {
    of: &'a DepthwiseOperands<'a>,
    first: usize,
    y: &'a mut [u8],
    scratch: &'a mut [u8],
}

impl WithBytes for Part<'_> {
    #[inline(always)]
    fn run<S: Bytes>(self, s: S) {
        let Part { of, first, y, scratch } = self;
        if S::IS_SCALAR {
            return of.run_scalar(first, y, scratch);
        }
        let most = of.pixel.min(BLOCK);
        let band = &Band::of(&of.windows, most);
        let (x, memory) = split_aligned(scratch, band.len(most));
        for channel in (0..of.pixel).step_by(4 * S::LANES) {
            let n = (of.pixel - channel).min(4 * S::LANES);
            let (block, inside) = (channel / BLOCK, channel % BLOCK);
            let channels = of.channels.from(block * BLOCK);
            let at_once = of.windows_at_once(n, 4 * S::LANES);
            let group = Group { of, band, channel, n, at_once, limits: Limits::new(s, of.to, 0) };
            if at_once > 1 {
                let mut numbers = Numbers::default();
                let w = numbers.repeat(of, channels, (channel, n), memory);
                let channels = channels.with(&numbers.bias, &numbers.factor, &numbers.offset);
                group.rows(s, Block { w, channels, inside: 0 }, first, x, y);
            } else {
                group.rows(s, Block { w: of.weights_of(block), channels, inside }, first, x, y);
            }
        }
    }
}

impl DepthwiseOperands<'_> {
    /// Returns the weights of a block of channels.
    fn weights_of(&self, block: usize) -> &[u8] {
        let len = self.starts.len() * QUAD * BLOCK;
        &self.w[block * len..][..len]
    }

    /// Returns the number of adjacent windows of `n` channels that fit `lanes` lanes.
    fn windows_at_once(&self, n: usize, lanes: usize) -> usize {
        let [.., w] = self.windows.axes();
        if w.stride == 1 && lanes.is_multiple_of(n) { lanes / n } else { 1 }
    }

    /// Returns whether a window is three adjacent pixels in each of three rows.
    fn is_shared(&self) -> bool {
        let [d, h, w] = self.windows.axes();
        [d.kernel, h.kernel, w.kernel] == [1, SHARED, SHARED] && w.dilation == 1
    }
}

/// The parameters of a block of channels.
struct Numbers {
    bias: [i32; BLOCK],
    factor: [f32; BLOCK],
    offset: [f32; BLOCK],
}

impl Default for Numbers {
    fn default() -> Numbers {
        Numbers { bias: [0; BLOCK], factor: [0.0; BLOCK], offset: [0.0; BLOCK] }
    }
}

impl Numbers {
    /// Repeats the parameters of `n` channels from one on, and their weights, to fill the vectors.
    fn repeat<'a>(
        &mut self,
        of: &DepthwiseOperands<'_>,
        channels: Channels<'_>,
        (channel, n): (usize, usize),
        memory: &'a mut [u8],
    ) -> &'a [u8] {
        let from = of.weights_of(channel / BLOCK).as_chunks::<QUAD>().0.chunks_exact(BLOCK);
        let memory = &mut memory[..of.starts.len() * BLOCK * QUAD];
        for place in 0..BLOCK {
            let at = depthwise_place(channel % BLOCK + depthwise_order(place) % n);
            (self.bias[place], self.factor[place]) = (channels.bias[at], channels.factor[at]);
            self.offset[place] = channels.offset.get(at).copied().unwrap_or_default();
            let to = memory.as_chunks_mut::<QUAD>().0.chunks_exact_mut(BLOCK);
            to.zip(from.clone()).for_each(|(to, from)| to[place] = from[at]);
        }
        memory
    }
}

/// The weights and parameters of a block of channels.
#[derive(Clone, Copy)]
struct Block<'a> {
    w: &'a [u8],
    channels: Channels<'a>,
    /// The index of the first channel in the block.
    inside: usize,
}

impl Block<'_> {
    /// Returns the index of the first parameter for vector `j` of the accumulators.
    #[inline(always)]
    fn numbers(&self, j: usize) -> usize {
        j * BLOCK / 4 + self.inside / 4
    }

    /// Returns the initial accumulators.
    #[inline(always)]
    fn start<S: Bytes>(&self, s: S) -> [Vector<S>; 4] {
        let mut sums = [s.level().splat_i32(0); 4];
        for (j, sum) in sums.iter_mut().enumerate() {
            *sum = s.load_sums(&self.channels.bias[self.numbers(j)..]);
        }
        sums
    }
}

/// The channels that four vectors of accumulators hold.
struct Group<'a, S: Bytes> {
    of: &'a DepthwiseOperands<'a>,
    band: &'a Band,
    /// The index of the first channel.
    channel: usize,
    /// The number of channels.
    n: usize,
    /// The number of adjacent windows that are computed at once.
    at_once: usize,
    limits: Limits<S>,
}

impl<S: Bytes> Group<'_, S> {
    /// Computes some rows, band by band; `x` is memory for one band.
    #[inline(always)]
    fn rows(&self, s: S, block: Block<'_>, mut row: usize, x: &mut [u8], y: &mut [u8]) {
        let DepthwiseOperands { pixel, starts, windows, .. } = *self.of;
        let band = self.band;
        let (width, rows) = (windows.columns() * pixel, windows.axes()[1].out);
        // Windows that are computed at once start this many pixels after the previous ones.
        let step = self.at_once * windows.axes()[2].stride;
        let shared = S::LANES == 16 && self.of.is_shared() && step <= 2;
        let numbers = |j| block.numbers(j);
        let steady = block.channels.steady(s, self.limits, numbers).filter(|_| shared);
        let mut rest = y;
        while !rest.is_empty() {
            // A band is within one plane.
            let n = band.rows.min(rest.len() / width).min(rows - row % rows);
            let (y, after) = rest.split_at_mut(n * width);
            let channels = (self.channel, self.n);
            band.fill(s, (self.of.x, pixel), channels, (row, n), self.of.to.x_zero as u8, x);
            let weights = (&block.w[block.inside / 4 * QUAD..], BLOCK * QUAD);
            let lanes = Lanes::new((x, self.n), starts, weights);
            for (i, y) in y.chunks_exact_mut(width).enumerate() {
                let at = i * band.step(self.n);
                match &steady {
                    Some(steady) if step == 1 => self.line::<1>(s, &lanes, block, steady, at, y),
                    Some(steady) => self.line::<2>(s, &lanes, block, steady, at, y),
                    None => self.each(s, &lanes, block, at, step, y),
                }
            }
            (rest, row) = (after, row + n);
        }
    }

    /// Computes a row of windows that share inputs.
    #[inline(always)]
    fn line<const STEP: usize>(
        &self,
        s: S,
        lanes: &Lanes<'_>,
        block: Block<'_>,
        steady: &Steady<S, 4>,
        at: usize,
        y: &mut [u8],
    ) {
        let row = self.of.windows.axes()[1].dilation * self.band.line(self.n);
        let mut y = y.chunks_mut(self.at_once * self.of.pixel);
        let start = (block.start(s), y.len());
        lanes.line::<S, STEP>(
            s,
            (at, row),
            start,
            #[inline(always)]
            |sums| {
                let bytes = self.limits.capped(s, s.collect(steady.whole(s, &sums)));
                if let Some(y) = y.next() {
                    self.store(s, bytes, y);
                }
            },
        );
    }

    /// Computes a row of windows, each on its own.
    #[inline(always)]
    fn each(
        &self,
        s: S,
        lanes: &Lanes<'_>,
        block: Block<'_>,
        at: usize,
        step: usize,
        y: &mut [u8],
    ) {
        for (i, y) in y.chunks_mut(self.at_once * self.of.pixel).enumerate() {
            let mut sums = block.start(s);
            lanes.one(s, at + i * step * self.n, &mut sums);
            self.store(s, self.bytes(s, block, sums), y);
        }
    }

    /// Stores the bytes of the windows that are computed at once.
    #[inline(always)]
    fn store(&self, s: S, bytes: Vector<S>, y: &mut [u8]) {
        let (pixel, n) = (self.of.pixel, self.n);
        if pixel == n {
            return s.store_bytes(bytes, y);
        }
        if self.at_once == 1 {
            return s.store_bytes(bytes, &mut y[self.channel..][..n]);
        }
        let mut all = [0; MAX_BYTES];
        s.store_bytes(bytes, &mut all);
        for (y, bytes) in y.chunks_exact_mut(pixel).zip(all.chunks_exact(n)) {
            s.store_bytes(s.load_bytes(bytes), &mut y[self.channel..][..n]);
        }
    }

    /// Requantizes the accumulators.
    #[inline(always)]
    fn bytes(&self, s: S, block: Block<'_>, sums: [Vector<S>; 4]) -> Vector<S> {
        let bytes = block.channels.bytes(s, self.limits, sums, |j| block.numbers(j));
        self.limits.capped(s, s.collect(bytes))
    }
}
