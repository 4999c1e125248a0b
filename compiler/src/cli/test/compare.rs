//! Compares results with the expected ones.

use crate::cli::tolerance::{Tolerance, largest};
use onnxc::{diag::counted, tensor::Tensor, value::Value};

/// The errors of results.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Distance {
    /// The largest absolute error.
    pub max_abs: f64,
    /// The largest relative error.
    pub max_rel: f64,
    /// The largest absolute expected value.
    pub max_expected: f64,
    /// A description of the first result that exceeds the tolerance, or has another type or shape.
    pub wrong: Option<String>,
}

/// Compares `found` with `expected`, output by output.
pub fn compare(found: &[Value], expected: &[Value], tolerance: Tolerance) -> Distance {
    let mut distance = Distance::default();
    if found.len() != expected.len() {
        let (a, b) = (found.len(), expected.len());
        distance.wrong = Some(format!("expected {}, found {a}", counted(b, "output")));
        return distance;
    }
    for (i, (found, expected)) in found.iter().zip(expected).enumerate() {
        value(&format!("output {i}"), found, expected, tolerance, &mut distance);
    }
    distance
}

/// Compares one value, which messages call `at`.
pub fn value(
    at: &str,
    found: &Value,
    expected: &Value,
    tolerance: Tolerance,
    so_far: &mut Distance,
) {
    match (found, expected) {
        (Value::Tensor(found), Value::Tensor(expected)) => {
            output(at, found, expected, tolerance, so_far);
        }
        (Value::Sequence(found), Value::Sequence(expected)) if found.len() == expected.len() => {
            for (i, (found, expected)) in found.iter().zip(expected).enumerate() {
                value(&format!("{at}[{i}]"), found, expected, tolerance, so_far);
            }
        }
        (Value::Sequence(found), Value::Sequence(expected)) => {
            let (found, expected) = (found.len(), expected.len());
            let found = counted(found, "element");
            so_far.record(format!("{at} has {found}, expected {expected}"));
        }
        (Value::Optional(None), Value::Optional(None)) => {}
        (Value::Optional(Some(found)), Value::Optional(Some(expected))) => {
            value(at, found, expected, tolerance, so_far);
        }
        (Value::Map(keys, values), Value::Map(expected_keys, expected_values)) => {
            output(&format!("{at}, keys"), keys, expected_keys, tolerance, so_far);
            output(at, values, expected_values, tolerance, so_far);
        }
        (found, expected) => {
            so_far.record(format!("{at} is {}, but {} is expected", name(found), name(expected)));
        }
    }
}

fn name(value: &Value) -> &'static str {
    if *value == Value::Optional(None) { "absent" } else { value.kind() }
}

impl Distance {
    /// Records the description of a wrong result, unless there is one already.
    pub fn record(&mut self, message: String) {
        self.wrong.get_or_insert(message);
    }
}

fn output(
    at: &str,
    found: &Tensor,
    expected: &Tensor,
    tolerance: Tolerance,
    so_far: &mut Distance,
) {
    let mut wrong = |message: String| so_far.record(format!("{at}{message}"));
    if (found.dtype, &found.shape) != (expected.dtype, &expected.shape) {
        wrong(format!(" is {}, but {} is expected", found.ty(), expected.ty()));
        return;
    }
    let compared = tolerance.compare(found, expected).expect("both tensors have one type");
    let numbers = found.floats().zip(expected.floats()).filter(|_| found.dtype.is_float());
    let Some((found, expected)) = numbers else {
        if let Some(place) = compared.first {
            wrong(format!("[{place}] differs"));
        }
        return;
    };
    if let Some(place) = compared.first {
        let (x, y) = (found[place], expected[place]);
        wrong(format!("[{place}] is {x:?}, but {y:?} is expected"));
    }
    so_far.max_expected = so_far.max_expected.max(largest(&expected));
    for (error, y) in compared.errors.into_iter().zip(expected).filter(|(error, _)| *error > 0.0) {
        so_far.max_abs = so_far.max_abs.max(error);
        so_far.max_rel = so_far.max_rel.max(error / y.abs());
    }
}
