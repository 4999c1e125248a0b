//! Normalization by an Lᵖ norm.

use crate::loops::geometry::Axis;
use crate::{Float, Number};

/// `y = x / Σ |x|` along the axis; zero where the sum is zero.
pub fn lp_normalization_l1<T: Float>(x: &[T], y: &mut [T], geometry: Axis) {
    y.copy_from_slice(x);
    lp_normalization_l1_in_place(y, geometry);
}

/// [`lp_normalization_l1`] in place.
pub fn lp_normalization_l1_in_place<T: Float>(y: &mut [T], geometry: Axis) {
    normalize(y, geometry, |lane| lane.fold(T::Wide::ZERO, |sum, y| sum.add(y.abs())));
}

/// `y = x / √(Σ x²)` along the axis; zero where the sum is zero.
pub fn lp_normalization_l2<T: Float>(x: &[T], y: &mut [T], geometry: Axis) {
    y.copy_from_slice(x);
    lp_normalization_l2_in_place(y, geometry);
}

/// [`lp_normalization_l2`] in place.
pub fn lp_normalization_l2_in_place<T: Float>(y: &mut [T], geometry: Axis) {
    normalize(y, geometry, |lane| lane.fold(T::Wide::ZERO, |sum, y| sum.add(y.mul(y))).sqrt());
}

#[inline(always)]
fn normalize<T: Float>(
    y: &mut [T],
    geometry: Axis,
    norm: fn(&mut dyn Iterator<Item = T::Wide>) -> T::Wide,
) {
    let Axis { outer, len, inner } = geometry;
    if y.is_empty() {
        return;
    }
    for at in (0..outer).flat_map(|o| (0..inner).map(move |i| o * len * inner + i)) {
        let lane = y.get(at..).unwrap_or_default().iter().step_by(inner).take(len);
        let norm = norm(&mut lane.map(|y| y.widen()));
        for y in y.get_mut(at..).unwrap_or_default().iter_mut().step_by(inner).take(len) {
            *y = if norm == T::Wide::ZERO { T::ZERO } else { T::narrow(y.widen().div(norm)) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_lane_is_normalized() {
        let x = [3.0f32, -4.0, 0.0, 0.0, 6.0, 8.0];
        let mut y = [9.0; 6];
        lp_normalization_l2(&x, &mut y, Axis { outer: 3, len: 2, inner: 1 });
        assert_eq!(y, [0.6, -0.8, 0.0, 0.0, 0.6, 0.8]);
        lp_normalization_l1(&x, &mut y, Axis { outer: 3, len: 2, inner: 1 });
        assert_eq!(y, [3.0 / 7.0, -4.0 / 7.0, 0.0, 0.0, 6.0 / 14.0, 8.0 / 14.0]);
        let mut y = [3.0f64, 0.0, 4.0, 0.0];
        lp_normalization_l2_in_place(&mut y, Axis { outer: 1, len: 2, inner: 2 });
        assert_eq!(y, [0.6, 0.0, 0.8, 0.0]);
        lp_normalization_l1_in_place::<f32>(&mut [], Axis { outer: usize::MAX, len: 0, inner: 3 });
    }
}
