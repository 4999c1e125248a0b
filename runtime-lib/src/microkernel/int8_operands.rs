//! The operands of int8 GEMM. One is signed and the other unsigned, as the processors' instructions
//! require.
//!
//! The depth is split into *quads* of four elements; both operands are padded to whole quads. The
//! left operand is read four bytes at a time; the right one is in panels, which hold for each quad
//! the four bytes of every column.

use crate::simd::int8::{Bytes, Vector};

/// The rows of a panel of a packed left operand. The last panel may have fewer rows.
pub(crate) const PANEL_ROWS: usize = 12;

/// The number of quads of the right operand to prefetch ahead: more than the latency of an L2
/// cache.
pub(super) const AHEAD: usize = 6;

/// The operations before and after the accumulation.
pub(crate) trait Int8Epilogue<S: Bytes> {
    /// Returns the initial accumulators of row `i` for the columns from `j` on.
    fn start(&self, s: S, i: usize, j: usize) -> Vector<S>;
    /// Consumes the accumulators of row `i` from column `j` on.
    fn take<const V: usize>(&mut self, s: S, i: usize, j: usize, sums: &[Vector<S>; V]);
}

/// The left operand.
#[derive(Clone, Copy)]
pub(crate) enum LeftOperand<'a> {
    /// Signed bytes, in panels of [`PANEL_ROWS`] rows: for each quad, the four bytes of every row.
    /// The right operand is unsigned.
    Panels(&'a [u8]),
    /// Unsigned bytes, row after row. The right operand is signed.
    Rows(&'a [u8]),
}

/// A block: all rows of a product and the columns of a panel, whose number is a multiple of a
/// vector's lanes.
pub(crate) struct Int8Block<'a> {
    /// The number of rows.
    pub m: usize,
    /// The number of quads.
    pub quads: usize,
    /// The left operand.
    pub left: LeftOperand<'a>,
    /// The panel of the right operand.
    pub right: &'a [u8],
    /// The columns of the panel.
    pub width: usize,
    /// The first of these columns in the result.
    pub first: usize,
}
