//! The limits of constant folding in one rewrite.

use crate::{interpreter, ir::Graph, limits::Limit, plan::Plan, value::Value};
use std::cell::Cell;

/// How many times the bytes of its constants a graph may compute in constants.
const GROWTH: usize = 8;

/// The bytes and the work that constant folding has left in one rewrite. Without a limit, a small
/// model that doubles a constant many times would take all memory.
pub struct Budget {
    /// The bytes of constants that may still be computed.
    bytes: Cell<usize>,
    /// The elements that loops may still read and write.
    work: Cell<u64>,
}

impl Budget {
    /// The budget of a rewrite of `graph`.
    pub fn of(graph: &Graph) -> Budget {
        let constants = graph.values().filter_map(|(_, value)| value.constant.as_ref());
        let bytes = constants.fold(graph.budget.limit(Limit::FoldedBytes), |sum, tensor| {
            sum.saturating_add(tensor.bytes().len().saturating_mul(GROWTH))
        });
        let work = u64::try_from(graph.budget.limit(Limit::LoopWork)).unwrap_or(u64::MAX);
        Budget { bytes: Cell::new(bytes), work: Cell::new(work) }
    }

    /// Takes the bytes of a constant from the budget; `false` if it has too few.
    pub fn take(&self, bytes: usize) -> bool {
        let rest = self.bytes.get().checked_sub(bytes);
        self.bytes.set(rest.unwrap_or(self.bytes.get()));
        rest.is_some()
    }

    /// Runs a plan without inputs; `None` if that takes more work than is left.
    pub fn run(&self, plan: &Plan) -> Option<Vec<Value>> {
        let mut work = self.work.get();
        let outputs = interpreter::run_within(plan, &mut work);
        self.work.set(work);
        outputs.ok()
    }
}
