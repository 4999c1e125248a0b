//! Chooses the layout of images: NCHWc for floating-point numbers, NHWC for bytes.
//!
//! Both layouts spread through a network. They are converted back to NCHW only where they end.

mod blocked;
mod gradient;
mod nhwc;
mod normalization;
mod shuffle;

use crate::{
    diag::Diagnostics,
    ir::{Graph, Rule, copy_node, rewrite},
};

/// The rules that spread NCHWc, in order.
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

/// The rules that undo a conversion which gains nothing.
const BLOCKED_ALONE: &[Rule<'_>] = &[&blocked::alone];

/// Stores images in the layouts that their kernels read fastest.
pub fn run(graph: &Graph) -> Result<Graph, Diagnostics> {
    let blocked = spread(graph, BLOCKED, BLOCKED_ALONE)?;
    spread(&blocked, nhwc::RULES, nhwc::ALONE)
}

/// Applies `rules`, and then `alone`, which undo what gained nothing.
fn spread(graph: &Graph, rules: &[Rule<'_>], alone: &[Rule<'_>]) -> Result<Graph, Diagnostics> {
    let spread = rewrite(graph, &copy_node, rules)?;
    // Dead nodes count as uses, so they are removed before `alone` is applied.
    let needed = rewrite(&spread, &copy_node, &[])?;
    let sensible = rewrite(&needed, &copy_node, alone)?;
    rewrite(&sensible, &copy_node, &[])
}
