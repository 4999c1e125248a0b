//! The plans of a model.

use super::{Plan, Training};

/// The plans of a model.
#[derive(Clone)]
pub enum Plans {
    /// The plan of a model without training information.
    Inference(Box<Plan>),
    /// The plans of a training model.
    Training(Box<Training>),
}

impl Plans {
    /// Returns the inference plan.
    pub fn infer(&self) -> &Plan {
        match self {
            Plans::Inference(plan) => plan,
            Plans::Training(training) => &training.infer,
        }
    }

    /// Returns the plans of a training model.
    pub fn training(&self) -> Option<&Training> {
        match self {
            Plans::Inference(_) => None,
            Plans::Training(training) => Some(training),
        }
    }

    /// Returns all plans, the inference plan first.
    pub fn all(&self) -> Vec<&Plan> {
        match self {
            Plans::Inference(plan) => vec![plan],
            Plans::Training(training) => training.plans().collect(),
        }
    }

    /// Returns whether a plan calls kernels of a module of the runtime library, such as `image`.
    pub fn call_kernels_of(&self, module: &str) -> bool {
        let mut found = false;
        for plan in self.all() {
            plan.calls(&mut |call| found |= call.kernel.split("::").next() == Some(module));
        }
        found
    }
}
