//! All that a model does.

use super::{Plan, Training};

/// The plans of a model.
#[derive(Clone)]
pub enum Plans {
    /// Those of one that only infers.
    Inference(Box<Plan>),
    /// Those of one that learns.
    Training(Box<Training>),
}

impl Plans {
    /// The plan of inference.
    pub fn infer(&self) -> &Plan {
        match self {
            Plans::Inference(plan) => plan,
            Plans::Training(training) => &training.infer,
        }
    }

    /// All of a model that learns.
    pub fn training(&self) -> Option<&Training> {
        match self {
            Plans::Inference(_) => None,
            Plans::Training(training) => Some(training),
        }
    }

    /// All plans: that of inference first.
    pub fn all(&self) -> Vec<&Plan> {
        match self {
            Plans::Inference(plan) => vec![plan],
            Plans::Training(training) => training.plans().collect(),
        }
    }
}
