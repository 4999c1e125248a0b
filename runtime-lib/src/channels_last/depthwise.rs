//! Convolutions of each channel by itself: four elements of a column of the kernel are multiplied
//! at once, for as many channels as four vectors of sums hold.

use super::windows::Windows;
use super::{BLOCK, MOST_AXES, QUAD, pixel_len};
use crate::conv::Conv;
use crate::quantized::{Channels, Limits, Requantize, split_aligned};
use crate::simd::Simd;
use crate::simd::bytes::{Byte, Bytes, MAX_BYTES, Vector, WithBytes, dispatch_bytes};
use crate::threads;
use core::mem::MaybeUninit;

/// The most columns of the output that share what they see.
const MOST_COLUMNS: usize = 4;
/// Columns of the kernels that share.
const SHARED: usize = 3;

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
    Windows::of(geometry, pixel_len(geometry.groups)).copy_len() + MAX_BYTES
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
fn each_tap(kernel: [usize; MOST_AXES], mut f: impl FnMut([usize; MOST_AXES], usize)) {
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

/// `y = w ∗ (x - x_zero)` for each channel, requantized. The weights are packed by
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
    let (copy, _) = split_aligned(scratch, windows.copy_len());
    for (i, y) in y.chunks_exact_mut(windows.places() * pixel).enumerate() {
        let all = Work {
            x: windows.seen(&x[i * image..][..image], to.x_zero as u8, copy),
            w: i8::bits(w),
            starts,
            channels: Channels { bias, factor, offset: offset.unwrap_or(&[]) },
            windows,
            pixel,
            to,
        };
        let cost = y.len() * starts.len() / (threads::PRODUCTS / 4);
        threads::share(y, pixel, cost, |first, y| dispatch_bytes(Part { of: &all, first, y }));
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
}

impl WithBytes for Part<'_> {
    #[inline(always)]
    fn run<S: Bytes>(self, s: S) {
        let Part { of, first, y } = self;
        if S::NARROW {
            return of.narrow(first, y);
        }
        of.check();
        let limits = Limits::new(s, of.to, 0);
        for channel in (0..of.pixel).step_by(4 * S::LANES) {
            let lanes = Lanes { of, channel, n: (of.pixel - channel).min(4 * S::LANES), limits };
            // SAFETY: `check` has passed.
            unsafe {
                if lanes.n == 4 * S::LANES {
                    lanes.pixels::<true>(s, first, y);
                } else {
                    lanes.pixels::<false>(s, first, y);
                }
            }
        }
    }
}

impl Work<'_> {
    /// That all elements of all windows are there.
    fn check(&self) {
        let last = self.starts.as_flattened().iter().max().map_or(0, |&start| start as usize);
        assert!(self.windows.last() + last + self.pixel <= self.x.len());
        let blocks = self.pixel.div_ceil(BLOCK);
        assert!(blocks * self.starts.len() * QUAD * BLOCK <= self.w.len());
    }
}

/// The channels that four vectors of sums hold.
struct Lanes<'a, S: Bytes> {
    of: &'a Work<'a>,
    /// The first.
    channel: usize,
    /// How many there are.
    n: usize,
    limits: Limits<S>,
}

impl<S: Bytes> Lanes<'_, S> {
    /// Pixel by pixel.
    ///
    /// # Safety
    /// [`Work::check`] has passed. If `WHOLE`, there are as many channels as fit.
    #[inline(always)]
    unsafe fn pixels<const WHOLE: bool>(&self, s: S, first: usize, y: &mut [u8]) {
        let Work { windows, pixel, starts, .. } = *self.of;
        let shares = S::LANES == 16
            && starts.len() == SHARED
            && windows.has_near_columns(SHARED)
            && windows.columns() > 1;
        let mut places = windows.from(first);
        let mut y = y;
        while !y.is_empty() {
            let left = places.left().min(y.len() / pixel);
            let columns = if shares { left.min(MOST_COLUMNS) } else { 1 };
            let at = places.next();
            (1..columns).for_each(|_| _ = places.next());
            let (here, rest) = y.split_at_mut(columns * pixel);
            // SAFETY: the caller vouches for the windows, and there are so many columns.
            unsafe {
                match columns {
                    4 => self.columns::<WHOLE, 4>(s, at, here),
                    3 => self.columns::<WHOLE, 3>(s, at, here),
                    2 => self.columns::<WHOLE, 2>(s, at, here),
                    _ => self.one::<WHOLE>(s, at, here),
                }
            }
            y = rest;
        }
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

    /// The elements of a quad of a window, interleaved.
    ///
    /// # Safety
    /// The window at the place is there. If `WHOLE`, there are as many channels as fit.
    #[inline(always)]
    unsafe fn quad<const WHOLE: bool>(
        &self,
        s: S,
        at: usize,
        starts: &[u32; QUAD],
    ) -> [Vector<S>; 4] {
        let mut rows = [s.level().splat_i32(0); 4];
        for (row, &start) in rows.iter_mut().zip(starts) {
            let at = at + start as usize + self.channel;
            // SAFETY: the caller vouches for them.
            *row = unsafe {
                let from = self.of.x.as_ptr().add(at);
                if WHOLE {
                    s.load_bytes_at(from)
                } else {
                    s.load_bytes(core::slice::from_raw_parts(from, self.n))
                }
            };
        }
        s.interleave(rows)
    }

    /// To the sums, the products with the weights of a quad.
    ///
    /// # Safety
    /// [`Work::check`] has passed.
    #[inline(always)]
    unsafe fn add(&self, s: S, sums: &mut [Vector<S>; 4], x: &[Vector<S>; 4], quad: usize) {
        let quads = self.of.starts.len();
        let block = self.channel / BLOCK * quads;
        let at = ((block + quad) * BLOCK + self.channel % BLOCK / 4) * QUAD;
        for (j, (sum, &x)) in sums.iter_mut().zip(x).enumerate() {
            // SAFETY: `check` saw the weights.
            let w = unsafe { s.load_bytes_at(self.of.w.as_ptr().add(at + j * 16 * QUAD)) };
            *sum = s.dot(*sum, x, w);
        }
    }

    /// One pixel.
    ///
    /// # Safety
    /// As for [`Lanes::quad`].
    #[inline(always)]
    unsafe fn one<const WHOLE: bool>(&self, s: S, at: usize, y: &mut [u8]) {
        let mut sums = self.start(s);
        for (quad, starts) in self.of.starts.iter().enumerate() {
            // SAFETY: the caller vouches for the window.
            unsafe {
                let x = self.quad::<WHOLE>(s, at, starts);
                self.add(s, &mut sums, &x, quad);
            }
        }
        self.finish(s, sums, y);
    }

    /// `T` columns of a row, each of which sees two of the pixels that the one before has seen.
    ///
    /// # Safety
    /// As for [`Lanes::quad`], for each of the columns; windows have a quad in each of three columns.
    #[inline(always)]
    unsafe fn columns<const WHOLE: bool, const T: usize>(&self, s: S, at: usize, y: &mut [u8]) {
        let mut sums = [self.start(s); T];
        // SAFETY: the caller vouches for the windows.
        unsafe {
            self.column::<WHOLE, T, 0>(s, at, &mut sums);
            self.column::<WHOLE, T, 1>(s, at, &mut sums);
            self.column::<WHOLE, T, 2>(s, at, &mut sums);
            self.column::<WHOLE, T, 3>(s, at, &mut sums);
            self.column::<WHOLE, T, 4>(s, at, &mut sums);
            self.column::<WHOLE, T, 5>(s, at, &mut sums);
        }
        // By way of memory: what is read by reference does not stay in registers.
        let mut tile = [MaybeUninit::<[[u8; MAX_BYTES]; 4]>::uninit(); T];
        let tile = tile.as_mut_ptr().cast::<u8>();
        for (t, sums) in sums.iter().enumerate() {
            for (j, &sum) in sums.iter().enumerate() {
                // SAFETY: there is room for all sums.
                unsafe { s.store_bytes_at(sum, tile.add((t * 4 + j) * MAX_BYTES)) };
            }
        }
        for (t, y) in y.chunks_exact_mut(self.of.pixel).take(T).enumerate() {
            let mut sums = [s.level().splat_i32(0); 4];
            for (j, sum) in sums.iter_mut().enumerate() {
                // SAFETY: the vector was written above.
                *sum = unsafe { s.load_bytes_at(tile.add((t * 4 + j) * MAX_BYTES)) };
            }
            self.finish(s, sums, y);
        }
    }

    /// What column `C` of the pixels that the windows see adds to the sums. The number is a constant
    /// so that sums stay in registers.
    ///
    /// # Safety
    /// As for [`Lanes::columns`].
    #[inline(always)]
    unsafe fn column<const WHOLE: bool, const T: usize, const C: usize>(
        &self,
        s: S,
        at: usize,
        sums: &mut [[Vector<S>; 4]; T],
    ) {
        if C + 1 < T + SHARED {
            // SAFETY: there are windows that see the column.
            unsafe {
                let x = self.quad::<WHOLE>(s, at + C * self.of.pixel, &self.of.starts[0]);
                for tap in 0..SHARED {
                    if tap <= C && C - tap < T {
                        self.add(s, &mut sums[C - tap], &x, tap);
                    }
                }
            }
        }
    }

    /// Stores what the sums become.
    #[inline(always)]
    fn finish(&self, s: S, sums: [Vector<S>; 4], y: &mut [u8]) {
        let (l, channels) = (s.level(), &self.of.channels);
        let mut bytes = sums;
        for (j, byte) in bytes.iter_mut().enumerate() {
            let at = self.numbers(j);
            let mut x = l.mul(l.to_f32(*byte), l.load(&channels.factor[at..]));
            if !channels.offset.is_empty() {
                x = l.add(x, l.load(&channels.offset[at..]));
            }
            *byte = self.limits.round(s, x);
        }
        s.store_bytes(s.collect(bytes), &mut y[self.channel..][..self.n]);
    }
}
