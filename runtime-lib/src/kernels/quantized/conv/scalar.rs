//! Convolutions without vectors: four columns at a time, each accumulator in a register.

use super::{Image, Plane, windows::Windows};
use crate::kernels::quantized::{Channels, Requantize};
use crate::microkernel::int8_operands::PANEL_ROWS;
use crate::simd::int8::{
    Bounds, COLUMNS, Quad, Quads, add_products, scale, scale_rows, set, sums_memory, transpose,
};

impl Image<'_> {
    /// Computes all filters.
    #[inline(never)]
    pub(super) fn run_scalar(
        &self,
        (ends, windows): (Channels<'_>, Windows<'_>),
        to: Requantize,
        y: Plane<'_, u8>,
        scratch: &mut [u8],
    ) {
        if let (1, 1, Some(taps)) = (self.filters, self.planes.channels(), self.planes.neighbors())
            && windows.is_empty()
        {
            return self.lines(taps, (ends, to), y.y, sums_memory(scratch));
        }
        let bounds = to.bounds();
        self.each_column(scratch, |panel, at, from, n| {
            let y = Columns { y: &mut *y.y, at, from, n, row: y.row };
            self.columns(panel, (ends, windows, bounds), &to, y);
        });
    }

    /// Calls `compute` with the packed quads of a few columns, the position of the first of them in
    /// the planes and in the output, and their number.
    #[inline(always)]
    pub(super) fn each_column(
        &self,
        scratch: &mut [u8],
        mut compute: impl FnMut(&[Quads], usize, usize, usize),
    ) {
        let (starts, _) = self.starts.as_chunks::<4>();
        let panel = &mut Quad::memory(scratch)[..starts.len()];
        let (columns, (mut pitch, mut width)) = (self.planes.columns(), self.planes.lines());
        if pitch == width {
            (pitch, width) = (columns, columns);
        }
        for line in 0..columns.div_ceil(pitch) {
            for at in (0..width).step_by(COLUMNS) {
                pack(self.x, starts, line * pitch + at, self.flip as u32, panel);
                compute(panel, line * pitch + at, line * width + at, COLUMNS.min(width - at));
            }
        }
    }

    /// Computes a few columns of all filters.
    #[inline(always)]
    fn columns(
        &self,
        panel: &[Quads],
        (ends, windows, bounds): (Channels<'_>, Windows<'_>, Bounds),
        to: &Requantize,
        y: Columns<'_>,
    ) {
        let Channels { bias, factor, offset, .. } = ends;
        let (weights, _) = self.w.as_chunks::<4>();
        let mut sums = [[0; COLUMNS]; PANEL_ROWS];
        let mut first = 0;
        for bias in bias[..self.filters].chunks(PANEL_ROWS) {
            let step = bias.len();
            add_products(panel, &weights[first * panel.len()..], step, bias, &mut sums);
            windows.subtract(self, (y.at, y.n), first, &mut sums[..step]);
            let (sums, to_y) = (&sums[..bias.len()], &mut y.y[first * y.row + y.from..]);
            if offset.is_empty() {
                scale_rows(sums, y.n, &factor[first..], bounds, to_y, y.row);
            } else {
                let ends = factor[first..].iter().zip(&offset[first..]);
                for ((sums, (&factor, &offset)), y_row) in
                    sums.iter().zip(ends).zip(to_y.chunks_mut(y.row))
                {
                    store_moved(&sums[..y.n], to, y_row, (factor, offset));
                }
            }
            first += PANEL_ROWS;
        }
    }

    /// Computes the only filter on the only channel, with windows whose lines are contiguous.
    /// Several lines are accumulated as if they were one.
    #[inline(always)]
    fn lines(
        &self,
        taps: usize,
        (ends, to): (Channels<'_>, Requantize),
        y: &mut [u8],
        sums: &mut [i32],
    ) {
        let (pitch, width) = self.planes.lines();
        let at_once = 1 + (sums.len().min(self.planes.line_sums()) - width) / pitch;
        let starts = &self.starts[..self.planes.taps()];
        let mut at = 0;
        for y in y[..self.planes.results()].chunks_mut(at_once * width) {
            let sums = &mut sums[..(y.len() / width - 1) * pitch + width];
            sums.fill(ends.bias[0]);
            for (starts, w) in starts.chunks_exact(taps).zip(self.w.chunks_exact(taps)) {
                let from = self.x.get(starts[0] as usize + at..).unwrap_or(&[]);
                add_line(sums, from, tail(w, 0), self.flip as u32);
            }
            let factor = ends.factor[0];
            for (sums, y) in sums.chunks(pitch).zip(y.chunks_exact_mut(width)) {
                match ends.offset.first() {
                    None => store(&sums[..width], &to, y, factor),
                    Some(offset) => store_moved(&sums[..width], &to, y, (factor, *offset)),
                }
            }
            at += at_once * pitch;
        }
    }
}

/// Columns of the output.
struct Columns<'a> {
    y: &'a mut [u8],
    /// The position of the first column in the planes.
    at: usize,
    /// The offset of the first column in the first channel.
    from: usize,
    /// The number of columns.
    n: usize,
    /// The channel stride.
    row: usize,
}

/// Packs the columns from `j` on: for each quad, the four bytes of one column after those of
/// another.
#[inline(never)]
fn pack(x: &[u8], starts: &[[u32; 4]], j: usize, flip: u32, panel: &mut [Quads]) {
    for (at, starts) in starts.iter().enumerate() {
        let mut rows = [0; 4];
        for (row, &start) in rows.iter_mut().zip(starts) {
            *row = word(x, start as usize + j) ^ flip;
        }
        set(panel, at, transpose(rows));
    }
}

/// Returns four bytes as a word; bytes out of bounds are 0.
#[inline(always)]
fn word(bytes: &[u8], at: usize) -> u32 {
    if let Some(&whole) = bytes.get(at..).and_then(|bytes| bytes.first_chunk()) {
        return u32::from_ne_bytes(whole);
    }
    tail(bytes, at)
}

/// Returns the word of the last bytes of a slice.
#[inline(never)]
fn tail(bytes: &[u8], at: usize) -> u32 {
    let mut whole = [0; 4];
    whole.iter_mut().zip(bytes.iter().skip(at)).for_each(|(to, &byte)| *to = byte);
    u32::from_ne_bytes(whole)
}

/// Adds to each accumulator the products of four neighboring bytes and the weights.
#[inline(never)]
fn add_line(sums: &mut [i32], x: &[u8], w: u32, flip: u32) {
    if cfg!(arm_vectors) && sums.len() + 3 <= x.len() {
        return add_line_by_taps(sums, x, w, flip);
    }
    let w = Quad::signed(w);
    let (whole, rest) = sums.split_at_mut(sums.len().min(x.len().saturating_sub(3)));
    let first = whole.len();
    for (sum, x) in whole.iter_mut().zip(x.windows(4)) {
        let x = u32::from_ne_bytes(*x.first_chunk().expect("four bytes")) ^ flip;
        *sum = Quad::unsigned(x).add_products(w, *sum);
    }
    for (i, sum) in rest.iter_mut().enumerate() {
        *sum = Quad::unsigned(tail(x, first + i) ^ flip).add_products(w, *sum);
    }
}

/// The same as [`add_line`], in a form that the compiler vectorizes.
#[inline(always)]
fn add_line_by_taps(sums: &mut [i32], x: &[u8], w: u32, flip: u32) {
    let flip = flip as u8;
    let [a, b, c, d] = w.to_ne_bytes().map(|w| i32::from(w as i8));
    let near = x[1..].iter().zip(&x[2..]).zip(&x[3..]);
    for ((sum, &x), ((&y, &z), &t)) in sums.iter_mut().zip(x).zip(near) {
        let [x, y, z, t] = [x, y, z, t].map(|x| i32::from(x ^ flip));
        *sum += x * a + y * b + z * c + t * d;
    }
}

/// Requantizes and stores accumulators.
#[inline(never)]
fn store(sums: &[i32], to: &Requantize, y: &mut [u8], factor: f32) {
    scale(sums, factor, to.bounds(), y);
}

/// Requantizes and stores accumulators with an offset after the factor.
#[inline(never)]
fn store_moved(sums: &[i32], to: &Requantize, y: &mut [u8], (factor, offset): (f32, f32)) {
    let bounds = to.bounds();
    for (&sum, y) in sums.iter().zip(y) {
        *y = bounds.byte(crate::Float::round(sum as f32 * factor + offset) as i32);
    }
}
