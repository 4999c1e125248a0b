//! The sums of the windows of a convolution, which zero points of weights are multiplied by:
//! `Σ x · (w - w_zero) = Σ x · w - w_zero · Σ x`.

use super::{Image, MAX_SUMS};
use crate::simd::Simd;
use crate::simd::int8::{Bytes, COLUMNS, Vector};

/// The zero points of the weights of filters, and the sums of the windows of a panel.
#[derive(Clone, Copy)]
pub(super) struct Windows<'a> {
    /// The zero point of each filter; empty if all are 0.
    zeros: &'a [i32],
    /// The number of weights of a filter.
    taps: usize,
    /// The first column of the panel.
    first: usize,
    /// The sum of each column's window, in the order of the panel.
    sums: [i32; 4 * MAX_SUMS],
}

impl<'a> Windows<'a> {
    pub fn new(zeros: &'a [i32], taps: usize) -> Windows<'a> {
        Windows { zeros, taps, first: 0, sums: [0; 4 * MAX_SUMS] }
    }

    /// Returns the windows for the filters from `first` on.
    pub fn from(self, first: usize) -> Windows<'a> {
        Windows { zeros: self.zeros.get(first..).unwrap_or(&[]), ..self }
    }

    /// Returns whether all zero points are 0.
    pub fn is_empty(&self) -> bool {
        self.zeros.is_empty()
    }

    /// Sums the windows of a packed panel of `width` columns from `first` on, if they are needed.
    #[inline(always)]
    pub fn add<S: Bytes>(&mut self, s: S, panel: &[u8], first: usize, width: usize) {
        if self.is_empty() {
            return;
        }
        let l = s.level();
        self.first = first;
        for (v, windows) in self.sums[..width].chunks_exact_mut(S::LANES).enumerate() {
            let mut sums = l.splat_i32(0);
            for (q, quads) in panel.chunks_exact(4 * width).enumerate() {
                // The padding of the last quad has no weights.
                let taps = [0, 1, 2, 3].map(|tap| u8::from(4 * q + tap < self.taps));
                let ones = l.splat_i32(i32::from_ne_bytes(taps));
                sums = s.dot(sums, s.load_bytes(&quads[v * 4 * S::LANES..]), ones);
            }
            s.store_sums(sums, windows);
        }
    }

    /// Returns the initial accumulators of filter `i` for the columns from `j` on, where `start` is
    /// that of a filter without a zero point.
    #[inline(always)]
    pub fn starts<S: Bytes>(&self, s: S, i: usize, j: usize, start: i32) -> Vector<S> {
        let Some(&zero) = self.zeros.get(i) else { return s.level().splat_i32(start) };
        let mut starts = [start; MAX_SUMS];
        for (start, &window) in starts.iter_mut().zip(&self.sums[j - self.first..]) {
            *start = start.wrapping_sub(zero.wrapping_mul(window));
        }
        s.load_sums(&starts)
    }

    /// Subtracts the part of the zero points from accumulators of filters, each with the columns
    /// from position `at` of the planes on, of which `n` count.
    #[inline(always)]
    pub fn subtract(
        &self,
        image: &Image<'_>,
        (at, n): (usize, usize),
        first: usize,
        sums: &mut [[i32; COLUMNS]],
    ) {
        if self.is_empty() {
            return;
        }
        let windows = self.of_columns(image, at, n);
        for (sums, zero) in sums.iter_mut().zip(&self.zeros[first..]) {
            for (sum, window) in sums.iter_mut().zip(windows) {
                *sum = sum.wrapping_sub(zero.wrapping_mul(window));
            }
        }
    }

    /// Returns the sums of the windows of `n` columns from position `at` of the planes on.
    #[inline(never)]
    fn of_columns(&self, image: &Image<'_>, at: usize, n: usize) -> [i32; COLUMNS] {
        let mut windows = [0; COLUMNS];
        for (j, window) in windows[..n].iter_mut().enumerate() {
            let bytes = image.starts[..self.taps].iter().map(|&start| start as usize + at + j);
            *window = bytes.map(|at| i32::from(image.x[at] ^ image.flip as u8)).sum();
        }
        windows
    }
}
