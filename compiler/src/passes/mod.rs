//! Passes: transformations from a graph to a graph.
//!
//! [`PIPELINE`] lists the passes in order; [`run`] runs those of the caller, then these. A pass is
//! a function. Most passes are a list of [`Rule`](crate::ir::Rule)s, which
//! [`rewrite`](crate::ir::rewrite) applies to each node that it copies.
//!
//! # How to add a pass
//!
//! A pass is a file or folder of `compiler/src/passes`, with its tests, and in this file its `mod`
//! and its row of [`PIPELINE`]. `UPDATE=1 cargo test -p onnxc-tests` adds its name to the page
//! `docs/reference/options.md`. A rule is a file of its pass and a row of the pass's list.

mod algebra;
mod branch;
mod budget;
mod conditions;
mod fold;
mod fuse;
mod gradient;
mod known;
mod layout;
mod loops;
mod quantize;
mod recognize;
mod sequence;
mod simplify;

pub use gradient::{find_zero_gradients, separate_dropout_masks};

use crate::{
    diag::Diagnostics,
    ir::{Graph, verify},
    plan::Optimize,
};
use std::{fmt, sync::Arc};

/// A transformation from a graph to a graph.
pub struct Pass {
    /// The name that `--print-after` takes.
    pub name: &'static str,
    run: fn(Graph) -> Result<Graph, Diagnostics>,
    /// The only optimization goal that the pass serves; `None` if it serves all.
    only: Option<Optimize>,
}

/// The passes of a compilation, in order.
pub const PIPELINE: &[Pass] = &[
    Pass { name: "gradient", run: gradient::run, only: None },
    Pass { name: "simplify", run: simplify::run, only: None },
    Pass { name: "quantize", run: quantize::run, only: None },
    Pass { name: "recognize", run: recognize::run, only: None },
    Pass { name: "fuse", run: fuse::run, only: None },
    Pass { name: "layout", run: layout::run, only: Some(Optimize::Speed) },
];

/// The passes that keep a graph in ONNX's own operators, so that it can be exported.
pub const STANDARD: &[Pass] = &[
    Pass { name: "gradient", run: gradient::run_standard, only: None },
    Pass { name: "optimize", run: simplify::run_standard, only: None },
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

/// Returns the passes that serve an optimization goal, in order.
pub fn pipeline(optimize: Optimize) -> impl Iterator<Item = &'static Pass> {
    PIPELINE.iter().filter(move |pass| pass.only.is_none_or(|only| only == optimize))
}

/// Runs the caller's passes and then `passes`, and calls `seen` with the graph after each.
///
/// # Errors
///
/// Returns the diagnostics of a pass, or of [`verify`] for the graph of a caller's pass.
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
        graph.budget.start_phase();
        graph = (pass.run)(graph)?;
        if cfg!(debug_assertions) {
            verify(&graph)?;
        }
        seen(pass.name, &graph);
    }
    Ok(graph)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Compiler, Options,
        diag::Code,
        ir,
        limits::{Budget, Limit, Limits},
    };
    use std::rc::Rc;

    #[test]
    fn a_phase_that_takes_too_long_is_an_error_at_a_node() {
        let model = "<ir_version: 10, opset_import: [\"\" : 21]>
            g (bool c, float[2] x) => (y) {
                y = If (c) <
                    then_branch = t () => (a) { b = Relu (x)  a = Neg (b) },
                    else_branch = e () => (d) { d = Abs (x) }
                >
            }";
        let options = Options::default();
        let imported = Compiler::new(&options).import(model.as_bytes().into());
        let mut graph = imported.expect("the model is valid").graph;
        let limits = Limits { set: [(Limit::Seconds, 0)].into() };
        graph.budget = Rc::new(Budget::new(limits));
        let planned = ir::plan(&graph, options.optimize, options.precision, options.free_sizes());
        let passed = run(graph, &[], pipeline(options.optimize), &mut |_, _| ());
        for found in [planned.err(), passed.err()] {
            let Diagnostics(found) = found.expect("a second is too long");
            assert_eq!((found.len(), found[0].code), (1, Code::TooLarge));
            assert!(found[0].at.last().is_some_and(|at| at.contains("(If)")), "{}", found[0]);
        }
    }
}
