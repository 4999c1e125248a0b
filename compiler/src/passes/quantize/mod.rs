//! What real numbers calculate between `DequantizeLinear` and `QuantizeLinear` is calculated on
//! the bytes themselves, where scales and zero points are constants.
//!
//! What the results are, against the same model calculated in `f32`:
//!
//! - what moves elements, picks the largest, or is a function of one tensor: the same, bit by bit
//!   (functions become tables, which the real kernels make);
//! - `Add` and `Mul`: the same, for the kernels take the very steps that real numbers would;
//! - `Conv`, `Gemm` and `MatMul`: bit by bit what `QLinearConv` and `QLinearMatMul` give, on every
//!   processor: the sums are exact, and so is their product with the one number that the three scales
//!   make. Real sums are rounded at each step, in an order of each library's own. So a result of the
//!   same model in `f32` differs, by one, where errors of some 10⁻⁷ of the sum lie across the border
//!   between two bytes, as those of two libraries do;
//! - means: the sums are exact.
//!
//! `QLinearConv` and `QLinearMatMul` with constant weights become the same operators.
//!
//! Functions that follow and cap their argument (`Relu`, `Clip`) become limits of the result,
//! because quantizing never changes the order of two numbers.
//!
//! A graph in which nothing is quantized stays as it is.

mod dynamic;
mod elements;
mod moves;
mod operand;
mod sums;

use super::{SIMPLIFY_ALL, branch, fuse::keep};
use crate::{
    diag::Diagnostics,
    ir::{Graph, Node, Rule, Site, ValueId, rewrite},
    ops::{
        conv::integer::QLinearConv,
        matmul::integer::{MatMulInteger, QLinearMatMul},
        quantize::DequantizeLinear,
    },
};
use operand::Target;

/// What is tried, in order.
const RULES: &[Rule] = &[quantized, sums::qlinear, dynamic::product];

/// The outputs of a node that stands for another.
type Replaced = Option<Vec<Option<ValueId>>>;

/// Quantizes what can be; `DequantizeLinear` of constants is folded where it is left.
pub fn run(graph: &Graph) -> Result<Graph, Diagnostics> {
    let is_quantized = |node: &Node| {
        let op = &node.op;
        op.is::<DequantizeLinear>()
            || op.is::<MatMulInteger>()
            || op.is::<QLinearConv>()
            || op.is::<QLinearMatMul>()
    };
    if !graph.nodes().any(|(_, node)| is_quantized(node)) {
        return Ok(graph.clone());
    }
    let quantized = rewrite(graph, keep, RULES)?;
    // What was taken in is still there, but nobody needs it.
    let needed = rewrite(&quantized, keep, &[])?;
    rewrite(&needed, branch::decide, SIMPLIFY_ALL)
}

/// A node that quantizes what was calculated from quantized tensors.
fn quantized(site: &mut Site<'_>, node: &Node) -> Replaced {
    let (target, value) = Target::of(site, node)?;
    moves::moved(site, node, &target, value)
        .or_else(|| sums::conv(site, node, &target, value))
        .or_else(|| sums::product(site, node, &target, value))
        .or_else(|| elements::binary(site, node, &target, value))
        .or_else(|| elements::mean(site, node, &target, value))
        .or_else(|| moves::function(site, node))
}
