//! Chooses the layout of images: NCHWc for floating-point numbers, NHWC for bytes.
//!
//! Both layouts spread through a network. They are converted back to NCHW only where they end.

mod blocked;
mod channels_last;
mod conv_transpose;
mod gradient;
mod nhwc;
mod normalization;
mod shuffle;

use crate::{
    diag::Diagnostics,
    ir::{Graph, Rule, apply},
};

/// The rules that spread NCHWc, in order.
const BLOCKED: &[Rule<'_>] = &[
    &shuffle::recognize,
    &shuffle::move_past_depthwise,
    &blocked::conv,
    &blocked::scale,
    &normalization::inference,
    &normalization::training,
    &normalization::moments,
    &normalization::sums,
    &normalization::gradient,
    &blocked::unary,
    &blocked::binary,
    &blocked::pool,
    &blocked::mean,
    &blocked::concat,
    &blocked::transpose,
    &channels_last::unary,
    &gradient::conv_weight_grad,
    &conv_transpose::convert,
    &gradient::max_pool,
    &gradient::gate,
    &gradient::sum,
];

/// The rules that run after [`BLOCKED`]: one undoes a conversion that gains nothing, the other
/// fuses a function that has moved to its convolution.
const BLOCKED_END: &[Rule<'_>] = &[&blocked::restore, &channels_last::fuse_function];

/// Stores images in the layouts that their kernels read fastest.
pub fn run(graph: Graph) -> Result<Graph, Diagnostics> {
    let blocked = spread(graph, BLOCKED, BLOCKED_END)?;
    spread(blocked, nhwc::RULES, nhwc::RESTORE)
}

/// Applies `rules`, and then, if they changed anything, `end`.
fn spread(graph: Graph, rules: &[Rule<'_>], end: &[Rule<'_>]) -> Result<Graph, Diagnostics> {
    let spread = apply(graph, rules)?;
    if !spread.is_changed {
        return Ok(spread.graph);
    }
    apply(spread.without_dead_nodes()?, end)?.without_dead_nodes()
}
