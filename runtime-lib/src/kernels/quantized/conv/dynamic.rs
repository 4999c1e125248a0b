//! Convolutions whose input is quantized at run time: their results are floats.

use super::{
    ALIGN, Convolution, Image, MAX_BYTES, MAX_SUMS, PANEL_ROWS, Plane, Planes, Results, depth,
    share, windows::Windows,
};
use crate::kernels::conv::Conv;
use crate::microkernel::int8_operands::{Int8Block, Int8Epilogue, LeftOperand};
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
        x_scale,
        x_zero: x_zero.into(),
        windows: Windows::new(w_zero.unwrap_or(&[]), geometry.channels * planes.taps()),
        w_scale,
        sums,
        bias: bias.unwrap_or(&[]),
    };
    share(of, results, y, scratch);
}

/// Scaled accumulators.
#[derive(Clone, Copy)]
struct ToFloats<'a> {
    x_scale: f32,
    x_zero: i32,
    windows: Windows<'a>,
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
    fn scaling(&self, i: usize) -> (f32, Option<f32>) {
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
            windows: self.windows.from(first),
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
        let mut end = Lines { of: self, to, pitch, width, columns };
        let (starts, _) = image.starts.as_chunks::<4>();
        let mut j = 0;
        while j < columns {
            let width = if columns - j <= 3 * S::LANES { S::LANES } else { 4 * S::LANES };
            let panel = &mut scratch[..starts.len() * 4 * width];
            image.pack(s, starts, j, width, panel);
            end.of.windows.add(s, panel, j, width);
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
            for first in (0..image.filters).step_by(PANEL_ROWS) {
                let step = PANEL_ROWS.min(image.filters - first);
                let (mut bias, mut sums) = ([0; PANEL_ROWS], [[0; COLUMNS]; PANEL_ROWS]);
                for (i, bias) in bias[..step].iter_mut().enumerate() {
                    *bias = self.start(first + i);
                }
                let weights = &weights[first * panel.len()..];
                add_products(panel, weights, step, &bias[..step], &mut sums);
                self.windows.subtract(image, (at, n), first, &mut sums[..step]);
                for (i, sums) in (first..).zip(&sums[..step]) {
                    self.store(i, sums, &mut to.y[i * to.row + from..][..n]);
                }
            }
        });
    }

    /// Scales and stores accumulators of filter `i`.
    fn store(&self, i: usize, sums: &[i32; COLUMNS], y: &mut [f32]) {
        let (factor, bias) = self.scaling(i);
        for (y, &sum) in y.iter_mut().zip(sums) {
            let real = sum as f32 * factor;
            *y = bias.map_or(real, |bias| real + bias);
        }
    }
}

/// Stores rows of accumulators as lines of the output.
struct Lines<'a, 'b> {
    of: ToFloats<'b>,
    to: Plane<'a, f32>,
    pitch: usize,
    width: usize,
    columns: usize,
}

impl<S: Bytes> Int8Epilogue<S> for Lines<'_, '_> {
    #[inline(always)]
    fn start(&self, s: S, i: usize, j: usize) -> Vector<S> {
        self.of.windows.starts(s, i, j, self.of.start(i))
    }

    #[inline(always)]
    fn take<const V: usize>(&mut self, s: S, i: usize, j: usize, sums: &[Vector<S>; V]) {
        let l = s.level();
        let (factor, bias) = self.of.scaling(i);
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
            self.to.store(&line[..n], [i, j], [self.pitch, self.width]);
        }
    }
}
