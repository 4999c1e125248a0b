//! Tiles of depthwise convolutions of bytes whose channels stand side by side: four elements of the
//! kernel are multiplied at once, for as many channels as four vectors of sums hold.

use crate::simd::Simd;
use crate::simd::bytes::{Bytes, MAX_BYTES, Vector};
use core::mem::MaybeUninit;

/// Bytes that are multiplied at once.
const QUAD: usize = 4;
/// The quads of a window of which neighboring columns share what they see: a column of it each.
pub(crate) const SHARED: usize = 3;
/// The most columns that share.
pub(crate) const MOST_COLUMNS: usize = 4;

/// What windows see of some channels, and their weights.
pub(crate) struct Lanes<'a> {
    x: &'a [u8],
    starts: &'a [[u32; QUAD]],
    w: &'a [u8],
    block: usize,
    channel: usize,
    n: usize,
    /// How many bytes from its first on a window sees.
    reach: usize,
}

/// Sums of as many channels as four vectors hold.
type Sums<S> = [Vector<S>; 4];

impl<'a> Lanes<'a> {
    /// Of `x`, without a sign, a window sees the pixels that start at `starts`, counted from its
    /// first; `n` channels are meant, from `channel` on. Of `w`, with a sign, the four bytes of each
    /// of `block` channels stand behind those of the last, for one quad of pixels after the other;
    /// the channels come first.
    pub fn new(
        x: &'a [u8],
        starts: &'a [[u32; QUAD]],
        w: &'a [u8],
        block: usize,
        (channel, n): (usize, usize),
    ) -> Lanes<'a> {
        let last = starts.as_flattened().iter().max().map_or(0, |&start| start as usize);
        Lanes { x, starts, w, block, channel, n, reach: last + channel + n }
    }

    /// To the sums of the window at a place, its products. If `WHOLE`, there are as many channels
    /// as fit.
    #[inline(always)]
    pub fn one<S: Bytes, const WHOLE: bool>(&self, s: S, at: usize, sums: &mut Sums<S>) {
        self.check::<S, WHOLE>(at);
        for (quad, starts) in self.starts.iter().enumerate() {
            // SAFETY: `check` has passed.
            unsafe {
                let x = self.quad::<S, WHOLE>(s, at, starts);
                self.add(s, sums, &x, quad);
            }
        }
    }

    /// The sums of `T` windows, each a pixel behind the last; these start like `sums`, and a window
    /// has a quad in each of three columns. `end` gets those of one after the other.
    #[inline(always)]
    pub fn columns<S: Bytes, const WHOLE: bool, const T: usize>(
        &self,
        s: S,
        (at, pixel): (usize, usize),
        sums: Sums<S>,
        mut end: impl FnMut(Sums<S>),
    ) {
        const { assert!(T <= MOST_COLUMNS) };
        assert!(self.starts.len() == SHARED);
        self.check::<S, WHOLE>(at + (T - 1) * pixel);
        let mut sums = [sums; T];
        // SAFETY: `check` has passed for the last window, and a window's last column is as far from
        // its first as the pixel that it shares with the window behind.
        unsafe {
            self.column::<S, WHOLE, T, 0>(s, (at, pixel), &mut sums);
            self.column::<S, WHOLE, T, 1>(s, (at, pixel), &mut sums);
            self.column::<S, WHOLE, T, 2>(s, (at, pixel), &mut sums);
            self.column::<S, WHOLE, T, 3>(s, (at, pixel), &mut sums);
            self.column::<S, WHOLE, T, 4>(s, (at, pixel), &mut sums);
            self.column::<S, WHOLE, T, 5>(s, (at, pixel), &mut sums);
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
        for t in 0..T {
            let mut sums = [s.level().splat_i32(0); 4];
            for (j, sum) in sums.iter_mut().enumerate() {
                // SAFETY: the vector was written above.
                *sum = unsafe { s.load_bytes_at(tile.add((t * 4 + j) * MAX_BYTES)) };
            }
            end(sums);
        }
    }

    /// That a window is in what windows see, and that there are weights.
    #[inline(always)]
    fn check<S: Bytes, const WHOLE: bool>(&self, at: usize) {
        assert!(!WHOLE || self.n == 4 * S::LANES);
        assert!(at + self.reach <= self.x.len());
        let blocks = (self.channel / self.block + 1) * self.block;
        assert!(blocks * self.starts.len() * QUAD <= self.w.len());
        assert!(self.channel % self.block + 4 * S::LANES <= self.block);
    }

    /// What column `C` of the pixels that the windows see adds to the sums. The number is a constant
    /// so that sums stay in registers.
    ///
    /// # Safety
    /// [`Lanes::check`] has passed for all windows that see the column.
    #[inline(always)]
    unsafe fn column<S: Bytes, const WHOLE: bool, const T: usize, const C: usize>(
        &self,
        s: S,
        (at, pixel): (usize, usize),
        sums: &mut [Sums<S>; T],
    ) {
        if C + 1 < T + SHARED {
            // The pixel is that of a window's own column, seen from a window that there is.
            let (window, tap) = if C < T { (C, 0) } else { (T - 1, C + 1 - T) };
            // SAFETY: the caller vouches for the window.
            unsafe {
                let x = self.quad::<S, WHOLE>(s, at + window * pixel, &self.starts[tap]);
                for tap in 0..SHARED {
                    if tap <= C && C - tap < T {
                        self.add(s, &mut sums[C - tap], &x, tap);
                    }
                }
            }
        }
    }

    /// The elements of a quad of a window, interleaved.
    ///
    /// # Safety
    /// [`Lanes::check`] has passed for the window.
    #[inline(always)]
    unsafe fn quad<S: Bytes, const WHOLE: bool>(
        &self,
        s: S,
        at: usize,
        starts: &[u32; QUAD],
    ) -> Sums<S> {
        let mut rows = [s.level().splat_i32(0); 4];
        for (row, &start) in rows.iter_mut().zip(starts) {
            let at = at + start as usize + self.channel;
            // SAFETY: the caller vouches for the channels.
            *row = unsafe {
                let from = self.x.as_ptr().add(at);
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
    /// [`Lanes::check`] has passed.
    #[inline(always)]
    unsafe fn add<S: Bytes>(&self, s: S, sums: &mut Sums<S>, x: &Sums<S>, quad: usize) {
        let (first, inside) =
            (self.channel / self.block * self.starts.len(), self.channel % self.block);
        let at = ((first + quad) * self.block + inside / 4) * QUAD;
        for (j, (sum, &x)) in sums.iter_mut().zip(x).enumerate() {
            // SAFETY: `check` saw the weights.
            let w = unsafe { s.load_bytes_at(self.w.as_ptr().add(at + j * self.block)) };
            *sum = s.dot(*sum, x, w);
        }
    }
}
