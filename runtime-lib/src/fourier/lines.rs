//! Lines of a tensor, a few at a time.

use super::{MOST_LANES, Transform};
use crate::{Float, Number};

/// Lines of a tensor: piles of lines, whose numbers lie a step apart.
#[derive(Clone, Copy, Debug)]
pub struct Lines {
    /// How many piles there are.
    pub piles: usize,
    /// From one pile to the next.
    pub pile: usize,
    /// How many lines a pile has.
    pub lines: usize,
    /// From one line to the next.
    pub line: usize,
    /// From one number to the next.
    pub step: usize,
}

/// Some lines that are transformed together.
pub(super) struct Block<'a> {
    /// How many lines there are room for, at least as many as there are.
    pub lanes: usize,
    /// Where each line starts.
    pub from: &'a [usize],
    /// Where each result starts.
    pub to: &'a [usize],
    /// The length of the transform.
    pub n: usize,
}

/// Calls `visit` with all lines, a few at a time.
pub(super) fn each_block(geometry: &Transform, n: usize, visit: &mut dyn FnMut(Block<'_>)) {
    let &Transform { lanes, from, to, .. } = geometry;
    let total = from.piles * from.lines;
    if n == 0 || lanes == 0 {
        return;
    }
    for first in (0..total).step_by(lanes) {
        let (mut starts, mut ends) = ([0; MOST_LANES], [0; MOST_LANES]);
        let count = lanes.min(total - first).min(MOST_LANES);
        for lane in 0..count {
            let (pile, line) = ((first + lane) / from.lines, (first + lane) % from.lines);
            starts[lane] = pile * from.pile + line * from.line;
            ends[lane] = pile * to.pile + line * to.line;
        }
        visit(Block { lanes, from: &starts[..count], to: &ends[..count], n });
    }
}

/// How lines are read: a multiple of `stride` numbers, `step` elements apart.
pub(super) struct Read<'a, T> {
    pub x: &'a [T],
    pub window: Option<&'a [T]>,
    pub block: &'a Block<'a>,
    pub step: usize,
    pub stride: usize,
}

impl<T: Float> Read<'_, T> {
    /// The first `given` numbers, `offset` elements behind the start of each line, and zeros behind
    /// them.
    pub fn to_lanes(&self, into: &mut [T::Wide], offset: usize, given: usize) {
        self.copy(into, offset, 0, given);
    }

    /// [`Read::to_lanes`] from the second number on.
    pub fn to_lanes_behind(&self, into: &mut [T::Wide], given: usize) {
        self.copy(into, self.step, 1, given);
    }

    fn copy(&self, into: &mut [T::Wide], offset: usize, place: usize, given: usize) {
        let Block { lanes, from, n, .. } = *self.block;
        let numbers = n / self.stride;
        for (t, row) in into.chunks_exact_mut(lanes).take(numbers).enumerate() {
            let lines = if t < given { from.len() } else { 0 };
            let (row, rest) = row.split_at_mut(lines);
            rest.fill(T::Wide::ZERO);
            let at = t * self.stride * self.step + offset;
            for (to, from) in row.iter_mut().zip(from) {
                *to = self.x[from + at].widen();
            }
            if let Some(window) = self.window
                && lines > 0
            {
                let factor = window[t * self.stride + place].widen();
                row.iter_mut().for_each(|x| *x = x.mul(factor));
            }
        }
    }
}

/// How results are written.
pub(super) struct Write<'a, W> {
    pub block: &'a Block<'a>,
    pub step: usize,
    pub scale: W,
}

impl<W: Float> Write<'_, W> {
    /// Writes the first `taken` numbers, `offset` elements behind the start of each result.
    pub fn from_lanes<T: Float<Wide = W>>(
        &self,
        from: &[W],
        y: &mut [T],
        offset: usize,
        taken: usize,
    ) {
        for (t, row) in from.chunks_exact(self.block.lanes).take(taken).enumerate() {
            let at = t * self.step + offset;
            for (x, to) in row.iter().zip(self.block.to) {
                y[to + at] = T::narrow(x.mul(self.scale));
            }
        }
    }
}
