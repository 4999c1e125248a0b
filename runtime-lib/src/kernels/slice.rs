//! Parts of a tensor: `Slice`, `ReverseSequence` and `Trilu`.

use crate::error::{Error, Result};
use crate::loops::geometry::{Axis, BatchedMatrices, Strided};
use crate::loops::index::{check_axes, check_length, position};
use crate::loops::strided::{copy_from, copy_row};
use crate::{Elem, Integer};

/// `Slice` with known starts and steps, whose strides `geometry` has.
pub fn slice<T: Elem>(x: &[T], y: &mut [T], geometry: Strided<'_>) {
    copy_from(x, y, geometry);
}

/// Copies the elements along an axis from `first` on to the front, and those before it to the end.
/// `first` is at most the size of the axis.
pub fn roll<T: Elem>(x: &[T], y: &mut [T], geometry: Axis, first: usize) {
    let Axis { len, inner, .. } = geometry;
    let split = first.min(len) * inner;
    let blocks = x.chunks_exact((len * inner).max(1));
    for (x, y) in blocks.zip(y.chunks_exact_mut((len * inner).max(1))) {
        let (end, start) = x.split_at(split);
        y[..start.len()].clone_from_slice(start);
        y[start.len()..].clone_from_slice(end);
    }
}

/// `Slice` of a tensor of `sizes`, with starts, ends, axes and steps that are inputs.
///
/// # Errors
///
/// Returns an error if a step is zero, an axis is out of range, the inputs differ in length, or the
/// result is not as long as `y`.
pub fn slice_dynamic<T: Elem, I: Integer>(
    x: &[T],
    starts: &[I],
    ends: &[I],
    axes: Option<&[I]>,
    steps: Option<&[I]>,
    y: &mut [T],
    sizes: &[usize],
) -> Result {
    let cuts = Cuts { starts, ends, axes, steps };
    cuts.check(sizes.len())?;
    check_length(y.len(), (0..sizes.len()).map(|axis| cuts.of(axis, sizes).len))?;
    cuts.copy(x, y, 0, sizes);
    Ok(())
}

/// Computes the sizes of `Slice` for a tensor of sizes `from`.
///
/// # Errors
///
/// Returns an error for a step of zero, or an axis out of range.
pub fn slice_sizes<I: Integer>(
    sizes: &mut [usize],
    starts: &[I],
    ends: &[I],
    axes: Option<&[I]>,
    steps: Option<&[I]>,
    from: &[usize],
) -> Result {
    let cuts = Cuts { starts, ends, axes, steps };
    cuts.check(from.len())?;
    for (axis, size) in sizes.iter_mut().enumerate() {
        *size = cuts.of(axis, from).len;
    }
    Ok(())
}

/// The inputs of a `Slice`.
struct Cuts<'a, I> {
    starts: &'a [I],
    ends: &'a [I],
    axes: Option<&'a [I]>,
    steps: Option<&'a [I]>,
}

/// The range of one axis: `len` elements from `start`.
struct Cut {
    start: usize,
    step: isize,
    len: usize,
}

impl<I: Integer> Cuts<'_, I> {
    fn check(&self, rank: usize) -> Result {
        let zero = |step: &I| *step == I::ZERO;
        if self.steps.is_some_and(|steps| steps.iter().any(zero)) {
            return Err(Error::Value("a step of Slice is zero"));
        }
        let named = self.axes.map_or(self.starts.len(), <[I]>::len);
        let steps = self.steps.map_or(named, <[I]>::len);
        if [self.starts.len(), self.ends.len(), steps] != [named; 3] || named > rank {
            return Err(Error::Value("the inputs of Slice differ in length"));
        }
        check_axes(self.axes.unwrap_or_default(), rank)
    }

    fn of(&self, axis: usize, sizes: &[usize]) -> Cut {
        let size = sizes[axis];
        let all = Cut { start: 0, step: 1, len: size };
        let Some(i) = position(self.axes, axis, sizes.len()).filter(|&i| i < self.starts.len())
        else {
            return all;
        };
        let step = self.steps.map_or(1, |steps| steps[i].to_i64());
        Cut::new(self.starts[i].to_i64(), self.ends[i].to_i64(), step, size)
    }

    fn copy<T: Elem>(&self, x: &[T], y: &mut [T], axis: usize, sizes: &[usize]) {
        if y.is_empty() {
            return;
        }
        let Some(&size) = sizes.get(axis) else { return y.clone_from_slice(x) };
        let Cut { start, step, len } = self.of(axis, sizes);
        if axis + 1 == sizes.len() {
            return copy_row(x, start, step, y);
        }
        let (block_x, mut at) = (x.len() / size, start);
        for y in y.chunks_exact_mut(y.len() / len) {
            self.copy(&x[at * block_x..][..block_x], y, axis + 1, sizes);
            at = at.wrapping_add_signed(step);
        }
    }
}

impl Cut {
    fn new(start: i64, end: i64, step: i64, size: usize) -> Self {
        // 128 bits cannot overflow.
        let (size, step) = (i128::try_from(size).unwrap_or(i128::MAX), i128::from(step));
        let from_front = |at: i64| i128::from(at) + if at < 0 { size } else { 0 };
        // A negative step starts at an element, unlike in Python, and may end before the first
        // element.
        let (lowest, highest) = if step > 0 { (0, size) } else { (-1, size - 1) };
        let start = from_front(start).max(0).min(highest);
        let end = from_front(end).max(lowest).min(highest);
        let distance = if step > 0 { end - start } else { start - end };
        let len = distance.max(0).unsigned_abs().div_ceil(step.unsigned_abs());
        Cut {
            start: usize::try_from(start).unwrap_or(0),
            step: isize::try_from(step).unwrap_or(isize::MAX),
            len: usize::try_from(len).unwrap_or(usize::MAX),
        }
    }
}

/// `ReverseSequence`: reverses the first `lengths` elements of each sequence; `outer` is the number
/// of sequences, `len` their length.
///
/// # Errors
///
/// Returns an error if a length is out of range.
pub fn reverse_sequence<T: Elem>(x: &[T], lengths: &[i64], y: &mut [T], geometry: Axis) -> Result {
    let Axis { outer, len, inner } = geometry;
    debug_assert_eq!(lengths.len(), outer, "each sequence has a length");
    reverse_each(x, lengths, y, (len, inner), |sequence, step| sequence * len + step)
}

/// [`reverse_sequence`] with time as the first axis: `outer` is the length, `len` the number of
/// sequences.
///
/// # Errors
///
/// Returns an error under the conditions of [`reverse_sequence`].
pub fn reverse_sequence_time_major<T: Elem>(
    x: &[T],
    lengths: &[i64],
    y: &mut [T],
    geometry: Axis,
) -> Result {
    let Axis { outer, len, inner } = geometry;
    debug_assert_eq!(lengths.len(), len, "each sequence has a length");
    reverse_each(x, lengths, y, (outer, inner), |sequence, step| step * len + sequence)
}

fn reverse_each<T: Elem>(
    x: &[T],
    lengths: &[i64],
    y: &mut [T],
    (steps, inner): (usize, usize),
    place: impl Fn(usize, usize) -> usize,
) -> Result {
    for (sequence, &length) in lengths.iter().enumerate() {
        let reversed = usize::try_from(length).ok().filter(|&length| length <= steps);
        let reversed = reversed.ok_or(Error::Index { index: length, size: steps })?;
        for step in 0..steps {
            let from = if step < reversed { reversed - 1 - step } else { step };
            let (from, to) = (place(sequence, from) * inner, place(sequence, step) * inner);
            y[to..][..inner].clone_from_slice(&x[from..][..inner]);
        }
    }
    Ok(())
}

/// `Trilu`: keeps the elements on and above diagonal `k` and sets the others to zero.
pub fn triu<T: Elem>(x: &[T], k: Option<&[i64]>, y: &mut [T], geometry: BatchedMatrices) {
    y.clone_from_slice(x);
    triu_in_place(y, k, geometry);
}

/// [`triu`] in place.
pub fn triu_in_place<T: Elem>(y: &mut [T], k: Option<&[i64]>, geometry: BatchedMatrices) {
    for (y, diagonal) in rows(y, k, geometry) {
        y[..diagonal].fill(T::default());
    }
}

/// `Trilu`: keeps the elements on and below diagonal `k` and sets the others to zero.
pub fn tril<T: Elem>(x: &[T], k: Option<&[i64]>, y: &mut [T], geometry: BatchedMatrices) {
    y.clone_from_slice(x);
    tril_in_place(y, k, geometry);
}

/// [`tril`] in place.
pub fn tril_in_place<T: Elem>(y: &mut [T], k: Option<&[i64]>, geometry: BatchedMatrices) {
    let above = diagonal(k).saturating_add(1);
    for (y, diagonal) in rows(y, Some(&[above]), geometry) {
        y[diagonal..].fill(T::default());
    }
}

fn diagonal(k: Option<&[i64]>) -> i64 {
    k.and_then(|k| k.first().copied()).unwrap_or(0)
}

/// Returns each row with the number of its elements before the diagonal.
fn rows<'a, T>(
    y: &'a mut [T],
    k: Option<&[i64]>,
    geometry: BatchedMatrices,
) -> impl Iterator<Item = (&'a mut [T], usize)> {
    let BatchedMatrices { count: _, rows, columns } = geometry;
    let k = diagonal(k);
    y.chunks_exact_mut(columns.max(1)).enumerate().map(move |(i, row)| {
        let row_of_plane = i64::try_from(i % rows).unwrap_or(i64::MAX);
        let before = row_of_plane.saturating_add(k).max(0);
        (row, usize::try_from(before).unwrap_or(columns).min(columns))
    })
}

/// Computes the number of iterations that `Scan` runs for one batch entry, at most `most`.
///
/// # Errors
///
/// Returns an error for a length out of range.
pub fn scan_iterations(sizes: &mut [usize], lens: Option<&[i64]>, most: usize) -> Result {
    sizes[0] = lens.map_or(Ok(most), |lens| crate::loops::index::size(lens[0]))?;
    if sizes[0] <= most {
        Ok(())
    } else {
        Err(Error::Value("a sequence is longer than its tensor"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Calls `visit` with the indices of ONNX's definition.
    fn define(start: i64, end: i64, step: i64, size: i64, mut visit: impl FnMut(i64)) {
        let from_front = |at: i64| if at < 0 { at + size } else { at };
        let (lowest, highest) = if step > 0 { (0, size) } else { (-1, size - 1) };
        let mut at = from_front(start).max(0).min(highest);
        let end = from_front(end).clamp(lowest, highest);
        while (step > 0 && at < end) || (step < 0 && at > end) {
            visit(at);
            at += step;
        }
    }

    #[test]
    fn every_small_slice_is_as_defined() {
        let x: [i64; 5] = core::array::from_fn(|i| i as i64);
        for code in 0..13 * 13 * 7 * 6 {
            let [start, end] = [code % 13 - 6, code / 13 % 13 - 6];
            let (step, size) = (code / 169 % 7 - 3, code / 169 / 7);
            if step == 0 {
                continue;
            }
            let (mut expected, mut count) = ([0; 5], 0);
            define(start, end, step, size, |at| {
                expected[count] = at;
                count += 1;
            });
            let from = [size as usize];
            let mut sizes = [9];
            slice_sizes(&mut sizes, &[start], &[end], None, Some(&[step]), &from).expect("legal");
            assert_eq!(sizes, [count], "{start}:{end}:{step} of {size}");
            let mut y = [0; 5];
            let (x, y) = (&x[..from[0]], &mut y[..count]);
            slice_dynamic(x, &[start], &[end], None, Some(&[step]), y, &from).expect("legal");
            assert_eq!(y, &expected[..count]);
        }
    }

    #[test]
    fn a_slice_names_its_axes_in_any_order() {
        let x: [u8; 24] = core::array::from_fn(|i| i as u8);
        let (starts, ends, axes, steps) = ([-1, 0], [i32::MIN, 1], [2, -3], [-2, 1]);
        let mut sizes = [0; 3];
        slice_sizes(&mut sizes, &starts, &ends, Some(&axes), Some(&steps), &[2, 3, 4])
            .expect("legal");
        assert_eq!(sizes, [1, 3, 2]);
        let mut y = [0; 6];
        slice_dynamic(&x, &starts, &ends, Some(&axes), Some(&steps), &mut y, &[2, 3, 4])
            .expect("legal");
        assert_eq!(y, [3, 1, 7, 5, 11, 9]);
        slice(&x, &mut y, Strided { sizes: &sizes, strides: &[12, 4, -2], start: 3 });
        assert_eq!(y, [3, 1, 7, 5, 11, 9]);
    }

    #[test]
    fn extreme_bounds_are_clamped_and_invalid_ones_are_errors() {
        let mut sizes = [9];
        let extreme = [i64::MIN, i64::MAX];
        for (start, end, step, expected) in [
            (extreme[0], extreme[1], extreme[1], 1),
            (extreme[1], extreme[0], extreme[0], 1),
            (extreme[1], extreme[1], 1, 0),
            (0, 5, 2, 3),
        ] {
            slice_sizes(&mut sizes, &[start], &[end], None, Some(&[step]), &[5]).expect("legal");
            assert_eq!(sizes, [expected]);
        }
        assert!(slice_sizes(&mut sizes, &[0], &[1], None, Some(&[0]), &[5]).is_err());
        assert!(slice_sizes(&mut sizes, &[0], &[1], Some(&[1]), None, &[5]).is_err());
        assert!(slice_sizes(&mut sizes, &[0], &[1, 2], None, None, &[5]).is_err());
        assert!(slice_sizes(&mut sizes, &[0, 0], &[1, 2], None, None, &[5]).is_err());
        assert!(slice_dynamic(&[1, 2], &[0], &[1], None, None, &mut [0, 0], &[2]).is_err());
        assert_eq!(slice_dynamic::<u8, i64>(&[7], &[], &[], None, None, &mut [0], &[]), Ok(()));
    }

    #[test]
    fn a_roll_is_two_slices() {
        let x: [u8; 24] = core::array::from_fn(|i| i as u8);
        for (outer, len, inner) in [(1, 24, 1), (2, 3, 4), (4, 6, 1), (1, 1, 24), (3, 0, 2)] {
            for first in 0..=len {
                let mut y = [99; 24];
                let (x, y) = (&x[..outer * len * inner], &mut y[..outer * len * inner]);
                roll(x, y, Axis { outer, len, inner }, first);
                for (at, &y) in y.iter().enumerate() {
                    let from = (at / inner % len + first) % len;
                    assert_eq!(y, x[at - at / inner % len * inner + from * inner]);
                }
            }
        }
    }

    #[test]
    fn sequences_are_reversed_up_to_their_length() {
        let x = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11];
        let mut y = [0; 12];
        let geometry = Axis { outer: 3, len: 4, inner: 1 };
        assert_eq!(reverse_sequence(&x, &[0, 3, 4], &mut y, geometry), Ok(()));
        assert_eq!(y, [0, 1, 2, 3, 6, 5, 4, 7, 11, 10, 9, 8]);
        let geometry = Axis { outer: 3, len: 2, inner: 2 };
        assert_eq!(reverse_sequence_time_major(&x, &[3, 2], &mut y, geometry), Ok(()));
        assert_eq!(y, [8, 9, 6, 7, 4, 5, 2, 3, 0, 1, 10, 11]);
        for wrong in [-1, 4] {
            assert!(reverse_sequence_time_major(&x, &[0, wrong], &mut y, geometry).is_err());
        }
    }

    #[test]
    fn upper_and_lower_triangles_include_the_diagonal() {
        let x = [1; 24];
        for k in (-5..6).chain([i64::MIN, i64::MAX]) {
            let geometry = BatchedMatrices { count: 2, rows: 3, columns: 4 };
            let (mut upper, mut lower) = ([9; 24], [9; 24]);
            triu(&x, Some(&[k]), &mut upper, geometry);
            tril(&x, Some(&[k]), &mut lower, geometry);
            for at in 0..24 {
                let (i, j) = ((at / 4 % 3) as i128, (at % 4) as i128);
                assert_eq!(upper[at] == 1, j - i >= i128::from(k));
                assert_eq!(lower[at] == 1, j - i <= i128::from(k));
            }
        }
        let mut y = [1.5; 4];
        triu_in_place(&mut y, None, BatchedMatrices { count: 1, rows: 2, columns: 2 });
        tril_in_place(&mut y, None, BatchedMatrices { count: 1, rows: 2, columns: 2 });
        assert_eq!(y, [1.5, 0.0, 0.0, 1.5]);
        tril_in_place::<u8>(&mut [], None, BatchedMatrices { count: 0, rows: 0, columns: 0 });
    }
}
