//! Convolutions with little code, for programs where size matters more than speed. One loop gathers
//! the elements of a window, and another multiplies them by the weights of each filter.

use super::{Conv, ConvOperands, product};
use crate::loops::epilogue::Activation;
use crate::simd::dot::dot;

/// The scratch memory for one window.
pub(crate) struct WindowScratch<'a, T> {
    /// The offset of each element of one channel's window in the image.
    pub starts: &'a mut [u32],
    /// The elements of the window, of all channels.
    pub window: &'a mut [T],
}

/// Computes `y = f(w ∗ x + bias + add)`. The weights have the plain layout. `starts` has as many
/// elements as the window of one channel, and `window` as many as the windows of all channels.
// Inlined, so that a program contains only the activation functions that its models use.
#[inline(always)]
pub fn small_conv(
    operands: ConvOperands<'_, f32>,
    y: &mut [f32],
    starts: &mut [u32],
    window: &mut [f32],
    geometry: Conv<'_>,
    f: Activation,
) {
    let ConvOperands { x, w, bias, add } = operands;
    convolve(x, w, bias, y, WindowScratch { starts, window }, &geometry);
    if let Some(add) = add {
        add_each(y, add);
    }
    f.apply_small(y);
}

#[inline(never)]
fn convolve(
    x: &[f32],
    w: &[f32],
    bias: Option<&[f32]>,
    y: &mut [f32],
    scratch: WindowScratch<'_, f32>,
    geometry: &Conv<'_>,
) {
    let bias = bias.unwrap_or_default();
    let (places, depth) = (product(geometry.out), geometry.depth().max(1));
    let Conv { groups, filters, .. } = *geometry;
    each_window(
        x,
        scratch,
        geometry,
        0.0,
        |x| x,
        |window, mut at| {
            let (mut weights, mut bias) = (w.chunks_exact(depth), bias.iter());
            let mut windows = window.chunks_exact(depth);
            for _ in 0..groups {
                // If there are no weights, the window is empty.
                let window = windows.next().unwrap_or_default();
                for _ in 0..filters {
                    let w = weights.next().unwrap_or_default();
                    let bias = bias.next().copied().unwrap_or(0.0);
                    if let Some(y) = y.get_mut(at) {
                        *y = dot(window, w, bias);
                    }
                    at += places;
                }
            }
        },
    );
}

#[inline(never)]
fn add_each(y: &mut [f32], add: &[f32]) {
    y.iter_mut().zip(add).for_each(|(y, add)| *y += add);
}

/// Gathers the elements of each window, of all channels, with `outside` for padding, and applies
/// `map` to them. Calls `then` with the window and the index of the first filter's result.
#[inline(always)]
pub(crate) fn each_window<T: Copy>(
    x: &[T],
    WindowScratch { starts, window }: WindowScratch<'_, T>,
    geometry: &Conv<'_>,
    outside: T,
    map: impl Fn(T) -> T,
    mut then: impl FnMut(&[T], usize),
) {
    let Conv { batch, groups, filters, size, out, .. } = *geometry;
    let (elements, places) = (product(size), product(out));
    for place in 0..places {
        geometry.starts(place, starts);
        let (mut plane, mut at) = (0, place);
        for _ in 0..batch {
            for to in window.chunks_exact_mut(starts.len().max(1)) {
                for (&start, to) in starts.iter().zip(to) {
                    let element =
                        if start == OUTSIDE { None } else { x.get(plane + start as usize) };
                    *to = map(element.copied().unwrap_or(outside));
                }
                plane += elements;
            }
            then(window, at);
            at += groups * filters * places;
        }
    }
}

/// The offset that stands for an element outside the image.
const OUTSIDE: u32 = u32::MAX;

impl Conv<'_> {
    /// Writes to `starts` the offset in the image of each element of the window at `place`, or
    /// [`OUTSIDE`] for padding.
    #[inline(never)]
    fn starts(&self, mut place: usize, starts: &mut [u32]) {
        let (mut places, mut known) = (product(self.out), 1);
        starts.iter_mut().take(1).for_each(|start| *start = 0);
        for axis in 0..self.size.len() {
            places = places.checked_div(along(self.out, axis)).unwrap_or(0);
            let at_place = place.checked_div(places).unwrap_or(0);
            place -= at_place * places;
            let first = at_place * along(self.strides, axis);
            let first = first.wrapping_sub(along(self.pads, axis));
            let (size, kernel) = (along(self.size, axis), along(self.kernel, axis));
            let dilation = along(self.dilations, axis);
            // Replaces each offset along the earlier axes by the offsets of the elements along this
            // one. The last goes first, so that none is overwritten before it is read.
            for before in (0..known).rev() {
                let Some(&row) = starts.get(before) else { return };
                let mut at = first;
                for to in starts.iter_mut().skip(before * kernel).take(kernel) {
                    let is_inside = row != OUTSIDE && at < size;
                    *to = if is_inside { row * size as u32 + at as u32 } else { OUTSIDE };
                    at = at.wrapping_add(dilation);
                }
            }
            known *= kernel;
        }
    }
}

/// Returns the size along an axis, or 1 if there is no such axis, by code that cannot panic.
#[inline(never)]
fn along(sizes: &[usize], axis: usize) -> usize {
    sizes.get(axis).copied().unwrap_or(1)
}

#[cfg(all(test, feature = "std"))]
mod tests {
    use super::*;
    use crate::kernels::conv::WeightLayout;
    use std::vec;

    #[test]
    fn starts_are_the_offsets_of_the_taps() {
        let cube = Conv {
            batch: 1,
            groups: 1,
            channels: 1,
            filters: 1,
            size: &[3, 5, 4],
            out: &[4, 2, 3],
            kernel: &[2, 1, 3],
            strides: &[1, 2, 2],
            dilations: &[2, 1, 1],
            pads: &[1, 0, 2],
            weights: WeightLayout::Plain,
        };
        let (size, out, kernel, pads): ([_; 1], [_; 1], [_; 1], [_; 1]) = ([9], [4], [3], [2]);
        let line = Conv { size: &size, out: &out, kernel: &kernel, pads: &pads, ..cube };
        let none: &[usize] = &[];
        let point = Conv { size: none, out: none, kernel: none, pads: none, ..cube };
        for conv in [cube, line, point] {
            let taps = conv.window();
            let mut starts = vec![7; taps.taps()];
            for place in 0..taps.places() {
                conv.starts(place, &mut starts);
                for (tap, &start) in starts.iter().enumerate() {
                    let expected = taps.input(place, tap).map_or(OUTSIDE, |at| at as u32);
                    assert_eq!(start, expected, "{place} {tap}");
                }
            }
        }
    }
}
