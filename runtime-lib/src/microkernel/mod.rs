//! Micro-kernels: the inner loops of products and convolutions, and the loops around them that
//! iterate over packed panels and tiles. All arithmetic with `unsafe` is here and in
//! [`simd`](crate::simd).
//!
//! The operands of a product are packed into *panels*, in the order in which the innermost loop
//! reads them: 12 rows of the left operand, 64 bytes of columns of the right one. All SIMD levels
//! read the same panels, so a constant operand is packed once, when a model is compiled, for every
//! processor.

#[cfg(x86_avx512)]
pub(crate) mod amx;
mod bf16_pairs;
mod channel_blocks;
mod conv_layout;
mod conv_tile;
mod conv_weight_grad;
mod depthwise;
mod depthwise_weight_grad;
mod epilogue;
mod fused_activation;
mod gemm;
mod gemm_elem;
mod gemm_tile;
mod gemv;
pub(crate) mod int8_conv;
pub(crate) mod int8_conv_pairs;
pub(crate) mod int8_depthwise;
pub(crate) mod int8_operands;
mod int8_pairs;
mod int8_tile;
mod narrow_groups;
mod nchwc_tile;
mod overlap;
mod pack;
mod panels;
mod prefetch_schedule;
mod simd_elem;
mod span;
mod stripes;
mod thin;
mod tile_run;
mod tiny;
mod widths;
mod winograd;

pub(crate) use bf16_pairs::Pairs;
pub(crate) use channel_blocks::{Block, Unblock};
pub(crate) use conv_layout::{MAX_TAPS, PAIRS, Span, UsedTaps};
pub(crate) use conv_tile::NchwcConv;
pub(crate) use conv_weight_grad::NchwcWeightGrad;
pub(crate) use depthwise::Depthwise;
pub(crate) use depthwise_weight_grad::DepthwiseWeightGrad;
pub(crate) use epilogue::{Addend, Target};
pub(crate) use fused_activation::FusedActivation;
pub(crate) use gemm::{Product, block_depth, scratch, wide_scratch};
pub(crate) use gemm_elem::GemmElem;
pub(crate) use narrow_groups::{NarrowGroups, interleave};
pub(crate) use pack::{Operand, Wide, Widen, pack_blocks, pack_left, pack_right, pack_rows};
pub(crate) use panels::{Matrix, PANEL_ROWS, panel_cols};
pub use stripes::STRIPE;
pub(crate) use stripes::{Stripes, pack_stripes};
pub(crate) use winograd::{Tiling, Transforms, WinogradInput, WinogradOutput, WinogradProducts};
