//! Matrix products: `MatMul` over batches that are broadcast against each other, `Gemm`, and their
//! integer forms.
//!
//! Packed weights are panels that every SIMD level reads ([`pack_a`], [`pack_b`]). In `f32`, the
//! relative error of a sum of `K` products of one sign is at most `1e-6 √K` for every kernel and at
//! every level. If terms cancel, the error is relative to the sum of their magnitudes.

mod batched;
mod gemm;
pub(crate) mod i16_dot;
mod integer;
mod plain;
mod small;
#[cfg(all(test, feature = "std"))]
pub(crate) mod tests;

pub use batched::{MatMul, matmul, matmul_f32, matmul_f64, matmul_float, matmul_scratch};
pub use gemm::{
    Gemm, Layout, Packing, gemm_f32, gemm_f64, gemm_scratch, pack_a, pack_b, packed_a_len,
    packed_b_depth, packed_b_len,
};
pub(crate) use gemm::{gemm_pairs, gemm_wide, product_f32, product_f64};
pub use integer::{
    IntegerMatMul, QLinearMatMulOperands, matmul_integer, matmul_integer_scratch, qlinear_matmul,
};
pub use plain::{gemm, gemm_float};
pub use small::small_gemm;
