//! Training models: several plans over the same variables.

use super::{Plan, Port};
use crate::tensor::Tensor;

/// The plans of a training model. All have the same variables as states, in the same order.
#[derive(Clone)]
pub struct Training {
    /// Inference, which does not change the variables.
    pub infer: Plan,
    /// Sets every variable to its initial value.
    pub reset: Plan,
    /// Runs the initialization graphs.
    pub init: Plan,
    /// The algorithms, in order.
    pub steps: Vec<Algorithm>,
}

/// A training algorithm: one iteration changes the variables.
#[derive(Clone)]
pub struct Algorithm {
    /// The name in the model.
    pub name: String,
    /// Its plan.
    pub plan: Plan,
}

impl Training {
    /// Returns all plans.
    pub fn plans(&self) -> impl Iterator<Item = &Plan> {
        let steps = self.steps.iter().map(|step| &step.plan);
        [&self.infer, &self.reset, &self.init].into_iter().chain(steps)
    }

    /// Returns all plans for modification.
    pub fn plans_mut(&mut self) -> impl Iterator<Item = &mut Plan> {
        let steps = self.steps.iter_mut().map(|step| &mut step.plan);
        [&mut self.infer, &mut self.reset, &mut self.init].into_iter().chain(steps)
    }

    /// Returns the variables.
    pub fn variables(&self) -> impl Iterator<Item = &Port> {
        self.reset.states.iter().map(|state| &state.found)
    }

    /// Returns the initial value of each variable.
    pub fn initial(&self) -> impl Iterator<Item = Tensor> {
        self.reset.states.iter().filter_map(|state| {
            // Constants that differ in shape only share a weight.
            let shape = state.found.ty.kept()?.known_shape()?;
            let constant = self.reset.constant(state.next.operand.buffer)?;
            Some(Tensor { shape, ..constant.clone() })
        })
    }
}
