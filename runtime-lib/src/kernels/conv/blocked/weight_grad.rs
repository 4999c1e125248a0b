//! Weight gradients of NCHWc convolutions.

use super::band::{Band, LARGE, Plane, SMALL, Unit};
use super::{BLOCK, Conv, MAX_TAPS, product};
use crate::microkernel::{DepthwiseWeightGrad, NchwcWeightGrad};
use crate::threads::{self, Scratch};

/// Returns the best size of the scratch memory of [`conv_weight_grad_nchwc`], in elements.
pub const fn conv_weight_grad_nchwc_scratch(geometry: &Conv<'_>) -> usize {
    sums_len(geometry) + Plane::of(geometry, geometry.channels, Unit::of(BLOCK), LARGE).scratch()
}

/// Returns the best size of the scratch memory of [`conv_weight_grad_nchw_to_nchwc`], in elements.
pub const fn conv_weight_grad_nchw_to_nchwc_scratch(geometry: &Conv<'_>) -> usize {
    sums_len(geometry) + Plane::of(geometry, geometry.channels, Unit::of(1), LARGE).scratch()
}

/// Returns the number of accumulators: one for each weight, including those of padding channels.
const fn sums_len(geometry: &Conv<'_>) -> usize {
    geometry.filters.div_ceil(BLOCK) * geometry.depth() * BLOCK
}

/// Computes the weight gradient `dw = x ∗ dy` of a convolution of one group. `x` and `dy` are
/// NCHWc, `dw` has the layout of ONNX.
#[inline(never)]
pub fn conv_weight_grad_nchwc(
    x: &[f32],
    dy: &[f32],
    dw: &mut [f32],
    scratch: &mut [f32],
    geometry: Conv<'_>,
) {
    conv_weight_grad([x, dy], dw, scratch, &geometry, BLOCK);
}

/// Computes the weight gradient `dw = x ∗ dy` for an NCHW input.
#[inline(never)]
pub fn conv_weight_grad_nchw_to_nchwc(
    x: &[f32],
    dy: &[f32],
    dw: &mut [f32],
    scratch: &mut [f32],
    geometry: Conv<'_>,
) {
    conv_weight_grad([x, dy], dw, scratch, &geometry, 1);
}

fn conv_weight_grad(
    [x, dy]: [&[f32]; 2],
    dw: &mut [f32],
    scratch: &mut [f32],
    geometry: &Conv<'_>,
    unit: usize,
) {
    let plane = Plane::of(geometry, geometry.channels, Unit::of(unit), LARGE);
    let (sums, scratch) = scratch.split_at_mut(sums_len(geometry));
    let band = plane.band(scratch.len());
    let mut taps = [0; MAX_TAPS];
    let taps = band.taps(&plane, &mut taps);
    let blocks = geometry.filters.div_ceil(BLOCK);
    let (from, to) = (plane.image(), blocks * product(geometry.out) * BLOCK);
    sums.fill(0.0);
    if from * to > 0 {
        for (x, dy) in x.chunks_exact(from).zip(dy.chunks_exact(to)) {
            add_image([x, dy], sums, scratch, (&plane, &band), (taps, geometry.channels, unit));
        }
    }
    let depth = geometry.depth();
    for (dw, sums) in dw.chunks_mut(BLOCK * depth).zip(sums.chunks_exact(BLOCK * depth)) {
        deinterleave(sums, dw, depth);
    }
}

/// Copies the accumulators of a block to its channels, `each` for one channel.
fn deinterleave(sums: &[f32], dw: &mut [f32], each: usize) {
    for (lane, dw) in dw.chunks_exact_mut(each).enumerate() {
        let sums = sums[lane..].iter().step_by(BLOCK);
        dw.iter_mut().zip(sums).for_each(|(dw, &sum)| *dw = sum);
    }
}

/// Accumulates the gradient of an image.
fn add_image(
    [x, dy]: [&[f32]; 2],
    sums: &mut [f32],
    scratch: &mut [f32],
    (plane, band): (&Plane, &Band),
    (taps, channels, unit): (&[usize], usize, usize),
) {
    let [height, width] = plane.out();
    let dy_block_stride = height * width * BLOCK;
    for [row, rows, col, cols] in plane.places(band, plane.all()) {
        NchwcWeightGrad {
            x: band.input(plane, x, 0, [row, rows, col], scratch),
            x_block_stride: band.block,
            x_row_stride: band.row,
            unit,
            taps,
            channels,
            dy: &dy[(row * width + col) * BLOCK..],
            dy_block_stride,
            dy_row_stride: width * BLOCK,
            blocks: dy.len() / dy_block_stride,
            rows,
            cols,
            sums: &mut *sums,
        }
        .compute();
    }
}

/// Returns the best size of the scratch memory of [`depthwise_conv_weight_grad`], in elements.
pub const fn depthwise_conv_weight_grad_scratch(geometry: &Conv<'_>) -> usize {
    product(geometry.kernel) * BLOCK + Plane::of(geometry, BLOCK, Unit::of(BLOCK), SMALL).scratch()
}

/// Computes the weight gradient `dw = x ∗ dy` for as many groups as channels. `x` and `dy` are
/// NCHWc.
#[inline(never)]
pub fn depthwise_conv_weight_grad(
    x: &[f32],
    dy: &[f32],
    dw: &mut [f32],
    scratch: &mut [f32],
    geometry: Conv<'_>,
) {
    let plane = Plane::of(&geometry, BLOCK, Unit::of(BLOCK), SMALL);
    let count = product(geometry.kernel);
    let band = plane.band(scratch.len() - count * BLOCK);
    let mut taps = [0; MAX_TAPS];
    let taps = band.taps(&plane, &mut taps);
    let [blocks, pixels] = [geometry.groups.div_ceil(BLOCK), product(geometry.out)];
    let scratch = Scratch::new(scratch);
    let cost = dw.len() * geometry.batch * pixels / threads::MACS_PER_ELEMENT;
    threads::share(dw, count * BLOCK, cost, |first, dw| {
        scratch.with(|scratch| {
            let (sums, scratch) = scratch.split_at_mut(count * BLOCK);
            for (block, dw) in (first..).zip(dw.chunks_mut(count * BLOCK)) {
                sums.fill(0.0);
                for image in 0..geometry.batch {
                    let at = image * blocks + block;
                    let x = &x[at * plane.image()..][..plane.image()];
                    let dy = &dy[at * pixels * BLOCK..][..pixels * BLOCK];
                    add_block([x, dy], sums, scratch, (&plane, &band), taps);
                }
                deinterleave(sums, dw, count);
            }
        });
    });
}

/// Accumulates the gradient of a block of an image.
fn add_block(
    [x, dy]: [&[f32]; 2],
    sums: &mut [f32],
    scratch: &mut [f32],
    (plane, band): (&Plane, &Band),
    taps: &[usize],
) {
    let [_, width] = plane.out();
    for [row, rows, col, cols] in plane.places(band, plane.all()) {
        DepthwiseWeightGrad {
            x: band.input(plane, x, 0, [row, rows, col], scratch),
            x_row_stride: band.row,
            taps,
            dy: &dy[(row * width + col) * BLOCK..],
            dy_row_stride: width * BLOCK,
            rows,
            cols,
            sums: &mut *sums,
        }
        .compute();
    }
}
