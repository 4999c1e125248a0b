//! Loops over two or three operands that broadcast to one shape.

use crate::loops::geometry::{Broadcast, Broadcast3};
use crate::loops::walk::{Row, walk};

/// `y = f(a, b)`.
#[inline(always)]
pub(crate) fn zip<A, B, Y>(
    a: &[A],
    b: &[B],
    y: &mut [Y],
    geometry: Broadcast<'_>,
    f: impl Fn(&A, &B) -> Y,
) {
    zip_rows(a, b, y, geometry, |a, b, y, steps| zip_row(a, b, y, steps, &f));
}

/// Calls `row` with each row of the result, and the offsets and strides of the operands.
#[inline(always)]
pub(super) fn zip_rows<A, B, Y>(
    a: &[A],
    b: &[B],
    y: &mut [Y],
    geometry: Broadcast<'_>,
    f: impl Fn(&[A], &[B], &mut [Y], [isize; 2]),
) {
    let Broadcast { sizes, a: strides_a, b: strides_b } = geometry;
    debug_assert_eq!(y.len(), sizes.iter().product(), "the result has the sizes");
    if y.is_empty() {
        return;
    }
    let row = Row::of(sizes, [strides_a, strides_b]);
    let mut rows = y.chunks_exact_mut(row.len);
    walk(&sizes[..row.rank], [strides_a, strides_b], [0, 0], &mut |[i, j]| {
        if let Some(y) = rows.next() {
            f(&a[i..], &b[j..], y, row.steps);
        }
    });
}

#[inline(always)]
pub(super) fn zip_row<A, B, Y>(
    a: &[A],
    b: &[B],
    y: &mut [Y],
    steps: [isize; 2],
    f: impl Fn(&A, &B) -> Y,
) {
    match steps {
        [1, 1] => {
            for ((y, a), b) in y.iter_mut().zip(a).zip(b) {
                *y = f(a, b);
            }
        }
        [1, 0] => {
            let b = &b[0];
            for (y, a) in y.iter_mut().zip(a) {
                *y = f(a, b);
            }
        }
        [0, 1] => {
            let a = &a[0];
            for (y, b) in y.iter_mut().zip(b) {
                *y = f(a, b);
            }
        }
        steps => {
            let [i, j] = [steps[0].cast_unsigned(), steps[1].cast_unsigned()];
            for (k, y) in y.iter_mut().enumerate() {
                *y = f(&a[k * i], &b[k * j]);
            }
        }
    }
}

/// `y = f(y, b)`.
#[inline(always)]
pub(crate) fn zip_in_place<Y, B>(
    y: &mut [Y],
    b: &[B],
    geometry: Broadcast<'_>,
    f: impl Fn(&Y, &B) -> Y,
) {
    zip_rows_in_place(y, b, geometry, |y, b, step| zip_row_in_place(y, b, step, &f));
}

/// Calls `row` with each row of the result, and the offset and stride of the operand.
#[inline(always)]
pub(super) fn zip_rows_in_place<Y, B>(
    y: &mut [Y],
    b: &[B],
    geometry: Broadcast<'_>,
    f: impl Fn(&mut [Y], &[B], usize),
) {
    let Broadcast { sizes, a: _, b: strides } = geometry;
    debug_assert_eq!(y.len(), sizes.iter().product(), "the result has the sizes");
    if y.is_empty() {
        return;
    }
    let row = Row::of(sizes, [strides]);
    let mut rows = y.chunks_exact_mut(row.len);
    walk(&sizes[..row.rank], [strides], [0], &mut |[j]| {
        if let Some(y) = rows.next() {
            f(y, &b[j..], row.steps[0].cast_unsigned());
        }
    });
}

#[inline(always)]
pub(super) fn zip_row_in_place<Y, B>(y: &mut [Y], b: &[B], step: usize, f: impl Fn(&Y, &B) -> Y) {
    match step {
        1 => {
            for (y, b) in y.iter_mut().zip(b) {
                *y = f(y, b);
            }
        }
        0 => {
            let b = &b[0];
            for y in y {
                *y = f(y, b);
            }
        }
        step => {
            for (y, b) in y.iter_mut().zip(b.iter().step_by(step)) {
                *y = f(y, b);
            }
        }
    }
}

/// `y = f(a, b, c)`.
#[inline(always)]
pub(crate) fn zip3<A, B, C, Y>(
    (a, b, c): (&[A], &[B], &[C]),
    y: &mut [Y],
    geometry: Broadcast3<'_>,
    f: impl Fn(&A, &B, &C) -> Y,
) {
    let Broadcast3 { sizes, a: strides_a, b: strides_b, c: strides_c } = geometry;
    debug_assert_eq!(y.len(), sizes.iter().product(), "the result has the sizes");
    if y.is_empty() {
        return;
    }
    let strides = [strides_a, strides_b, strides_c];
    let row = Row::of(sizes, strides);
    let mut rows = y.chunks_exact_mut(row.len);
    walk(&sizes[..row.rank], strides, [0; 3], &mut |[i, j, k]| {
        if let Some(y) = rows.next() {
            zip3_row((&a[i..], &b[j..], &c[k..]), y, row.steps, &f);
        }
    });
}

#[inline(always)]
pub(super) fn zip3_row<A, B, C, Y>(
    (a, b, c): (&[A], &[B], &[C]),
    y: &mut [Y],
    steps: [isize; 3],
    f: impl Fn(&A, &B, &C) -> Y,
) {
    match steps {
        [1, 1, 1] => {
            for (((y, a), b), c) in y.iter_mut().zip(a).zip(b).zip(c) {
                *y = f(a, b, c);
            }
        }
        [1, 1, 0] => {
            let c = &c[0];
            for ((y, a), b) in y.iter_mut().zip(a).zip(b) {
                *y = f(a, b, c);
            }
        }
        [1, 0, 1] => {
            let b = &b[0];
            for ((y, a), c) in y.iter_mut().zip(a).zip(c) {
                *y = f(a, b, c);
            }
        }
        [1, 0, 0] => {
            let (b, c) = (&b[0], &c[0]);
            for (y, a) in y.iter_mut().zip(a) {
                *y = f(a, b, c);
            }
        }
        steps => {
            let [i, j] = [steps[0].cast_unsigned(), steps[1].cast_unsigned()];
            let k = steps[2].cast_unsigned();
            for (n, y) in y.iter_mut().enumerate() {
                *y = f(&a[n * i], &b[n * j], &c[n * k]);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::loops::broadcast_f32::{fast, select, zip_fast, zip_fast_in_place};
    use crate::loops::geometry::broadcast_strides;

    /// Checks every shape of three axes up to size 3, and every way to broadcast an operand to it.
    fn shapes(check: impl Fn([usize; 3], [[usize; 3]; 3])) {
        for code in 0..27 * 8 * 8 {
            let sizes = [code % 3 + 1, code / 3 % 3 + 1, code / 9 % 3];
            let operand = |code: usize| {
                let keep = |axis: usize| if code >> axis & 1 == 1 { sizes[axis] } else { 1 };
                let mut strides = [0; 3];
                broadcast_strides(&mut strides, &[keep(0), keep(1), keep(2)]);
                strides
            };
            let (a, b) = (code / 27 % 8, code / 27 / 8);
            check(sizes, [operand(a), operand(b), operand(a ^ b)]);
        }
    }

    fn each(sizes: [usize; 3], mut visit: impl FnMut(usize, [usize; 3])) {
        let [_, m, n] = sizes;
        for at in 0..sizes.iter().product() {
            visit(at, [at / (m * n), at / n % m, at % n]);
        }
    }

    fn at(index: [usize; 3], strides: [usize; 3]) -> usize {
        index.iter().zip(strides).map(|(i, stride)| i * stride).sum()
    }

    const X: [i32; 27] = {
        let mut x = [0; 27];
        let mut i = 0;
        while i < 27 {
            x[i] = (i * i) as i32 - 40;
            i += 1;
        }
        x
    };

    #[test]
    fn two_operands_broadcast_for_every_small_shape() {
        shapes(|sizes, [a, b, _]| {
            let geometry = Broadcast { sizes: &sizes, a: &a, b: &b };
            let mut y = [0; 27];
            let y = &mut y[..sizes.iter().product()];
            zip(&X, &X, y, geometry, |a, b| 100 * a + b);
            each(sizes, |i, index| assert_eq!(y[i], 100 * X[at(index, a)] + X[at(index, b)]));
        });
    }

    #[test]
    fn the_left_operand_may_be_the_result() {
        shapes(|sizes, [_, b, _]| {
            let geometry =
                Broadcast { sizes: &sizes, a: &[sizes[1] * sizes[2], sizes[2], 1], b: &b };
            let mut y = X;
            zip_in_place(&mut y[..sizes.iter().product()], &X, geometry, |y, b| 100 * y + b);
            each(sizes, |i, index| assert_eq!(y[i], 100 * X[i] + X[at(index, b)]));
        });
    }

    #[test]
    fn the_fast_path_gives_the_same_result() {
        let x = X.map(|x| x as f32);
        shapes(|sizes, [a, b, _]| {
            let geometry = Broadcast { sizes: &sizes, a: &a, b: &b };
            let (mut y, mut z) = ([0.0; 27], [0.0; 27]);
            let n = sizes.iter().product();
            zip_fast((&x, &x), &mut y[..n], geometry, fast::sub, |_, _| f32::NAN);
            zip(&x, &x, &mut z[..n], geometry, |a, b| a - b);
            assert_eq!(y, z);
            let (mut y, mut z) = ([false; 27], [false; 27]);
            fast::greater(&x, &x, &mut y[..n], geometry);
            zip(&x, &x, &mut z[..n], geometry, |a, b| a > b);
            assert_eq!(y, z);
            let (mut y, mut z) = (x, x);
            let geometry = Broadcast { a: &[sizes[1] * sizes[2], sizes[2], 1], ..geometry };
            zip_fast_in_place(&mut y[..n], &x, geometry, fast::sub_in_place, |_, _| f32::NAN);
            zip_in_place(&mut z[..n], &x, geometry, |a, b| a - b);
            assert_eq!(y, z);
        });
    }

    #[test]
    fn three_operands_broadcast_for_every_small_shape() {
        shapes(|sizes, [a, b, c]| {
            let geometry = Broadcast3 { sizes: &sizes, a: &a, b: &b, c: &c };
            let mut y = [0; 27];
            let y = &mut y[..sizes.iter().product()];
            zip3((&X, &X, &X), y, geometry, |a, b, c| 10_000 * a + 100 * b + c);
            each(sizes, |i, index| {
                let [a, b, c] = [a, b, c].map(|strides| X[at(index, strides)]);
                assert_eq!(y[i], 10_000 * a + 100 * b + c);
            });
        });
    }

    #[test]
    fn elements_are_selected_as_by_any_function_of_three_operands() {
        let (odd, x) = (X.map(|x| x % 2 != 0), X.map(|x| x as f32));
        shapes(|sizes, [a, b, c]| {
            let geometry = Broadcast3 { sizes: &sizes, a: &a, b: &b, c: &c };
            let (mut y, mut z) = ([0.0; 27], [0.0; 27]);
            let n = sizes.iter().product();
            select((&odd, &x, &x), &mut y[..n], geometry);
            zip3((&odd, &x, &x), &mut z[..n], geometry, |&odd, a, b| if odd { *a } else { *b });
            assert_eq!(y, z);
        });
    }

    #[test]
    fn operands_may_be_views_with_any_strides() {
        let mut y = [0; 6];
        let geometry = Broadcast { sizes: &[2, 3], a: &[1, 2], b: &[0, 3] };
        zip(&X, &X, &mut y, geometry, |a, b| 100 * a + b);
        each([1, 2, 3], |i, [_, j, k]| assert_eq!(y[i], 100 * X[j + 2 * k] + X[3 * k]));
        let mut y = [7];
        zip_in_place(&mut y, &[2], Broadcast { sizes: &[], a: &[], b: &[] }, |y, b| 10 * y + b);
        assert_eq!(y, [72]);
    }
}
