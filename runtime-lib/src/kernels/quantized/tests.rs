//! Comparisons of 8-bit kernels with plain sums, at each SIMD level.

use super::*;
use crate::kernels::conv::{Conv, WeightLayout};
use crate::kernels::pool::Pool;
use crate::loops::window::Taps;
use crate::simd::each_level;
use crate::simd::int8::Byte;
use std::{vec, vec::Vec};

fn bytes<T: Byte>(n: usize, seed: usize) -> Vec<T> {
    (0..n).map(|i| T::from_i64(((i * 7919 + seed * 104_729) >> 3) as i64)).collect()
}

/// Factors so small that most results are within the limits of bytes. If there are more than eight,
/// every fifth one makes ties.
fn factors(n: usize, k: usize) -> Vec<f32> {
    let any = |i: usize| (0.3 + (i % 7) as f32 / 11.0) / (40.0 * (k.max(1) as f32).sqrt());
    (0..n).map(|i| if n > 8 && i % 5 == 4 { 1.0 / 256.0 } else { any(i) }).collect()
}

fn expected(sum: i64, factor: f32, offset: Option<f32>, to: Requantize) -> i64 {
    let x = match offset {
        None => (sum as f64 * f64::from(factor)).round_ties_even(),
        Some(offset) => (sum as f32 * factor + offset).round_ties_even().into(),
    };
    (x as i64 + i64::from(to.y_zero)).clamp(to.low.into(), to.high.into())
}

/// The bias of sums of `x - zero`, for unsigned bytes.
fn starts<X: Byte>(bias: &[i32], sums: &[i64], zero: i32) -> Vec<i32> {
    let zero = i64::from(zero) + i64::from(X::FLIP);
    bias.iter().zip(sums).map(|(&bias, sum)| (i64::from(bias) - zero * sum) as i32).collect()
}

/// Zero points of weights, some of which do not fit in a byte with the weights.
fn zero_points(n: usize, seed: usize) -> Vec<i32> {
    let zero = [|_| 0, |_| -3, |i| 117 - (i as i32 * 83) % 245, |_| -128][seed % 4];
    (0..n).map(zero).collect()
}

/// The sums of the `k` weights of each channel without its zero point.
fn centered(sums: &[i64], zeros: &[i32], k: usize) -> Vec<i32> {
    sums.iter().zip(zeros).map(|(&sum, zero)| sum as i32 - k as i32 * zero).collect()
}

fn limits<X: Byte, Y: Byte>(seed: usize) -> Requantize {
    let (x, y) = (-i32::from(X::FLIP), -i32::from(Y::FLIP));
    let narrow = if seed.is_multiple_of(2) { 30 } else { 0 };
    let x_zero = [x, x + 128, x + 255, x + 77][seed % 4];
    Requantize { x_zero, y_zero: y + 100, low: y + narrow, high: y + 255 - narrow }
}

/// Runs the small kernel on an image and weights, and returns its bytes.
fn small<X: Byte, Y: Byte>(
    (x, w): (&[X], &[i8]),
    (start, factor, offset): (&[i32], &[f32], Option<&[f32]>),
    len: usize,
    geometry: Conv<'_>,
    to: Requantize,
) -> Vec<Y> {
    let taps = geometry.window().taps();
    let (mut at, mut window) = (vec![7; taps], vec![9; geometry.groups * geometry.channels * taps]);
    let mut y = vec![Y::ZERO; len];
    small_int8_conv_nchw(
        Int8Operands { x, w, bias: start, factor, offset },
        &mut y,
        &mut at,
        &mut window,
        geometry,
        to,
    );
    y
}

fn check_conv<X: Byte, Y: Byte>(conv_: &Conv<'_>, seed: usize) {
    let window = conv_.window();
    let (places, taps, size) = (window.places(), window.taps(), window.elements());
    let Conv { batch, groups, channels, filters, .. } = *conv_;
    let (k, all) = (channels * taps, groups * filters);
    let x: Vec<X> = bytes(batch * groups * channels * size, seed);
    let w: Vec<i8> = bytes(all * k, seed + 1);
    let to = limits::<X, Y>(seed);
    let bias: Vec<i32> = (0..all).map(|i| (i as i32 * 37 % 101 - 50) * 20).collect();
    let factor = factors(all, k);
    let offset: Vec<f32> = (0..all).map(|i| i as f32 / 3.0 - 1.0).collect();
    let offset = (seed % 3 == 1).then_some(&offset[..]);
    let sums: Vec<i64> =
        (0..all).map(|i| w[i * k..][..k].iter().map(|&w| i64::from(w)).sum()).collect();
    let start = starts::<X>(&bias, &sums, to.x_zero);
    let mut packed = vec![0; packed_weights_len(conv_)];
    pack_weights(&w, &mut packed, conv_);
    let mut y: Vec<Y> = vec![Y::ZERO; batch * all * places];
    let (mut at, mut scratch) = (vec![7; conv_starts(conv_)], vec![9; conv_scratch(conv_)]);
    int8_conv_nchw(
        Int8Operands { x: &x, w: &packed, bias: &start, factor: &factor, offset },
        &mut y,
        &mut at,
        &mut scratch,
        *conv_,
        to,
    );
    let small = small::<X, Y>((&x, &w), (&start, &factor, offset), y.len(), *conv_, to);
    assert!(y == small, "{conv_:?} {seed}");
    // The sum of the products, without the zero point of the weights.
    let sum = |at: usize, zero: i32| -> i64 {
        let (image, filter, place) = (at / places / all, at / places % all, at % places);
        let terms = (0..k).map(|i| {
            let channel = filter / filters * channels + i / taps;
            let Some(from) = window.input(place, i % taps) else { return 0 };
            let x = x[(image * groups * channels + channel) * size + from].to_i64();
            (x - i64::from(to.x_zero)) * i64::from(i32::from(w[filter * k + i]) - zero)
        });
        terms.sum()
    };
    for (at, y) in y.iter().enumerate() {
        let filter = at / places % all;
        let sum = sum(at, 0) + i64::from(bias[filter]);
        let offset = offset.map(|offset| offset[filter]);
        let wanted = expected(sum, factor[filter], offset, to);
        assert_eq!(y.to_i64(), wanted, "{conv_:?} {seed} {at}");
    }
    let w_zero = zero_points(all, seed / 4);
    let w_sums = centered(&sums, &w_zero, k);
    let wide: Vec<i64> = w_sums.iter().map(|&sum| sum.into()).collect();
    let operands = ZeroPointOperands {
        x: &x,
        w: &packed,
        w_zero: &w_zero,
        bias: &starts::<X>(&bias, &wide, to.x_zero),
        factor: &factor,
        offset,
    };
    scratch.resize(conv_scratch(conv_).max(dynamic_conv_scratch(conv_)), 9);
    int8_conv_nchw_with_zeros(operands, &mut y, &mut at, &mut scratch, *conv_, to);
    for (at, y) in y.iter().enumerate() {
        let filter = at / places % all;
        let sum = sum(at, w_zero[filter]) + i64::from(bias[filter]);
        let wanted = expected(sum, factor[filter], offset.map(|offset| offset[filter]), to);
        assert_eq!(y.to_i64(), wanted, "{conv_:?} {seed} {at}");
    }
    if X::FLIP != 0 {
        return;
    }
    let mut scratch = vec![9; dynamic_conv_scratch(conv_)];
    let mut y = vec![0.0; y.len()];
    let operands = DynamicConvOperands {
        x: X::bits(&x),
        x_scale: &[0.1],
        x_zero: &[to.x_zero as u8],
        w: &packed,
        w_zero: (!(seed / 4).is_multiple_of(4)).then_some(&w_zero),
        w_scale: &factor,
        sums: &w_sums,
        bias: offset,
    };
    dynamic_conv_nchw(operands, &mut y, &mut at, &mut scratch, *conv_);
    for (at, &y) in y.iter().enumerate() {
        let filter = at / places % all;
        let real = sum(at, w_zero[filter]) as f32 * (0.1 * factor[filter]);
        let wanted = offset.map_or(real, |offset| real + offset[filter]);
        assert_eq!(y, wanted, "{conv_:?} {seed} {at}");
    }
}

fn check_window(
    sizes: &[usize],
    kernel: &[usize],
    [stride, dilation, pad]: [usize; 3],
    [groups, channels, filters]: [usize; 3],
    seed: usize,
) {
    let out = |(size, kernel): (&usize, &usize)| {
        let reach = (kernel - 1) * dilation + 1;
        (size + 2 * pad - reach) / stride + 1
    };
    let out: Vec<usize> = sizes.iter().zip(kernel).map(out).collect();
    let each = |x: usize| vec![x; sizes.len()];
    let (strides, dilations, pads) = (each(stride), each(dilation), each(pad));
    let conv = Conv {
        batch: 2,
        groups,
        channels,
        filters,
        size: sizes,
        out: &out,
        kernel,
        strides: &strides,
        dilations: &dilations,
        pads: &pads,
        weights: WeightLayout::Packed,
    };
    match seed % 4 {
        0 => check_conv::<i8, i8>(&conv, seed),
        1 => check_conv::<u8, u8>(&conv, seed),
        2 => check_conv::<i8, u8>(&conv, seed),
        _ => check_conv::<u8, i8>(&conv, seed),
    }
}

#[test]
fn convolutions_of_bytes_are_exact() {
    each_level(|_| {
        let mut seed = 0;
        let windows = [[1, 1, 0], [1, 1, 1], [2, 1, 1], [1, 2, 2], [3, 2, 3]];
        let channels = [[1, 3, 5], [2, 4, 14], [4, 1, 1], [3, 1, 13], [1, 9, 8]];
        for window in windows {
            for channels in channels {
                for _ in 0..2 {
                    check_window(&[7, 15], &[3, 3], window, channels, seed);
                    seed += 1;
                }
            }
        }
        for (sizes, kernel) in [
            (&[9][..], &[3][..]),
            (&[100], &[1]),
            (&[8, 8], &[1, 1]),
            (&[7, 7], &[1, 1]),
            (&[70, 3], &[5, 2]),
            (&[5, 6, 7], &[2, 3, 3]),
            (&[4, 5, 3], &[1, 1, 1]),
        ] {
            for window in [[1, 1, 0], [2, 1, 0], [2, 1, 1]] {
                for channels in [[1, 6, 26], [2, 1, 2]] {
                    check_window(sizes, kernel, window, channels, seed);
                    seed += 1;
                }
            }
        }
    });
}

fn check_matmul<X: Byte, Y: Byte>([m, n, k]: [usize; 3], seed: usize) {
    let x: Vec<X> = bytes(m * k, seed);
    let w: Vec<i8> = bytes(k * n, seed + 1);
    let to = limits::<X, Y>(seed);
    let product = Product { m, n, k };
    let bias: Vec<i32> = (0..n).map(|i| i as i32 * 100 - 700).collect();
    let factor = factors(n, k);
    let offset: Vec<f32> = (0..n).map(|i| i as f32 / 5.0 - 1.0).collect();
    let offset = (seed % 3 == 1).then_some(&offset[..]);
    for strides in [[n, 1], [1, k]] {
        let w_at = |l: usize, j: usize| i64::from(w[l * strides[0] + j * strides[1]]);
        let sums: Vec<i64> = (0..n).map(|j| (0..k).map(|l| w_at(l, j)).sum()).collect();
        let mut packed = vec![0; packed_columns_len(&product)];
        pack_columns(&w, &mut packed, &product, strides);
        let mut y = vec![Y::ZERO; m * n];
        let mut scratch = vec![7; matmul_scratch(&product)];
        let start = starts::<X>(&bias, &sums, to.x_zero);
        matmul(
            Int8Operands { x: &x, w: &packed, bias: &start, factor: &factor, offset },
            &mut y,
            &mut scratch,
            product,
            to,
        );
        if strides[0] == 1 {
            let none: &[usize] = &[];
            let image = Conv {
                batch: m,
                groups: 1,
                channels: k,
                filters: n,
                size: none,
                out: none,
                kernel: none,
                strides: none,
                dilations: none,
                pads: none,
                weights: WeightLayout::Plain,
            };
            let small = small::<X, Y>((&x, &w), (&start, &factor, offset), m * n, image, to);
            assert!(y == small, "{product:?}");
        }
        let sum = |i: usize, j: usize, zero: i32| -> i64 {
            (0..k).map(|l| (x[i * k + l].to_i64() - i64::from(zero)) * w_at(l, j)).sum()
        };
        for (at, y) in y.iter().enumerate() {
            let (i, j) = (at / n, at % n);
            let sum = sum(i, j, to.x_zero) + i64::from(bias[j]);
            let offset = offset.map(|offset| offset[j]);
            assert_eq!(y.to_i64(), expected(sum, factor[j], offset, to), "{product:?} {at}");
        }
        let w_zero = zero_points(n, seed);
        let sums = centered(&sums, &w_zero, k);
        let row = |i: usize| -> i64 {
            x[i * k..][..k].iter().map(|x| x.to_i64() - i64::from(to.x_zero)).sum()
        };
        let wide: Vec<i64> = sums.iter().map(|&sum| sum.into()).collect();
        let start = &starts::<X>(&bias, &wide, to.x_zero);
        let operands = ZeroPointOperands {
            x: &x,
            w: &packed,
            w_zero: &w_zero,
            bias: start,
            factor: &factor,
            offset,
        };
        matmul_with_zeros(operands, &mut y, &mut scratch, product, to);
        for (at, y) in y.iter().enumerate() {
            let (i, j) = (at / n, at % n);
            let sum = sum(i, j, to.x_zero) - i64::from(w_zero[j]) * row(i) + i64::from(bias[j]);
            let offset = offset.map(|offset| offset[j]);
            assert_eq!(y.to_i64(), expected(sum, factor[j], offset, to), "{product:?} {at}");
        }
        if X::FLIP == 0 {
            let add: Vec<f32> = (0..n).map(|i| i as f32 / 7.0).collect();
            let mut y = vec![0.0; m * n];
            let zero = [to.x_zero as u8];
            let s = &mut scratch;
            dynamic_matmul(
                DynamicMatMulOperands {
                    x: X::bits(&x),
                    x_scale: &[0.1],
                    x_zero: &zero,
                    w: &packed,
                    w_zero: (!seed.is_multiple_of(4)).then_some(&w_zero),
                    w_scale: &factor,
                    sums: &sums,
                    bias: Some(&add),
                },
                &mut y,
                s,
                product,
            );
            for (at, &y) in y.iter().enumerate() {
                let (i, j) = (at / n, at % n);
                let sum = sum(i, j, to.x_zero) - i64::from(w_zero[j]) * row(i);
                let real = sum as f32 * (0.1 * factor[j]) + add[j];
                assert_eq!(y, real, "{product:?} {at}");
            }
        }
    }
}

#[test]
fn products_of_bytes_are_exact() {
    each_level(|_| {
        let sizes = [[1, 1, 1], [1, 70, 9], [3, 16, 4], [13, 65, 33], [100, 10, 130], [2, 3, 0]];
        for (seed, sizes) in sizes.into_iter().enumerate() {
            check_matmul::<i8, i8>(sizes, seed);
            check_matmul::<u8, u8>(sizes, seed + 1);
            check_matmul::<i8, u8>(sizes, seed + 2);
            check_matmul::<u8, i8>(sizes, seed + 3);
        }
        // More rows than are copied together.
        check_matmul::<i8, i8>([140, 40, 2500], 1);
        check_matmul::<u8, u8>([140, 40, 2500], 1);
    });
}

fn check_binary<A: Byte, B: Byte, Y: Byte>(n: usize, one: bool) {
    let (a, b): (Vec<A>, Vec<B>) = (bytes(n, 1), bytes(if one { 1 } else { n }, 2));
    let (za, zb) = (100 - i32::from(A::FLIP), 140 - i32::from(B::FLIP));
    let of = Blend { zeros: [za, zb], scales: [0.037, 0.11], scale: 0.09, one, factors: None };
    let to = limits::<A, Y>(n);
    let (mut sum, mut product) = (vec![Y::ZERO; n], vec![Y::ZERO; n]);
    add(&a, &b, &mut sum, of, to);
    mul(&a, &b, &mut product, of, to);
    let quantized = |x: f32| {
        let x = (x / 0.09).round_ties_even() as i64 + i64::from(to.y_zero);
        x.clamp(to.low.into(), to.high.into())
    };
    for i in 0..n {
        let a = (a[i].to_i64() - i64::from(za)) as f32 * 0.037;
        let b = (b[if one { 0 } else { i }].to_i64() - i64::from(zb)) as f32 * 0.11;
        assert_eq!(sum[i].to_i64(), quantized(a + b));
        assert_eq!(product[i].to_i64(), quantized(a * b));
    }
}

/// Compares all pairs of bytes, with and without factors.
#[test]
fn factors_of_sums_give_the_same_bytes() {
    let each = |f: fn(usize) -> usize| (0..1 << 16).map(|i| f(i) as u8).collect::<Vec<u8>>();
    let (a, b) = (each(|i| i % 256), each(|i| i / 256));
    let mut found = 0;
    for i in 0..20 {
        // No two sums are equal or tie.
        let scales = [(i as f32 + 3.0).sqrt() * 0.02, (i as f32 + 7.0).cbrt() * 0.04];
        let zeros = [100 + i, 131 - 6 * i];
        let of = Blend { zeros, scales, scale: 0.09, one: false, factors: None };
        let to = Requantize { x_zero: 0, y_zero: 7 * i, low: 3, high: 250 };
        let factors = sum_factors(of, to);
        found += usize::from(factors.is_some());
        each_level(|level| {
            let [by_scales, by_factors] = [None, factors].map(|factors| {
                let mut y = vec![0u8; a.len()];
                add(&a, &b, &mut y, Blend { factors, ..of }, to);
                y
            });
            assert!(by_scales == by_factors, "{level:?} {of:?} {factors:?}");
        });
    }
    assert!(found > 15, "{found}");
    // Products with these factors may be infinite or NaN.
    let (scales, scale) = ([1.0; 2], f32::MIN_POSITIVE);
    let of = Blend { zeros: [0; 2], scales, scale, one: false, factors: None };
    assert_eq!(sum_factors(of, Requantize { x_zero: 0, y_zero: 0, low: 0, high: 255 }), None);
}

#[test]
fn sums_and_products_of_elements_are_those_of_real_numbers() {
    each_level(|_| {
        for n in [0, 1, 5, 63, 64, 65, 200] {
            for one in [false, true] {
                check_binary::<i8, i8, i8>(n, one);
                check_binary::<u8, i8, u8>(n, one);
                check_binary::<i8, u8, u8>(n, one);
                check_binary::<u8, u8, i8>(n, one);
            }
        }
    });
}

fn check_repeated<A: Byte, B: Byte, Y: Byte>(count: usize, rows: Repeated) {
    let n = count * rows.row * rows.times;
    let (a, b): (Vec<A>, Vec<B>) = (bytes(n, 1), bytes(count * rows.row, 2));
    let zeros = [3, -5];
    let of = Blend { zeros, scales: [0.037, 0.11], scale: 0.09, one: false, factors: None };
    let to = limits::<A, Y>(n);
    let from = |i: usize| i / rows.row / rows.times * rows.row + i % rows.row;
    let whole: Vec<B> = (0..n).map(|i| b[from(i)]).collect();
    let [mut found, mut expected] = [0; 2].map(|_| vec![Y::ZERO; n]);
    add_repeated(&a, &b, &mut found, of, to, rows);
    add(&a, &whole, &mut expected, of, to);
    assert!(found == expected);
    mul_repeated(&a, &b, &mut found, of, to, rows);
    mul(&a, &whole, &mut expected, of, to);
    assert!(found == expected);
}

#[test]
fn repeated_rows_are_broadcast() {
    each_level(|_| {
        for (count, row, times) in [(1, 8, 5), (2, 100, 3), (3, 1, 70), (2, 1, 1), (0, 4, 4)] {
            check_repeated::<i8, u8, i8>(count, Repeated { row, times });
            check_repeated::<u8, i8, u8>(count, Repeated { row, times });
        }
    });
}

#[test]
fn a_table_starts_with_the_smallest_byte() {
    let entries: Vec<u8> = (0..=255).map(|i: usize| (i * 7 + i * i / 3) as u8).collect();
    each_level(|_| {
        for n in [0, 4, 63, 64, 200] {
            let mut y = vec![0; n];
            let x: Vec<u8> = bytes(n, n);
            table(&x, &entries, &mut y);
            assert!(y.iter().zip(&x).all(|(&y, &x)| y == entries[usize::from(x)]));
            let x: Vec<i8> = bytes(n, n);
            table(&x, &entries, &mut y);
            let entry =
                |x: i8| entries[usize::try_from(i32::from(x) + 128).expect("it is positive")];
            assert!(y.iter().zip(&x).all(|(&y, &x)| y == entry(x)));
        }
    });
}

/// Compares means with plain sums of all elements of each window.
#[test]
fn means_of_windows_are_rounded_once() {
    let check = |size: [usize; 2], kernel: [usize; 2], strides: [usize; 2], pads: [usize; 2]| {
        let ends = &[1, 0];
        let out: [usize; 2] = core::array::from_fn(|axis| {
            (size[axis] + pads[axis] + ends[axis] - kernel[axis]) / strides[axis] + 1
        });
        let [rows, columns] = out;
        let geometry = Pool {
            planes: 3,
            size: &size,
            out: &out,
            kernel: &kernel,
            strides: &strides,
            dilations: &[1, 1],
            pads: &pads,
            ends,
        };
        let x: Vec<i8> = bytes(3 * size[0] * size[1], rows);
        let to = Requantize { x_zero: -7, y_zero: 90, low: 3, high: 250 };
        for padded in [false, true] {
            let mut y = vec![0u8; 3 * rows * columns];
            average_pool(&x, &mut y, geometry, to, 1.7, padded);
            for (at, &y) in y.iter().enumerate() {
                let (plane, place) = (at / (rows * columns), [at / columns % rows, at % columns]);
                let (mut sum, mut inside) = (0, 0);
                for tap in 0..kernel[0] * kernel[1] {
                    let [i, j] = [tap / kernel[1], tap % kernel[1]];
                    let row = (place[0] * strides[0] + i).wrapping_sub(pads[0]);
                    let column = (place[1] * strides[1] + j).wrapping_sub(pads[1]);
                    if row < size[0] && column < size[1] {
                        let x = x[(plane * size[0] + row) * size[1] + column];
                        (sum, inside) = (sum + i32::from(x) + 7, inside + 1);
                    }
                }
                let window = Taps {
                    size: &size,
                    out: &out,
                    kernel: &kernel,
                    strides: &strides,
                    dilations: &[1, 1],
                    pads: &pads,
                };
                let count = window.count(at % (rows * columns), padded.then_some(ends));
                assert!(padded || count == inside);
                let steps = (sum as f32 * (1.7 / count.max(1) as f32)).round_ties_even() as i32;
                assert_eq!(i32::from(y), (steps + 90).clamp(3, 250), "{at} of {out:?}");
            }
        }
    };
    each_level(|_| {
        check([8, 150], [2, 2], [2, 2], [0, 0]);
        check([9, 90], [3, 3], [1, 1], [1, 1]);
        check([7, 11], [3, 5], [2, 3], [1, 2]);
        check([6, 5], [6, 5], [1, 1], [0, 0]);
    });
}

#[test]
fn means_count_the_padding_or_do_not() {
    let pool = |kernel, out, pads, ends| Pool {
        planes: 2,
        size: &[3],
        out,
        kernel,
        strides: &[1],
        dilations: &[1],
        pads,
        ends,
    };
    let to = Requantize { x_zero: 10, y_zero: -3, low: -128, high: 127 };
    let x = [10u8, 20, 40, 0, 0, 255];
    let mut y = [0i8; 6];
    let padded = pool(&[2], &[3], &[1], &[0]);
    average_pool(&x, &mut y, padded, to, 1.0, false);
    assert_eq!(y, [-3, 2, 17, -13, -13, 115]);
    average_pool(&x, &mut y, padded, to, 1.0, true);
    assert_eq!(y, [-3, 2, 17, -8, -13, 115]);
    let mut y = [0i8; 2];
    average_pool(&x, &mut y, pool(&[3], &[1], &[0], &[0]), to, 0.5, false);
    assert_eq!(y, [4, 35]);
    small_means(&x, &mut y, to, 0.5);
    assert_eq!(y, [4, 35]);
}
