//! The tolerance of a comparison: the one rule by which a result agrees with the expected one.

use super::options::not_negative;
use half::{bf16, f16};
use onnxc::{dtype::DType, tensor::Tensor};

/// The relative part, unless it is set.
const RTOL: f64 = 1e-3;

/// The least absolute part of floating-point types, unless it is set.
const LEAST_ATOL: f64 = 1e-7;

/// The allowed error of an element: `atol + rtol · |expected|`. A part that is not set has its
/// default.
#[derive(clap::Args, Clone, Copy, Debug, Default, PartialEq)]
#[group(skip)]
pub struct Tolerance {
    /// The allowed relative error of floating-point numbers; 0.001 by default. Integers, booleans
    /// and strings must be equal, unless `--atol` allows an error of integers
    #[arg(long, value_parser = not_negative, allow_negative_numbers = true)]
    pub rtol: Option<f64>,
    /// The allowed absolute error; by default a part of the largest expected element: 1e-5 for
    /// `float`, 1e-10 for `double`, and two units of rounding for `float16` and `bfloat16`
    #[arg(long, value_parser = not_negative, allow_negative_numbers = true)]
    pub atol: Option<f64>,
}

impl Tolerance {
    /// Returns the tolerance whose parts that are not set are those of `other`.
    pub fn or(self, other: Tolerance) -> Tolerance {
        Tolerance { rtol: self.rtol.or(other.rtol), atol: self.atol.or(other.atol) }
    }

    /// Compares the elements of two tensors of one shape. Returns `None` if one has numbers and the
    /// other one has none.
    pub fn compare(self, found: &Tensor, expected: &Tensor) -> Option<Comparison> {
        let errors = errors(found, expected)?;
        let relative = usual_error(found.dtype).max(usual_error(expected.dtype));
        let is_float = found.dtype.is_float() || expected.dtype.is_float();
        let expected = expected.floats().unwrap_or_default();
        let (rtol, atol) = if is_float {
            let usual = || LEAST_ATOL.max(relative * largest(&expected));
            (self.rtol.unwrap_or(RTOL), self.atol.unwrap_or_else(usual))
        } else {
            (0.0, self.atol.unwrap_or(0.0))
        };
        let allowed = expected.iter().map(|y| atol + rtol * y.abs()).chain(std::iter::repeat(atol));
        // An infinite error is never allowed, although an infinite element has an infinite
        // tolerance.
        let departs = |(&error, allowed): (&f64, f64)| {
            error > 0.0 && !(error.is_finite() && error <= allowed)
        };
        let mut departing = errors.iter().zip(allowed).map(departs);
        let first = departing.position(|departs| departs);
        let count = usize::from(first.is_some()) + departing.filter(|departs| *departs).count();
        Some(Comparison { errors, first, count })
    }
}

/// The errors of a tensor.
pub struct Comparison {
    /// The absolute error of each element; infinite if just one of a pair is a finite number, and
    /// for different elements that are not real numbers.
    pub errors: Vec<f64>,
    /// The first element that departs: that is outside of the tolerance.
    pub first: Option<usize>,
    /// The number of elements that depart.
    pub count: usize,
}

/// Returns the largest absolute value of the finite elements.
pub fn largest(elements: &[f64]) -> f64 {
    elements.iter().filter(|x| x.is_finite()).fold(0.0, |largest, x| largest.max(x.abs()))
}

fn errors(found: &Tensor, expected: &Tensor) -> Option<Vec<f64>> {
    if let (Some(x), Some(y)) = (integers(found), integers(expected)) {
        // The difference of any two integers of 64 bits fits, and is rounded once.
        return Some(x.into_iter().zip(y).map(|(x, y)| (x - y).unsigned_abs() as f64).collect());
    }
    if let (Some(x), Some(y)) = (found.floats(), expected.floats()) {
        return Some(x.into_iter().zip(y).map(|(x, y)| error(x, y)).collect());
    }
    if found.dtype != expected.dtype {
        return None;
    }
    let of_equality = |is_equal: bool| if is_equal { 0.0 } else { f64::INFINITY };
    if let (Some(x), Some(y)) = (found.strings(), expected.strings()) {
        return Some(x.iter().zip(y).map(|(x, y)| of_equality(x == y)).collect());
    }
    let size = found.dtype.bytes();
    let (x, y) = (found.bytes().chunks_exact(size), expected.bytes().chunks_exact(size));
    Some(x.zip(y).map(|(x, y)| of_equality(x == y)).collect())
}

fn error(found: f64, expected: f64) -> f64 {
    match found == expected || found.is_nan() && expected.is_nan() {
        true => 0.0,
        false if found.is_finite() && expected.is_finite() => (found - expected).abs(),
        false => f64::INFINITY,
    }
}

/// Returns the elements, if they are integers or booleans.
fn integers(tensor: &Tensor) -> Option<Vec<i128>> {
    if tensor.dtype == DType::U64 {
        let chunks = tensor.bytes().as_chunks().0.iter();
        return Some(chunks.map(|&chunk| u64::from_le_bytes(chunk).into()).collect());
    }
    Some(tensor.ints()?.into_iter().map(i128::from).collect())
}

/// Returns the absolute error that is usual for outputs of a floating-point type, as a part of the
/// largest element: sums round relative to their largest terms, so small results have larger
/// relative errors. It is 0 for other types.
fn usual_error(dtype: DType) -> f64 {
    match dtype {
        DType::F32 => 1e-5,
        DType::F64 => 1e-10,
        DType::F16 => 2.0 * f64::from(f16::EPSILON),
        DType::BF16 => 2.0 * f64::from(bf16::EPSILON),
        _ => 0.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn departing(found: &[f32], expected: &[f32], tolerance: Tolerance) -> usize {
        let (found, expected) = (Tensor::from_floats(found), Tensor::from_floats(expected));
        tolerance.compare(&found, &expected).expect("both are numbers").count
    }

    #[test]
    fn the_default_error_is_relative_to_the_largest_element() {
        let usual = Tolerance::default();
        let strict = Tolerance { atol: Some(1e-7), rtol: None };
        assert_eq!(departing(&[100.05, 5e-4], &[100.0, 0.0], usual), 0);
        assert_eq!(departing(&[100.0, 2e-3], &[100.0, 0.0], usual), 1);
        assert_eq!(departing(&[100.0, 5e-4], &[100.0, 0.0], strict), 1);
        assert_eq!(departing(&[2e-8], &[1e-20], usual), 0);
    }

    #[test]
    fn a_number_departs_from_nan_and_from_infinity() {
        let (nan, inf) = (f32::NAN, f32::INFINITY);
        for tolerance in [Tolerance::default(), Tolerance { rtol: Some(1.0), atol: Some(1e9) }] {
            for (found, expected) in
                [(1.0, nan), (nan, 1.0), (1.0, inf), (inf, 1.0), (-inf, inf), (nan, inf)]
            {
                assert_eq!(departing(&[found], &[expected], tolerance), 1, "{found} {expected}");
                // Nor does it hide in a tensor with other elements.
                let (found, expected) = ([0.0, found, 1.0], [0.0, expected, 1.0]);
                assert_eq!(departing(&found, &expected, tolerance), 1);
            }
            let same = [nan, inf, -inf, 0.0];
            assert_eq!(departing(&same, &same, tolerance), 0);
        }
    }

    #[test]
    fn integers_are_compared_exactly() {
        let large = 1 << 60;
        let compare = |found: Tensor, expected: Tensor, atol| {
            let tolerance = Tolerance { atol, rtol: Some(1.0) };
            let found = tolerance.compare(&found, &expected).expect("both are numbers");
            (found.count, found.errors[0])
        };
        let [x, y] = [large, large + 1].map(|n| Tensor::from_ints(&[n]));
        assert_eq!(compare(x.clone(), y.clone(), None), (1, 1.0));
        assert_eq!(compare(x.clone(), x.clone(), None), (0, 0.0));
        assert_eq!(compare(x, y, Some(1.0)), (0, 1.0));
        let bytes = |n: u64| Tensor::from_raw(DType::U64, vec![1], n.to_le_bytes().to_vec().into());
        assert_eq!(compare(bytes(u64::MAX), bytes(u64::MAX - 1), None), (1, 1.0));
    }

    #[test]
    fn strings_are_equal_or_depart_and_no_number_is_a_string() {
        let strings = |texts: &[&str]| {
            Tensor::from_strings(texts.iter().map(|text| (*text).to_owned()).collect())
        };
        let (found, expected) = (strings(&["a", "b", "c"]), strings(&["a", "x", "y"]));
        let compared = Tolerance::default().compare(&found, &expected).expect("both are strings");
        assert_eq!((compared.count, compared.first), (2, Some(1)));
        assert!(Tolerance::default().compare(&found, &Tensor::from_ints(&[1, 2, 3])).is_none());
    }
}
