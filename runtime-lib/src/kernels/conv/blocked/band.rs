//! Output tiling: the band of the output that is computed at once, and the layout of its input.

use super::super::{Conv, product};
use super::BLOCK;
use crate::loops::window_axis::Axis;
use crate::microkernel::UsedTaps;
use crate::simd::bf16_pair::PAIR;
use core::ops::Range;

/// The size of an input, in elements, that leaves space for weights in an L2 cache.
pub(super) const LARGE: usize = 64 * 1024;
/// The size of a page of memory, in elements.
const PAGE: usize = 1024;
/// The number of pages whose addresses a processor has at hand.
const PAGES: usize = 64;
/// The distance in elements after which addresses are in the same set of an L2 cache.
const WAY: usize = 16 * 1024;
/// The number of blocks in one set that leave space for weights.
const WAYS: usize = 4;
/// The size of a cache line, in elements.
const LINE: usize = 16;
/// The size of an input, in elements, that leaves space for the output in an L1 cache.
pub(super) const SMALL: usize = 5 * 1024;

/// The contiguous numbers of one position of an image.
#[derive(Clone, Copy)]
pub(super) struct Unit {
    /// The numbers in the image.
    pub from: usize,
    /// The elements in a band: the same number, or half as many pairs.
    pub to: usize,
    /// The number of groups whose channels are interleaved in a band.
    pub groups: usize,
}

impl Unit {
    /// A unit of one channel, or of a block of channels.
    pub const fn of(elements: usize) -> Unit {
        Unit { from: elements, to: elements, groups: 1 }
    }

    /// A unit of numbers that become pairs.
    pub const fn pairs(elements: usize) -> Unit {
        Unit { from: elements, to: elements / PAIR, groups: 1 }
    }

    /// A block of channels, which are interleaved from this number of groups.
    pub const fn interleaved(groups: usize) -> Unit {
        Unit { from: BLOCK, to: BLOCK, groups }
    }
}

/// The axes of a convolution, and the layout of its input. A plane of the output, at one depth, is
/// computed from several planes of the input.
#[derive(Clone, Copy)]
pub(super) struct Plane {
    pub d: Axis,
    pub h: Axis,
    pub w: Axis,
    /// The number of channels.
    channels: usize,
    pub unit: Unit,
    /// The best number of input elements to read at once.
    limit: usize,
}

/// A part of the output, and the layout of its input. Strides are in elements.
#[derive(Clone, Copy)]
pub(super) struct Band {
    /// The rows of the output.
    rows: usize,
    /// The columns of the output.
    cols: usize,
    /// The stride of blocks of channels.
    pub block: usize,
    /// The stride of the planes of a block that neighboring taps read.
    pub depth: usize,
    /// The input stride of a row of the output.
    pub row: usize,
    /// The strides of the phases of rows, and of columns.
    pub phases: [usize; 2],
    /// The row stride of a phase.
    pub pitch: usize,
    /// Whether the input is copied to scratch memory.
    pub copied: bool,
}

impl Plane {
    /// Returns the plane of a convolution of at most three axes, as one row if it has one axis or
    /// is pointwise.
    pub const fn of(conv: &Conv<'_>, channels: usize, unit: Unit, limit: usize) -> Plane {
        let [h, mut w] = conv.last_two_axes();
        let axes = if conv.is_pointwise() {
            (w.size, w.out) = (product(conv.size), product(conv.size));
            [Axis::NONE, Axis::NONE, w]
        } else {
            let rank = conv.size.len();
            [if rank > 2 { conv.axis(rank - 3) } else { Axis::NONE }, h, w]
        };
        Plane::over_all(axes, channels, unit, limit)
    }

    /// Returns the plane of windows over rows and columns.
    pub const fn over([h, w]: [Axis; 2], channels: usize, unit: Unit, limit: usize) -> Plane {
        Plane::over_all([Axis::NONE, h, w], channels, unit, limit)
    }

    const fn over_all([d, h, w]: [Axis; 3], channels: usize, unit: Unit, limit: usize) -> Plane {
        let plane = Plane { d, h, w, channels, unit, limit };
        // Longer rows need fewer pages for the same number of elements.
        if plane.is_scattered() { Plane { limit: 2 * limit, ..plane } } else { plane }
    }

    /// Returns the rows and columns of the output.
    pub const fn out(&self) -> [usize; 2] {
        [self.h.out, self.w.out]
    }

    /// Returns the number of blocks of the input.
    const fn blocks(&self) -> usize {
        self.channels.div_ceil(self.unit.to)
    }

    /// Returns the number of elements of an input image.
    pub const fn image(&self) -> usize {
        self.blocks() * self.apart()
    }

    /// Returns the number of elements of a plane of a block of the input.
    pub const fn input_plane(&self) -> usize {
        self.h.size * self.w.size * self.unit.from
    }

    /// Returns whether the input is best read in place. Channels in more pages than the processor
    /// has at hand, or in too few sets of the cache, are copied, because every block of filters
    /// reads them all.
    const fn is_direct(&self) -> bool {
        self.is_readable() && !self.is_scattered() && !self.is_crowded()
    }

    /// Returns whether the input can be read in place. Padding, a stride of columns, pairs and
    /// interleaved channels require a copy.
    const fn is_readable(&self) -> bool {
        let Plane { d, h, w, .. } = self;
        let is_padded = d.pad > 0 || h.pad > 0 || w.pad > 0;
        let is_inside = !is_padded && d.fits() && h.fits() && w.fits();
        let is_same = self.unit.from == self.unit.to && self.unit.groups == 1;
        w.stride == 1 && is_inside && is_same
    }

    /// Returns whether the blocks are in more pages than the processor has at hand.
    const fn is_scattered(&self) -> bool {
        self.blocks() > PAGES && self.apart() >= PAGE
    }

    /// Returns whether the same pixel of many blocks is in the same set of the cache, as in images
    /// of 64 by 64 pixels.
    const fn is_crowded(&self) -> bool {
        let sets = match self.apart().trailing_zeros() {
            zeros if zeros < WAY.trailing_zeros() => WAY >> zeros,
            _ => 1,
        };
        self.blocks().div_ceil(sets) > WAYS
    }

    /// Returns the stride of the blocks of an image.
    const fn apart(&self) -> usize {
        self.d.size * self.input_plane()
    }

    /// Returns the stride of blocks in a copy of `rows` rows and `cols` columns. It is no multiple
    /// of a page, so that the blocks are in different sets of an L1 cache.
    const fn copied_apart(&self, [rows, cols]: [usize; 2]) -> usize {
        let plane = self.h.phases() * (rows + self.h.extra()) * self.pitch(cols);
        let apart = self.d.kernel * plane;
        if apart.is_multiple_of(PAGE) { apart + LINE } else { apart }
    }

    /// Returns the elements of a row of the band, in all phases, for `cols` columns of the output.
    const fn pitch(&self, cols: usize) -> usize {
        self.w.phases() * (cols + self.w.extra()) * self.unit.to
    }

    /// Returns the rows and columns of the output whose input fits in `limit` elements: whole rows,
    /// or a part of one.
    const fn fitting(&self, limit: usize) -> [usize; 2] {
        let (h, w) = (&self.h, &self.w);
        let limit = limit.saturating_sub(self.blocks() * LINE);
        let each = self.blocks() * self.d.kernel * h.phases();
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

    /// Returns the best size of the scratch memory, in elements.
    pub const fn scratch(&self) -> usize {
        if self.is_direct() {
            return 0;
        }
        self.blocks() * self.copied_apart(self.fitting(self.limit))
    }

    /// Returns the band for this size of the scratch memory. An input that can be read in place is
    /// not copied to less memory than the best size.
    pub fn band(&self, scratch: usize) -> Band {
        let (h, w, unit) = (&self.h, &self.w, self.unit.to);
        if self.is_direct() || self.is_readable() && scratch < self.scratch() {
            let pitch = w.size * unit;
            // Limits the rows to those that stay in the cache until the next block reads them.
            let blocks = self.blocks() * self.d.kernel;
            let rows = self.limit.checked_div(blocks * h.stride * pitch).unwrap_or(h.out);
            let cols = match h.out {
                1 => part(w.out, self.limit / (blocks * unit).max(1)),
                _ => w.out,
            };
            return Band {
                rows: part(h.out, rows),
                cols,
                block: self.d.size * h.size * pitch,
                depth: self.d.dilation * h.size * pitch,
                row: h.stride * pitch,
                phases: [pitch, unit],
                pitch: 0,
                copied: false,
            };
        }
        let [rows, cols] = self.fitting(scratch.min(self.limit));
        let pitch = self.pitch(cols);
        let phase = (rows + h.extra()) * pitch;
        let apart = self.copied_apart([rows, cols]);
        let has_space = self.blocks() * apart <= scratch;
        let depth = h.phases() * phase;
        Band {
            rows,
            cols,
            block: if has_space { apart } else { self.d.kernel * depth },
            depth,
            row: pitch,
            phases: [phase, (cols + w.extra()) * unit],
            pitch,
            copied: true,
        }
    }

    /// Returns the elements of the smallest part that a thread computes: a row, or a pixel of a
    /// single row.
    pub const fn cut(&self) -> usize {
        match self.out() {
            [1, _] => BLOCK,
            [_, width] => width * BLOCK,
        }
    }

    /// Returns the taps that read the image for the outputs at a depth.
    pub fn used_taps<'t>(&self, taps: &'t [usize], depth: usize) -> UsedTaps<'t> {
        let Plane { d, h, w, .. } = self;
        let planes = d.tap_run(&d.inside(), depth, depth + 1).taps;
        let [start, end] = [planes.start, planes.end].map(|plane| plane * h.kernel * w.kernel);
        UsedTaps { offsets: &taps[start..end], unused: [start, taps.len() - end] }
    }

    /// Returns all rows and columns.
    pub const fn all(&self) -> [Range<usize>; 2] {
        let [height, width] = self.out();
        [0..height, 0..width]
    }

    /// Returns the depths of the output that a range of these parts is in, each with its rows and
    /// columns.
    pub fn windows(
        &self,
        of: Range<usize>,
    ) -> impl Iterator<Item = (usize, [Range<usize>; 2])> + use<> {
        let out = self.out();
        let each = if out[0] == 1 { out[1] } else { out[0] };
        (of.start / each..of.end.div_ceil(each)).map(move |depth| {
            let inside = |at: usize| at.saturating_sub(depth * each).min(each);
            let of = inside(of.start)..inside(of.end);
            (depth, if out[0] == 1 { [0..1, of] } else { [of, 0..out[1]] })
        })
    }

    /// Returns the bands of some rows and columns of the output: the first row and the number of
    /// rows of each, and the first column and the number of columns.
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
    /// Writes and returns the offset of each element of the window.
    pub fn taps<'t>(&self, plane: &Plane, taps: &'t mut [usize]) -> &'t [usize] {
        let Plane { d, h, w, unit: Unit { to: unit, .. }, .. } = plane;
        let count = d.kernel * h.kernel * w.kernel;
        for (i, tap) in taps.iter_mut().take(count).enumerate() {
            let (row, col) = (i / w.kernel % h.kernel, i % w.kernel);
            let depth = i / w.kernel / h.kernel;
            *tap = depth * self.depth;
            *tap += if self.copied {
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

/// Returns the length of the parts of `x`, at least one, cut into equal parts of at most `most`.
const fn part(x: usize, most: usize) -> usize {
    let most = if most == 0 { 1 } else { most };
    if x == 0 { 1 } else { x.div_ceil(x.div_ceil(most)) }
}
