//! Element types with GEMM micro-kernels, which are compiled once, in this crate.

use super::gemm_tile::{Distance, GemmBlock, RowsInPlace, Starts};
use super::gemv::Gemv;
use super::pack::{PackColumns, PackRows, Widen, pack_columns, pack_rows};
use super::panels::Part;
use super::simd_elem::SimdElem;
use super::thin::Thin;
use super::tiny::Tiny;
use crate::simd::dispatch;

/// `f32` or `f64`, with the functions that pack and multiply matrices at the best SIMD level.
pub(crate) trait GemmElem: SimdElem {
    /// Packs rows into a panel, as columns: `of` is their number and length, `apart` their stride.
    fn pack_rows(rows: &[Self], apart: usize, of: Part, panel: &mut [Self]);
    /// Packs columns into a panel, as rows: `depth` is their length, `apart` their stride.
    fn pack_columns(columns: &[Self], apart: usize, depth: usize, panel: &mut [Self]);
    /// Widens the elements of a packed operand from `first` on.
    fn widen_part(from: &dyn Widen, first: usize, to: &mut [Self]);
    /// Multiplies a block.
    fn multiply(block: GemmBlock<'_, Self, Distance>);
    /// Multiplies a block whose left operand is not packed.
    fn multiply_in_place(block: GemmBlock<'_, Self, Distance, RowsInPlace>);
    /// Multiplies a block whose right operand has rows at arbitrary offsets.
    fn multiply_rows(block: GemmBlock<'_, Self, Starts<'_, Self>>);
    /// Multiplies a row.
    fn multiply_row(product: Gemv<'_, Self>);
    /// Multiplies small matrices.
    fn multiply_tiny(product: &mut Tiny<'_, Self>);
    /// Multiplies matrices with few columns.
    fn multiply_thin(product: &mut Thin<'_, Self>);
}

impl GemmElem for f32 {
    #[inline(never)]
    fn pack_rows(rows: &[f32], apart: usize, (count, depth): Part, panel: &mut [f32]) {
        dispatch(PackRows { rows, apart, count, depth, panel });
    }

    #[inline(never)]
    fn pack_columns(columns: &[f32], apart: usize, depth: usize, panel: &mut [f32]) {
        dispatch(PackColumns { columns, apart, depth, panel });
    }

    #[inline(always)]
    fn widen_part(from: &dyn Widen, first: usize, to: &mut [f32]) {
        from.widen(first, to);
    }

    #[inline(never)]
    fn multiply(block: GemmBlock<'_, f32, Distance>) {
        dispatch(block);
    }

    #[inline(never)]
    fn multiply_in_place(block: GemmBlock<'_, f32, Distance, RowsInPlace>) {
        dispatch(block);
    }

    #[inline(never)]
    fn multiply_rows(block: GemmBlock<'_, f32, Starts<'_, f32>>) {
        dispatch(block);
    }

    #[inline(never)]
    fn multiply_row(product: Gemv<'_, f32>) {
        product.share();
    }

    #[inline(never)]
    fn multiply_tiny(product: &mut Tiny<'_, f32>) {
        dispatch(product);
    }

    #[inline(never)]
    fn multiply_thin(product: &mut Thin<'_, f32>) {
        dispatch(product);
    }
}

// Few models compute in `f64`, so the crates that do compile these functions, and the kernels that
// call them: they are a seventh of this crate.
impl GemmElem for f64 {
    fn pack_rows(rows: &[f64], apart: usize, of: Part, panel: &mut [f64]) {
        pack_rows(rows, apart, of, panel);
    }

    fn pack_columns(columns: &[f64], apart: usize, depth: usize, panel: &mut [f64]) {
        pack_columns(columns, apart, depth, panel);
    }

    fn widen_part(from: &dyn Widen, first: usize, to: &mut [f64]) {
        for (i, to) in to.iter_mut().enumerate() {
            let mut wide = [0.0];
            from.widen(first + i, &mut wide);
            *to = f64::from(wide[0]);
        }
    }

    #[inline]
    fn multiply(block: GemmBlock<'_, f64, Distance>) {
        dispatch(block);
    }

    #[inline]
    fn multiply_in_place(block: GemmBlock<'_, f64, Distance, RowsInPlace>) {
        dispatch(block);
    }

    #[inline]
    fn multiply_rows(block: GemmBlock<'_, f64, Starts<'_, f64>>) {
        dispatch(block);
    }

    #[inline]
    fn multiply_row(product: Gemv<'_, f64>) {
        product.share();
    }

    #[inline]
    fn multiply_tiny(product: &mut Tiny<'_, f64>) {
        dispatch(product);
    }

    #[inline]
    fn multiply_thin(product: &mut Thin<'_, f64>) {
        dispatch(product);
    }
}
