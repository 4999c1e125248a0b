//! Comparisons of kernels with true values, at each SIMD level of the processor and without
//! vectors: functions of one number by their error in ULPs, sums by their relative error. The
//! documentation of the kernels states the same bounds.

mod functions;
mod sums;

use std::vec::Vec;

/// Every `step`-th `f32`, and the numbers at which functions change.
pub(crate) fn inputs(step: usize) -> Vec<f32> {
    const EDGES: [f32; 24] = [
        0.0,
        1e-45,
        1e-40,
        f32::MIN_POSITIVE,
        0.35,
        0.5,
        2.0 / 3.0,
        1.0,
        1.1,
        4.0 / 3.0,
        3.95,
        9.01,
        10.0,
        11.0,
        14.5,
        17.4,
        88.722_83,
        88.722_84,
        103.97,
        104.0,
        170.0,
        f32::MAX,
        f32::INFINITY,
        f32::NAN,
    ];
    let patterns = (0..=u32::MAX).step_by(step).map(f32::from_bits);
    EDGES.into_iter().flat_map(|x| [x, -x]).chain(patterns).collect()
}

/// The distance of `y` from `truth` in ULPs of the nearest `f32`.
pub(crate) fn ulps(y: f32, truth: f64) -> f64 {
    let nearest = truth as f32;
    if y == nearest || (y.is_nan() && nearest.is_nan()) {
        return 0.0;
    }
    if !y.is_finite() || !nearest.is_finite() {
        return f64::INFINITY;
    }
    let bits = nearest.abs().to_bits();
    let ulp = f64::from(f32::from_bits(bits + 1)) - f64::from(f32::from_bits(bits));
    (f64::from(y) - truth).abs() / ulp
}
