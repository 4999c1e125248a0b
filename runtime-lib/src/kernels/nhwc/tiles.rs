//! Convolutions with AMX tiles: each window is copied to a row.

use super::operands::ConvOperands;
use super::windows::Places;
use super::{BLOCK, QUAD, pixel_len};
use crate::kernels::quantized::{Limits, join};
use crate::microkernel::amx::{Quads, Right, Row, TileEpilogue, WIDE, multiply, vectors};
use crate::simd::int8::{Bytes, WithBytes};
use crate::simd::{Simd, tiles};

/// The number of windows that are requantized at once.
const ROWS: usize = 4;

impl ConvOperands<'_> {
    /// Returns the filters.
    fn right(&self) -> Right<'_> {
        let filters = self.w.len() / (QUAD * self.starts.len()).max(1);
        Right::new(self.w, self.starts.len(), filters, BLOCK)
    }

    /// Returns whether the processor has tiles and they pay for these pixels.
    #[inline(always)]
    pub(super) fn has_tiles(&self, y: &[u8]) -> bool {
        tiles().is_some() && self.right().pays(y.len() / pixel_len(self.filters))
    }
}

/// The computation of some pixels of the output, if [`ConvOperands::has_tiles`]. It is not inlined,
/// because its buffer of rows takes much of the stack.
pub(super) struct ByTiles<'a> {
    pub of: &'a ConvOperands<'a>,
    pub first: usize,
    pub y: &'a mut [u8],
}

impl WithBytes for ByTiles<'_> {
    #[inline(always)]
    fn run<S: Bytes>(self, s: S) {
        let ByTiles { of, first, y } = self;
        let (pixel, limits) = (pixel_len(of.filters), Limits::new(s, of.to, 0));
        let Some(amx) = tiles() else { return };
        let run = of.windows.run().div_ceil(QUAD).max(1);
        let (pixels, places) = (y.len() / pixel, of.windows.from(first));
        let mut ends = Pixels { s, of, first, places, next: 0, run, y, pixel, limits };
        multiply::<Quads>(amx, of.right(), pixels, &mut ends);
    }
}

/// Some pixels of the output.
struct Pixels<'a, S: Bytes> {
    s: S,
    of: &'a ConvOperands<'a>,
    /// The first pixel.
    first: usize,
    /// The positions of the windows, and the number of the next one.
    places: Places,
    next: usize,
    /// The contiguous quads of a window.
    run: usize,
    y: &'a mut [u8],
    /// The bytes of a pixel.
    pixel: usize,
    limits: Limits<S>,
}

impl<S: Bytes> TileEpilogue<i32> for Pixels<'_, S> {
    #[inline(always)]
    fn rows(&self) -> Option<(&[u8], usize)> {
        let apart = self.of.windows.pixels_apart()?;
        Some((self.of.x.get(self.first * apart..)?, apart))
    }

    #[inline(always)]
    fn fill(&mut self, row: usize, to: &mut Row<'_>) {
        let s = self.s;
        if row != self.next {
            self.places = self.of.windows.from(self.first + row);
        }
        self.next = row + 1;
        let (at, none) = (self.places.next(), s.level().splat_i32(0));
        for run in self.of.starts.chunks(self.run) {
            to.push(s, &self.of.x[at + run[0] as usize..][..run.len() * QUAD], none);
        }
    }

    #[inline(always)]
    fn start(&self, column: usize, to: &mut [i32; WIDE]) {
        to.iter_mut().zip(&self.of.channels.bias[column..]).for_each(|(to, &bias)| *to = bias);
    }

    #[inline(always)]
    fn take(&mut self, row: usize, column: usize, sums: &[[i32; WIDE]]) {
        match (self.pixel - column).div_ceil(S::LANES) {
            4.. => self.bytes::<4>(row, column, sums),
            3 => self.bytes::<3>(row, column, sums),
            2 => self.bytes::<2>(row, column, sums),
            _ => self.bytes::<1>(row, column, sums),
        }
    }
}

impl<S: Bytes> Pixels<'_, S> {
    /// Requantizes the accumulators of `V` vectors of filters.
    #[inline(always)]
    fn bytes<const V: usize>(&mut self, row: usize, column: usize, sums: &[[i32; WIDE]]) {
        let s = self.s;
        let n = (self.pixel - column).min(V * S::LANES);
        let (channels, limits, pixel) = (self.of.channels, self.limits, self.pixel);
        let y = &mut self.y[row * pixel..];
        let at = |v| column + v * S::LANES;
        let mut r = 0;
        while r < sums.len() {
            if let Some(few) = sums[r..].first_chunk::<ROWS>() {
                let mut windows = [[s.level().splat_i32(0); V]; ROWS];
                for (window, sums) in windows.iter_mut().zip(few) {
                    *window = vectors(s, sums);
                }
                if let Some(rows) = channels.rows(s, limits, &windows, column) {
                    for (i, bytes) in rows.into_iter().enumerate() {
                        let bytes = limits.capped(s, join(s, bytes));
                        s.store_bytes(bytes, &mut y[(r + i) * pixel + column..][..n]);
                    }
                    r += ROWS;
                    continue;
                }
            }
            let sums = vectors::<S, V>(s, &sums[r]);
            let bytes = channels.bytes(s, limits, sums, at);
            let bytes = limits.capped(s, join(s, bytes));
            s.store_bytes(bytes, &mut y[r * pixel + column..][..n]);
            r += 1;
        }
    }
}
