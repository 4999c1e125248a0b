//! What real numbers calculate between `DequantizeLinear` and `QuantizeLinear` is calculated on
//! the bytes themselves, where scales and zero points are constants.
//!
//! What the results are, against the same model calculated in `f32`:
//!
//! - what moves elements, picks the largest, or is a function of one tensor: the same, bit by bit
//!   (functions become tables, which the real kernels make);
//! - `Add` and `Mul`: the same, for the kernels take the very steps that real numbers would;
//! - `Conv`, `Gemm`, `MatMul` and means: the sums are exact, where real ones are rounded at each
//!   step, and one number takes the place of the three scales. A result differs, by one, only where
//!   these errors of some 10⁻⁷ of the sum lie across the border between two bytes.
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

use super::{SIMPLER_ALL, branch, fuse::keep};
use crate::{
    diag::Diagnostics,
    ir::{Graph, Node, Rule, Site, ValueId, rewrite},
    ops::{matmul::integer::MatMulInteger, quantize::DequantizeLinear},
};
use operand::Target;

/// What is tried, in order.
const RULES: &[Rule] = &[quantized, dynamic::product];

/// The outputs of a node that stands for another.
type Replaced = Option<Vec<Option<ValueId>>>;

/// Quantizes what can be; `DequantizeLinear` of constants is folded where it is left.
pub fn run(graph: &Graph) -> Result<Graph, Diagnostics> {
    let is_quantized =
        |node: &Node| node.op.is::<DequantizeLinear>() || node.op.is::<MatMulInteger>();
    if !graph.nodes().any(|(_, node)| is_quantized(node)) {
        return Ok(graph.clone());
    }
    let quantized = rewrite(graph, keep, RULES)?;
    // What was taken in is still there, but nobody needs it.
    let needed = rewrite(&quantized, keep, &[])?;
    rewrite(&needed, branch::decide, SIMPLER_ALL)
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
