//! Comparisons and logic.

use crate::loops::broadcast::{zip, zip_in_place, zip3};
use crate::loops::broadcast_f32::{fast, select};
use crate::loops::geometry::{Broadcast, Broadcast3};
use crate::{Elem, Number};

/// `y = (a == b)`.
pub fn equal<T: Elem>(a: &[T], b: &[T], y: &mut [bool], geometry: Broadcast<'_>) {
    compare((a, b), y, geometry, fast::equal, |a, b| a == b);
}

/// `y = (a > b)`.
pub fn greater<T: Number>(a: &[T], b: &[T], y: &mut [bool], geometry: Broadcast<'_>) {
    compare((a, b), y, geometry, fast::greater, |a, b| a > b);
}

/// `y = (a >= b)`.
pub fn greater_or_equal<T: Number>(a: &[T], b: &[T], y: &mut [bool], geometry: Broadcast<'_>) {
    compare((a, b), y, geometry, fast::greater_or_equal, |a, b| a >= b);
}

/// `y = (a < b)`.
pub fn less<T: Number>(a: &[T], b: &[T], y: &mut [bool], geometry: Broadcast<'_>) {
    compare((a, b), y, geometry, fast::less, |a, b| a < b);
}

/// `y = (a <= b)`.
pub fn less_or_equal<T: Number>(a: &[T], b: &[T], y: &mut [bool], geometry: Broadcast<'_>) {
    compare((a, b), y, geometry, fast::less_or_equal, |a, b| a <= b);
}

/// Compares with `fast` if the operands are `f32`, else with `f`.
#[inline(always)]
fn compare<T: Elem>(
    (a, b): (&[T], &[T]),
    y: &mut [bool],
    geometry: Broadcast<'_>,
    fast: fn(&[f32], &[f32], &mut [bool], Broadcast<'_>),
    f: impl Fn(&T, &T) -> bool,
) {
    match (T::as_f32(a), T::as_f32(b)) {
        (Some(a), Some(b)) => fast(a, b, y, geometry),
        _ => zip(a, b, y, geometry, f),
    }
}

/// Logical AND.
pub fn and(a: &[bool], b: &[bool], y: &mut [bool], geometry: Broadcast<'_>) {
    zip(a, b, y, geometry, |a, b| a & b);
}

/// Computes [`and`] in place, overwriting the left operand.
pub fn and_in_place(y: &mut [bool], b: &[bool], geometry: Broadcast<'_>) {
    zip_in_place(y, b, geometry, |a, b| a & b);
}

/// Logical OR.
pub fn or(a: &[bool], b: &[bool], y: &mut [bool], geometry: Broadcast<'_>) {
    zip(a, b, y, geometry, |a, b| a | b);
}

/// Computes [`or`] in place, overwriting the left operand.
pub fn or_in_place(y: &mut [bool], b: &[bool], geometry: Broadcast<'_>) {
    zip_in_place(y, b, geometry, |a, b| a | b);
}

/// Logical XOR.
pub fn xor(a: &[bool], b: &[bool], y: &mut [bool], geometry: Broadcast<'_>) {
    zip(a, b, y, geometry, |a, b| a ^ b);
}

/// Computes [`xor`] in place, overwriting the left operand.
pub fn xor_in_place(y: &mut [bool], b: &[bool], geometry: Broadcast<'_>) {
    zip_in_place(y, b, geometry, |a, b| a ^ b);
}

/// `y = a` where the condition is true, `b` elsewhere; the operands of the geometry are the
/// condition, `a` and `b`.
pub fn where_<T: Elem>(
    condition: &[bool],
    a: &[T],
    b: &[T],
    y: &mut [T],
    geometry: Broadcast3<'_>,
) {
    match (T::as_f32(a), T::as_f32(b), T::as_f32_mut(y)) {
        (Some(a), Some(b), Some(y)) => select((condition, a, b), y, geometry),
        _ => zip3(
            (condition, a, b),
            y,
            geometry,
            |&condition, a, b| {
                if condition { a.clone() } else { b.clone() }
            },
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check<T: Elem, const N: usize>(
        kernel: fn(&[T], &[T], &mut [bool], Broadcast<'_>),
        a: [T; N],
        b: [T; N],
        expected: [bool; N],
    ) {
        let mut y = expected.map(|y| !y);
        kernel(&a, &b, &mut y, Broadcast { sizes: &[N], a: &[1], b: &[1] });
        assert_eq!(y, expected);
    }

    #[test]
    fn comparisons_with_nan_are_false() {
        let (a, b) = ([f32::NAN, 1.0, f32::NAN, 0.0, 1.0], [f32::NAN, f32::NAN, 1.0, -0.0, 2.0]);
        check(equal, a, b, [false, false, false, true, false]);
        check(greater, a, b, [false; 5]);
        check(greater_or_equal, a, b, [false, false, false, true, false]);
        check(less, a, b, [false, false, false, false, true]);
        check(less_or_equal, a, b, [false, false, false, true, true]);
    }

    #[test]
    fn integers_of_different_signedness_compare() {
        check(greater, [u64::MAX, 0], [1, 0], [true, false]);
        check(less, [-1i8, 127], [1, -128], [true, false]);
        check(equal, [true, false], [true, true], [true, false]);
    }

    #[cfg(feature = "alloc")]
    #[test]
    fn strings_compare_by_their_characters() {
        use alloc::string::String;
        check(equal, ["a", "b"].map(String::from), ["a", "B"].map(String::from), [true, false]);
    }

    #[test]
    fn truth_tables_hold_out_of_place_and_in_place() {
        let (a, b) = ([false, false, true, true], [false, true, false, true]);
        let geometry = Broadcast { sizes: &[4], a: &[1], b: &[1] };
        check(and, a, b, [false, false, false, true]);
        check(or, a, b, [false, true, true, true]);
        check(xor, a, b, [false, true, true, false]);
        for (kernel, expected) in [
            (and_in_place as fn(&mut [bool], &[bool], Broadcast<'_>), 0b1000),
            (or_in_place, 0b1110),
            (xor_in_place, 0b0110),
        ] {
            let mut y = a;
            kernel(&mut y, &b, geometry);
            assert_eq!(y, core::array::from_fn(|i| expected >> i & 1 == 1));
        }
    }

    #[test]
    fn a_condition_broadcasts_to_its_operands() {
        let mut y = [0; 6];
        let geometry = Broadcast3 { sizes: &[2, 3], a: &[1, 0], b: &[3, 1], c: &[0, 0] };
        where_(&[true, false], &[1, 2, 3, 4, 5, 6], &[9], &mut y, geometry);
        assert_eq!(y, [1, 2, 3, 9, 9, 9]);
    }
}
