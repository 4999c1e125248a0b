//! Products of 8-bit matrices: `MatMulInteger` and `QLinearMatMul`.

use crate::kernels::matmul::i16_dot::{Rows, each_sum, requantized, widened, zero_point};
use crate::loops::walk::walk;
use crate::{Float, Integer};

/// A batch of products of matrices with zero points and scales.
#[derive(Clone, Copy, Debug)]
pub struct IntegerMatMul<'a> {
    /// The sizes of the batch axes.
    pub sizes: &'a [usize],
    /// The strides of the left operand along the batch axes; 0 along broadcast ones.
    pub a: &'a [usize],
    /// The strides of the left operand's zero points and scales.
    pub a_scale: &'a [usize],
    /// The strides of the right operand.
    pub b: &'a [usize],
    /// The strides of the right operand's zero points and scales.
    pub b_scale: &'a [usize],
    /// The number of rows of the result.
    pub m: usize,
    /// The number of columns of the result.
    pub n: usize,
    /// The number of products that each element sums.
    pub k: usize,
    /// The stride of the zero points and scales of rows: 1, or 0 if all rows share one.
    pub a_step: usize,
    /// The stride of the zero points and scales of columns.
    pub b_step: usize,
}

/// The numbers of rows and columns that are widened together.
const BLOCK: [usize; 2] = [64, 16];

/// Returns the length of the scratch buffer, in elements.
pub const fn matmul_integer_scratch(m: usize, n: usize, k: usize) -> usize {
    let rows = if m < BLOCK[0] { m } else { BLOCK[0] };
    let columns = if n < BLOCK[1] { n } else { BLOCK[1] };
    (rows + columns) * k
}

/// `y = (a - a_zero) · (b - b_zero)`; accumulators wrap around.
pub fn matmul_integer<A: Integer, B: Integer>(
    a: &[A],
    b: &[B],
    a_zero: Option<&[A]>,
    b_zero: Option<&[B]>,
    y: &mut [i32],
    scratch: &mut [i16],
    geometry: IntegerMatMul<'_>,
) {
    products((a, a_zero), (b, b_zero), scratch, geometry, |at, _, sum| y[at] = sum);
}

/// The operands of `QLinearMatMul`.
#[derive(Clone, Copy, Debug)]
pub struct QLinearMatMulOperands<'a, A, B, Y, S> {
    /// The left operand.
    pub a: &'a [A],
    /// The scales of `a`.
    pub a_scale: &'a [S],
    /// The zero points of `a`.
    pub a_zero: &'a [A],
    /// The right operand.
    pub b: &'a [B],
    /// The scales of `b`.
    pub b_scale: &'a [S],
    /// The zero points of `b`.
    pub b_zero: &'a [B],
    /// The scale of the output.
    pub y_scale: &'a [S],
    /// The zero point of the output.
    pub y_zero: &'a [Y],
}

/// `y = (a - a_zero) · (b - b_zero) · a_scale · b_scale / y_scale + y_zero`, rounded to nearest,
/// ties to even, before `y_zero` is added.
pub fn qlinear_matmul<A: Integer, B: Integer, Y: Integer, S: Float<Wide = f32>>(
    operands: QLinearMatMulOperands<'_, A, B, Y, S>,
    y: &mut [Y],
    scratch: &mut [i16],
    geometry: IntegerMatMul<'_>,
) {
    let QLinearMatMulOperands { a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero } =
        operands;
    let (factors_a, factors_b) = ((a, Some(a_zero)), (b, Some(b_zero)));
    products(factors_a, factors_b, scratch, geometry, |at, [row, column], sum| {
        let factor = a_scale[row].mul(b_scale[column]).div(y_scale[0]);
        y[at] = requantized(sum, factor.widen(), y_zero[0]);
    });
}

/// Calls `end` for each accumulator with its index in the result and the indices of the scales of
/// its row and of its column.
fn products<A: Integer, B: Integer>(
    (a, a_zero): (&[A], Option<&[A]>),
    (b, b_zero): (&[B], Option<&[B]>),
    scratch: &mut [i16],
    geometry: IntegerMatMul<'_>,
    mut end: impl FnMut(usize, [usize; 2], i32),
) {
    let IntegerMatMul { sizes, m, n, k, a_step, b_step, .. } = geometry;
    let strides = [geometry.a, geometry.b, geometry.a_scale, geometry.b_scale];
    let (rows, columns) = scratch.split_at_mut(m.min(BLOCK[0]) * k);
    let mut to = 0;
    walk(sizes, strides, [0; 4], &mut |[a_at, b_at, a_scale, b_scale]| {
        for i in (0..m).step_by(BLOCK[0]) {
            let count = (m - i).min(BLOCK[0]);
            for (i, row) in (i..i + count).zip(rows.chunks_exact_mut(k.max(1))) {
                let zero = zero_point(a_zero, a_scale + i * a_step);
                let from = &a[a_at + i * k..][..k];
                row.iter_mut().zip(from).for_each(|(to, &a)| *to = widened(a, zero));
            }
            let rows = Rows { data: rows, count, k };
            for j in (0..n).step_by(BLOCK[1]) {
                let count = (n - j).min(BLOCK[1]);
                for (j, column) in (j..j + count).zip(columns.chunks_exact_mut(k.max(1))) {
                    let zero = zero_point(b_zero, b_scale + j * b_step);
                    let from = b[b_at + j..].iter().step_by(n);
                    column.iter_mut().zip(from).for_each(|(to, &b)| *to = widened(b, zero));
                }
                each_sum(rows, Rows { data: columns, count, k }, |row, column, sum| {
                    let (i, j) = (i + row, j + column);
                    end(to + i * n + j, [a_scale + i * a_step, b_scale + j * b_step], sum);
                });
            }
        }
        to += m * n;
    });
}

#[cfg(all(test, feature = "std"))]
mod tests {
    use super::*;
    use std::{vec, vec::Vec};

    fn bytes(n: usize, factor: usize) -> Vec<u8> {
        (0..n).map(|i| (i * factor % 256) as u8).collect()
    }

    fn check(m: usize, n: usize, k: usize, steps: [usize; 2]) {
        let geometry = IntegerMatMul {
            sizes: &[2],
            a: &[m * k],
            a_scale: &[0],
            b: &[0],
            b_scale: &[0],
            m,
            n,
            k,
            a_step: steps[0],
            b_step: steps[1],
        };
        let (a, a_zero) = (bytes(2 * m * k, 57), bytes(m, 101));
        let b: Vec<i8> = bytes(k * n, 91).into_iter().map(|x| x as i8).collect();
        let b_zero: Vec<i8> = bytes(n, 77).into_iter().map(|x| x as i8).collect();
        let sum = |stack: usize, i: usize, j: usize| -> i32 {
            let (zero_a, zero_b) = (a_zero[i * steps[0]], b_zero[j * steps[1]]);
            let a = |l: usize| i32::from(a[stack * m * k + i * k + l]) - i32::from(zero_a);
            let b = |l: usize| i32::from(b[l * n + j]) - i32::from(zero_b);
            (0..k).map(|l| a(l) * b(l)).sum()
        };
        let mut scratch = vec![0; matmul_integer_scratch(m, n, k)];
        let (mut y, mut z) = (vec![0; 2 * m * n], vec![0u8; 2 * m * n]);
        matmul_integer(&a, &b, Some(&a_zero), Some(&b_zero), &mut y, &mut scratch, geometry);
        let scales: Vec<f32> = (0..m.max(n)).map(|i| 0.01 + i as f32 / 512.0).collect();
        let z_scale = 50.0;
        qlinear_matmul(
            QLinearMatMulOperands {
                a: &a,
                a_scale: &scales,
                a_zero: &a_zero,
                b: &b,
                b_scale: &scales,
                b_zero: &b_zero,
                y_scale: &[z_scale],
                y_zero: &[7u8],
            },
            &mut z,
            &mut scratch,
            geometry,
        );
        for at in 0..2 * m * n {
            let (i, j) = (at / n % m, at % n);
            let sum = sum(at / (m * n), i, j);
            assert_eq!(y[at], sum, "{m} {n} {k}: {at}");
            let factor = scales[i * steps[0]] * scales[j * steps[1]] / z_scale;
            assert_eq!(z[at], requantized(sum, factor, 7), "{m} {n} {k}: {at}");
        }
    }

    #[test]
    fn rows_and_columns_have_zero_points_of_their_own() {
        for (m, n, k) in [(1, 1, 1), (3, 5, 4), (65, 17, 3), (2, 3, 0), (2, 33, 40), (130, 2, 9)] {
            for steps in [[0, 0], [1, 0], [0, 1], [1, 1]] {
                check(m, n, k, steps);
            }
        }
    }
}
