//! The sizes and scales that the inputs of `Resize` determine.

use crate::error::{Error, Result};
use crate::loops::index::{check_length, number, size};
use crate::{Float, Number};

/// The `keep_aspect_ratio_policy`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fit {
    /// The largest sizes of which none exceeds the given one.
    NotLarger,
    /// The smallest sizes of which none is below the given one.
    NotSmaller,
}

/// The largest size that a scale may produce.
const LARGEST: f32 = 4e9;

/// Returns `⌊from · scale⌋`, in `f32` as in ONNX's shape inference.
///
/// The specification multiplies by the extent of the region of interest, too; no implementation
/// does.
///
/// # Errors
///
/// Returns an error for a scale or size out of range.
pub fn scaled_size(from: usize, scale: f32) -> Result<usize> {
    let size = Float::floor(number::<f32>(from) * scale);
    if !(scale > 0.0 && size <= LARGEST) {
        return Err(Error::Value("a scale is not positive, or too large"));
    }
    usize::try_from(u64::from_f64(size.into())).map_err(|_| Error::Value("a scale is too large"))
}

/// Computes the sizes of the axes whose scales have these indices.
///
/// # Errors
///
/// Returns an error for a scale or size out of range.
pub fn scaled_sizes(sizes: &mut [usize], scales: &[f32], from: &[usize], at: &[usize]) -> Result {
    check_scales(scales)?;
    for ((into, &from), &at) in sizes.iter_mut().zip(from).zip(at) {
        *into = scaled_size(from, scales[at])?;
    }
    Ok(())
}

fn check_scales(scales: &[f32]) -> Result {
    let positive = scales.iter().all(|&scale| scale > 0.0);
    if positive { Ok(()) } else { Err(Error::Value("a scale is not positive")) }
}

/// Reads the sizes of the input `sizes` for axes of sizes `from`.
///
/// # Errors
///
/// Returns an error for a negative size, and for an empty axis that would have elements.
pub fn given_sizes(sizes: &mut [usize], wanted: &[i64], from: &[usize]) -> Result {
    check_length(wanted.len(), core::iter::once(sizes.len()))?;
    check_length(wanted.len(), core::iter::once(from.len()))?;
    for ((into, &wanted), &from) in sizes.iter_mut().zip(wanted).zip(from) {
        *into = size(wanted)?;
        if from == 0 && *into != 0 {
            return Err(Error::Value("an empty axis has no elements to resize"));
        }
    }
    Ok(())
}

/// Returns the scale that fits axes of sizes `from` to the given sizes.
pub fn fitted_scale(wanted: &[i64], from: &[usize], fit: Fit) -> f64 {
    let scales =
        wanted.iter().zip(from).map(|(&wanted, &from)| wanted.to_f64() / number::<f64>(from));
    match fit {
        Fit::NotLarger => scales.fold(f64::INFINITY, f64::min),
        Fit::NotSmaller => scales.fold(0.0, f64::max),
    }
}

/// Computes the sizes with the aspect ratio of `from` that fit the given sizes.
///
/// # Errors
///
/// Returns an error for a negative size.
pub fn fitted_sizes(sizes: &mut [usize], wanted: &[i64], from: &[usize], fit: Fit) -> Result {
    check_length(wanted.len(), core::iter::once(from.len()))?;
    for &wanted in wanted {
        size(wanted)?;
    }
    let scale = fitted_scale(wanted, from, fit);
    for (into, &from) in sizes.iter_mut().zip(from) {
        let rounded = Float::floor(scale * number::<f64>(from) + 0.5);
        if rounded > LARGEST.into() {
            return Err(Error::Value("a size is too large"));
        }
        *into = usize::try_from(u64::from_f64(rounded)).unwrap_or(usize::MAX);
    }
    Ok(())
}

/// Writes [`fitted_scale`] for every axis.
pub fn fitted_scales(wanted: &[i64], scales: &mut [f64], from: &[usize], fit: Fit) {
    scales.fill(fitted_scale(wanted, from, fit));
}

/// Converts to `f64`.
pub fn widen<T: Float>(x: &[T], y: &mut [f64]) {
    for (y, x) in y.iter_mut().zip(x) {
        *y = x.to_f64();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scale_rounds_sizes_down_in_single_precision() {
        assert_eq!(scaled_size(10, 0.7), Ok(7));
        assert_eq!(scaled_size(3, 1.5), Ok(4));
        assert_eq!(scaled_size(3, 0.25), Ok(0));
        assert!(
            [0.0, -1.0, f32::NAN, f32::INFINITY]
                .map(|s| scaled_size(3, s))
                .iter()
                .all(Result::is_err)
        );
        let mut sizes = [0; 2];
        assert_eq!(scaled_sizes(&mut sizes, &[2.0, 1.0, 0.5], &[5, 3], &[2, 0]), Ok(()));
        assert_eq!(sizes, [2, 6]);
        assert!(scaled_sizes(&mut sizes, &[2.0, -1.0], &[5], &[0]).is_err());
    }

    #[test]
    fn the_aspect_ratio_is_preserved() {
        let mut sizes = [0; 2];
        assert_eq!(fitted_sizes(&mut sizes, &[7, 8], &[2, 4], Fit::NotLarger), Ok(()));
        assert_eq!(sizes, [4, 8]);
        assert_eq!(fitted_sizes(&mut sizes, &[7, 8], &[2, 4], Fit::NotSmaller), Ok(()));
        assert_eq!(sizes, [7, 14]);
        assert!(fitted_sizes(&mut sizes, &[7, 8], &[2, 0], Fit::NotSmaller).is_err());
    }

    #[test]
    fn given_sizes_are_not_negative_and_an_empty_axis_stays_empty() {
        let mut sizes = [0; 2];
        assert_eq!(given_sizes(&mut sizes, &[0, 5], &[0, 3]), Ok(()));
        assert_eq!(sizes, [0, 5]);
        assert!(given_sizes(&mut sizes, &[1, -1], &[1, 1]).is_err());
        assert!(given_sizes(&mut sizes, &[2, 5], &[0, 3]).is_err());
    }
}
