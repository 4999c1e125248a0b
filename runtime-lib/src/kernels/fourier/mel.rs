//! `MelWeightMatrix`: weights that combine the bins of a spectrum into mel bands.

use crate::error::{Error, Result};
use crate::loops::index::{number, size};
use crate::{Exact, Real};

/// Writes the weight of each frequency bin of a transform of `length` elements in each mel band,
/// with peaks of 1. Rows are bins, columns are bands.
///
/// # Errors
///
/// Returns an error if the sample rate is not positive.
pub fn mel_weight_matrix<T: Real>(
    sample_rate: &[f64],
    lower: &[f64],
    upper: &[f64],
    y: &mut [T],
    length: usize,
    bands: usize,
) -> Result {
    let one = |x: &[f64]| x.first().copied().unwrap_or(0.0);
    let (sample_rate, lower, upper) = (one(sample_rate), one(lower), one(upper));
    if sample_rate.is_nan() || sample_rate <= 0.0 {
        return Err(Error::Value("the sample rate of a mel weight matrix must be positive"));
    }
    let (first, last) = (mel(lower), mel(upper));
    let width = (last - first) / number::<f64>(bands + 2);
    // The lower edge of a band's triangle, which is the center of the previous band.
    let place = |band: usize| {
        let hertz = hertz(number::<f64>(band) * width + first);
        libm::floor((number::<f64>(length) + 1.0) * hertz / sample_rate)
    };
    for band in 0..bands {
        let edges = [place(band), place(band + 1), place(band + 2)];
        for (row, y) in y.chunks_exact_mut(bands).enumerate() {
            y[band] = T::nearest(Exact::Double(triangle(number(row), edges)));
        }
    }
    Ok(())
}

/// Computes the number of bands and the length of the transform.
///
/// # Errors
///
/// Returns an error for a negative number.
pub fn mel_sizes(sizes: &mut [usize], bands: &[i64], length: &[i64]) -> Result {
    for (into, from) in sizes.iter_mut().zip([bands, length]) {
        *into = from.first().map_or(Ok(0), |&n| size(n))?;
    }
    Ok(())
}

/// Returns the height at `x` of the triangle with these corners.
fn triangle(x: f64, [left, middle, right]: [f64; 3]) -> f64 {
    if x == middle {
        1.0
    } else if left <= x && x < middle {
        (x - left) / (middle - left)
    } else if middle < x && x < right {
        (right - x) / (right - middle)
    } else {
        0.0
    }
}

fn mel(hertz: f64) -> f64 {
    2595.0 * libm::log1p(hertz / 700.0) / core::f64::consts::LN_10
}

fn hertz(mel: f64) -> f64 {
    700.0 * libm::expm1(mel / 2595.0 * core::f64::consts::LN_10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_band_is_a_triangle() {
        let heights = [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0].map(|x| triangle(x, [1.0, 3.0, 5.0]));
        assert_eq!(heights, [0.0, 0.0, 0.5, 1.0, 0.5, 0.0, 0.0]);
        assert_eq!([0.0, 1.0, 2.0].map(|x| triangle(x, [1.0, 1.0, 1.0])), [0.0, 1.0, 0.0]);
    }

    #[test]
    fn mel_and_hertz_are_inverse() {
        for x in [0.0, 100.0, 1000.0, 8000.0] {
            assert!((hertz(mel(x)) - x).abs() < 1e-9);
        }
        assert!((mel(1000.0) - 999.985_5).abs() < 1e-3);
    }

    #[test]
    fn a_sample_rate_of_zero_is_an_error() {
        let mut y = [0.0f32; 4];
        assert!(mel_weight_matrix(&[0.0], &[0.0], &[1.0], &mut y, 2, 2).is_err());
        assert!(mel_weight_matrix(&[f64::NAN], &[0.0], &[1.0], &mut y, 2, 2).is_err());
    }
}
