//! Collects the diagnostics of graph construction.

use crate::{
    check,
    diag::{Diagnostic, Diagnostics, Result},
};
use onnxc_proto::NodeProto;
use std::mem;

/// Diagnostics, in the order in which they were found.
#[derive(Default)]
pub(super) struct Found(Vec<Conditional>);

struct Conditional {
    diagnostic: Diagnostic,
    when: When,
}

/// When an error applies. A branch may never be taken, and a type error in it is harmless then.
#[derive(Clone, Copy, PartialEq, Eq)]
enum When {
    Always,
    Run,
}

impl Found {
    /// Adds a warning, or an error that always applies.
    pub fn push(&mut self, diagnostic: Diagnostic) {
        self.0.push(Conditional { diagnostic, when: When::Always });
    }

    /// Adds an error that applies only if the graph runs.
    pub fn push_if_run(&mut self, diagnostic: Diagnostic) {
        self.0.push(Conditional { diagnostic, when: When::Run });
    }

    /// Returns whether there is an error.
    pub fn has_errors(&self) -> bool {
        self.0.iter().any(|found| found.diagnostic.is_error())
    }

    /// The value of `result`, or `None` after its error was added.
    pub fn keep<T>(&mut self, result: Result<T>) -> Option<T> {
        result.map_err(|diagnostic| self.push(diagnostic)).ok()
    }

    /// Adds the diagnostics of a part.
    pub fn extend(&mut self, part: Found) {
        self.0.extend(part.0);
    }

    /// Prepends a location to every diagnostic.
    pub fn within(mut self, place: impl FnOnce() -> String) -> Found {
        if !self.0.is_empty() {
            let place = place();
            for found in &mut self.0 {
                found.diagnostic.at.insert(0, place.clone());
            }
        }
        self
    }

    /// Locates every diagnostic at node number `i`.
    pub fn at_node(mut self, node: &NodeProto, i: usize) -> Found {
        for found in &mut self.0 {
            found.diagnostic = check::at_node(found.diagnostic.clone(), node, i);
        }
        self
    }

    /// Returns whether any error applies only if the graph runs.
    pub fn fails_if_run(&self) -> bool {
        self.0.iter().any(|diagnostic| diagnostic.when == When::Run)
    }

    /// Drops the errors that apply only if the graph runs.
    pub fn may_never_run(&mut self) {
        self.0.retain(|diagnostic| diagnostic.when == When::Always);
    }

    /// Takes all diagnostics. Returns the warnings, or everything as `Err` if one is an error.
    pub fn finish(&mut self) -> std::result::Result<Vec<Diagnostic>, Diagnostics> {
        let all = mem::take(&mut self.0).into_iter().map(|found| found.diagnostic);
        Diagnostics(all.collect()).into_warnings()
    }
}
