//! Compares NCHWc convolutions with NCHW ones.

mod bands;
mod gated;
mod narrow;
mod tiles;

use super::*;
use crate::kernels::blocked::{Channels, block, unblock};
use crate::kernels::conv::{WeightLayout, conv};
use crate::kernels::matmul::tests::numbers;
use crate::simd::each_level;
use std::panic::catch_unwind;
use std::{vec, vec::Vec};

fn some(n: usize, seed: u64) -> Vec<f32> {
    numbers(n, seed).into_iter().map(|x| x as f32).collect()
}

fn wide(x: &[f32]) -> Vec<f64> {
    x.iter().map(|&x| f64::from(x)).collect()
}

/// Returns the geometry of images with this number of channels and these sizes.
fn channels(batch: usize, channels: usize, sizes: &[usize]) -> Channels {
    Channels { batch, channels, pixels: product(sizes) }
}

fn blocked(x: &[f32], of: Channels) -> Vec<f32> {
    let mut y = vec![f32::NAN; of.batch * of.channels.div_ceil(BLOCK) * of.pixels * BLOCK];
    block(x, &mut y, of);
    y
}

/// A kernel.
type Run = fn(ConvOperands<'_, f32>, &mut [f32], &mut [f32], Conv<'_>, Activation);

/// A kernel and its properties.
struct Way {
    unit: usize,
    run: Run,
    scratch: fn(&Conv<'_>) -> usize,
    packed: fn(&Conv<'_>) -> usize,
    /// Whether the error is relative to the largest number nearby.
    is_shared: bool,
    pack: fn(&[f32], &mut [f32], &Conv<'_>),
}

const NCHWC: Way = Way {
    unit: BLOCK,
    run: conv_nchwc,
    scratch: conv_nchwc_scratch,
    packed: packed_blocks_len,
    is_shared: false,
    pack: |w, y, geometry| pack_blocks(w, y, geometry, BLOCK),
};
/// [`NCHWC`] for sums of many products, whose rounding errors do not cancel as their terms do.
const DEEP: Way = Way { is_shared: true, ..NCHWC };
const TO_BLOCKS: Way = Way {
    unit: 1,
    run: conv_nchw_to_nchwc,
    scratch: conv_nchw_to_nchwc_scratch,
    packed: packed_blocks_len,
    is_shared: false,
    pack: |w, y, geometry| pack_blocks(w, y, geometry, 1),
};
const GROUPS: Way = Way {
    unit: BLOCK,
    run: |operands, y, scratch, geometry, f| {
        grouped_conv_nchwc(operands, y, scratch, geometry, 1, f);
    },
    scratch: conv_nchwc_scratch,
    packed: packed_groups_len,
    is_shared: false,
    pack: |w, y, geometry| pack_groups(w, y, *geometry, 1),
};
const DEPTHWISE: Way = Way {
    unit: BLOCK,
    run: |operands, y, _, geometry, f| {
        depthwise_nchwc(operands, y, geometry, f);
    },
    scratch: |_| 0,
    packed: packed_blocks_len,
    is_shared: false,
    pack: pack_depthwise_blocks,
};
/// Compares a kernel with the definition at each level, with and without a bias and a residual.
fn check(way: &Way, geometry: Conv<'_>) {
    let Conv { batch, groups, size, out, .. } = geometry;
    let of_x = channels(batch, groups * geometry.channels, size);
    let of_y = channels(batch, groups * geometry.filters, out);
    let x = some(batch * of_x.channels * of_x.pixels, 1);
    let w = some(of_y.channels * geometry.depth(), 2);
    let (bias, add) = (some(of_y.channels, 3), some(batch * of_y.channels * of_y.pixels, 4));
    let mut packed = vec![f32::NAN; (way.packed)(&geometry)];
    (way.pack)(&w, &mut packed, &geometry);
    let mut padded = bias.clone();
    padded.resize(of_y.channels.next_multiple_of(BLOCK), 0.0);
    let x_blocked = if way.unit == 1 { x.clone() } else { blocked(&x, of_x) };
    let (add_blocked, wide_x, wide_w) = (blocked(&add, of_y), wide(&x), wide(&w));
    let (wide_bias, wide_add) = (wide(&bias), wide(&add));
    for (given, f) in
        [(false, Activation::Identity), (true, Activation::Relu), (true, Activation::HardSwish)]
    {
        let mut truth = vec![0.0; add.len()];
        let given_wide = |x| if given { Some(x) } else { None };
        let (b, a) = (given_wide(&wide_bias[..]), given_wide(&wide_add[..]));
        conv(ConvOperands { x: &wide_x, w: &wide_w, bias: b, add: a }, &mut truth, geometry, f);
        let largest = truth.iter().fold(0.0_f64, |largest, x| largest.max(x.abs()));
        each_level(|level| {
            let best = (way.scratch)(&geometry);
            let mut scratch = vec![f32::NAN; best];
            let mut y = vec![f32::NAN; add_blocked.len()];
            let (b, a) = match given {
                true => (Some(&padded[..]), Some(&add_blocked[..])),
                false => (None, None),
            };
            (way.run)(
                ConvOperands { x: &x_blocked, w: &packed, bias: b, add: a },
                &mut y,
                &mut scratch,
                geometry,
                f,
            );
            assert!(y.iter().all(|y| y.is_finite()), "{level:?} {geometry:?}");
            let mut plain = vec![f32::NAN; add.len()];
            unblock(&y, &mut plain, of_y);
            for (at, (y, truth)) in plain.iter().zip(&truth).enumerate() {
                let size = 1.0 + if way.is_shared { largest } else { truth.abs() };
                let near = (f64::from(*y) - truth).abs() <= 1e-5 * size;
                assert!(near, "{level:?} {geometry:?} {f:?}: y[{at}] is {y}, not {truth}");
            }
        });
    }
}

/// A window over an image of two axes.
#[derive(Clone, Copy)]
struct Over {
    size: [usize; 2],
    kernel: [usize; 2],
    strides: [usize; 2],
    dilations: [usize; 2],
    pads: [usize; 2],
    ends: [usize; 2],
}

impl Over {
    fn check(&self, way: &Way, batch: usize, groups: usize, channels: usize, filters: usize) {
        self.with([batch, groups, channels, filters], |geometry| check(way, geometry));
    }

    fn with(&self, [batch, groups, channels, filters]: [usize; 4], then: impl FnOnce(Conv<'_>)) {
        let reach = |i: usize| (self.kernel[i] - 1) * self.dilations[i];
        let last = |i: usize| self.size[i] + self.pads[i] + self.ends[i] - reach(i) - 1;
        let out = [0, 1].map(|i| last(i) / self.strides[i] + 1);
        let geometry = Conv {
            batch,
            groups,
            channels,
            filters,
            size: &self.size,
            out: &out,
            kernel: &self.kernel,
            strides: &self.strides,
            dilations: &self.dilations,
            pads: &self.pads,
            weights: WeightLayout::Packed,
        };
        then(geometry);
    }
}

/// Calls `then` with a convolution over three axes: sizes, window, strides, dilations, and padding
/// on both sides.
fn with_three_axes(
    [size, kernel, strides, dilations, pads]: [[usize; 3]; 5],
    [batch, groups, channels, filters]: [usize; 4],
    then: impl FnOnce(Conv<'_>),
) {
    let out = [0, 1, 2].map(|i| {
        let reach = (kernel[i] - 1) * dilations[i];
        (size[i] + 2 * pads[i] - reach - 1) / strides[i] + 1
    });
    then(Conv {
        batch,
        groups,
        channels,
        filters,
        size: &size,
        out: &out,
        kernel: &kernel,
        strides: &strides,
        dilations: &dilations,
        pads: &pads,
        weights: WeightLayout::Packed,
    });
}

const SQUARE: Over = Over {
    size: [9, 11],
    kernel: [3, 3],
    strides: [1, 1],
    dilations: [1, 1],
    pads: [1, 1],
    ends: [1, 1],
};

fn windows() -> Vec<Over> {
    let mut all = vec![
        SQUARE,
        Over { kernel: [1, 1], pads: [0, 0], ends: [0, 0], ..SQUARE },
        Over { pads: [0, 0], ends: [0, 0], ..SQUARE },
        Over { pads: [0, 0], ..SQUARE },
        Over { strides: [2, 2], ..SQUARE },
        Over { kernel: [1, 1], strides: [2, 3], pads: [0, 0], ends: [0, 0], ..SQUARE },
        Over { kernel: [5, 2], strides: [3, 1], pads: [2, 0], ends: [1, 1], ..SQUARE },
        Over { dilations: [2, 3], pads: [2, 3], ends: [0, 1], ..SQUARE },
        Over { strides: [1, 2], dilations: [1, 2], pads: [0, 2], ends: [2, 2], ..SQUARE },
        Over { size: [1, 40], kernel: [1, 5], pads: [0, 4], ends: [0, 0], ..SQUARE },
        Over { size: [3, 1], kernel: [3, 1], pads: [2, 3], ends: [2, 0], ..SQUARE },
    ];
    for size in 1..34 {
        all.push(Over { size: [if size < 9 { 7 } else { 2 }, size], ..SQUARE });
    }
    all
}

#[test]
fn nchwc_equals_nchw() {
    for over in windows() {
        for (batch, channels, filters) in [(1, 16, 16), (2, 20, 24), (1, 3, 33)] {
            over.check(&NCHWC, batch, 1, channels, filters);
            over.check(&TO_BLOCKS, batch, 1, channels, filters);
        }
    }
}

#[test]
fn windows_overlap_in_tiles_of_every_width() {
    for size in 1..36 {
        let five = Over { kernel: [3, 5], pads: [1, 2], ends: [1, 2], ..SQUARE };
        Over { size: [3, size], ..five }.check(&TO_BLOCKS, 1, 1, 3, 16);
        let apart = Over { size: [5, 2 * size], strides: [2, 2], ..SQUARE };
        apart.check(&TO_BLOCKS, 1, 1, 3, 8);
    }
}

#[test]
fn few_pixels_of_many_channels_match() {
    for cols in 1..6 {
        let row = Over { size: [1, cols], kernel: [1, 1], pads: [0, 0], ends: [0, 0], ..SQUARE };
        row.check(&NCHWC, 2, 1, 20, 90);
        row.check(&TO_BLOCKS, 2, 1, 20, 90);
    }
}

#[test]
fn each_channel_alone() {
    for over in windows() {
        // Small images are padded, larger ones are read in place.
        let large = Over { size: over.size.map(|size| size + 15), ..over };
        for (over, batch, channels) in [(over, 1, 16), (over, 2, 21), (large, 1, 16)] {
            over.check(&DEPTHWISE, batch, channels, 1, 1);
        }
    }
}

#[test]
fn groups_may_be_incomplete() {
    for over in windows() {
        for (groups, channels, filters) in [(1, 17, 24), (2, 16, 32), (3, 5, 7), (4, 9, 34)] {
            over.check(&GROUPS, 2, groups, channels, filters);
        }
    }
    SQUARE.check(&GROUPS, 1, 0, 4, 4);
    SQUARE.check(&GROUPS, 1, 3, 0, 4);
    SQUARE.check(&GROUPS, 1, 3, 4, 0);
}

/// An infinity in a group does not affect the others.
#[test]
fn groups_do_not_mix() {
    SQUARE.with([1, 3, 6, 6], |geometry| {
        let of = channels(1, 18, &SQUARE.size);
        let mut x = some(18 * of.pixels, 1);
        x[6 * of.pixels..12 * of.pixels].fill(f32::INFINITY);
        let mut packed = vec![f32::NAN; packed_groups_len(&geometry)];
        pack_groups(&some(18 * geometry.depth(), 2), &mut packed, geometry, 1);
        each_level(|level| {
            let mut scratch = vec![f32::NAN; conv_nchwc_scratch(&geometry)];
            let mut y = vec![f32::NAN; 2 * BLOCK * of.pixels];
            let (x, f) = (blocked(&x, of), Activation::Identity);
            grouped_conv_nchwc(
                ConvOperands { x: &x, w: &packed, bias: None, add: None },
                &mut y,
                &mut scratch,
                geometry,
                1,
                f,
            );
            let mut plain = vec![f32::NAN; 18 * of.pixels];
            unblock(&y, &mut plain, of);
            for (channel, y) in plain.chunks_exact(of.pixels).enumerate() {
                let own = (6..12).contains(&channel);
                assert!(y.iter().all(|y| y.is_finite() != own), "{level:?} {channel}");
            }
        });
    });
}

#[test]
fn channels_are_read_as_if_shuffled() {
    for (groups, depth, filters, shuffled) in [(1, 34, 20, 2), (4, 34, 34, 4), (3, 10, 7, 5)] {
        SQUARE.with([2, groups, depth, filters], |geometry| {
            let of = channels(1, groups * depth, &SQUARE.size);
            let each = of.channels / shuffled;
            let x = some(2 * of.channels * of.pixels, 1);
            let w = some(groups * filters * geometry.depth(), 2);
            let dealt: Vec<f32> = (0..x.len())
                .map(|at| {
                    let (image, channel) = (at / of.pixels / of.channels, at / of.pixels);
                    let (channel, pixel) = (channel % of.channels, at % of.pixels);
                    let from = channel % shuffled * each + channel / shuffled;
                    x[(image * of.channels + from) * of.pixels + pixel]
                })
                .collect();
            let run = |x: &[f32], shuffled| {
                let mut packed = vec![f32::NAN; packed_groups_len(&geometry)];
                pack_groups(&w, &mut packed, geometry, shuffled);
                let mut scratch = vec![f32::NAN; conv_nchwc_scratch(&geometry)];
                let len = 2 * (groups * filters).next_multiple_of(BLOCK) * of.pixels;
                let (mut y, f) = (vec![f32::NAN; len], Activation::Relu);
                let x = blocked(x, Channels { batch: 2, ..of });
                grouped_conv_nchwc(
                    ConvOperands { x: &x, w: &packed, bias: None, add: None },
                    &mut y,
                    &mut scratch,
                    geometry,
                    shuffled,
                    f,
                );
                y
            };
            each_level(|level| {
                let (found, truth) = (run(&x, shuffled), run(&dealt, 1));
                for (at, (y, truth)) in found.iter().zip(&truth).enumerate() {
                    assert!((y - truth).abs() <= 1e-4, "{level:?} {at}: {y}, not {truth}");
                }
            });
        });
    }
}

#[test]
fn an_image_of_many_parts_matches() {
    let over = Over { size: [70, 70], ..SQUARE };
    over.check(&NCHWC, 1, 1, 33, 16);
    over.check(&TO_BLOCKS, 1, 1, 17, 16);
    over.check(&DEPTHWISE, 1, 16, 1, 1);
    let pointwise = Over { kernel: [1, 1], pads: [0, 0], ends: [0, 0], ..over };
    pointwise.check(&NCHWC, 1, 1, 40, 16);
}

#[test]
fn no_pixels_and_no_channels() {
    let over = Over { size: [4, 4], ..SQUARE };
    over.check(&NCHWC, 0, 1, 4, 4);
    over.check(&NCHWC, 1, 1, 0, 4);
    over.check(&NCHWC, 1, 1, 4, 0);
    over.check(&DEPTHWISE, 1, 0, 1, 1);
}

/// Compares weight gradients of NCHWc and NCHW convolutions.
fn check_correlate(geometry: Conv<'_>) {
    let Conv { batch, channels: depth, filters, size, out, .. } = geometry;
    let (of_x, of_dy) = (channels(batch, depth, size), channels(batch, filters, out));
    let x = some(batch * depth * of_x.pixels, 5);
    let dy = some(batch * filters * of_dy.pixels, 6);
    let mut truth = vec![0.0; filters * geometry.depth()];
    crate::kernels::conv::conv_weight_grad(&wide(&x), &wide(&dy), &mut truth, geometry);
    let (x_blocked, dy_blocked) = (blocked(&x, of_x), blocked(&dy, of_dy));
    let near = |dw: &[f32]| {
        for (dw, truth) in dw.iter().zip(&truth) {
            assert!((f64::from(*dw) - truth).abs() < 1e-4, "{geometry:?}: {dw}, not {truth}");
        }
    };
    each_level(|_| {
        let mut dw = vec![f32::NAN; truth.len()];
        let mut scratch = vec![f32::NAN; conv_weight_grad_nchwc_scratch(&geometry)];
        conv_weight_grad_nchwc(&x_blocked, &dy_blocked, &mut dw, &mut scratch, geometry);
        near(&dw);
        dw.fill(f32::NAN);
        let mut scratch = vec![f32::NAN; conv_weight_grad_nchw_to_nchwc_scratch(&geometry)];
        conv_weight_grad_nchw_to_nchwc(&x, &dy_blocked, &mut dw, &mut scratch, geometry);
        near(&dw);
    });
}

/// Compares weight gradients of NCHWc and NCHW depthwise convolutions.
fn check_correlate_depthwise(geometry: Conv<'_>) {
    let Conv { batch, groups, size, out, .. } = geometry;
    let (of_x, of_dy) = (channels(batch, groups, size), channels(batch, groups, out));
    let x = some(batch * groups * of_x.pixels, 5);
    let dy = some(batch * groups * of_dy.pixels, 6);
    let mut truth = vec![0.0; groups * geometry.depth()];
    crate::kernels::conv::conv_weight_grad(&wide(&x), &wide(&dy), &mut truth, geometry);
    let (x, dy) = (blocked(&x, of_x), blocked(&dy, of_dy));
    each_level(|level| {
        let mut dw = vec![f32::NAN; truth.len()];
        let mut scratch = vec![f32::NAN; depthwise_conv_weight_grad_scratch(&geometry)];
        depthwise_conv_weight_grad(&x, &dy, &mut dw, &mut scratch, geometry);
        for (dw, truth) in dw.iter().zip(&truth) {
            let near = (f64::from(*dw) - truth).abs() < 1e-4;
            assert!(near, "{level:?} {geometry:?}: {dw}, not {truth}");
        }
    });
}

/// Compares NCHWc and NCHW transposed convolutions. The images of the former are the results of the
/// latter.
fn check_transpose(conv: Conv<'_>) {
    let Conv { batch, groups, channels: filters, filters: depth, size: out, out: size, .. } = conv;
    let Conv { kernel, strides, dilations, pads, weights, .. } = conv;
    let geometry = crate::kernels::conv::ConvTranspose {
        batch,
        groups,
        channels: depth,
        filters,
        size,
        out,
        kernel,
        strides,
        dilations,
        pads,
        weights,
    };
    let (of_x, of_y) =
        (channels(batch, groups * depth, size), channels(batch, groups * filters, out));
    let x = some(batch * of_x.channels * of_x.pixels, 7);
    let w = some(of_x.channels * filters * product(kernel), 8);
    let mut truth = vec![0.0; batch * of_y.channels * of_y.pixels];
    let (wide_x, wide_w) = (wide(&x), wide(&w));
    let f = Activation::Identity;
    crate::kernels::conv::conv_transpose(
        crate::kernels::conv::ConvOperands { x: &wide_x, w: &wide_w, bias: None, add: None },
        &mut truth,
        geometry,
        f,
    );
    let mut packed = vec![f32::NAN; packed_transposed_len(&geometry)];
    pack_transposed(&w, &mut packed, geometry);
    let x = blocked(&x, of_x);
    each_level(|level| {
        let mut scratch = vec![f32::NAN; conv_transpose_nchwc_scratch(&geometry)];
        let mut y = vec![f32::NAN; batch * of_y.channels.div_ceil(BLOCK) * of_y.pixels * BLOCK];
        match groups {
            1 => conv_transpose_nchwc(&x, &packed, &mut y, &mut scratch, geometry),
            _ => transpose_depthwise(&x, &packed, &mut y, geometry),
        }
        assert!(y.iter().all(|y| y.is_finite()), "{level:?} {geometry:?}");
        let mut plain = vec![f32::NAN; truth.len()];
        unblock(&y, &mut plain, of_y);
        for (at, (y, truth)) in plain.iter().zip(&truth).enumerate() {
            let near = (f64::from(*y) - truth).abs() <= 1e-5 * (1.0 + truth.abs());
            assert!(near, "{level:?} {geometry:?}: y[{at}] is {y}, not {truth}");
        }
    });
}

#[test]
fn a_phase_of_a_convolution_run_backward_is_a_convolution() {
    let strided = [
        SQUARE,
        Over { strides: [2, 2], ..SQUARE },
        Over { strides: [2, 2], size: [10, 8], ..SQUARE },
        Over { strides: [2, 2], pads: [0, 0], ends: [0, 0], ..SQUARE },
        Over { kernel: [1, 1], strides: [2, 3], pads: [0, 0], ends: [0, 0], ..SQUARE },
        Over { kernel: [7, 5], strides: [2, 3], pads: [3, 2], ends: [3, 2], ..SQUARE },
        Over { kernel: [5, 2], strides: [3, 1], pads: [2, 0], ends: [1, 1], ..SQUARE },
        Over { size: [1, 40], kernel: [1, 5], strides: [1, 2], pads: [0, 2], ..SQUARE },
        Over { size: [70, 68], strides: [2, 2], ..SQUARE },
    ];
    for over in strided {
        let fits =
            |i: usize| has_nchwc_conv_transpose(over.kernel[i], over.strides[i], over.pads[i]);
        assert!(fits(0) && fits(1));
        for (batch, channels, filters) in [(1, 16, 16), (2, 20, 36), (1, 33, 3)] {
            over.with([batch, 1, channels, filters], check_transpose);
            over.with([batch, channels, 1, 1], check_transpose);
        }
    }
    assert!(!has_nchwc_conv_transpose(3, 2, 2));
    assert!(!has_nchwc_conv_transpose(1, 2, 2));
}

#[test]
fn weight_gradients_of_nchwc_equal_nchw() {
    for over in windows().into_iter().take(24) {
        for (batch, channels, filters) in [(1, 16, 16), (2, 20, 24), (3, 1, 33), (0, 2, 3)] {
            over.with([batch, 1, channels, filters], check_correlate);
            over.with([batch, filters, 1, 1], check_correlate_depthwise);
        }
    }
}

/// Returns whether a convolution of one image panics. The kernel has memory for small windows.
fn panics(run: Run, geometry: Conv<'_>) -> bool {
    let convolve = || {
        let (x, w) = (vec![1.0; 144], vec![1.0; 9216]);
        let (mut y, mut scratch) = (vec![0.0; geometry.out[0] * BLOCK], vec![0.0; 576]);
        let operands = ConvOperands { x: &x, w: &w, bias: None, add: None };
        run(operands, &mut y, &mut scratch, geometry, Activation::Identity);
    };
    catch_unwind(convolve).is_err()
}

#[test]
fn geometries_that_overflow_panic() {
    const ONE: Conv<'_> = Conv {
        batch: 1,
        groups: 1,
        channels: BLOCK,
        filters: BLOCK,
        size: &[3, 1],
        out: &[4, 1],
        kernel: &[1, 1],
        strides: &[1, 1],
        dilations: &[1, 1],
        pads: &[0, 0],
        weights: WeightLayout::Plain,
    };
    each_level(|level| {
        // Three of these strides wrap around to 2, and these sizes wrap around to 0.
        let far = Conv { channels: 3 * BLOCK, strides: &[usize::MAX / 3 + 1, 1], ..ONE };
        assert!(panics(conv_nchwc, far), "{level:?}");
        let out = &[1, usize::MAX / BLOCK + 2];
        let large = Conv { size: &[1, 1], out, kernel: &[3, 3], pads: &[1, 1], ..ONE };
        assert!(panics(winograd_nchwc, large), "{level:?}");
    });
}
