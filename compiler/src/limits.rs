//! The limits of the work that a model causes when it is compiled.

use crate::{
    choice::{Choice, choices},
    diag::{Code, Diagnostic},
};
use std::collections::BTreeMap;

/// A limit. Exceeding it is an error, or leaves the work to the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Limit {
    /// Nodes.
    Nodes,
    /// Bytes of folded constants.
    FoldedBytes,
    /// Bytes by which one folded constant is larger than its inputs.
    FoldedGrowth,
    /// Elements that loops of constants read and write.
    LoopWork,
    /// Elements of a table.
    TableElements,
    /// Bytes of weights in the text of a module.
    InlineBytes,
    /// Lines of a module.
    Lines,
}

choices! { Limit:
    Nodes "nodes" "The number of nodes, functions inlined; more are an error";
    FoldedBytes "folded-bytes" "The bytes of constants that one pass computes; others are computed \
        in each run. A model with large constants may compute eight times their bytes";
    FoldedGrowth "folded-growth" "The bytes by which a computed constant is larger than its \
        inputs; others are computed in each run";
    LoopWork "loop-work" "The number of elements that loops of constants read and write in one \
        pass; others iterate in each run";
    TableElements "table-elements" "The number of elements of a table of `Resize`; others are \
        computed in each run";
    InlineBytes "inline-bytes" "The bytes of weights in the text of a module; more are an error";
    Lines "lines" "The number of lines of a module; more are an error";
}

impl Limit {
    /// Returns the limit unless the user sets another.
    pub const fn default(self) -> usize {
        match self {
            Limit::Nodes => 200_000,
            Limit::FoldedBytes | Limit::InlineBytes => 256 << 20,
            Limit::FoldedGrowth | Limit::TableElements => 1 << 20,
            Limit::LoopWork => 1 << 22,
            Limit::Lines => 10_000_000,
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
}
