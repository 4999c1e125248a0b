//! Convolutions of all channels with all: a few pixels times a panel of filters are sums that stay
//! in registers while the quads of a window run.

use super::windows::{Places, Windows};
use super::{BLOCK, QUAD, pixel_len, taps};
use crate::conv::Conv;
use crate::quantized::{Channels, Limits, Requantize, split_aligned};
use crate::simd::Simd;
use crate::simd::bytes::{Byte, Bytes, MAX_BYTES, Quads, Vector, WithBytes, dispatch_bytes};
use crate::threads::{self, Scratch};
use core::mem::MaybeUninit;

/// Filters are filled up to a multiple of so many.
const GROUP: usize = 16;
/// The most pixels of a tile.
const MOST_PIXELS: usize = 12;
/// The most vectors of a tile.
const MOST_TILE: usize = 24;

/// How many quads a window has.
const fn quads(geometry: &Conv<'_>) -> usize {
    pixel_len(geometry.channels) / QUAD * taps(geometry)
}

/// How many numbers the convolution wants that say where the quads of a window are.
pub const fn conv_starts(geometry: &Conv<'_>) -> usize {
    quads(geometry)
}

/// How many bytes of scratch memory the convolution wants.
pub const fn conv_scratch(geometry: &Conv<'_>) -> usize {
    let copy = Windows::of(geometry, pixel_len(geometry.channels)).copy_len();
    copy + quads(geometry) * size_of::<Quads>() + 2 * MAX_BYTES
}

/// How many bytes [`pack_weights`] writes.
pub const fn packed_weights_len(geometry: &Conv<'_>) -> usize {
    geometry.filters.next_multiple_of(GROUP) * quads(geometry) * QUAD
}

/// Packs weights `[filters, channels, kernel…]`: panels of 64 filters, the last one of what is left;
/// for each quad of a window, the four bytes of one filter after those of the other.
pub fn pack_weights<T: Copy + Default>(w: &[T], y: &mut [T], geometry: &Conv<'_>) {
    let (taps, channels) = (taps(geometry), geometry.channels);
    let (quads, pixel) = (quads(geometry), pixel_len(channels));
    let filters = geometry.filters.next_multiple_of(GROUP);
    y.fill(T::default());
    for (filter, w) in w.chunks_exact((channels * taps).max(1)).enumerate() {
        let panel = filter / BLOCK * BLOCK;
        let width = BLOCK.min(filters - panel);
        for (at, &w) in w.iter().enumerate() {
            let at = at % taps * pixel + at / taps;
            let quad = (panel * quads + at / QUAD * width + filter - panel) * QUAD;
            y[quad + at % QUAD] = w;
        }
    }
}

/// `y = w ∗ (x - x_zero)`, requantized. The weights, which have no zero point, are packed by
/// [`pack_weights`]; the numbers of the channels are filled up to a multiple of 16, and from the
/// addends `x_zero` times the sum of the weights is taken away already.
#[inline(never)]
#[expect(clippy::too_many_arguments, reason = "each operand on its own")]
pub fn conv(
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
    let windows = Windows::of(&geometry, pixel_len(geometry.channels));
    let (image, pixel) = (windows.image(), pixel_len(geometry.filters));
    if y.is_empty() {
        return;
    }
    fill_starts(&windows, starts);
    let (copy, scratch) = split_aligned(scratch, windows.copy_len());
    let scratch = Scratch::new(scratch);
    for (i, y) in y.chunks_exact_mut(windows.places() * pixel).enumerate() {
        let all = Work {
            x: windows.seen(&x[i * image..][..image], to.x_zero as u8, copy),
            w: i8::bits(w),
            starts,
            channels: Channels { bias, factor, offset: offset.unwrap_or(&[]) },
            windows,
            filters: geometry.filters,
            to,
        };
        let cost = y.len() * starts.len() / (threads::PRODUCTS / 2);
        threads::share(y, pixel, cost, |first, y| {
            scratch.with(|scratch| dispatch_bytes(Part { of: &all, first, y, scratch }));
        });
    }
}

/// Writes where the quads of a window are.
fn fill_starts(windows: &Windows, starts: &mut [u32]) {
    let quads = starts.len() / windows.taps().count().max(1);
    for (starts, tap) in starts.chunks_exact_mut(quads.max(1)).zip(windows.taps()) {
        let tap = windows.tap(tap);
        starts.iter_mut().enumerate().for_each(|(q, start)| *start = (tap + q * QUAD) as u32);
    }
}

/// What one image is made of.
pub(super) struct Work<'a> {
    /// What the windows see.
    pub x: &'a [u8],
    pub w: &'a [u8],
    pub starts: &'a [u32],
    pub channels: Channels<'a>,
    pub windows: Windows,
    pub filters: usize,
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
        let pixel = pixel_len(of.filters);
        of.check();
        let filters = of.filters.next_multiple_of(GROUP);
        let limits = Limits::new(s, of.to, 0);
        for panel in (0..filters).step_by(BLOCK) {
            let width = BLOCK.min(filters - panel);
            let w = &of.w[panel * of.starts.len() * QUAD..][..width * of.starts.len() * QUAD];
            let mut column = 0;
            while column < width {
                let at = Columns { of, w, width, column, panel, pixel, limits };
                let places = of.windows.from(first);
                // SAFETY: `check` has passed, and the panel has so many columns.
                unsafe {
                    match (width - column) / S::LANES {
                        4.. => at.pixels::<4>(s, places, y),
                        3 => at.pixels::<3>(s, places, y),
                        2 => at.pixels::<2>(s, places, y),
                        _ => at.pixels::<1>(s, places, y),
                    }
                }
                column += ((width - column) / S::LANES).clamp(1, 4) * S::LANES;
            }
        }
    }
}

impl Work<'_> {
    /// That all quads of all windows are there.
    fn check(&self) {
        let last = self.starts.iter().max().map_or(0, |&start| start as usize + QUAD);
        assert!(self.windows.last() + last <= self.x.len());
    }
}

/// Some vectors of filters of a panel.
struct Columns<'a, S: Bytes> {
    of: &'a Work<'a>,
    /// The panel.
    w: &'a [u8],
    /// Its filters.
    width: usize,
    /// The first of these.
    column: usize,
    /// The first filter of the panel.
    panel: usize,
    /// Bytes of a pixel of the output.
    pixel: usize,
    limits: Limits<S>,
}

impl<S: Bytes> Columns<'_, S> {
    /// All pixels, a few at a time.
    ///
    /// # Safety
    /// [`Work::check`] has passed, and there are `V` vectors of columns.
    #[inline(always)]
    unsafe fn pixels<const V: usize>(&self, s: S, mut places: Places, y: &mut [u8]) {
        let mut left = y.len() / self.pixel;
        let mut y = y.chunks_exact_mut(self.pixel);
        while left > 0 {
            let rows = rows::<S>(V, left);
            let mut at = [0; MOST_PIXELS];
            at[..rows].iter_mut().for_each(|at| *at = places.next());
            // SAFETY: the windows are there.
            unsafe {
                match rows {
                    12 if V == 1 && S::LANES == 16 => self.tile::<12, V>(s, &at, &mut y),
                    6 if S::LANES == 16 => self.tile::<6, V>(s, &at, &mut y),
                    5 if S::LANES == 16 => self.tile::<5, V>(s, &at, &mut y),
                    4 if S::LANES == 16 => self.tile::<4, V>(s, &at, &mut y),
                    3 if S::LANES == 16 => self.tile::<3, V>(s, &at, &mut y),
                    2 if S::LANES >= 8 => self.tile::<2, V>(s, &at, &mut y),
                    _ => self.tile::<1, V>(s, &at, &mut y),
                }
            }
            left -= rows;
        }
    }

    /// `R` pixels and `V` vectors of filters.
    ///
    /// # Safety
    /// The windows at the places `at` are there, and so are `V` vectors of columns.
    #[inline(always)]
    unsafe fn tile<'y, const R: usize, const V: usize>(
        &self,
        s: S,
        at: &[usize; MOST_PIXELS],
        y: &mut impl Iterator<Item = &'y mut [u8]>,
    ) {
        let first = self.panel + self.column;
        let channels = self.of.channels;
        let mut sums = [[s.level().splat_i32(0); V]; R];
        for v in 0..V {
            let bias = s.load_sums(&channels.bias[first + v * S::LANES..]);
            for sums in &mut sums {
                sums[v] = bias;
            }
        }
        // SAFETY: the caller vouches for the windows and the columns.
        unsafe {
            let mut w = self.w.as_ptr().add(self.column * QUAD);
            for &start in self.of.starts {
                let x = self.of.x.as_ptr().add(start as usize);
                let mut columns = [s.level().splat_i32(0); V];
                for (v, column) in columns.iter_mut().enumerate() {
                    *column = s.load_bytes_at(w.add(v * QUAD * S::LANES));
                }
                for (r, sums) in sums.iter_mut().enumerate() {
                    let quad = x.add(at[r]).cast::<i32>().read_unaligned();
                    let quad = s.level().splat_i32(quad);
                    for (sum, &column) in sums.iter_mut().zip(&columns) {
                        *sum = s.dot(*sum, quad, column);
                    }
                }
                w = w.wrapping_add(self.width * QUAD);
            }
        }
        // By way of memory: what is read by reference does not stay in registers.
        let mut tile = [MaybeUninit::<[u8; MAX_BYTES]>::uninit(); MOST_TILE];
        let tile = tile.as_mut_ptr().cast::<u8>();
        for (r, sums) in sums.iter().enumerate() {
            for (v, &sum) in sums.iter().enumerate() {
                // SAFETY: a tile has room for `R · V` vectors.
                unsafe { s.store_bytes_at(sum, tile.add((r * V + v) * QUAD * S::LANES)) };
            }
        }
        for r in 0..R {
            let Some(y) = y.next() else { return };
            let mut row = [s.level().splat_i32(0); V];
            for (v, sum) in row.iter_mut().enumerate() {
                // SAFETY: the vector was written above.
                *sum = unsafe { s.load_bytes_at(tile.add((r * V + v) * QUAD * S::LANES)) };
            }
            self.finish(s, row, &mut y[first..]);
        }
    }

    /// Stores what the sums of a pixel become.
    #[inline(always)]
    fn finish<const V: usize>(&self, s: S, sums: [Vector<S>; V], y: &mut [u8]) {
        let (l, channels) = (s.level(), self.of.channels);
        let mut bytes = [l.splat_i32(0); 4];
        for (v, sum) in sums.into_iter().enumerate() {
            let at = self.panel + self.column + v * S::LANES;
            let mut x = l.mul(l.to_f32(sum), l.load(&channels.factor[at..]));
            if !channels.offset.is_empty() {
                x = l.add(x, l.load(&channels.offset[at..]));
            }
            bytes[v] = self.limits.round(s, x);
        }
        let n = y.len().min(V * S::LANES);
        s.store_bytes(s.join(bytes), &mut y[..n]);
    }
}

/// How many of the pixels left a tile takes: as many as registers hold, or such a part of these
/// that none is left for a small tile.
#[inline(always)]
fn rows<S: Bytes>(vectors: usize, left: usize) -> usize {
    let most = match (S::LANES, vectors) {
        (16, 1) if left >= 12 => return 12,
        (16, _) => 6,
        (8, _) => S::ROWS,
        _ => 1,
    };
    left.div_ceil(left.div_ceil(most))
}
