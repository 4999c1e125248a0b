//! The geometry of windows along one axis.

use super::window::Taps;
use core::ops::Range;

/// An axis of an image and of the windows that slide over it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Axis {
    /// The size of the image.
    pub size: usize,
    /// The size of the output.
    pub out: usize,
    /// The size of the kernel.
    pub kernel: usize,
    /// The distance of neighboring windows.
    pub stride: usize,
    /// The distance of neighboring elements of a window.
    pub dilation: usize,
    /// The number of elements of padding before the image.
    pub pad: usize,
}

impl Axis {
    /// An axis of size 1, in place of a missing one.
    pub const NONE: Axis = Axis { size: 1, out: 1, kernel: 1, stride: 1, dilation: 1, pad: 0 };

    /// Returns the last axis of windows.
    pub fn last_of(taps: &Taps<'_>) -> Axis {
        let [size, out, kernel, stride, dilation, pad] = taps.last();
        Axis { size, out, kernel, stride, dilation, pad }
    }

    /// Returns whether no window reaches behind the image.
    pub const fn fits(&self) -> bool {
        self.out == 0 || (self.out - 1) * self.stride + self.reach() < self.pad + self.size
    }

    /// Returns the distance from the kernel's first element to its last.
    pub const fn reach(&self) -> usize {
        self.kernel.saturating_sub(1) * self.dilation
    }

    /// Returns the size of the part of the padded image that the windows read.
    pub const fn extent(&self) -> usize {
        self.out.saturating_sub(1) * self.stride + self.reach() + 1
    }

    /// Returns whether the windows read no padding.
    pub const fn is_inside(&self) -> bool {
        self.pad == 0 && self.extent() <= self.size
    }

    /// Returns the number of phases of the stride that the kernel reads.
    pub const fn phases(&self) -> usize {
        if self.reach() < self.stride { self.reach() + 1 } else { self.stride }
    }

    /// Returns the number of elements of a phase that are read in addition to one per output.
    pub const fn extra(&self) -> usize {
        self.reach() / self.stride
    }

    /// Returns the number of elements of a phase that are read.
    pub const fn plane(&self) -> usize {
        self.out + self.extra()
    }

    /// Returns the phase that an element of the kernel reads, and its offset in the phase.
    pub const fn tap(&self, at: usize) -> (usize, usize) {
        let place = at * self.dilation;
        (place % self.stride, place / self.stride)
    }

    /// Returns the position in the image of the element of a phase for output `o`; `None` for
    /// padding.
    pub fn input(&self, o: usize, phase: usize) -> Option<usize> {
        let place = (o * self.stride + phase).checked_sub(self.pad)?;
        (place < self.size).then_some(place)
    }

    /// Returns the outputs whose windows read no padding.
    pub fn inside(&self) -> Range<usize> {
        let end = (self.pad + self.size).saturating_sub(self.reach());
        self.pad.div_ceil(self.stride)..end.div_ceil(self.stride).min(self.out)
    }

    /// Returns the longest run of outputs from `first` on, below `end`, whose windows use the same
    /// elements of the kernel. Those that are `inside` use all.
    pub fn tap_run(&self, inside: &Range<usize>, first: usize, end: usize) -> TapRun {
        let start = first * self.stride;
        if inside.contains(&first) {
            let count = inside.end.min(end) - first;
            return TapRun { count, from: start - self.pad, taps: 0..self.kernel };
        }
        // Divisions take longer than a short run.
        let steps = |len: usize| if self.dilation == 1 { len } else { len.div_ceil(self.dilation) };
        let before = steps(self.pad.saturating_sub(start)).min(self.kernel);
        let seen = steps((self.pad + self.size).saturating_sub(start)).min(self.kernel);
        let from = (start + before * self.dilation).saturating_sub(self.pad);
        TapRun { count: 1, from, taps: before..seen }
    }
}

/// Neighboring outputs, along one axis, whose windows use the same elements of the kernel.
#[derive(Clone, Debug)]
pub(crate) struct TapRun {
    /// The number of outputs.
    pub count: usize,
    /// The first position in the image that the first output reads.
    pub from: usize,
    /// The elements of the kernel.
    pub taps: Range<usize>,
}
