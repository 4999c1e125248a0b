//! Comparisons of products with sums in `f64` over weights in ONNX Runtime's layout.

use super::*;
use crate::kernels::matmul::tests::numbers;
use crate::simd::each_level;
use std::{format, vec, vec::Vec};

/// The zero points of a case.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Default,
    Codes,
    Numbers,
}

/// Random weights in ONNX Runtime's layout.
struct Given {
    codes: Vec<u8>,
    scales: Vec<f32>,
    zero_codes: Option<Vec<u8>>,
    zero_points: Option<Vec<f32>>,
}

fn bytes(n: usize, seed: u64) -> Vec<u8> {
    numbers(n, seed).into_iter().map(|x| (x * 127.0 + 128.0) as u8).collect()
}

fn singles(n: usize, seed: u64) -> Vec<f32> {
    numbers(n, seed).into_iter().map(|x| x as f32).collect()
}

fn given([n, blocks]: [usize; 2], block: usize, bits: usize, kind: Kind) -> Given {
    let zeros = n * (blocks * bits).div_ceil(8);
    Given {
        codes: bytes(n * blocks * block * bits / 8, 1),
        scales: singles(n * blocks, 2),
        zero_codes: (kind == Kind::Codes).then(|| bytes(zeros, 3)),
        zero_points: (kind == Kind::Numbers).then(|| singles(n * blocks, 4)),
    }
}

/// Returns the weights, column by column.
fn dequantize(given: &Given, [n, k]: [usize; 2], block: usize, bits: usize) -> Vec<f32> {
    let operands = BlockOperands {
        codes: &given.codes,
        scales: &given.scales,
        zero_codes: given.zero_codes.as_deref(),
        zero_points: given.zero_points.as_deref(),
        groups: None,
    };
    let mut y = vec![f32::NAN; n * k];
    let result = dequantize_blocks(operands, &mut y, BlockCodes { k, block, bits });
    assert_eq!(result, Ok(()));
    y
}

fn pack<T: Copy + Default>(x: &[T], n: usize, blocks: usize) -> Vec<T> {
    let mut y = vec![T::default(); n.next_multiple_of(COLS) * blocks];
    pack_per_block(x, &mut y, blocks);
    y
}

/// Returns the zero points, one byte each.
fn unpack_zeros(zeros: &[u8], [n, blocks]: [usize; 2], bits: usize) -> Vec<u8> {
    let row = (blocks * bits).div_ceil(8);
    let code = |n: usize, b: usize| {
        let (at, mask) = (b * bits, ((1u32 << bits) - 1) as u8);
        zeros[n * row + at / 8] >> (at % 8) & mask
    };
    (0..n).flat_map(|n| (0..blocks).map(move |b| code(n, b))).collect()
}

type Kernel = fn(BlockwiseOperands<'_>, &mut [f32], &mut [f32], Blockwise, Activation);

/// A product with random operands.
struct Case {
    geometry: Blockwise,
    bits: usize,
    kind: Kind,
    kernel: Kernel,
}

impl Case {
    /// Compares with the product of the weights and the rows that `quantize` returns.
    fn compare(&self, quantize: &dyn Fn(&[f32]) -> Vec<f32>, scratch: usize) {
        let Case { geometry, bits, kind, kernel } = *self;
        let Blockwise { m, n, k, block } = geometry;
        let blocks = geometry.blocks();
        let given = given([n, blocks], block, bits, kind);
        let b = dequantize(&given, [n, k], block, bits);
        let (a, bias) = (singles(m * k, 5), singles(n, 6));
        let mut codes = vec![0; packed_codes_len(n, k, bits)];
        pack_codes(&given.codes, &mut codes, blocks * block * bits / 8, (k * bits).div_ceil(32));
        let scales = pack(&given.scales, n, blocks);
        let zero_codes =
            given.zero_codes.map(|x| pack(&unpack_zeros(&x, [n, blocks], bits), n, blocks));
        let zero_points = given.zero_points.map(|x| pack(&x, n, blocks));
        let operands = BlockwiseOperands {
            a: &a,
            codes: &codes,
            scales: &scales,
            zero_codes: zero_codes.as_deref(),
            zero_points: zero_points.as_deref(),
            bias: Some(&bias),
        };
        let mut y = vec![f32::NAN; m * n];
        let mut scratch = vec![f32::NAN; scratch];
        kernel(operands, &mut y, &mut scratch, geometry, Activation::Relu);
        let a = quantize(&a);
        for (i, y) in y.chunks_exact(n).enumerate() {
            for (j, &y) in y.iter().enumerate() {
                let products = (0..k).map(|r| f64::from(a[i * k + r]) * f64::from(b[j * k + r]));
                let sum: f64 = products.clone().sum::<f64>() + f64::from(bias[j]);
                let size: f64 = products.map(f64::abs).sum();
                let error = (f64::from(y) - sum.max(0.0)).abs();
                let name = format!("{geometry:?}, {bits} bits, {kind:?}, row {i}, column {j}");
                assert!(error <= 4e-6 * (size + 1.0), "{name}: {y} and {sum}");
            }
        }
    }
}

#[test]
fn a_product_is_that_of_the_dequantized_weights() {
    each_level(|_| {
        let kernels: [(usize, Kernel); 3] =
            [(2, matmul_2_bits), (4, matmul_4_bits), (8, matmul_8_bits)];
        for (bits, kernel) in kernels {
            for kind in [Kind::Default, Kind::Codes, Kind::Numbers] {
                for (m, n, k, block) in
                    [(1, 35, 100, 16), (2, 16, 64, 32), (5, 40, 75, 32), (30, 17, 1044, 128)]
                {
                    let geometry = Blockwise { m, n, k, block };
                    let case = Case { geometry, bits, kind, kernel };
                    case.compare(&<[f32]>::to_vec, blockwise_scratch(&geometry));
                }
            }
        }
    });
}

/// Returns `a` with the elements of each block of a row rounded to 255 steps.
fn quantize_rows(a: &[f32], k: usize, block: usize) -> Vec<f32> {
    let blocks = a.chunks(k).flat_map(|row| row.chunks(block));
    blocks
        .flat_map(|x| {
            let largest = x.iter().fold(0.0, |most: f32, x| most.max(x.abs()));
            let inverse = if largest == 0.0 { 0.0 } else { 127.0 / largest };
            x.iter().map(move |x| (x * inverse).round_ties_even() * (largest / 127.0))
        })
        .collect()
}

#[test]
fn an_integer_product_is_that_of_quantized_rows() {
    each_level(|_| {
        let kernels: [(usize, Kernel); 3] =
            [(2, matmul_2_bits_int8), (4, matmul_4_bits_int8), (8, matmul_8_bits_int8)];
        for (bits, kernel) in kernels {
            for kind in [Kind::Default, Kind::Codes, Kind::Numbers] {
                for (m, n, k, block) in
                    [(1, 35, 100, 16), (2, 16, 64, 32), (5, 40, 75, 32), (15, 17, 1044, 128)]
                {
                    let geometry = Blockwise { m, n, k, block };
                    let case = Case { geometry, bits, kind, kernel };
                    case.compare(
                        &|a| quantize_rows(a, k, block),
                        blockwise_int8_scratch(&geometry),
                    );
                }
            }
        }
    });
}

/// The product of a row that starts with `x`, and weights that are all 1.
fn multiply_by_ones(x: f32) -> f32 {
    let geometry = Blockwise { m: 1, n: 1, k: 20, block: 16 };
    let mut a = [1.0; 20];
    a[0] = x;
    let mut codes = [0; packed_codes_len(1, 20, 8)];
    pack_codes(&[129; 32], &mut codes, 32, 5);
    let operands = BlockwiseOperands {
        a: &a,
        codes: &codes,
        scales: &[1.0; 2 * COLS],
        zero_codes: None,
        zero_points: None,
        bias: None,
    };
    let (mut y, mut scratch) = ([0.0], vec![f32::NAN; blockwise_int8_scratch(&geometry)]);
    matmul_8_bits_int8(operands, &mut y, &mut scratch, geometry, Activation::Identity);
    y[0]
}

#[test]
fn numbers_that_are_not_finite_are_not_lost() {
    each_level(|_| {
        assert!((multiply_by_ones(1.0) - 20.0).abs() < 1e-5);
        assert!(multiply_by_ones(f32::NAN).is_nan());
        assert!(!multiply_by_ones(f32::INFINITY).is_finite());
        // The other elements of the block are less than half a step.
        assert!((multiply_by_ones(1e3) - 1004.0).abs() < 1e-2);
    });
}

/// A function that decodes blocks: codes, scales, numbers and the size of a block.
type Dequantize = fn(&[u8], &[f32], &mut [f32], usize);

#[test]
fn a_table_gives_the_numbers_of_codes() {
    each_level(|_| {
        let kernels: [(Kernel, Dequantize); 2] =
            [(matmul_fp4, dequantize_fp4), (matmul_nf4, dequantize_nf4)];
        for (kernel, dequantize) in kernels {
            let geometry = Blockwise { m: 1, n: 18, k: 64, block: 16 };
            let (packed, scales) = (bytes(18 * 32, 1), singles(18 * 4, 2));
            let mut b = vec![f32::NAN; 18 * 64];
            dequantize(&packed, &scales, &mut b, 16);
            let swapped: Vec<u8> = packed.iter().map(|x| x.rotate_left(4)).collect();
            let mut codes = vec![0; packed_codes_len(18, 64, 4)];
            pack_codes(&swapped, &mut codes, 32, 8);
            let scales = pack(&scales, 18, 4);
            for row in 0..64 {
                let mut a = [0.0; 64];
                a[row] = 1.0;
                let operands = BlockwiseOperands {
                    a: &a,
                    codes: &codes,
                    scales: &scales,
                    zero_codes: None,
                    zero_points: None,
                    bias: None,
                };
                let (mut y, mut scratch) = ([f32::NAN; 18], [f32::NAN; 4]);
                kernel(operands, &mut y, &mut scratch, geometry, Activation::Identity);
                let column: Vec<f32> = b[row..].iter().step_by(64).copied().collect();
                assert_eq!(y.to_vec(), column);
            }
        }
    });
}

#[test]
fn rows_can_be_grouped_in_any_order() {
    let groups = [1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 0, -1];
    let operands = BlockOperands {
        codes: &[9; 32],
        scales: &[1.0, 2.0],
        zero_codes: None,
        zero_points: None,
        groups: Some(&groups),
    };
    let (mut y, geometry) = ([f32::NAN; 18], BlockCodes { k: 18, block: 16, bits: 8 });
    assert_eq!(dequantize_blocks(operands, &mut y, geometry), Ok(()));
    assert_eq!([y[0], y[1], y[16], y[17]], [-238.0, -119.0, -119.0, -238.0]);
    let operands = BlockOperands { groups: Some(&[2; 18]), ..operands };
    let error = crate::Error::Index { index: 2, size: 2 };
    assert_eq!(dequantize_blocks(operands, &mut y, geometry), Err(error));
}
