//! Functions of `f32` operands that broadcast to one shape, compiled for each SIMD level.

use crate::Number;
use crate::loops::broadcast::{zip, zip_in_place, zip_row, zip_row_in_place, zip3_row};
use crate::loops::geometry::{Broadcast, Broadcast3};
use crate::loops::walk::{Row, walk};
use crate::simd::{MAX_LANES, Simd, WithSimd, dispatch};
use crate::threads;

/// The longest run of rows that each operand traverses with one stride, so that short rows do not
/// cost a call each.
fn rows_of<const N: usize>(
    sizes: &[usize],
    strides: [&[usize]; N],
    row: &Row<N>,
) -> (Row<N>, [usize; N]) {
    let rows = Row::of(&sizes[..row.rank], strides);
    let apart = rows.steps.map(isize::cast_unsigned);
    (rows, apart)
}

/// Returns the number of elements that threads do not divide, and how far the operands move for
/// them: one row is split, several are shared.
fn units_of<const N: usize>(row: &Row<N>, rows: &Row<N>, apart: [usize; N]) -> (usize, [usize; N]) {
    match rows.len {
        1 => (MAX_LANES, row.steps.map(|step| step.cast_unsigned() * MAX_LANES)),
        _ => (row.len, apart),
    }
}

/// [`zip`] of `f32`, compiled for each SIMD level.
#[inline(always)]
fn zip_at_level<Y: Send>(
    a: &[f32],
    b: &[f32],
    y: &mut [Y],
    geometry: Broadcast<'_>,
    f: impl Fn(f32, f32) -> Y + Copy + Sync,
) {
    let Broadcast { sizes, a: strides_a, b: strides_b } = geometry;
    debug_assert_eq!(y.len(), sizes.iter().product(), "the result has the sizes");
    if y.is_empty() {
        return;
    }
    let strides = [strides_a, strides_b];
    let row = Row::of(sizes, strides);
    let (rows, apart) = rows_of(sizes, strides, &row);
    let mut planes = y.chunks_exact_mut(row.len * rows.len);
    walk(&sizes[..rows.rank], strides, [0, 0], &mut |[i, j]| {
        let Some(y) = planes.next() else { return };
        let (a, b, cost) = (&a[i..], &b[j..], y.len());
        let (unit, strides) = units_of(&row, &rows, apart);
        threads::share(y, unit, cost, |first, y| {
            let [i, j] = strides.map(|stride| first * stride);
            let len = if rows.len == 1 { y.len() } else { row.len };
            dispatch(ZipRows { a: &a[i..], b: &b[j..], y, len, apart, steps: row.steps, f });
        });
    });
}

/// Rows of `len` elements, whose operands start `apart` elements from each other.
struct ZipRows<'a, Y, F> {
    a: &'a [f32],
    b: &'a [f32],
    y: &'a mut [Y],
    len: usize,
    apart: [usize; 2],
    steps: [isize; 2],
    f: F,
}

impl<Y, F: Fn(f32, f32) -> Y> WithSimd for ZipRows<'_, Y, F> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        let [of_a, of_b] = self.apart;
        for (i, y) in self.y.chunks_exact_mut(self.len).enumerate() {
            zip_row(
                &self.a[i * of_a..],
                &self.b[i * of_b..],
                y,
                self.steps,
                #[inline(always)]
                |&a, &b| (self.f)(a, b),
            );
        }
    }
}

/// [`zip_in_place`] of `f32`, compiled for each SIMD level.
#[inline(always)]
fn zip_in_place_at_level(
    y: &mut [f32],
    b: &[f32],
    geometry: Broadcast<'_>,
    f: impl Fn(f32, f32) -> f32 + Copy + Sync,
) {
    let Broadcast { sizes, a: _, b: strides } = geometry;
    debug_assert_eq!(y.len(), sizes.iter().product(), "the result has the sizes");
    if y.is_empty() {
        return;
    }
    let row = Row::of(sizes, [strides]);
    let (rows, [apart]) = rows_of(sizes, [strides], &row);
    let step = row.steps[0].cast_unsigned();
    let mut planes = y.chunks_exact_mut(row.len * rows.len);
    walk(&sizes[..rows.rank], [strides], [0], &mut |[j]| {
        let Some(y) = planes.next() else { return };
        let (b, cost) = (&b[j..], y.len());
        let (unit, [stride]) = units_of(&row, &rows, [apart]);
        threads::share(y, unit, cost, |first, y| {
            let len = if rows.len == 1 { y.len() } else { row.len };
            dispatch(ZipRowsInPlace { y, b: &b[first * stride..], len, apart, step, f });
        });
    });
}

/// Rows of `len` elements, whose right operands start `apart` elements from each other.
struct ZipRowsInPlace<'a, F> {
    y: &'a mut [f32],
    b: &'a [f32],
    len: usize,
    apart: usize,
    step: usize,
    f: F,
}

impl<F: Fn(f32, f32) -> f32> WithSimd for ZipRowsInPlace<'_, F> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        for (i, y) in self.y.chunks_exact_mut(self.len).enumerate() {
            zip_row_in_place(
                y,
                &self.b[i * self.apart..],
                self.step,
                #[inline(always)]
                |&y, &b| (self.f)(y, b),
            );
        }
    }
}

/// Arithmetic of `f32`, instantiated once, here, for each SIMD level.
pub(crate) mod fast {
    use super::*;

    macro_rules! of_f32 {
        ($($name:ident $in_place:ident |$a:ident, $b:ident| $y:expr;)*) => {$(
            #[inline(never)]
            pub(crate) fn $name(a: &[f32], b: &[f32], y: &mut [f32], geometry: Broadcast<'_>) {
                zip_at_level(a, b, y, geometry, #[inline(always)] |$a, $b| $y);
            }

            #[inline(never)]
            pub(crate) fn $in_place(y: &mut [f32], b: &[f32], geometry: Broadcast<'_>) {
                zip_in_place_at_level(y, b, geometry, #[inline(always)] |$a, $b| $y);
            }
        )*};
    }

    of_f32! {
        add add_in_place |a, b| a + b;
        sub sub_in_place |a, b| a - b;
        mul mul_in_place |a, b| a * b;
        div div_in_place |a, b| a / b;
        max max_in_place |a, b| Number::maximum(a, b);
        min min_in_place |a, b| Number::minimum(a, b);
        prelu prelu_in_place |x, slope| if x < 0.0 { x * slope } else { x };
    }

    macro_rules! comparisons {
        ($($name:ident |$a:ident, $b:ident| $y:expr;)*) => {$(
            #[inline(never)]
            pub(crate) fn $name(a: &[f32], b: &[f32], y: &mut [bool], geometry: Broadcast<'_>) {
                zip_at_level(a, b, y, geometry, #[inline(always)] |$a, $b| $y);
            }
        )*};
    }

    comparisons! {
        equal |a, b| a == b;
        greater |a, b| a > b;
        greater_or_equal |a, b| a >= b;
        less |a, b| a < b;
        less_or_equal |a, b| a <= b;
    }
}

/// [`zip`] that calls `fast` for `f32`.
#[inline(always)]
pub(crate) fn zip_fast<T: Number>(
    (a, b): (&[T], &[T]),
    y: &mut [T],
    geometry: Broadcast<'_>,
    fast: fn(&[f32], &[f32], &mut [f32], Broadcast<'_>),
    f: impl Fn(T, T) -> T,
) {
    match (T::as_f32(a), T::as_f32(b), T::as_f32_mut(y)) {
        (Some(a), Some(b), Some(y)) => fast(a, b, y, geometry),
        _ => zip(a, b, y, geometry, |&a, &b| f(a, b)),
    }
}

/// [`zip_in_place`] that calls `fast` for `f32`.
#[inline(always)]
pub(crate) fn zip_fast_in_place<T: Number>(
    y: &mut [T],
    b: &[T],
    geometry: Broadcast<'_>,
    fast: fn(&mut [f32], &[f32], Broadcast<'_>),
    f: impl Fn(T, T) -> T,
) {
    match (T::as_f32_mut(y), T::as_f32(b)) {
        (Some(y), Some(b)) => fast(y, b, geometry),
        _ => zip_in_place(y, b, geometry, |&y, &b| f(y, b)),
    }
}

/// Takes elements of `a` where the condition is true, and of `b` elsewhere, compiled for each SIMD
/// level.
#[inline(never)]
pub(crate) fn select(
    (condition, a, b): (&[bool], &[f32], &[f32]),
    y: &mut [f32],
    geometry: Broadcast3<'_>,
) {
    let Broadcast3 { sizes, a: strides_c, b: strides_a, c: strides_b } = geometry;
    debug_assert_eq!(y.len(), sizes.iter().product(), "the result has the sizes");
    if y.is_empty() {
        return;
    }
    let strides = [strides_c, strides_a, strides_b];
    let row = Row::of(sizes, strides);
    let (rows, apart) = rows_of(sizes, strides, &row);
    let mut planes = y.chunks_exact_mut(row.len * rows.len);
    walk(&sizes[..rows.rank], strides, [0; 3], &mut |[i, j, k]| {
        let Some(y) = planes.next() else { return };
        let (condition, a, b, cost) = (&condition[i..], &a[j..], &b[k..], y.len());
        let (unit, strides) = units_of(&row, &rows, apart);
        threads::share(y, unit, cost, |first, y| {
            let [i, j, k] = strides.map(|stride| first * stride);
            let operands = (&condition[i..], &a[j..], &b[k..]);
            let len = if rows.len == 1 { y.len() } else { row.len };
            dispatch(SelectRows { operands, y, len, apart, steps: row.steps });
        });
    });
}

/// Rows of `len` elements, whose operands start `apart` elements from each other.
struct SelectRows<'a> {
    operands: (&'a [bool], &'a [f32], &'a [f32]),
    y: &'a mut [f32],
    len: usize,
    apart: [usize; 3],
    steps: [isize; 3],
}

impl WithSimd for SelectRows<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        let ((condition, a, b), [i, j, k]) = (self.operands, self.apart);
        for (row, y) in self.y.chunks_exact_mut(self.len).enumerate() {
            zip3_row(
                (&condition[row * i..], &a[row * j..], &b[row * k..]),
                y,
                self.steps,
                #[inline(always)]
                |&condition, &a, &b| select_one(condition, a, b),
            );
        }
    }
}

/// Returns `a` if the condition is true, else `b`. Masks of bits, unlike a branch, become vectors.
#[inline(always)]
fn select_one(condition: bool, a: f32, b: f32) -> f32 {
    let (mask, a, b) = (u32::from(condition).wrapping_neg(), a.to_bits(), b.to_bits());
    f32::from_bits(b ^ ((a ^ b) & mask))
}
