//! The range of the elements of a tensor.

use onnxc::tensor::Tensor;
use serde_json::{Value, json};

/// Returns the least, the greatest and the mean element, and the share of zeros, if the elements
/// are real numbers. A number that is not finite is null.
pub fn of(tensor: &Tensor) -> Option<Value> {
    let ints = || tensor.ints().map(|ints| ints.into_iter().map(|n| n as f64).collect());
    let numbers: Vec<f64> = tensor.floats().or_else(ints).filter(|all| !all.is_empty())?;
    let least = numbers.iter().copied().fold(f64::INFINITY, f64::min);
    let most = numbers.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let count = numbers.len() as f64;
    let zeros = numbers.iter().filter(|&&number| number == 0.0).count() as f64;
    Some(json!([least, most, numbers.iter().sum::<f64>() / count, zeros / count].map(round)))
}

/// Rounds to six digits, so that the page is short.
fn round(number: f64) -> f64 {
    format!("{number:.5e}").parse().unwrap_or(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_counts_zeros_and_shows_what_is_not_finite() {
        let of = |numbers: &[f32]| of(&Tensor::from_floats(numbers));
        assert_eq!(of(&[-1.0, 0.0, 4.0, 0.0]), Some(json!([-1.0, 4.0, 0.75, 0.5])));
        assert_eq!(of(&[1.0, f32::INFINITY]), Some(json!([1.0, null, null, 0.0])));
        assert_eq!(of(&[f32::NAN, 2.0]), Some(json!([2.0, 2.0, null, 0.0])));
        assert_eq!(of(&[]), None);
    }
}
