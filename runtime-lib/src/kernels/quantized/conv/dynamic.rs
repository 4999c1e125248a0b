//! Convolutions whose input is quantized at run time: their results are floats.

use super::{
    ALIGN, Convolution, Image, MAX_BYTES, MAX_SUMS, PANEL_ROWS, Plane, Planes, Results, depth,
    share,
};
use crate::kernels::conv::Conv;
use crate::microkernel::int8_tile::{Int8Block, Int8Epilogue, LeftOperand};
use crate::simd::Simd;
use crate::simd::int8::{Byte, Bytes, COLUMNS, Vector, add_products};

/// The operands of a convolution with dynamic quantization.
#[derive(Clone, Copy, Debug)]
pub struct DynamicConvOperands<'a> {
    /// The input.
    pub x: &'a [u8],
    /// The scale of the input.
    pub x_scale: &'a [f32],
    /// The zero point of the input.
    pub x_zero: &'a [u8],
    /// The packed weights.
    pub w: &'a [i8],
    /// The zero point of each filter, 0 if there are none.
    pub w_zero: Option<&'a [i32]>,
    /// The scale of each filter.
    pub w_scale: &'a [f32],
    /// The sum of the weights of each filter without their zero point.
    pub sums: &'a [i32],
    /// One element for each filter.
    pub bias: Option<&'a [f32]>,
}

/// Returns the length of the scratch buffer, in bytes.
pub const fn dynamic_conv_scratch(geometry: &Conv<'_>) -> usize {
    let planes = Planes::of(geometry);
    let input = if planes.is_input() { 0 } else { planes.len() + MAX_BYTES };
    input + depth(geometry) * MAX_BYTES + 2 * ALIGN
}

/// `y = (w - w_zero) ∗ (x - x_zero) · x_scale · w_scale + bias`, where the quantization of `x` is
/// computed at run time. The weights are packed by [`pack_weights`](super::pack_weights).
#[inline(never)]
pub fn dynamic_conv_nchw(
    operands: DynamicConvOperands<'_>,
    y: &mut [f32],
    starts: &mut [u32],
    scratch: &mut [u8],
    geometry: Conv<'_>,
) {
    let DynamicConvOperands { x, x_scale, x_zero, w, w_zero, w_scale, sums, bias } = operands;
    let planes = Planes::of(&geometry);
    let (depths, pixels) = planes.depths();
    if y.is_empty() || depths * pixels == 0 {
        return;
    }
    planes.starts(starts);
    let (x_scale, x_zero) = (x_scale[0], x_zero[0]);
    let w = i8::bits(w);
    let of = Convolution { x, w, starts, geometry, first: 0, x_zero, flip: 0 };
    let results = ToFloats {
        taps: geometry.channels * planes.taps(),
        x_scale,
        x_zero: x_zero.into(),
        w_zero: w_zero.unwrap_or(&[]),
        w_scale,
        sums,
        bias: bias.unwrap_or(&[]),
    };
    share(of, results, y, scratch);
}

/// Scaled accumulators.
#[derive(Clone, Copy)]
struct ToFloats<'a> {
    /// The number of weights of a filter.
    taps: usize,
    x_scale: f32,
    x_zero: i32,
    w_zero: &'a [i32],
    w_scale: &'a [f32],
    sums: &'a [i32],
    bias: &'a [f32],
}

impl ToFloats<'_> {
    /// The initial accumulator of filter `i`.
    #[inline(always)]
    fn start(&self, i: usize) -> i32 {
        self.x_zero.wrapping_mul(self.sums[i]).wrapping_neg()
    }

    /// The factor and the addend of filter `i`.
    #[inline(always)]
    fn line(&self, i: usize) -> (f32, Option<f32>) {
        (self.x_scale * self.w_scale[i], self.bias.get(i).copied())
    }
}

impl Results for ToFloats<'_> {
    type Element = f32;

    #[inline(always)]
    fn from(self, first: usize) -> Self {
        fn rest<T>(numbers: &[T], first: usize) -> &[T] {
            numbers.get(first..).unwrap_or(&[])
        }
        ToFloats {
            w_zero: rest(self.w_zero, first),
            w_scale: rest(self.w_scale, first),
            sums: rest(self.sums, first),
            bias: rest(self.bias, first),
            ..self
        }
    }

    #[inline(always)]
    fn compute<S: Bytes>(self, s: S, image: &Image<'_>, to: Plane<'_, f32>, scratch: &mut [u8]) {
        if S::IS_SCALAR {
            return self.compute_columns(image, to, scratch);
        }
        let (pitch, width) = image.planes.lines();
        let columns = image.planes.columns();
        let windows = [0; 4 * MAX_SUMS];
        let mut end = Lines { of: self, to, pitch, width, columns, first: 0, windows };
        let (starts, _) = image.starts.as_chunks::<4>();
        let mut j = 0;
        while j < columns {
            let width = if columns - j <= 3 * S::LANES { S::LANES } else { 4 * S::LANES };
            let panel = &mut scratch[..starts.len() * 4 * width];
            image.pack(s, starts, j, width, panel);
            if !self.w_zero.is_empty() {
                end.add_windows(s, panel, width);
            }
            end.first = j;
            let block = Int8Block {
                m: image.filters,
                quads: starts.len(),
                left: LeftOperand::Panels(image.w),
                right: panel,
                width,
                first: j,
            };
            block.run(s, &mut end);
            j += width;
        }
    }
}

impl ToFloats<'_> {
    /// Computes four columns at a time, without vectors.
    #[inline(never)]
    fn compute_columns(&self, image: &Image<'_>, to: Plane<'_, f32>, scratch: &mut [u8]) {
        let (weights, _) = image.w.as_chunks::<4>();
        image.each_column(scratch, |panel, at, from, n| {
            let windows = match self.w_zero.is_empty() {
                true => [0; COLUMNS],
                false => self.windows(image, at, n),
            };
            for first in (0..image.filters).step_by(PANEL_ROWS) {
                let step = PANEL_ROWS.min(image.filters - first);
                let (mut bias, mut sums) = ([0; PANEL_ROWS], [[0; COLUMNS]; PANEL_ROWS]);
                for (i, bias) in bias[..step].iter_mut().enumerate() {
                    *bias = self.start(first + i);
                }
                let weights = &weights[first * panel.len()..];
                add_products(panel, weights, step, &bias[..step], &mut sums);
                for (i, sums) in (first..).zip(&sums[..step]) {
                    self.store(i, sums, &windows, &mut to.y[i * to.row + from..][..n]);
                }
            }
        });
    }

    /// Returns the sums of the windows of `n` columns from position `at` of the planes on.
    fn windows(&self, image: &Image<'_>, at: usize, n: usize) -> [i32; COLUMNS] {
        let mut windows = [0; COLUMNS];
        for (j, window) in windows[..n].iter_mut().enumerate() {
            let bytes = image.starts[..self.taps].iter().map(|&start| start as usize + at + j);
            *window = bytes.map(|at| i32::from(image.x[at])).sum();
        }
        windows
    }

    /// Scales and stores accumulators of filter `i`.
    fn store(&self, i: usize, sums: &Columns, windows: &Columns, y: &mut [f32]) {
        let zero = self.w_zero.get(i).copied().unwrap_or(0);
        let (factor, bias) = self.line(i);
        for ((y, &sum), &window) in y.iter_mut().zip(sums).zip(windows) {
            let real = sum.wrapping_sub(zero.wrapping_mul(window)) as f32 * factor;
            *y = bias.map_or(real, |bias| real + bias);
        }
    }
}

type Columns = [i32; COLUMNS];

/// Stores rows of accumulators as lines of the output.
struct Lines<'a, 'b> {
    of: ToFloats<'b>,
    to: Plane<'a, f32>,
    pitch: usize,
    width: usize,
    columns: usize,
    /// The first column of the panel.
    first: usize,
    /// The sums of the windows of the panel's columns, in the order of the panel, if the weights
    /// have zero points.
    windows: [i32; 4 * MAX_SUMS],
}

impl Lines<'_, '_> {
    /// Sums the windows of a panel of `width` columns.
    #[inline(always)]
    fn add_windows<S: Bytes>(&mut self, s: S, panel: &[u8], width: usize) {
        let l = s.level();
        for (v, windows) in self.windows[..width].chunks_exact_mut(S::LANES).enumerate() {
            let mut sums = l.splat_i32(0);
            for (q, quads) in panel.chunks_exact(4 * width).enumerate() {
                // The padding of the last quad has no weights.
                let taps = [0, 1, 2, 3].map(|tap| u8::from(4 * q + tap < self.of.taps));
                let ones = l.splat_i32(i32::from_ne_bytes(taps));
                sums = s.dot(sums, s.load_bytes(&quads[v * 4 * S::LANES..]), ones);
            }
            s.store_sums(sums, windows);
        }
    }

    /// Stores the results from column `j` on, without the columns between lines.
    #[inline(always)]
    fn lines(&mut self, mut line_of_results: &[f32], i: usize, j: usize) {
        let y = &mut self.to.y[i * self.to.row..];
        let (mut line, mut at) = (j / self.pitch, j % self.pitch);
        while !line_of_results.is_empty() {
            let len = line_of_results.len().min(self.pitch - at);
            let (here, rest) = line_of_results.split_at(len);
            let n = here.len().min(self.width.saturating_sub(at));
            if n > 0 {
                y[line * self.width + at..][..n].copy_from_slice(&here[..n]);
            }
            (line_of_results, line, at) = (rest, line + 1, 0);
        }
    }
}

impl<S: Bytes> Int8Epilogue<S> for Lines<'_, '_> {
    #[inline(always)]
    fn start(&self, s: S, i: usize, j: usize) -> Vector<S> {
        let mut starts = [self.of.start(i); MAX_SUMS];
        if let Some(&zero) = self.of.w_zero.get(i) {
            for (start, &window) in starts.iter_mut().zip(&self.windows[j - self.first..]) {
                *start = start.wrapping_sub(zero.wrapping_mul(window));
            }
        }
        s.load_sums(&starts)
    }

    #[inline(always)]
    fn take<const V: usize>(&mut self, s: S, i: usize, j: usize, sums: &[Vector<S>; V]) {
        let l = s.level();
        let (factor, bias) = self.of.line(i);
        let mut ordered = *sums;
        if let [a, b, c, d] = ordered.as_mut_slice() {
            [*a, *b, *c, *d] = s.in_order([*a, *b, *c, *d]);
        }
        for (v, sum) in ordered.into_iter().enumerate() {
            let j = j + v * S::LANES;
            let Some(n) = self.columns.checked_sub(j).filter(|&n| n > 0) else { return };
            let n = n.min(S::LANES);
            let mut x = l.mul(l.to_f32(sum), l.splat(factor));
            if let Some(bias) = bias {
                x = l.add(x, l.splat(bias));
            }
            if self.pitch == self.width {
                l.store_head(x, &mut self.to.y[i * self.to.row + j..][..n]);
                continue;
            }
            let mut line = [0.0; MAX_SUMS];
            l.store(x, &mut line);
            self.lines(&line[..n], i, j);
        }
    }
}
