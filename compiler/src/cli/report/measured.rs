//! The times of nodes, which the compiled module measures.

use super::graph;
use crate::cli::{
    analysis::Analysis,
    bench::{Subject, profile, rounded},
};
use onnxc::diag::Diagnostics;
use serde_json::{Value, json};
use std::path::Path;

/// The time for which a module runs, in seconds.
const SECONDS: f64 = 1.0;

/// Builds the module of an analyzed model, in `scratch` if it is set, and runs it. Returns the
/// number of runs, and for each optimized node its number, the mean time in a run and the shortest
/// execution in microseconds, and the number of executions in a run. The number of a step for no
/// node is -1.
pub fn value(
    subject: Subject<'_>,
    analysis: &Analysis,
    runtime: Option<&str>,
    scratch: Option<&Path>,
) -> Result<Value, Diagnostics> {
    let measured = profile(subject, runtime, scratch, SECONDS)?;
    let (places, ids) = (graph::numbers(&analysis.optimized), analysis.nodes_by_comment());
    let times = measured.nodes.iter().map(|(node, times)| {
        let place = ids.get(&node.comment).map_or(-1, |id| places[id] as i64);
        json!([place, rounded(times.us), rounded(times.least_us), rounded(times.per_run)])
    });
    Ok(json!({ "runs": measured.runs, "times": times.collect::<Vec<_>>() }))
}
