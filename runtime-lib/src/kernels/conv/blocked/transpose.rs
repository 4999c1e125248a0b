//! NCHWc transposed convolutions.
//!
//! A *phase* of the output is the elements whose positions have the same remainder modulo the
//! stride. All elements of a phase use the same elements of the kernel: every `stride`-th one. So
//! each phase is a convolution with these elements and a stride of 1, and its results are a stride
//! apart in the output.

use super::band::{Band, LARGE, Plane, Unit};
use super::depthwise::Slide;
use super::{BLOCK, MAX_TAPS, product};
use crate::Number;
use crate::kernels::conv::ConvTranspose;
use crate::loops::window_axis::Axis;
use crate::microkernel::{NchwcConv, Span, UsedTaps};
use crate::threads::{self, Scratch, Share};

/// Returns whether this module has kernels for a window along an axis: whether the convolution of
/// every phase has a padding of at least zero.
pub const fn has_nchwc_conv_transpose(kernel: usize, stride: usize, pad: usize) -> bool {
    // A phase at `place`, from `pad` to `pad + stride`, uses the kernel if `place % stride` is an
    // element of it. Its padding is negative if `place` is not.
    if kernel < stride { kernel == 0 || pad == 0 } else { pad <= kernel - stride }
}

/// Returns the best size of the scratch memory of [`conv_transpose_nchwc`], in elements: that of
/// the phase that needs the most.
pub const fn conv_transpose_nchwc_scratch(geometry: &ConvTranspose<'_>) -> usize {
    let last = geometry.size.len() - 1;
    let rows = if last > 0 { first_of_its_kind(geometry, last - 1) } else { [0; 4] };
    let columns = first_of_its_kind(geometry, last);
    let (mut most, mut i) = (0, 0);
    while i < rows.len() * columns.len() {
        let phase = Phase::of(geometry, rows[i / columns.len()], columns[i % columns.len()]);
        let each = phase.plane(geometry.channels).scratch();
        most = if each > most { each } else { most };
        i += 1;
    }
    most
}

/// Returns the places along an axis at which phases begin to differ from those before: the first
/// place, and those where the number of outputs, the number of taps or the padding changes.
const fn first_of_its_kind(geometry: &ConvTranspose<'_>, axis: usize) -> [usize; 4] {
    let stride = geometry.strides[axis];
    let (pad, kernel) = (geometry.pads[axis] % stride, geometry.kernel[axis] % stride);
    let fewer_taps = if kernel >= pad { kernel - pad } else { kernel + (stride - pad) };
    [0, (stride - pad) % stride, fewer_taps, geometry.out[axis] % stride]
}

/// Returns the number of elements that [`pack_transposed`] writes.
pub const fn packed_transposed_len(geometry: &ConvTranspose<'_>) -> usize {
    let filters = (geometry.groups * geometry.filters).next_multiple_of(BLOCK);
    filters * geometry.channels * product(geometry.kernel)
}

/// Packs the weights of one group, or of a depthwise convolution, as `[output block, input block,
/// tap, input channel of the block, 16]` for each phase.
#[inline(never)]
pub fn pack_transposed<T: Number>(w: &[T], y: &mut [T], geometry: ConvTranspose<'_>) {
    let (filters, channels) = (geometry.groups * geometry.filters, geometry.channels);
    let count = product(geometry.kernel);
    let mut y = y.chunks_exact_mut(BLOCK);
    for phase in Phase::all_with_taps(&geometry) {
        for filter in (0..filters).step_by(BLOCK) {
            for first in (0..channels).step_by(BLOCK) {
                for tap in (0..phase.taps()).map(|i| phase.tap(i)) {
                    for channel in first..channels.min(first + BLOCK) {
                        let Some(y) = y.next() else { return };
                        for (filter, y) in (filter..).zip(y) {
                            let at = (channel * filters + filter) * count + tap;
                            *y = if filter < filters { w[at] } else { T::ZERO };
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
                let mut y = Share::of(y, block);
                let blocks = y.planes();
                for (phase, taps_before) in Phase::all_with_outputs(&geometry) {
                    let depth = phase.taps() * channels * BLOCK;
                    let own = &w[to / block * taps_before * channels * BLOCK..];
                    phase.each(channels, scratch, x, |part| {
                        NchwcConv::<BLOCK> {
                            x: part.x,
                            x_block_stride: part.band.block,
                            x_row_stride: part.band.row,
                            taps: UsedTaps::all(part.taps),
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
            let x = &x[index * from..][..from];
            for (phase, taps_before) in Phase::all_with_outputs(&geometry) {
                let depth = phase.taps() * BLOCK;
                let own = &w[blocks * taps_before * BLOCK..];
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
    /// Returns the phase of a row and a column, which count along the last two axes.
    const fn of(geometry: &ConvTranspose<'_>, row: usize, col: usize) -> Phase {
        let last = geometry.size.len() - 1;
        let width = geometry.strides[last];
        let (w, first_col) = Phase::axis(geometry, last, col);
        let line = geometry.out[last] * BLOCK;
        let height = if last > 0 { geometry.strides[last - 1] } else { 1 };
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

    /// Returns the phases that have outputs, in row-major order. Each comes with the number of taps
    /// of all phases before it: the place of its packed weights.
    fn all_with_outputs(geometry: &ConvTranspose<'_>) -> impl Iterator<Item = (Phase, usize)> {
        let last = geometry.size.len() - 1;
        let rows =
            if last > 0 { geometry.strides[last - 1].min(geometry.out[last - 1]) } else { 1 };
        let columns = geometry.strides[last].min(geometry.out[last]);
        // The elements of the kernel in a line are those of all columns of phases.
        let (mut rows_before, line) = (0, geometry.kernel[last]);
        (0..rows).flat_map(move |row| {
            let mut before = rows_before * line;
            rows_before += Phase::of(geometry, row, 0).axes[0].kernel;
            (0..columns).map(move |col| {
                let phase = Phase::of(geometry, row, col);
                before += phase.taps();
                let taps_before = before - phase.taps();
                (phase, taps_before)
            })
        })
    }

    /// Returns the phases that use elements of the kernel, in row-major order.
    fn all_with_taps(geometry: &ConvTranspose<'_>) -> impl Iterator<Item = Phase> {
        let last = geometry.size.len() - 1;
        let rows = (last > 0).then(|| Phase::places_with_taps(geometry, last - 1));
        let rows = rows.into_iter().flatten().chain((last == 0).then_some(0));
        rows.flat_map(move |row| {
            let columns = Phase::places_with_taps(geometry, last);
            columns.map(move |col| Phase::of(geometry, row, col))
        })
    }

    /// Returns the places of the phases that use elements of the kernel along an axis, in order.
    fn places_with_taps(geometry: &ConvTranspose<'_>, axis: usize) -> impl Iterator<Item = usize> {
        let stride = geometry.strides[axis];
        // The phase at `place` uses the element `(place + pad) % stride` first.
        let (pad, count) = (geometry.pads[axis] % stride, geometry.kernel[axis].min(stride));
        let first = (pad..count).map(move |element| element - pad);
        first.chain((0..pad.min(count)).map(move |element| element + (stride - pad)))
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
                x: band.input(&plane, x, 0, [row, rows, col], scratch),
                band: &band,
                taps,
                y: self.start + row * self.y_row_stride + col * self.y_col_stride,
                rows,
                cols,
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::conv::WeightLayout;

    /// Calls `check` with the geometry of one image, and with every phase.
    fn with_geometries(check: impl Fn(&ConvTranspose<'_>, &[Phase])) {
        for code in 0..5 * 4 * 4 * 6 {
            let (kernel, strides) = ([code % 5 + 1, 2], [code / 5 % 4 + 1, 3]);
            let (pads, out) = ([code / 20 % 4, 1], [code / 80, 4]);
            let geometry = ConvTranspose {
                batch: 1,
                groups: 1,
                channels: 16,
                filters: 16,
                size: &[3, 2],
                out: &out,
                kernel: &kernel,
                strides: &strides,
                dilations: &[1, 1],
                pads: &pads,
                weights: WeightLayout::Plain,
            };
            let phases = (0..product(&strides))
                .map(|i| Phase::of(&geometry, i / strides[1], i % strides[1]));
            check(&geometry, &phases.collect::<std::vec::Vec<_>>());
        }
    }

    #[test]
    fn the_scratch_memory_is_that_of_the_phase_that_needs_the_most() {
        with_geometries(|geometry, phases| {
            let most = phases.iter().map(|phase| phase.plane(geometry.channels).scratch()).max();
            assert_eq!(Some(conv_transpose_nchwc_scratch(geometry)), most, "{geometry:?}");
        });
    }

    #[test]
    fn phases_without_outputs_or_taps_are_skipped() {
        with_geometries(|geometry, phases| {
            let mut before = 0;
            let with_outputs = phases.iter().filter_map(|phase| {
                let taps_before = before;
                before += phase.taps();
                let has_outputs = phase.axes.iter().all(|axis| axis.out > 0);
                has_outputs.then_some((phase.start, taps_before))
            });
            let found = Phase::all_with_outputs(geometry);
            assert!(found.map(|(phase, taps)| (phase.start, taps)).eq(with_outputs));
            let with_taps = phases.iter().filter(|phase| phase.taps() > 0);
            let found = Phase::all_with_taps(geometry).map(|phase| phase.start);
            assert!(found.eq(with_taps.map(|phase| phase.start)), "{geometry:?}");
        });
    }

    #[test]
    fn a_kernel_fits_if_every_phase_has_a_padding() {
        for (kernel, stride, pad) in (0..6 * 6 * 6).map(|i| (i % 6, i / 6 % 6 + 1, i / 36)) {
            let mut places = pad..pad + stride;
            let fits = !places.any(|place| place % stride < kernel && place >= kernel);
            assert_eq!(has_nchwc_conv_transpose(kernel, stride, pad), fits);
        }
    }

    #[test]
    fn the_largest_strides_take_no_time() {
        let geometry = ConvTranspose {
            batch: 1,
            groups: 16,
            channels: 1,
            filters: 1,
            size: &[1, 1],
            out: &[1, 2],
            kernel: &[1, 1],
            strides: &[1 << 28; 2],
            dilations: &[1, 1],
            pads: &[0, 0],
            weights: WeightLayout::Plain,
        };
        let (mut packed, mut y) = ([0.0; BLOCK], [9.0; 2 * BLOCK]);
        pack_transposed(&[2.0; BLOCK], &mut packed, geometry);
        transpose_depthwise(&[3.0; BLOCK], &packed, &mut y, geometry);
        assert_eq!(y[..BLOCK], [6.0; BLOCK]);
        assert_eq!(y[BLOCK..], [0.0; BLOCK]);
        assert!(conv_transpose_nchwc_scratch(&geometry) < 1 << 20);
    }
}
