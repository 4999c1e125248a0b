//! Which part of the output is computed at once, and where its input is.

use super::super::axis::Axis;
use super::super::{Conv, product};
use super::BLOCK;
use crate::simd::bf16_pair::PAIR;
use core::ops::Range;

/// Elements of the input that leave room for weights in a second-level cache.
pub(super) const LARGE: usize = 64 * 1024;
/// Elements of the input that leave room for the output in a first-level cache.
pub(super) const SMALL: usize = 5 * 1024;

/// What stands side by side at a place of an image.
#[derive(Clone, Copy)]
pub(super) struct Unit {
    /// How many numbers it is in the image.
    pub from: usize,
    /// How many elements in a band: as many, or half as many pairs.
    pub to: usize,
}

impl Unit {
    /// One channel, or a block of such.
    pub const fn of(elements: usize) -> Unit {
        Unit { from: elements, to: elements }
    }

    /// The pairs of so many numbers.
    pub const fn pairs(elements: usize) -> Unit {
        Unit { from: elements, to: elements / PAIR }
    }
}

/// The two last axes of a convolution, and how its input stands in memory.
#[derive(Clone, Copy)]
pub(super) struct Plane {
    pub h: Axis,
    pub w: Axis,
    /// Channels.
    channels: usize,
    pub unit: Unit,
    /// How many elements of the input are best read at once.
    limit: usize,
}

/// A part of the output, and the input as it is read for it. Distances count elements.
#[derive(Clone, Copy)]
pub(super) struct Band {
    /// Rows of the output.
    rows: usize,
    /// Columns of the output.
    cols: usize,
    /// From one block of channels to the next.
    pub block: usize,
    /// From what one row of the output reads to what the next one does.
    pub row: usize,
    /// From one phase of the rows to the next, and from one of the columns.
    pub phases: [usize; 2],
    /// From a row that is read to the one behind it.
    pub pitch: usize,
    /// Whether the input is copied to scratch memory.
    pub copied: bool,
}

impl Plane {
    /// The convolution, with one row where it has one axis or can be seen so.
    pub const fn of(conv: &Conv<'_>, channels: usize, unit: Unit, limit: usize) -> Plane {
        let [mut h, mut w] = Axis::last_two(conv);
        if conv.is_pointwise() {
            (w.size, w.out) = (product(conv.size), product(conv.size));
            h = Axis::NONE;
        }
        Plane::over([h, w], channels, unit, limit)
    }

    /// Windows over rows and columns.
    pub const fn over([h, w]: [Axis; 2], channels: usize, unit: Unit, limit: usize) -> Plane {
        Plane { h, w, channels, unit, limit }
    }

    /// The rows and columns of the output.
    pub const fn out(&self) -> [usize; 2] {
        [self.h.out, self.w.out]
    }

    /// Blocks of the input.
    const fn blocks(&self) -> usize {
        self.channels.div_ceil(self.unit.to)
    }

    /// Elements of an image of the input.
    pub const fn image(&self) -> usize {
        self.blocks() * self.h.size * self.w.size * self.unit.from
    }

    /// Whether the input can be read where it stands: where it is no numbers that become pairs.
    const fn is_direct(&self) -> bool {
        let (h, w) = (&self.h, &self.w);
        let is_inside = h.pad == 0 && w.pad == 0 && h.fits() && w.fits();
        w.stride == 1 && is_inside && self.unit.from == self.unit.to
    }

    /// Elements of a row of the band, all phases of it, for so many columns of the output.
    const fn pitch(&self, cols: usize) -> usize {
        self.w.phases() * (cols + self.w.extra()) * self.unit.to
    }

    /// The rows and columns of the output whose input, with that, fits in so many elements: whole
    /// rows, or a part of one.
    const fn fitting(&self, limit: usize) -> [usize; 2] {
        let (h, w) = (&self.h, &self.w);
        let each = self.blocks() * h.phases();
        let rows = match limit.checked_div(each * self.pitch(w.out)) {
            Some(rows) => rows.saturating_sub(h.extra()),
            None => h.out,
        };
        if rows > 0 {
            return [part(h.out, rows), w.out];
        }
        match limit.checked_div(each * (1 + h.extra()) * w.phases() * self.unit.to) {
            Some(cols) => [1, part(w.out, cols.saturating_sub(w.extra()))],
            None => [1, w.out],
        }
    }

    /// How many elements of scratch memory serve best.
    pub const fn scratch(&self) -> usize {
        if self.is_direct() {
            return 0;
        }
        let [rows, cols] = self.fitting(self.limit);
        self.blocks() * self.h.phases() * (rows + self.h.extra()) * self.pitch(cols)
    }

    /// The band for so much scratch memory.
    pub fn band(&self, scratch: usize) -> Band {
        let (h, w, unit) = (&self.h, &self.w, self.unit.to);
        if self.is_direct() {
            let pitch = w.size * unit;
            // Rows that leave the cache before their iteration comes are read again by each block.
            let rows = self.limit.checked_div(self.blocks() * h.stride * pitch).unwrap_or(h.out);
            let cols = match h.out {
                1 => part(w.out, self.limit / (self.blocks() * unit).max(1)),
                _ => w.out,
            };
            return Band {
                rows: part(h.out, rows),
                cols,
                block: h.size * pitch,
                row: h.stride * pitch,
                phases: [pitch, unit],
                pitch: 0,
                copied: false,
            };
        }
        let [rows, cols] = self.fitting(scratch.min(self.limit));
        let pitch = self.pitch(cols);
        let phase = (rows + h.extra()) * pitch;
        Band {
            rows,
            cols,
            block: h.phases() * phase,
            row: pitch,
            phases: [phase, (cols + w.extra()) * unit],
            pitch,
            copied: true,
        }
    }

    /// Elements of what threads may cut the output into: a row, or a pixel of the only one.
    pub const fn cut(&self) -> usize {
        match self.out() {
            [1, _] => BLOCK,
            [_, width] => width * BLOCK,
        }
    }

    /// All rows and columns.
    pub const fn all(&self) -> [Range<usize>; 2] {
        let [height, width] = self.out();
        [0..height, 0..width]
    }

    /// The rows and columns that so many of those are.
    pub fn window(&self, of: Range<usize>) -> [Range<usize>; 2] {
        match self.out() {
            [1, _] => [0..1, of],
            [_, width] => [of, 0..width],
        }
    }

    /// The parts of some rows and columns of the output: the first row of each, how many rows, and its
    /// columns likewise.
    pub fn places(
        &self,
        band: &Band,
        [down, across]: [Range<usize>; 2],
    ) -> impl Iterator<Item = [usize; 4]> + use<> {
        let Band { rows, cols, .. } = *band;
        down.clone().step_by(rows).flat_map(move |row| {
            let end = across.end;
            let cols = across.clone().step_by(cols).map(move |col| [col, cols.min(end - col)]);
            cols.map(move |[col, cols]| [row, rows.min(down.end - row), col, cols])
        })
    }
}

impl Band {
    /// Where each element of the window is.
    pub fn taps<'t>(&self, plane: &Plane, taps: &'t mut [usize]) -> &'t [usize] {
        let Plane { h, w, unit: Unit { to: unit, .. }, .. } = plane;
        let count = h.kernel * w.kernel;
        for (i, tap) in taps.iter_mut().take(count).enumerate() {
            let (row, col) = (i / w.kernel, i % w.kernel);
            *tap = if self.copied {
                let ((row_phase, row), (col_phase, col)) = (h.tap(row), w.tap(col));
                row_phase * self.phases[0]
                    + row * self.pitch
                    + col_phase * self.phases[1]
                    + col * unit
            } else {
                row * h.dilation * self.phases[0] + col * w.dilation * unit
            };
        }
        &taps[..count]
    }
}

/// The length of the parts of `x`, one at least, when it is cut in equal ones that are at most
/// `most` long.
const fn part(x: usize, most: usize) -> usize {
    let most = if most == 0 { 1 } else { most };
    if x == 0 { 1 } else { x.div_ceil(x.div_ceil(most)) }
}
