//! Conversion of classifier scores to classes and probabilities.

use crate::Float;
use crate::loops::elementwise::{map, map_in_place};
use crate::loops::geometry::Axis;

/// Class 1 if the score in `column` exceeds the threshold, else class 0.
pub fn above<T: Float>(x: &[T], y: &mut [i64], columns: usize, column: usize, threshold: f32) {
    let threshold = T::from_f64(f64::from(threshold));
    for (x, y) in x.chunks_exact(columns).zip(y) {
        *y = i64::from(x[column] > threshold);
    }
}

/// Writes the scores `1 - x` and `x` of two classes, where `x` is the score of the second.
pub fn complement<T: Float>(x: &[T], y: &mut [T]) {
    for (&x, y) in x.iter().zip(y.as_chunks_mut().0) {
        *y = [T::ONE.sub(x), x];
    }
}

/// Writes the scores `-x` and `x` of two classes, where `x` is the score of the second.
pub fn opposite<T: Float>(x: &[T], y: &mut [T]) {
    for (&x, y) in x.iter().zip(y.as_chunks_mut().0) {
        *y = [x.neg(), x];
    }
}

/// Softmax over the nonzero scores; zeros stay zero. If all scores are zero, all classes are
/// equally likely.
pub fn softmax_zero<T: Float>(x: &[T], y: &mut [T], geometry: Axis) {
    y.copy_from_slice(x);
    softmax_zero_in_place(y, geometry);
}

/// [`softmax_zero`] in place.
pub fn softmax_zero_in_place<T: Float>(y: &mut [T], Axis { len, .. }: Axis) {
    // Scores closer to zero than this count as zero.
    let nearly_zero = T::from_f64(1e-7);
    for row in y.chunks_exact_mut(len.max(1)) {
        let largest = row.iter().copied().fold(T::LOWEST, T::maximum);
        let mut sum = T::ZERO;
        for x in &mut *row {
            let is_zero = x.abs() <= nearly_zero;
            *x = if is_zero { x.mul(largest.neg().exp()) } else { x.sub(largest).exp() };
            sum = if is_zero { sum } else { sum.add(*x) };
        }
        let half = T::from_f64(0.5);
        row.iter_mut().for_each(|x| *x = if sum == T::ZERO { half } else { x.div(sum) });
    }
}

/// The quantile function of the standard normal distribution.
pub fn probit<T: Float>(x: &[T], y: &mut [T], _: Axis) {
    map(x, y, quantile);
}

/// [`probit`] in place.
pub fn probit_in_place<T: Float>(y: &mut [T], _: Axis) {
    map_in_place(y, quantile);
}

/// `√2 · erf⁻¹(2x - 1)` by Winitzki's formula, which ONNX's reference evaluator uses; its relative
/// error is about 2 · 10⁻³.
fn quantile<T: Float>(x: T) -> T {
    const A: f64 = 0.147;
    let number = T::from_f64;
    let x = x.add(x).sub(T::ONE);
    let log = T::ONE.sub(x).mul(T::ONE.add(x)).ln();
    let b = number(2.0 / (core::f64::consts::PI * A)).add(log.div(number(2.0)));
    let root = b.mul(b).sub(log.div(number(A))).sqrt().sub(b).sqrt();
    let y = root.mul(number(core::f64::consts::SQRT_2));
    if x < T::ZERO { y.neg() } else { y }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_score_determines_the_class_and_the_other_score() {
        let mut classes = [9; 3];
        above(&[9.0, 0.5, 9.0, 0.6, 9.0, f32::NAN], &mut classes, 2, 1, 0.5);
        assert_eq!(classes, [0, 1, 0]);
        let mut both = [0.0; 4];
        complement(&[0.25, 1.0], &mut both);
        assert_eq!(both, [0.75, 0.25, 0.0, 1.0]);
        opposite(&[0.25, -1.0], &mut both);
        assert_eq!(both, [-0.25, 0.25, 1.0, -1.0]);
    }

    #[test]
    fn zeros_are_skipped() {
        let geometry = Axis { outer: 3, len: 3, inner: 1 };
        let mut y = [0.0f32; 9];
        softmax_zero(&[-0.25, 0.0, 0.0, 0.0, 0.75, 0.1, 0.0, 0.0, 0.0], &mut y, geometry);
        let expected = [1.0, 0.0, 0.0, 0.0, 0.657_01, 0.342_99, 0.5, 0.5, 0.5];
        assert!(y.iter().zip(expected).all(|(y, e): (&f32, f32)| (y - e).abs() < 1e-5), "{y:?}");
    }

    #[test]
    fn a_quantile_is_near_the_true_one() {
        let geometry = Axis { outer: 1, len: 5, inner: 1 };
        let mut y = [0.0f64; 5];
        probit(&[0.5, 0.975, 0.025, 0.0, 1.5], &mut y, geometry);
        assert_eq!(y[0], 0.0);
        assert!((y[1] - 1.959_964).abs() < 5e-3 && (y[2] + 1.959_964).abs() < 5e-3);
        assert!(y[3] == f64::NEG_INFINITY && y[4].is_nan());
    }
}
