//! The axes of a convolution.

use super::Conv;
use crate::loops::window_axis::Axis;

impl Conv<'_> {
    /// Returns an axis.
    pub(crate) const fn axis(&self, i: usize) -> Axis {
        Axis {
            size: self.size[i],
            out: self.out[i],
            kernel: self.kernel[i],
            stride: self.strides[i],
            dilation: self.dilations[i],
            pad: self.pads[i],
        }
    }

    /// Returns the two last axes; [`Axis::NONE`] and the only axis if there is one.
    pub(crate) const fn last_two_axes(&self) -> [Axis; 2] {
        let last = self.size.len() - 1;
        [if last > 0 { self.axis(last - 1) } else { Axis::NONE }, self.axis(last)]
    }

    /// Returns the axes if there are at most three, after [`Axis::NONE`] for missing ones.
    pub(crate) const fn three_axes(&self) -> Option<[Axis; 3]> {
        let rank = self.size.len();
        if rank > 3 {
            return None;
        }
        let (mut axes, mut i) = ([Axis::NONE; 3], 0);
        while i < rank {
            axes[3 - rank + i] = self.axis(i);
            i += 1;
        }
        Some(axes)
    }
}
