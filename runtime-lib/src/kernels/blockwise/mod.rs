//! Products with block-quantized weights (`MatMulNBits`, `MatMulBnb4`). A weight is a code of 2, 4
//! or 8 bits. The codes of a block of consecutive rows of a column share a scale and a zero point:
//! the weight is `(number(code) - zero_point) · scale`.
//!
//! Weights stay codes in memory. The products whose names end in `int8` quantize the left operand
//! to 8 bits and multiply integers; the others compute in `f32`. Of these, a product with one row
//! decodes the codes in registers; one with several rows decodes a block of panels into scratch
//! memory, which the micro-kernels of `Gemm` multiply.

mod codes;
mod int8;
mod layout;
mod row;
#[cfg(all(test, feature = "std"))]
mod tests;
mod widen;

pub use layout::{
    BlockCodes, BlockOperands, dequantize_blocks, dequantize_fp4, dequantize_nf4, pack_codes,
    pack_per_block, packed_codes_len,
};

use crate::kernels::matmul::{self, Gemm, Layout};
use crate::loops::epilogue::Activation;
use crate::microkernel::{FusedActivation, Wide, panel_cols, wide_scratch};
use crate::simd::bf16_pair;
use codes::{Codes, Eight, Four, Fp4, Integers, Nf4, Two};

/// The columns of a panel of packed codes.
const COLS: usize = panel_cols::<f32>();

/// Up to this number of rows of the result, each row is computed on its own.
const FEW_ROWS: usize = 2;

/// The geometry of a product `[m, k] · [k, n]` with block-quantized weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Blockwise {
    /// The number of rows of the result.
    pub m: usize,
    /// The number of columns of the result.
    pub n: usize,
    /// The number of products that each element sums.
    pub k: usize,
    /// The number of rows of a block of weights: a multiple of 16.
    pub block: usize,
}

impl Blockwise {
    /// Returns the number of blocks of a column.
    pub const fn blocks(&self) -> usize {
        self.k.div_ceil(self.block)
    }
}

/// The operands of a product with block-quantized weights. Scales and zero points are packed by
/// [`pack_per_block`].
#[derive(Clone, Copy, Debug)]
pub struct BlockwiseOperands<'a> {
    /// The left operand, `[m, k]`.
    pub a: &'a [f32],
    /// The codes of the right operand, packed by [`pack_codes`].
    pub codes: &'a [u32],
    /// The scales of the blocks.
    pub scales: &'a [f32],
    /// The zero points of the blocks, as codes.
    pub zero_codes: Option<&'a [u8]>,
    /// The zero points of the blocks, as numbers.
    pub zero_points: Option<&'a [f32]>,
    /// The matrix that is added: one row of `n` elements.
    pub bias: Option<&'a [f32]>,
}

/// Zero points of blocks.
#[derive(Clone, Copy)]
enum Zeros<'a> {
    /// The same number for all blocks.
    Same(f32),
    /// A code for each block.
    Codes(&'a [u8]),
    /// A number for each block.
    Numbers(&'a [f32]),
}

/// Packed weights.
#[derive(Clone, Copy)]
struct Weights<'a, C> {
    /// The bits of the words.
    words: &'a [f32],
    scales: &'a [f32],
    zeros: Zeros<'a>,
    codes: C,
    geometry: Blockwise,
}

impl<'a, C: Codes> Weights<'a, C> {
    fn of(operands: &BlockwiseOperands<'a>, geometry: Blockwise, codes: C) -> Self {
        let zeros = match (operands.zero_codes, operands.zero_points) {
            (Some(codes), _) => Zeros::Codes(codes),
            (None, Some(numbers)) => Zeros::Numbers(numbers),
            (None, None) => Zeros::Same(C::ZERO),
        };
        let words = bf16_pair::words(operands.codes);
        Weights { words, scales: operands.scales, zeros, codes, geometry }
    }

    /// Returns the words of a panel.
    #[inline(always)]
    fn panel(&self, panel: usize) -> &'a [f32] {
        let len = self.geometry.k.div_ceil(C::PER_WORD) * COLS;
        &self.words[panel * len..][..len]
    }

    /// Returns the scales of a block of a panel.
    #[inline(always)]
    fn scales(&self, panel: usize, block: usize) -> &'a [f32; COLS] {
        first(&self.scales[(panel * self.geometry.blocks() + block) * COLS..])
    }

    /// Returns the zero points of a block of a panel.
    #[inline(always)]
    fn zeros(&self, panel: usize, block: usize) -> [f32; COLS] {
        let at = (panel * self.geometry.blocks() + block) * COLS;
        match self.zeros {
            Zeros::Same(zero) => [zero; COLS],
            Zeros::Codes(codes) => {
                let mut zeros = [0.0; COLS];
                let codes: &[u8; COLS] = first(&codes[at..]);
                zeros.iter_mut().zip(codes).for_each(|(zero, &code)| *zero = f32::from(code));
                zeros
            }
            Zeros::Numbers(numbers) => *first(&numbers[at..]),
        }
    }
}

/// Returns the first elements of a slice that has as many.
#[inline(always)]
fn first<T>(of: &[T]) -> &[T; COLS] {
    of.first_chunk().expect("packed operands have whole panels")
}

/// Returns the length of the scratch buffer, in elements.
pub const fn blockwise_scratch(geometry: &Blockwise) -> usize {
    let blocks = geometry.blocks();
    if geometry.m <= FEW_ROWS {
        return blocks;
    }
    let wide = wide_scratch(geometry.m, geometry.n, geometry.k);
    if wide > blocks { wide } else { blocks }
}

/// Returns the length of the scratch buffer of the products that quantize the left operand, in
/// elements.
pub const fn blockwise_int8_scratch(geometry: &Blockwise) -> usize {
    geometry.m * (int8::row_words(geometry.k) + 2 * geometry.blocks())
}

/// Defines the product with one kind of codes, computed by a function.
macro_rules! products {
    ($($(#[$doc:meta])* $name:ident: $product:ident($Codes:ident);)*) => {$(
        $(#[$doc])*
        // Inlined, so that a program contains only the activation functions that its models use.
        #[inline(always)]
        pub fn $name(
            operands: BlockwiseOperands<'_>,
            y: &mut [f32],
            scratch: &mut [f32],
            geometry: Blockwise,
            f: Activation,
        ) {
            let rows = [geometry.m, geometry.n, geometry.n];
            FusedActivation::within(f, y, rows, |y, f| {
                $product(operands, y, scratch, geometry, f, $Codes);
            });
        }
    )*};
}

products! {
    /// `y = f(a · b + bias)`, where `b` has codes of 2 bits.
    matmul_2_bits: product(Two);
    /// `y = f(a · b + bias)`, where `b` has codes of 4 bits.
    matmul_4_bits: product(Four);
    /// `y = f(a · b + bias)`, where `b` has codes of 8 bits.
    matmul_8_bits: product(Eight);
    /// `y = f(a · b + bias)`, where `b` has codes of the 4-bit floats of `bitsandbytes`.
    matmul_fp4: product(Fp4);
    /// `y = f(a · b + bias)`, where `b` has codes of the 4-bit normal floats of `bitsandbytes`.
    matmul_nf4: product(Nf4);
    /// `y = f(a · b + bias)`, where `a` is quantized and `b` has codes of 2 bits.
    matmul_2_bits_int8: int8_product(Two);
    /// `y = f(a · b + bias)`, where `a` is quantized and `b` has codes of 4 bits.
    matmul_4_bits_int8: int8_product(Four);
    /// `y = f(a · b + bias)`, where `a` is quantized and `b` has codes of 8 bits.
    matmul_8_bits_int8: int8_product(Eight);
}

#[inline(never)]
fn int8_product<C: Integers>(
    operands: BlockwiseOperands<'_>,
    y: &mut [f32],
    scratch: &mut [f32],
    geometry: Blockwise,
    f: FusedActivation<f32>,
    codes: C,
) {
    let weights = Weights::of(&operands, geometry, codes);
    int8::multiply(operands.a, &weights, operands.bias, y, scratch);
    f.apply(y, geometry.m, geometry.n, geometry.n);
}

#[inline(never)]
fn product<C: Codes>(
    operands: BlockwiseOperands<'_>,
    y: &mut [f32],
    scratch: &mut [f32],
    geometry: Blockwise,
    f: FusedActivation<f32>,
    codes: C,
) {
    let Blockwise { m, n, k, .. } = geometry;
    let weights = Weights::of(&operands, geometry, codes);
    if m <= FEW_ROWS && k > 0 && n > 0 {
        for (x, y) in operands.a.chunks_exact(k).zip(y.chunks_exact_mut(n)) {
            row::multiply(x, &weights, operands.bias, y, scratch);
        }
        return f.apply(y, m, n, n);
    }
    let gemm = Gemm {
        m,
        n,
        k,
        a: Layout::Strides(k, 1),
        b: Layout::Packed,
        c: [0, 1],
        y_row: n,
        alpha: 1.0,
        beta: 1.0,
    };
    matmul::gemm_wide(operands.a, Wide(&weights), operands.bias, y, scratch, gemm, f);
}
