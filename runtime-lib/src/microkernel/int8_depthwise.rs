//! The micro-kernel of NHWC depthwise convolutions of bytes: multiplies four elements of a kernel
//! column at once, for the channels of four vectors of accumulators.

use crate::loops::bounds::{places, reach};
use crate::simd::Simd;
use crate::simd::int8::{Bytes, Vector};

/// The number of bytes that are multiplied at once.
const QUAD: usize = 4;
/// The size of the kernel (3 × 3) for which neighboring windows share the pixels that they read.
pub(crate) const SHARED: usize = 3;

/// The pixels that windows read of some channels, and their weights.
pub(crate) struct Lanes<'a> {
    x: &'a [u8],
    pixel: usize,
    starts: &'a [[u32; QUAD]],
    w: &'a [u8],
    quad: usize,
    /// The distance from the start of a window to its last pixel, in bytes.
    reach: usize,
    /// The distance from the first weights to their last vector, in bytes.
    last: usize,
}

/// The accumulators of the channels of four vectors.
type Sums<S> = [Vector<S>; 4];

impl<'a> Lanes<'a> {
    /// Creates the operands. `x` is unsigned, with pixels of `pixel` bytes; a window reads the
    /// pixels at the offsets `starts`, in pixels, from its first one. For each quad of pixels, `w`
    /// has four vectors with the stride `quad / 4` bytes; the stride of quads is `quad` bytes.
    pub fn new(
        (x, pixel): (&'a [u8], usize),
        starts: &'a [[u32; QUAD]],
        (w, quad): (&'a [u8], usize),
    ) -> Lanes<'a> {
        let pixels = starts.as_flattened().iter().max().map_or(0, |&start| start as usize);
        let last = reach([[starts.len().saturating_sub(1), quad], [quad / 4, 3]]);
        Lanes { x, pixel, starts, w, quad, reach: reach([[pixels, pixel]]), last }
    }

    /// Adds the products of the window at `at` to the accumulators.
    #[inline(always)]
    pub fn one<S: Bytes>(&self, s: S, at: usize, sums: &mut Sums<S>) {
        self.check::<S>(at);
        for (quad, starts) in self.starts.iter().enumerate() {
            let [a, b, c, d] = starts.map(|start| at + start as usize * self.pixel);
            // SAFETY: `check` has passed for the window at `at`.
            unsafe {
                let rows = [self.bytes(s, a), self.bytes(s, b), self.bytes(s, c), self.bytes(s, d)];
                *sums = dots(s, *sums, &s.interleave(rows), &self.weights(s, quad));
            }
        }
    }

    /// Calls `end` with the accumulators of `count` windows, which are `STRIDE` pixels apart and
    /// start with `sums`. A window has three neighboring pixels in each of three rows, which are
    /// `row` bytes apart.
    ///
    /// Each column is read once for all windows that contain it. An iteration has a column, the
    /// accumulators of its windows and all weights in registers.
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
        // SAFETY: `check` covered the weights.
        let w = unsafe { [self.weights(s, 0), self.weights(s, 1), self.weights(s, 2)] };
        let (mut at, mut next) = (at, sums);
        // SAFETY: `check` has passed for the last window, whose columns are the last that are read.
        let first = unsafe { self.column(s, at, row) };
        let mut now = dots(s, sums, &first, &w[0]);
        at += self.pixel;
        if STRIDE == 1 {
            // SAFETY: `check` has passed for the last window, whose columns are the last that are
            // read.
            let second = unsafe { self.column(s, at, row) };
            now = dots(s, now, &second, &w[1]);
            next = dots(s, next, &second, &w[0]);
            at += self.pixel;
        }
        for _ in 0..count {
            if STRIDE == 2 {
                // SAFETY: `check` has passed for the last window, whose columns are the last that
                // are read.
                let middle = unsafe { self.column(s, at, row) };
                now = dots(s, now, &middle, &w[1]);
                at += self.pixel;
            }
            // SAFETY: `check` has passed for the last window, whose columns are the last that are
            // read.
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

    /// Checks that the window at `at` is inside `x`, and that the weights exist.
    #[inline(always)]
    fn check<S: Bytes>(&self, at: usize) {
        let vector = 4 * S::LANES;
        assert!(at < places(self.x, self.reach.saturating_add(vector)));
        assert!(self.last < places(self.w, vector));
    }

    /// Loads a column of three pixels, which are `row` bytes apart, interleaved.
    ///
    /// # Safety
    ///
    /// [`Lanes::check`] has passed for a window that contains the column.
    #[inline(always)]
    unsafe fn column<S: Bytes>(&self, s: S, at: usize, row: usize) -> Sums<S> {
        // SAFETY: by this function's contract, the three pixels are inside `x`.
        unsafe {
            let last = self.bytes(s, at + 2 * row);
            s.interleave([self.bytes(s, at), self.bytes(s, at + row), last, last])
        }
    }

    /// Loads the channels of a pixel.
    ///
    /// # Safety
    ///
    /// [`Lanes::check`] has passed for a window that contains the pixel.
    #[inline(always)]
    unsafe fn bytes<S: Bytes>(&self, s: S, at: usize) -> Vector<S> {
        // SAFETY: by this function's contract, a vector can be read from the pixel on.
        unsafe { s.load_bytes_at(self.x.as_ptr().add(at)) }
    }

    /// Loads the weights of a quad.
    ///
    /// # Safety
    ///
    /// [`Lanes::check`] has passed, and `quad < starts.len()`.
    #[inline(always)]
    unsafe fn weights<S: Bytes>(&self, s: S, quad: usize) -> Sums<S> {
        let mut weights = [s.level().splat_i32(0); 4];
        for (j, w) in weights.iter_mut().enumerate() {
            let at = quad * self.quad + j * (self.quad / 4);
            // SAFETY: `check` covered the last vector of the last quad.
            *w = unsafe { s.load_bytes_at(self.w.as_ptr().add(at)) };
        }
        weights
    }
}

/// Adds the products of quads to the accumulators.
#[inline(always)]
fn dots<S: Bytes>(s: S, mut sums: Sums<S>, x: &Sums<S>, w: &Sums<S>) -> Sums<S> {
    for (sum, (&x, &w)) in sums.iter_mut().zip(x.iter().zip(w)) {
        *sum = s.dot(*sum, x, w);
    }
    sums
}
