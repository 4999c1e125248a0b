//! Replaces float operators between `DequantizeLinear` and `QuantizeLinear` by integer operators,
//! where scales and zero points are constants.
//!
//! Results compared with the same model computed in `f32`:
//!
//! - operators that move elements, `MaxPool`, and functions of one tensor such as `x · Sigmoid(x)`:
//!   the same bits. Functions become lookup tables, whose entries the float kernels compute;
//! - `Add` and `Mul`: the same bits, because the kernels take the same steps as float arithmetic;
//! - `Conv`, `Gemm` and `MatMul`: the same bits as `QLinearConv` and `QLinearMatMul`, on every
//!   processor. The integer accumulators are exact, and so is their product with the combined
//!   scale. Float accumulators are rounded at each step, in an order that differs between
//!   libraries. So a result may differ from the model in `f32` by one where a relative error of
//!   about 10⁻⁷ crosses the border between two integers, as it does between two libraries;
//! - `AveragePool`: the accumulators are exact.
//!
//! `QLinearConv` and `QLinearMatMul` with constant weights become the same operators.
//!
//! A `MatMul` with constant block-quantized weights, of `MatMulNBits`, `MatMulBnb4` or
//! `DequantizeLinear`, becomes a product whose weights stay codes.
//!
//! A `Relu` or `Clip` before `QuantizeLinear` becomes the limits of the result: quantization is
//! monotonic.
//!
//! A graph without quantized tensors is returned unchanged.

mod blocks;
mod dynamic;
mod elements;
mod moves;
mod operand;
mod signed_bytes;
mod sums;
mod tables;

use super::{fuse::Replaced, simplify};
use crate::{
    diag::Diagnostics,
    ir::{Graph, Node, Rule, Site, apply},
    ops::{
        blockwise::DequantizeBlocks,
        conv::integer::{ConvInteger, QLinearConv},
        matmul::integer::{MatMulInteger, QLinearMatMul},
        quantize::DequantizeLinear,
    },
};
use operand::Target;

/// The rules, in the order in which they are tried.
const RULES: &[Rule<'_>] = &[
    &quantize_node,
    &sums::replace_qlinear,
    &dynamic::replace_dynamic_product,
    &blocks::fuse_blocks,
];

/// Runs the pass. A `DequantizeLinear` of constants that remains is folded.
pub fn run(graph: Graph) -> Result<Graph, Diagnostics> {
    let is_quantized = |node: &Node| {
        let op = &node.op;
        op.is::<DequantizeLinear>()
            || op.is::<DequantizeBlocks>()
            || op.is::<ConvInteger>()
            || op.is::<MatMulInteger>()
            || op.is::<QLinearConv>()
            || op.is::<QLinearMatMul>()
    };
    if !graph.nodes().any(|(_, node)| is_quantized(node)) {
        return Ok(graph);
    }
    let round = |graph: Graph| simplify::run_all(&apply(graph, RULES)?.without_dead_nodes()?);
    // Where the first round folds scales and biases, the second one sees numbers.
    round(round(graph)?)
}

/// Replaces a `QuantizeLinear` and the float operator before it by an integer operator.
fn quantize_node(site: &mut Site<'_>, node: &Node) -> Replaced {
    let (target, value) = Target::of(site, node)?;
    moves::quantize_move(site, node, &target, value)
        .or_else(|| sums::quantize_conv(site, node, &target, value))
        .or_else(|| sums::quantize_product(site, node, &target, value))
        .or_else(|| tables::tabulate(site, node))
        .or_else(|| elements::quantize_binary(site, node, &target, value))
        .or_else(|| elements::quantize_average(site, node, &target, value))
}
