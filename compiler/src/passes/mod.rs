//! From a graph to a better one, pass by pass.

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

pub use gradient::{drawn_apart, idle};

use crate::{
    diag::Diagnostics,
    ir::{Graph, Next, Rule, rewrite, verify},
    ops::composite::Quoted,
    plan::Optimize,
};
use std::{fmt, sync::Arc};

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
    Pass { name: "gradient", run: gradient::run, only: None },
    Pass { name: "simplify", run: simplify, only: None },
    Pass { name: "quantize", run: quantize::run, only: None },
    Pass { name: "recognize", run: recognize::run, only: None },
    Pass { name: "fuse", run: fuse::run, only: None },
    Pass { name: "layout", run: layout::run, only: Some(Optimize::Speed) },
];

/// The passes after which a graph still is of ONNX's own operators.
pub const STANDARD: &[Pass] = &[
    Pass { name: "gradient", run: gradient::standard, only: None },
    Pass { name: "optimize", run: optimize, only: None },
];

/// A pass of the caller's own, which runs before all others.
#[derive(Clone)]
pub struct OwnPass {
    name: Arc<str>,
    run: Arc<Run>,
}

type Run = dyn Fn(&Graph) -> Result<Graph, Diagnostics> + Send + Sync;

impl OwnPass {
    /// A pass of that name. What it gives is what the model means from there on.
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

/// What is simpler without looking further than a node's inputs, while quantized constants are to
/// stay what they are.
const SIMPLER: &[Rule] = &[
    fold::identity,
    fold::same_type,
    sequence::optional,
    sequence::sequence,
    loops::constants,
    fold::constants_but_quantized,
    algebra::sum,
    algebra::one,
    algebra::stretched,
];

/// The same, for quantized constants, too.
const SIMPLER_ALL: &[Rule] = &[
    fold::identity,
    fold::same_type,
    sequence::optional,
    sequence::sequence,
    loops::constants,
    fold::constants,
    algebra::sum,
    algebra::one,
    algebra::stretched,
];

/// The same, as far as the result is of ONNX's own operators.
const SIMPLER_STANDARD: &[Rule] = &[
    fold::identity,
    fold::same_type,
    sequence::optional,
    sequence::sequence,
    loops::constants,
    fold::constants_of_constants,
];

/// The passes that serve what matters most, in order.
pub fn pipeline(optimize: Optimize) -> impl Iterator<Item = &'static Pass> {
    PIPELINE.iter().filter(move |pass| pass.only.is_none_or(|only| only == optimize))
}

/// Runs the caller's passes and then `passes`, showing `seen` the graph after each. The caller's
/// are held to the law of the graph.
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
    match written_out(graph)? {
        Some(graph) => rewrite(&graph, branch::decide, SIMPLER),
        None => rewrite(graph, branch::decide, SIMPLER),
    }
}

/// The graph with the nodes that stand for several operators, where there are such.
fn written_out(graph: &Graph) -> Result<Option<Graph>, Diagnostics> {
    let is_there = graph.nodes().any(|(_, node)| node.op.is::<Quoted>());
    is_there.then(|| rewrite(graph, |_, _, _, _, _| Next::Copy, &[fold::expand])).transpose()
}

fn optimize(graph: &Graph) -> Result<Graph, Diagnostics> {
    rewrite(graph, branch::take, SIMPLER_STANDARD)
}
