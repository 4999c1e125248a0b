//! Int8 convolutions of NCHW images, as products of the weights with a reordered input, or as
//! depthwise convolutions.

mod dynamic;
mod scalar;
mod windows;

pub use dynamic::{DynamicConvOperands, dynamic_conv_nchw, dynamic_conv_scratch};

use super::planes::Planes;
use super::{
    ALIGN, Channels, Int8Operands, Limits, Multiplier, Requantize, ZeroPointOperands, quad,
    scale_each, split_aligned,
};
use crate::kernels::conv::Conv;
use crate::microkernel::int8_operands::{Int8Block, Int8Epilogue, LeftOperand, PANEL_ROWS};
use crate::simd::Simd;
use crate::simd::int8::{
    Byte, Bytes, MAX_BYTES, MAX_SUMS, Quads, Vector, WithBytes, dispatch_bytes,
};
use crate::threads::{self, Scratch};
use windows::Windows;

/// The number of weights of a filter, rounded up to whole quads.
const fn depth(geometry: &Conv<'_>) -> usize {
    let mut depth = geometry.channels;
    let mut axis = 0;
    while axis < geometry.kernel.len() {
        depth *= geometry.kernel[axis];
        axis += 1;
    }
    depth.next_multiple_of(4)
}

/// Returns the length of `starts`.
pub const fn conv_starts(geometry: &Conv<'_>) -> usize {
    depth(geometry)
}

/// Returns the length of the scratch buffer, in bytes.
pub const fn conv_scratch(geometry: &Conv<'_>) -> usize {
    let planes = Planes::of(geometry);
    let input = if planes.is_input() { 0 } else { planes.len() + MAX_BYTES };
    let panel = depth(geometry) * MAX_BYTES;
    let rest = if geometry.channels == 1 {
        let line = planes.columns().next_multiple_of(MAX_BYTES);
        let sums = planes.line_sums() * size_of::<i32>();
        let quads = depth(geometry) / 4 * size_of::<Quads>();
        most(line, most(sums, quads))
    } else {
        panel
    };
    input + rest + 2 * ALIGN
}

const fn most(a: usize, b: usize) -> usize {
    if a > b { a } else { b }
}

/// Returns the number of bytes that [`pack_weights`] writes.
pub const fn packed_weights_len(geometry: &Conv<'_>) -> usize {
    geometry.groups * geometry.filters * depth(geometry)
}

/// Packs weights: each group in panels of rows, each panel by quads, and each quad with the four
/// bytes of one row after those of another.
pub fn pack_weights<T: Copy + Default>(w: &[T], y: &mut [T], geometry: &Conv<'_>) {
    let (padded, rows) = (depth(geometry), geometry.groups * geometry.filters);
    let k = w.len().checked_div(rows).unwrap_or(0);
    for row in 0..rows {
        let (group, i) = (row / geometry.filters, row % geometry.filters);
        let panel = i / PANEL_ROWS * PANEL_ROWS;
        let height = PANEL_ROWS.min(geometry.filters - panel);
        let first = (group * geometry.filters + panel) * padded + (i - panel) * 4;
        let mut at = 0;
        while at < padded {
            let x = if at < k { w[row * k + at] } else { T::default() };
            y[first + at / 4 * 4 * height + at % 4] = x;
            at += 1;
        }
    }
}

/// `y = w ∗ (x - x_zero)`, requantized. The weights are packed by [`pack_weights`] and have no zero
/// point. The bias includes `-x_zero` times the sum of the weights, for unsigned `x`.
#[inline(always)]
pub fn int8_conv_nchw<X: Byte, Y: Byte>(
    operands: Int8Operands<'_, X>,
    y: &mut [Y],
    starts: &mut [u32],
    scratch: &mut [u8],
    geometry: Conv<'_>,
    to: Requantize,
) {
    convolve(operands, &[], (y, starts, scratch), geometry, to);
}

/// `y = (w - w_zero) ∗ (x - x_zero)`, requantized. The weights are packed by [`pack_weights`]. The
/// bias includes `-x_zero` times the sum of the weights without their zero point, for unsigned `x`.
#[inline(always)]
pub fn int8_conv_nchw_with_zeros<X: Byte, Y: Byte>(
    operands: ZeroPointOperands<'_, X>,
    y: &mut [Y],
    starts: &mut [u32],
    scratch: &mut [u8],
    geometry: Conv<'_>,
    to: Requantize,
) {
    let (operands, zeros) = operands.split();
    convolve(operands, zeros, (y, starts, scratch), geometry, to);
}

#[inline(never)]
fn convolve<X: Byte, Y: Byte>(
    operands: Int8Operands<'_, X>,
    zeros: &[i32],
    (y, starts, scratch): (&mut [Y], &mut [u32], &mut [u8]),
    geometry: Conv<'_>,
    to: Requantize,
) {
    let Int8Operands { x, w, bias, factor, offset } = operands;
    let planes = Planes::of(&geometry);
    let (depths, pixels) = planes.depths();
    if y.is_empty() || depths * pixels == 0 {
        return;
    }
    planes.starts(starts);
    let of = Convolution {
        x: X::bits(x),
        w: i8::bits(w),
        starts,
        geometry,
        first: 0,
        x_zero: to.x_zero as u8,
        flip: X::FLIP,
    };
    let channels = Channels::new(bias, factor, offset);
    let windows = Windows::new(zeros, geometry.channels * planes.taps());
    share(of, ToBytes { channels, windows, to, flip: Y::FLIP }, Y::bits_mut(y), scratch);
}

/// Computes a convolution, on several threads where that pays.
#[inline(always)]
fn share<R: Results>(of: Convolution<'_>, results: R, y: &mut [R::Element], scratch: &mut [u8]) {
    let Conv { batch, groups, filters, .. } = of.geometry;
    let (depths, pixels) = Planes::of(&of.geometry).depths();
    let scratch = Scratch::new(scratch);
    let cost = y.len() * depth(&of.geometry) / MACS_PER_ELEMENT;
    // A single part is compiled into the same loop.
    if batch * groups > 1 || !cfg!(feature = "threads") {
        return threads::share(y, filters * depths * pixels, cost, |first, y| {
            let of = Convolution { first, ..of };
            scratch.with(|scratch| dispatch_bytes(Work { of, results, y, scratch }));
        });
    }
    threads::share(y, PANEL_ROWS * depths * pixels, cost, |first, y| {
        let first = first * PANEL_ROWS;
        let of = of.filters(first, y.len() / (depths * pixels));
        let results = results.from(first);
        scratch.with(|scratch| dispatch_bytes(Work { of, results, y, scratch }));
    });
}

/// The number of 8-bit multiply-adds that take as long as one element.
const MACS_PER_ELEMENT: usize = 4 * threads::MACS_PER_ELEMENT;

#[derive(Clone, Copy)]
struct Convolution<'a> {
    x: &'a [u8],
    w: &'a [u8],
    starts: &'a [u32],
    geometry: Conv<'a>,
    /// The first group of the output, counted over all images.
    first: usize,
    /// The bits of the input's zero point, which is the padding.
    x_zero: u8,
    /// The mask whose XOR makes the bits of the input unsigned.
    flip: u8,
}

impl Convolution<'_> {
    /// Restricts the convolution to some filters of its only group.
    fn filters(self, first: usize, filters: usize) -> Self {
        Convolution {
            w: &self.w[first * depth(&self.geometry)..],
            geometry: Conv { filters, ..self.geometry },
            ..self
        }
    }
}

/// The form of the results.
trait Results: Copy + Sync {
    /// The element type of the output.
    type Element: Send;

    /// Returns the results of the channels from `first` on.
    fn from(self, first: usize) -> Self;
    /// Computes the output of one group at one depth.
    fn compute<S: Bytes>(
        self,
        s: S,
        image: &Image<'_>,
        to: Plane<'_, Self::Element>,
        scratch: &mut [u8],
    );
}

/// The output of whole groups.
struct Work<'a, R: Results> {
    of: Convolution<'a>,
    results: R,
    y: &'a mut [R::Element],
    scratch: &'a mut [u8],
}

impl<R: Results> WithBytes for Work<'_, R> {
    #[inline(always)]
    fn run<S: Bytes>(self, s: S) {
        let Work { of, results, y, scratch } = self;
        let planes = Planes::of(&of.geometry);
        let Conv { groups, channels, filters, .. } = of.geometry;
        let (depths, pixels) = planes.depths();
        let len = if planes.is_input() { 0 } else { planes.len() + MAX_BYTES };
        let (copy, rest) = split_aligned(scratch, len);
        copy.fill(of.x_zero);
        let (_, rest) = split_aligned(rest, 0);
        let size = channels * planes.channel();
        let rows = filters * depth(&of.geometry);
        for (index, y) in (of.first..).zip(y.chunks_exact_mut(filters * depths * pixels)) {
            let group = index % groups;
            let mut x = &of.x[index * size..][..size];
            if !planes.is_input() {
                planes.fill(x, copy);
                x = copy;
            }
            let results = results.from(group * filters);
            for depth in 0..depths {
                let image = Image {
                    x: &x[depth * planes.depth_step()..],
                    w: &of.w[group * rows..][..rows],
                    starts: of.starts,
                    flip: quad(of.flip),
                    planes,
                    filters,
                };
                let to = Plane { y: &mut y[depth * pixels..], row: depths * pixels };
                results.compute(s, &image, to, rest);
            }
        }
    }
}

/// Requantized bytes.
#[derive(Clone, Copy)]
struct ToBytes<'a> {
    channels: Channels<'a>,
    windows: Windows<'a>,
    to: Requantize,
    flip: u8,
}

impl Results for ToBytes<'_> {
    type Element = u8;

    #[inline(always)]
    fn from(self, first: usize) -> Self {
        ToBytes { channels: self.channels.from(first), windows: self.windows.from(first), ..self }
    }

    #[inline(always)]
    fn compute<S: Bytes>(self, s: S, image: &Image<'_>, to: Plane<'_, u8>, scratch: &mut [u8]) {
        if S::IS_SCALAR {
            return image.run_scalar((self.channels, self.windows), self.to, to, scratch);
        }
        let row = RowEpilogue { ends: self.channels, limits: Limits::new(s, self.to, self.flip) };
        match image.planes.channels() {
            1 if self.windows.is_empty() => image.channel(s, row, to, scratch),
            _ => image.product(s, (row, self.windows), to, scratch),
        }
    }
}

/// The output at one depth.
struct Plane<'a, T> {
    y: &'a mut [T],
    /// The channel stride.
    row: usize,
}

impl<T: Copy> Plane<'_, T> {
    /// Stores the results of channel `i` from column `j` on. Lines are `pitch` columns apart, of
    /// which the first `width` are results.
    #[inline(always)]
    fn store(&mut self, mut results: &[T], [i, j]: [usize; 2], [pitch, width]: [usize; 2]) {
        let y = &mut self.y[i * self.row..];
        let (mut line, mut at) = (j / pitch, j % pitch);
        while !results.is_empty() {
            let (here, rest) = results.split_at(results.len().min(pitch - at));
            let n = here.len().min(width.saturating_sub(at));
            if n > 0 {
                y[line * width + at..][..n].copy_from_slice(&here[..n]);
            }
            (results, line, at) = (rest, line + 1, 0);
        }
    }
}

/// The operands of one group of the output at one depth.
struct Image<'a> {
    x: &'a [u8],
    w: &'a [u8],
    starts: &'a [u32],
    flip: i32,
    planes: Planes,
    filters: usize,
}

impl Image<'_> {
    /// Returns the bytes from `at` on, or an empty slice out of bounds.
    #[inline(always)]
    fn bytes_at(&self, start: u32, at: usize) -> &[u8] {
        self.x.get(start as usize + at..).unwrap_or(&[])
    }

    /// Loads four rows from column `j` on, interleaved as four vectors.
    #[inline(always)]
    fn quad<S: Bytes>(&self, s: S, starts: &[u32; 4], j: usize) -> [Vector<S>; 4] {
        let flip = s.level().splat_i32(self.flip);
        let mut rows = [flip; 4];
        for (row, &start) in rows.iter_mut().zip(starts) {
            *row = s.xor(s.load_bytes(self.bytes_at(start, j)), flip);
        }
        s.interleave(rows)
    }

    /// Computes one filter after another, each on the only channel.
    #[inline(always)]
    fn channel<S: Bytes>(
        &self,
        s: S,
        row: RowEpilogue<'_, S>,
        to: Plane<'_, u8>,
        scratch: &mut [u8],
    ) {
        let columns = self.planes.columns();
        let (pitch, width) = self.planes.lines();
        let (starts, _) = self.starts.as_chunks::<4>();
        for filter in 0..self.filters {
            let (panel, i) = (filter / PANEL_ROWS * PANEL_ROWS, filter % PANEL_ROWS);
            let height = PANEL_ROWS.min(self.filters - panel);
            let weights = &self.w[panel * 4 * starts.len() + i * 4..];
            for j in (0..columns).step_by(4 * S::LANES) {
                let mut sums = [row.start(s, filter); 4];
                for (q, starts) in starts.iter().enumerate() {
                    let w = weights[q * 4 * height..].first_chunk().expect("a quad of weights");
                    let w = s.level().splat_i32(i32::from_ne_bytes(*w));
                    let columns = self.quad(s, starts, j);
                    for (sum, column) in sums.iter_mut().zip(columns) {
                        *sum = s.dot(*sum, column, w);
                    }
                }
                let bytes = row.limits.bits(s, s.collect(row.rounded(s, filter, &sums)));
                s.store_bytes(bytes, &mut scratch[j..]);
            }
            let y = &mut to.y[filter * to.row..];
            let lines = y.chunks_exact_mut(width).zip(scratch.chunks(pitch));
            for (y, line) in lines.take(columns.div_ceil(pitch)) {
                y.copy_from_slice(&line[..width]);
            }
        }
    }

    /// Computes all filters, on as many columns together as a panel has.
    #[inline(always)]
    fn product<S: Bytes>(
        &self,
        s: S,
        (row, windows): (RowEpilogue<'_, S>, Windows<'_>),
        to: Plane<'_, u8>,
        scratch: &mut [u8],
    ) {
        let columns = self.planes.columns();
        let (starts, _) = self.starts.as_chunks::<4>();
        let (pitch, width) = self.planes.lines();
        let mut end = Lines { row, windows, to, pitch, width, columns };
        let mut j = 0;
        while j < columns {
            let width = if columns - j <= 3 * S::LANES { S::LANES } else { 4 * S::LANES };
            let panel = &mut scratch[..starts.len() * 4 * width];
            self.pack(s, starts, j, width, panel);
            end.windows.add(s, panel, j, width);
            let block = Int8Block {
                m: self.filters,
                quads: starts.len(),
                left: LeftOperand::Panels(self.w),
                right: panel,
                width,
                first: j,
            };
            block.run(s, &mut end);
            j += width;
        }
    }

    /// Packs a panel of one vector of columns, in order, or of four, in the order of
    /// [`Bytes::interleave`].
    #[inline(always)]
    fn pack<S: Bytes>(&self, s: S, starts: &[[u32; 4]], j: usize, width: usize, panel: &mut [u8]) {
        for (starts, to) in starts.iter().zip(panel.chunks_exact_mut(4 * width)) {
            if width == S::LANES {
                self.pack_few(s, starts, j, to);
                continue;
            }
            let columns = self.quad(s, starts, j);
            for (column, to) in columns.iter().zip(to.chunks_exact_mut(width)) {
                s.store_bytes(*column, to);
            }
        }
    }

    /// Packs the columns of one vector, in order.
    #[inline(always)]
    fn pack_few<S: Bytes>(&self, s: S, starts: &[u32; 4], j: usize, to: &mut [u8]) {
        let flip = s.level().splat_i32(self.flip);
        let mut rows = [[0; MAX_SUMS]; 4];
        for (row, &start) in rows.iter_mut().zip(starts) {
            let from = self.bytes_at(start, j);
            match from.first_chunk() {
                Some(whole) => *row = *whole,
                None => row[..from.len()].copy_from_slice(from),
            }
        }
        let [a, b, c, d] = &rows;
        s.store_bytes(s.xor(s.interleave_few([a, b, c, d]), flip), to);
    }
}

/// The epilogue of rows of accumulators, each a channel.
struct RowEpilogue<'a, S: Bytes> {
    ends: Channels<'a>,
    limits: Limits<S>,
}

impl<S: Bytes> RowEpilogue<'_, S> {
    #[inline(always)]
    fn start(&self, s: S, i: usize) -> Vector<S> {
        s.level().splat_i32(self.ends.bias[i])
    }

    /// Requantizes the accumulators of row `i`, and leaves each byte in its 32-bit lane.
    #[inline(always)]
    fn rounded<const V: usize>(&self, s: S, i: usize, sums: &[Vector<S>; V]) -> [Vector<S>; V] {
        let factor = self.ends.factor[i];
        let mut bytes = *sums;
        if let Some(&offset) = self.ends.offset.get(i) {
            let l = s.level();
            let (factor, offset) = (l.splat(factor), l.splat(offset));
            for byte in &mut bytes {
                *byte = self.limits.round(s, l.add(l.mul(l.to_f32(*byte), factor), offset));
            }
        } else {
            scale(s, &mut bytes, factor);
            bytes.iter_mut().for_each(|byte| *byte = self.limits.cap(s, *byte));
        }
        bytes
    }
}

/// Multiplies accumulators by a factor and rounds them.
#[inline(always)]
fn scale<S: Bytes, const V: usize>(s: S, sums: &mut [Vector<S>; V], factor: f32) {
    let l = s.level();
    if let Some(Multiplier { mantissa, shift }) = Multiplier::of(factor) {
        let half = l.splat_i32(1 << (shift - 1));
        let (mantissa, shift) = (l.splat_i32(mantissa), l.splat_i32(shift as i32));
        for sum in sums {
            *sum = s.shr_each(l.add_i32(s.mul_high(*sum, mantissa), half), shift);
        }
        return;
    }
    for sum in sums {
        *sum = scale_each(s, *sum, &[factor; MAX_SUMS]);
    }
}

/// Stores rows of accumulators as lines of the output.
struct Lines<'a, S: Bytes> {
    row: RowEpilogue<'a, S>,
    windows: Windows<'a>,
    to: Plane<'a, u8>,
    pitch: usize,
    width: usize,
    columns: usize,
}

impl<S: Bytes> Int8Epilogue<S> for Lines<'_, S> {
    #[inline(always)]
    fn start(&self, s: S, i: usize, j: usize) -> Vector<S> {
        self.windows.starts(s, i, j, self.row.ends.bias[i])
    }

    #[inline(always)]
    fn take<const V: usize>(&mut self, s: S, i: usize, j: usize, sums: &[Vector<S>; V]) {
        let bytes = self.row.rounded(s, i, sums);
        let n = (self.columns - j).min(V * S::LANES);
        if let [a, b, c, d] = bytes.as_slice() {
            let bits = self.row.limits.bits(s, s.collect([*a, *b, *c, *d]));
            if self.pitch == self.width {
                return s.store_bytes(bits, &mut self.to.y[i * self.to.row + j..][..n]);
            }
            let mut line = [0; MAX_BYTES];
            s.store_bytes(bits, &mut line);
            return self.to.store(&line[..n], [i, j], [self.pitch, self.width]);
        }
        for (v, &byte) in bytes.iter().enumerate() {
            let line = s.low_bytes(self.row.limits.bits(s, byte));
            let j = j + v * S::LANES;
            let n = (self.columns - j).min(S::LANES);
            self.to.store(&line[..n], [i, j], [self.pitch, self.width]);
        }
    }
}
