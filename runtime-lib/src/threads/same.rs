//! Tests that kernels give the same bits for any number of threads.

use super::pool::AT_WORK;
use crate::kernels::attention::tests::{rows_first, sizes};
use crate::kernels::attention::{
    Attention, AttentionOperands, CachedAttentionOperands, attention_cached_f32, attention_f32,
    attention_scratch,
};
use crate::kernels::blocked;
use crate::kernels::blocked::Channels;
use crate::kernels::conv;
use crate::kernels::conv::{Conv, WeightLayout};
use crate::kernels::matmul::{Gemm, Layout, gemm_f32, gemm_scratch};
use crate::kernels::norm::{Lrn, lrn};
use crate::kernels::pool::{Pool, average_pool, max_pool_nchwc};
use crate::kernels::quantized;
use crate::kernels::quantized::Requantize;
use crate::kernels::weight_precision;
use crate::loops::epilogue::Activation;
use crate::loops::geometry::Axis;
use crate::simd::each_level;
use std::{vec, vec::Vec};

/// Compares the results of several threads with those of one.
fn compare<T: Copy + Default + PartialEq>(name: &str, len: usize, compute: impl Fn(&mut [T])) {
    super::start(4);
    let [mut one, mut several] = [(); 2].map(|()| vec![T::default(); len]);
    AT_WORK.set(true);
    compute(&mut one);
    AT_WORK.set(false);
    compute(&mut several);
    assert!(one == several, "{name}");
    assert!(one.iter().any(|y| *y != T::default()), "{name}");
}

fn numbers(len: usize) -> Vec<f32> {
    (0..len).map(|i| (i * 7919 % 1013) as f32 / 506.0 - 1.0).collect()
}

fn bytes(len: usize) -> Vec<i8> {
    (0..len).map(|i| (i * 7919 % 251) as u8 as i8).collect()
}

const IMAGE: Conv<'static> = Conv {
    batch: 1,
    groups: 1,
    channels: 48,
    filters: 80,
    size: &[29, 31],
    out: &[29, 31],
    kernel: &[3, 3],
    strides: &[1, 1],
    dilations: &[1, 1],
    pads: &[1, 1],
    weights: WeightLayout::Plain,
};

#[test]
fn products_are_the_same_for_any_number_of_threads() {
    let f = Activation::Sigmoid;
    for [m, n, k] in
        [[301, 130, 90], [1, 3000, 700], [3000, 1, 700], [97, 16, 4000], [3001, 5, 700]]
    {
        let (a, b) = (Layout::Strides(k, 1), Layout::Strides(n, 1));
        let g = Gemm { m, n, k, a, b, c: [0, 1], y_row: n, alpha: 1.0, beta: 1.0 };
        let [a, b, c] = [m * k, k * n, n].map(numbers);
        compare("gemm", m * n, |y| {
            let scratch = &mut vec![0.0; gemm_scratch(&g)];
            gemm_f32(&a, &b, Some(&c), y, scratch, g, f);
        });
    }
}

#[test]
fn convolutions_are_the_same_for_any_number_of_threads() {
    let pixels = 29 * 31;
    let f = Activation::Relu;
    let groups = Conv { groups: 4, channels: 12, filters: 20, ..IMAGE };
    for g in [IMAGE, groups] {
        let (x, w) = (numbers(48 * pixels), numbers(80 * g.channels * 9));
        compare("conv", 80 * pixels, |y| {
            let scratch = &mut vec![0.0; conv::conv_scratch(&g)];
            conv::conv_f32(
                conv::ConvOperands { x: &x, w: &w, bias: None, add: None },
                y,
                scratch,
                g,
                f,
            );
        });
    }
    let (x, w, bias) = (numbers(48 * pixels), numbers(80 * 48 * 9), numbers(80));
    let mut packed = vec![0.0; conv::packed_blocks_len(&IMAGE)];
    conv::pack_blocks(&w, &mut packed, &IMAGE, 16);
    compare("conv_nchwc", 80 * pixels, |y| {
        let scratch = &mut vec![0.0; conv::conv_nchwc_scratch(&IMAGE)];
        conv::conv_nchwc(
            conv::ConvOperands { x: &x, w: &packed, bias: Some(&bias), add: None },
            y,
            scratch,
            IMAGE,
            f,
        );
    });
    let (x, w) = (numbers(48 * pixels), numbers(80 * 12 * 9));
    let mut packed = vec![0.0; conv::packed_groups_len(&groups)];
    conv::pack_groups(&w, &mut packed, groups, 4);
    compare("grouped_conv_nchwc", 80 * pixels, |y| {
        let scratch = &mut vec![0.0; conv::conv_nchwc_scratch(&groups)];
        conv::grouped_conv_nchwc(
            conv::ConvOperands { x: &x, w: &packed, bias: Some(&bias), add: None },
            y,
            scratch,
            groups,
            4,
            f,
        );
    });
    let narrow = Conv { groups: 10, channels: 8, filters: 8, ..IMAGE };
    let (x, w) = (numbers(80 * pixels), numbers(80 * 8 * 9));
    compare("narrow_groups_nchwc", 80 * pixels, |y| {
        let scratch = &mut vec![0.0; conv::narrow_groups_nchwc_scratch(&narrow)];
        conv::narrow_groups_nchwc(
            conv::ConvOperands { x: &x, w: &w, bias: Some(&bias), add: None },
            y,
            scratch,
            narrow,
            f,
        );
    });
    let apart = Conv { strides: &[2, 2], out: &[15, 16], ..IMAGE };
    let deep = Conv {
        size: &[5, 29, 31],
        out: &[5, 29, 31],
        kernel: &[3, 3, 3],
        strides: &[1, 1, 1],
        dilations: &[1, 1, 1],
        pads: &[1, 1, 1],
        ..IMAGE
    };
    let tiles = [(IMAGE, conv::Tile::Four), (apart, conv::Tile::TwoApart)];
    for (g, tile) in tiles.into_iter().chain([(deep, conv::Tile::Four)]) {
        let pixels: usize = g.size.iter().product();
        let (x, w) = (numbers(48 * pixels), numbers(conv::packed_winograd_len(&g, tile)));
        compare("winograd_nchwc", 80 * g.out.iter().product::<usize>(), |y| {
            let scratch = &mut vec![0.0; conv::winograd_nchwc_scratch(&g)];
            conv::winograd_nchwc(
                conv::ConvOperands { x: &x, w: &w, bias: Some(&bias), add: None },
                y,
                scratch,
                g,
                f,
            );
        });
    }
    // Pixels are in one row, whose parts are shared.
    let g = Conv { kernel: &[1, 1], pads: &[0, 0], ..IMAGE };
    let (x, w, add) = (numbers(48 * pixels), numbers(80 * 48), numbers(80 * pixels));
    compare("conv_nchwc of pixels", 80 * pixels, |y| {
        conv::conv_nchwc(
            conv::ConvOperands { x: &x, w: &w, bias: Some(&bias), add: Some(&add) },
            y,
            &mut [],
            g,
            f,
        );
    });
    let g = Conv { groups: 80, channels: 1, filters: 1, ..IMAGE };
    let (x, w) = (numbers(80 * pixels), numbers(80 * 9));
    compare("depthwise_nchwc", 80 * pixels, |y| {
        conv::depthwise_nchwc(
            conv::ConvOperands { x: &x, w: &w, bias: Some(&bias), add: None },
            y,
            g,
            f,
        );
    });
}

#[test]
fn pairs_are_the_same_for_any_number_of_threads() {
    each_level(|_| {
        /// Pairs of equal `bf16` values.
        fn pairs(len: usize) -> Vec<u32> {
            let twice = |x: f32| x.to_bits() & 0xffff_0000 | x.to_bits() >> 16;
            numbers(len).into_iter().map(twice).collect()
        }
        let f = Activation::Relu;
        for [m, n, k] in [[301, 130, 90], [1, 3000, 700], [97, 16, 1400]] {
            let (a, b) = (Layout::Strides(k, 1), Layout::Packed);
            let g = Gemm { m, n, k, a, b, c: [0, 1], y_row: n, alpha: 1.0, beta: 1.0 };
            let (a, c) = (numbers(m * k), numbers(n));
            let b = pairs(n.next_multiple_of(16) * k / 2);
            compare("gemm_bf16", m * n, |y| {
                let scratch = &mut vec![0.0; weight_precision::gemm_scratch(&g)];
                weight_precision::gemm_bf16(&a, &b, Some(&c), y, scratch, g, f);
            });
        }
        let pixels = 29 * 31;
        for filters in [80, 16] {
            let g = Conv { filters, ..IMAGE };
            let (x, bias) = (numbers(48 * pixels), numbers(filters));
            let w = pairs(conv::packed_blocks_len(&g) / 2);
            compare("conv_bf16", filters * pixels, |y| {
                let scratch = &mut vec![0.0; weight_precision::conv_scratch(&g)];
                weight_precision::conv_bf16(
                    conv::ConvOperands { x: &x, w: &w, bias: Some(&bias), add: None },
                    y,
                    scratch,
                    g,
                    f,
                );
            });
            let w = pairs(conv::packed_winograd_len(&g, conv::Tile::Two) / 2);
            compare("winograd_bf16", filters * pixels, |y| {
                let scratch = &mut vec![0.0; weight_precision::winograd_scratch(&g)];
                weight_precision::winograd_bf16(
                    conv::ConvOperands { x: &x, w: &w, bias: Some(&bias), add: None },
                    y,
                    scratch,
                    g,
                    f,
                );
            });
        }
    });
}

#[test]
fn pools_are_the_same_for_any_number_of_threads() {
    let geometry = Pool {
        planes: 20,
        size: &[65, 67],
        out: &[32, 33],
        kernel: &[3, 3],
        strides: &[2, 2],
        dilations: &[1, 1],
        pads: &[0, 0],
        ends: &[0, 0],
    };
    let x = numbers(20 * 65 * 67 * 16);
    compare("max_pool_nchwc", 20 * 32 * 33 * 16, |y| max_pool_nchwc(&x, y, geometry));
    compare("average_pool", 20 * 32 * 33, |y| average_pool(&x, y, geometry));
}

#[test]
fn channel_kernels_are_the_same_for_any_number_of_threads() {
    let channels = Channels { batch: 2, channels: 40, pixels: 29 * 31 };
    let (len, blocked) = (2 * 40 * channels.pixels, 2 * 48 * channels.pixels);
    let (x, ones, few) = (numbers(blocked), vec![1.5; 48], numbers(48));
    compare("block", blocked, |y| blocked::block(&x[..len], y, channels));
    compare("unblock", len, |y| blocked::unblock(&x, y, channels));
    compare("affine", blocked, |y| {
        blocked::affine(&x, &ones, &few, y, channels, Activation::Relu);
    });
    compare("affine_in_place", blocked, |y| {
        y.copy_from_slice(&x);
        blocked::affine_in_place(y, &ones, &few, channels, Activation::Relu);
    });
    let axis = Axis { outer: 2, len: 40, inner: channels.pixels };
    let of = Lrn { size: 5, alpha: 0.5, beta: 0.75, bias: 1.0 };
    compare("lrn", len, |y| lrn(&x[..len], y, axis, of));
}

#[test]
fn attention_is_the_same_for_any_number_of_threads() {
    for (batch, queries, rows) in [(1, 61, 16), (3, 61, 64), (1, 7, 8)] {
        let (heads, keys, size) = (6, 200, 32);
        let g =
            Attention { rows, ..rows_first(sizes(batch, [heads, 1], [queries, keys], [size; 2])) };
        let [q, k] = [queries, keys].map(|len| numbers(batch * len * heads * size));
        compare("attention", q.len(), |y| {
            let scratch = &mut vec![0.0; attention_scratch(&g, 4)];
            attention_f32(
                AttentionOperands { q: &q, k: &k, v: &k, mask: None, allowed: None, lengths: None },
                y,
                None,
                scratch,
                g,
            );
        });
    }
}

#[test]
fn a_cache_is_the_same_for_any_number_of_threads() {
    for batch in [1, 3] {
        let (heads, keys, past, size) = (7, 200, 199, 32);
        let g = sizes(batch, [heads, 1], [1, keys], [size; 2]);
        let new = [heads * size, size, size];
        let g = Attention { past, k: new, v: new, ..g };
        let q = numbers(batch * heads * size);
        let cache = numbers(q.len() * past);
        let each = q.len() * keys;
        compare("cache", q.len() + 2 * each, |all| {
            let (y, present) = all.split_at_mut(q.len());
            let (k, v) = present.split_at_mut(each);
            let (past, scratch) = (Some(&*cache), &mut vec![0.0; attention_scratch(&g, 4)]);
            attention_cached_f32(
                CachedAttentionOperands {
                    q: &q,
                    k: &q,
                    v: &q,
                    past_k: past,
                    past_v: past,
                    mask: None,
                    allowed: None,
                },
                y,
                k,
                v,
                scratch,
                g,
            );
        });
    }
}

#[test]
fn bytes_are_the_same_for_any_number_of_threads() {
    each_level(|_| {
        let to = Requantize { x_zero: 3, y_zero: -5, low: -128, high: 127 };
        let (bias, factor) = (vec![17; 3000], vec![0.001; 3000]);
        let w_zero: Vec<i32> = (0..3000).map(|i| i % 255 - 127).collect();
        let pixels = 29 * 31;
        for g in [IMAGE, Conv { groups: 48, channels: 1, filters: 2, ..IMAGE }] {
            let filters = g.groups * g.filters;
            let (x, w) = (bytes(48 * pixels), bytes(quantized::packed_weights_len(&g)));
            compare("conv", filters * pixels, |y: &mut [i8]| {
                let starts = &mut vec![0; quantized::conv_starts(&g)];
                let scratch = &mut vec![0; quantized::conv_scratch(&g)];
                quantized::int8_conv_nchw_with_zeros(
                    quantized::ZeroPointOperands {
                        x: &x,
                        w: &w,
                        w_zero: &w_zero[..filters * usize::from(g.groups == 1)],
                        bias: &bias,
                        factor: &factor,
                        offset: None,
                    },
                    y,
                    starts,
                    scratch,
                    g,
                    to,
                );
            });
        }
        for (m, n, k) in [(301, 130, 90), (1, 3000, 700)] {
            let g = quantized::Product { m, n, k };
            let (x, w) = (bytes(m * k), bytes(quantized::packed_columns_len(&g)));
            compare("matmul", m * n, |y: &mut [i8]| {
                let scratch = &mut vec![0; quantized::matmul_scratch(&g)];
                quantized::matmul_with_zeros(
                    quantized::ZeroPointOperands {
                        x: &x,
                        w: &w,
                        w_zero: &w_zero[..n],
                        bias: &bias,
                        factor: &factor,
                        offset: None,
                    },
                    y,
                    scratch,
                    g,
                    to,
                );
            });
        }
    });
}
