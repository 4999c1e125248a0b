//! `MatMul`: matrix products of two batches that are broadcast to one shape.

use super::{Gemm, Layout, gemm, gemm_float, gemm_scratch, product_f32, product_f64};
use crate::loops::epilogue::Activation;
use crate::microkernel::FusedActivation;
use crate::{Float, Number};

/// A batch of products. An operand of one dimension is a matrix with one row or one column.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MatMul<'a> {
    /// The sizes of the batch axes.
    pub sizes: &'a [usize],
    /// The strides of the left operand along the batch axes; 0 along broadcast ones.
    pub a: &'a [usize],
    /// The strides of the right operand.
    pub b: &'a [usize],
    /// The strides of the bias `c`.
    pub c: &'a [usize],
    /// The geometry of each product.
    pub matrix: Gemm,
}

/// Returns the length of the scratch buffer, in elements.
pub const fn matmul_scratch(geometry: &MatMul<'_>) -> usize {
    let mut matrix = geometry.matrix;
    let mut axis = 0;
    while axis < geometry.sizes.len() {
        matrix.m *= geometry.sizes[axis];
        axis += 1;
    }
    // The size for one tall product also suffices for a batch of many products.
    gemm_scratch(&matrix)
}

/// `y = f(alpha · a · b + beta · c)` for each product of a batch.
// Inlined, so that a program contains only the activation functions that its models use.
#[inline(always)]
pub fn matmul_f32(
    a: &[f32],
    b: &[f32],
    c: Option<&[f32]>,
    y: &mut [f32],
    scratch: &mut [f32],
    geometry: MatMul<'_>,
    f: Activation,
) {
    let compute = |y: &mut [_], f| products_f32([a, b], c, y, scratch, geometry, f);
    FusedActivation::within(f, y, geometry.rows(), compute);
}

#[inline(never)]
fn products_f32(
    [a, b]: [&[f32]; 2],
    c: Option<&[f32]>,
    y: &mut [f32],
    scratch: &mut [f32],
    geometry: MatMul<'_>,
    f: FusedActivation<f32>,
) {
    geometry.each(|[from_a, from_b, from_c, to], matrix| {
        let (a, b, c) = (from(a, from_a), from(b, from_b), c.map(|c| from(c, from_c)));
        product_f32(a, b, c, &mut y[to..], scratch, matrix, f);
    });
}

/// `y = f(alpha · a · b + beta · c)` for each product of a batch.
// Inlined, so that a program contains only the activation functions that its models use.
#[inline(always)]
pub fn matmul_f64(
    a: &[f64],
    b: &[f64],
    c: Option<&[f64]>,
    y: &mut [f64],
    scratch: &mut [f64],
    geometry: MatMul<'_>,
    f: Activation,
) {
    let compute = |y: &mut [_], f| products_f64([a, b], c, y, scratch, geometry, f);
    FusedActivation::within(f, y, geometry.rows(), compute);
}

#[inline]
fn products_f64(
    [a, b]: [&[f64]; 2],
    c: Option<&[f64]>,
    y: &mut [f64],
    scratch: &mut [f64],
    geometry: MatMul<'_>,
    f: FusedActivation<f64>,
) {
    geometry.each(|[from_a, from_b, from_c, to], matrix| {
        let (a, b, c) = (from(a, from_a), from(b, from_b), c.map(|c| from(c, from_c)));
        product_f64(a, b, c, &mut y[to..], scratch, matrix, f);
    });
}

/// `y = alpha · a · b + beta · c` for each product of a batch, for any numbers; neither operand is
/// packed.
pub fn matmul<T: Number>(a: &[T], b: &[T], c: Option<&[T]>, y: &mut [T], geometry: MatMul<'_>) {
    geometry.each(|[from_a, from_b, from_c, to], matrix| {
        let (a, b, c) = (from(a, from_a), from(b, from_b), c.map(|c| from(c, from_c)));
        gemm(a, b, c, &mut y[to..], matrix);
    });
}

/// `y = f(alpha · a · b + beta · c)` for each product of a batch, accumulated in the wide type;
/// neither operand is packed.
pub fn matmul_float<T: Float>(
    a: &[T],
    b: &[T],
    c: Option<&[T]>,
    y: &mut [T],
    geometry: MatMul<'_>,
    f: Activation,
) {
    geometry.each(|[from_a, from_b, from_c, to], matrix| {
        let (a, b, c) = (from(a, from_a), from(b, from_b), c.map(|c| from(c, from_c)));
        gemm_float(a, b, c, &mut y[to..], matrix, f);
    });
}

/// Returns the elements from `at` on. An operand without elements has none anywhere.
fn from<T>(x: &[T], at: usize) -> &[T] {
    x.get(at..).unwrap_or(&[])
}

impl MatMul<'_> {
    /// Returns the rows of all results, in the form of [`Gemm::rows`].
    fn rows(&self) -> [usize; 3] {
        let [rows, cols, stride] = self.matrix.rows();
        [self.sizes.iter().product::<usize>() * rows, cols, stride]
    }

    /// Calls `f` with the offsets of `a`, `b`, `c` and `y`, and the geometry, of each product.
    fn each(&self, mut f: impl FnMut([usize; 4], Gemm)) {
        let batch: usize = self.sizes.iter().product();
        if batch > 0 && self.is_tall() {
            return f([0; 4], Gemm { m: batch * self.matrix.m, ..self.matrix });
        }
        if self.matrix.m * self.matrix.n == 0 {
            return;
        }
        let len = self.matrix.m * self.matrix.y_row;
        for at in 0..batch {
            let start = |strides| offset(at, self.sizes, strides);
            f([start(self.a), start(self.b), start(self.c), at * len], self.matrix);
        }
    }

    /// Returns whether one product with more rows computes the batch: whether all products have the
    /// same right operand, and the rows of left operands and of biases have one stride.
    fn is_tall(&self) -> bool {
        let Gemm { m, a, c: [c_row, _], .. } = self.matrix;
        let Layout::Strides(a_row, _) = a else { return false };
        self.b.iter().all(|&stride| stride == 0)
            && is_sequence(self.sizes, self.a, m * a_row)
            && is_sequence(self.sizes, self.c, m * c_row)
    }
}

/// Returns whether consecutive matrices of a batch are `distance` elements apart.
fn is_sequence(sizes: &[usize], strides: &[usize], distance: usize) -> bool {
    let mut next = distance;
    sizes.iter().zip(strides).rev().all(|(&size, &stride)| {
        let follows = size == 1 || stride == next;
        next *= size;
        follows
    })
}

/// Returns the offset of matrix `at` of a batch.
fn offset(mut at: usize, sizes: &[usize], strides: &[usize]) -> usize {
    let mut offset = 0;
    for (&size, &stride) in sizes.iter().zip(strides).rev() {
        offset += at % size * stride;
        at /= size;
    }
    offset
}

#[cfg(all(test, feature = "std"))]
mod tests {
    use super::*;
    use crate::kernels::matmul::tests::numbers;
    use crate::simd::each_level;
    use std::{vec, vec::Vec};

    const M: usize = 3;
    const N: usize = 5;
    const K: usize = 4;

    /// The strides of a batch, each of whose axes is present or broadcast.
    fn strides(sizes: &[usize], there: [bool; 2], distance: usize) -> [usize; 2] {
        let inner = if there[1] { distance } else { 0 };
        let outer = if there[1] { distance * sizes[1] } else { distance };
        [if there[0] { outer } else { 0 }, inner]
    }

    fn check(sizes: [usize; 2], there: [[bool; 2]; 3]) {
        let [a, b, c] = there;
        let a_strides = strides(&sizes, a, M * K);
        let b_strides = strides(&sizes, b, K * N);
        let c_strides = strides(&sizes, c, M * N);
        let matrix = Gemm {
            m: M,
            n: N,
            k: K,
            a: Layout::Strides(K, 1),
            b: Layout::Strides(N, 1),
            c: [N, 1],
            y_row: N,
            alpha: 1.0,
            beta: 1.0,
        };
        let geometry =
            MatMul { sizes: &sizes, a: &a_strides, b: &b_strides, c: &c_strides, matrix };
        let batch = sizes[0] * sizes[1];
        let cast = |x: Vec<f64>| -> Vec<f32> { x.iter().map(|&x| x as f32).collect() };
        let a = cast(numbers(batch * M * K, 1));
        let b = cast(numbers(batch * K * N, 2));
        let c = cast(numbers(batch * M * N, 3));
        let mut truth = vec![0.0; batch * M * N];
        for (at, y) in truth.iter_mut().enumerate() {
            let (s, i, j) = (at / (M * N), at / N % M, at % N);
            let [a0, b0, c0] = [a_strides, b_strides, c_strides]
                .map(|strides| s / sizes[1] * strides[0] + s % sizes[1] * strides[1]);
            let terms = (0..K).map(|k| a[a0 + i * K + k] * b[b0 + k * N + j]);
            *y = terms.sum::<f32>() + c[c0 + i * N + j];
        }
        let near = |y: &[f32]| y.iter().zip(&truth).all(|(y, t)| (y - t).abs() <= 1e-5);
        each_level(|level| {
            let mut y = vec![0.0; truth.len()];
            let mut scratch = vec![f32::NAN; matmul_scratch(&geometry)];
            matmul_f32(&a, &b, Some(&c), &mut y, &mut scratch, geometry, Activation::Identity);
            assert!(near(&y), "{level:?}: {geometry:?}: {y:?}, not {truth:?}");
        });
        let mut y = vec![0.0; truth.len()];
        matmul(&a, &b, Some(&c), &mut y, geometry);
        assert!(near(&y), "{geometry:?}: {y:?}, not {truth:?}");
        matmul_float(&a, &b, Some(&c), &mut y, geometry, Activation::Relu);
        assert!(y.iter().zip(&truth).all(|(y, t)| (y - t.max(0.0)).abs() <= 1e-5));
    }

    #[test]
    fn batches_are_broadcast() {
        let axes = [[false, false], [false, true], [true, false], [true, true]];
        for sizes in [[1, 1], [2, 3], [3, 1], [0, 2]] {
            for a in axes {
                for b in axes {
                    for c in axes {
                        check(sizes, [a, b, c]);
                    }
                }
            }
        }
    }

    #[test]
    fn operands_without_elements_give_sums_of_nothing() {
        let matrix = Gemm {
            m: 2,
            n: 3,
            k: 0,
            a: Layout::Strides(0, 1),
            b: Layout::Strides(3, 1),
            c: [0, 1],
            y_row: 3,
            alpha: 1.0,
            beta: 1.0,
        };
        // The heads of rows `[batch, rows, heads, size]` start at other columns.
        let geometry = MatMul { sizes: &[2, 3], a: &[0, 4], b: &[0, 4], c: &[0, 0], matrix };
        each_level(|_| {
            let mut y = [7.0; 36];
            let mut scratch = vec![f32::NAN; matmul_scratch(&geometry)];
            matmul_f32(&[], &[], None, &mut y, &mut scratch, geometry, Activation::Identity);
            assert_eq!(y, [0.0; 36]);
        });
        let mut y = [7.0_f32; 36];
        matmul_float(&[], &[], None, &mut y, geometry, Activation::Identity);
        assert_eq!(y, [0.0; 36]);
        let geometry = MatMul { matrix: Gemm { n: 0, k: 2, ..matrix }, ..geometry };
        matmul(&[1.0; 99], &[], None, &mut [], geometry);
    }

    #[test]
    fn a_batch_with_one_right_operand_is_one_product() {
        let matrix = Gemm {
            m: 2,
            n: 2,
            k: 2,
            a: Layout::Strides(2, 1),
            b: Layout::Strides(2, 1),
            c: [0, 1],
            y_row: 2,
            alpha: 1.0,
            beta: 1.0,
        };
        let geometry = MatMul { sizes: &[3, 5], a: &[20, 4], b: &[0, 0], c: &[0, 0], matrix };
        let mut heights = Vec::new();
        geometry.each(|starts, matrix| heights.push((starts, matrix.m)));
        assert_eq!(heights, [([0; 4], 30)]);
    }
}
