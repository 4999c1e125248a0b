//! Sums: the relative error is at most a millionth times the root of the number of terms. The terms
//! are positive, so that none cancel.

use crate::kernels::attention::{
    Attention, AttentionOperands, Precision, Stage, attention_f32, attention_scratch,
};
use crate::kernels::blocked::{Channels, block, unblock};
use crate::kernels::conv;
use crate::kernels::conv::{Conv, ConvTranspose, WeightLayout};
use crate::kernels::cumulative::{cum_prod, cum_sum};
use crate::kernels::matmul;
use crate::kernels::matmul::{Gemm, Layout, Packing, gemm_f32, gemm_scratch};
use crate::kernels::norm;
use crate::kernels::norm::{Groups, Lrn};
use crate::kernels::pool;
use crate::kernels::pool::Pool;
use crate::kernels::{loss, reduce, softmax};
use crate::loops::epilogue::Activation;
use crate::loops::geometry::{Axis, Reduction};
use crate::simd::each_level;
use std::{vec, vec::Vec};

/// The results of a kernel, each with its true value.
type Results = Vec<(f32, f64)>;

/// A kernel that is run with different numbers of terms.
struct Row {
    name: &'static str,
    /// The maximum number of terms.
    most: usize,
    /// The least magnitude to which errors are relative. Differences may be much smaller than their
    /// terms.
    least: f64,
    run: fn(usize) -> Results,
}

const fn row(name: &'static str, most: usize, run: fn(usize) -> Results) -> Row {
    Row { name, most, least: 0.0, run }
}

/// A row whose results are differences of numbers near 1.
const fn near_one(name: &'static str, most: usize, run: fn(usize) -> Results) -> Row {
    Row { name, most, least: 1.0, run }
}

const REDUCTIONS: &[Row] = &[
    row("ReduceSum", 1_000_000, |n| reduced(n, reduce::reduce_sum, |x| x.sum())),
    row("ReduceL1", 1_000_000, |n| reduced(n, reduce::reduce_l1, |x| x.sum())),
    row("ReduceMean", 1_000_000, |n| reduced(n, reduce::reduce_mean, |x| mean(x))),
    row("ReduceSumSquare", 1_000_000, |n| reduced(n, reduce::reduce_sum_square, |x| squares(x))),
    row("ReduceL2", 1_000_000, |n| reduced(n, reduce::reduce_l2, |x| libm::sqrt(squares(x)))),
    row("ReduceLogSum", 1_000_000, |n| {
        reduced(n + 1, reduce::reduce_log_sum, |x| libm::log(x.sum()))
    }),
    row("ReduceLogSumExp", 1_000_000, |n| {
        reduced(n, reduce::reduce_log_sum_exp, |x| libm::log(x.map(libm::exp).sum()))
    }),
    row("ReduceProd", 64, |n| reduced(n, reduce::reduce_prod, |x| x.product())),
    row("CumSum", 65_537, |n| {
        let x = positive(n, 1);
        let mut sum = 0.0;
        let truths = x.iter().map(|&x| {
            sum += f64::from(x);
            sum
        });
        beside(&along(&x, 1, cum_sum), truths)
    }),
    row("CumProd", 64, |n| {
        let x = positive(n, 1);
        let mut product = 1.0;
        let truths = x.iter().map(|&x| {
            product *= f64::from(x);
            product
        });
        beside(&along(&x, 1, cum_prod), truths)
    }),
];

const NORMALIZATIONS: &[Row] = &[
    row("Softmax", 65_537, |n| softened(n, 1, softmax::softmax, |x, sum| libm::exp(x) / sum)),
    row("Softmax, inner axes", 1_000, |n| {
        softened(n, 7, softmax::softmax, |x, sum| libm::exp(x) / sum)
    }),
    near_one("LogSoftmax", 65_537, |n| {
        softened(n, 1, softmax::log_softmax, |x, sum| x - libm::log(sum))
    }),
    near_one("LogSoftmax, inner axes", 1_000, |n| {
        softened(n, 7, softmax::log_softmax, |x, sum| x - libm::log(sum))
    }),
    near_one("LayerNormalization", 65_537, |n| {
        let x = positive(n, 1);
        let y = along(&x, 1, |x, y, geometry| {
            norm::layer_normalization(
                x,
                None,
                None,
                norm::LayerNormOutputs { y, mean: None, inv_std_dev: None },
                geometry,
                1e-5,
            );
        });
        beside(&y, standard(&x))
    }),
    near_one("InstanceNormalization", 65_537, |n| {
        let x = positive(n, 1);
        let mut y = vec![0.0; n];
        let geometry = Axis { outer: 1, len: 1, inner: n };
        norm::instance_normalization(&x, &[1.0], &[0.0], &mut y, geometry, 1e-5);
        beside(&y, standard(&x))
    }),
    near_one("GroupNormalization", 32_768, |n| {
        let x = positive(2 * n, 1);
        let mut y = vec![0.0; 2 * n];
        let geometry = Groups { batch: 1, groups: 1, channels: 2, inner: n };
        norm::group_normalization(&x, &[1.0; 2], &[0.0; 2], &mut y, geometry, 1e-5);
        beside(&y, standard(&x))
    }),
    near_one("BatchNormalization that learns", 65_537, |n| {
        let x = positive(n, 1);
        let (mut y, mut mean, mut variance) = (vec![0.0; n], [0.0], [0.0]);
        let geometry = Axis { outer: 1, len: 1, inner: n };
        norm::batch_normalization_training(
            &x,
            norm::BatchNormOperands { scale: &[1.0], bias: &[0.0], mean: &[0.0], variance: &[1.0] },
            norm::BatchNormOutputs {
                y: &mut y,
                running_mean: &mut mean,
                running_variance: &mut variance,
            },
            geometry,
            1e-5,
            0.9,
        );
        beside(&y, standard(&x))
    }),
    row("RMSNormalization", 65_537, |n| {
        let x = positive(n, 1);
        let y = along(&x, 1, |x, y, geometry| {
            norm::rms_normalization(x, None, y, geometry, 1e-5);
        });
        let root = libm::sqrt(squares(wide(&x)) / n as f64 + f64::from(1e-5f32));
        beside(&y, wide(&x).map(|x| x / root))
    }),
    row("LpNormalization 1", 65_537, |n| {
        let x = positive(n, 1);
        let sum: f64 = wide(&x).sum();
        beside(&along(&x, 1, norm::lp_normalization_l1), wide(&x).map(|x| x / sum))
    }),
    row("LpNormalization 2", 65_537, |n| {
        let x = positive(n, 1);
        let root = libm::sqrt(squares(wide(&x)));
        beside(&along(&x, 1, norm::lp_normalization_l2), wide(&x).map(|x| x / root))
    }),
    row("LRN", 1_000, |n| {
        let x = positive(n, 1);
        let lrn = Lrn { size: 2 * n, alpha: 0.5, beta: 0.75, bias: 1.0 };
        let y = along(&x, 1, |x, y, geometry| norm::lrn(x, y, geometry, lrn));
        let sum = squares(wide(&x));
        let scale = libm::pow(1.0 + 0.5 / (2 * n) as f64 * sum, 0.75);
        beside(&y, wide(&x).map(|x| x / scale))
    }),
    near_one("SoftmaxCrossEntropyLoss", 1_000, |n| {
        let (x, mut y, mut scratch) = (positive(n, 1), [0.0], vec![0.0; n]);
        let geometry = Axis { outer: 1, len: n, inner: 1 };
        let loss = loss::softmax_cross_entropy_loss_mean;
        loss(&x, &[0i64], None, &mut y, &mut scratch, None, geometry).expect("a class");
        let sum: f64 = wide(&x).map(libm::exp).sum();
        beside(&y, [libm::log(sum) - f64::from(x[0])])
    }),
    row("NegativeLogLikelihoodLoss", 65_537, |n| {
        let (x, target, mut y) = (positive(n, 1), vec![0i64; n], [0.0]);
        let geometry = Axis { outer: n, len: 1, inner: 1 };
        let loss = loss::negative_log_likelihood_loss_mean;
        loss(&x, &target, None, &mut y, None, geometry).expect("a class");
        beside(&y, [-mean(wide(&x))])
    }),
];

const WINDOWS: &[Row] = &[
    row("AveragePool", 65_537, |n| pooled(n, pool::average_pool, |x| mean(x))),
    row("LpPool", 65_537, |n| {
        pooled(n, |x, y, geometry| pool::lp_pool(x, y, geometry, 2), |x| libm::sqrt(squares(x)))
    }),
    row("Conv", 512, |n| {
        convolved(n, |x, w, y, geometry| {
            let mut scratch = vec![0.0; conv::conv_scratch(&geometry)];
            conv::conv_f32(
                conv::ConvOperands { x, w, bias: None, add: None },
                y,
                &mut scratch,
                geometry,
                Activation::Identity,
            );
        })
    }),
    row("Conv, without scratch memory", 512, |n| {
        convolved(n, |x, w, y, geometry| {
            conv::conv(
                conv::ConvOperands { x, w, bias: None, add: None },
                y,
                geometry,
                Activation::Identity,
            );
        })
    }),
    row("Conv, of packed weights", 512, |n| {
        convolved(n, |x, w, y, geometry| {
            let geometry = Conv { weights: WeightLayout::Packed, ..geometry };
            let mut packed = vec![0.0; conv::packed_weights_len(&geometry)];
            conv::pack_weights(w, &mut packed, &geometry);
            let mut scratch = vec![0.0; conv::conv_scratch(&geometry)];
            conv::conv_f32(
                conv::ConvOperands { x, w: &packed, bias: None, add: None },
                y,
                &mut scratch,
                geometry,
                Activation::Identity,
            );
        })
    }),
    row("Conv, in blocks of channels", 512, |n| {
        convolved(n.next_multiple_of(16), |x, w, y, geometry| {
            let geometry = Conv { weights: WeightLayout::Packed, ..geometry };
            let mut packed = vec![0.0; conv::packed_blocks_len(&geometry)];
            conv::pack_blocks(w, &mut packed, &geometry, 16);
            let mut scratch = vec![0.0; conv::conv_nchwc_scratch(&geometry)];
            let (of_x, of_y) = (blocks(geometry.channels), blocks(geometry.filters));
            let (mut x_blocks, mut y_blocks) = (vec![0.0; x.len()], vec![0.0; 16 * PIXELS]);
            block(x, &mut x_blocks, of_x);
            conv::conv_nchwc(
                conv::ConvOperands { x: &x_blocks, w: &packed, bias: None, add: None },
                &mut y_blocks,
                &mut scratch,
                geometry,
                Activation::Identity,
            );
            unblock(&y_blocks, y, of_y);
        })
    }),
    row("ConvTranspose", 512, |n| {
        let (x, w, mut y) = (positive(n, 1), positive(n, 2), [0.0]);
        let one = [1, 1];
        let geometry = ConvTranspose {
            batch: 1,
            groups: 1,
            channels: n,
            filters: 1,
            size: &one,
            out: &one,
            kernel: &one,
            strides: &one,
            dilations: &one,
            pads: &[0, 0],
            weights: WeightLayout::Plain,
        };
        let mut scratch = vec![0.0; conv::conv_transpose_scratch(&geometry)];
        let f = Activation::Identity;
        conv::conv_transpose_f32(
            conv::ConvOperands { x: &x, w: &w, bias: None, add: None },
            &mut y,
            &mut scratch,
            geometry,
            f,
        );
        beside(&y, [dot(wide(&x), wide(&w))])
    }),
];

const PRODUCTS: &[Row] = &[
    row("Gemm, of some rows", 16_384, |k| multiplied(5, k, false)),
    row("Gemm, of one row", 16_384, |k| multiplied(1, k, false)),
    row("Gemm, of many rows", 1_000, |k| multiplied(33, k, false)),
    row("Gemm, of a packed factor", 16_384, |k| multiplied(5, k, true)),
    row("Gemm, without scratch memory", 16_384, |k| {
        product(5, k, |a, b, y, geometry| {
            matmul::gemm_float(a, b, None, y, geometry, Activation::Identity);
        })
    }),
    row("Attention", 1_000, attended),
];

#[test]
fn reductions_are_within_a_millionth_times_the_root_of_their_length() {
    REDUCTIONS.iter().for_each(Row::check);
}

#[test]
fn normalizations_are_within_the_same_bound() {
    NORMALIZATIONS.iter().for_each(Row::check);
}

#[test]
fn windows_are_within_the_same_bound() {
    WINDOWS.iter().for_each(Row::check);
}

#[test]
fn products_of_matrices_are_within_the_same_bound() {
    PRODUCTS.iter().for_each(Row::check);
}

impl Row {
    fn check(&self) {
        let all = [1, 2, 3, 7, 64, 512, 1_000, 16_384, 65_537, 1_000_000];
        for n in all.into_iter().filter(|&n| n <= self.most) {
            each_level(|level| {
                for (y, truth) in (self.run)(n) {
                    let error = (f64::from(y) - truth).abs() / truth.abs().max(self.least);
                    let within = y == 0.0 && truth == 0.0 || error <= 1e-6 * libm::sqrt(n as f64);
                    assert!(within, "{level:?}: {} of {n}: {y:e}, not {truth:e}", self.name);
                }
            });
        }
    }
}

/// Numbers from 1/2 to 1, whose sums do not cancel.
fn positive(count: usize, seed: usize) -> Vec<f32> {
    (0..count).map(|i| 0.5 + (i * 7_919 * seed % 16_381) as f32 / 32_768.0).collect()
}

/// Numbers in double precision.
type Wide<'a> = std::iter::Map<std::slice::Iter<'a, f32>, fn(&f32) -> f64>;

fn wide(x: &[f32]) -> Wide<'_> {
    x.iter().map(|&x| f64::from(x))
}

fn beside(y: &[f32], truths: impl IntoIterator<Item = f64>) -> Results {
    y.iter().copied().zip(truths).collect()
}

fn dot(a: impl Iterator<Item = f64>, b: impl Iterator<Item = f64>) -> f64 {
    a.zip(b).map(|(a, b)| a * b).sum()
}

fn mean(x: impl ExactSizeIterator<Item = f64>) -> f64 {
    let n = x.len() as f64;
    x.sum::<f64>() / n
}

fn squares(x: impl Iterator<Item = f64>) -> f64 {
    x.map(|x| x * x).sum()
}

/// The numbers minus their mean, divided by their standard deviation.
fn standard(x: &[f32]) -> Vec<f64> {
    let mean = mean(wide(x));
    let variance = squares(wide(x).map(|x| x - mean)) / x.len() as f64;
    let root = libm::sqrt(variance + f64::from(1e-5f32));
    wide(x).map(|x| (x - mean) / root).collect()
}

/// Runs a kernel along an axis whose elements have the stride `inner`.
fn along(x: &[f32], inner: usize, kernel: impl Fn(&[f32], &mut [f32], Axis)) -> Vec<f32> {
    let mut y = vec![0.0; x.len()];
    kernel(x, &mut y, Axis { outer: 1, len: x.len() / inner, inner });
    y
}

/// Runs a reduction along the last axis, and along the first of two.
fn reduced(
    n: usize,
    kernel: fn(&[f32], &mut [f32], Reduction<'_>),
    truth: fn(Wide<'_>) -> f64,
) -> Results {
    let x = positive(n, 1);
    let mut y = [0.0];
    let row = Reduction { kept: &[], kept_strides: &[], reduced: &[n], reduced_strides: &[1] };
    kernel(&x, &mut y, row);
    let mut results = beside(&y, [truth(wide(&x))]);
    if n <= 1_000 {
        let x = positive(n * 3, 1);
        let mut y = [0.0; 3];
        let columns =
            Reduction { kept: &[3], kept_strides: &[1], reduced: &[n], reduced_strides: &[3] };
        kernel(&x, &mut y, columns);
        let column = |j: usize| x.iter().skip(j).step_by(3).copied().collect::<Vec<_>>();
        results.extend(beside(&y, (0..3).map(|j| truth(wide(&column(j))))));
    }
    results
}

/// Runs a function of numbers and their sum of powers along an axis with the stride `inner`; the
/// numbers are from -4 to 4.
fn softened(
    n: usize,
    inner: usize,
    kernel: fn(&[f32], &mut [f32], Axis),
    truth: fn(f64, f64) -> f64,
) -> Results {
    let x: Vec<f32> = positive(n * inner, 1).iter().map(|x| 16.0 * x - 12.0).collect();
    let lane = |lane: usize| wide(&x).skip(lane).step_by(inner);
    let sums: Vec<f64> = (0..inner).map(|i| lane(i).map(libm::exp).sum()).collect();
    let truths = wide(&x).enumerate().map(|(at, x)| truth(x, sums[at % inner]));
    beside(&along(&x, inner, kernel), truths)
}

/// Runs one window that covers the whole image.
fn pooled(
    n: usize,
    kernel: fn(&[f32], &mut [f32], Pool<'_>),
    truth: fn(Wide<'_>) -> f64,
) -> Results {
    let (x, mut y) = (positive(n, 1), [0.0]);
    let geometry = Pool {
        planes: 1,
        size: &[n],
        out: &[1],
        kernel: &[n],
        strides: &[1],
        dilations: &[1],
        pads: &[0],
        ends: &[0],
    };
    kernel(&x, &mut y, geometry);
    beside(&y, [truth(wide(&x))])
}

/// The number of pixels of the convolutions.
const PIXELS: usize = 6;

/// `channels` in an image of that many pixels.
fn blocks(channels: usize) -> Channels {
    Channels { batch: 1, channels, pixels: PIXELS }
}

/// Runs a convolution of `channels` by windows of one and of three elements, padded.
fn convolved(channels: usize, kernel: impl Fn(&[f32], &[f32], &mut [f32], Conv<'_>)) -> Results {
    const FILTERS: usize = 5;
    let mut results = vec![];
    for taps in [1, 3] {
        let (x, w) = (positive(channels * PIXELS, 1), positive(FILTERS * channels * taps, 2));
        let geometry = Conv {
            batch: 1,
            groups: 1,
            channels,
            filters: FILTERS,
            size: &[PIXELS],
            out: &[PIXELS],
            kernel: &[taps],
            strides: &[1],
            dilations: &[1],
            pads: &[taps / 2],
            weights: WeightLayout::Plain,
        };
        let mut y = [0.0; FILTERS * PIXELS];
        kernel(&x, &w, &mut y, geometry);
        let truths = (0..y.len()).map(|at| {
            let (filter, place) = (at / PIXELS, at % PIXELS);
            let term = |(channel, tap): (usize, usize)| {
                let from = (place + tap).checked_sub(taps / 2).filter(|&from| from < PIXELS)?;
                let x = f64::from(x[channel * PIXELS + from]);
                Some(x * f64::from(w[(filter * channels + channel) * taps + tap]))
            };
            let all = (0..channels).flat_map(|channel| (0..taps).map(move |tap| (channel, tap)));
            all.filter_map(term).sum::<f64>()
        });
        results.extend(beside(&y, truths));
    }
    results
}

fn multiplied(m: usize, k: usize, packs: bool) -> Results {
    product(m, k, |a, b, y, mut geometry| {
        let packing = Packing { rows: k, cols: geometry.n, strides: [geometry.n, 1] };
        let mut packed = vec![0.0; matmul::packed_b_len::<f32>(&packing)];
        matmul::pack_b(b, &mut packed, packing);
        if packs {
            geometry.b = Layout::Packed;
        }
        let b = if packs { &packed } else { b };
        let mut scratch = vec![0.0; gemm_scratch(&geometry)];
        gemm_f32(a, b, None, y, &mut scratch, geometry, Activation::Identity);
    })
}

/// Runs a matrix product of `k` terms.
fn product(m: usize, k: usize, kernel: impl Fn(&[f32], &[f32], &mut [f32], Gemm)) -> Results {
    let n = 19;
    let (a, b, mut y) = (positive(m * k, 1), positive(k * n, 2), vec![0.0; m * n]);
    let geometry = Gemm {
        m,
        n,
        k,
        a: Layout::Strides(k, 1),
        b: Layout::Strides(n, 1),
        c: [0, 0],
        y_row: n,
        alpha: 1.0,
        beta: 0.0,
    };
    kernel(&a, &b, &mut y, geometry);
    let row = |i: usize| wide(&a[i * k..][..k]);
    let column = |j: usize| wide(&b).skip(j).step_by(n);
    beside(&y, (0..m * n).map(|at| dot(row(at / n), column(at % n))))
}

/// Runs attention of some queries to `keys` keys.
fn attended(keys: usize) -> Results {
    let (queries, depth, width) = (3, 16, 5);
    let q = positive(queries * depth, 1);
    let (k, v) = (positive(keys * depth, 2), positive(keys * width, 3));
    let geometry = Attention {
        batch: 1,
        heads: 1,
        group: 1,
        queries,
        keys,
        depth,
        width,
        q: [0, 0, depth],
        k: [0, 0, depth],
        v: [0, 0, width],
        y: [0, 0, width],
        mask: [0; 3],
        mask_len: keys,
        past: 0,
        left: None,
        right: None,
        scale: None,
        softcap: 0.0,
        precision: Precision::Wide,
        stage: Stage::Products,
        rows: 2,
    };
    let mut scratch = vec![0.0; attention_scratch(&geometry, size_of::<f32>())];
    let mut y = vec![0.0; queries * width];
    attention_f32(
        AttentionOperands { q: &q, k: &k, v: &v, mask: None, allowed: None, lengths: None },
        &mut y,
        None,
        &mut scratch,
        geometry,
    );
    let truths = (0..queries * width).map(|at| {
        let query = || wide(&q[at / width * depth..][..depth]);
        let score = |key: &[f32]| libm::exp(dot(query(), wide(key)) / libm::sqrt(depth as f64));
        let weights: Vec<f64> = k.chunks_exact(depth).map(score).collect();
        let values = wide(&v).skip(at % width).step_by(width);
        dot(weights.iter().copied(), values) / weights.iter().sum::<f64>()
    });
    beside(&y, truths)
}
