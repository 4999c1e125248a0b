//! Depthwise convolutions: each channel with its own window.

use super::band::{Band, Plane, SMALL};
use super::{Applied, clamp, product, within};
use crate::Number;
use crate::activation_fn::Activation;
use crate::conv::Conv;
use crate::gemm::{BLOCK, Depthwise, MAX_TAPS};
use crate::threads::{self, Scratch};
use core::ops::Range;

/// How many elements of scratch memory [`depthwise_in_blocks`] wants to be fastest.
pub const fn depthwise_in_blocks_scratch(geometry: &Conv<'_>) -> usize {
    Plane::of(geometry, BLOCK, BLOCK, SMALL).scratch()
}

/// Packs the weights of a depthwise convolution: `[block, tap, 16]`.
pub fn pack_depthwise_blocks<T: Number>(w: &[T], y: &mut [T], geometry: &Conv<'_>) {
    let taps = product(geometry.kernel);
    for (at, y) in y.iter_mut().enumerate() {
        let (block, tap, lane) = (at / BLOCK / taps, at / BLOCK % taps, at % BLOCK);
        *y = w.get((block * BLOCK + lane) * taps + tap).copied().unwrap_or(T::ZERO);
    }
}

/// `y = f(w ∗ x + bias + add)` for as many groups as there are channels, all but the bias in
/// blocks. The weights are packed by [`pack_depthwise_blocks`]; the bias has a number for each
/// channel of the blocks.
#[inline(always)]
#[expect(clippy::too_many_arguments, reason = "four operands, each on its own")]
pub fn depthwise_in_blocks(
    x: &[f32],
    w: &[f32],
    bias: Option<&[f32]>,
    add: Option<&[f32]>,
    y: &mut [f32],
    scratch: &mut [f32],
    geometry: Conv<'_>,
    f: Activation,
) {
    within(f, y, |y, f| depthwise([x, w], [bias, add], y, scratch, &geometry, f));
}

#[inline(never)]
fn depthwise(
    [x, w]: [&[f32]; 2],
    [bias, add]: [Option<&[f32]>; 2],
    y: &mut [f32],
    scratch: &mut [f32],
    geometry: &Conv<'_>,
    f: Applied,
) {
    let plane = Plane::of(geometry, BLOCK, BLOCK, SMALL);
    let blocks = geometry.groups.div_ceil(BLOCK);
    let [height, width] = plane.out();
    let (from, to) = (plane.image(), height * width * BLOCK);
    let weights = product(geometry.kernel) * BLOCK;
    if to == 0 {
        return;
    }
    let band = plane.band(scratch.len());
    let mut taps = [0; MAX_TAPS];
    let taps = band.taps(&plane, &mut taps);
    let scratch = Scratch::new(scratch);
    let cost = y.len() + y.len() * taps.len() * 2 / threads::PRODUCTS;
    // Blocks may be few, so threads get rows.
    threads::share(y, width * BLOCK, cost, |first, mut y| {
        let mut row = first;
        while !y.is_empty() {
            let (index, start) = (row / height, row % height);
            let end = height.min(start + y.len() / (width * BLOCK));
            let (rows, rest) = y.split_at_mut((end - start) * width * BLOCK);
            let block = index % blocks;
            let add = add.map_or(&[][..], |add| &add[index * to..][..to]);
            let channels = Channels {
                x: &x[index * from..][..from],
                w: &w[block * weights..][..weights],
                bias: bias.map_or(&[], |bias| &bias[block * BLOCK..]),
                add: add.get(start * width * BLOCK..).unwrap_or(&[]),
                taps,
                f,
            };
            scratch.with(|scratch| channels.convolve(&plane, &band, start..end, rows, scratch));
            row += end - start;
            y = rest;
        }
    });
}

/// What a block of the output is made of.
struct Channels<'a> {
    x: &'a [f32],
    w: &'a [f32],
    bias: &'a [f32],
    /// From the first row on that is computed.
    add: &'a [f32],
    taps: &'a [usize],
    f: Applied,
}

impl Channels<'_> {
    /// Computes some rows.
    fn convolve(
        &self,
        plane: &Plane,
        band: &Band,
        of: Range<usize>,
        y: &mut [f32],
        scratch: &mut [f32],
    ) {
        let ([_, width], (f, activate)) = (plane.out(), self.f);
        for [row, rows, col, cols] in plane.places(band, of.clone()) {
            let at = ((row - of.start) * width + col) * BLOCK;
            Depthwise {
                x: band.input(plane, self.x, [row, rows, col], scratch),
                x_row: band.row,
                taps: self.taps,
                w: self.w,
                bias: self.bias,
                add: self.add.get(at..).unwrap_or(&[]),
                y: &mut y[at..],
                y_row: width * BLOCK,
                y_col: BLOCK,
                rows,
                cols,
                clamp: clamp(f),
            }
            .compute();
        }
        if clamp(f).is_none() {
            let len = y.len();
            activate(f, y, 1, len, len);
        }
    }
}
