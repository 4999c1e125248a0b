//! From a graph to a better one, pass by pass.

mod algebra;
mod branch;
mod fold;
mod fuse;
mod gradient;
mod recognize;
mod sequence;

use crate::{
    diag::Diagnostics,
    ir::{Graph, Rule, rewrite, verify},
};

/// A step from one graph to the next.
pub struct Pass {
    /// The name, by which `--print-after` knows it.
    pub name: &'static str,
    run: fn(&Graph) -> Result<Graph, Diagnostics>,
}

/// All passes, in order.
pub const PIPELINE: &[Pass] = &[
    Pass { name: "gradient", run: gradient::run },
    Pass { name: "simplify", run: simplify },
    Pass { name: "recognize", run: recognize::run },
    Pass { name: "fuse", run: fuse::run },
];

/// What is simpler without looking further than a node's inputs.
const SIMPLER: &[Rule] = &[
    fold::identity,
    fold::same_type,
    sequence::optional,
    sequence::sequence,
    fold::constants,
    algebra::one,
    algebra::stretched,
];

/// Runs every pass, showing `seen` the graph after each.
pub fn run(graph: Graph, seen: &mut dyn FnMut(&str, &Graph)) -> Result<Graph, Diagnostics> {
    let mut graph = graph;
    seen("import", &graph);
    for pass in PIPELINE {
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
