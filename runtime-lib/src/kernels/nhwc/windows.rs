//! Where the windows of a convolution lie in an image whose pixels are so many bytes each.

use super::{MOST_AXES, QUAD};
use crate::kernels::conv::{Axis, Conv};
use crate::threads;

/// The windows of a convolution.
#[derive(Clone, Copy)]
pub(super) struct Windows {
    axes: [Axis; MOST_AXES],
    /// Bytes of a pixel.
    pixel: usize,
    /// Whether the image itself will do: windows see nothing else, and read no byte behind it.
    is_inside: bool,
}

impl Windows {
    /// Those of a convolution with at most three axes.
    pub const fn of(conv: &Conv<'_>, pixel: usize) -> Windows {
        let Some(axes) = Axis::all(conv) else {
            panic!("the compiler lets no more axes come here")
        };
        let [d, h, w] = &axes;
        let is_inside = d.is_inside() && h.is_inside() && w.is_inside();
        let windows = Windows { axes, pixel, is_inside };
        Windows { is_inside: is_inside && windows.run().is_multiple_of(QUAD), ..windows }
    }

    /// How many elements of a row of the kernel lie side by side.
    pub const fn run_taps(&self) -> usize {
        let w = &self.axes[2];
        if w.dilation == 1 { w.kernel } else { 1 }
    }

    /// How many bytes of a window lie side by side.
    pub const fn run(&self) -> usize {
        self.run_taps() * self.pixel
    }

    /// How many such runs a window has.
    pub const fn runs(&self) -> usize {
        let [d, h, w] = &self.axes;
        d.kernel * h.kernel * if w.dilation == 1 { 1 } else { w.kernel }
    }

    /// How many bytes the image has.
    pub const fn image(&self) -> usize {
        let [d, h, w] = &self.axes;
        d.size * h.size * w.size * self.pixel
    }

    /// How many bytes the padded copy has, with those that the last quad of a run reads behind it;
    /// none where the image itself will do.
    pub const fn copy_len(&self) -> usize {
        let [d, h, w] = &self.axes;
        if self.is_inside {
            return 0;
        }
        let behind = self.run().next_multiple_of(QUAD) - self.run();
        d.extent() * h.extent() * w.extent() * self.pixel + behind
    }

    /// How many pixels the output has.
    pub const fn places(&self) -> usize {
        let [d, h, w] = &self.axes;
        d.out * h.out * w.out
    }

    /// How many bytes a window starts behind the last, where each is one pixel, and no pixel is left
    /// out.
    #[cfg(target_arch = "x86_64")]
    pub fn pixels_apart(&self) -> Option<usize> {
        let is_whole = |axis: &Axis| axis.kernel == 1 && axis.stride == 1 && axis.out == axis.size;
        (self.is_inside && self.axes.iter().all(is_whole)).then_some(self.pixel)
    }

    /// The axes.
    pub const fn axes(&self) -> &[Axis; MOST_AXES] {
        &self.axes
    }

    /// How many columns a row of the output has.
    pub const fn columns(&self) -> usize {
        self.axes[2].out
    }

    /// How far planes, rows and pixels lie apart in what windows see.
    const fn strides(&self) -> [usize; MOST_AXES] {
        let [_, h, w] = &self.axes;
        let (h, w) = if self.is_inside { (h.size, w.size) } else { (h.extent(), w.extent()) };
        [h * w * self.pixel, w * self.pixel, self.pixel]
    }

    /// What the windows see: the image, or a copy of it with padding.
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

    /// Where each element of the kernel lies, seen from the first.
    pub fn taps(&self) -> impl Iterator<Item = [usize; MOST_AXES]> {
        let [d, h, w] = self.axes;
        let rows = move |i| (0..h.kernel).map(move |j| [i, j]);
        (0..d.kernel).flat_map(rows).flat_map(move |[i, j]| (0..w.kernel).map(move |k| [i, j, k]))
    }

    /// The sizes of the kernel.
    pub fn kernel(&self) -> [usize; MOST_AXES] {
        self.axes.map(|axis| axis.kernel)
    }

    /// How many bytes behind the first element of a window another one lies.
    pub fn tap(&self, at: [usize; MOST_AXES]) -> usize {
        let apart = at.iter().zip(&self.axes).zip(self.strides());
        apart.map(|((at, axis), stride)| at * axis.dilation * stride).sum()
    }

    /// Where the windows start, from that of a pixel of the output on.
    pub fn from(&self, place: usize) -> Places {
        let [_, h, w] = &self.axes;
        let at = [place / (h.out * w.out).max(1), place / w.out.max(1) % h.out.max(1)];
        let apart = self.strides();
        let mut steps = [0; MOST_AXES];
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

/// Where windows start, one after the other.
pub(super) struct Places {
    /// The start of the row.
    start: usize,
    /// The start of the plane.
    plane: usize,
    row: usize,
    column: usize,
    steps: [usize; MOST_AXES],
    rows: usize,
    columns: usize,
}

impl Places {
    /// Where the next windows start.
    #[inline(always)]
    pub fn take<const N: usize>(&mut self) -> [usize; N] {
        let mut at = [0; N];
        if self.column + N < self.columns {
            // None of them is the last one of a row.
            let (first, step) = (self.start + self.column * self.steps[2], self.steps[2]);
            at.iter_mut().enumerate().for_each(|(i, at)| *at = first + i * step);
            self.column += N;
        } else {
            at.iter_mut().for_each(|at| *at = self.next());
        }
        at
    }

    /// Where the next window starts.
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
