//! Upsamples a component to the size of the image.

use alloc::{vec, vec::Vec};

/// The samples of one component.
pub(super) struct Plane {
    /// The rows, one after another; each is longer than the image needs.
    pub samples: Vec<u8>,
    /// The row stride, in samples.
    pub stride: usize,
    /// The number of valid samples, vertically and horizontally.
    pub sizes: [usize; 2],
}

impl Plane {
    /// Returns a row.
    pub fn row(&self, row: usize) -> &[u8] {
        &self.samples[row * self.stride..][..self.sizes[1]]
    }

    /// Returns the plane upsample by integer factors, vertically and horizontally: by triangle
    /// filters for factors of 1 and 2, otherwise by repeating samples.
    pub fn upsample(self, factors: [usize; 2]) -> Plane {
        // Rows of up to two samples are repeated instead, like in other decoders.
        let wide = self.sizes[1] > 2;
        match factors {
            [1, 1] => self,
            [1, 2] if wide => self.with_rows([1, 2], |plane, row, y| double_row(plane.row(row), y)),
            [2, 1] => self.with_rows([2, 1], |plane, row, y| {
                let (near, far) = plane.neighbors(row);
                // Ties are rounded down in the upper row, up in the lower one.
                let bias = if row.is_multiple_of(2) { 1 } else { 2 };
                for ((y, &near), &far) in y.iter_mut().zip(near).zip(far) {
                    *y = ((3 * u16::from(near) + u16::from(far) + bias) >> 2) as u8;
                }
            }),
            [2, 2] if wide => self.with_rows([2, 2], |plane, row, y| {
                let (near, far) = plane.neighbors(row);
                double_both(near, far, y);
            }),
            _ => self.with_rows(factors, |plane, row, y| {
                for (y, x) in y.chunks_mut(factors[1]).zip(plane.row(row / factors[0])) {
                    y.fill(*x);
                }
            }),
        }
    }

    /// Returns the plane whose rows `row` writes.
    fn with_rows(
        self,
        factors: [usize; 2],
        mut row: impl FnMut(&Plane, usize, &mut [u8]),
    ) -> Plane {
        let sizes = [0, 1].map(|i| self.sizes[i] * factors[i]);
        let mut samples = vec![0; sizes[0] * sizes[1]];
        for (number, y) in samples.chunks_exact_mut(sizes[1]).enumerate() {
            row(&self, number, y);
        }
        Plane { samples, stride: sizes[1], sizes }
    }

    /// Returns the row that contains row `row` of the doubled plane, and the other one next to it.
    fn neighbors(&self, row: usize) -> (&[u8], &[u8]) {
        let near = row / 2;
        let far = if row.is_multiple_of(2) { near.saturating_sub(1) } else { near + 1 };
        (self.row(near), self.row(far.min(self.sizes[0] - 1)))
    }
}

/// Doubles the number of samples: 3/4 of the nearer one plus 1/4 of the other. Ties are rounded
/// alternately down and up.
fn double_row(x: &[u8], y: &mut [u8]) {
    let last = x.len() - 1;
    for (i, y) in y.chunks_exact_mut(2).enumerate() {
        let near = 3 * u16::from(x[i]);
        let [left, right] = [i.saturating_sub(1), (i + 1).min(last)].map(|i| u16::from(x[i]));
        y[0] = ((near + left + 1) >> 2) as u8;
        y[1] = ((near + right + 2) >> 2) as u8;
    }
}

/// Doubles the number of samples in both directions, from the nearer row and the other one.
fn double_both(near: &[u8], far: &[u8], y: &mut [u8]) {
    let last = near.len() - 1;
    let sum = |i: usize| 3 * u16::from(near[i]) + u16::from(far[i]);
    for (i, y) in y.chunks_exact_mut(2).enumerate() {
        let here = 3 * sum(i);
        y[0] = ((here + sum(i.saturating_sub(1)) + 8) >> 4) as u8;
        y[1] = ((here + sum((i + 1).min(last)) + 7) >> 4) as u8;
    }
}
