//! NCHWc depthwise convolutions.

use super::{ConvOperands, product};
use crate::Number;
use crate::arena::Aligned;
use crate::kernels::conv::Conv;
use crate::loops::epilogue::Activation;
use crate::loops::geometry::BLOCK;
use crate::loops::window_axis::{Axis, TapRun};
use crate::microkernel::{Depthwise, FusedActivation};
use crate::simd::{HAS_VECTORS, Simd, WithSimd, dispatch};
use crate::threads::{self, By, Share};
use core::ops::Range;

/// Packs the weights of a depthwise convolution: `[block, tap, 16]`.
pub fn pack_depthwise_blocks<T: Number>(w: &[T], y: &mut [T], geometry: &Conv<'_>) {
    let taps = product(geometry.kernel);
    for (at, y) in y.iter_mut().enumerate() {
        let (block, tap, lane) = (at / BLOCK / taps, at / BLOCK % taps, at % BLOCK);
        *y = w.get((block * BLOCK + lane) * taps + tap).copied().unwrap_or(T::ZERO);
    }
}

/// Computes `y = f(w ∗ x + bias + add)` for as many groups as channels. All operands but the bias
/// are NCHWc. The weights are packed by [`pack_depthwise_blocks`]; the bias has a number for each
/// channel of the blocks.
#[inline(always)]
pub fn depthwise_nchwc(
    operands: ConvOperands<'_, f32>,
    y: &mut [f32],
    geometry: Conv<'_>,
    f: Activation,
) {
    FusedActivation::within_all(f, y, |y, f| depthwise(operands, y, &geometry, f));
}

#[inline(never)]
fn depthwise(
    ConvOperands { x, w, bias, add }: ConvOperands<'_, f32>,
    y: &mut [f32],
    geometry: &Conv<'_>,
    f: FusedActivation<f32>,
) {
    let axes = geometry.last_two_axes();
    let blocks = geometry.groups.div_ceil(BLOCK);
    let row = axes[1].out * BLOCK;
    let [from, to] = [product(geometry.size) * BLOCK, axes[0].out * row];
    let taps = product(geometry.kernel);
    if to == 0 {
        return;
    }
    let padding = Padding::of(&axes);
    let axes = padding.as_ref().map_or(axes, |padding| padding.axes);
    let cost = y.len() + y.len() * taps * 2 / threads::MACS_PER_ELEMENT;
    Share::of(y, to).hand_out(row, By::Rows, cost, |mut piece| {
        let mut memory = padding.as_ref().map(|_| Aligned([0.0; Padding::PIXELS * BLOCK]));
        for (i, index) in piece.planes.enumerate() {
            let block = index % blocks;
            let add = add.map_or(&[][..], |add| &add[index * to..][..to]);
            let mut x = &x[index * from..][..from];
            if let (Some(padding), Some(memory)) = (&padding, &mut memory) {
                padding.copy_image(x, &mut memory.0);
                x = &memory.0;
            }
            let y = piece.y.plane(i);
            Slide {
                x,
                w: &w[block * taps * BLOCK..][..taps * BLOCK],
                bias: bias.map_or(&[], |bias| &bias[block * BLOCK..]),
                add: add.get(piece.rows.start * row..).unwrap_or(&[]),
                y: &mut *y,
                y_strides: [row, BLOCK],
                axes: &axes,
                rows: piece.rows.clone(),
                clamp: f.clamp(),
            }
            .compute();
            let len = y.len();
            f.finish(y, 1, len, len);
        }
    });
}

/// The zero padding of a small image. In a small image, most windows are at the edges and use
/// different parts of the kernel; with padding, all windows use the whole kernel. For a large
/// image, the copy costs more than the special cases.
struct Padding {
    /// The axes of the padded image.
    axes: [Axis; 2],
    /// The columns of the image.
    cols: usize,
    /// The position of the image in the padded one.
    first: usize,
}

impl Padding {
    /// The largest number of pixels of a padded image, which is on the stack.
    const PIXELS: usize = 256;

    /// Returns the padding of an image that needs some and is small enough.
    fn of(axes: &[Axis; 2]) -> Option<Padding> {
        let [h, w] = axes.map(|axis| axis.extent().max(axis.pad + axis.size));
        let wanted = axes.iter().any(|axis| !axis.is_inside());
        (HAS_VECTORS && wanted && h.saturating_mul(w) <= Padding::PIXELS).then(|| Padding {
            axes: [Axis { size: h, pad: 0, ..axes[0] }, Axis { size: w, pad: 0, ..axes[1] }],
            cols: axes[1].size,
            first: axes[0].pad * w + axes[1].pad,
        })
    }

    /// Copies an image between the zeros.
    fn copy_image(&self, x: &[f32], memory: &mut [f32]) {
        dispatch(CopyImage { x, to: &mut memory[self.first * BLOCK..], padding: self });
    }
}

/// The copy of an image to its position between zeros.
struct CopyImage<'a> {
    x: &'a [f32],
    to: &'a mut [f32],
    padding: &'a Padding,
}

impl WithSimd for CopyImage<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let CopyImage { x, to, padding: Padding { axes, cols, .. } } = self;
        // Rows are too short for a call of `memcpy`.
        let rows = x.chunks_exact((cols * BLOCK).max(1)).zip(to.chunks_mut(axes[1].size * BLOCK));
        for (row, to) in rows {
            let vectors = row.chunks_exact(S::LANES).zip(to.chunks_exact_mut(S::LANES));
            vectors.for_each(|(x, to)| s.store(s.load(x), to));
        }
    }
}

/// Windows that slide over an image of one block of channels, each channel with its own kernel.
pub(super) struct Slide<'a> {
    /// The image.
    pub x: &'a [f32],
    /// The kernels: `[tap, BLOCK]`.
    pub w: &'a [f32],
    /// The bias of each channel; empty for none.
    pub bias: &'a [f32],
    /// The residual, with the layout of the output; empty for none.
    pub add: &'a [f32],
    /// The output, from the first row on that is computed.
    pub y: &'a mut [f32],
    /// The row and column strides of the output, in elements.
    pub y_strides: [usize; 2],
    /// The rows and columns.
    pub axes: &'a [Axis; 2],
    /// The rows of the output that are computed.
    pub rows: Range<usize>,
    /// The minimum and the maximum of the result.
    pub clamp: Option<(f32, f32)>,
}

impl Slide<'_> {
    /// Computes the output at the best SIMD level of the processor.
    #[inline(never)]
    pub fn compute(self) {
        dispatch(self);
    }

    /// Returns the convolution of some rows and columns, from a row and a column on, whose windows
    /// use the same elements of the kernel.
    #[inline(always)]
    fn part(&mut self, [row, col]: [usize; 2], [down, along]: [&TapRun; 2]) -> Depthwise<'_> {
        let [h, w] = self.axes;
        let [x_row_stride, w_row_stride] = [w.size, w.kernel].map(|size| size * BLOCK);
        let at = (row - self.rows.start) * self.y_strides[0] + col * self.y_strides[1];
        Depthwise {
            x: self.x.get(down.from * x_row_stride + along.from * BLOCK..).unwrap_or(&[]),
            x_strides: [h.stride * x_row_stride, w.stride * BLOCK],
            kernel: [down.taps.len(), along.taps.len()],
            tap_strides: [h.dilation * x_row_stride, w.dilation * BLOCK],
            w: self
                .w
                .get(down.taps.start * w_row_stride + along.taps.start * BLOCK..)
                .unwrap_or(&[]),
            w_row_stride,
            bias: self.bias,
            add: self.add.get(at..).unwrap_or(&[]),
            y: &mut self.y[at..],
            y_strides: self.y_strides,
            rows: down.count,
            cols: along.count,
            clamp: self.clamp,
        }
    }
}

impl WithSimd for Slide<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(mut self, s: S) {
        let [h, w] = self.axes;
        let inside = [h.inside(), w.inside()];
        let (mut row, end) = (self.rows.start, self.rows.end);
        while row < end {
            let down = h.tap_run(&inside[0], row, end);
            let mut col = 0;
            while col < w.out {
                let along = w.tap_run(&inside[1], col, w.out);
                self.part([row, col], [&down, &along]).run(s);
                col += along.count;
            }
            row += down.count;
        }
    }
}
