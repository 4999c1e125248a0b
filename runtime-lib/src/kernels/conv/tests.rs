//! Compares convolutions with their definition.

use super::*;
use crate::kernels::matmul::tests::numbers;
use crate::microkernel::GemmElem;
use crate::simd::{Level, each_level};
use crate::{Float, Number};
use std::{vec, vec::Vec};

fn cast<T: Number>(n: usize, seed: u64) -> Vec<T> {
    numbers(n, seed).into_iter().map(T::from_f64).collect()
}

/// The definition of a convolution, over three axes, in `f64`.
fn truth(x: &[f64], w: &[f64], geometry: &Conv<'_>) -> Vec<f64> {
    let Conv { groups, channels, filters, size, out, kernel, .. } = *geometry;
    let mut y = vec![];
    let at = |axis: usize, out: usize, tap: usize| {
        let at = out * geometry.strides[axis] + tap * geometry.dilations[axis];
        at.checked_sub(geometry.pads[axis]).filter(|&at| at < size[axis])
    };
    for image in 0..geometry.batch {
        for filter in 0..groups * filters {
            for (d, h, v) in cube(out) {
                let mut sum = 0.0;
                for channel in 0..channels {
                    let plane = image * groups * channels + filter / filters * channels + channel;
                    for (tap, (i, j, k)) in cube(kernel).enumerate() {
                        let place = (at(0, d, i), at(1, h, j), at(2, v, k));
                        let (Some(d), Some(h), Some(v)) = place else { continue };
                        let x = x[((plane * size[0] + d) * size[1] + h) * size[2] + v];
                        sum += x * w[(filter * channels + channel) * product(kernel) + tap];
                    }
                }
                y.push(sum);
            }
        }
    }
    y
}

fn cube(sizes: &[usize]) -> impl Iterator<Item = (usize, usize, usize)> {
    let (a, b, c) = (sizes[0], sizes[1], sizes[2]);
    (0..a * b * c).map(move |i| (i / (b * c), i / c % b, i % c))
}

/// A convolution, without the sizes that follow from the others.
#[derive(Clone, Copy, Debug)]
struct Case {
    batch: usize,
    groups: usize,
    channels: usize,
    filters: usize,
    size: [usize; 3],
    kernel: [usize; 3],
    strides: [usize; 3],
    dilations: [usize; 3],
    /// The zeros before and behind.
    pads: [[usize; 2]; 3],
}

const CASE: Case = Case {
    batch: 1,
    groups: 1,
    channels: 1,
    filters: 1,
    size: [1, 1, 1],
    kernel: [1, 1, 1],
    strides: [1, 1, 1],
    dilations: [1, 1, 1],
    pads: [[0, 0]; 3],
};

impl Case {
    /// Compares all kernels with the definition, the fast ones with the best and the smallest
    /// memory.
    fn check(self) {
        let out: Vec<usize> = (0..3)
            .map(|i| {
                let padded = self.size[i] + self.pads[i][0] + self.pads[i][1];
                (padded - (self.kernel[i] - 1) * self.dilations[i] - 1) / self.strides[i] + 1
            })
            .collect();
        let pads = self.pads.map(|[before, _]| before);
        let geometry = Conv {
            batch: self.batch,
            groups: self.groups,
            channels: self.channels,
            filters: self.filters,
            size: &self.size,
            out: &out,
            kernel: &self.kernel,
            strides: &self.strides,
            dilations: &self.dilations,
            pads: &pads,
            weights: WeightLayout::Plain,
        };
        let inputs = self.batch * self.groups * self.channels * product(&self.size);
        let weights = self.groups * self.filters * geometry.depth();
        let outputs = self.batch * self.groups * self.filters * product(&out);
        let (x, w) = (numbers(inputs, 1), numbers(weights, 2));
        let mut y = truth(&x, &w, &geometry);
        let bias = numbers(self.groups * self.filters, 3);
        let add = numbers(outputs, 4);
        for (at, y) in y.iter_mut().enumerate() {
            let channel = at / product(&out) % (self.groups * self.filters);
            *y = (*y + bias[channel] + add[at]).max(0.0);
        }
        each_level(|level| {
            self.check_type::<f32>(level, geometry, &y, 2e-6, conv_f32);
            self.check_type::<f64>(level, geometry, &y, 2e-14, conv_f64);
        });
        self.check_small(geometry, &y);
    }

    /// Checks the kernel for small programs.
    fn check_small(self, geometry: Conv<'_>, truth: &[f64]) {
        let (filters, depth) = (self.groups * self.filters, geometry.depth());
        let inputs = self.batch * self.groups * self.channels * product(&self.size);
        let (x, w) = (cast::<f32>(inputs, 1), cast::<f32>(filters * depth, 2));
        let (bias, add) = (cast::<f32>(filters, 3), cast::<f32>(truth.len(), 4));
        let (mut starts, mut window) =
            (vec![7; product(&self.kernel)], vec![f32::NAN; self.groups * depth]);
        let mut run = |bias, add, f| {
            let mut y = vec![f32::NAN; truth.len()];
            small_conv(
                ConvOperands { x: &x, w: &w, bias, add },
                &mut y,
                &mut starts,
                &mut window,
                geometry,
                f,
            );
            y
        };
        let (bias, add) = (Some(&bias[..]), Some(&add[..]));
        let tolerance = 2e-6 * (1.0 + depth as f64).sqrt();
        for (y, truth) in run(bias, add, Activation::Relu).iter().zip(truth) {
            assert!((f64::from(*y) - truth).abs() <= tolerance, "{self:?}: {y}, not {truth}");
        }
        // Activations are applied once, with bounds and without.
        let plain = run(bias, None, Activation::Identity);
        for f in [Activation::Clip { min: -0.25, max: 0.5 }, Activation::LeakyRelu { alpha: 0.5 }] {
            assert!(
                run(bias, None, f).iter().eq(&plain.iter().map(|&x| f.of(x)).collect::<Vec<_>>())
            );
        }
    }

    fn check_type<T: Float>(
        self,
        level: Level,
        geometry: Conv<'_>,
        truth: &[f64],
        tolerance: f64,
        fast: Kernel<T>,
    ) {
        let depth = geometry.depth();
        let weights = self.groups * self.filters * depth;
        let inputs = self.batch * self.groups * self.channels * product(&self.size);
        let (x, w): (Vec<T>, Vec<T>) = (cast(inputs, 1), cast(weights, 2));
        let bias: Vec<T> = cast(self.groups * self.filters, 3);
        let add: Vec<T> = cast(truth.len(), 4);
        let (bias, add) = (Some(&bias[..]), Some(&add[..]));
        let near = |y: &[T], kernel: &str| {
            for (at, (y, truth)) in y.iter().zip(truth).enumerate() {
                let near = (y.to_f64() - truth).abs() <= tolerance * (1.0 + depth as f64).sqrt();
                assert!(
                    near,
                    "{level:?}: {self:?}, {kernel}: y[{at}] is {}, not {truth}",
                    y.to_f64()
                );
            }
        };
        let mut y = vec![T::ONE; truth.len()];
        conv(ConvOperands { x: &x, w: &w, bias, add }, &mut y, geometry, Activation::Relu);
        near(&y, "plain");
        let mut packed = vec![T::ONE; packed_weights_len(&geometry)];
        pack_weights(&w, &mut packed, &geometry);
        for (weights, w) in [(WeightLayout::Plain, &w), (WeightLayout::Packed, &packed)] {
            let geometry = Conv { weights, ..geometry };
            for len in [conv_scratch(&geometry), conv_least_scratch(&geometry)] {
                let mut scratch = vec![T::from_f64(f64::NAN); len];
                let mut y = vec![T::ONE; truth.len()];
                fast(
                    ConvOperands { x: &x, w, bias, add },
                    &mut y,
                    &mut scratch,
                    geometry,
                    Activation::Relu,
                );
                near(&y, "fast");
            }
        }
    }
}

/// Compares the weight gradient with its definition: each element is the sum of the results of a
/// convolution with only that weight, times the gradient.
type ConvWeightGrad<T> = fn(&[T], &[T], &mut [T], &mut [T], Conv<'_>);

fn correlates<T: GemmElem>(geometry: Conv<'_>, fast: ConvWeightGrad<T>) {
    let Conv { batch, groups, channels, filters, .. } = geometry;
    let x = cast::<T>(batch * groups * channels * product(geometry.size), 3);
    let dy = cast::<T>(batch * groups * filters * product(geometry.out), 4);
    let wide = |x: &[T]| x.iter().map(|x| x.to_f64()).collect::<Vec<f64>>();
    let (wide_x, wide_dy) = (wide(&x), wide(&dy));
    let weights = groups * filters * channels * product(geometry.kernel);
    let truth: Vec<f64> = (0..weights)
        .map(|at| {
            let one: Vec<f64> = (0..weights).map(|i| f64::from(u8::from(i == at))).collect();
            let y = truth(&wide_x, &one, &geometry);
            y.iter().zip(&wide_dy).map(|(y, dy)| y * dy).sum()
        })
        .collect();
    let tolerance = if size_of::<T>() == 4 { 1e-5 } else { 1e-12 };
    let near = |dw: &[T]| {
        let each = dw.iter().zip(&truth);
        let near = each.clone().all(|(dw, truth)| (dw.to_f64() - truth).abs() <= tolerance * 16.0);
        assert!(near, "{geometry:?}: {:?}, not {truth:?}", wide(dw));
    };
    let mut dw = vec![T::ONE; weights];
    conv_weight_grad(&x, &dy, &mut dw, geometry);
    near(&dw);
    for len in [conv_weight_grad_scratch(&geometry), correlate_least_scratch(&geometry)] {
        let mut dw = vec![T::ONE; weights];
        fast(&x, &dy, &mut dw, &mut vec![T::from_f64(f64::NAN); len], geometry);
        near(&dw);
    }
}

#[test]
fn derivatives_by_weights() {
    for (batch, groups, channels, filters) in
        [(1, 1, 1, 1), (3, 1, 7, 5), (2, 3, 2, 13), (0, 1, 2, 2)]
    {
        for (stride, dilation, pad) in [(1, 1, 1), (2, 1, 0), (1, 2, 2), (3, 2, 1)] {
            let size = [2, 9, 11];
            let kernel = [1, 3, 2];
            let reach: [usize; 3] = core::array::from_fn(|axis| (kernel[axis] - 1) * dilation);
            let pads = [0, pad, pad];
            let out: [usize; 3] = core::array::from_fn(|axis| {
                (size[axis] + 2 * pads[axis] - reach[axis] - 1) / stride + 1
            });
            let geometry = Conv {
                batch,
                groups,
                channels,
                filters,
                size: &size,
                out: &out,
                kernel: &kernel,
                strides: &[stride; 3],
                dilations: &[dilation; 3],
                pads: &pads,
                weights: WeightLayout::Plain,
            };
            correlates(geometry, conv_weight_grad_f32);
            correlates(geometry, conv_weight_grad_f64);
        }
    }
}

type Kernel<T> = fn(ConvOperands<'_, T>, &mut [T], &mut [T], Conv<'_>, Activation);

#[test]
fn windows_of_every_kind() {
    for size in 1..8 {
        for kernel in 1..=size.min(4) {
            for stride in 1..4 {
                for dilation in 1..3 {
                    for pads in [[0, 0], [1, 1], [2, 0], [0, 3]] {
                        let padded = size + pads[0] + pads[1];
                        if (kernel - 1) * dilation < padded {
                            let size = [1, size, size + 2];
                            let kernel = [1, kernel, kernel];
                            let strides = [1, stride, stride];
                            let dilations = [1, dilation, 1];
                            let pads = [[0, 0], pads, [pads[1], pads[0]]];
                            Case { size, kernel, strides, dilations, pads, ..CASE }.check();
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn one_pixel() {
    let case = Case { batch: 2, groups: 2, channels: 3, filters: 5, ..CASE };
    Case { size: [1, 3, 4], kernel: [1, 3, 4], ..case }.check();
    let pads = [[0, 0], [1, 1], [2, 1]];
    Case { size: [1, 2, 3], kernel: [1, 3, 2], strides: [1, 9, 9], pads, ..case }.check();
    let pads = [[1, 0], [2, 2], [2, 3]];
    let cube = Case { size: [2, 1, 0], kernel: [3, 3, 3], dilations: [1, 2, 2], pads, ..case };
    cube.check();
    Case { size: [2, 1, 5], channels: 40, filters: 37, strides: [1, 1, 6], ..cube }.check();
}

#[test]
fn images_smaller_than_windows_have_no_pixels() {
    let geometry = Conv {
        batch: 1,
        groups: 1,
        channels: 3,
        filters: 8,
        size: &[1, 9, 3],
        out: &[1, 2, 0],
        kernel: &[1, 4, 4],
        strides: &[1, 4, 4],
        dilations: &[1; 3],
        pads: &[0; 3],
        weights: WeightLayout::Plain,
    };
    let mut scratch = vec![0.0; conv_scratch(&geometry)];
    let operands = ConvOperands { x: &[1.0; 81], w: &[1.0; 384], bias: None, add: None };
    conv_f32(operands, &mut [], &mut scratch, geometry, Activation::Identity);
}

#[test]
fn images_without_elements_have_padding() {
    let pads = [[0, 0], [0, 0], [2, 3]];
    Case { channels: 2, filters: 3, size: [1, 2, 0], kernel: [1, 1, 3], pads, ..CASE }.check();
}

#[test]
fn channels_groups_and_batches() {
    let pads = [[0, 0], [1, 1], [1, 1]];
    for batch in 1..3 {
        for groups in 1..4 {
            for channels in 1..4 {
                for filters in 1..4 {
                    let case = Case { batch, groups, channels, filters, size: [1, 5, 6], ..CASE };
                    case.check();
                    Case { kernel: [1, 3, 3], pads, ..case }.check();
                    Case { kernel: [1, 2, 3], strides: [1, 2, 2], ..case }.check();
                }
            }
        }
    }
}

#[test]
fn one_axis_and_three() {
    let case = Case { batch: 2, channels: 3, filters: 2, ..CASE };
    let pads = [[0, 0], [0, 0], [3, 1]];
    Case { size: [1, 1, 90], kernel: [1, 1, 5], pads, ..case }.check();
    let pads = [[1, 2], [1, 0], [0, 1]];
    let cube = Case { size: [5, 4, 6], kernel: [3, 2, 3], pads, ..case };
    cube.check();
    Case { strides: [2, 1, 2], dilations: [1, 2, 2], ..cube }.check();
}

#[test]
fn sizes_of_real_models() {
    let pads = [[0, 0], [1, 1], [1, 1]];
    let case = Case { channels: 70, filters: 30, size: [1, 9, 23], ..CASE };
    case.check();
    Case { kernel: [1, 3, 3], pads, ..case }.check();
    Case { strides: [1, 2, 2], ..case }.check();
    let first = Case { channels: 3, filters: 16, size: [1, 33, 40], ..CASE };
    let pads = [[0, 0], [3, 3], [3, 3]];
    Case { kernel: [1, 7, 7], strides: [1, 2, 2], pads, ..first }.check();
}

/// The definition of the transposed convolution, over three axes: each input element adds the
/// kernel.
fn transposed_truth(x: &[f64], w: &[f64], geometry: &ConvTranspose<'_>) -> Vec<f64> {
    let ConvTranspose { batch, groups, channels, filters, size, out, kernel, .. } = *geometry;
    let mut y = vec![0.0; batch * groups * filters * product(out)];
    for plane in 0..batch * groups * channels {
        let (image, channel) = (plane / (groups * channels), plane % (groups * channels));
        for (place, (d, h, v)) in cube(size).enumerate() {
            for filter in 0..filters {
                let to = image * groups * filters + channel / channels * filters + filter;
                for (tap, (i, j, k)) in cube(kernel).enumerate() {
                    let at = |axis: usize, place: usize, tap: usize| {
                        let strides = geometry.strides[axis];
                        let at = place * strides + tap * geometry.dilations[axis];
                        at.checked_sub(geometry.pads[axis]).filter(|&at| at < out[axis])
                    };
                    let at = (at(0, d, i), at(1, h, j), at(2, v, k));
                    let (Some(d), Some(h), Some(v)) = at else { continue };
                    let to = ((to * out[0] + d) * out[1] + h) * out[2] + v;
                    let w = w[(channel * filters + filter) * product(kernel) + tap];
                    y[to] += x[plane * product(size) + place] * w;
                }
            }
        }
    }
    y
}

type Transposed<T> = fn(ConvOperands<'_, T>, &mut [T], &mut [T], ConvTranspose<'_>, Activation);

fn check_transposed(geometry: ConvTranspose<'_>) {
    let ConvTranspose { batch, groups, channels, filters, .. } = geometry;
    let inputs = batch * groups * channels * product(geometry.size);
    let weights = groups * channels * filters * product(geometry.kernel);
    let outputs = batch * groups * filters * product(geometry.out);
    let mut y = transposed_truth(&numbers(inputs, 1), &numbers(weights, 2), &geometry);
    let (bias, add) = (numbers(groups * filters, 3), numbers(outputs, 4));
    for (at, y) in y.iter_mut().enumerate() {
        let sum = *y + bias[at / product(geometry.out) % (groups * filters)] + add[at];
        *y = sum.max(0.0);
    }
    each_level(|_| {
        check_transposed_type::<f32>(geometry, &y, 3e-6, conv_transpose_f32);
        check_transposed_type::<f64>(geometry, &y, 3e-14, conv_transpose_f64);
    });
}

fn check_transposed_type<T: Float>(
    geometry: ConvTranspose<'_>,
    truth: &[f64],
    tolerance: f64,
    fast: Transposed<T>,
) {
    let ConvTranspose { batch, groups, channels, filters, .. } = geometry;
    let depth = channels * product(geometry.kernel);
    let x: Vec<T> = cast(batch * groups * channels * product(geometry.size), 1);
    let w: Vec<T> = cast(groups * filters * depth, 2);
    let (bias, add): (Vec<T>, Vec<T>) = (cast(groups * filters, 3), cast(truth.len(), 4));
    let (bias, add) = (Some(&bias[..]), Some(&add[..]));
    let near = |y: &[T], kernel: &str| {
        for (at, (y, truth)) in y.iter().zip(truth).enumerate() {
            let near = (y.to_f64() - truth).abs() <= tolerance * (1.0 + depth as f64).sqrt();
            assert!(near, "{geometry:?}, {kernel}: y[{at}] is {}, not {truth}", y.to_f64());
        }
    };
    let mut y = vec![T::ONE; truth.len()];
    conv_transpose(ConvOperands { x: &x, w: &w, bias, add }, &mut y, geometry, Activation::Relu);
    near(&y, "plain");
    let mut packed = vec![T::ONE; packed_transpose_weights_len(&geometry)];
    pack_transpose_weights(&w, &mut packed, &geometry);
    for (weights, w) in [(WeightLayout::Plain, &w), (WeightLayout::Packed, &packed)] {
        let geometry = ConvTranspose { weights, ..geometry };
        let lens = [conv_transpose_scratch(&geometry), conv_transpose_least_scratch(&geometry)];
        for len in lens {
            let mut scratch = vec![T::from_f64(f64::NAN); len];
            let mut y = vec![T::ONE; truth.len()];
            fast(
                ConvOperands { x: &x, w, bias, add },
                &mut y,
                &mut scratch,
                geometry,
                Activation::Relu,
            );
            near(&y, "fast");
        }
    }
}

#[test]
fn transposed_windows_of_every_kind() {
    for (batch, groups, channels, filters) in [(1, 1, 1, 1), (2, 1, 3, 2), (1, 3, 2, 2)] {
        for size in 1..5 {
            for kernel in 1..4 {
                for stride in 1..4 {
                    for dilation in 1..3 {
                        for pad in 0..3usize {
                            let reach: usize = (size - 1) * stride + (kernel - 1) * dilation + 1;
                            // The output is cut off behind, or padded there.
                            for out in
                                [reach.saturating_sub(2 * pad), (reach + 1).saturating_sub(pad)]
                            {
                                check_transposed(ConvTranspose {
                                    batch,
                                    groups,
                                    channels,
                                    filters,
                                    size: &[1, size, 3],
                                    out: &[1, out, 4],
                                    kernel: &[1, kernel, 2],
                                    strides: &[1, stride, 1],
                                    dilations: &[1, dilation, 1],
                                    pads: &[0, pad, 0],
                                    weights: WeightLayout::Plain,
                                });
                            }
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn transposed_along_the_last_of_three_axes() {
    for (stride, dilation, pad, out) in
        [(2, 1, 1, 79), (1, 2, 0, 44), (3, 1, 2, 119), (2, 3, 5, 80)]
    {
        check_transposed(ConvTranspose {
            batch: 1,
            groups: 1,
            channels: 5,
            filters: 3,
            size: &[2, 3, 40],
            out: &[4, 4, out],
            kernel: &[2, 3, 3],
            strides: &[2, 1, stride],
            dilations: &[1, 1, dilation],
            pads: &[0, 1, pad],
            weights: WeightLayout::Plain,
        });
    }
}
