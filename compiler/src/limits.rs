//! The limits of the work that a model causes when it is compiled.

mod clock;

use crate::{
    choice::{Choice, choices},
    diag::{Code, Diagnostic, Result},
};
use clock::Clock;
use std::{cell::RefCell, collections::BTreeMap, time::Duration};

/// A limit. Exceeding it is an error, or leaves the work to the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Limit {
    /// Nodes.
    Nodes,
    /// Bytes of folded constants.
    FoldedBytes,
    /// Bytes by which one folded constant is larger than its inputs.
    FoldedGrowth,
    /// Multiply-adds that computing one folded constant takes.
    FoldedWork,
    /// Elements that loops of constants read and write.
    LoopWork,
    /// Elements of the tables of a plan.
    TableElements,
    /// Bytes of the automata of patterns.
    PatternBytes,
    /// Bytes of sparse tensors in dense form.
    SparseBytes,
    /// Elements of lists whose lengths are sizes or attributes.
    ListElements,
    /// Bytes of weights in the text of a module.
    InlineBytes,
    /// Lines of a module.
    Lines,
    /// Seconds of a phase.
    Seconds,
    /// Bytes of memory.
    Memory,
}

choices! { Limit:
    Nodes "nodes" "The number of nodes, functions inlined; more are an error";
    FoldedBytes "folded-bytes" "The bytes of constants that one pass computes; others are computed \
        in each run. A model with large constants may compute eight times their bytes";
    FoldedGrowth "folded-growth" "The bytes by which a computed constant is larger than its \
        inputs; others are computed in each run";
    FoldedWork "folded-work" "The multiply-adds that computing a constant takes; others are \
        computed in each run";
    LoopWork "loop-work" "The number of elements that loops of constants read and write in one \
        pass; others iterate in each run";
    TableElements "table-elements" "The number of elements of the tables of `Resize` and of \
        Fourier transforms that a module stores; others are computed in each run";
    PatternBytes "pattern-bytes" "The bytes of the automata of `RegexFullMatch` and `Tokenizer`; \
        more are an error";
    SparseBytes "sparse-bytes" "The bytes of sparse tensors in dense form; more are an error";
    ListElements "list-elements" "The number of elements of lists that are as long as a size or an \
        attribute says, such as default zero points and the results of trees; more are an error, \
        or leave out an optimization";
    InlineBytes "inline-bytes" "The bytes of weights in the text of a module; more are an error";
    Lines "lines" "The number of lines of a module; more are an error";
    Seconds "seconds" "The seconds that the import, a pass or planning may take; more are an error";
    Memory "memory" "The bytes of memory that the process may use, files aside; more are an error. \
        Only Linux tells them";
}

impl Limit {
    /// Returns the limit unless the user sets another.
    pub const fn default(self) -> usize {
        match self {
            Limit::Nodes => 200_000,
            Limit::FoldedBytes | Limit::InlineBytes | Limit::SparseBytes => 256 << 20,
            Limit::PatternBytes => 64 << 20,
            Limit::FoldedGrowth => 1 << 20,
            Limit::FoldedWork => 1 << 32,
            Limit::LoopWork | Limit::TableElements => 1 << 22,
            Limit::ListElements => 1 << 24,
            Limit::Lines => 10_000_000,
            Limit::Seconds => 3600,
            Limit::Memory => 64 << 30,
        }
    }

    /// Returns what a limit counts.
    const fn unit(self) -> &'static str {
        match self {
            Limit::Nodes => "nodes",
            Limit::FoldedWork => "multiply-adds",
            Limit::Lines => "lines",
            Limit::Seconds => "seconds",
            Limit::LoopWork | Limit::TableElements | Limit::ListElements => "elements",
            Limit::FoldedBytes
            | Limit::FoldedGrowth
            | Limit::PatternBytes
            | Limit::SparseBytes
            | Limit::InlineBytes
            | Limit::Memory => "bytes",
        }
    }
}

/// The limits of a compilation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// The limits that differ from their defaults.
    pub set: BTreeMap<Limit, usize>,
}

impl Limits {
    /// Returns a limit.
    pub fn get(&self, limit: Limit) -> usize {
        self.set.get(&limit).copied().unwrap_or(limit.default())
    }

    /// Returns the limits that the user sets, as the command line spells them.
    pub fn to_arguments(&self) -> Vec<String> {
        self.set.iter().map(|(limit, number)| format!("{}={number}", limit.word())).collect()
    }

    /// Returns the error of a model that exceeds a limit.
    pub fn exceeded(&self, limit: Limit, message: impl Into<String>) -> Diagnostic {
        let (word, number) = (limit.word(), self.get(limit));
        Diagnostic::new(Code::TooLarge, message).help(format!(
            "if the model is meant to be so large, raise the limit, which is {number}: \
             `--limit {word}=N`"
        ))
    }
}

/// The limits of a stage of a compilation, and what the stage has taken of each. Whatever makes a
/// table or a list takes its length first.
#[derive(Debug, Default)]
pub struct Budget {
    limits: Limits,
    taken: RefCell<BTreeMap<Limit, usize>>,
    clock: Clock,
}

impl Budget {
    /// Creates the budget of a stage that has taken nothing.
    pub fn new(limits: Limits) -> Budget {
        Budget { limits, ..Budget::default() }
    }

    /// Returns the budget of another stage, with the same limits.
    pub fn renewed(&self) -> Budget {
        Budget::new(self.limits.clone())
    }

    /// Returns a limit.
    pub fn limit(&self, limit: Limit) -> usize {
        self.limits.get(limit)
    }

    /// Returns what is left of a limit.
    pub fn left(&self, limit: Limit) -> usize {
        let taken = self.taken.borrow().get(&limit).copied().unwrap_or(0);
        self.limit(limit).saturating_sub(taken)
    }

    /// Takes `count` of a limit; `false` if less is left.
    pub fn take(&self, limit: Limit, count: usize) -> bool {
        let fits = count <= self.left(limit);
        if fits {
            *self.taken.borrow_mut().entry(limit).or_default() += count;
        }
        fits
    }

    /// Takes `count` of a limit for `what`, the plural of what is made.
    ///
    /// # Errors
    ///
    /// Returns an error if less is left.
    pub fn spend(&self, limit: Limit, count: usize, what: &str) -> Result {
        if self.take(limit, count) { Ok(()) } else { Err(self.exceeded(limit, what)) }
    }

    /// Starts another phase, whose time is measured anew.
    pub fn start_phase(&self) {
        self.clock.restart();
    }

    /// Lets a phase go on. Phases ask for each node.
    ///
    /// # Errors
    ///
    /// Returns an error if the phase takes too long, or the process too much memory.
    pub fn go_on(&self) -> Result {
        let most = Duration::from_secs(self.limit(Limit::Seconds) as u64);
        if self.clock.elapsed() > most {
            return Err(self.exceeded(Limit::Seconds, "one phase"));
        }
        if self.clock.memory().is_some_and(|bytes| bytes > self.limit(Limit::Memory)) {
            return Err(self.exceeded(Limit::Memory, "memory"));
        }
        Ok(())
    }

    /// Returns the error that a limit is too low for `what`, the plural of what is made.
    pub fn exceeded(&self, limit: Limit, what: &str) -> Diagnostic {
        let (most, unit) = (self.limit(limit), limit.unit());
        self.limits.exceeded(limit, format!("the model needs more than {most} {unit} of {what}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_has_a_default_until_it_is_set() {
        let mut limits = Limits::default();
        assert_eq!(limits.get(Limit::Nodes), 200_000);
        limits.set.insert(Limit::Nodes, 7);
        assert_eq!((limits.get(Limit::Nodes), limits.get(Limit::LoopWork)), (7, 1 << 22));
        assert_eq!(limits.to_arguments(), ["nodes=7"]);
    }

    #[test]
    fn a_budget_is_taken_in_parts() {
        let limits = Limits { set: [(Limit::ListElements, 10)].into() };
        let budget = Budget::new(limits);
        assert!(budget.take(Limit::ListElements, 6) && !budget.take(Limit::ListElements, 5));
        assert!(budget.spend(Limit::ListElements, 4, "lists").is_ok());
        let error = budget.spend(Limit::ListElements, 1, "lists").expect_err("nothing is left");
        assert_eq!(error.message, "the model needs more than 10 elements of lists");
        assert!(budget.take(Limit::SparseBytes, 11) && budget.renewed().left(Limit::Nodes) > 0);
        assert_eq!(budget.renewed().left(Limit::ListElements), 10);
    }
}
