//! The interface of a model beyond the types of its inputs and outputs.

use crate::tensor::Tensor;
use std::collections::BTreeMap;

/// The interface of a model beyond the types of its inputs and outputs.
#[derive(Clone, Debug, Default)]
pub struct Interface {
    /// The defaults of inputs, by the index of the input.
    pub defaults: BTreeMap<usize, Tensor>,
    /// The states.
    pub states: Vec<Held>,
    /// Whether the states are the variables of a training model, which its other graphs share in
    /// the same order.
    pub learns: bool,
}

/// A state: an input that a run takes from the previous run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    /// The index of the input.
    pub input: usize,
    /// The index of the output that the next run receives; `None` if the state does not change.
    pub output: Option<usize>,
}

impl Interface {
    /// Returns the state of an input.
    pub fn found_at(&self, input: usize) -> Option<Held> {
        self.states.iter().copied().find(|held| held.input == input)
    }

    /// Returns whether an output is only for the next run.
    pub fn keeps(&self, output: usize) -> bool {
        self.states.iter().any(|held| held.output == Some(output))
    }
}
