//! Constant weights as signed bytes.

use crate::{dtype::DType, tensor::Tensor, ty::count};

/// Signed bytes, with zero points where they need them.
pub struct SignedBytes {
    /// The bytes.
    pub bytes: Vec<i8>,
    /// The zero point of each channel.
    pub zeros: Vec<i64>,
    /// The sum of each channel without its zero point.
    pub sums: Vec<i64>,
    /// The sum of the magnitudes of each channel without its zero point.
    pub sizes: Vec<i64>,
}

impl SignedBytes {
    /// Returns the bytes of 8-bit weights, whose channels lie along `axis` and have these zero
    /// points.
    pub fn of(weights: &Tensor, axis: usize, zeros: &[i64]) -> Option<SignedBytes> {
        let (channels, inner) = (weights.shape[axis], count(&weights.shape[axis + 1..]));
        let channel = |i: usize| i / inner % channels;
        let ints = weights.ints()?;
        let centered = || ints.iter().enumerate().map(|(i, x)| (channel(i), x - zeros[channel(i)]));
        let (mut sums, mut sizes) = (vec![0; channels], vec![0; channels]);
        for (channel, x) in centered() {
            sums[channel] += x;
            sizes[channel] += x.abs();
        }
        // With the zero point subtracted, they need none. But a difference of two `u8` may not fit.
        if let Some(bytes) = centered().map(|(_, x)| i8::try_from(x).ok()).collect() {
            return Some(SignedBytes { bytes, zeros: vec![0; channels], sums, sizes });
        }
        let shift = if weights.dtype == DType::U8 { 128 } else { 0 };
        let bytes = ints.iter().map(|x| i8::try_from(x - shift).ok()).collect::<Option<_>>()?;
        let zeros = zeros.iter().map(|zero| zero - shift).collect();
        Some(SignedBytes { bytes, zeros, sums, sizes })
    }
}
