//! Variadic functions, two operands at a time: the first two, then the previous result and the
//! next.

use crate::loops::broadcast_f32::{fast, zip_fast, zip_fast_in_place};
use crate::loops::elementwise::map_in_place;
use crate::loops::geometry::Broadcast;
use crate::loops::index::number;
use crate::{Float, Number};

/// The larger of `a` and `b`; NaN if either is NaN.
pub fn max<T: Number>(a: &[T], b: &[T], y: &mut [T], geometry: Broadcast<'_>) {
    zip_fast((a, b), y, geometry, fast::max, T::maximum);
}

/// Computes [`max`] in place, overwriting the left operand.
pub fn max_in_place<T: Number>(y: &mut [T], b: &[T], geometry: Broadcast<'_>) {
    zip_fast_in_place(y, b, geometry, fast::max_in_place, T::maximum);
}

/// The smaller of `a` and `b`; NaN if either is NaN.
pub fn min<T: Number>(a: &[T], b: &[T], y: &mut [T], geometry: Broadcast<'_>) {
    zip_fast((a, b), y, geometry, fast::min, T::minimum);
}

/// Computes [`min`] in place, overwriting the left operand.
pub fn min_in_place<T: Number>(y: &mut [T], b: &[T], geometry: Broadcast<'_>) {
    zip_fast_in_place(y, b, geometry, fast::min_in_place, T::minimum);
}

/// `y = a + b`.
pub fn sum<T: Number>(a: &[T], b: &[T], y: &mut [T], geometry: Broadcast<'_>) {
    zip_fast((a, b), y, geometry, fast::add, T::add);
}

/// Computes [`sum`] in place, overwriting the left operand.
pub fn sum_in_place<T: Number>(y: &mut [T], b: &[T], geometry: Broadcast<'_>) {
    zip_fast_in_place(y, b, geometry, fast::add_in_place, T::add);
}

/// The last step of `Mean`: divides the sum by the number of operands.
pub fn mean_in_place<T: Float>(y: &mut [T], operands: usize) {
    let operands = number(operands);
    map_in_place(y, |y: T| y.div(operands));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operands_join_one_by_one() {
        let (a, b, c) = ([1.0f32, 5.0, f32::NAN], [4.0, 2.0, 0.0], [3.0]);
        let same = Broadcast { sizes: &[3], a: &[1], b: &[1] };
        let one = Broadcast { sizes: &[3], a: &[1], b: &[0] };
        let mut y = [0.0; 3];
        max(&a, &b, &mut y, same);
        max_in_place(&mut y, &c, one);
        assert!(y[..2] == [4.0, 5.0] && y[2].is_nan());
        min(&b, &a, &mut y, same);
        min_in_place(&mut y, &c, one);
        assert!(y[..2] == [1.0, 2.0] && y[2].is_nan());
        sum(&a, &b, &mut y, same);
        sum_in_place(&mut y, &c, one);
        mean_in_place(&mut y, 3);
        assert!(y[..2] == [8.0 / 3.0, 10.0 / 3.0] && y[2].is_nan());
    }
}
