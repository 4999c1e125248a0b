//! Int8 convolutions of NHWC images with all channels: for each panel of filters, a few pixels at a
//! time.

use super::operands::ConvOperands;
use super::pairs::ByPairs;
#[cfg(x86_avx512)]
use super::tiles::ByTiles;
use super::windows::{Places, Windows};
use super::{BLOCK, QUAD, pixel_len};
use crate::kernels::conv::Conv;
use crate::kernels::quantized::Int8Operands;
use crate::kernels::quantized::{Blend, Channels, Limits, Requantize, add_to, join, split_aligned};
use crate::microkernel::int8_conv::{Int8Windows, each_window};
use crate::simd::Simd;
use crate::simd::int8::{Byte, Bytes, MAX_BYTES, Quads, Vector, WithBytes, dispatch_bytes};
use crate::threads::{self, MaybeSync, Scratch};

/// The number of quads of a window from which it pays to widen them once for a panel of filters.
const DEEP: usize = 16;
/// The number of filters of a panel from which it pays.
const WIDE: usize = 32;

/// The number of filters is padded to a multiple of this.
const GROUP: usize = 16;

/// Returns the number of quads of a window.
const fn quads(geometry: &Conv<'_>) -> usize {
    let windows = Windows::of(geometry, pixel_len(geometry.channels));
    windows.runs() * windows.run().div_ceil(QUAD)
}

/// Returns the number of offsets of quads that the convolution needs as scratch memory.
pub const fn conv_starts(geometry: &Conv<'_>) -> usize {
    quads(geometry)
}

/// Returns the number of bytes of scratch memory that the convolution needs.
pub const fn conv_scratch(geometry: &Conv<'_>) -> usize {
    let copy = Windows::of(geometry, pixel_len(geometry.channels)).copy_len();
    copy + quads(geometry) * size_of::<Quads>() + 2 * MAX_BYTES
}

/// Returns the number of bytes that [`pack_weights`] writes.
pub const fn packed_weights_len(geometry: &Conv<'_>) -> usize {
    geometry.filters.next_multiple_of(GROUP) * quads(geometry) * QUAD
}

/// Packs weights `[filters, channels, kernel…]` in panels of 64 filters; the last panel may have
/// fewer. A panel has, for each quad of a window, four bytes of each filter. Bytes that pad the
/// last quad of a run of adjacent bytes are zero.
pub fn pack_weights<T: Copy + Default>(w: &[T], y: &mut [T], geometry: &Conv<'_>) {
    let windows = Windows::of(geometry, pixel_len(geometry.channels));
    let (quads, run) = (quads(geometry), windows.run().next_multiple_of(QUAD));
    let taps: usize = windows.kernel().iter().product();
    let (run_taps, pixel) = (windows.run_taps().max(1), pixel_len(geometry.channels));
    let filters = geometry.filters.next_multiple_of(GROUP);
    y.fill(T::default());
    for (filter, w) in w.chunks_exact((geometry.channels * taps).max(1)).enumerate() {
        let panel = filter / BLOCK * BLOCK;
        let width = BLOCK.min(filters - panel);
        for (at, &w) in w.iter().enumerate() {
            let (tap, channel) = (at % taps, at / taps);
            let at = tap / run_taps * run + tap % run_taps * pixel + channel;
            let quad = (panel * quads + at / QUAD * width + filter - panel) * QUAD;
            y[quad + at % QUAD] = w;
        }
    }
}

/// Computes `y = w ∗ (x - x_zero)`, requantized. The weights are packed by [`pack_weights`] and
/// have no zero point. The parameters of the channels are padded to a multiple of 16, and `x_zero`
/// times the sum of the weights is already subtracted from the biases.
#[inline(never)]
pub fn int8_conv_nhwc(
    operands: Int8Operands<'_, u8>,
    y: &mut [u8],
    starts: &mut [u32],
    scratch: &mut [u8],
    geometry: Conv<'_>,
    to: Requantize,
) {
    let Int8Operands { x, w, bias, factor, offset } = operands;
    let operands = Operands { x, w, channels: Channels::new(bias, factor, offset), to };
    convolve(operands, y, starts, scratch, geometry, usize::MAX, |_, _| {});
}

/// The operands of a quantized convolution and of the addition that follows it.
#[derive(Clone, Copy, Debug)]
pub struct Int8AddOperands<'a> {
    /// The input.
    pub x: &'a [u8],
    /// The weights, which have no zero point.
    pub w: &'a [i8],
    /// The initial accumulator of each channel.
    pub bias: &'a [i32],
    /// The scale of each accumulator.
    pub factor: &'a [f32],
    /// Added to the scaled accumulators.
    pub offset: Option<&'a [f32]>,
    /// The other operand of the addition, with the shape of the output.
    pub addend: &'a [u8],
}

/// The scratch memory of a quantized convolution.
#[derive(Debug)]
pub struct Int8Scratch<'a> {
    /// The offset of each tap.
    pub starts: &'a mut [u32],
    /// The padded input.
    pub scratch: &'a mut [u8],
}

/// The number of bytes of a result that stay in the second-level cache with as many others.
const NEAR: usize = 256 << 10;

/// Computes [`int8_conv_nhwc`] and adds `addend`, which has the shape of the result, a few pixels
/// at a time, as [`add`](crate::kernels::quantized::add) does.
#[inline(never)]
pub fn int8_conv_add_nhwc(
    operands: Int8AddOperands<'_>,
    y: &mut [u8],
    memory: Int8Scratch<'_>,
    geometry: Conv<'_>,
    to: Requantize,
    of: Blend,
    sum: Requantize,
) {
    let Int8Scratch { starts, scratch } = memory;
    let Int8AddOperands { x, w, bias, factor, offset, addend } = operands;
    let operands = Operands { x, w, channels: Channels::new(bias, factor, offset), to };
    convolve(operands, y, starts, scratch, geometry, NEAR, |at, y: &mut [u8]| {
        add_to(y, &addend[at..], of, sum);
    });
}

/// The operands of a convolution, and the requantization of its accumulators.
struct Operands<'a> {
    x: &'a [u8],
    w: &'a [i8],
    channels: Channels<'a>,
    to: Requantize,
}

/// Computes the convolution and calls `then` with the bytes of some pixels, not many more than
/// `most`, and their range in the result.
#[inline(always)]
fn convolve(
    Operands { x, w, channels, to }: Operands<'_>,
    y: &mut [u8],
    starts: &mut [u32],
    scratch: &mut [u8],
    geometry: Conv<'_>,
    most: usize,
    then: impl Fn(usize, &mut [u8]) + MaybeSync,
) {
    let windows = Windows::of(&geometry, pixel_len(geometry.channels));
    let (image, pixel) = (windows.image(), pixel_len(geometry.filters));
    if y.is_empty() {
        return;
    }
    fill_starts(&windows, starts);
    let (copy, scratch) = split_aligned(scratch, windows.copy_len());
    let scratch = Scratch::new(scratch);
    let len = windows.places() * pixel;
    let few = (most / pixel).max(1);
    for (i, y) in y.chunks_exact_mut(len).enumerate() {
        let all = ConvOperands {
            x: windows.seen(&x[i * image..][..image], to.x_zero as u8, copy),
            w: i8::bits(w),
            starts,
            channels,
            windows,
            filters: geometry.filters,
            to,
        };
        let cost = y.len() * starts.len() / (threads::MACS_PER_ELEMENT / 2);
        threads::share(y, pixel, cost, |first, y| {
            scratch.with(|scratch| {
                for (j, y) in y.chunks_mut(few.saturating_mul(pixel)).enumerate() {
                    let first = first + j * few;
                    dispatch_bytes(Part { of: &all, first, y, scratch });
                    then(i * len + first * pixel, y);
                }
            });
        });
    }
}

/// Writes the offsets of the quads of a window.
fn fill_starts(windows: &Windows, starts: &mut [u32]) {
    let (quads, taps) = (windows.run().div_ceil(QUAD), windows.run_taps().max(1));
    let firsts = windows.taps().step_by(taps);
    for (starts, tap) in starts.chunks_exact_mut(quads.max(1)).zip(firsts) {
        let tap = windows.tap(tap);
        starts.iter_mut().enumerate().for_each(|(q, start)| *start = (tap + q * QUAD) as u32);
    }
}

/// Some pixels of the output.
struct Part<'a> {
    of: &'a ConvOperands<'a>,
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
        #[cfg(x86_avx512)]
        if S::TILES && of.has_tiles(y) {
            return s.run(ByTiles { of, first, y });
        }
        let filters = of.filters.next_multiple_of(GROUP);
        let quads = of.starts.len() * QUAD;
        for panel in (0..filters).step_by(BLOCK) {
            let width = BLOCK.min(filters - panel);
            let w = &of.w[panel * quads..][..width * quads];
            let windows = &Int8Windows::new(of.x, of.starts, w, width);
            let y = &mut *y;
            if S::PAIRS && of.starts.len() >= DEEP && width >= WIDE {
                s.run(ByPairs { of, windows, panel, width, first, y });
            } else {
                run_panel(s, of, windows, [panel, width], (first, y));
            }
        }
    }
}

/// Computes the pixels from `first` on for the `width` filters of a panel.
#[inline(always)]
fn run_panel<S: Bytes>(
    s: S,
    of: &ConvOperands<'_>,
    windows: &Int8Windows<'_>,
    [panel, width]: [usize; 2],
    (first, y): (usize, &mut [u8]),
) {
    let mut column = 0;
    while column < width {
        let vectors = ((width - column) / S::LANES).clamp(1, 4);
        let (filter, y) = (panel + column, &mut *y);
        match vectors {
            4 => s.run(Pixels::<4> { of, windows, column, filter, first, y }),
            3 => s.run(Pixels::<3> { of, windows, column, filter, first, y }),
            2 => s.run(Pixels::<2> { of, windows, column, filter, first, y }),
            _ => s.run(Pixels::<1> { of, windows, column, filter, first, y }),
        }
        column += vectors * S::LANES;
    }
}

/// All pixels of `V` vectors of filters of a panel.
struct Pixels<'a, const V: usize> {
    of: &'a ConvOperands<'a>,
    windows: &'a Int8Windows<'a>,
    /// The index of the first filter in the panel.
    column: usize,
    /// The index of the first filter.
    filter: usize,
    /// The first pixel.
    first: usize,
    y: &'a mut [u8],
}

impl<const V: usize> WithBytes for Pixels<'_, V> {
    /// Computes the pixels, a few at a time.
    #[inline(always)]
    fn run<S: Bytes>(self, s: S) {
        let Pixels { of, windows, column, filter, first, y } = self;
        let at = Columns { of, windows, column, filter, limits: Limits::new(s, of.to, 0) };
        let pixel = pixel_len(of.filters);
        let places = &mut of.windows.from(first);
        let mut rest = y;
        while !rest.is_empty() {
            let rows = rows::<S>(V, rest.len() / pixel);
            let (y, after) = rest.split_at_mut(rows * pixel);
            match rows {
                12 if V == 1 && S::LANES == 16 => at.tile::<12, 1>(s, places, y),
                6 if S::LANES == 16 => at.tile::<6, V>(s, places, y),
                5 if S::LANES == 16 => at.tile::<5, V>(s, places, y),
                4 if S::LANES == 16 => at.tile::<4, V>(s, places, y),
                3 if S::LANES == 16 => at.tile::<3, V>(s, places, y),
                2 if S::ROWS >= 2 => at.tile::<2, V>(s, places, y),
                _ => at.tile::<1, V>(s, places, y),
            }
            rest = after;
        }
    }
}

/// Some vectors of filters of a panel.
pub(super) struct Columns<'a, S: Bytes> {
    pub of: &'a ConvOperands<'a>,
    pub windows: &'a Int8Windows<'a>,
    /// The index of the first filter in the panel.
    pub column: usize,
    /// The index of the first filter.
    pub filter: usize,
    pub limits: Limits<S>,
}

impl<S: Bytes> Columns<'_, S> {
    /// Computes `R` pixels.
    #[inline(always)]
    fn tile<const R: usize, const V: usize>(&self, s: S, places: &mut Places, y: &mut [u8]) {
        let at = places.take();
        let bias = &self.of.channels.bias[self.filter..];
        let sums = self.windows.tile::<S, R, V>(s, at, self.column, bias);
        self.finish(s, &sums, y);
    }

    /// Requantizes and stores the accumulators of `R` pixels.
    #[inline(always)]
    pub fn finish<const R: usize, const V: usize>(
        &self,
        s: S,
        sums: &[[Vector<S>; V]; R],
        y: &mut [u8],
    ) {
        let pixel = pixel_len(self.of.filters);
        let channels = &self.of.channels;
        if let Some(rows) = channels.rows(s, self.limits, sums, self.filter) {
            return match V {
                // The bytes of adjacent pixels without gaps are stored together.
                1 if pixel == V * S::LANES => self.store::<R, V, 4>(s, &rows, y),
                2 if pixel == V * S::LANES => self.store::<R, V, 2>(s, &rows, y),
                _ => self.store::<R, V, 1>(s, &rows, y),
            };
        }
        let n = (pixel - self.filter).min(V * S::LANES);
        let mut store =
            |r: usize, bytes| s.store_bytes(bytes, &mut y[r * pixel + self.filter..][..n]);
        let at = |v| self.filter + v * S::LANES;
        let mut r = 0;
        each_window(s, sums, |sums| {
            let bytes = channels.bytes(s, self.limits, sums, at);
            store(r, self.limits.capped(s, join(s, bytes)));
            r += 1;
        });
    }

    /// Stores the bytes of some pixels, those of `T` pixels together.
    #[inline(always)]
    fn store<const R: usize, const V: usize, const T: usize>(
        &self,
        s: S,
        rows: &[[Vector<S>; V]; R],
        y: &mut [u8],
    ) {
        let pixel = pixel_len(self.of.filters);
        let n = (pixel - self.filter).min(V * S::LANES);
        for (i, rows) in rows.chunks(T).enumerate() {
            let mut bytes = [s.level().splat_i32(0); 4];
            for (to, &byte) in bytes.iter_mut().zip(rows.as_flattened()) {
                *to = byte;
            }
            let bytes = self.limits.capped(s, s.join(bytes));
            s.store_bytes(bytes, &mut y[i * T * pixel + self.filter..][..rows.len() * n]);
        }
    }
}

/// Returns how many of the pixels left a tile computes: as many as the registers hold, or fewer if
/// that avoids a small last tile.
#[inline(always)]
fn rows<S: Bytes>(vectors: usize, left: usize) -> usize {
    let most = match (S::LANES, vectors) {
        (16, 1) if left >= 12 => return 12,
        (16, _) => 6,
        _ => S::ROWS,
    };
    left.div_ceil(left.div_ceil(most))
}
