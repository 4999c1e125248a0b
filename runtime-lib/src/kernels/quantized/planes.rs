//! The padded input of an 8-bit convolution, reordered so that the operands of one weight are
//! contiguous: each phase of the strides has a plane, in which neighboring outputs read neighboring
//! bytes.

use crate::kernels::conv::Conv;
use crate::loops::window_axis::Axis;

/// The planes of a group of channels.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Planes {
    channels: usize,
    axes: [Axis; 3],
}

impl Planes {
    /// The planes of a convolution with at most three axes.
    pub const fn of(conv: &Conv<'_>) -> Planes {
        let Some(axes) = conv.three_axes() else {
            panic!("the compiler lets no more axes come here")
        };
        Planes { channels: conv.channels, axes }
    }

    /// Returns whether each output reads only the input at its own position.
    pub const fn is_input(&self) -> bool {
        let mut i = 0;
        while i < 3 {
            let axis = &self.axes[i];
            if axis.kernel != 1 || axis.stride != 1 || axis.pad != 0 || axis.size != axis.out {
                return false;
            }
            i += 1;
        }
        true
    }

    /// The number of channels.
    pub const fn channels(&self) -> usize {
        self.channels
    }

    /// The number of bytes of a channel.
    pub const fn channel(&self) -> usize {
        let [d, h, w] = &self.axes;
        d.size * h.size * w.size
    }

    /// The number of depths of the output, and the number of elements of each.
    pub const fn depths(&self) -> (usize, usize) {
        let [d, h, w] = &self.axes;
        (d.out, h.out * w.out)
    }

    /// The row stride of a plane, and the number of its elements that are results.
    pub const fn lines(&self) -> (usize, usize) {
        let w = &self.axes[2];
        (w.plane(), w.out)
    }

    /// The number of elements of an output channel at one depth.
    pub const fn results(&self) -> usize {
        self.depths().1
    }

    /// The number of columns of neighboring lines that are accumulated together: at least one line.
    pub const fn line_sums(&self) -> usize {
        const AT_ONCE: usize = 128;
        let (columns, width) = (self.columns(), self.axes[2].out);
        let most = if columns < AT_ONCE { columns } else { AT_ONCE };
        if most < width { width } else { most }
    }

    /// The number of taps of a window.
    pub const fn taps(&self) -> usize {
        let [d, h, w] = &self.axes;
        d.kernel * h.kernel * w.kernel
    }

    /// The number of neighboring elements of a line that a window reads, if they are contiguous and
    /// at most four.
    pub const fn neighbors(&self) -> Option<usize> {
        let w = &self.axes[2];
        let near = w.stride == 1 && w.dilation == 1 && 0 < w.kernel && w.kernel <= 4;
        if near { Some(w.kernel) } else { None }
    }

    /// The number of columns of planes that are computed for the output at one depth.
    pub const fn columns(&self) -> usize {
        let [_, h, w] = &self.axes;
        if h.out == 0 || w.out == 0 { 0 } else { (h.out - 1) * w.plane() + w.out }
    }

    /// The number of bytes of the planes of one input depth.
    const fn slice(&self) -> usize {
        let [_, h, w] = &self.axes;
        h.phases() * w.phases() * h.plane() * w.plane()
    }

    /// The number of depths of the padded input that are read.
    const fn slices(&self) -> usize {
        let d = &self.axes[0];
        if d.out == 0 { 0 } else { (d.out - 1) * d.stride + d.reach() + 1 }
    }

    /// The number of bytes of all planes.
    pub const fn len(&self) -> usize {
        self.channels * self.slices() * self.slice()
    }

    /// The stride of output depths in the planes.
    pub const fn depth_step(&self) -> usize {
        self.axes[0].stride * self.slice()
    }

    /// Writes the offsets of the bytes that each weight is multiplied by. The padding of the last
    /// quad has weights of zero.
    pub fn starts(&self, starts: &mut [u32]) {
        let [d, h, w] = self.axes;
        let mut starts = starts.iter_mut();
        for channel in 0..self.channels {
            for i in 0..d.kernel {
                let slice = (channel * self.slices() + i * d.dilation) * self.slice();
                for j in (0..h.kernel).map(|j| j * h.dilation) {
                    for (k, to) in (0..w.kernel).map(|k| k * w.dilation).zip(&mut starts) {
                        let phase = j % h.stride * w.phases() + k % w.stride;
                        let row = phase * h.plane() + j / h.stride;
                        *to = (slice + row * w.plane() + k / w.stride) as u32;
                    }
                }
            }
        }
        starts.for_each(|to| *to = 0);
    }

    /// Fills the planes with the channels `x`. The padding keeps its contents, which are the same
    /// for all images.
    #[inline(always)]
    pub fn fill(&self, x: &[u8], planes: &mut [u8]) {
        let [d, h, w] = self.axes;
        let (pitch, slice) = (w.plane(), self.slice());
        for (c, channel) in x.chunks_exact(self.channel().max(1)).enumerate() {
            for depth in 0..self.slices() {
                let Some(from) = depth.checked_sub(d.pad).filter(|&from| from < d.size) else {
                    continue;
                };
                let image = &channel[from * h.size * w.size..][..h.size * w.size];
                let to = &mut planes[(c * self.slices() + depth) * slice..][..slice];
                for phase in 0..h.phases() * w.phases() {
                    let line = Line::of(&w, phase % w.phases());
                    let plane = &mut to[phase * h.plane() * pitch..][..h.plane() * pitch];
                    for (i, to) in plane.chunks_exact_mut(pitch.max(1)).enumerate() {
                        if let Some(row) = h.input(i, phase / w.phases()) {
                            line.copy(&image[row * w.size..][..w.size], w.stride, to);
                        }
                    }
                }
            }
        }
    }
}

/// The part of a row of the input that a line of a plane holds.
#[derive(Clone, Copy)]
struct Line {
    /// The offset in the line.
    to: usize,
    /// The offset in the row.
    from: usize,
    /// The number of elements.
    count: usize,
}

impl Line {
    /// The part of a phase.
    fn of(axis: &Axis, phase: usize) -> Line {
        let to = axis.pad.saturating_sub(phase).div_ceil(axis.stride).min(axis.plane());
        let from = (phase + to * axis.stride).saturating_sub(axis.pad);
        let there = axis.size.saturating_sub(from).div_ceil(axis.stride);
        Line { to, from: from.min(axis.size), count: there.min(axis.plane() - to) }
    }

    #[inline(always)]
    fn copy(self, row: &[u8], stride: usize, line: &mut [u8]) {
        let (from, to) = (&row[self.from..], &mut line[self.to..][..self.count]);
        match stride {
            1 => to.copy_from_slice(&from[..self.count]),
            2 => {
                let (pairs, rest) = from.as_chunks::<2>();
                to.iter_mut().zip(pairs).for_each(|(to, pair)| *to = pair[0]);
                if self.count > pairs.len() {
                    to[self.count - 1] = rest[0];
                }
            }
            _ => to.iter_mut().zip(from.iter().step_by(stride)).for_each(|(to, &x)| *to = x),
        }
    }
}
