//! The weight gradient of a convolution: for each weight, the sum over all windows of its input
//! element times the gradient of the window's output.
//!
//! The kernels of `f32` and `f64` process a few hundred windows at a time: they pack the input
//! elements of each weight as panels of a right operand, and copy the gradients as rows of a left
//! one.

use super::{Conv, product};
use crate::loops::window::Taps;
use crate::microkernel::{
    Addend, FusedActivation, GemmElem, Matrix, Operand, Product, Target, panel_cols, scratch,
};
use crate::{Float, Number};

/// The fewest windows that are worth reading and writing all weights' gradients.
const WINDOWS: usize = 256;

/// Computes `dw = x ∗ dy`, with accumulators of the wide type.
#[inline(never)]
pub fn conv_weight_grad<T: Float>(x: &[T], dy: &[T], dw: &mut [T], geometry: Conv<'_>) {
    let Conv { batch, groups, channels, filters, .. } = geometry;
    let window = geometry.window();
    let (pixels, size, taps) = (window.places(), window.elements(), window.taps());
    for (at, dw) in dw.iter_mut().enumerate() {
        let (filter, channel, tap) = (at / taps / channels, at / taps % channels, at % taps);
        let mut sum = T::Wide::ZERO;
        for image in 0..batch {
            let x = &x[((image * groups + filter / filters) * channels + channel) * size..];
            let dy = &dy[(image * groups * filters + filter) * pixels..][..pixels];
            for (place, dy) in dy.iter().enumerate() {
                if let Some(input) = window.input(place, tap) {
                    sum = sum.add(x[input].widen().mul(dy.widen()));
                }
            }
        }
        *dw = T::narrow(sum);
    }
}

/// Returns the best size of the scratch memory of [`conv_weight_grad_f32`] and
/// [`conv_weight_grad_f64`], in elements.
pub const fn conv_weight_grad_scratch(geometry: &Conv<'_>) -> usize {
    fixed_scratch(geometry) + WINDOWS * scratch_of_window(geometry)
}

/// Returns the smallest scratch memory of these kernels, in elements.
pub const fn correlate_least_scratch(geometry: &Conv<'_>) -> usize {
    fixed_scratch(geometry) + scratch_of_window(geometry)
}

/// Returns the size of a product and of its scratch memory, in elements.
const fn fixed_scratch(geometry: &Conv<'_>) -> usize {
    let columns = geometry.depth();
    geometry.filters * columns + scratch(geometry.filters, columns, WINDOWS, true, false)
}

/// Returns the size of a row of the right operand and a column of the left one, in elements.
const fn scratch_of_window(geometry: &Conv<'_>) -> usize {
    geometry.depth().next_multiple_of(panel_cols::<f32>()) + geometry.filters
}

/// Computes `dw = x ∗ dy`.
#[inline(never)]
pub fn conv_weight_grad_f32(
    x: &[f32],
    dy: &[f32],
    dw: &mut [f32],
    scratch: &mut [f32],
    geometry: Conv<'_>,
) {
    correlate_real(x, dy, dw, scratch, &geometry);
}

/// Computes `dw = x ∗ dy`.
#[inline]
pub fn conv_weight_grad_f64(
    x: &[f64],
    dy: &[f64],
    dw: &mut [f64],
    scratch: &mut [f64],
    geometry: Conv<'_>,
) {
    correlate_real(x, dy, dw, scratch, &geometry);
}

fn correlate_real<T: GemmElem>(
    x: &[T],
    dy: &[T],
    dw: &mut [T],
    scratch: &mut [T],
    geometry: &Conv<'_>,
) {
    let (rows, columns) = (geometry.filters, geometry.depth());
    let windows = geometry.batch * product(geometry.out);
    if windows == 0 || rows * columns == 0 {
        return dw.fill(T::ZERO);
    }
    let rest = scratch.len() - fixed_scratch(geometry);
    let most = (rest / scratch_of_window(geometry)).min(WINDOWS).min(windows);
    let width = columns.next_multiple_of(panel_cols::<T>());
    let (panels, scratch) = scratch.split_at_mut(width * most);
    let (left, scratch) = scratch.split_at_mut(rows * most);
    let (part, scratch) = scratch.split_at_mut(rows * columns);
    for (group, dw) in dw.chunks_exact_mut(rows * columns).enumerate() {
        for first in (0..windows).step_by(most) {
            let k = most.min(windows - first);
            let some = Windows { geometry, group, first, k };
            some.derivatives(dy, &mut left[..rows * k]);
            some.images(x, &mut panels[..width * k]);
            let product = Product {
                m: rows,
                n: columns,
                k,
                a: Operand::Matrix(Matrix { data: left, row: k, col: 1 }),
                b: Operand::Panels(panels),
                alpha: T::ONE,
                addends: [Addend::NONE; 2],
                f: FusedActivation::NONE,
            };
            if first == 0 {
                product.run(dw, Target::whole(columns), scratch);
            } else {
                product.run(part, Target::whole(columns), scratch);
                dw.iter_mut().zip(&*part).for_each(|(dw, &part)| *dw = dw.add(part));
            }
        }
    }
}

/// A range of the windows of a group, counted through all images.
struct Windows<'a> {
    geometry: &'a Conv<'a>,
    group: usize,
    first: usize,
    k: usize,
}

/// A range of windows in one row: the row, the position in it, the number of windows, and the index
/// of the first among all.
struct Run {
    row: usize,
    start: usize,
    len: usize,
    at: usize,
}

impl Windows<'_> {
    /// Splits the windows into runs, in rows of `width`.
    fn runs(&self, width: usize) -> impl Iterator<Item = Run> {
        let (first, k) = (self.first, self.k);
        let mut at = 0;
        core::iter::from_fn(move || {
            let (row, start) = ((first + at) / width, (first + at) % width);
            let len = (width - start).min(k - at);
            let run = Run { row, start, len, at };
            at += len;
            (len > 0).then_some(run)
        })
    }

    /// Copies the gradients of the windows' outputs: a row for each filter.
    fn derivatives<T: GemmElem>(&self, dy: &[T], to: &mut [T]) {
        let Conv { groups, filters, out, .. } = *self.geometry;
        let pixels = product(out);
        for Run { row: image, start, len, at } in self.runs(pixels) {
            let dy = &dy[(image * groups + self.group) * filters * pixels..];
            for (dy, to) in dy.chunks_exact(pixels).zip(to.chunks_exact_mut(self.k)) {
                to[at..][..len].copy_from_slice(&dy[start..][..len]);
            }
        }
    }

    /// Packs the input elements of the weights as panels of columns, one column for each weight.
    fn images<T: GemmElem>(&self, x: &[T], panels: &mut [T]) {
        let Conv { groups, channels, .. } = *self.geometry;
        let window = self.geometry.window();
        let (rows, [width, out, kernel, ..]) = (window.without_last(), window.last());
        let (size, lines) = (window.elements(), rows.places());
        // The padding of the last panel is multiplied, but its results are not read.
        let columns = self.geometry.depth();
        let cols = panel_cols::<T>();
        panels[columns / cols * cols * self.k..].fill(T::ZERO);
        for run in self.runs(out) {
            let (image, line) = (run.row / lines, run.row % lines);
            let x = &x[(image * groups + self.group) * channels * size..][..channels * size];
            for tap in 0..rows.taps() {
                let row = rows.input(line, tap);
                for channel in 0..channels {
                    let row = row.map(|row| &x[channel * size + row * width..][..width]);
                    for last in 0..kernel {
                        let column = (channel * rows.taps() + tap) * kernel + last;
                        let to = column / cols * cols * self.k + run.at * cols + column % cols;
                        column_of(&window, row.unwrap_or(&[]), last, &run, &mut panels[to..]);
                    }
                }
            }
        }
    }
}

/// Writes the elements of a row of an image that an element of the window reads, at every position
/// of a run, with the stride of a panel's columns.
fn column_of<T: GemmElem>(window: &Taps<'_>, row: &[T], last: usize, run: &Run, to: &mut [T]) {
    let [_, _, _, stride, dilation, pad] = window.last();
    let cols = panel_cols::<T>();
    // The positions before the image, and those in it.
    let start = run.start * stride + last * dilation;
    let skip = pad.saturating_sub(start).div_ceil(stride).min(run.len);
    let first = (start + skip * stride).saturating_sub(pad);
    let there = row.len().saturating_sub(first).div_ceil(stride).min(run.len - skip);
    for at in (0..skip).chain(skip + there..run.len) {
        to[at * cols] = T::ZERO;
    }
    let row = row.get(first..).unwrap_or(&[]);
    let to = to.get_mut(skip * cols..).unwrap_or(&mut []).chunks_mut(cols).take(there);
    match stride {
        1 => to.zip(row).for_each(|(to, &x)| to[0] = x),
        stride => to.zip(row.iter().step_by(stride)).for_each(|(to, &x)| to[0] = x),
    }
}
