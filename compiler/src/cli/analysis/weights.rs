//! The weights of a model.

use onnxc::{
    dtype::DType,
    plan::{Place, Plans},
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
