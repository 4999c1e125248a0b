//! Images laid out as kernels like them: the channels of real numbers in blocks, those of bytes
//! side by side. Both spread through a network, and only where they end do channels go back to
//! where ONNX has them.

mod blocked;
mod gradient;
mod nhwc;
mod normalization;
mod shuffle;

use crate::{
    diag::Diagnostics,
    ir::{Graph, Rule, copy_node, rewrite},
};

/// What is tried, in order.
const BLOCKED: &[Rule<'_>] = &[
    &shuffle::recognized,
    &shuffle::behind_channels,
    &blocked::conv,
    &blocked::scale,
    &normalization::given,
    &normalization::training,
    &normalization::moments,
    &normalization::sums,
    &normalization::gradient,
    &blocked::unary,
    &blocked::binary,
    &blocked::pool,
    &blocked::concat,
    &gradient::conv_weight_grad,
    &gradient::transposed,
    &gradient::max_pool,
    &gradient::gate,
    &gradient::sum,
];

/// What is tried then.
const BLOCKED_ALONE: &[Rule<'_>] = &[&blocked::alone];

/// Lays out anew what gains by it.
pub fn run(graph: &Graph) -> Result<Graph, Diagnostics> {
    let blocked = spread(graph, BLOCKED, BLOCKED_ALONE)?;
    spread(&blocked, nhwc::RULES, nhwc::ALONE)
}

/// Applies `rules`, and then those that see what stands `alone`.
fn spread(graph: &Graph, rules: &[Rule<'_>], alone: &[Rule<'_>]) -> Result<Graph, Diagnostics> {
    let spread = rewrite(graph, &copy_node, rules)?;
    // Without what nobody needs, one sees what stands alone.
    let needed = rewrite(&spread, &copy_node, &[])?;
    let sensible = rewrite(&needed, &copy_node, alone)?;
    rewrite(&sensible, &copy_node, &[])
}
