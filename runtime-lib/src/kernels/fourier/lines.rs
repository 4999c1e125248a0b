//! Reads and writes lines of a tensor in blocks.

use super::{MOST_LANES, Transform};
use crate::{Float, Number};
use core::ops::Range;

/// The strides of lines in a tensor, in elements.
#[derive(Clone, Copy, Debug)]
pub struct Lines {
    /// The batch size.
    pub batch: usize,
    /// The batch stride.
    pub batch_stride: usize,
    /// The number of lines per batch entry.
    pub lines: usize,
    /// The stride from one line to the next.
    pub line: usize,
    /// The stride from one element of a line to the next.
    pub step: usize,
}

/// Lines that are transformed together.
pub(super) struct Block<'a> {
    /// The number of lanes, at least the number of lines.
    pub lanes: usize,
    /// The start of each input line.
    pub from: &'a [usize],
    /// The start of each output line.
    pub to: &'a [usize],
}

/// Calls `visit` with all lines, block by block.
pub(super) fn each_block(geometry: &Transform, n: usize, visit: &mut dyn FnMut(Block<'_>)) {
    let &Transform { lanes, from, to, .. } = geometry;
    let total = from.batch * from.lines;
    if n == 0 || lanes == 0 {
        return;
    }
    for first in (0..total).step_by(lanes) {
        let (mut starts, mut ends) = ([0; MOST_LANES], [0; MOST_LANES]);
        let count = lanes.min(total - first).min(MOST_LANES);
        for (lane, (start, end)) in starts.iter_mut().zip(&mut ends).take(count).enumerate() {
            let (entry, line) = ((first + lane) / from.lines, (first + lane) % from.lines);
            *start = entry * from.batch_stride + line * from.line;
            *end = entry * to.batch_stride + line * to.line;
        }
        visit(Block { lanes, from: &starts[..count], to: &ends[..count] });
    }
}

/// Elements of a line that are moved before those of the next line: one cache line, and few enough
/// for all lines to stay in the cache, whatever their stride.
const RUN: usize = 16;

/// Calls `visit` with each lane and each run of `len` elements, one run of all lanes at a time.
#[inline(always)]
fn each_run(lanes: usize, len: usize, mut visit: impl FnMut(usize, Range<usize>)) {
    for first in (0..len).step_by(RUN) {
        for lane in 0..lanes {
            visit(lane, first..len.min(first + RUN));
        }
    }
}

/// Reads lines of `count` elements: the real and imaginary parts are `stride` apart, the elements
/// `step`.
pub(super) struct Read<'a, T> {
    pub x: &'a [T],
    pub window: Option<&'a [T]>,
    pub block: &'a Block<'a>,
    pub step: usize,
    pub stride: usize,
    pub count: usize,
}

/// A destination of elements of a line.
pub(super) struct Part<'a, W> {
    /// The destination, a row of all lanes per element.
    pub into: &'a mut [W],
    /// The offset of the first element from the start of a line.
    pub offset: usize,
    /// The position of the first element in the window.
    pub place: usize,
    /// The number of elements; zeros follow.
    pub given: usize,
}

impl<T: Float> Read<'_, T> {
    /// Reads the elements of two parts.
    pub fn read_lanes(&self, mut parts: [Part<'_, T::Wide>; 2]) {
        let Block { lanes, from, .. } = *self.block;
        each_run(from.len(), self.count, |lane, run| {
            for part in &mut parts {
                self.run(part, lane, run.clone());
            }
        });
        for part in &mut parts {
            for row in part.into.chunks_exact_mut(lanes).take(self.count) {
                row[from.len()..].fill(T::Wide::ZERO);
            }
            self.multiply(part);
        }
    }

    /// Reads a run of one line.
    #[inline(always)]
    fn run(&self, part: &mut Part<'_, T::Wide>, lane: usize, run: Range<usize>) {
        let Block { lanes, from, .. } = *self.block;
        let given = run.start..run.end.min(part.given);
        if !given.is_empty() {
            let step = self.stride * self.step;
            let line = self.x[from[lane] + part.offset + given.start * step..].iter();
            let into = part.into[given.start * lanes + lane..].iter_mut().step_by(lanes);
            for (into, x) in into.zip(line.step_by(step)).take(given.len()) {
                *into = x.widen();
            }
        }
        for t in run.start.max(given.end)..run.end {
            part.into[t * lanes + lane] = T::Wide::ZERO;
        }
    }

    /// Multiplies elements by the window.
    fn multiply(&self, part: &mut Part<'_, T::Wide>) {
        let Some(window) = self.window else { return };
        let rows = part.into.chunks_exact_mut(self.block.lanes).take(part.given);
        for (t, row) in rows.enumerate() {
            let factor = window[t * self.stride + part.place].widen();
            row.iter_mut().for_each(|x| *x = x.mul(factor));
        }
    }
}

/// Writes results.
pub(super) struct Write<'a, W> {
    pub block: &'a Block<'a>,
    pub step: usize,
    pub scale: W,
}

impl<W: Float> Write<'_, W> {
    /// Writes the first elements of parts. Each part comes with the offset of its first element
    /// from the start of a result and the number of elements to write.
    pub fn write_lanes<T: Float<Wide = W>>(&self, parts: &[(&[W], usize, usize)], y: &mut [T]) {
        let Block { lanes, to, .. } = *self.block;
        let most = parts.iter().map(|part| part.2).max().unwrap_or(0);
        each_run(to.len(), most, |lane, run| {
            for &(from, offset, taken) in parts {
                let run = run.start..run.end.min(taken);
                if run.is_empty() {
                    continue;
                }
                let from = from[run.start * lanes + lane..].iter().step_by(lanes);
                let y = y[to[lane] + offset + run.start * self.step..].iter_mut();
                for (x, y) in from.zip(y.step_by(self.step)).take(run.len()) {
                    *y = T::narrow(x.mul(self.scale));
                }
            }
        });
    }
}
