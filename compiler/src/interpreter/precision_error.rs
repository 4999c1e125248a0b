//! What fewer bits do to a model's results.

use super::run;
use crate::{plan::Plan, tensor::Tensor, value::Value};
use onnxc_runtime::Result;

/// How far an output is from what it is with other options.
#[derive(Clone, Debug, PartialEq)]
pub struct Effect {
    /// The output.
    pub output: String,
    /// The largest difference, as a share of the largest number.
    pub error: f64,
}

/// What `narrow` gives for the inputs, beside what `exact` gives: each output of real numbers.
///
/// # Errors
///
/// What either refuses.
pub fn effect(exact: &Plan, narrow: &Plan, inputs: &[Value]) -> Result<Vec<Effect>> {
    let (wanted, given) = (run(exact, inputs)?, run(narrow, inputs)?);
    let pairs = exact.outputs.iter().zip(wanted.iter().zip(&given));
    let effects = pairs.filter_map(|(port, (wanted, given))| {
        let of =
            |value: &Value| value.tensor().filter(|y| y.dtype.is_float()).and_then(Tensor::floats);
        Some(Effect { output: port.name.clone(), error: error(&of(wanted)?, &of(given)?) })
    });
    Ok(effects.collect())
}

fn error(wanted: &[f64], given: &[f64]) -> f64 {
    let largest = wanted.iter().fold(0.0f64, |most, y| most.max(y.abs()));
    let apart = wanted.iter().zip(given).map(|(a, b)| if a == b { 0.0 } else { (a - b).abs() });
    let apart = apart.fold(0.0, |most: f64, x| if most >= x { most } else { x });
    if apart == 0.0 { 0.0 } else { apart / largest }
}
