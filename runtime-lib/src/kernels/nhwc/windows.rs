//! The offsets of the windows of a convolution in an NHWC image of bytes.

use super::{MAX_AXES, QUAD};
use crate::kernels::conv::Conv;
use crate::loops::window_axis::Axis;
use crate::threads;

/// The windows of a convolution.
#[derive(Clone, Copy)]
pub(super) struct Windows {
    axes: [Axis; MAX_AXES],
    /// The bytes of a pixel.
    pixel: usize,
    /// Whether the image is read without a copy: windows read no padding, and no byte behind it.
    is_inside: bool,
}

impl Windows {
    /// Returns the windows of a convolution with at most three axes.
    pub const fn of(conv: &Conv<'_>, pixel: usize) -> Windows {
        let Some(axes) = conv.three_axes() else {
            panic!("the compiler lets no more axes come here")
        };
        let [d, h, w] = &axes;
        let is_inside = d.is_inside() && h.is_inside() && w.is_inside();
        let windows = Windows { axes, pixel, is_inside };
        Windows { is_inside: is_inside && windows.run().is_multiple_of(QUAD), ..windows }
    }

    /// Returns the number of contiguous elements of a row of the kernel.
    pub const fn run_taps(&self) -> usize {
        let w = &self.axes[2];
        if w.dilation == 1 { w.kernel } else { 1 }
    }

    /// Returns the number of contiguous bytes of a window.
    pub const fn run(&self) -> usize {
        self.run_taps() * self.pixel
    }

    /// Returns the number of contiguous runs of a window.
    pub const fn runs(&self) -> usize {
        let [d, h, w] = &self.axes;
        d.kernel * h.kernel * if w.dilation == 1 { 1 } else { w.kernel }
    }

    /// Returns the bytes of the image.
    pub const fn image(&self) -> usize {
        let [d, h, w] = &self.axes;
        d.size * h.size * w.size * self.pixel
    }

    /// Returns the bytes of the padded copy, including those that the last quad of a run reads
    /// behind it; 0 if the image is read without a copy.
    pub const fn copy_len(&self) -> usize {
        let [d, h, w] = &self.axes;
        if self.is_inside {
            return 0;
        }
        let behind = self.run().next_multiple_of(QUAD) - self.run();
        d.extent() * h.extent() * w.extent() * self.pixel + behind
    }

    /// Returns the number of pixels of the output.
    pub const fn places(&self) -> usize {
        let [d, h, w] = &self.axes;
        d.out * h.out * w.out
    }

    /// Returns the stride of windows in bytes if each is one pixel and none is skipped.
    #[cfg(x86_avx512)]
    pub fn pixels_apart(&self) -> Option<usize> {
        let is_whole = |axis: &Axis| axis.kernel == 1 && axis.stride == 1 && axis.out == axis.size;
        (self.is_inside && self.axes.iter().all(is_whole)).then_some(self.pixel)
    }

    /// Returns the axes.
    pub const fn axes(&self) -> &[Axis; MAX_AXES] {
        &self.axes
    }

    /// Returns the columns of the output.
    pub const fn columns(&self) -> usize {
        self.axes[2].out
    }

    /// Returns the strides of planes, rows and pixels in the input of the windows, in bytes.
    const fn strides(&self) -> [usize; MAX_AXES] {
        let [_, h, w] = &self.axes;
        let (h, w) = if self.is_inside { (h.size, w.size) } else { (h.extent(), w.extent()) };
        [h * w * self.pixel, w * self.pixel, self.pixel]
    }

    /// Returns the input of the windows: the image, or a padded copy of it.
    pub fn seen<'a>(&self, image: &'a [u8], zero: u8, copy: &'a mut [u8]) -> &'a [u8] {
        if self.is_inside {
            return image;
        }
        let [d, h, w] = &self.axes;
        let (copy, pixel) = (&mut copy[..self.copy_len()], self.pixel);
        let (from, to) = (w.size * pixel, w.extent() * pixel);
        let before = w.pad.min(w.extent()) * pixel;
        let rows = d.extent() * h.extent() * to;
        threads::share(&mut copy[..rows], to, rows / QUAD, |first, rows| {
            for (i, row) in (first..).zip(rows.chunks_exact_mut(to.max(1))) {
                let depth = (i / h.extent()).checked_sub(d.pad).filter(|&depth| depth < d.size);
                let line = (i % h.extent()).checked_sub(h.pad).filter(|&line| line < h.size);
                let (Some(depth), Some(line)) = (depth, line) else {
                    row.fill(zero);
                    continue;
                };
                let image = &image[(depth * h.size + line) * from..][..from];
                let (left, row) = row.split_at_mut(before);
                let (middle, right) = row.split_at_mut(from.min(row.len()));
                left.fill(zero);
                middle.copy_from_slice(&image[..middle.len()]);
                right.fill(zero);
            }
        });
        copy
    }

    /// Returns the position of each element of the kernel.
    pub fn taps(&self) -> impl Iterator<Item = [usize; MAX_AXES]> {
        let [d, h, w] = self.axes;
        let rows = move |i| (0..h.kernel).map(move |j| [i, j]);
        (0..d.kernel).flat_map(rows).flat_map(move |[i, j]| (0..w.kernel).map(move |k| [i, j, k]))
    }

    /// Returns the sizes of the kernel.
    pub fn kernel(&self) -> [usize; MAX_AXES] {
        self.axes.map(|axis| axis.kernel)
    }

    /// Returns the offset of an element of a window from its first element, in bytes.
    pub fn tap(&self, at: [usize; MAX_AXES]) -> usize {
        let apart = at.iter().zip(&self.axes).zip(self.strides());
        apart.map(|((at, axis), stride)| at * axis.dilation * stride).sum()
    }

    /// Returns the offsets of the windows, from pixel `place` of the output on.
    pub fn from(&self, place: usize) -> Places {
        let [_, h, w] = &self.axes;
        let at = [place / (h.out * w.out).max(1), place / w.out.max(1) % h.out.max(1)];
        let apart = self.strides();
        let mut steps = [0; MAX_AXES];
        for (step, (axis, apart)) in steps.iter_mut().zip(self.axes.iter().zip(apart)) {
            *step = axis.stride * apart;
        }
        let [plane, row, _] = steps;
        let column = place % w.out.max(1);
        Places {
            start: at[0] * plane + at[1] * row,
            row: at[1],
            column,
            steps,
            rows: h.out,
            columns: w.out,
            plane: at[0] * plane,
        }
    }
}

/// The offsets of consecutive windows.
pub(super) struct Places {
    /// The offset of the row.
    start: usize,
    /// The offset of the plane.
    plane: usize,
    row: usize,
    column: usize,
    steps: [usize; MAX_AXES],
    rows: usize,
    columns: usize,
}

impl Places {
    /// Returns the offsets of the next `N` windows.
    #[inline(always)]
    pub fn take<const N: usize>(&mut self) -> [usize; N] {
        let mut at = [0; N];
        if self.column + N < self.columns {
            // All are in one row, before its last pixel.
            let (first, step) = (self.start + self.column * self.steps[2], self.steps[2]);
            at.iter_mut().enumerate().for_each(|(i, at)| *at = first + i * step);
            self.column += N;
        } else {
            at.iter_mut().for_each(|at| *at = self.next());
        }
        at
    }

    /// Returns the offset of the next window.
    #[inline(always)]
    pub fn next(&mut self) -> usize {
        let at = self.start + self.column * self.steps[2];
        self.column += 1;
        if self.column == self.columns {
            self.column = 0;
            self.row += 1;
            self.start += self.steps[1];
            if self.row == self.rows {
                self.row = 0;
                self.plane += self.steps[0];
                self.start = self.plane;
            }
        }
        at
    }
}
