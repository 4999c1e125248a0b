//! The states before the first run.

use crate::{
    array::Array,
    dim::{Dim, Symbol},
    plan::{Plan, Port},
    tensor::Tensor,
    ty::count,
};
use std::collections::HashMap;

/// Returns the initial value of a state: its default, or zeros. A size that no input binds is 0.
pub(super) fn initial_state(plan: &Plan, found: &Port, bound: &HashMap<Symbol, i64>) -> Tensor {
    if let Some(default) = plan.initial(found) {
        return default.clone();
    }
    let size = |dim: &Dim| dim.eval(&|name| bound.get(name).copied().unwrap_or(0));
    let sizes = found.shape().iter().map(|dim| usize::try_from(size(dim)).unwrap_or(0));
    let shape: Vec<usize> = sizes.collect();
    Array::zeroed(found.dtype(), count(&shape)).into_tensor(shape)
}
