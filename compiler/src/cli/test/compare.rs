//! Compares results with the expected ones.

use super::folder::Tolerance;
use half::{bf16, f16};
use onnxc::{dtype::DType, tensor::Tensor, value::Value};

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
    if expected.is_empty() && !found.is_empty() {
        distance.wrong = Some("the data set has no `output_0.pb` to compare with".into());
        return distance;
    }
    if found.len() != expected.len() {
        let (a, b) = (found.len(), expected.len());
        distance.wrong = Some(format!("{a} outputs, but {b} are expected"));
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
            so_far.record(format!("{at} has {found} elements, but {expected} are expected"));
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
    if !found.dtype.is_float() {
        if found.data != expected.data {
            let place = first_difference(found, expected);
            wrong(format!("[{place}] differs"));
        }
        return;
    }
    let numbers = found.floats().zip(expected.floats());
    let Some((found_numbers, expected_numbers)) = numbers else {
        if found.data != expected.data {
            wrong(" differs".into());
        }
        return;
    };
    let atol = tolerance.atol.unwrap_or_else(|| usual_error(expected.dtype, &expected_numbers));
    for (place, (x, y)) in found_numbers.into_iter().zip(expected_numbers).enumerate() {
        if x == y || x.is_nan() && y.is_nan() {
            so_far.max_expected =
                so_far.max_expected.max(if y.is_finite() { y.abs() } else { 0.0 });
            continue;
        }
        let difference = (x - y).abs();
        let difference = if difference.is_nan() { f64::INFINITY } else { difference };
        so_far.max_abs = so_far.max_abs.max(difference);
        so_far.max_rel = so_far.max_rel.max(difference / y.abs());
        so_far.max_expected = so_far.max_expected.max(if y.is_finite() { y.abs() } else { 0.0 });
        // The difference to an infinite value is infinite, and so is its tolerance.
        let near = difference <= atol + tolerance.rtol * y.abs();
        if (!near || difference.is_infinite()) && so_far.wrong.is_none() {
            so_far.wrong = Some(format!("{at}[{place}] is {x:?}, but {y:?} is expected"));
        }
    }
}

/// The absolute error that is usual for outputs of a type: sums round relative to their largest
/// terms, so small results have larger relative errors.
fn usual_error(dtype: DType, expected: &[f64]) -> f64 {
    let relative = match dtype {
        DType::F32 => 1e-5,
        DType::F64 => 1e-10,
        DType::F16 => 2.0 * f64::from(f16::EPSILON),
        DType::BF16 => 2.0 * f64::from(bf16::EPSILON),
        _ => 0.0,
    };
    let finite = expected.iter().filter(|y| y.is_finite());
    let largest = finite.fold(0.0, |largest: f64, y| largest.max(y.abs()));
    f64::max(1e-7, relative * largest)
}

/// The index of the first element that differs.
fn first_difference(found: &Tensor, expected: &Tensor) -> usize {
    if let (Some(a), Some(b)) = (found.strings(), expected.strings()) {
        return a.iter().zip(b).position(|(a, b)| a != b).unwrap_or(0);
    }
    let mut pairs = found.bytes().iter().zip(expected.bytes());
    pairs.position(|(a, b)| a != b).unwrap_or(0) / found.dtype.bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_error_is_relative_to_the_largest_element() {
        let values = |numbers: &[f32]| [Value::Tensor(Tensor::from_floats(numbers))];
        let expected = values(&[100.0, 0.0]);
        let wrong = |found: &[f32], atol| {
            compare(&values(found), &expected, Tolerance { atol, rtol: 1e-3 }).wrong
        };
        assert_eq!(wrong(&[100.05, 5e-4], None), None);
        assert!(wrong(&[100.0, 2e-3], None).is_some());
        assert!(wrong(&[100.0, 5e-4], Some(1e-7)).is_some());
        let tiny = values(&[1e-20]);
        let usual = Tolerance { atol: None, rtol: 1e-3 };
        assert_eq!(compare(&values(&[2e-8]), &tiny, usual).wrong, None);
    }
}
