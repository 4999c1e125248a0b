//! NCHWc transposed convolutions.
//!
//! A *phase* of the output is the elements whose positions have the same remainder modulo the
//! stride. All elements of a phase use the same elements of the kernel: every `stride`-th one. So
//! each phase is a convolution with these elements and a stride of 1, and its results are a stride
//! apart in the output.

use super::super::axis::Axis;
use super::band::{Band, LARGE, Plane, Unit};
use super::depthwise::Slide;
use super::{BLOCK, MAX_TAPS, product};
use crate::kernels::conv::ConvTranspose;
use crate::microkernel::{NchwcConv, Span};
use crate::threads::{self, Scratch, Share};

/// Returns whether this module has kernels for a window along an axis: whether the convolution of
/// every phase has a padding of at least zero.
pub const fn has_nchwc_conv_transpose(kernel: usize, stride: usize, pad: usize) -> bool {
    let mut phase = 0;
    while phase < stride {
        let place = phase + pad;
        if place % stride < kernel && place >= kernel {
            return false;
        }
        phase += 1;
    }
    true
}

/// Returns the best size of the scratch memory of [`conv_transpose_nchwc`], in elements: that of
/// the phase that needs the most.
pub const fn conv_transpose_nchwc_scratch(geometry: &ConvTranspose<'_>) -> usize {
    let (mut most, mut phase) = (0, 0);
    while phase < product(geometry.strides) {
        let each = Phase::of(geometry, phase).plane(geometry.channels).scratch();
        most = if each > most { each } else { most };
        phase += 1;
    }
    most
}

/// Returns the number of elements that [`pack_transposed`] writes.
pub const fn packed_transposed_len(geometry: &ConvTranspose<'_>) -> usize {
    let filters = (geometry.groups * geometry.filters).next_multiple_of(BLOCK);
    filters * geometry.channels * product(geometry.kernel)
}

/// Packs the weights of one group, or of a depthwise convolution, as `[output block, input block,
/// tap, input channel of the block, 16]` for each phase.
#[inline(never)]
pub fn pack_transposed(w: &[f32], y: &mut [f32], geometry: ConvTranspose<'_>) {
    let (filters, channels) = (geometry.groups * geometry.filters, geometry.channels);
    let count = product(geometry.kernel);
    let mut y = y.chunks_exact_mut(BLOCK);
    for phase in (0..product(geometry.strides)).map(|i| Phase::of(&geometry, i)) {
        for filter in (0..filters).step_by(BLOCK) {
            for first in (0..channels).step_by(BLOCK) {
                for tap in (0..phase.taps()).map(|i| phase.tap(i)) {
                    for channel in first..channels.min(first + BLOCK) {
                        let Some(y) = y.next() else { return };
                        for (filter, y) in (filter..).zip(y) {
                            let at = (channel * filters + filter) * count + tap;
                            *y = if filter < filters { w[at] } else { 0.0 };
                        }
                    }
                }
            }
        }
    }
}

/// Computes a transposed convolution of one group. Images are NCHWc, and [`pack_transposed`] packs
/// the weights.
#[inline(never)]
pub fn conv_transpose_nchwc(
    x: &[f32],
    w: &[f32],
    y: &mut [f32],
    scratch: &mut [f32],
    geometry: ConvTranspose<'_>,
) {
    let channels = geometry.channels;
    let block = product(geometry.out) * BLOCK;
    let from = channels.div_ceil(BLOCK) * product(geometry.size) * BLOCK;
    let to = geometry.filters.div_ceil(BLOCK) * block;
    if to == 0 {
        return;
    }
    let scratch = Scratch::new(scratch);
    let cost = from * geometry.filters * product(geometry.kernel) / threads::MACS_PER_ELEMENT;
    for (image, y) in y.chunks_exact_mut(to).enumerate() {
        let x = &x[image * from..][..from];
        threads::share(y, block, cost, |first, y| {
            scratch.with(|scratch| {
                let mut w = w;
                let mut y = Share::of(y, block);
                let blocks = y.planes();
                for phase in (0..product(geometry.strides)).map(|i| Phase::of(&geometry, i)) {
                    let depth = phase.taps() * channels * BLOCK;
                    let (own, rest) = w.split_at(to / block * depth);
                    w = rest;
                    phase.each(channels, scratch, x, |part| {
                        NchwcConv::<BLOCK> {
                            x: part.x,
                            x_block_stride: part.band.block,
                            x_row_stride: part.band.row,
                            taps: part.taps,
                            spans: &[Span { first: 0, count: channels }],
                            w: &own[first * depth..],
                            bias: &[],
                            add: &[],
                            y: y.part(0..blocks, part.y..block),
                            y_row_stride: phase.y_row_stride,
                            y_col_stride: phase.y_col_stride,
                            blocks,
                            rows: part.rows,
                            cols: part.cols,
                            kept: 0,
                            clamp: None,
                            layers: 1,
                            x_layer_stride: 0,
                        }
                        .compute();
                    });
                }
            });
        });
    }
}

/// Computes a depthwise transposed convolution. Images are NCHWc, and [`pack_transposed`] packs the
/// weights.
#[inline(never)]
pub fn transpose_depthwise(x: &[f32], w: &[f32], y: &mut [f32], geometry: ConvTranspose<'_>) {
    let [from, to] = [geometry.size, geometry.out].map(|sizes| product(sizes) * BLOCK);
    let blocks = geometry.groups.div_ceil(BLOCK);
    if to == 0 {
        return;
    }
    let cost = y.len() + x.len() * product(geometry.kernel) * 2 / threads::MACS_PER_ELEMENT;
    threads::share(y, to, cost, |first, y| {
        for (index, y) in (first..).zip(y.chunks_exact_mut(to)) {
            let (x, mut w) = (&x[index * from..][..from], w);
            for phase in (0..product(geometry.strides)).map(|i| Phase::of(&geometry, i)) {
                let depth = phase.taps() * BLOCK;
                let (own, rest) = w.split_at(blocks * depth);
                w = rest;
                Slide {
                    x,
                    w: &own[index % blocks * depth..][..depth],
                    bias: &[],
                    add: &[],
                    y: y.get_mut(phase.start..).unwrap_or(&mut []),
                    y_strides: [phase.y_row_stride, phase.y_col_stride],
                    axes: &phase.axes,
                    rows: 0..phase.axes[0].out,
                    clamp: None,
                }
                .compute();
            }
        }
    });
}

/// A phase of the output.
struct Phase {
    /// The axes of the convolution that computes the phase.
    axes: [Axis; 2],
    /// The first element of the kernel that the phase uses, along each axis.
    first: [usize; 2],
    strides: [usize; 2],
    /// The columns of the kernel.
    width: usize,
    /// The offset of the phase in the output.
    start: usize,
    /// The stride of the phase's rows in the output, in elements.
    y_row_stride: usize,
    /// The stride of the phase's columns in the output, in elements.
    y_col_stride: usize,
}

/// Some rows and columns of a phase.
struct Part<'a> {
    x: &'a [f32],
    band: &'a Band,
    taps: &'a [usize],
    /// The offset of the part in the output.
    y: usize,
    rows: usize,
    cols: usize,
}

impl Phase {
    /// Returns phase `i`, counted in row-major order over the last two axes.
    const fn of(geometry: &ConvTranspose<'_>, i: usize) -> Phase {
        let last = geometry.size.len() - 1;
        let (width, col) = (geometry.strides[last], i % geometry.strides[last]);
        let (w, first_col) = Phase::axis(geometry, last, col);
        let line = geometry.out[last] * BLOCK;
        let (height, row) = (if last > 0 { geometry.strides[last - 1] } else { 1 }, i / width);
        let (h, first_row) =
            if last > 0 { Phase::axis(geometry, last - 1, row) } else { (Axis::NONE, 0) };
        Phase {
            axes: [h, w],
            first: [first_row, first_col],
            strides: [height, width],
            width: geometry.kernel[last],
            start: row * line + col * BLOCK,
            y_row_stride: height * line,
            y_col_stride: width * BLOCK,
        }
    }

    /// Returns axis `i` of a phase's convolution, and the first element of the kernel that it uses.
    const fn axis(geometry: &ConvTranspose<'_>, i: usize, phase: usize) -> (Axis, usize) {
        let (stride, place) = (geometry.strides[i], phase + geometry.pads[i]);
        let first = place % stride;
        let kernel = geometry.kernel[i].saturating_sub(first).div_ceil(stride);
        let axis = Axis {
            size: geometry.size[i],
            out: geometry.out[i].saturating_sub(phase).div_ceil(stride),
            kernel,
            stride: 1,
            dilation: 1,
            // The first tap, the last element of the kernel, reads this many elements before its
            // window's position.
            pad: kernel.saturating_sub(1 + place / stride),
        };
        (axis, first)
    }

    const fn plane(&self, channels: usize) -> Plane {
        Plane::over(self.axes, channels, Unit::of(BLOCK), LARGE)
    }

    /// Returns the number of elements of the kernel that the phase uses.
    const fn taps(&self) -> usize {
        self.axes[0].kernel * self.axes[1].kernel
    }

    /// Returns the index in the kernel of tap `i`; the taps are in reverse order.
    const fn tap(&self, i: usize) -> usize {
        let ([h, w], [height, width]) = (&self.axes, self.strides);
        let row = self.first[0] + (h.kernel - 1 - i / w.kernel) * height;
        let col = self.first[1] + (w.kernel - 1 - i % w.kernel) * width;
        row * self.width + col
    }

    /// Calls `compute` for each part of the phase.
    fn each(
        &self,
        channels: usize,
        scratch: &mut [f32],
        x: &[f32],
        mut compute: impl FnMut(Part<'_>),
    ) {
        let plane = self.plane(channels);
        let band = plane.band(scratch.len());
        let mut taps = [0; MAX_TAPS];
        let taps = band.taps(&plane, &mut taps);
        for [row, rows, col, cols] in plane.places(&band, plane.all()) {
            compute(Part {
                x: band.input(&plane, x, [row, rows, col], scratch),
                band: &band,
                taps,
                y: self.start + row * self.y_row_stride + col * self.y_col_stride,
                rows,
                cols,
            });
        }
    }
}
