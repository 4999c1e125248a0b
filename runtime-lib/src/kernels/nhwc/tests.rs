//! Compares NHWC kernels of bytes with scalar sums, at every level.

use super::*;
use crate::kernels::blocked::Channels;
use crate::kernels::conv::{Conv, WeightLayout};
use crate::kernels::pool::Pool;
use crate::kernels::quantized::{Blend, Int8Operands, Requantize, add};
use crate::simd::{Level, each_level};
use std::panic::catch_unwind;
use std::{vec, vec::Vec};

fn bytes(n: usize, seed: usize) -> Vec<u8> {
    (0..n).map(|i| (((i * 7919 + seed * 104_729) >> 3) % 256) as u8).collect()
}

fn signed(n: usize, seed: usize) -> Vec<i8> {
    bytes(n, seed).into_iter().map(|x| x as i8).collect()
}

fn to_last(x: &[u8], shape: Channels) -> Vec<u8> {
    let mut y = vec![9; shape.batch * shape.pixels * pixel_len(shape.channels)];
    from_channels_first(x, &mut y, shape);
    y
}

fn to_first(x: &[u8], shape: Channels) -> Vec<u8> {
    let mut y = vec![9; shape.batch * shape.pixels * shape.channels];
    to_channels_first(x, &mut y, shape);
    y
}

const TO: Requantize = Requantize { x_zero: 77, y_zero: 100, low: 20, high: 235 };

/// The combination of a result and a residual.
const BLEND: Blend =
    Blend { zeros: [100, 131], scales: [0.037, 0.11], scale: 0.09, one: false, factors: None };
const SUM: Requantize = Requantize { x_zero: 0, y_zero: 90, low: 90, high: 249 };

fn expected(sum: i64, factor: f32, offset: Option<f32>) -> u8 {
    let x = match offset {
        None => (sum as f64 * f64::from(factor)).round_ties_even(),
        Some(offset) => (sum as f32 * factor + offset).round_ties_even().into(),
    };
    (x as i64 + i64::from(TO.y_zero)).clamp(TO.low.into(), TO.high.into()) as u8
}

fn images(conv: &Conv<'_>) -> [Channels; 2] {
    let Conv { batch, groups, channels, filters, .. } = *conv;
    let window = conv.window();
    [
        Channels { batch, channels: groups * channels, pixels: window.elements() },
        Channels { batch, channels: groups * filters, pixels: window.places() },
    ]
}

/// Returns the parameters of channels in the order in which the kernel reads them.
fn placed<T: Copy>(numbers: &[T], none: T, is_depthwise: bool) -> Vec<T> {
    let places = 0..numbers.len().next_multiple_of(BLOCK);
    let channel = |place: usize| match is_depthwise {
        true => place / BLOCK * BLOCK + depthwise_order(place % BLOCK),
        false => place,
    };
    places.map(|place| numbers.get(channel(place)).copied().unwrap_or(none)).collect()
}

fn check_conv(of: &Conv<'_>, seed: usize) {
    let window = of.window();
    let Conv { batch, groups, channels, filters, .. } = *of;
    let (taps, all) = (window.taps(), groups * filters);
    let (k, [from, to]) = (channels * taps, images(of));
    let x = bytes(batch * from.channels * from.pixels, seed);
    let w = signed(all * k, seed + 1);
    let bias: Vec<i32> = (0..all).map(|i| (i as i32 * 37 % 101 - 50) * 20).collect();
    let factor: Vec<f32> =
        (0..all).map(|i| (0.3 + (i % 7) as f32 / 11.0) / (40.0 * (k as f32).sqrt())).collect();
    let offset: Vec<f32> = (0..all).map(|i| i as f32 / 30.0 - 1.0).collect();
    let start = (0..all).map(|i| {
        let sum: i64 = w[i * k..][..k].iter().map(|&w| i64::from(w)).sum();
        (i64::from(bias[i]) - i64::from(TO.x_zero) * sum) as i32
    });
    let start: Vec<i32> = start.collect();
    let is_depthwise = groups > 1;
    let start = placed(&start, 0, is_depthwise);
    let factors = placed(&factor, 1.0, is_depthwise);
    let offsets = placed(&offset, 0.0, is_depthwise);
    let offsets = seed.is_multiple_of(3).then_some(&offsets[..]);
    let image = to_last(&x, from);
    let mut y = vec![7; batch * to.pixels * pixel_len(to.channels)];
    if is_depthwise {
        let mut packed = vec![5; packed_depthwise_weights_len(of)];
        pack_depthwise_weights(&w, &mut packed, of);
        let mut at = vec![7; depthwise_starts(of)];
        let mut scratch = vec![9; depthwise_scratch(of)];
        let (at, scratch) = (&mut at, &mut scratch);
        int8_depthwise_nhwc(
            Int8Operands { x: &image, w: &packed, bias: &start, factor: &factors, offset: offsets },
            &mut y,
            at,
            scratch,
            *of,
            TO,
        );
    } else {
        let mut packed = vec![5; packed_weights_len(of)];
        pack_weights(&w, &mut packed, of);
        let (mut at, mut scratch) = (vec![7; conv_starts(of)], vec![9; conv_scratch(of)]);
        let (at, scratch) = (&mut at, &mut scratch);
        int8_conv_nhwc(
            Int8Operands { x: &image, w: &packed, bias: &start, factor: &factors, offset: offsets },
            &mut y,
            at,
            scratch,
            *of,
            TO,
        );
        let addend = bytes(y.len(), seed + 2);
        let (mut sum, mut both) = (vec![7; y.len()], vec![8; y.len()]);
        add(&y, &addend, &mut both, BLEND, SUM);
        int8_conv_add_nhwc(
            Int8AddOperands {
                x: &image,
                w: &packed,
                bias: &start,
                factor: &factors,
                offset: offsets,
                addend: &addend,
            },
            &mut sum,
            Int8Scratch { starts: at, scratch },
            *of,
            TO,
            BLEND,
            SUM,
        );
        assert!(to_first(&sum, to) == to_first(&both, to), "{of:?} {seed}");
    }
    for (at, y) in to_first(&y, to).into_iter().enumerate() {
        let (image, filter, place) = (at / to.pixels / all, at / to.pixels % all, at % to.pixels);
        let terms = (0..k).map(|i| {
            let channel = filter / filters * channels + i / taps;
            let Some(at) = window.input(place, i % taps) else { return 0 };
            let x = x[(image * from.channels + channel) * from.pixels + at];
            i64::from(i32::from(x) - TO.x_zero) * i64::from(w[filter * k + i])
        });
        let sum = terms.sum::<i64>() + i64::from(bias[filter]);
        let offset = offsets.map(|_| offset[filter]);
        assert_eq!(y, expected(sum, factor[filter], offset), "{of:?} {seed} {at}");
    }
}

/// Checks convolutions over images of these sizes.
fn check_window(
    sizes: &[usize],
    kernel: &[usize],
    [stride, dilation, pad]: [usize; 3],
    [groups, channels, filters]: [usize; 3],
    seed: usize,
) {
    let out = |(size, kernel): (&usize, &usize)| {
        let reach = (kernel - 1) * dilation + 1;
        (size + 2 * pad).checked_sub(reach).map_or(0, |left| left / stride + 1)
    };
    let out: Vec<usize> = sizes.iter().zip(kernel).map(out).collect();
    let all = |x: usize| vec![x; sizes.len()];
    check_conv(
        &Conv {
            batch: 1 + seed % 2,
            groups,
            channels,
            filters,
            size: sizes,
            out: &out,
            kernel,
            strides: &all(stride),
            dilations: &all(dilation),
            pads: &all(pad),
            weights: WeightLayout::Packed,
        },
        seed,
    );
}

const WINDOWS: &[(&[usize], &[usize], [usize; 3])] = &[
    (&[1, 1], &[1, 1], [1, 1, 0]),
    (&[5, 7], &[1, 1], [1, 1, 0]),
    (&[7, 9], &[1, 1], [2, 1, 0]),
    (&[6, 5], &[3, 3], [1, 1, 1]),
    (&[6, 6], &[3, 3], [1, 1, 0]),
    (&[9, 8], &[3, 3], [2, 1, 1]),
    (&[7, 7], &[5, 5], [1, 1, 2]),
    (&[9, 9], &[3, 3], [1, 2, 2]),
    (&[2, 3], &[3, 3], [1, 1, 2]),
    (&[11], &[4], [3, 1, 1]),
    (&[12, 9], &[10, 4], [2, 1, 3]),
    (&[3, 4, 3], &[2, 3, 2], [1, 1, 1]),
];

#[test]
fn convolutions_of_all_channels_are_sums() {
    each_level(|_| {
        for (seed, &(sizes, kernel, steps)) in WINDOWS.iter().enumerate() {
            for (i, [channels, filters]) in
                [[1, 1], [1, 70], [2, 20], [3, 16], [4, 33], [10, 64], [17, 115], [8, 130]]
                    .into_iter()
                    .enumerate()
            {
                check_window(sizes, kernel, steps, [1, channels, filters], seed + i);
            }
        }
    });
}

#[test]
fn convolutions_of_single_channels_are_sums() {
    each_level(|_| {
        for (seed, &(sizes, kernel, steps)) in WINDOWS.iter().enumerate() {
            for (i, groups) in [4, 16, 29, 64, 150].into_iter().enumerate() {
                check_window(sizes, kernel, steps, [groups, 1, 1], seed + i);
            }
        }
    });
}

#[test]
fn images_of_several_bands_match() {
    each_level(|_| {
        for (seed, stride) in [1, 2, 3].into_iter().enumerate() {
            check_window(&[41, 50], &[3, 3], [stride, 1, 1], [80, 1, 1], seed);
        }
    });
}

#[test]
fn channels_survive_a_round_trip_to_blocks() {
    each_level(|_| {
        for channels in [1, 2, 3, 4, 5, 8, 31] {
            for pixels in [1, 7, 64, 130] {
                let shape = Channels { batch: 2, channels, pixels };
                let x: Vec<i8> = signed(2 * channels * pixels, channels);
                let mut last = vec![9; 2 * pixels * pixel_len(channels)];
                from_channels_first(&x, &mut last, shape);
                assert_eq!(last[0], x[0] as u8 ^ 0x80);
                let mut back = vec![0i8; x.len()];
                to_channels_first(&last, &mut back, shape);
                assert_eq!(x, back);
            }
        }
    });
}

#[test]
fn pools_fold_windows() {
    let geometry = Pool {
        planes: 2,
        size: &[7, 9],
        out: &[4, 5],
        kernel: &[3, 3],
        strides: &[2, 2],
        dilations: &[1, 1],
        pads: &[1, 1],
        ends: &[1, 1],
    };
    let whole = Pool {
        out: &[1, 1],
        kernel: &[7, 9],
        strides: &[1, 1],
        pads: &[0, 0],
        ends: &[0, 0],
        ..geometry
    };
    each_level(|_| {
        for (channels, geometry) in [(5, geometry), (130, geometry), (70, whole), (64, whole)] {
            let pixels = geometry.size.iter().product();
            let from = Channels { batch: 2, channels, pixels };
            let to = Channels { pixels: geometry.out.iter().product(), ..from };
            let x = bytes(2 * channels * pixels, channels);
            let last = to_last(&x, from);
            let planes = Pool { planes: 2 * channels, ..geometry };
            let mut y = vec![3; 2 * to.pixels * pixel_len(channels)];
            let mut first = vec![4; 2 * to.pixels * channels];
            max_pool(&last, &mut y, geometry);
            crate::kernels::pool::max_pool(&x, &mut first, planes);
            assert!(to_first(&y, to) == first);
            for padded in [false, true] {
                average_pool(&last, &mut y, geometry, TO, 0.4, padded);
                crate::kernels::quantized::average_pool(&x, &mut first, planes, TO, 0.4, padded);
                assert!(to_first(&y, to) == first);
            }
        }
    });
}

#[test]
fn windows_that_start_before_the_image_panic() {
    let geometry = Conv {
        batch: 1,
        groups: 1,
        channels: 4,
        filters: 16,
        size: &[2],
        out: &[2],
        kernel: &[1],
        // The stride wraps around to -1.
        strides: &[usize::MAX],
        dilations: &[1],
        pads: &[0],
        weights: WeightLayout::Plain,
    };
    let convolve = || {
        let (mut y, mut at, mut scratch) = ([0; 32], [0; 1], [0; 1024]);
        let (bias, factor) = ([0; 16], [1.0; 16]);
        let (at, scratch) = (&mut at, &mut scratch);
        int8_conv_nhwc(
            Int8Operands { x: &[1; 8], w: &[1; 64], bias: &bias, factor: &factor, offset: None },
            &mut y,
            at,
            scratch,
            geometry,
            TO,
        );
    };
    each_level(|level| {
        // Without vectors, such windows are read as empty.
        let refused = catch_unwind(convolve).is_err();
        assert!(refused || matches!(level, Level::Portable(_)), "{level:?}");
    });
}
