//! Discrete Fourier transforms of lines of a tensor, of any length in `O(n log n)`. A length is
//! split into small prime factors; with large prime factors, the transform becomes a convolution
//! (Bluestein's algorithm). SIMD vectors run across several lines.

mod halves;
mod lines;
mod mel;
mod stages;
mod table;
mod window;

pub use lines::Lines;
pub use mel::{mel_sizes, mel_weight_matrix};
pub use table::{MOST_TABLE, MOST_WORK, dft_table, real_dft_table, table_len, work_len};
pub use window::{window, window_sizes};

use crate::error::{Error, Result};
use crate::loops::index::{index, number, size};
use crate::{Float, Number};
use lines::{Part, Read, Write, each_block};
use stages::{Done, Pair, fft};
use table::{Table, read};

/// The most lines that are transformed together.
pub const MOST_LANES: usize = 16;

/// The geometry of a transform.
#[derive(Clone, Copy, Debug)]
pub struct Transform {
    /// The length of the transform.
    pub n: usize,
    /// The number of input elements per line. Zeros follow; elements beyond `n` are not read.
    pub given: usize,
    /// The number of output elements per line.
    pub taken: usize,
    /// The parts of an input element: 2 if complex, 1 if real.
    pub parts: usize,
    /// The lines that are transformed together.
    pub lanes: usize,
    /// The input lines.
    pub from: Lines,
    /// The output lines.
    pub to: Lines,
}

/// `y[k] = Σ x[t] w[t] e^(-2πi kt/n)` for each line, with the window `w`. The result is complex.
pub fn dft<T: Float>(
    x: &[T],
    window: Option<&[T]>,
    table: &[T::Wide],
    y: &mut [T],
    work: &mut [T::Wide],
    geometry: Transform,
) {
    let Transform { n, given, taken, parts, .. } = geometry;
    let table = read(table, n, false);
    each_block(&geometry, n, &mut |block| {
        let [first, other] = split(work, &table, block.lanes);
        let from = Read { x, window, block: &block, step: geometry.from.step, stride: 1, count: n };
        from.read_lanes(numbers(first.re, first.im, given.min(n), parts));
        let done = transform(&table, block.lanes, [first, other]).pair;
        let to = Write { block: &block, step: geometry.to.step, scale: T::Wide::ONE };
        to.write_lanes(&[(done.re, 0, taken), (done.im, 1, taken)], y);
    });
}

/// `y[t] = 1/n Σ x[k] e^(2πi kt/n)` for each line. The result is complex.
pub fn inverse_dft<T: Float>(
    x: &[T],
    table: &[T::Wide],
    y: &mut [T],
    work: &mut [T::Wide],
    geometry: Transform,
) {
    let Transform { n, given, taken, parts, .. } = geometry;
    let table = read(table, n, false);
    each_block(&geometry, n, &mut |block| {
        let [first, other] = split(work, &table, block.lanes);
        let step = geometry.from.step;
        let from = Read { x, window: None, block: &block, step, stride: 1, count: n };
        // Exchanging real and imaginary parts before and after gives the inverse transform.
        from.read_lanes(numbers(first.im, first.re, given.min(n), parts));
        let done = transform(&table, block.lanes, [first, other]).pair;
        let scale = T::Wide::ONE.div(number(n));
        let to = Write { block: &block, step: geometry.to.step, scale };
        to.write_lanes(&[(done.im, 0, taken), (done.re, 1, taken)], y);
    });
}

/// [`dft`] of real lines, with a table from [`real_dft_table`].
pub fn real_dft<T: Float>(
    x: &[T],
    window: Option<&[T]>,
    table: &[T::Wide],
    y: &mut [T],
    work: &mut [T::Wide],
    geometry: Transform,
) {
    let Transform { n, given, taken, from, to, .. } = geometry;
    if !n.is_multiple_of(2) {
        return dft(x, window, table, y, work, geometry);
    }
    let table = read(table, n, true);
    each_block(&geometry, n, &mut |block| {
        let (lanes, given) = (block.lanes, given.min(n));
        let [first, other] = split(work, &table, lanes);
        let read = Read { x, window, block: &block, step: from.step, stride: 2, count: n / 2 };
        read.read_lanes([
            Part { into: first.re, offset: 0, place: 0, given: given.div_ceil(2) },
            Part { into: first.im, offset: from.step, place: 1, given: given / 2 },
        ]);
        let done = transform(&table, lanes, [first, other]);
        let mut whole = done.other;
        halves::join(&done.pair, &mut whole, table.joints, lanes);
        let write = Write { block: &block, step: to.step, scale: T::Wide::ONE };
        let half = taken.min(n / 2 + 1);
        write.write_lanes(&[(whole.re, 0, half), (whole.im, 1, half)], y);
        // The second half of a real line's transform mirrors the first.
        for (start, k) in block.to.iter().flat_map(|&at| (half..taken).map(move |k| (at, k))) {
            let (this, other) = (start + k * to.step, start + (n - k) * to.step);
            (y[this], y[this + 1]) = (y[other], y[other + 1].neg());
        }
    });
}

/// [`inverse_dft`] from the first half of a conjugate-symmetric transform, with a table from
/// [`real_dft_table`]. The result is real. Imaginary parts of the first and the middle element are
/// ignored.
pub fn inverse_real_dft<T: Float>(
    x: &[T],
    table: &[T::Wide],
    y: &mut [T],
    work: &mut [T::Wide],
    geometry: Transform,
) {
    let Transform { n, given, taken, parts, to, .. } = geometry;
    let (table, half) = (read(table, n, true), n / 2);
    each_block(&geometry, n, &mut |block| {
        let (lanes, step) = (block.lanes, geometry.from.step);
        let [mut first, other] = split(work, &table, lanes);
        let from = Read { x, window: None, block: &block, step, stride: 1, count: half + 1 };
        from.read_lanes(numbers(other.re, other.im, given.min(half + 1), parts));
        other.im[..lanes].fill(T::Wide::ZERO);
        if n.is_multiple_of(2) {
            other.im[half * lanes..][..lanes].fill(T::Wide::ZERO);
            halves::part(&other, &mut first, table.joints, lanes);
        } else {
            halves::mirror(&other, &mut first, n, lanes);
        }
        // Exchanged, as in `inverse_dft`.
        let exchanged = Pair { re: first.im, im: first.re };
        let done = transform(&table, lanes, [exchanged, other]).pair;
        let scale = T::Wide::ONE.div(number(table.n));
        let write = Write { block: &block, step: to.step, scale };
        if n.is_multiple_of(2) {
            let odd = (&*done.re, to.step, taken / 2);
            let write = Write { step: 2 * to.step, ..write };
            write.write_lanes(&[(done.im, 0, taken.div_ceil(2)), odd], y);
        } else {
            write.write_lanes(&[(done.im, 0, taken)], y);
        }
    });
}

/// Describes the real and imaginary parts of the input; the imaginary part may be zero.
fn numbers<'a, W>(
    re: &'a mut [W],
    im: &'a mut [W],
    given: usize,
    parts: usize,
) -> [Part<'a, W>; 2] {
    let imaginary = if parts == 2 { given } else { 0 };
    [
        Part { into: re, offset: 0, place: 0, given },
        Part { into: im, offset: usize::from(parts == 2), place: 0, given: imaginary },
    ]
}

/// Multiplies complex numbers.
#[inline(always)]
fn times<W: Float>(a: (W, W), b: (W, W)) -> (W, W) {
    (a.0.mul(b.0).sub(a.1.mul(b.1)), a.0.mul(b.1).add(a.1.mul(b.0)))
}

/// Splits work memory into two pairs.
fn split<'w, W>(work: &'w mut [W], table: &Table<'_, W>, lanes: usize) -> [Pair<'w, W>; 2] {
    // One element more than the transform: the middle element of a real line's transform.
    let len = (table.size() + 1) * lanes;
    let (a, rest) = work.split_at_mut(len);
    let (b, rest) = rest.split_at_mut(len);
    let (c, rest) = rest.split_at_mut(len);
    [Pair { re: a, im: b }, Pair { re: c, im: &mut rest[..len] }]
}

/// Transforms the lines of the first pair.
fn transform<'w, W: Float<Wide = W>>(
    table: &Table<'_, W>,
    lanes: usize,
    [mut x, y]: [Pair<'w, W>; 2],
) -> Done<'w, W> {
    let Some(with) = &table.chirp else { return fft(table.roots, lanes, x, y) };
    let end = table.n * lanes;
    multiply(&mut x, with.chirp, lanes);
    x.re[end..].fill(W::ZERO);
    x.im[end..].fill(W::ZERO);
    let done = fft(table.roots, lanes, x, y);
    let (mut x, y) = (done.pair, done.other);
    multiply(&mut x, with.filter, lanes);
    // Exchanged, as in `inverse_dft`.
    let exchanged = Pair { re: x.im, im: x.re };
    let mut done = fft(table.roots, lanes, exchanged, y);
    done.pair = Pair { re: done.pair.im, im: done.pair.re };
    multiply(&mut done.pair, with.chirp, lanes);
    done
}

/// Multiplies each line element by element with one line.
fn multiply<W: Float>(x: &mut Pair<'_, W>, by: stages::Roots<'_, W>, lanes: usize) {
    let rows = x.re.chunks_exact_mut(lanes).zip(x.im.chunks_exact_mut(lanes));
    for ((re, im), by) in rows.zip(by.re.iter().zip(by.im)) {
        for (re, im) in re.iter_mut().zip(im) {
            (*re, *im) = times((*re, *im), (*by.0, *by.1));
        }
    }
}

/// Computes the sizes of a transform along an axis that is known only at run time: its length, the
/// sizes before, along and after the axis, and the sizes of the result.
///
/// # Errors
///
/// Returns an error for an axis or a length out of range.
pub fn dft_sizes(
    sizes: &mut [usize],
    axis: Option<&[i64]>,
    length: Option<&[i64]>,
    shape: &[usize],
    ends: Ends,
) -> Result {
    let signal = shape.len() - 1;
    let axis = match axis.and_then(<[i64]>::first) {
        // The last axis holds the real and imaginary parts.
        Some(&axis) => index(axis, shape.len())?,
        None => ends.axis,
    };
    if axis >= signal {
        return Err(Error::Value("a Fourier transform along the axis of the parts"));
    }
    let n = match length.and_then(<[i64]>::first) {
        Some(&length) => size(length)?,
        None if ends.halved_input => 2 * shape[axis].saturating_sub(1),
        None => shape[axis],
    };
    if n == 0 && length.is_some() {
        return Err(Error::Value("a Fourier transform of length 0"));
    }
    let taken = if ends.halved_output { n / 2 + 1 } else { n };
    let product = |sizes: &[usize]| sizes.iter().product();
    let (before, behind) = (product(&shape[..axis]), product(&shape[axis + 1..signal]));
    let found = [n, before, shape[axis], behind];
    let result = (0..signal).map(|i| if i == axis { taken } else { shape[i] });
    for (size, found) in sizes.iter_mut().zip(found.into_iter().chain(result)) {
        *size = found;
    }
    Ok(())
}

/// The form of the input and output lines.
#[derive(Clone, Copy, Debug)]
pub struct Ends {
    /// The axis, unless it is an input.
    pub axis: usize,
    /// Whether the input is the first half of each line.
    pub halved_input: bool,
    /// Whether the output is the first half of each line.
    pub halved_output: bool,
}

/// Computes the step between the frames of a signal, their length, and their number. Without a
/// length, frames are as long as the window, or else the signal.
///
/// # Errors
///
/// Returns an error for a length that differs from that of the window, or a step or length out of
/// range.
pub fn frame_sizes(
    sizes: &mut [usize],
    step: &[i64],
    length: Option<&[i64]>,
    signal: usize,
    window: Option<usize>,
) -> Result {
    let step = step.first().map_or(Ok(0), |&step| size(step))?;
    let otherwise = window.unwrap_or(signal);
    let n = length.and_then(<[i64]>::first).map_or(Ok(otherwise), |&n| size(n))?;
    if window.is_some_and(|window| window != n) {
        return Err(Error::Value("a frame and its window must have one length"));
    }
    if step == 0 || n == 0 {
        return Err(Error::Value("a frame's step and length must be at least 1"));
    }
    let frames = match signal.checked_sub(n) {
        Some(rest) => rest / step + 1,
        None => return Err(Error::Value("a frame is longer than the signal")),
    };
    for (size, found) in sizes.iter_mut().zip([step, n, frames]) {
        *size = found;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
