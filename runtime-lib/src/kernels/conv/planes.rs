//! Copies the input of a convolution to planes.
//!
//! Along an axis with stride `s`, the kernel's elements read the padded input only at positions `s
//! · o + p`, for a few *phases* `p`. Each phase of each channel becomes a plane, in which
//! neighboring outputs read neighboring elements.

use super::Conv;
use crate::loops::strided::copy;
use crate::loops::window_axis::Axis;
use crate::microkernel::{GemmElem, panel_cols};
use crate::simd::{Simd, WithSimd, dispatch};

/// The channels and the three last axes of a group.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Window {
    pub channels: usize,
    pub axes: [Axis; 3],
}

/// The part of the output that is computed at once: rows and columns of one depth.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Band {
    /// The rows of the output.
    pub rows: usize,
    /// The columns of the output.
    pub cols: usize,
    /// The row stride of a plane, in elements.
    pub pitch: usize,
    /// The elements of a plane.
    plane: usize,
    /// The number of planes.
    planes: usize,
}

impl Window {
    /// Returns the window of a convolution with at most three axes.
    pub const fn of(conv: &Conv<'_>) -> Option<Window> {
        match conv.three_axes() {
            Some(axes) => Some(Window { channels: conv.channels, axes }),
            None => None,
        }
    }

    /// Returns the number of planes of a band.
    const fn planes(&self) -> usize {
        let [d, h, w] = &self.axes;
        self.channels * d.kernel * h.phases() * w.phases()
    }

    /// Returns the band with as many rows as fit in `limit` elements, or else columns; at least
    /// one.
    pub const fn band(&self, limit: usize) -> Band {
        let [_, h, w] = &self.axes;
        let each = limit / at_least(self.planes(), 1);
        let rows = (each / at_least(w.out + w.extra(), 1)).saturating_sub(h.extra());
        if rows > 0 {
            return self.band_of(part(h.out, rows), w.out);
        }
        let cols = (each / (1 + h.extra())).saturating_sub(w.extra());
        self.band_of(1, part(w.out, at_least(cols, 1)))
    }

    /// Returns the band of `rows` rows and `cols` columns.
    const fn band_of(&self, rows: usize, cols: usize) -> Band {
        let [_, h, w] = &self.axes;
        let pitch = cols + w.extra();
        Band { rows, cols, pitch, plane: (rows + h.extra()) * pitch, planes: self.planes() }
    }

    /// Returns the band that fits in `limit` elements, or one of `cols` columns if that is larger.
    pub const fn band_of_at_least(&self, cols: usize, limit: usize) -> Band {
        let band = self.band(limit);
        let cols = if self.axes[2].out < cols { self.axes[2].out } else { cols };
        if band.cols < cols { self.band_of(1, cols) } else { band }
    }

    /// Returns the number of elements that [`Window::starts`] writes.
    pub const fn starts_len(&self) -> usize {
        let [d, h, w] = &self.axes;
        self.channels * d.kernel * h.kernel * w.kernel
    }

    /// Writes the offset in the planes of each weight's row, as bits.
    pub fn starts<T: GemmElem>(&self, band: &Band, starts: &mut [T]) {
        let [d, h, w] = self.axes;
        let mut starts = starts.iter_mut();
        for plane in 0..self.channels * d.kernel {
            for i in 0..h.kernel {
                let (row_phase, row) = h.tap(i);
                for ((col_phase, col), to) in (0..w.kernel).map(|j| w.tap(j)).zip(&mut starts) {
                    let plane = (plane * h.phases() + row_phase) * w.phases() + col_phase;
                    *to = T::of_offset(plane * band.plane + row * band.pitch + col);
                }
            }
        }
    }

    /// Returns the number of elements of a channel.
    fn elements(&self) -> usize {
        self.axes.iter().map(|axis| axis.size).product()
    }

    /// Fills the planes for the outputs at depth `at[0]` from row `at[1]` and column `at[2]` on.
    /// `x` is the input of the group.
    pub fn fill<T: GemmElem>(&self, x: &[T], band: &Band, at: [usize; 3], planes: &mut [T]) {
        dispatch(Fill { window: self, x, band, at, planes });
    }
}

/// The arguments of [`Window::fill`].
struct Fill<'a, T> {
    window: &'a Window,
    x: &'a [T],
    band: &'a Band,
    at: [usize; 3],
    planes: &'a mut [T],
}

impl<T: GemmElem> WithSimd for Fill<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let Fill { window, x, band, at, planes } = self;
        let [d, h, w] = window.axes;
        let mut planes = planes.chunks_exact_mut(band.plane);
        for channel in 0..window.channels {
            let channel = &x[channel * window.elements()..][..window.elements()];
            for depth in (0..d.kernel).map(|k| d.input(at[0], k * d.dilation)) {
                let slice = depth.map(|depth| &channel[depth * h.size * w.size..]);
                for row_phase in 0..h.phases() {
                    for (col_phase, plane) in (0..w.phases()).zip(&mut planes) {
                        let line = Line::of(&w, at[2], col_phase, band.pitch);
                        // One fill of the plane, because padding single elements would take a call
                        // each.
                        let is_padded = line.count < band.pitch;
                        if is_padded {
                            plane.fill(T::ZERO);
                        }
                        for (i, to) in plane.chunks_exact_mut(band.pitch).enumerate() {
                            let row = slice.zip(h.input(at[1] + i, row_phase));
                            let row = row.map(|(x, row)| &x[row * w.size..][..w.size]);
                            match row {
                                Some(row) => line.copy(s, row, w.stride, to),
                                None if is_padded => {}
                                None => to.fill(T::ZERO),
                            }
                        }
                    }
                }
            }
        }
    }
}

impl Band {
    /// Returns the number of elements of the planes, including a panel behind them.
    pub const fn planes_len<T>(&self) -> usize {
        self.planes * self.plane + Band::behind::<T>()
    }

    /// Returns the number of elements behind the planes that products may read.
    pub const fn behind<T>() -> usize {
        panel_cols::<T>()
    }

    /// Returns the number of columns of the product that computes `rows` rows and `cols` columns of
    /// the output.
    pub fn columns(&self, rows: usize, cols: usize) -> usize {
        (rows - 1) * self.pitch + cols
    }
}

/// The part of an image's row that a row of a plane contains.
#[derive(Clone, Copy)]
pub(super) struct Line {
    /// The offset in the plane's row.
    to: usize,
    /// The offset in the image's row.
    from: usize,
    /// The number of elements.
    count: usize,
}

impl Line {
    /// Returns the part for the outputs from `first` on, with `pitch` elements of a phase.
    pub(super) fn of(axis: &Axis, first: usize, phase: usize, pitch: usize) -> Line {
        let start = first * axis.stride + phase;
        // Divisions take longer than copying a short row.
        let steps = |len: usize| if axis.stride == 1 { len } else { len.div_ceil(axis.stride) };
        let to = steps(axis.pad.saturating_sub(start)).min(pitch);
        let from = (start + to * axis.stride).saturating_sub(axis.pad);
        let there = steps(axis.size.saturating_sub(from));
        Line { to, from: from.min(axis.size), count: there.min(pitch - to) }
    }

    /// Copies the part of a row, with zeros around it. An element has `from` numbers in the image
    /// and `to` in the band. `copy` gets the row from the first element on, and the memory for all
    /// of them.
    #[inline(always)]
    pub(super) fn copy_padded(
        self,
        [from, to]: [usize; 2],
        row: &[f32],
        band: &mut [f32],
        copy: impl FnOnce(&[f32], &mut [f32]),
    ) {
        let (before, band) = band.split_at_mut(self.to * to);
        let (there, behind) = band.split_at_mut(self.count * to);
        clear(before);
        copy(&row[self.from * from..], there);
        clear(behind);
    }

    /// Copies the part of the row.
    #[inline(always)]
    fn copy<S: Simd, T: GemmElem>(self, s: S, row: &[T], stride: usize, plane: &mut [T]) {
        let (row, plane) = (&row[self.from..], &mut plane[self.to..][..self.count]);
        match stride {
            1 => copy(&row[..plane.len()], plane),
            2 => {
                let done = match (T::as_f32(row), T::as_f32_mut(plane)) {
                    (Some(row), Some(plane)) => copy_evens(s, row, plane),
                    _ => 0,
                };
                let evens = row[2 * done..].iter().step_by(2);
                plane[done..].iter_mut().zip(evens).for_each(|(to, &x)| *to = x);
            }
            _ => plane.iter_mut().zip(row.iter().step_by(stride)).for_each(|(to, &x)| *to = x),
        }
    }
}

/// Copies every second element, as many as there are whole vectors of; returns their number.
#[inline(always)]
fn copy_evens<S: Simd>(s: S, row: &[f32], to: &mut [f32]) -> usize {
    let vectors = row.chunks_exact(2 * S::LANES).zip(to.chunks_exact_mut(S::LANES));
    let count = vectors.len();
    for (row, to) in vectors {
        let [evens, _] = s.evens_and_odds(s.load(row), s.load(&row[S::LANES..]));
        s.store(evens, to);
    }
    count * S::LANES
}

/// Fills a part of a row with zeros. Most parts are empty, or so short that a call takes longer.
#[inline(always)]
fn clear(x: &mut [f32]) {
    match x.len() {
        0 => {}
        1 => x[0] = 0.0,
        2 => x.copy_from_slice(&[0.0; 2]),
        _ => x.fill(0.0),
    }
}

const fn at_least(x: usize, least: usize) -> usize {
    if x < least { least } else { x }
}

/// Returns the length of the parts of `x`, cut into equal parts of at most `most`.
const fn part(x: usize, most: usize) -> usize {
    if x <= most { x } else { x.div_ceil(x.div_ceil(most)) }
}
