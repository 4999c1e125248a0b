//! The error that a lower weight precision causes in a model's outputs.

use super::run;
use crate::{plan::Plan, tensor::Tensor, value::Value};
use onnxc_runtime::Result;

/// The error of one output.
#[derive(Clone, Debug, PartialEq)]
pub struct OutputError {
    /// The name of the output.
    pub output: String,
    /// The greatest absolute difference, divided by the greatest magnitude of the exact output.
    pub error: f64,
}

/// Runs both plans on the inputs and returns the error of each floating-point output.
///
/// # Errors
///
/// Returns the error of either run.
pub fn measure_errors(
    exact: &Plan,
    approximate: &Plan,
    inputs: &[Value],
) -> Result<Vec<OutputError>> {
    let (expected, found) = (run(exact, inputs)?, run(approximate, inputs)?);
    let pairs = exact.outputs.iter().zip(expected.iter().zip(&found));
    let errors = pairs.filter_map(|(port, (expected, found))| {
        let floats =
            |value: &Value| value.tensor().filter(|y| y.dtype.is_float()).and_then(Tensor::floats);
        let error = relative_error(&floats(expected)?, &floats(found)?);
        Some(OutputError { output: port.name.clone(), error })
    });
    Ok(errors.collect())
}

/// Returns `max |expected - found| / max |expected|`; NaN if a difference is NaN.
fn relative_error(expected: &[f64], found: &[f64]) -> f64 {
    let largest = expected.iter().fold(0.0f64, |most, y| most.max(y.abs()));
    let difference = |(a, b): (&f64, &f64)| if a == b { 0.0 } else { (a - b).abs() };
    let differences = expected.iter().zip(found).map(difference);
    let greatest = differences.fold(0.0, |most: f64, x| if most >= x { most } else { x });
    if greatest == 0.0 { 0.0 } else { greatest / largest }
}
