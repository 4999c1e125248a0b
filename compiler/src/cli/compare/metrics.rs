//! The errors of one value.

use super::values::Name;
use onnxc::{dtype::DType, tensor::Tensor};
use serde_json::{Value, json};

/// The errors of a value.
pub struct Row {
    /// The name of the value.
    pub value: String,
    /// The node that computes it.
    pub node: String,
    /// The operator of the node.
    pub operator: String,
    /// The type of the value.
    pub ty: String,
    /// The largest absolute error.
    pub max: f64,
    /// The mean absolute error.
    pub mean: f64,
    /// The largest error in units in the last place, for `float`.
    pub ulp: Option<u64>,
    /// The cosine of the angle between both.
    pub cosine: f64,
    /// The largest absolute element of the reference.
    pub largest: f64,
    /// Whether an element is outside of the tolerance.
    pub departs: bool,
}

/// Compares a value with its reference. Returns `None` if they have no common type or no numbers.
pub fn compare(
    name: &Name,
    found: &Tensor,
    expected: &Tensor,
    (rtol, atol): (f64, f64),
) -> Option<Row> {
    let found = unblocked(found, &expected.shape)?;
    let (x, y) = (numbers(&found)?, numbers(expected)?);
    let largest = y.iter().filter(|y| y.is_finite()).fold(0.0, |most: f64, y| most.max(y.abs()));
    let error = |(x, y): (&f64, &f64)| match x == y || x.is_nan() && y.is_nan() {
        true => 0.0,
        false if x.is_finite() && y.is_finite() => (x - y).abs(),
        false => f64::INFINITY,
    };
    let pairs = || x.iter().zip(&y);
    let max = pairs().map(error).fold(0.0, f64::max);
    let departs = pairs().any(|(x, y)| error((x, y)) > atol * largest + rtol * y.abs());
    let sum: f64 = pairs().map(error).sum();
    let is_float = found.dtype == DType::F32 && expected.dtype == DType::F32;
    Some(Row {
        value: name.value.clone(),
        node: name.node.clone(),
        operator: name.operator.clone(),
        ty: expected.ty().to_string(),
        max,
        mean: if y.is_empty() { 0.0 } else { sum / y.len() as f64 },
        ulp: is_float.then(|| pairs().map(|(x, y)| ulps(*x, *y)).max().unwrap_or(0)),
        cosine: cosine(&x, &y),
        largest,
        departs,
    })
}

impl Row {
    /// The largest error, as a part of the largest element.
    pub fn relative(&self) -> f64 {
        if self.max == 0.0 { 0.0 } else { self.max / self.largest }
    }

    /// The errors in one sentence.
    pub fn summary(&self) -> String {
        format!(
            "its value `{}` is off by {:.2e}, and its largest element is {:.2e}",
            self.value, self.max, self.largest
        )
    }

    /// The error in units in the last place, or a dash.
    pub fn ulp_text(&self) -> String {
        self.ulp.map_or_else(|| "-".to_owned(), |ulp| ulp.to_string())
    }

    /// The errors as JSON. Infinite numbers are null.
    pub fn json(&self) -> Value {
        json!({
            "value": self.value,
            "node": self.node,
            "operator": self.operator,
            "type": self.ty,
            "max": self.max,
            "mean": self.mean,
            "ulp": self.ulp,
            "cosine": self.cosine,
            "largest": self.largest,
            "departs": self.departs,
        })
    }
}

fn numbers(tensor: &Tensor) -> Option<Vec<f64>> {
    let ints = || Some(tensor.ints()?.into_iter().map(|n| n as f64).collect());
    tensor.floats().or_else(ints)
}

/// Returns a tensor in `shape`, if it has that shape or is an image in NCHWc of it:
/// `[n, ⌈c / block⌉, …, block]` for `[n, c, …]`.
fn unblocked(tensor: &Tensor, shape: &[usize]) -> Option<Tensor> {
    if tensor.shape == shape {
        return Some(tensor.clone());
    }
    let (&block, blocked) = tensor.shape.split_last()?;
    let ([n, c, axes @ ..], [blocked_n, blocks, blocked_axes @ ..]) = (shape, blocked) else {
        return None;
    };
    if n != blocked_n || c.div_ceil(block) != *blocks || axes != blocked_axes {
        return None;
    }
    let plane: usize = axes.iter().product();
    let mut places = Vec::with_capacity(n * c * plane);
    for image in 0..*n {
        for channel in 0..*c {
            let first = (image * blocks + channel / block) * plane;
            places.extend((first..first + plane).map(|at| at * block + channel % block));
        }
    }
    Some(Tensor { shape: shape.to_vec(), ..tensor.take(&places) })
}

/// The distance of two numbers of type `float`, in units in the last place.
fn ulps(x: f64, y: f64) -> u64 {
    let place = |number: f64| {
        let bits = (number as f32).to_bits();
        let magnitude = i64::from(bits & 0x7fff_ffff);
        if bits >> 31 == 1 { -magnitude } else { magnitude }
    };
    if x.is_nan() && y.is_nan() { 0 } else { place(x).abs_diff(place(y)) }
}

fn cosine(x: &[f64], y: &[f64]) -> f64 {
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    let norms = (dot(x, x) * dot(y, y)).sqrt();
    if norms == 0.0 { 1.0 } else { dot(x, y) / norms }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name() -> Name {
        Name { value: "y".into(), node: "n".into(), ..Name::default() }
    }

    #[test]
    fn errors_are_measured() {
        let found = Tensor::from_floats(&[1.0, 2.0, 3.5]);
        let expected = Tensor::from_floats(&[1.0, 2.0, 3.0]);
        let row = compare(&name(), &found, &expected, (1e-3, 1e-5)).expect("both are numbers");
        assert!(row.departs && row.max == 0.5 && (row.mean - 0.5 / 3.0).abs() < 1e-12);
        assert_eq!(row.ulp, Some(1 << 21));
        let row = compare(&name(), &found, &found, (0.0, 0.0)).expect("both are numbers");
        assert!(!row.departs && row.ulp == Some(0) && (row.cosine - 1.0).abs() < 1e-12);
    }

    #[test]
    fn a_blocked_image_is_compared_in_the_order_of_the_model() {
        // Three channels of two elements in blocks of two channels.
        let blocked = Tensor::from_floats(&[1.0, 3.0, 2.0, 4.0, 5.0, 0.0, 6.0, 0.0]);
        let blocked = Tensor { shape: vec![1, 2, 2, 2], ..blocked };
        let plain = unblocked(&blocked, &[1, 3, 2]).expect("the shapes fit");
        assert_eq!(plain.floats(), Some(vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0]));
        assert!(unblocked(&blocked, &[1, 5, 2]).is_none());
    }
}
