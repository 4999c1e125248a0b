//! `Gemm`: `y = f(alpha · a · b + beta · c)`.

use crate::Number;
use crate::loops::epilogue::Activation;
use crate::microkernel::{
    Addend, FusedActivation, GemmElem, Matrix, Operand, PANEL_ROWS, Pairs, Product, Target, Wide,
    block_depth, pack_blocks, pack_left, pack_rows, panel_cols, scratch,
};

/// The geometry of a product.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Gemm {
    /// The number of rows of the result.
    pub m: usize,
    /// The number of columns of the result.
    pub n: usize,
    /// The number of products that each element sums.
    pub k: usize,
    /// The layout of the left operand.
    pub a: Layout,
    /// The layout of the right operand.
    pub b: Layout,
    /// The row stride and the column stride of the bias `c`. The column stride is 1, or 0 if the
    /// bias is broadcast along the columns.
    pub c: [usize; 2],
    /// The row stride of the result.
    pub y_row: usize,
    /// The factor of the product.
    pub alpha: f32,
    /// The factor of the bias.
    pub beta: f32,
}

impl Gemm {
    /// The number of rows of the result, their length, and their stride.
    pub(crate) const fn rows(&self) -> [usize; 3] {
        [self.m, self.n, self.y_row]
    }
}

/// The layout of an operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// The row stride and the column stride.
    Strides(usize, usize),
    /// Packed in panels by [`pack_a`] or [`pack_b`].
    Packed,
}

/// Returns the length of the scratch buffer, in elements.
pub const fn gemm_scratch(geometry: &Gemm) -> usize {
    let Gemm { m, n, k, a, b, .. } = *geometry;
    let in_one_piece = matches!(b, Layout::Packed | Layout::Strides(_, 1) | Layout::Strides(1, _));
    if m == 1 && matches!(a, Layout::Strides(_, 1)) && in_one_piece {
        return 0;
    }
    scratch(m, n, k, matches!(a, Layout::Strides(..)), matches!(b, Layout::Strides(..)))
}

/// `y = f(alpha · a · b + beta · c)`.
// Inlined, so that a small program contains only the activation functions that its models use.
#[inline(always)]
pub fn gemm_f32(
    a: &[f32],
    b: &[f32],
    c: Option<&[f32]>,
    y: &mut [f32],
    scratch: &mut [f32],
    geometry: Gemm,
    f: Activation,
) {
    let compute = |y: &mut [_], f| product_f32(a, b, c, y, scratch, geometry, f);
    FusedActivation::within(f, y, geometry.rows(), compute);
}

#[inline(never)]
pub(crate) fn product_f32(
    a: &[f32],
    b: &[f32],
    c: Option<&[f32]>,
    y: &mut [f32],
    scratch: &mut [f32],
    geometry: Gemm,
    f: FusedActivation<f32>,
) {
    gemm_real(a, factor(b, geometry.b, Operand::Blocks), c, y, scratch, geometry, f);
}

/// Computes [`gemm_f32`] for a right operand of reduced precision, which is widened block by block.
#[inline(never)]
pub(crate) fn gemm_wide(
    a: &[f32],
    b: Wide<'_>,
    c: Option<&[f32]>,
    y: &mut [f32],
    scratch: &mut [f32],
    geometry: Gemm,
    f: FusedActivation<f32>,
) {
    gemm_real(a, Operand::Wide(b), c, y, scratch, geometry, f);
}

/// Computes [`gemm_f32`] for a right operand in pairs, with an even number of rows, at SIMD levels
/// with an instruction for pairs.
#[inline(never)]
pub(crate) fn gemm_pairs(
    a: &[f32],
    b: &[u32],
    c: Option<&[f32]>,
    y: &mut [f32],
    scratch: &mut [f32],
    geometry: Gemm,
    f: FusedActivation<f32>,
) {
    gemm_real(a, Operand::Pairs(Pairs::of(b)), c, y, scratch, geometry, f);
}

/// `y = f(alpha · a · b + beta · c)`.
// Inlined, so that a small program contains only the activation functions that its models use.
#[inline(always)]
pub fn gemm_f64(
    a: &[f64],
    b: &[f64],
    c: Option<&[f64]>,
    y: &mut [f64],
    scratch: &mut [f64],
    geometry: Gemm,
    f: Activation,
) {
    let compute = |y: &mut [_], f| product_f64(a, b, c, y, scratch, geometry, f);
    FusedActivation::within(f, y, geometry.rows(), compute);
}

#[inline]
pub(crate) fn product_f64(
    a: &[f64],
    b: &[f64],
    c: Option<&[f64]>,
    y: &mut [f64],
    scratch: &mut [f64],
    geometry: Gemm,
    f: FusedActivation<f64>,
) {
    gemm_real(a, factor(b, geometry.b, Operand::Blocks), c, y, scratch, geometry, f);
}

/// A matrix to be packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packing {
    /// The number of rows.
    pub rows: usize,
    /// The number of columns.
    pub cols: usize,
    /// The row stride and the column stride.
    pub strides: [usize; 2],
}

/// Returns the number of elements that [`pack_a`] writes.
pub const fn packed_a_len(geometry: &Packing) -> usize {
    geometry.rows.next_multiple_of(PANEL_ROWS) * geometry.cols
}

/// Returns the number of elements that [`pack_b`] writes.
pub const fn packed_b_len<T>(geometry: &Packing) -> usize {
    geometry.cols.next_multiple_of(panel_cols::<T>()) * geometry.rows
}

/// Returns the number of rows of a block: [`pack_b`] writes all columns of one block of rows before
/// the next block.
pub fn packed_b_depth(rows: usize) -> usize {
    block_depth(rows)
}

/// Packs a left operand. Align the result to 64 bytes.
pub fn pack_a<T: Number>(a: &[T], y: &mut [T], geometry: Packing) {
    let Packing { rows, cols, strides: [row, col] } = geometry;
    pack_left(Matrix { data: a, row, col }, (0, rows), (0, cols), y, pack_rows);
}

/// Packs a right operand. Align the result to 64 bytes.
pub fn pack_b<T: Number>(b: &[T], y: &mut [T], geometry: Packing) {
    let Packing { rows, cols, strides: [row, col] } = geometry;
    pack_blocks(Matrix { data: b, row, col }, (rows, cols), block_depth(rows), y);
}

pub(super) fn gemm_real<T: GemmElem>(
    a: &[T],
    b: Operand<'_, T>,
    c: Option<&[T]>,
    y: &mut [T],
    scratch: &mut [T],
    geometry: Gemm,
    f: FusedActivation<T>,
) {
    let Gemm { m, n, k, c: [row, col], .. } = geometry;
    let scale = T::from_f64(f64::from(geometry.beta));
    let addend = c.map_or(Addend::NONE, |data| Addend { data, row, col, scale });
    let product = Product {
        m,
        n,
        k,
        a: factor(a, geometry.a, Operand::Panels),
        b,
        alpha: T::from_f64(f64::from(geometry.alpha)),
        addends: [addend, Addend::NONE],
        f,
    };
    product.run(y, Target::whole(geometry.y_row), scratch);
}

pub(super) fn factor<'a, T>(
    data: &'a [T],
    layout: Layout,
    packed: impl Fn(&'a [T]) -> Operand<'a, T>,
) -> Operand<'a, T> {
    match layout {
        Layout::Strides(row, col) => Operand::Matrix(Matrix { data, row, col }),
        Layout::Packed => packed(data),
    }
}
