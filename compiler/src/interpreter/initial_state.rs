//! The states before the first run.

use crate::{
    array::Array,
    dim::{Dim, Symbol},
    plan::{Plan, Port},
    tensor::Tensor,
    ty::count,
};
use onnxc_runtime::Result;
use std::collections::HashMap;

/// Returns the initial value of a state: its default, or zeros. A size that no input binds is 0.
///
/// # Errors
///
/// Returns an error if the zeros exceed memory.
pub(super) fn initial_state(
    plan: &Plan,
    found: &Port,
    bound: &HashMap<Symbol, i64>,
) -> Result<Tensor> {
    if let Some(default) = plan.initial(found) {
        return Ok(default.clone());
    }
    let size = |dim: &Dim| dim.eval(&|name| bound.get(name).copied().unwrap_or(0));
    let sizes = found.shape().iter().map(|dim| usize::try_from(size(dim)).unwrap_or(0));
    let shape: Vec<usize> = sizes.collect();
    Ok(Array::try_zeroed(found.dtype(), count(&shape))?.into_tensor(shape))
}
