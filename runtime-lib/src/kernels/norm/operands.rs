//! The operands of the normalizations of rows and of their gradients.

use crate::loops::geometry::Axis;
use crate::{Float, Number};

/// The operands of a normalization of rows; `CENTERED` subtracts the mean.
pub(super) struct Layer<'a, T, const CENTERED: bool> {
    /// The elements, or empty if they are those of `y`.
    pub(super) x: &'a [T],
    pub(super) y: &'a mut [T],
    /// As long as a row, or empty.
    pub(super) scale: &'a [T],
    /// As long as a row, or empty.
    pub(super) bias: &'a [T],
    pub(super) geometry: Axis,
    pub(super) epsilon: f32,
    pub(super) statistics: Statistics<'a>,
}

impl<'a, T: Copy, const CENTERED: bool> Layer<'a, T, CENTERED> {
    /// Returns row `i` of `y`, with the elements of `x`. Rows are copied one by one, so that each
    /// is in the cache when it is normalized.
    #[inline(always)]
    pub(super) fn row(&mut self, i: usize) -> &mut [T] {
        let len = self.geometry.len;
        let y = &mut self.y[i * len..][..len];
        if !self.x.is_empty() {
            y.copy_from_slice(&self.x[i * len..][..len]);
        }
        y
    }
}

/// The destinations of the statistics of the rows.
pub(super) struct Statistics<'a> {
    pub(super) mean: Option<&'a mut [f32]>,
    pub(super) inv_std_dev: Option<&'a mut [f32]>,
}

impl Statistics<'_> {
    pub(super) fn is_wanted(&self) -> bool {
        self.mean.is_some() || self.inv_std_dev.is_some()
    }

    #[inline(always)]
    pub(super) fn write<W: Float>(&mut self, row: usize, mean: W, inv_std_dev: W) {
        let narrow = |x: W| f32::from_f64(x.to_f64());
        if let Some(means) = &mut self.mean {
            means[row] = narrow(mean);
        }
        if let Some(inv_std_devs) = &mut self.inv_std_dev {
            inv_std_devs[row] = narrow(inv_std_dev);
        }
    }
}

/// The operands of a gradient, and its destinations.
pub(super) struct Grad<'a, T, const CENTERED: bool> {
    pub(super) x: &'a [T],
    pub(super) scale: &'a [T],
    pub(super) dy: &'a [T],
    /// The gradients of `x`, the scale and the bias.
    pub(super) found: [Option<&'a mut [T]>; 3],
    pub(super) geometry: Axis,
    pub(super) epsilon: f32,
}
