//! Running statistics of normalizations.

use super::{graph_builder::Draft, optimizer::Update};
use crate::dtype::DType;

/// A running statistic.
pub struct Statistic {
    /// The initializer.
    pub variable: String,
    /// The value after a step.
    pub next: String,
    /// Its type.
    pub dtype: DType,
    /// Its sizes.
    pub shape: Vec<usize>,
    /// The initial value: a mean of 0, a variance of 1.
    pub first: f64,
}

impl Statistic {
    /// Returns the assignment of a step.
    pub fn update(&self, draft: &mut Draft) -> Update {
        draft.give(&self.next, self.dtype, &self.shape);
        Update { variable: self.variable.clone(), value: self.next.clone(), is_state: false }
    }
}
