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
    ir::{Graph, Rule, rewrite},
    passes::fuse::keep,
};

/// Lays out anew what gains by it.
pub fn run(graph: &Graph) -> Result<Graph, Diagnostics> {
    let blocked = spread(graph, blocked::RULES, blocked::ALONE)?;
    spread(&blocked, nhwc::RULES, nhwc::ALONE)
}

/// Applies `rules`, and then those that see what stands `alone`.
fn spread(graph: &Graph, rules: &[Rule], alone: &[Rule]) -> Result<Graph, Diagnostics> {
    let spread = rewrite(graph, keep, rules)?;
    // Without what nobody needs, one sees what stands alone.
    let needed = rewrite(&spread, keep, &[])?;
    let sensible = rewrite(&needed, keep, alone)?;
    rewrite(&sensible, keep, &[])
}
