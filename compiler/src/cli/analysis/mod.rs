//! The facts about a compiled model that `inspect` prints and `report` draws. All numbers are those
//! of the plan, so they equal the constants of the generated module.

mod cost;
mod fate;
mod heap;
mod sizes;
mod unfused;
mod weights;

pub use cost::{NodeCost, by_node};
pub use fate::{Fate, fates};
pub use heap::heap_buffers;
pub use sizes::{FreeSize, free_sizes};
pub use unfused::unfused;
pub use weights::{WeightBytes, by_type};

use super::progress;
use onnxc::{
    Compiler, Options,
    diag::{Diagnostic, Diagnostics},
    ir::{Graph, NodeId},
    passes,
    plan::Plans,
};
use onnxc_proto::Bytes;
use std::collections::HashMap;

/// A model before and after the passes, and its plans.
pub struct Analysis {
    /// The graph before the passes.
    pub imported: Graph,
    /// The graph after the last pass, from which the plan was made.
    pub optimized: Graph,
    /// The plans.
    pub plans: Plans,
    /// The warnings about the model.
    pub warnings: Vec<Diagnostic>,
}

impl Analysis {
    /// Compiles a model up to its plans.
    ///
    /// # Errors
    ///
    /// Returns the diagnostics of the options or of the model.
    pub fn of(model: Bytes, options: &Options) -> Result<Analysis, Diagnostics> {
        let last = passes::pipeline(options.optimize).last().map(|pass| pass.name);
        let (mut imported, mut optimized) = (None, None);
        let mut compiler = Compiler::new(options).observe(|pass, graph| {
            progress::record_part(pass);
            // A training model has further graphs. The first is that of inference.
            let place = match pass {
                "import" => &mut imported,
                pass if Some(pass) == last => &mut optimized,
                _ => return,
            };
            place.get_or_insert_with(|| graph.clone());
        });
        let plans = compiler.plans(model)?;
        let warnings = compiler.take_warnings();
        drop(compiler);
        let imported = imported.expect("a model that was planned was imported");
        let optimized = optimized.unwrap_or_else(|| imported.clone());
        Ok(Analysis { imported, optimized, plans, warnings })
    }

    /// Returns the node of the optimized graph for each text by which steps of the plan name their
    /// nodes.
    pub fn nodes_by_comment(&self) -> HashMap<String, NodeId> {
        let graph = &self.optimized;
        let nodes = graph.walk(graph.body);
        nodes.map(|(id, node)| (graph.comment(node), id)).collect()
    }
}
