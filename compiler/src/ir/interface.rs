//! How a model is called, beyond what the types of its inputs and outputs say.

use crate::tensor::Tensor;
use std::collections::BTreeMap;

/// How a model is called, beyond what the types of its inputs and outputs say.
#[derive(Clone, Debug, Default)]
pub struct Interface {
    /// What inputs are where the caller leaves them out, by the input's number.
    pub defaults: BTreeMap<usize, Tensor>,
    /// What the model hands from one run to the next.
    pub states: Vec<Held>,
    /// Whether the states are the variables of a model that learns, which its other graphs have,
    /// too, and in the same order.
    pub learns: bool,
}

/// A value that the model hands from one run to the next: neither input nor output for the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    /// The number of the input where a run finds it.
    pub input: usize,
    /// The number of the output that the next run finds; without one, it stays as it is.
    pub output: Option<usize>,
}

impl Interface {
    /// The state that is found at the input of that number.
    pub fn found_at(&self, input: usize) -> Option<Held> {
        self.states.iter().copied().find(|held| held.input == input)
    }

    /// Whether the output of that number is for the next run alone.
    pub fn keeps(&self, output: usize) -> bool {
        self.states.iter().any(|held| held.output == Some(output))
    }
}
