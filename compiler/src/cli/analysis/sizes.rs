//! The sizes that are free.

use onnxc::{dim::Symbol, plan::Plan};

/// A size that is known only at run time.
#[derive(Clone, Debug)]
pub struct FreeSize {
    /// The name.
    pub name: String,
    /// The greatest value for which memory is planned.
    pub max: Option<i64>,
    /// The axes of inputs and states that have the size, or the node that computes it.
    pub bound_by: Vec<String>,
}

/// Returns the free sizes of a plan, and what binds each.
pub fn free_sizes(plan: &Plan) -> Vec<FreeSize> {
    let each = plan.symbols.iter().map(|(symbol, known)| FreeSize {
        name: known.label.clone(),
        max: known.max,
        bound_by: bound_by(plan, symbol),
    });
    each.filter(|size| !size.bound_by.is_empty()).collect()
}

fn bound_by(plan: &Plan, symbol: &Symbol) -> Vec<String> {
    let mut places = Vec::new();
    for port in plan.inputs.iter().chain(plan.states.iter().map(|state| &state.found)) {
        for (axis, dim) in port.shape().iter().enumerate() {
            if dim.as_symbol() == Some(symbol) {
                places.push(format!("axis {axis} of the input `{}`", port.name));
            }
        }
    }
    if places.is_empty() {
        plan.calls(&mut |call| {
            if call.binds.contains(symbol) {
                places.push(format!("a result of the node `{}`", call.node));
            }
        });
    }
    places
}
