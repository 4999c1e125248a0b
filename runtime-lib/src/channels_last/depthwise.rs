//! Convolutions of each channel by itself: four elements of a column of the kernel are multiplied
//! at once, for as many channels as four vectors of sums hold.

use super::windows::Windows;
use super::{BLOCK, MOST_AXES, QUAD, pixel_len};
use crate::conv::Conv;
use crate::gemm::channel_bytes::{Lanes, MOST_COLUMNS, SHARED};
use crate::quantized::{Channels, Limits, Requantize, split_aligned};
use crate::simd::Simd;
use crate::simd::bytes::{Byte, Bytes, MAX_BYTES, TAP_BYTES, Vector, WithBytes, dispatch_bytes};
use crate::threads::{self, Scratch};

/// How many quads a window has: those of a column of the kernel are whole.
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

/// How many numbers the convolution wants that say where the elements of a window are.
pub const fn depthwise_starts(geometry: &Conv<'_>) -> usize {
    quads(geometry) * QUAD
}

/// How many bytes of scratch memory the convolution wants.
pub const fn depthwise_scratch(geometry: &Conv<'_>) -> usize {
    let windows = Windows::of(geometry, pixel_len(geometry.groups));
    windows.copy_len() + windows.runs() * windows.run_taps() * TAP_BYTES + 2 * MAX_BYTES
}

/// How many bytes [`pack_depthwise_weights`] writes.
pub const fn packed_depthwise_weights_len(geometry: &Conv<'_>) -> usize {
    geometry.groups.next_multiple_of(BLOCK) * quads(geometry) * QUAD
}

/// Which channel of a block stands at a place of what is in the order of the sums.
pub const fn depthwise_order(place: usize) -> usize {
    place / 4 % 4 * 16 + place / 16 * 4 + place % 4
}

/// Calls `f` with each element of the kernel and its place in the quads of a window: column by
/// column, where the elements of one make whole quads.
pub(super) fn each_tap(kernel: [usize; MOST_AXES], mut f: impl FnMut([usize; MOST_AXES], usize)) {
    let [depth, rows, columns] = kernel;
    let mut quad = 0;
    for i in 0..depth {
        for k in 0..columns {
            (0..rows).for_each(|j| f([i, j, k], quad * QUAD + j));
            quad += rows.div_ceil(QUAD);
        }
    }
}

/// Packs weights `[channels, 1, kernel…]`: for each block of channels and each quad, the four bytes
/// of one channel after those of the other, in the order of [`depthwise_order`].
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

/// `y = w ∗ (x - x_zero)` for each of more than three channels, requantized. The weights are packed by
/// [`pack_depthwise_weights`]; the numbers of the channels are in the order of
/// [`depthwise_order`], block by block, and from the addends `x_zero` times the sum of the weights
/// is taken away already.
#[inline(never)]
#[expect(clippy::too_many_arguments, reason = "each operand on its own")]
pub fn depthwise(
    x: &[u8],
    w: &[i8],
    bias: &[i32],
    factor: &[f32],
    offset: Option<&[f32]>,
    y: &mut [u8],
    starts: &mut [u32],
    scratch: &mut [u8],
    geometry: Conv<'_>,
    to: Requantize,
) {
    let pixel = pixel_len(geometry.groups);
    let windows = Windows::of(&geometry, pixel);
    let image = windows.image();
    if y.is_empty() {
        return;
    }
    // What fills up a quad is multiplied with zeros.
    starts.fill(0);
    each_tap(windows.kernel(), |tap, at| starts[at] = windows.tap(tap) as u32);
    let (starts, _) = starts.as_chunks();
    let (copy, scratch) = split_aligned(scratch, windows.copy_len());
    let scratch = Scratch::new(scratch);
    for (i, y) in y.chunks_exact_mut(windows.places() * pixel).enumerate() {
        let all = Work {
            x: windows.seen(&x[i * image..][..image], to.x_zero as u8, copy),
            w: i8::bits(w),
            starts,
            channels: Channels::new(bias, factor, offset),
            windows,
            pixel,
            to,
        };
        let cost = y.len() * starts.len() / (threads::PRODUCTS / 4);
        threads::share(y, pixel, cost, |first, y| {
            scratch.with(|scratch| dispatch_bytes(Part { of: &all, first, y, scratch }));
        });
    }
}

/// What one image is made of.
pub(super) struct Work<'a> {
    /// What the windows see.
    pub x: &'a [u8],
    pub w: &'a [u8],
    pub starts: &'a [[u32; QUAD]],
    pub channels: Channels<'a>,
    pub windows: Windows,
    /// Bytes of a pixel.
    pub pixel: usize,
    pub to: Requantize,
}

/// Some pixels of the output.
struct Part<'a> {
    of: &'a Work<'a>,
    first: usize,
    y: &'a mut [u8],
    scratch: &'a mut [u8],
}

impl WithBytes for Part<'_> {
    #[inline(always)]
    fn run<S: Bytes>(self, s: S) {
        let Part { of, first, y, scratch } = self;
        if S::NARROW {
            return of.narrow(first, y, scratch);
        }
        let limits = Limits::new(s, of.to, 0);
        for channel in (0..of.pixel).step_by(4 * S::LANES) {
            let n = (of.pixel - channel).min(4 * S::LANES);
            let lanes = Lanes::new(of.x, of.starts, of.w, BLOCK, (channel, n));
            let group = Group { of, lanes, channel, n, limits };
            if n == 4 * S::LANES {
                group.pixels::<true>(s, first, y);
            } else {
                group.pixels::<false>(s, first, y);
            }
        }
    }
}

/// The channels that four vectors of sums hold.
struct Group<'a, S: Bytes> {
    of: &'a Work<'a>,
    lanes: Lanes<'a>,
    /// The first.
    channel: usize,
    /// How many there are.
    n: usize,
    limits: Limits<S>,
}

impl<S: Bytes> Group<'_, S> {
    /// Pixel by pixel. If `WHOLE`, there are as many channels as fit.
    #[inline(always)]
    fn pixels<const WHOLE: bool>(&self, s: S, first: usize, y: &mut [u8]) {
        let Work { windows, pixel, starts, .. } = *self.of;
        let shares = S::LANES == 16
            && starts.len() == SHARED
            && windows.has_near_columns(SHARED)
            && windows.columns() > 1;
        let mut places = windows.from(first);
        let mut rest = y;
        while !rest.is_empty() {
            let left = places.left().min(rest.len() / pixel);
            let columns = if shares { left.min(MOST_COLUMNS) } else { 1 };
            let at = places.next();
            (1..columns).for_each(|_| _ = places.next());
            let (y, after) = rest.split_at_mut(columns * pixel);
            match columns {
                4 => self.columns::<WHOLE, 4>(s, at, y),
                3 => self.columns::<WHOLE, 3>(s, at, y),
                2 => self.columns::<WHOLE, 2>(s, at, y),
                _ => {
                    let mut sums = self.start(s);
                    self.lanes.one::<S, WHOLE>(s, at, &mut sums);
                    self.finish(s, sums, y);
                }
            }
            rest = after;
        }
    }

    /// `T` columns of a row.
    #[inline(always)]
    fn columns<const WHOLE: bool, const T: usize>(&self, s: S, at: usize, y: &mut [u8]) {
        let pixel = self.of.pixel;
        let mut y = y.chunks_exact_mut(pixel);
        self.lanes.columns::<S, WHOLE, T>(s, (at, pixel), self.start(s), |sums| {
            if let Some(y) = y.next() {
                self.finish(s, sums, y);
            }
        });
    }

    /// Where the numbers of vector `j` of the sums start.
    #[inline(always)]
    fn numbers(&self, j: usize) -> usize {
        let (block, lanes) = (self.channel / BLOCK * BLOCK, self.channel % BLOCK / 4);
        block + j * 16 + lanes
    }

    /// The sums before anything is added.
    #[inline(always)]
    fn start(&self, s: S) -> [Vector<S>; 4] {
        let mut sums = [s.level().splat_i32(0); 4];
        for (j, sum) in sums.iter_mut().enumerate() {
            *sum = s.load_sums(&self.of.channels.bias[self.numbers(j)..]);
        }
        sums
    }

    /// Stores what the sums become.
    #[inline(always)]
    fn finish(&self, s: S, sums: [Vector<S>; 4], y: &mut [u8]) {
        let bytes = self.of.channels.bytes(s, self.limits, sums, |j| self.numbers(j));
        s.store_bytes(s.collect(bytes), &mut y[self.channel..][..self.n]);
    }
}
