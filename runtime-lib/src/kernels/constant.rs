//! Tensors filled with constants or sequences of numbers.

use crate::error::{Error, Result};
use crate::loops::index::{number, size};
use crate::{Elem, Exact, Number, Real};

/// Sets every element to `value`.
pub fn constant_of_shape<T: Elem>(y: &mut [T], value: T) {
    y.fill(value);
}

/// Computes the sizes of `ConstantOfShape`.
///
/// # Errors
///
/// Returns an error for a negative size.
pub fn constant_of_shape_sizes(sizes: &mut [usize], shape: &[i64]) -> Result {
    for (into, &from) in sizes.iter_mut().zip(shape) {
        *into = size(from)?;
    }
    Ok(())
}

/// Writes 1 on the diagonal that starts in column `k` of the first row, or in row `-k` of the first
/// column, and 0 elsewhere.
pub fn eye_like<T: Real>(y: &mut [T], columns: usize, k: i64) {
    y.fill(T::nearest(Exact::Unsigned(0)));
    let (down, right) = if k < 0 { (k.unsigned_abs(), 0) } else { (0, k.unsigned_abs()) };
    let (down, right) = (usize::try_from(down), usize::try_from(right));
    let (Ok(down), Ok(right), true) = (down, right, columns > 0) else { return };
    for (i, row) in y.chunks_exact_mut(columns).skip(down).enumerate() {
        if let Some(y) = row.get_mut(right.saturating_add(i)) {
            *y = T::nearest(Exact::Unsigned(1));
        }
    }
}

/// `y[i] = start + i · delta`; each operand has one element. Floating-point types compute in `f64`
/// and round once.
pub fn range<T: Real>(start: &[T], delta: &[T], y: &mut [T]) {
    let (Some(start), Some(delta)) = (start.first(), delta.first()) else { return };
    match (start.exact(), delta.exact()) {
        (Exact::Signed(start), Exact::Signed(delta)) => {
            let mut next = start;
            for y in y {
                *y = T::nearest(Exact::Signed(next));
                next = next.wrapping_add(delta);
            }
        }
        (start, delta) => {
            let (start, delta) = (start.to_f64(), delta.to_f64());
            for (i, y) in y.iter_mut().enumerate() {
                *y = T::nearest(Exact::Double(start + number::<f64>(i) * delta));
            }
        }
    }
}

/// Computes the number of elements from `start` up to, but excluding, `limit` in steps of `delta`.
///
/// # Errors
///
/// Returns an error for a `delta` of zero, or too many elements.
pub fn range_sizes<T: Real>(sizes: &mut [usize], start: &[T], limit: &[T], delta: &[T]) -> Result {
    /// More elements than any tensor has.
    const TOO_MANY: u64 = 1 << 53;
    let bounds = (start.first(), limit.first(), delta.first());
    let (Some(start), Some(limit), Some(delta)) = bounds else {
        return Err(Error::Value("a bound of a range is missing"));
    };
    let steps = match (start.exact(), limit.exact(), delta.exact()) {
        (Exact::Signed(start), Exact::Signed(limit), Exact::Signed(delta)) if delta != 0 => {
            let (way, step) = (i128::from(limit) - i128::from(start), i128::from(delta));
            let (way, step) = if step < 0 { (-way, -step) } else { (way, step) };
            u64::try_from((way.max(0) + step - 1) / step).ok()
        }
        (start, limit, delta) => {
            let steps = libm::ceil((limit.to_f64() - start.to_f64()) / delta.to_f64());
            (!steps.is_nan()).then(|| u64::from_f64(steps))
        }
    };
    let steps = steps.filter(|&steps| steps < TOO_MANY).and_then(|n| usize::try_from(n).ok());
    let steps = steps.ok_or(Error::Value("a range has no end"))?;
    sizes.fill(steps);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_diagonal_may_start_right_or_below() {
        let check = |k, expected: [u8; 6]| {
            let mut y = [9u8; 6];
            eye_like(&mut y, 3, k);
            assert_eq!(y, expected, "{k}");
        };
        check(0, [1, 0, 0, 0, 1, 0]);
        check(2, [0, 0, 1, 0, 0, 0]);
        check(-1, [0, 0, 0, 1, 0, 0]);
        check(i64::MIN, [0; 6]);
        check(i64::MAX, [0; 6]);
        eye_like::<bool>(&mut [], 0, 0);
    }

    fn ranged<T: Real>(start: T, limit: T, delta: T) -> Result<([T; 8], usize)> {
        let mut sizes = [0];
        range_sizes(&mut sizes, &[start], &[limit], &[delta])?;
        let mut y = [T::default(); 8];
        range(&[start], &[delta], &mut y[..sizes[0].min(8)]);
        Ok((y, sizes[0]))
    }

    #[test]
    fn a_range_ends_before_its_limit() {
        assert_eq!(ranged(3, 9, 3), Ok(([3, 6, 0, 0, 0, 0, 0, 0], 2)));
        assert_eq!(ranged(10i16, 4, -2), Ok(([10, 8, 6, 0, 0, 0, 0, 0], 3)));
        assert_eq!(ranged(1.0f32, 5.5, 2.0), Ok(([1.0, 3.0, 5.0, 0.0, 0.0, 0.0, 0.0, 0.0], 3)));
        assert_eq!(ranged(5, 0, 1).map(|(_, n)| n), Ok(0));
        assert_eq!(ranged(0.0, -1.0, 0.5).map(|(_, n)| n), Ok(0));
        assert_eq!(ranged(-128i8, 127, 127).map(|(_, n)| n), Ok(3));
    }

    #[test]
    fn a_range_without_end_is_an_error() {
        assert!(ranged(0, 1, 0).is_err() && ranged(0.0, 1.0, 0.0).is_err());
        assert!(ranged(0.0, f64::INFINITY, 1.0).is_err() && ranged(0.0, f32::NAN, 1.0).is_err());
        assert!(ranged(i64::MIN, i64::MAX, 1).is_err());
    }
}
