//! From a graph to a better one, pass by pass.

mod branch;
mod fold;
mod fuse;
mod layout;
mod recognize;
mod sequence;

use crate::{
    diag::Diagnostics,
    ir::{Graph, Rule, rewrite, verify},
    plan::Optimize,
};

/// A step from one graph to the next.
pub struct Pass {
    /// The name, by which `--print-after` knows it.
    pub name: &'static str,
    run: fn(&Graph) -> Result<Graph, Diagnostics>,
    /// What it is for, where it does not serve all.
    only: Option<Optimize>,
}

/// All passes, in order.
pub const PIPELINE: &[Pass] = &[
    Pass { name: "simplify", run: simplify, only: None },
    Pass { name: "recognize", run: recognize::run, only: None },
    Pass { name: "fuse", run: fuse::run, only: None },
    Pass { name: "layout", run: layout::run, only: Some(Optimize::Speed) },
];

/// What is simpler without looking further than a node's inputs.
const SIMPLER: &[Rule] =
    &[fold::identity, fold::same_type, sequence::optional, sequence::sequence, fold::constants];

/// Runs every pass that serves what matters most, showing `seen` the graph after each.
pub fn run(
    graph: Graph,
    optimize: Optimize,
    seen: &mut dyn FnMut(&str, &Graph),
) -> Result<Graph, Diagnostics> {
    let mut graph = graph;
    seen("import", &graph);
    let serves = |pass: &&Pass| pass.only.is_none_or(|only| only == optimize);
    for pass in PIPELINE.iter().filter(serves) {
        graph = (pass.run)(&graph)?;
        if cfg!(debug_assertions) {
            verify(&graph)?;
        }
        seen(pass.name, &graph);
    }
    Ok(graph)
}

fn simplify(graph: &Graph) -> Result<Graph, Diagnostics> {
    rewrite(graph, branch::decide, SIMPLER)
}
