//! Conditions that are known before the model runs.

use crate::{
    dim::Dim,
    ir::{Graph, ValueId},
};
use std::cell::RefCell;

/// The conditions that are known where a rewrite copies to.
#[derive(Default)]
pub struct KnownConditions {
    /// Sizes of 0 or 1 that are not 1 in the branches around the place.
    denied: RefCell<Vec<Dim>>,
}

impl KnownConditions {
    /// Returns the branch that a condition takes, 0 if it holds and 1 if not.
    pub fn decide(&self, graph: &Graph, cond: ValueId) -> Option<usize> {
        let value = &graph[cond];
        let constant = value.constant.as_ref().and_then(|tensor| tensor.ints()?.first().copied());
        let known = value.known.as_ref().and_then(|known| known.first());
        let denied = known.filter(|known| self.is_denied(known)).map(|_| 0);
        Some(usize::from(constant.or(known.and_then(Dim::known)).or(denied)? == 0))
    }

    /// Returns whether a size of 0 or 1 is known not to be 1.
    pub fn is_denied(&self, condition: &Dim) -> bool {
        self.denied.borrow().contains(condition)
    }

    /// Enters a branch in which `condition`, if there is one, is not 1. Returns what
    /// [`Self::leave`] takes.
    pub fn enter(&self, condition: Option<Dim>) -> usize {
        let mut denied = self.denied.borrow_mut();
        let before = denied.len();
        denied.extend(condition);
        before
    }

    /// Leaves the branch for which [`Self::enter`] returned `before`.
    pub fn leave(&self, before: usize) {
        self.denied.borrow_mut().truncate(before);
    }
}
