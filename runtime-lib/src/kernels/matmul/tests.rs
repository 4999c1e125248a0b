//! Comparisons of products with sums in `f64`.

use super::gemm::{factor, gemm_real};
use super::*;
use crate::Number;
use crate::loops::epilogue::Activation;
use crate::microkernel::{FusedActivation, GemmElem, Operand};
use crate::simd::each_level;
use std::panic::catch_unwind;
use std::{vec, vec::Vec};

/// Pseudorandom numbers from -1 to 1, the same in each run.
pub(crate) fn numbers(n: usize, seed: u64) -> Vec<f64> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 40) as f64 / (1u64 << 23) as f64 - 1.0
    };
    (0..n).map(|_| next()).collect()
}

fn cast<T: Number>(x: &[f64]) -> Vec<T> {
    x.iter().map(|&x| T::from_f64(x)).collect()
}

/// The memory layout of the operands of a case.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Order {
    Plain,
    Transposed,
    Packed,
}
use Order::*;

/// The strides of a matrix of `rows` times `cols` elements.
fn strides(order: Order, rows: usize, cols: usize) -> Layout {
    match order {
        Plain => Layout::Strides(cols, 1),
        Transposed => Layout::Strides(1, rows),
        Packed => Layout::Packed,
    }
}

#[derive(Clone, Copy, Debug)]
struct Case {
    m: usize,
    n: usize,
    k: usize,
    a: Order,
    b: Order,
    /// The strides of the bias.
    c: Option<[usize; 2]>,
    f: Activation,
}

impl Case {
    fn geometry(&self) -> Gemm {
        Gemm {
            m: self.m,
            n: self.n,
            k: self.k,
            a: strides(self.a, self.m, self.k),
            b: strides(self.b, self.k, self.n),
            c: self.c.unwrap_or_default(),
            y_row: self.n + 3,
            alpha: 0.5,
            beta: -2.0,
        }
    }
}

/// The index of element (i, j) of an operand before packing.
fn at(order: Order, (i, j): (usize, usize), (rows, cols): (usize, usize)) -> usize {
    match order {
        Transposed => i + j * rows,
        Plain | Packed => i * cols + j,
    }
}

type Pack<T> = (fn(&Packing) -> usize, fn(&[T], &mut [T], Packing));

/// Stores an operand, packed if the case says so.
fn stored<T: GemmElem>(
    x: &[T],
    order: Order,
    [rows, cols]: [usize; 2],
    (len, pack): Pack<T>,
) -> Vec<T> {
    if order != Packed {
        return x.to_vec();
    }
    let packing = Packing { rows, cols, strides: [cols, 1] };
    let mut packed = vec![T::ONE; len(&packing)];
    pack(x, &mut packed, packing);
    packed
}

fn check<T: GemmElem>(case: Case, tolerance: f64) {
    let Case { m, n, k, c: addend, f, .. } = case;
    let geometry = case.geometry();
    let (a, b): (Vec<T>, Vec<T>) = (cast(&numbers(m * k, 1)), cast(&numbers(k * n, 2)));
    let c: Vec<T> = cast(&numbers(m * n.max(1), 3));
    let end = T::from_f64(9.0);
    let mut y = vec![end; m * geometry.y_row];
    let mut scratch = vec![T::from_f64(f64::NAN); gemm_scratch(&geometry)];
    let stored_a = stored(&a, case.a, [m, k], (packed_a_len, pack_a));
    let stored_b = stored(&b, case.b, [k, n], (packed_b_len::<T>, pack_b));
    let used = addend.map(|_| &c[..]);
    let right = factor(&stored_b, geometry.b, Operand::Blocks);
    FusedActivation::within(f, &mut y, geometry.rows(), |y, f| {
        gemm_real(&stored_a, right, used, y, &mut scratch, geometry, f);
    });
    for (i, row) in y.chunks(geometry.y_row).enumerate() {
        for (j, y) in row[..n].iter().enumerate() {
            let terms = (0..k).map(|l| {
                let x = a[at(case.a, (i, l), (m, k))].to_f64();
                x * b[at(case.b, (l, j), (k, n))].to_f64()
            });
            let extra = addend.map_or(0.0, |[row, col]| c[i * row + j * col].to_f64());
            let truth = f.of(0.5 * terms.sum::<f64>() - 2.0 * extra);
            let bound = tolerance * (1.0 + k as f64).sqrt();
            let near = (y.to_f64() - truth).abs() <= bound;
            assert!(near, "{case:?} at ({i}, {j}): {}, not {truth}", y.to_f64());
        }
        assert!(row[n..].iter().all(|&y| y == end), "{case:?}: wrote past row {i}");
    }
}

fn check_both(case: Case) {
    each_level(|_| {
        check::<f32>(case, 1e-6);
        check::<f64>(case, 1e-14);
    });
}

const RELU: Activation = Activation::Relu;

#[test]
fn products_that_fill_a_vector_and_those_that_do_not() {
    for (m, k) in [(1, 16), (7, 5), (8, 16), (9, 17), (20, 12)] {
        for n in [1, 3, 4, 7, 8, 9, 15, 16, 17] {
            for (a, b) in [(Plain, Plain), (Plain, Transposed), (Transposed, Plain)] {
                check_both(Case { m, n, k, a, b, c: Some([n, 1]), f: RELU });
            }
        }
    }
}

#[test]
fn rows_that_fill_a_few_vectors_and_columns_of_a_few() {
    for k in [1, 16, 37, 64, 256, 257, 300] {
        for n in [16, 31, 32, 64, 65, 128] {
            for b in [Plain, Transposed] {
                check_both(Case { m: 1, n, k, a: Plain, b, c: Some([n, 1]), f: RELU });
            }
        }
    }
}

#[test]
fn products_with_few_columns() {
    let biases = [None, Some([0, 1]), Some([1, 0]), Some([0, 0])];
    for k in [15, 16, 17, 31, 37, 64, 100, 390, 1030] {
        for (n, m) in (1..=13).zip([2, 9, 4, 5, 7, 8, 6, 3].into_iter().cycle()) {
            for b in [Plain, Transposed, Packed] {
                let c = if n % 5 == 0 { Some([n, 1]) } else { biases[(n + k) % 4] };
                let f = if n % 2 == 0 { RELU } else { Activation::Tanh };
                check_both(Case { m, n, k, a: Plain, b, c, f });
            }
        }
    }
}

#[test]
fn an_infinite_element_counts_once() {
    // Vectors of the last columns overlap those before.
    let (m, n, k) = (5, 3, 39);
    let (a, b) = (Layout::Strides(k, 1), Layout::Strides(n, 1));
    let geometry = Gemm { m, n, k, a, b, c: [0, 0], y_row: n, alpha: 1.0, beta: 1.0 };
    each_level(|level| {
        for at in 0..k {
            let (mut a, b) = (vec![1.0; m * k], vec![1.0; k * n]);
            a[2 * k + at] = f32::INFINITY;
            let (mut y, mut scratch) = (vec![0.0; m * n], vec![f32::NAN; gemm_scratch(&geometry)]);
            gemm_f32(&a, &b, None, &mut y, &mut scratch, geometry, Activation::Identity);
            for (i, &y) in y.iter().enumerate() {
                let truth = if i / n == 2 { f32::INFINITY } else { k as f32 };
                assert_eq!(y, truth, "{level:?} {at}: {i}");
            }
        }
    });
}

#[test]
fn small_products_of_every_size_and_order() {
    for m in 0..6 {
        for n in 0..6 {
            for k in 0..4 {
                for a in [Plain, Transposed, Packed] {
                    for b in [Plain, Transposed, Packed] {
                        check_both(Case { m, n, k, a, b, c: None, f: RELU });
                    }
                }
            }
        }
    }
}

#[test]
fn tiles_may_be_incomplete() {
    for m in (1..=27).chain([200]) {
        for n in [1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 24, 31, 32, 33, 40, 49] {
            check_both(Case { m, n, k: 5, a: Plain, b: Plain, c: Some([n, 1]), f: RELU });
        }
    }
}

#[test]
fn biases_are_broadcast() {
    let orders = [(Plain, Plain), (Plain, Transposed), (Packed, Packed)];
    for (m, n) in [(30, 50), (1, 50), (30, 1), (1, 1), (5, 17)] {
        for c in [[n, 1], [0, 1], [1, 0], [0, 0]] {
            for (a, b) in orders {
                for f in [Activation::Identity, Activation::Sigmoid] {
                    check_both(Case { m, n, k: 9, a, b, c: Some(c), f });
                }
            }
        }
    }
}

#[test]
fn long_products_are_cut_in_blocks() {
    for (m, n, k) in [(13, 20, 1000), (250, 40, 400), (14, 1100, 390), (1, 1100, 401), (201, 1, 9)]
    {
        for (a, b) in [(Plain, Plain), (Transposed, Transposed), (Packed, Packed)] {
            for f in [Activation::Tanh, Activation::Clip { min: -1.0, max: 1.0 }] {
                check_both(Case { m, n, k, a, b, c: Some([0, 1]), f });
            }
        }
    }
}

#[test]
fn a_product_without_rows_needs_no_scratch_memory() {
    let (a, b) = (Layout::Strides(20, 1), Layout::Packed);
    let geometry = Gemm { m: 0, n: 5, k: 20, a, b, c: [0, 1], y_row: 5, alpha: 1.0, beta: 1.0 };
    assert_eq!(gemm_scratch(&geometry), 0);
    gemm_f32(&[], &[0.0; 320], None, &mut [], &mut [], geometry, Activation::Identity);
}

#[test]
fn a_sum_of_fractions_is_truncated_once() {
    let geometry = Gemm {
        m: 1,
        n: 2,
        k: 1,
        a: Layout::Strides(1, 1),
        b: Layout::Strides(2, 1),
        c: [0, 1],
        y_row: 2,
        alpha: 0.5,
        beta: 0.5,
    };
    let mut y = [0; 2];
    gemm(&[1i32], &[7, -7], Some(&[1, -1]), &mut y, geometry);
    assert_eq!(y, [4, -4]);
    gemm(&[1i32], &[7, -7], None, &mut y, geometry);
    assert_eq!(y, [3, -3]);
    gemm(&[1i32], &[7, -7], Some(&[1, -1]), &mut y, Gemm { alpha: 1.0, ..geometry });
    assert_eq!(y, [7, -7]);
    // The factor of an addend that there is not does not make the sum a real number.
    let mut y = [0; 2];
    let large = (1i64 << 53) + 1;
    gemm(&[1i64], &[large, 7], None, &mut y, Gemm { alpha: 1.0, ..geometry });
    assert_eq!(y, [large, 7]);
}

#[test]
fn integers_wrap_around() {
    let geometry = Gemm {
        m: 2,
        n: 18,
        k: 3,
        a: Layout::Strides(3, 1),
        b: Layout::Strides(1, 3),
        c: [0, 1],
        y_row: 18,
        alpha: 1.0,
        beta: 2.0,
    };
    let a = [i32::MAX, 2, 3, -4, 5, -6];
    let b: Vec<i32> = (0..54).collect();
    let c: Vec<i32> = (100..118).collect();
    let mut y = [0; 36];
    gemm(&a, &b, Some(&c), &mut y, geometry);
    for (at, &y) in y.iter().enumerate() {
        let (i, j) = (at / 18, at % 18);
        let terms = (0..3).map(|k| i64::from(a[i * 3 + k]) * i64::from(b[j * 3 + k]));
        assert_eq!(y, (terms.sum::<i64>() + 2 * i64::from(c[j])) as i32, "at ({i}, {j})");
    }
}

#[cfg(feature = "half")]
#[test]
fn halves_are_summed_in_single_precision() {
    use crate::f16;
    // In `f16`, the sum would stop growing at 2048.
    let ones = vec![f16::ONE; 3000];
    let geometry = Gemm {
        m: 1,
        n: 1,
        k: 3000,
        a: Layout::Strides(3000, 1),
        b: Layout::Strides(1, 1),
        c: [0, 0],
        y_row: 1,
        alpha: 1.0,
        beta: 1.0,
    };
    let mut y = [f16::ZERO];
    gemm_float(&ones, &ones, None, &mut y, geometry, Activation::Identity);
    assert_eq!(y[0].to_f32(), 3000.0);
}

#[test]
fn operands_that_exceed_their_slices_panic() {
    // Eight times this stride wraps around to 0.
    const FAR: usize = 1 << (usize::BITS - 3);
    for ([m, n, k], a, b) in [([9, 4, 1], FAR, 4), ([2, 32, 9], 9, FAR)] {
        let [a, b] = [a, b].map(|row| Layout::Strides(row, 1));
        let g = Gemm { m, n, k, a, b, c: [0, 0], y_row: n, alpha: 1.0, beta: 0.0 };
        let multiply = || {
            let (x, mut y, mut scratch) = ([1.0; 64], [0.0; 64], [0.0; 4096]);
            gemm_f32(&x, &x, None, &mut y, &mut scratch, g, Activation::Identity);
        };
        assert!(catch_unwind(multiply).is_err(), "{g:?}");
    }
}
