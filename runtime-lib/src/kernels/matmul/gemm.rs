//! `Gemm`: `y = f(alpha · a · b + beta · c)`.

use crate::Number;
use crate::loops::epilogue::Activation;
use crate::microkernel::{
    Addend, FusedActivation, GemmElem, Matrix, Operand, PANEL_ROWS, Pairs, Product, Target, Wide,
    block_depth, pack_blocks, pack_left, pack_rows, panel_cols, scratch,
};

/// `m` rows and `n` columns of sums of `k` products.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Gemm {
    /// Rows of the result.
    pub m: usize,
    /// Columns of the result.
    pub n: usize,
    /// The length of the sums.
    pub k: usize,
    /// Where the elements of the left factor are.
    pub a: Layout,
    /// Where the elements of the right factor are.
    pub b: Layout,
    /// How far one row and one column of the addend `c` start from the next; a column's distance
    /// is 1, or 0 where the addend is broadcast along it.
    pub c: [usize; 2],
    /// How far one row of the result starts from the next.
    pub y_row: usize,
    /// The factor of the product.
    pub alpha: f32,
    /// The factor of the addend.
    pub beta: f32,
}

impl Gemm {
    /// How many rows the result has, how long they are, and how far one starts from the next.
    pub(crate) const fn rows(&self) -> [usize; 3] {
        [self.m, self.n, self.y_row]
    }
}

/// Where the elements of a factor are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// One row starts as far from the next, and one column.
    Strides(usize, usize),
    /// In panels, as [`pack_a`] and [`pack_b`] leave it.
    Packed,
}

/// How many elements of scratch memory the product wants.
pub const fn gemm_scratch(geometry: &Gemm) -> usize {
    let Gemm { m, n, k, a, b, .. } = *geometry;
    let in_one_piece = matches!(b, Layout::Packed | Layout::Strides(_, 1) | Layout::Strides(1, _));
    if m == 1 && matches!(a, Layout::Strides(_, 1)) && in_one_piece {
        return 0;
    }
    scratch(m, n, k, matches!(a, Layout::Strides(..)), matches!(b, Layout::Strides(..)))
}

/// `y = f(alpha · a · b + beta · c)`.
// Inlined, so that a small program has no functions but those that its models name.
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

/// The same for a right factor of fewer bits, which is widened a block at a time.
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

/// The same for a right factor in pairs, of an even number of rows, where the level has an instruction
/// for them.
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
// Inlined, so that a small program has no functions but those that its models name.
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

#[inline(never)]
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
    /// Its rows.
    pub rows: usize,
    /// Its columns.
    pub cols: usize,
    /// How far one row and one column start from the next.
    pub strides: [usize; 2],
}

/// How many elements [`pack_a`] writes.
pub const fn packed_a_len(geometry: &Packing) -> usize {
    geometry.rows.next_multiple_of(PANEL_ROWS) * geometry.cols
}

/// How many elements [`pack_b`] writes.
pub const fn packed_b_len<T>(geometry: &Packing) -> usize {
    geometry.cols.next_multiple_of(panel_cols::<T>()) * geometry.rows
}

/// How many rows of a right factor [`pack_b`] writes one after another, of so many: then come all
/// columns of the next ones.
pub fn packed_b_depth(rows: usize) -> usize {
    block_depth(rows)
}

/// Packs a left factor. What is packed is best placed at a multiple of 64 bytes.
pub fn pack_a<T: Number>(a: &[T], y: &mut [T], geometry: Packing) {
    let Packing { rows, cols, strides: [row, col] } = geometry;
    pack_left(Matrix { data: a, row, col }, (0, rows), (0, cols), y, pack_rows);
}

/// Packs a right factor. What is packed is best placed at a multiple of 64 bytes.
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
