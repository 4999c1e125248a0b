//! The weights of a model.

use onnxc::{
    dtype::DType,
    plan::{BufferId, Place, Plan, Plans},
};
use std::collections::{BTreeMap, BTreeSet};

/// The weights of one element type.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WeightBytes {
    /// The number of constants.
    pub count: usize,
    /// Their bytes, without padding between them.
    pub bytes: usize,
}

/// Returns the weights by element type. Weights that several plans share count once.
pub fn by_type(plans: &Plans) -> BTreeMap<DType, WeightBytes> {
    let mut found: BTreeMap<DType, WeightBytes> = BTreeMap::new();
    let mut seen = BTreeSet::new();
    for plan in plans.all() {
        for (_, buffer) in plan.buffers.iter() {
            let Place::Weight { offset, weight, .. } = &buffer.place else { continue };
            if seen.insert((*offset, weight.bytes(), weight.dtype())) {
                let sum = found.entry(weight.dtype()).or_default();
                sum.count += 1;
                sum.bytes += weight.bytes();
            }
        }
    }
    found
}

/// Returns the number of parameters of inference: those in the weights, and those in the variables
/// that it reads.
pub fn parameters(plan: &Plan) -> u64 {
    let in_weights = plan.buffers.iter().filter_map(|(_, buffer)| match &buffer.place {
        Place::Weight { parameters, .. } => Some(*parameters as u64),
        Place::Input(_) | Place::Arena { .. } | Place::Heap => None,
    });
    let mut variables: BTreeSet<BufferId> = BTreeSet::new();
    onnxc::plan::step::operands(&plan.steps, &mut |operand| {
        if plan.variable(operand.buffer).is_some() {
            variables.insert(operand.buffer);
        }
    });
    let len = |id: BufferId| u64::try_from(plan.buffers[id].len.known()?).ok();
    in_weights.sum::<u64>() + variables.into_iter().filter_map(len).sum::<u64>()
}
