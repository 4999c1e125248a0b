//! Passes: transformations from a graph to a graph.
//!
//! [`PIPELINE`] lists the passes in order; [`run`] runs those of the caller, then these. A pass is
//! a function. Most passes are a list of [`Rule`]s, which [`rewrite`] applies to each node that it
//! copies.

mod algebra;
mod branch;
mod fold;
mod fuse;
mod gradient;
mod layout;
mod loops;
mod quantize;
mod recognize;
mod sequence;

pub use gradient::{find_zero_gradients, separate_dropout_masks};

use crate::{
    diag::Diagnostics,
    ir::{Graph, Next, Rule, rewrite, verify},
    ops::composite::Composite,
    plan::Optimize,
};
use std::{fmt, sync::Arc};

/// A transformation from a graph to a graph.
pub struct Pass {
    /// The name that `--print-after` takes.
    pub name: &'static str,
    run: fn(&Graph) -> Result<Graph, Diagnostics>,
    /// The only optimization goal that the pass serves; `None` if it serves all.
    only: Option<Optimize>,
}

/// The passes of a compilation, in order.
pub const PIPELINE: &[Pass] = &[
    Pass { name: "gradient", run: gradient::run, only: None },
    Pass { name: "simplify", run: simplify, only: None },
    Pass { name: "quantize", run: quantize::run, only: None },
    Pass { name: "recognize", run: recognize::run, only: None },
    Pass { name: "fuse", run: fuse::run, only: None },
    Pass { name: "layout", run: layout::run, only: Some(Optimize::Speed) },
];

/// The passes that keep a graph in ONNX's own operators, so that it can be exported.
pub const STANDARD: &[Pass] = &[
    Pass { name: "gradient", run: gradient::run_standard, only: None },
    Pass { name: "optimize", run: optimize, only: None },
];

/// A pass of the caller, which runs before all others.
#[derive(Clone)]
pub struct OwnPass {
    name: Arc<str>,
    run: Arc<Run>,
}

type Run = dyn Fn(&Graph) -> Result<Graph, Diagnostics> + Send + Sync;

impl OwnPass {
    /// Creates a pass called `name`. The compiler trusts its result: the graph that it returns
    /// defines what the model computes.
    pub fn new(
        name: impl Into<String>,
        run: impl Fn(&Graph) -> Result<Graph, Diagnostics> + Send + Sync + 'static,
    ) -> OwnPass {
        OwnPass { name: name.into().into(), run: Arc::new(run) }
    }
}

impl fmt::Debug for OwnPass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("OwnPass").field(&self.name).finish()
    }
}

/// The rules of `simplify`. They keep quantized constants, which `quantize` looks for.
const SIMPLIFY: &[Rule] = &[
    fold::remove_identity,
    fold::remove_cast,
    sequence::unwrap_optional,
    sequence::resolve_sequence,
    loops::constants,
    fold::fold_unquantized,
    algebra::replace_sum,
    algebra::remove_one,
    algebra::remove_broadcast,
];

/// The rules of [`SIMPLIFY`], but with quantized constants folded.
const SIMPLIFY_ALL: &[Rule] = &[
    fold::remove_identity,
    fold::remove_cast,
    sequence::unwrap_optional,
    sequence::resolve_sequence,
    loops::constants,
    fold::fold,
    algebra::replace_sum,
    algebra::remove_one,
    algebra::remove_broadcast,
];

/// The rules of [`SIMPLIFY`] whose results are ONNX's own operators.
const SIMPLIFY_STANDARD: &[Rule] = &[
    fold::remove_identity,
    fold::remove_cast,
    sequence::unwrap_optional,
    sequence::resolve_sequence,
    loops::constants,
    fold::fold_tensors,
];

/// Returns the passes that serve an optimization goal, in order.
pub fn pipeline(optimize: Optimize) -> impl Iterator<Item = &'static Pass> {
    PIPELINE.iter().filter(move |pass| pass.only.is_none_or(|only| only == optimize))
}

/// Runs the caller's passes and then `passes`, and calls `seen` with the graph after each.
///
/// # Errors
///
/// Diagnostics of a pass; a graph of a caller's pass that [`verify`] refuses.
pub fn run(
    graph: Graph,
    own: &[OwnPass],
    passes: impl IntoIterator<Item = &'static Pass>,
    seen: &mut dyn FnMut(&str, &Graph),
) -> Result<Graph, Diagnostics> {
    let mut graph = graph;
    seen("import", &graph);
    for pass in own {
        let within = |diagnostics: Diagnostics| diagnostics.within(&format!("pass {}", pass.name));
        graph = (pass.run)(&graph).map_err(within)?;
        verify(&graph).map_err(within)?;
        seen(&pass.name, &graph);
    }
    for pass in passes {
        graph = (pass.run)(&graph)?;
        if cfg!(debug_assertions) {
            verify(&graph)?;
        }
        seen(pass.name, &graph);
    }
    Ok(graph)
}

fn simplify(graph: &Graph) -> Result<Graph, Diagnostics> {
    match expand_composites(graph)? {
        Some(graph) => rewrite(&graph, branch::decide, SIMPLIFY),
        None => rewrite(graph, branch::decide, SIMPLIFY),
    }
}

/// Expands composite operators; returns `None` if the graph has none.
fn expand_composites(graph: &Graph) -> Result<Option<Graph>, Diagnostics> {
    let has_composite = graph.nodes().any(|(_, node)| node.op.is::<Composite>());
    has_composite
        .then(|| rewrite(graph, |_, _, _, _, _| Next::Copy, &[fold::expand_composite]))
        .transpose()
}

fn optimize(graph: &Graph) -> Result<Graph, Diagnostics> {
    rewrite(graph, branch::take, SIMPLIFY_STANDARD)
}
