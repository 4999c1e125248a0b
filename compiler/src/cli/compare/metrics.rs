//! The errors of one value.

use super::values::Name;
use crate::cli::tolerance::{Tolerance, largest};
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
    /// The errors, if the elements are numbers.
    pub errors: Option<Errors>,
    /// The number of elements.
    pub len: usize,
    /// The number of elements outside of the tolerance.
    pub departing: usize,
}

/// The errors of numbers.
pub struct Errors {
    /// The largest absolute error.
    pub max: f64,
    /// The mean absolute error.
    pub mean: f64,
    /// The largest error in units in the last place, for `float`. A number has no such distance
    /// from NaN.
    pub ulp: Option<u64>,
    /// The cosine of the angle between both, unless one is NaN or infinite where the other is not.
    pub cosine: Option<f64>,
    /// The largest absolute element of the reference.
    pub largest: f64,
}

/// Compares a value with its reference. Returns `None` if their shapes differ, or if their element
/// types do not fit.
pub fn compare(
    name: &Name,
    found: &Tensor,
    expected: &Tensor,
    tolerance: Tolerance,
) -> Option<Row> {
    if !fits(found.dtype, expected.dtype, name.is_output) {
        return None;
    }
    let found = unblocked(found, &expected.shape)?;
    let compared = tolerance.compare(&found, expected)?;
    Some(Row {
        value: name.value.clone(),
        node: name.node.clone(),
        operator: name.operator.clone(),
        ty: expected.ty().to_string(),
        errors: Errors::of(&found, expected, &compared.errors),
        len: expected.len(),
        departing: compared.count,
    })
}

impl Errors {
    fn of(found: &Tensor, expected: &Tensor, errors: &[f64]) -> Option<Errors> {
        let (x, y) = (found.floats()?, expected.floats()?);
        let is_float = found.dtype == DType::F32 && expected.dtype == DType::F32;
        let pairs = || x.iter().zip(&y);
        let has_ulps = is_float && pairs().all(|(x, y)| x.is_nan() == y.is_nan());
        let ulps = || pairs().map(|(x, y)| ulps(*x, *y)).max().unwrap_or(0);
        let has_cosine = pairs().all(|(x, y)| x.is_finite() == y.is_finite());
        let sum: f64 = errors.iter().sum();
        Some(Errors {
            max: errors.iter().copied().fold(0.0, f64::max),
            mean: if y.is_empty() { 0.0 } else { sum / y.len() as f64 },
            ulp: has_ulps.then(ulps),
            cosine: has_cosine.then(|| cosine(&x, &y)),
            largest: largest(&y),
        })
    }
}

impl Row {
    /// Returns whether an element is outside of the tolerance.
    pub fn departs(&self) -> bool {
        self.departing > 0
    }

    /// The largest error, as a part of the largest element.
    pub fn relative(&self) -> f64 {
        match &self.errors {
            Some(errors) if errors.max == 0.0 => 0.0,
            Some(errors) => errors.max / errors.largest,
            None if self.departs() => f64::INFINITY,
            None => 0.0,
        }
    }

    /// The errors in one sentence.
    pub fn summary(&self) -> String {
        let Row { value, len, departing, errors, .. } = self;
        match errors {
            Some(Errors { max, largest, .. }) if max.is_finite() => format!(
                "its value `{value}` is off by {max:.2e}, and its largest element is {largest:.2e}"
            ),
            Some(_) => format!(
                "{departing} of {len} elements of its value `{value}` depart, by NaN or infinity"
            ),
            None => format!("{departing} of {len} elements of its value `{value}` differ"),
        }
    }

    /// The columns of the table: the errors, or dashes.
    pub fn columns(&self) -> [String; 4] {
        let Some(Errors { max, mean, ulp, cosine, .. }) = &self.errors else {
            return ["-"; 4].map(str::to_owned);
        };
        let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
        let ulp = or_dash(ulp.map(|ulp| ulp.to_string()));
        let cosine = or_dash(cosine.map(|cosine| format!("{cosine:.6}")));
        [format!("{max:.2e}"), format!("{mean:.2e}"), ulp, cosine]
    }

    /// The errors as JSON. Infinite numbers, errors without a meaning, and those of elements that
    /// are not numbers, are null.
    pub fn json(&self) -> Value {
        let number = |of: fn(&Errors) -> f64| self.errors.as_ref().map(of);
        json!({
            "value": self.value,
            "node": self.node,
            "operator": self.operator,
            "type": self.ty,
            "max": number(|errors| errors.max),
            "mean": number(|errors| errors.mean),
            "ulp": self.errors.as_ref().and_then(|errors| errors.ulp),
            "cosine": self.errors.as_ref().and_then(|errors| errors.cosine),
            "largest": number(|errors| errors.largest),
            "elements": self.len,
            "departing_elements": self.departing,
            "departs": self.departs(),
        })
    }
}

/// Returns whether the element type of a value fits that of the reference. A value between nodes
/// may have another width than the reference, because options change it, and other programs compute
/// in `double`. So may an output of a type that NumPy lacks.
fn fits(found: DType, expected: DType, is_output: bool) -> bool {
    let is_strict = is_output && matches!(found, DType::F16 | DType::F32 | DType::F64);
    found == expected || found.is_float() && expected.is_float() && !is_strict
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

/// Returns the cosine of the angle between the finite elements of both.
fn cosine(x: &[f64], y: &[f64]) -> f64 {
    let finite = x.iter().zip(y).filter(|(x, y)| x.is_finite() && y.is_finite());
    let (mut xx, mut xy, mut yy) = (0.0, 0.0, 0.0);
    for (x, y) in finite {
        (xx, xy, yy) = (xx + x * x, xy + x * y, yy + y * y);
    }
    let norms = f64::sqrt(xx * yy);
    if norms == 0.0 { 1.0 } else { xy / norms }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name() -> Name {
        Name { value: "y".into(), node: "n".into(), ..Name::default() }
    }

    fn row(found: &Tensor, expected: &Tensor, tolerance: Tolerance) -> Row {
        compare(&name(), found, expected, tolerance).expect("the shapes are the same")
    }

    #[test]
    fn errors_are_measured() {
        let found = Tensor::from_floats(&[1.0, 2.0, 3.5]);
        let expected = Tensor::from_floats(&[1.0, 2.0, 3.0]);
        let measured = row(&found, &expected, Tolerance::default());
        let errors = measured.errors.as_ref().expect("both are numbers");
        assert!(measured.departs() && errors.max == 0.5);
        assert!((errors.mean - 0.5 / 3.0).abs() < 1e-12);
        assert_eq!(errors.ulp, Some(1 << 21));
        let measured = row(&found, &found, Tolerance { rtol: Some(0.0), atol: Some(0.0) });
        let errors = measured.errors.as_ref().expect("both are numbers");
        assert!(!measured.departs() && errors.ulp == Some(0));
        assert!(errors.cosine.is_some_and(|cosine| (cosine - 1.0).abs() < 1e-12));
    }

    #[test]
    fn equal_infinities_and_nan_do_not_spoil_the_other_errors() {
        let numbers = Tensor::from_floats(&[1.0, f32::NEG_INFINITY, f32::NAN]);
        let measured = row(&numbers, &numbers, Tolerance::default());
        let errors = measured.errors.as_ref().expect("both are numbers");
        assert_eq!((errors.max, errors.mean, errors.cosine), (0.0, 0.0, Some(1.0)));
    }

    #[test]
    fn a_number_has_no_distance_from_nan() {
        let measured = |found: f32, expected: f32| {
            let [found, expected] = [found, expected].map(|x| Tensor::from_floats(&[1.0, x]));
            row(&found, &expected, Tolerance::default())
        };
        for [found, expected] in [[2.0, f32::NAN], [f32::NAN, 2.0]] {
            let row = measured(found, expected);
            assert_eq!(row.columns(), ["inf", "inf", "-", "-"]);
            assert!(row.json()["ulp"].is_null() && row.json()["cosine"].is_null());
        }
        assert_eq!(measured(f32::MAX, f32::INFINITY).columns(), ["inf", "inf", "1", "-"]);
    }

    #[test]
    fn strings_that_differ_are_counted() {
        let [found, expected] = ["a b", "a c"]
            .map(|texts| Tensor::from_strings(texts.split(' ').map(str::to_owned).collect()));
        let measured = row(&found, &expected, Tolerance::default());
        assert!(measured.departs() && measured.errors.is_none());
        assert_eq!(measured.summary(), "1 of 2 elements of its value `y` differ");
        assert!(!row(&found, &found, Tolerance::default()).departs());
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
