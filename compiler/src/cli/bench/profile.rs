//! The times of nodes that a profiled program measured.

use super::{measured::rounded, process::Process};
use onnxc::emit::ObservedNode;
use serde_json::{Value, json};

/// The times of the nodes of a model.
pub struct Profile {
    /// The number of runs.
    pub runs: u64,
    /// The nodes, with their times.
    pub nodes: Vec<(ObservedNode, Times)>,
}

/// The times of one node.
#[derive(Clone, Copy)]
pub struct Times {
    /// The number of executions in a run: more than one for a node in a loop.
    pub per_run: f64,
    /// The mean time in a run, in microseconds.
    pub us: f64,
    /// The shortest execution, in microseconds.
    pub least_us: f64,
}

impl Profile {
    /// Lets a program profile its `nodes` for this many seconds. It writes the table, the trace and
    /// the stacks to its folder.
    pub fn of(
        program: &mut Process,
        nodes: Vec<ObservedNode>,
        seconds: f64,
    ) -> Result<Profile, String> {
        let answer = program.ask(&format!("f {}", (seconds * 1e3) as u64))?;
        let runs = answer["runs"].as_u64().ok_or("the program reported no runs")?;
        let times = answer["nodes"].as_array().ok_or("the program reported no nodes")?;
        let times = times.iter().map(|node| {
            let [count, total, least] = [0, 1, 2].map(|at| node[at].as_f64().unwrap_or(0.0));
            let runs = runs.max(1) as f64;
            Times { per_run: count / runs, us: total / runs / 1e3, least_us: least / 1e3 }
        });
        Ok(Profile { runs, nodes: nodes.into_iter().zip(times).collect() })
    }

    /// Returns the times as JSON.
    pub fn json(&self) -> Value {
        let node = |(node, times): &(ObservedNode, Times)| {
            let (name, operator) = node.name();
            json!({
                "node": name,
                "operator": operator,
                "multiply_adds": node.macs,
                "per_run": rounded(times.per_run),
                "us": rounded(times.us),
                "least_us": rounded(times.least_us),
            })
        };
        json!({ "runs": self.runs, "nodes": self.nodes.iter().map(node).collect::<Vec<_>>() })
    }
}
