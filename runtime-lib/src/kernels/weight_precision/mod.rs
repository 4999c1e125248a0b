//! Constant weights in reduced precision: 16-bit floats, or `int8` with a scale per channel.
//!
//! The weights are in the order in which `f32` kernels read them. They are widened to `f32` block
//! by block in a kernel ([`gemm_bf16`] …), or all at once before a call ([`widen_bf16`] …).
//! Accumulators are `f32`. Widening is exact: only rounding the weights loses precision.

#[cfg(feature = "conv")]
mod conv;
#[cfg(all(test, feature = "conv", feature = "std"))]
mod tests;

use crate::kernels::matmul;
use crate::kernels::matmul::{Gemm, Layout};
use crate::loops::epilogue::Activation;
use crate::loops::geometry::BLOCK;
use crate::microkernel;
use crate::microkernel::{FusedActivation, Wide, Widen};
use crate::simd::bf16_pair::PAIR;
use crate::simd::{self, Simd, WithSimd, dispatch, has_pairs};
use crate::threads;
#[cfg(feature = "conv")]
pub use conv::{
    conv_bf16, conv_nchw_to_nchwc_bf16, conv_scratch, nchw_to_nchwc_scratch, winograd_bf16,
    winograd_scratch,
};

/// The layout of the channels of packed weights: panels of `lanes` interleaved channels with `rows`
/// weights each. If `rows` exceeds `depth`, the first `depth` rows of all panels come first, then
/// the next rows of all panels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Panels {
    /// The number of interleaved channels.
    pub lanes: usize,
    /// The number of weights of a channel.
    pub rows: usize,
    /// The maximum number of rows of a panel.
    pub depth: usize,
}

impl Panels {
    /// The panels of [`matmul::pack_b`], whose channels are columns of `rows` elements.
    pub fn right(rows: usize) -> Panels {
        let lanes =
            matmul::packed_b_len::<f32>(&matmul::Packing { rows: 1, cols: 1, strides: [1, 1] });
        Panels { lanes, rows, depth: matmul::packed_b_depth(rows) }
    }

    /// The panels of [`matmul::pack_a`], whose channels are rows of `cols` elements.
    pub fn left(cols: usize) -> Panels {
        let lanes = matmul::packed_a_len(&matmul::Packing { rows: 1, cols: 1, strides: [1, 1] });
        Panels { lanes, rows: cols, depth: cols }
    }

    /// The panels of the NCHWc layout, with `rows` weights per channel.
    pub const fn blocks(rows: usize) -> Panels {
        Panels { lanes: BLOCK, rows, depth: rows }
    }

    /// ONNX's layout, in which the weights of a channel are contiguous.
    pub const fn plain(rows: usize) -> Panels {
        Panels { lanes: 1, rows, depth: rows }
    }

    /// Returns the index of the scale of element `at` of `len`, and the number of elements from
    /// there on whose scales follow in the same order.
    pub const fn factor(&self, at: usize, len: usize) -> (usize, usize) {
        let Panels { lanes, rows, depth } = *self;
        let across = len / rows / lanes;
        let (block, within) = (at / (across * lanes * depth), at % (across * lanes * depth));
        let there = if rows - block * depth < depth { rows - block * depth } else { depth };
        let (panel, place) = (within / (lanes * there), within % (lanes * there));
        ((block * across + panel) * lanes + place % lanes, lanes * there - place)
    }

    /// Returns the number of scales of `len` elements.
    pub const fn factors(&self, len: usize) -> usize {
        if len == 0 { 0 } else { len / self.rows * self.rows.div_ceil(self.depth) }
    }
}

/// Converts `bfloat16` to `f32`, of which it is the upper half.
#[inline(always)]
fn of_bf16(x: u16) -> f32 {
    f32::from_bits(u32::from(x) << 16)
}

/// Converts a finite `float16` to `f32`.
#[inline(always)]
fn of_f16(x: u16) -> f32 {
    // The power of two by which the exponent biases of `f32` and `float16` differ.
    const SCALE: f32 = f32::from_bits((127 + 112) << 23);
    let size = f32::from_bits(u32::from(x & 0x7fff) << 13) * SCALE;
    f32::from_bits(size.to_bits() | u32::from(x & 0x8000) << 16)
}

/// Numbers that are widened one by one.
struct Halves<'a, F> {
    x: &'a [u16],
    y: &'a mut [f32],
    of: F,
}

impl<F: Fn(u16) -> f32> WithSimd for Halves<'_, F> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        self.y.iter_mut().zip(self.x).for_each(|(y, &x)| *y = (self.of)(x));
    }
}

/// Elements of one panel, from its first lane on.
struct Scaled<'a> {
    x: &'a [i8],
    scales: &'a [f32],
    y: &'a mut [f32],
}

impl Scaled<'_> {
    #[inline(always)]
    fn rows<const LANES: usize>(self) {
        let (x, _) = self.x.as_chunks::<LANES>();
        let (y, _) = self.y.as_chunks_mut::<LANES>();
        let Some(scales) = self.scales.first_chunk::<LANES>() else { return };
        for (y, x) in y.iter_mut().zip(x) {
            for i in 0..LANES {
                y[i] = f32::from(x[i]) * scales[i];
            }
        }
    }
}

impl WithSimd for Scaled<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        match self.scales.len() {
            16 => self.rows::<16>(),
            64 => self.rows::<64>(),
            12 => self.rows::<12>(),
            _ => {
                let x = self.x.iter().zip(self.scales.iter().cycle());
                self.y.iter_mut().zip(x).for_each(|(y, (&x, scale))| *y = f32::from(x) * scale);
            }
        }
    }
}

/// `bfloat16` numbers.
struct Bf16<'a>(&'a [u16]);
/// Pairs of `bfloat16` numbers from two neighboring rows of a panel or of a block of channels.
struct Pairs<'a>(&'a [u32]);
/// Finite `float16` numbers.
struct F16<'a>(&'a [u16]);
/// `int8` numbers with a scale per channel.
struct Bytes<'a> {
    x: &'a [i8],
    scales: &'a [f32],
    panels: Panels,
}

impl Widen for Bf16<'_> {
    #[inline(never)]
    fn widen(&self, first: usize, y: &mut [f32]) {
        dispatch(Halves { x: &self.0[first..][..y.len()], y, of: of_bf16 });
    }
}

impl Widen for Pairs<'_> {
    #[inline(never)]
    fn widen(&self, first: usize, y: &mut [f32]) {
        dispatch(SplitRows { x: &self.0[first / PAIR..][..y.len() / PAIR], y });
    }
}

/// Rows of pairs, each of which becomes two rows.
struct SplitRows<'a> {
    x: &'a [u32],
    y: &'a mut [f32],
}

impl WithSimd for SplitRows<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        let (y, _) = self.y.as_chunks_mut::<{ PAIR * BLOCK }>();
        for (y, x) in y.iter_mut().zip(self.x.as_chunks::<{ BLOCK }>().0) {
            for i in 0..BLOCK {
                [y[i], y[BLOCK + i]] = simd::bf16_pair::split(x[i]);
            }
        }
    }
}

impl Widen for F16<'_> {
    #[inline(never)]
    fn widen(&self, first: usize, y: &mut [f32]) {
        dispatch(Halves { x: &self.0[first..][..y.len()], y, of: of_f16 });
    }
}

impl Widen for Bytes<'_> {
    #[inline(never)]
    fn widen(&self, first: usize, y: &mut [f32]) {
        let mut at = 0;
        while at < y.len() {
            let (factor, len) = self.panels.factor(first + at, self.x.len());
            let len = len.min(y.len() - at);
            let (x, y) = (&self.x[first + at..][..len], &mut y[at..at + len]);
            let scales = &self.scales[factor..][..self.panels.lanes];
            if let ([scale], 1) = (scales, self.panels.lanes) {
                dispatch(One { x, scale: *scale, y });
            } else {
                dispatch(Scaled { x, scales, y });
            }
            at += len;
        }
    }
}

/// Elements of one channel.
struct One<'a> {
    x: &'a [i8],
    scale: f32,
    y: &'a mut [f32],
}

impl WithSimd for One<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        self.y.iter_mut().zip(self.x).for_each(|(y, &x)| *y = f32::from(x) * self.scale);
    }
}

/// Widens all weights, on several threads if that pays. The parts start at multiples of `unit`.
fn all(weights: &dyn Widen, y: &mut [f32], unit: usize) {
    let cost = y.len() / 4;
    threads::share(y, unit, cost, |first, y| weights.widen(first * unit, y));
}

/// The number of elements that are widened together.
const UNIT: usize = 1 << 12;

/// Widens `bfloat16` numbers with the bits `x`.
pub fn widen_bf16(x: &[u16], y: &mut [f32]) {
    all(&Bf16(x), y, UNIT);
}

/// Widens finite `float16` numbers with the bits `x`.
pub fn widen_f16(x: &[u16], y: &mut [f32]) {
    all(&F16(x), y, UNIT);
}

/// Multiplies `x` by the scales of its channels.
pub fn widen_i8(x: &[i8], scales: &[f32], y: &mut [f32], panels: Panels) {
    if !x.is_empty() && panels.rows > 0 {
        all(&Bytes { x, scales, panels }, y, panels.lanes * panels.depth);
    }
}

/// Returns the length of the scratch buffer, in elements.
pub const fn gemm_scratch(geometry: &Gemm) -> usize {
    microkernel::wide_scratch(geometry.m, geometry.n, geometry.k)
}

/// `y = f(alpha · a · b + beta · c)`, where `b` has the bits of `bfloat16` numbers in the order of
/// [`matmul::pack_b`] for `f32`, except that two rows form pairs, the first in the lower bits. `k`
/// is even.
///
/// If the processor has an instruction for pairs, `a` is rounded to `bfloat16` too, unless it is a
/// single row.
// Inlined, so that a program contains only the activation functions that its models use.
#[inline(always)]
pub fn gemm_bf16(
    a: &[f32],
    b: &[u32],
    c: Option<&[f32]>,
    y: &mut [f32],
    scratch: &mut [f32],
    geometry: Gemm,
    f: Activation,
) {
    let compute = |y: &mut [_], f| product_bf16(a, b, c, y, scratch, geometry, f);
    FusedActivation::within(f, y, geometry.rows(), compute);
}

#[inline(never)]
fn product_bf16(
    a: &[f32],
    b: &[u32],
    c: Option<&[f32]>,
    y: &mut [f32],
    scratch: &mut [f32],
    geometry: Gemm,
    f: FusedActivation<f32>,
) {
    let is_row = geometry.m == 1 && matches!(geometry.a, Layout::Strides(_, 1));
    if is_row || has_pairs() {
        return matmul::gemm_pairs(a, b, c, y, scratch, geometry, f);
    }
    matmul::gemm_wide(a, Wide(&Pairs(b)), c, y, scratch, geometry, f);
}

/// Computes [`gemm_bf16`] for a `b` with the bits of finite `float16` numbers.
// Inlined, so that a program contains only the activation functions that its models use.
#[inline(always)]
pub fn gemm_f16(
    a: &[f32],
    b: &[u16],
    c: Option<&[f32]>,
    y: &mut [f32],
    scratch: &mut [f32],
    geometry: Gemm,
    f: Activation,
) {
    let compute = |y: &mut [_], f| matmul::gemm_wide(a, Wide(&F16(b)), c, y, scratch, geometry, f);
    FusedActivation::within(f, y, geometry.rows(), compute);
}

/// The operands of [`gemm_i8`].
#[derive(Clone, Copy, Debug)]
pub struct Int8GemmOperands<'a> {
    /// The left operand.
    pub a: &'a [f32],
    /// The packed right operand.
    pub b: &'a [i8],
    /// The scales of the columns of `b`, panel by panel.
    pub scales: &'a [f32],
    /// Added to the product.
    pub c: Option<&'a [f32]>,
}

/// Computes [`gemm_bf16`] for an `int8` right operand with a scale per column.
// Inlined, so that a program contains only the activation functions that its models use.
#[inline(always)]
pub fn gemm_i8(
    operands: Int8GemmOperands<'_>,
    y: &mut [f32],
    scratch: &mut [f32],
    geometry: Gemm,
    f: Activation,
) {
    let Int8GemmOperands { a, b, scales, c } = operands;
    let panels = Panels::right(geometry.k);
    let weights = Bytes { x: b, scales, panels };
    let compute = |y: &mut [_], f| matmul::gemm_wide(a, Wide(&weights), c, y, scratch, geometry, f);
    FusedActivation::within(f, y, geometry.rows(), compute);
}
