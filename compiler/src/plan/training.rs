//! A model that learns: several plans over the same variables.

use super::{Plan, Port};
use crate::tensor::Tensor;

/// A model that learns, as a plan for each thing that it does. All have the same variables, in the
/// same order, as their states.
#[derive(Clone)]
pub struct Training {
    /// Inference, which leaves the variables as they are.
    pub infer: Plan,
    /// Sets every variable to what the model says that it is at first.
    pub reset: Plan,
    /// Sets every variable to what the initializations make of it.
    pub init: Plan,
    /// The algorithms, in order.
    pub steps: Vec<Algorithm>,
}

/// What changes the variables once.
#[derive(Clone)]
pub struct Algorithm {
    /// What the model calls it.
    pub name: String,
    /// Its plan.
    pub plan: Plan,
}

impl Training {
    /// All plans.
    pub fn plans(&self) -> impl Iterator<Item = &Plan> {
        let steps = self.steps.iter().map(|step| &step.plan);
        [&self.infer, &self.reset, &self.init].into_iter().chain(steps)
    }

    /// All plans, to be changed.
    pub fn plans_mut(&mut self) -> impl Iterator<Item = &mut Plan> {
        let steps = self.steps.iter_mut().map(|step| &mut step.plan);
        [&mut self.infer, &mut self.reset, &mut self.init].into_iter().chain(steps)
    }

    /// The variables: what each is called, its type, and where it is.
    pub fn variables(&self) -> impl Iterator<Item = &Port> {
        self.reset.states.iter().map(|state| &state.found)
    }

    /// What each variable is at first.
    pub fn initial(&self) -> impl Iterator<Item = Tensor> {
        self.reset.states.iter().filter_map(|state| {
            // Constants that differ in shape alone are one weight.
            let shape = state.found.ty.kept()?.known_shape()?;
            let constant = self.reset.constant(state.next.operand.buffer)?;
            Some(Tensor { shape, ..constant.clone() })
        })
    }
}
