//! What was found while a graph was built.

use crate::diag::{Code, Diagnostic, Diagnostics, Result};
use std::{collections::HashMap, mem};

/// What is wrong with what was built, in order.
#[derive(Default)]
pub(super) struct Found(Vec<Conditional>);

struct Conditional {
    what: Diagnostic,
    when: When,
}

/// When something is wrong: a branch may never be taken, and what does not fit in it does no harm
/// then.
#[derive(Clone, Copy, PartialEq, Eq)]
enum When {
    Always,
    Run,
}

impl Found {
    /// Takes in what is wrong in any case.
    pub fn push(&mut self, what: Diagnostic) {
        self.0.push(Conditional { what, when: When::Always });
    }

    /// Takes in what is wrong if it is run.
    pub fn push_if_run(&mut self, what: Diagnostic) {
        self.0.push(Conditional { what, when: When::Run });
    }

    /// The value of `result`, or `None` with its diagnostic taken in.
    pub fn keep<T>(&mut self, result: Result<T>) -> Option<T> {
        result.map_err(|diagnostic| self.push(diagnostic)).ok()
    }

    /// Takes in what was found in a part.
    pub fn extend(&mut self, part: Found) {
        self.0.extend(part.0);
    }

    /// All of it inside a place.
    pub fn within(mut self, place: impl FnOnce() -> String) -> Found {
        if !self.0.is_empty() {
            let place = place();
            for diagnostic in &mut self.0 {
                diagnostic.what.at.insert(0, place.clone());
            }
        }
        self
    }

    /// Whether there is something that is wrong if it is run.
    pub fn fails_if_run(&self) -> bool {
        self.0.iter().any(|diagnostic| diagnostic.when == When::Run)
    }

    /// Forgets what is wrong if it is run, for it may never be.
    pub fn may_never_run(&mut self) {
        self.0.retain(|diagnostic| diagnostic.when == When::Always);
    }

    /// `Err` with all diagnostics, where there are any; none are left.
    pub fn finish(&mut self) -> std::result::Result<(), Diagnostics> {
        let all = mem::take(&mut self.0).into_iter().map(|diagnostic| diagnostic.what);
        let all: Vec<Diagnostic> = all.collect();
        if all.is_empty() { Ok(()) } else { Err(Diagnostics(all)) }
    }
}

/// The diagnostics, of which what is wrong with a file beside the model is one, however many tensors
/// lie in it.
pub(super) fn once_a_file(found: Vec<Diagnostic>) -> Vec<Diagnostic> {
    let mut kept: Vec<(Diagnostic, usize)> = Vec::new();
    let mut faults: HashMap<(String, Option<String>), usize> = HashMap::new();
    for diagnostic in found {
        let last = (diagnostic.message.clone(), diagnostic.at.last().cloned());
        let fault = (diagnostic.code == Code::BadExternalData).then_some(last);
        match fault.as_ref().and_then(|fault| faults.get(fault).copied()) {
            Some(first) => kept[first].1 += 1,
            None => {
                faults.extend(fault.map(|fault| (fault, kept.len())));
                kept.push((diagnostic, 0));
            }
        }
    }
    let noted = |(diagnostic, more): (Diagnostic, usize)| match more {
        0 => diagnostic,
        1 => diagnostic.note("one more tensor lies in it"),
        _ => diagnostic.note(format!("{more} more tensors lie in it")),
    };
    kept.into_iter().map(noted).collect()
}
