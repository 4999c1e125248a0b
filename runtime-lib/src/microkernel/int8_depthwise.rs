//! Tiles of depthwise convolutions of bytes: four elements of a column of the kernel are multiplied at
//! once, for as many channels as four vectors of sums hold.

use crate::loops::bounds::{places, reach};
use crate::simd::Simd;
use crate::simd::int8::{Bytes, Vector};

/// Bytes that are multiplied at once.
const QUAD: usize = 4;
/// The elements of a row and of a column of the kernel for which neighboring windows share what they see.
pub(crate) const SHARED: usize = 3;

/// What windows see of some channels, and their weights.
pub(crate) struct Lanes<'a> {
    x: &'a [u8],
    pixel: usize,
    starts: &'a [[u32; QUAD]],
    w: &'a [u8],
    quad: usize,
    /// How many bytes behind its start the last pixel of a window lies.
    reach: usize,
    /// How many bytes behind the first weights the last vector of them lies.
    last: usize,
}

/// Sums of as many channels as four vectors hold.
type Sums<S> = [Vector<S>; 4];

impl<'a> Lanes<'a> {
    /// Of `x`, whose bytes have no sign and whose pixels are `pixel` bytes, a window sees the pixels
    /// that start at `starts`, in pixels, counted from its first. `w` has for each quad of pixels a
    /// vector after the other, `quad / 4` bytes apart, and `quad` bytes behind them those of the next one.
    pub fn new(
        (x, pixel): (&'a [u8], usize),
        starts: &'a [[u32; QUAD]],
        (w, quad): (&'a [u8], usize),
    ) -> Lanes<'a> {
        let pixels = starts.as_flattened().iter().max().map_or(0, |&start| start as usize);
        let last = reach([[starts.len().saturating_sub(1), quad], [quad / 4, 3]]);
        Lanes { x, pixel, starts, w, quad, reach: reach([[pixels, pixel]]), last }
    }

    /// To the sums of the window at a place, its products.
    #[inline(always)]
    pub fn one<S: Bytes>(&self, s: S, at: usize, sums: &mut Sums<S>) {
        self.check::<S>(at);
        for (quad, starts) in self.starts.iter().enumerate() {
            let [a, b, c, d] = starts.map(|start| at + start as usize * self.pixel);
            // SAFETY: `check` has passed.
            unsafe {
                let rows = [self.bytes(s, a), self.bytes(s, b), self.bytes(s, c), self.bytes(s, d)];
                *sums = dots(s, *sums, &s.interleave(rows), &self.weights(s, quad));
            }
        }
    }

    /// Gives `end` the sums of `count` windows, each `STRIDE` pixels behind the last; these start like
    /// `sums`. A window has three neighboring pixels in each of three rows, which lie `row` bytes apart.
    ///
    /// A column of them is read once for all windows that see it. One iteration of the loop has it and the sums
    /// of these windows in registers, beside all weights.
    #[inline(always)]
    pub fn line<S: Bytes, const STRIDE: usize>(
        &self,
        s: S,
        (at, row): (usize, usize),
        (sums, count): (Sums<S>, usize),
        mut end: impl FnMut(Sums<S>),
    ) {
        const { assert!(STRIDE == 1 || STRIDE == 2) };
        assert!(self.starts.len() == SHARED && count > 0);
        assert!(self.reach >= reach([[2, row], [2, self.pixel]]));
        self.check::<S>(reach([[at, 1, 1], [count - 1, STRIDE, self.pixel]]));
        // SAFETY: `check` saw the weights.
        let w = unsafe { [self.weights(s, 0), self.weights(s, 1), self.weights(s, 2)] };
        let (mut at, mut next) = (at, sums);
        // SAFETY: `check` has passed for the last window, behind which no column of the others lies.
        let first = unsafe { self.column(s, at, row) };
        let mut now = dots(s, sums, &first, &w[0]);
        at += self.pixel;
        if STRIDE == 1 {
            // SAFETY: as above.
            let second = unsafe { self.column(s, at, row) };
            now = dots(s, now, &second, &w[1]);
            next = dots(s, next, &second, &w[0]);
            at += self.pixel;
        }
        for _ in 0..count {
            if STRIDE == 2 {
                // SAFETY: as above.
                let middle = unsafe { self.column(s, at, row) };
                now = dots(s, now, &middle, &w[1]);
                at += self.pixel;
            }
            // SAFETY: as above.
            let last = unsafe { self.column(s, at, row) };
            at += self.pixel;
            end(dots(s, now, &last, &w[2]));
            if STRIDE == 1 {
                now = dots(s, next, &last, &w[1]);
                next = dots(s, sums, &last, &w[0]);
            } else {
                now = dots(s, sums, &last, &w[0]);
            }
        }
    }

    /// That a window is in what windows see, and that there are weights.
    #[inline(always)]
    fn check<S: Bytes>(&self, at: usize) {
        let vector = 4 * S::LANES;
        assert!(at < places(self.x, self.reach.saturating_add(vector)));
        assert!(self.last < places(self.w, vector));
    }

    /// A column of three pixels, which lie `row` bytes apart, interleaved.
    ///
    /// # Safety
    /// [`Lanes::check`] has passed for a window that sees the column.
    #[inline(always)]
    unsafe fn column<S: Bytes>(&self, s: S, at: usize, row: usize) -> Sums<S> {
        // SAFETY: the caller vouches for the window.
        unsafe {
            let last = self.bytes(s, at + 2 * row);
            s.interleave([self.bytes(s, at), self.bytes(s, at + row), last, last])
        }
    }

    /// The channels of a pixel.
    ///
    /// # Safety
    /// [`Lanes::check`] has passed for a window that sees the pixel.
    #[inline(always)]
    unsafe fn bytes<S: Bytes>(&self, s: S, at: usize) -> Vector<S> {
        // SAFETY: the caller vouches for the pixel.
        unsafe { s.load_bytes_at(self.x.as_ptr().add(at)) }
    }

    /// The weights of a quad.
    ///
    /// # Safety
    /// [`Lanes::check`] has passed.
    #[inline(always)]
    unsafe fn weights<S: Bytes>(&self, s: S, quad: usize) -> Sums<S> {
        let mut weights = [s.level().splat_i32(0); 4];
        for (j, w) in weights.iter_mut().enumerate() {
            let at = quad * self.quad + j * (self.quad / 4);
            // SAFETY: `check` saw the weights.
            *w = unsafe { s.load_bytes_at(self.w.as_ptr().add(at)) };
        }
        weights
    }
}

/// Sums, and the products of quads.
#[inline(always)]
fn dots<S: Bytes>(s: S, mut sums: Sums<S>, x: &Sums<S>, w: &Sums<S>) -> Sums<S> {
    for (sum, (&x, &w)) in sums.iter_mut().zip(x.iter().zip(w)) {
        *sum = s.dot(*sum, x, w);
    }
    sums
}
