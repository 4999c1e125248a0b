//! Constant weights in fewer bits than they are calculated with: 16-bit floats, or bytes with a
//! factor for each channel. They stand in the order in which the kernels of `f32` read them, and are
//! widened to it, a part at a time where the kernel is told ([`gemm_bf16`] …), or all of them for the
//! call that follows ([`widen_bf16`] …). Sums are those of `f32`.
//!
//! A value is widened without error: what is lost was lost when the weights were rounded.

mod conv;
#[cfg(all(test, feature = "std"))]
mod tests;

use crate::kernels::matmul;
use crate::kernels::matmul::{Gemm, Layout};
use crate::loops::epilogue::Activation;
use crate::microkernel;
use crate::microkernel::{FusedActivation, Wide, Widen};
use crate::simd::bf16_pair::PAIR;
use crate::simd::{self, Simd, WithSimd, dispatch, has_pairs};
use crate::threads;
pub use conv::{
    conv_bf16, conv_nchw_to_nchwc_bf16, conv_scratch, nchw_to_nchwc_scratch, winograd_bf16,
    winograd_scratch,
};

/// Where the channels of packed weights are: panels of `lanes` channels, side by side, whose `rows`
/// weights follow each other; of more than `depth` rows, all panels have the first `depth` ones, then
/// all have the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Panels {
    /// Channels side by side.
    pub lanes: usize,
    /// Weights of a channel.
    pub rows: usize,
    /// The most of them in a panel.
    pub depth: usize,
}

impl Panels {
    /// Those of [`matmul::pack_b`]: a channel is one of the columns, of so many rows.
    pub fn right(rows: usize) -> Panels {
        let lanes =
            matmul::packed_b_len::<f32>(&matmul::Packing { rows: 1, cols: 1, strides: [1, 1] });
        Panels { lanes, rows, depth: matmul::packed_b_depth(rows) }
    }

    /// Those of [`matmul::pack_a`]: a channel is one of the rows, of so many columns.
    pub fn left(cols: usize) -> Panels {
        let lanes = matmul::packed_a_len(&matmul::Packing { rows: 1, cols: 1, strides: [1, 1] });
        Panels { lanes, rows: cols, depth: cols }
    }

    /// Those of channels in blocks, of so many weights each.
    pub const fn blocks(rows: usize) -> Panels {
        Panels { lanes: microkernel::BLOCK, rows, depth: rows }
    }

    /// Weights as they stand in ONNX: those of a channel follow each other.
    pub const fn plain(rows: usize) -> Panels {
        Panels { lanes: 1, rows, depth: rows }
    }

    /// The number of the factor that element `at` of `len` has, and how many elements from there on
    /// have factors that follow in the same way.
    pub const fn factor(&self, at: usize, len: usize) -> (usize, usize) {
        let Panels { lanes, rows, depth } = *self;
        let across = len / rows / lanes;
        let (block, within) = (at / (across * lanes * depth), at % (across * lanes * depth));
        let there = if rows - block * depth < depth { rows - block * depth } else { depth };
        let (panel, place) = (within / (lanes * there), within % (lanes * there));
        ((block * across + panel) * lanes + place % lanes, lanes * there - place)
    }

    /// How many factors so many elements have.
    pub const fn factors(&self, len: usize) -> usize {
        if len == 0 { 0 } else { len / self.rows * self.rows.div_ceil(self.depth) }
    }
}

/// `bfloat16` as `f32`: the upper half of its bits.
#[inline(always)]
fn of_bf16(x: u16) -> f32 {
    f32::from_bits(u32::from(x) << 16)
}

/// A finite `float16` as `f32`.
#[inline(always)]
fn of_f16(x: u16) -> f32 {
    // What the exponent of `f32` counts from lies so far from that of `float16`.
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
/// `bfloat16` numbers in pairs: of two neighboring rows of a panel or of a block of channels.
struct Pairs<'a>(&'a [u32]);
/// Finite `float16` numbers.
struct F16<'a>(&'a [u16]);
/// Bytes, and the factors of their channels.
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

/// Rows of pairs, of which each becomes two rows.
struct SplitRows<'a> {
    x: &'a [u32],
    y: &'a mut [f32],
}

impl WithSimd for SplitRows<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        let (y, _) = self.y.as_chunks_mut::<{ PAIR * microkernel::BLOCK }>();
        for (y, x) in y.iter_mut().zip(self.x.as_chunks::<{ microkernel::BLOCK }>().0) {
            for i in 0..microkernel::BLOCK {
                [y[i], y[microkernel::BLOCK + i]] = simd::bf16_pair::split(x[i]);
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

/// Widens all, on several threads where that pays, whose parts start at a multiple of `unit`.
fn all(weights: &dyn Widen, y: &mut [f32], unit: usize) {
    let cost = y.len() / 4;
    threads::share(y, unit, cost, |first, y| weights.widen(first * unit, y));
}

/// How many elements are widened at once.
const UNIT: usize = 1 << 12;

/// The `bfloat16` numbers whose bits are `x`.
pub fn widen_bf16(x: &[u16], y: &mut [f32]) {
    all(&Bf16(x), y, UNIT);
}

/// The finite `float16` numbers whose bits are `x`.
pub fn widen_f16(x: &[u16], y: &mut [f32]) {
    all(&F16(x), y, UNIT);
}

/// The bytes `x` times the factors of their channels.
pub fn widen_i8(x: &[i8], scales: &[f32], y: &mut [f32], panels: Panels) {
    if !x.is_empty() && panels.rows > 0 {
        all(&Bytes { x, scales, panels }, y, panels.lanes * panels.depth);
    }
}

/// How many elements of scratch memory the product wants.
pub const fn gemm_scratch(geometry: &Gemm) -> usize {
    microkernel::wide_scratch(geometry.m, geometry.n, geometry.k)
}

/// `y = f(alpha · a · b + beta · c)`, where `b` has the bits of `bfloat16` numbers, in the order of
/// [`matmul::pack_b`] for `f32`, but two rows as one of pairs: the first has the lower bits. `k` is even.
///
/// Where the processor multiplies pairs, `a` is rounded to `bfloat16`, too, unless it is a single row.
// Inlined, so that a program has no functions but those that its models name.
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

/// [`gemm_bf16`], where `b` has the bits of finite `float16` numbers.
// Inlined, so that a program has no functions but those that its models name.
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

/// The same, where `b` has bytes, and each panel of columns the factors of its columns.
// Inlined, so that a program has no functions but those that its models name.
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
