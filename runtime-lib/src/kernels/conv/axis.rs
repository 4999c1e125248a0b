//! The axes of a convolution, one by one.

use super::Conv;
use crate::loops::window::Taps;
use core::ops::Range;

/// One axis of a convolution.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Axis {
    /// The size of the image.
    pub size: usize,
    /// The size of the output.
    pub out: usize,
    /// The size of the kernel.
    pub kernel: usize,
    /// How far apart windows start.
    pub stride: usize,
    /// How far apart the elements of a window are.
    pub dilation: usize,
    /// How many elements are missing in front of the image.
    pub pad: usize,
}

impl Axis {
    /// An axis that is not there.
    pub const NONE: Axis = Axis { size: 1, out: 1, kernel: 1, stride: 1, dilation: 1, pad: 0 };

    /// Axis `i` of a convolution.
    pub const fn of(conv: &Conv<'_>, i: usize) -> Axis {
        Axis {
            size: conv.size[i],
            out: conv.out[i],
            kernel: conv.kernel[i],
            stride: conv.strides[i],
            dilation: conv.dilations[i],
            pad: conv.pads[i],
        }
    }

    /// The last axis of windows.
    pub fn last_of(taps: &Taps<'_>) -> Axis {
        let [size, out, kernel, stride, dilation, pad] = taps.last();
        Axis { size, out, kernel, stride, dilation, pad }
    }

    /// The two last axes of a convolution; [`Axis::NONE`] and the only one, where there is one.
    pub const fn last_two(conv: &Conv<'_>) -> [Axis; 2] {
        let last = conv.size.len() - 1;
        [if last > 0 { Axis::of(conv, last - 1) } else { Axis::NONE }, Axis::of(conv, last)]
    }

    /// The axes of a convolution that has three at most, behind those that are not there.
    pub const fn all(conv: &Conv<'_>) -> Option<[Axis; 3]> {
        let rank = conv.size.len();
        if rank > 3 {
            return None;
        }
        let (mut axes, mut i) = ([Axis::NONE; 3], 0);
        while i < rank {
            axes[3 - rank + i] = Axis::of(conv, i);
            i += 1;
        }
        Some(axes)
    }

    /// Whether no window reaches behind the image.
    pub const fn fits(&self) -> bool {
        self.out == 0 || (self.out - 1) * self.stride + self.reach() < self.pad + self.size
    }

    /// How far the kernel reaches past its first element.
    pub const fn reach(&self) -> usize {
        self.kernel.saturating_sub(1) * self.dilation
    }

    /// How much of the padded image the windows see.
    pub const fn extent(&self) -> usize {
        self.out.saturating_sub(1) * self.stride + self.reach() + 1
    }

    /// Whether they see nothing but the image.
    pub const fn is_inside(&self) -> bool {
        self.pad == 0 && self.extent() <= self.size
    }

    /// How many phases of the stride the kernel reads.
    pub const fn phases(&self) -> usize {
        if self.reach() < self.stride { self.reach() + 1 } else { self.stride }
    }

    /// How many more elements of a phase are read than there are outputs.
    pub const fn extra(&self) -> usize {
        self.reach() / self.stride
    }

    /// How many elements of a phase are read.
    pub const fn plane(&self) -> usize {
        self.out + self.extra()
    }

    /// The phase that an element of the kernel reads, and from where on.
    pub const fn tap(&self, at: usize) -> (usize, usize) {
        let place = at * self.dilation;
        (place % self.stride, place / self.stride)
    }

    /// Where the element of a phase for output `o` is in the image, if it is not padding.
    pub fn input(&self, o: usize, phase: usize) -> Option<usize> {
        let place = (o * self.stride + phase).checked_sub(self.pad)?;
        (place < self.size).then_some(place)
    }
    /// The outputs whose windows see nothing but the image.
    pub fn inside(&self) -> Range<usize> {
        let room = (self.pad + self.size).saturating_sub(self.reach());
        self.pad.div_ceil(self.stride)..room.div_ceil(self.stride).min(self.out)
    }

    /// The outputs from `first` on, but not from `end` on, whose windows see the same elements of the
    /// kernel. Those that are `inside` see all.
    pub fn tap_run(&self, inside: &Range<usize>, first: usize, end: usize) -> TapRun {
        let start = first * self.stride;
        if inside.contains(&first) {
            let count = inside.end.min(end) - first;
            return TapRun { count, from: start - self.pad, taps: 0..self.kernel };
        }
        // Divisions take longer than a short stretch.
        let steps = |len: usize| if self.dilation == 1 { len } else { len.div_ceil(self.dilation) };
        let before = steps(self.pad.saturating_sub(start)).min(self.kernel);
        let seen = steps((self.pad + self.size).saturating_sub(start)).min(self.kernel);
        let from = (start + before * self.dilation).saturating_sub(self.pad);
        TapRun { count: 1, from, taps: before..seen }
    }
}

/// Neighboring outputs, along one axis, whose windows see the same elements of the kernel.
#[derive(Clone, Debug)]
pub(crate) struct TapRun {
    /// How many they are.
    pub count: usize,
    /// Where in the image the first of them begins to see it.
    pub from: usize,
    /// The elements of the kernel.
    pub taps: Range<usize>,
}
