//! Gates: the gradients of `Relu` and of functions that are constant outside of two bounds.

use crate::Number;
use crate::simd::{Simd, WithSimd, dispatch};
use crate::threads;

/// `y = x` where `gate > 0`, and 0 elsewhere, including where `gate` is NaN.
#[inline(never)]
pub fn gate<T: Number>(x: &[T], gate: &[T], y: &mut [T]) {
    threads::share(y, 1, x.len(), |first, y| {
        let (x, gate) = (&x[first..][..y.len()], &gate[first..][..y.len()]);
        dispatch(Gate { x, gate, y });
    });
}

/// [`gate`] in place.
#[inline(never)]
pub fn gate_in_place<T: Number>(y: &mut [T], gate: &[T]) {
    let cost = y.len();
    threads::share(y, 1, cost, |first, y| {
        let gate = &gate[first..][..y.len()];
        dispatch(GateInPlace { gate, y });
    });
}

/// `y = x` where `gate` is neither less than `low` nor greater than `high`, one element each, and 0
/// elsewhere.
#[inline(never)]
pub fn between<T: Number>(x: &[T], gate: &[T], low: &[T], high: &[T], y: &mut [T]) {
    threads::share(y, 1, x.len(), |first, y| {
        let (x, gate) = (&x[first..][..y.len()], &gate[first..][..y.len()]);
        dispatch(Between { x, gate, bounds: [low[0], high[0]], y });
    });
}

/// [`between`] in place.
#[inline(never)]
pub fn between_in_place<T: Number>(y: &mut [T], gate: &[T], low: &[T], high: &[T]) {
    let cost = y.len();
    threads::share(y, 1, cost, |first, y| {
        let gate = &gate[first..][..y.len()];
        dispatch(BetweenInPlace { gate, bounds: [low[0], high[0]], y });
    });
}

struct Gate<'a, T> {
    x: &'a [T],
    gate: &'a [T],
    y: &'a mut [T],
}

impl<T: Number> WithSimd for Gate<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        for ((y, &x), &gate) in self.y.iter_mut().zip(self.x).zip(self.gate) {
            *y = if gate > T::ZERO { x } else { T::ZERO };
        }
    }
}

struct GateInPlace<'a, T> {
    gate: &'a [T],
    y: &'a mut [T],
}

impl<T: Number> WithSimd for GateInPlace<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        for (y, &gate) in self.y.iter_mut().zip(self.gate) {
            *y = if gate > T::ZERO { *y } else { T::ZERO };
        }
    }
}

struct Between<'a, T> {
    x: &'a [T],
    gate: &'a [T],
    bounds: [T; 2],
    y: &'a mut [T],
}

impl<T: Number> WithSimd for Between<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        for ((y, &x), &gate) in self.y.iter_mut().zip(self.x).zip(self.gate) {
            *y = if outside(gate, self.bounds) { T::ZERO } else { x };
        }
    }
}

struct BetweenInPlace<'a, T> {
    gate: &'a [T],
    bounds: [T; 2],
    y: &'a mut [T],
}

impl<T: Number> WithSimd for BetweenInPlace<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        for (y, &gate) in self.y.iter_mut().zip(self.gate) {
            *y = if outside(gate, self.bounds) { T::ZERO } else { *y };
        }
    }
}

/// Compares with both bounds, so that the loop has no branch.
#[inline(always)]
fn outside<T: Number>(x: T, [low, high]: [T; 2]) -> bool {
    (x < low) | (x > high)
}

#[cfg(all(test, feature = "std"))]
mod tests {
    use super::*;

    #[test]
    fn a_gate_that_is_not_positive_gives_zero() {
        let x = [1.0f32, -2.0, f32::NAN, f32::INFINITY, 5.0];
        let open = [1.0f32, 0.5, -1.0, -0.0, f32::NAN];
        let mut y = [9.0; 5];
        gate(&x, &open, &mut y);
        assert_eq!(y, [1.0, -2.0, 0.0, 0.0, 0.0]);
        let mut y = x;
        gate_in_place(&mut y, &open);
        assert_eq!(y, [1.0, -2.0, 0.0, 0.0, 0.0]);
    }

    #[test]
    fn bounds_and_nan_pass() {
        let x = [1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0];
        let open = [-0.1f32, 0.0, 3.0, 6.0, 6.1, f32::NAN];
        let mut y = [9.0; 6];
        between(&x, &open, &[0.0], &[6.0], &mut y);
        assert_eq!(y, [0.0, 2.0, 3.0, 4.0, 0.0, 6.0]);
        let mut y = x;
        between_in_place(&mut y, &open, &[0.0], &[6.0]);
        assert_eq!(y, [0.0, 2.0, 3.0, 4.0, 0.0, 6.0]);
    }
}
