//! The input of a convolution of bytes, padded and laid out so that what one weight is multiplied
//! with lies in one piece: for each phase of the strides there is a plane, in which neighboring
//! places of the output read neighboring bytes.

use crate::kernels::conv::{Axis, Conv};

/// The planes of a group of channels.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Planes {
    channels: usize,
    axes: [Axis; 3],
}

impl Planes {
    /// Those of a convolution with at most three axes.
    pub const fn of(conv: &Conv<'_>) -> Planes {
        let Some(axes) = Axis::all(conv) else {
            panic!("the compiler lets no more axes come here")
        };
        Planes { channels: conv.channels, axes }
    }

    /// Whether each output reads the input at its own place only.
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

    /// How many channels there are.
    pub const fn channels(&self) -> usize {
        self.channels
    }

    /// How many bytes a channel has.
    pub const fn channel(&self) -> usize {
        let [d, h, w] = &self.axes;
        d.size * h.size * w.size
    }

    /// How many depths the output has, and how many of its elements each.
    pub const fn depths(&self) -> (usize, usize) {
        let [d, h, w] = &self.axes;
        (d.out, h.out * w.out)
    }

    /// How far apart lines of a plane start, and how many of their elements are results.
    pub const fn lines(&self) -> (usize, usize) {
        let w = &self.axes[2];
        (w.plane(), w.out)
    }

    /// How many elements the output of a channel has at one depth.
    pub const fn results(&self) -> usize {
        self.depths().1
    }

    /// How many columns of neighboring lines are summed up at once: at least those of one line.
    pub const fn line_sums(&self) -> usize {
        const AT_ONCE: usize = 128;
        let (columns, width) = (self.columns(), self.axes[2].out);
        let most = if columns < AT_ONCE { columns } else { AT_ONCE };
        if most < width { width } else { most }
    }

    /// How many elements of a channel a window reads.
    pub const fn taps(&self) -> usize {
        let [d, h, w] = &self.axes;
        d.kernel * h.kernel * w.kernel
    }

    /// How many neighboring elements of a line a window reads, where it reads no others of it, and
    /// no more than four.
    pub const fn neighbors(&self) -> Option<usize> {
        let w = &self.axes[2];
        let near = w.stride == 1 && w.dilation == 1 && 0 < w.kernel && w.kernel <= 4;
        if near { Some(w.kernel) } else { None }
    }

    /// How many columns of planes are computed for the output at one depth.
    pub const fn columns(&self) -> usize {
        let [_, h, w] = &self.axes;
        if h.out == 0 || w.out == 0 { 0 } else { (h.out - 1) * w.plane() + w.out }
    }

    /// How many bytes the planes of one depth of the input have.
    const fn slice(&self) -> usize {
        let [_, h, w] = &self.axes;
        h.phases() * w.phases() * h.plane() * w.plane()
    }

    /// How many depths of the padded input are read.
    const fn slices(&self) -> usize {
        let d = &self.axes[0];
        if d.out == 0 { 0 } else { (d.out - 1) * d.stride + d.reach() + 1 }
    }

    /// How many bytes all planes have.
    pub const fn len(&self) -> usize {
        self.channels * self.slices() * self.slice()
    }

    /// How far the planes for one depth of the output start from those of the next.
    pub const fn depth_step(&self) -> usize {
        self.axes[0].stride * self.slice()
    }

    /// Writes where the bytes start that each weight is multiplied with; what fills the last quad is
    /// multiplied with zeros.
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

    /// Fills the planes with the channels `x`. Where there is padding they keep what they hold,
    /// which is the same for all images.
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

/// What a line of a plane has of a row of the input.
#[derive(Clone, Copy)]
struct Line {
    /// Where it starts in the line.
    to: usize,
    /// Where it starts in the row.
    from: usize,
    /// How many elements it has.
    count: usize,
}

impl Line {
    /// Those of a phase.
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
