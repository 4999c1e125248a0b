use super::*;
use crate::kernels::conv;
use crate::kernels::conv::{Conv, Tile};
use crate::kernels::matmul::{Packing, gemm_f32, gemm_pairs, pack_b, packed_b_len};
use crate::loops::geometry::BLOCK;
use crate::simd::{bf16_pair, each_level};
use std::{vec, vec::Vec};

/// Pseudorandom numbers between -1 and 1.
fn drawn(len: usize, seed: u32) -> Vec<f32> {
    let next = |i: u32| i.wrapping_mul(0x9e37_79b9).wrapping_add(seed).wrapping_mul(0x85eb_ca6b);
    (0..len as u32).map(|i| next(i) as i32 as f32 / i32::MAX as f32).collect()
}

#[test]
fn halves_are_widened_exactly() {
    let bits: Vec<u16> = (0..=u16::MAX).filter(|x| x & 0x7c00 != 0x7c00).collect();
    each_level(|_| {
        let mut y = vec![f32::NAN; bits.len()];
        widen_f16(&bits, &mut y);
        for (&x, y) in bits.iter().zip(&y) {
            let (exponent, rest) = (i32::from(x >> 10 & 31), f32::from(x & 1023));
            let size = match exponent {
                0 => rest * 2f32.powi(-24),
                _ => (1.0 + rest / 1024.0) * 2f32.powi(exponent - 15),
            };
            let truth = if x >> 15 == 1 { -size } else { size };
            assert_eq!(y.to_bits(), truth.to_bits(), "{x:#x}");
        }
    });
    let mut y = vec![0.0; 2];
    widen_bf16(&[0x3fc0, 0xc000], &mut y);
    assert_eq!(y, [1.5, -2.0]);
}

#[test]
fn each_channel_has_its_factor() {
    for (panels, across) in [
        (Panels { lanes: 16, rows: 7, depth: 3 }, 2),
        (Panels { lanes: 12, rows: 5, depth: 5 }, 3),
        (Panels { lanes: 64, rows: 5, depth: 5 }, 2),
        (Panels::plain(9), 4),
    ] {
        let len = panels.lanes * panels.rows * across;
        let x: Vec<i8> = (0..len).map(|i| i as i8).collect();
        let scales = drawn(panels.factors(len), 3);
        let (mut truth, mut at, mut factor) = (Vec::new(), 0, 0);
        for first in (0..panels.rows).step_by(panels.depth) {
            for _ in 0..across {
                for _ in first..panels.rows.min(first + panels.depth) {
                    for lane in 0..panels.lanes {
                        truth.push(f32::from(x[at]) * scales[factor + lane]);
                        at += 1;
                    }
                }
                factor += panels.lanes;
            }
        }
        assert_eq!(factor, scales.len());
        each_level(|_| {
            let mut y = vec![f32::NAN; len];
            widen_i8(&x, &scales, &mut y, panels);
            assert_eq!(y, truth);
        });
    }
}

/// The upper half of the bits of a number.
fn upper(x: f32) -> u16 {
    (x.to_bits() >> 16) as u16
}

/// Packed numbers in pairs, and the same numbers widened.
fn paired(packed: &[f32]) -> (Vec<u32>, Vec<f32>) {
    let wide: Vec<f32> = packed.iter().map(|&x| of_bf16(upper(x))).collect();
    let rows = packed.chunks(PAIR * BLOCK).map(|rows| rows.split_at(BLOCK));
    let pair =
        |(&first, &second): (&f32, &f32)| u32::from(upper(first)) | u32::from(upper(second)) << 16;
    let pairs = rows.flat_map(|(first, second)| first.iter().zip(second).map(pair));
    (pairs.collect(), wide)
}

#[test]
fn products_are_those_of_the_widened_factor() {
    for ([m, n, k], turned) in [
        ([1, 40, 800], false),
        ([3, 17, 6], false),
        ([30, 600, 770], false),
        ([1, 1, 2], false),
        ([100, 130, 64], false),
        ([1, 90, 770], false),
        ([40, 130, 90], true),
    ] {
        // Numbers that `bfloat16` represents exactly.
        let a: Vec<f32> = drawn(m * k, 1).into_iter().map(|x| of_bf16(upper(x))).collect();
        let c = drawn(n, 2);
        let packing = Packing { rows: k, cols: n, strides: [n, 1] };
        let mut packed = vec![0.0; packed_b_len::<f32>(&packing)];
        pack_b(&drawn(k * n, 5), &mut packed, packing);
        let (pairs, halves) = paired(&packed);
        let bytes: Vec<i8> = packed.iter().map(|x| (x * 127.0) as i8).collect();
        let scales = drawn(Panels::right(k).factors(bytes.len()), 9);
        let geometry = Gemm {
            m,
            n,
            k,
            a: if turned { Layout::Strides(1, m) } else { Layout::Strides(k, 1) },
            b: Layout::Packed,
            c: [0, 1],
            y_row: n,
            alpha: 0.5,
            beta: 1.0,
        };
        let f = Activation::Relu;
        each_level(|level| {
            let mut scratch = vec![f32::NAN; gemm_scratch(&geometry)];
            let mut of = |wide: &[f32]| {
                let mut y = vec![f32::NAN; m * n];
                gemm_f32(&a, wide, Some(&c), &mut y, &mut scratch, geometry, f);
                y
            };
            let mut wide = vec![0.0; packed.len()];
            let halves = of(&halves);
            widen_i8(&bytes, &scales, &mut wide, Panels::right(k));
            let eighths = of(&wide);
            let near = |y: &[f32], truth: &[f32]| {
                for (y, truth) in y.iter().zip(truth) {
                    assert!((y - truth).abs() <= 1e-3, "{level:?}: {y} is not {truth}");
                }
            };
            let mut y = vec![f32::NAN; m * n];
            gemm_bf16(&a, &pairs, Some(&c), &mut y, &mut scratch, geometry, f);
            near(&y, &halves);
            y.fill(f32::NAN);
            FusedActivation::within(f, &mut y, geometry.rows(), |y, f| {
                gemm_pairs(&a, &pairs, Some(&c), y, &mut scratch, geometry, f);
            });
            near(&y, &halves);
            y.fill(f32::NAN);
            gemm_i8(
                Int8GemmOperands { a: &a, b: &bytes, scales: &scales, c: Some(&c) },
                &mut y,
                &mut scratch,
                geometry,
                f,
            );
            near(&y, &eighths);
        });
    }
}

/// A convolution of images of 7 rows and 9 columns.
fn conv<'a>(
    [batch, channels, filters]: [usize; 3],
    [kernel, strides, out]: [&'a [usize; 2]; 3],
    pads: &'a [usize; 2],
) -> Conv<'a> {
    Conv {
        batch,
        groups: 1,
        channels,
        filters,
        size: &[7, 9],
        out,
        kernel,
        strides,
        dilations: &[1, 1],
        pads,
        weights: conv::WeightLayout::Packed,
    }
}

#[test]
fn convolutions_are_those_of_widened_weights() {
    for geometry in [
        conv([1, 32, 40], [&[1, 1], &[1, 1], &[7, 9]], &[0, 0]),
        conv([2, 24, 16], [&[3, 3], &[1, 1], &[7, 9]], &[1, 1]),
        conv([1, 6, 70], [&[3, 3], &[2, 2], &[4, 5]], &[1, 1]),
        conv([2, 64, 9], [&[1, 1], &[2, 2], &[4, 5]], &[0, 0]),
    ] {
        let blocks = |channels: usize| channels.next_multiple_of(BLOCK);
        let from = geometry.batch * blocks(geometry.channels) * 63;
        let to = geometry.batch * blocks(geometry.filters) * geometry.out.iter().product::<usize>();
        let x: Vec<f32> = drawn(from, 1).into_iter().map(|x| of_bf16(upper(x))).collect();
        let w = drawn(geometry.filters * geometry.channels * geometry.kernel[0].pow(2), 2);
        let mut packed = vec![0.0; conv::packed_blocks_len(&geometry)];
        conv::pack_blocks(&w, &mut packed, &geometry, BLOCK);
        let (pairs, wide) = paired(&packed);
        let (bias, add) = (drawn(blocks(geometry.filters), 3), drawn(to, 4));
        let (bias, add, f) = (Some(&bias[..]), Some(&add[..]), Activation::Relu);
        each_level(|level| {
            let mut scratch = vec![f32::NAN; conv::conv_nchwc_scratch(&geometry)];
            let mut truth = vec![f32::NAN; to];
            let y = &mut truth[..];
            conv::conv_nchwc(
                conv::ConvOperands { x: &x, w: &wide, bias, add },
                y,
                &mut scratch,
                geometry,
                f,
            );
            let near = |y: &[f32]| {
                for (y, truth) in y.iter().zip(&truth) {
                    assert!((y - truth).abs() <= 1e-4, "{level:?}: {y} is not {truth}");
                }
            };
            let mut scratch = vec![f32::NAN; conv_scratch(&geometry)];
            let mut y = vec![f32::NAN; to];
            conv_bf16(
                conv::ConvOperands { x: &x, w: &pairs, bias, add },
                &mut y,
                &mut scratch,
                geometry,
                f,
            );
            near(&y);
            y.fill(f32::NAN);
            let w = bf16_pair::words(&pairs);
            FusedActivation::within_all(f, &mut y, |y, f| {
                conv::bf16_nchwc(
                    conv::ConvOperands { x: &x, w, bias, add },
                    y,
                    &mut scratch,
                    &geometry,
                    f,
                );
            });
            near(&y);
        });
    }
}

#[test]
fn columns_of_pairs_are_those_of_widened_weights() {
    for (sizes, [kernel, out], pads) in [
        ([1, 3, 20], [[7, 8], [4, 9]], [3, 4]),
        ([2, 1, 16], [[3, 4], [4, 9]], [1, 2]),
        ([1, 5, 40], [[1, 2], [4, 33]], [0, 0]),
    ] {
        let size = [7, 66];
        let strides = &[2, 2];
        let geometry = Conv { size: &size, ..conv(sizes, [&kernel, strides, &out], &pads) };
        let Conv { batch, channels, filters, .. } = geometry;
        let blocks = |channels: usize| channels.next_multiple_of(BLOCK);
        let x = drawn(batch * channels * size[0] * size[1], 1);
        let x: Vec<f32> = x.into_iter().map(|x| of_bf16(upper(x))).collect();
        let w = drawn(filters * channels * kernel[0] * kernel[1], 2);
        let mut packed = vec![0.0; conv::packed_blocks_len(&geometry)];
        conv::pack_blocks(&w, &mut packed, &geometry, 1);
        let (pairs, wide) = paired(&packed);
        let to = batch * blocks(filters) * out[0] * out[1];
        let (bias, add) = (drawn(blocks(filters), 3), drawn(to, 4));
        let (bias, add, f) = (Some(&bias[..]), Some(&add[..]), Activation::Relu);
        each_level(|level| {
            let mut scratch = vec![f32::NAN; nchw_to_nchwc_scratch(&geometry)];
            let [mut truth, mut y] = [(); 2].map(|()| vec![f32::NAN; to]);
            conv::conv_nchw_to_nchwc(
                conv::ConvOperands { x: &x, w: &wide, bias, add },
                &mut truth,
                &mut scratch,
                geometry,
                f,
            );
            let near = |y: &[f32]| {
                for (y, truth) in y.iter().zip(&truth) {
                    assert!((y - truth).abs() <= 1e-4, "{level:?}: {y} is not {truth}");
                }
            };
            conv_nchw_to_nchwc_bf16(
                conv::ConvOperands { x: &x, w: &pairs, bias, add },
                &mut y,
                &mut scratch,
                geometry,
                f,
            );
            near(&y);
            y.fill(f32::NAN);
            let w = bf16_pair::words(&pairs);
            FusedActivation::within_all(f, &mut y, |y, f| {
                conv::im2col_nchwc(
                    conv::ConvOperands { x: &x, w, bias, add },
                    y,
                    &mut scratch,
                    &geometry,
                    f,
                );
            });
            near(&y);
        });
    }
}

/// The inputs are small integers, whose sums are `bfloat16` numbers.
#[test]
fn tiles_of_pairs_are_those_of_widened_weights() {
    for (sizes, out, pads) in [
        ([1, 16, 16], [7, 9], [1, 1]),
        ([2, 24, 70], [7, 9], [1, 1]),
        ([1, 6, 40], [5, 8], [0, 1]),
        ([9, 40, 20], [6, 7], [1, 0]),
    ] {
        let geometry = conv(sizes, [&[3, 3], &[1, 1], &out], &pads);
        let Conv { batch, channels, filters, .. } = geometry;
        let blocks = |channels: usize| channels.next_multiple_of(BLOCK);
        let whole = |x: f32| (x * 9.0).round();
        let x: Vec<f32> = drawn(batch * blocks(channels) * 63, 1).into_iter().map(whole).collect();
        let w = drawn(filters * channels * 9, 2);
        let mut packed = vec![0.0; conv::packed_winograd_len(&geometry, Tile::Two)];
        let part = packed.len() / Tile::Two.parts();
        for (i, packed) in packed.chunks_exact_mut(part).enumerate() {
            conv::pack_winograd(&w, packed, &geometry, (Tile::Two, i));
        }
        let (pairs, wide) = paired(&packed);
        let to = batch * blocks(filters) * out[0] * out[1];
        let (bias, add) = (drawn(blocks(filters), 3), drawn(to, 4));
        let (bias, add, f) = (Some(&bias[..]), Some(&add[..]), Activation::Relu);
        each_level(|level| {
            let mut scratch = vec![f32::NAN; winograd_scratch(&geometry)];
            let [mut truth, mut y] = [(); 2].map(|()| vec![f32::NAN; to]);
            FusedActivation::within_all(f, &mut truth, |y, f| {
                conv::winograd_two(
                    conv::ConvOperands { x: &x, w: &wide, bias, add },
                    y,
                    &mut scratch,
                    &geometry,
                    f,
                );
            });
            let near = |y: &[f32]| {
                for (y, truth) in y.iter().zip(&truth) {
                    assert!((y - truth).abs() <= 1e-3, "{level:?}: {y} is not {truth}");
                }
            };
            winograd_bf16(
                conv::ConvOperands { x: &x, w: &pairs, bias, add },
                &mut y,
                &mut scratch,
                geometry,
                f,
            );
            near(&y);
            y.fill(f32::NAN);
            let w = bf16_pair::words(&pairs);
            FusedActivation::within_all(f, &mut y, |y, f| {
                conv::winograd_two_bf16(
                    conv::ConvOperands { x: &x, w, bias, add },
                    y,
                    &mut scratch,
                    &geometry,
                    f,
                );
            });
            near(&y);
        });
    }
}
