//! The weights, with the range of their elements.

use super::range;
use onnxc::plan::{Place, Plan};
use serde_json::{Value, json};

/// Returns the weights in the order of their memory: name, type, bytes, and the range of their
/// elements.
pub fn value(plan: &Plan) -> Vec<Value> {
    let weights = plan.buffers.iter().filter_map(|(_, buffer)| match &buffer.place {
        Place::Weight { offset, weight, .. } => Some((*offset, &buffer.name, weight)),
        Place::Input(_) | Place::Arena { .. } | Place::Heap => None,
    });
    let mut weights: Vec<_> = weights.collect();
    weights.sort_by_key(|(offset, name, _)| (*offset, *name));
    let row = |(_, name, weight): (usize, &String, &onnxc::plan::Weight)| {
        let constant = weight.constant();
        json!([name, constant.ty().to_string(), weight.bytes(), range::of(constant)])
    };
    weights.into_iter().map(row).collect()
}
