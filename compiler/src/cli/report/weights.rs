//! The weights, with the range of their elements.

use onnxc::{
    plan::{Place, Plan},
    tensor::Tensor,
};
use serde_json::{Value, json};

/// Returns the weights in the order of their memory: name, type, bytes, and the least, the greatest
/// and the mean element, if they are real numbers.
pub fn value(plan: &Plan) -> Vec<Value> {
    let weights = plan.buffers.iter().filter_map(|(_, buffer)| match &buffer.place {
        Place::Weight { offset, weight, .. } => Some((*offset, &buffer.name, weight)),
        Place::Input(_) | Place::Arena { .. } | Place::Heap => None,
    });
    let mut weights: Vec<_> = weights.collect();
    weights.sort_by_key(|(offset, name, _)| (*offset, *name));
    let row = |(_, name, weight): (usize, &String, &onnxc::plan::Weight)| {
        let constant = weight.constant();
        json!([name, constant.ty().to_string(), weight.bytes(), range(constant)])
    };
    weights.into_iter().map(row).collect()
}

fn range(constant: &Tensor) -> Option<[f64; 3]> {
    let floats = constant.floats();
    let ints = || constant.ints().map(|ints| ints.into_iter().map(|n| n as f64).collect());
    let numbers: Vec<f64> = floats.or_else(ints).filter(|numbers| !numbers.is_empty())?;
    let least = numbers.iter().copied().fold(f64::INFINITY, f64::min);
    let most = numbers.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let mean = numbers.iter().sum::<f64>() / numbers.len() as f64;
    Some([least, most, mean].map(round))
}

/// Rounds to six digits, so that the page is short.
fn round(number: f64) -> f64 {
    format!("{number:.5e}").parse().unwrap_or(number)
}
