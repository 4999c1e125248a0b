//! Padding and cropping: `Pad` and `CenterCropPad`.

use crate::error::{Error, Result};
use crate::loops::geometry::{Pads, Shapes};
use crate::loops::index::{check_axes, check_length, index, size};
use crate::{Elem, Integer};

/// Pads with a constant: one element, or zero if it is absent.
pub fn pad_constant<T: Elem>(x: &[T], value: Option<&[T]>, y: &mut [T], geometry: Pads<'_>) {
    pad(x, y, geometry, constant, value);
}

/// Pads with the outermost elements.
pub fn pad_edge<T: Elem>(x: &[T], y: &mut [T], geometry: Pads<'_>) {
    pad(x, y, geometry, edge, None);
}

/// Pads by reflection at the outermost elements, repeatedly if needed.
pub fn pad_reflect<T: Elem>(x: &[T], y: &mut [T], geometry: Pads<'_>) {
    pad(x, y, geometry, reflect, None);
}

/// Pads by repeating the tensor.
pub fn pad_wrap<T: Elem>(x: &[T], y: &mut [T], geometry: Pads<'_>) {
    pad(x, y, geometry, wrap, None);
}

/// [`pad_constant`] of a tensor of `sizes`, with pads that are an input.
///
/// # Errors
///
/// Returns an error if the pads are not two for each axis, crop more than an axis has, or do not
/// give the length of `y`.
pub fn pad_constant_dynamic<T: Elem>(
    x: &[T],
    pads: &[i64],
    value: Option<&[T]>,
    y: &mut [T],
    sizes: &[usize],
) -> Result {
    pad_dynamic(x, pads, y, sizes, constant, value)
}

/// [`pad_edge`] of a tensor of `sizes`, with pads that are an input.
///
/// # Errors
///
/// Returns an error under the conditions of [`pad_constant_dynamic`].
pub fn pad_edge_dynamic<T: Elem>(x: &[T], pads: &[i64], y: &mut [T], sizes: &[usize]) -> Result {
    pad_dynamic(x, pads, y, sizes, edge, None)
}

/// [`pad_reflect`] of a tensor of `sizes`, with pads that are an input.
///
/// # Errors
///
/// Returns an error under the conditions of [`pad_constant_dynamic`].
pub fn pad_reflect_dynamic<T: Elem>(x: &[T], pads: &[i64], y: &mut [T], sizes: &[usize]) -> Result {
    pad_dynamic(x, pads, y, sizes, reflect, None)
}

/// [`pad_wrap`] of a tensor of `sizes`, with pads that are an input.
///
/// # Errors
///
/// Returns an error under the conditions of [`pad_constant_dynamic`].
pub fn pad_wrap_dynamic<T: Elem>(x: &[T], pads: &[i64], y: &mut [T], sizes: &[usize]) -> Result {
    pad_dynamic(x, pads, y, sizes, wrap, None)
}

/// Computes the sizes of `Pad` for a tensor of sizes `from`.
///
/// # Errors
///
/// Returns an error for a negative size.
pub fn pad_sizes(sizes: &mut [usize], pads: &[i64], from: &[usize]) -> Result {
    check_pads(pads, from)?;
    for (axis, size) in sizes.iter_mut().enumerate() {
        *size = amounts(pads, axis).size(from[axis]);
    }
    Ok(())
}

/// Writes the pads of all axes: those of `axes` from `pads`, zero for the others.
///
/// # Errors
///
/// Returns an error for an axis out of range.
pub fn pad_axes<I: Integer>(pads: &[i64], axes: &[I], all: &mut [i64]) -> Result {
    let rank = all.len() / 2;
    check_axes(axes, rank)?;
    if pads.len() != 2 * axes.len() {
        return Err(TWO_EACH);
    }
    all.fill(0);
    for (i, &axis) in axes.iter().enumerate() {
        let axis = index(axis, rank)?;
        (all[axis], all[rank + axis]) = (pads[i], pads[axes.len() + i]);
    }
    Ok(())
}

/// Crops or zero-pads each axis to the result's size, equally on both sides; an odd element goes to
/// the end.
pub fn center_crop_pad<T: Elem>(x: &[T], y: &mut [T], geometry: Shapes<'_>) {
    let Shapes { from, to } = geometry;
    let amount = |axis: usize| {
        let (from, to): (usize, usize) = (from[axis], to[axis]);
        let (less, more) = (from.saturating_sub(to), to.saturating_sub(from));
        let before = (more / 2).cast_signed() - (less / 2).cast_signed();
        let after = more.div_ceil(2).cast_signed() - less.div_ceil(2).cast_signed();
        Amount { before, after }
    };
    Padding { sizes: from, amount, border: constant, value: T::default() }.fill(x, y, 0);
}

/// Computes the sizes of `CenterCropPad`.
///
/// # Errors
///
/// Returns an error for an axis or a size out of range.
pub fn center_crop_pad_sizes<I: Integer>(sizes: &mut [usize], shape: &[I]) -> Result {
    for (size_of, &wanted) in sizes.iter_mut().zip(shape) {
        *size_of = size(wanted)?;
    }
    Ok(())
}

fn pad<T: Elem>(x: &[T], y: &mut [T], geometry: Pads<'_>, border: Border, value: Option<&[T]>) {
    let Pads { sizes, before, after } = geometry;
    let amount = |axis: usize| Amount { before: before[axis], after: after[axis] };
    let value = value.and_then(<[T]>::first).cloned().unwrap_or_default();
    Padding { sizes, amount, border, value }.fill(x, y, 0);
}

fn pad_dynamic<T: Elem>(
    x: &[T],
    pads: &[i64],
    y: &mut [T],
    sizes: &[usize],
    border: Border,
    value: Option<&[T]>,
) -> Result {
    check_pads(pads, sizes)?;
    let amount = |axis: usize| amounts(pads, axis);
    check_length(y.len(), (0..sizes.len()).map(|axis| amount(axis).size(sizes[axis])))?;
    let value = value.and_then(<[T]>::first).cloned().unwrap_or_default();
    Padding { sizes, amount, border, value }.fill(x, y, 0);
    Ok(())
}

const TWO_EACH: Error = Error::Value("Pad wants two numbers for each axis");

fn check_pads(pads: &[i64], sizes: &[usize]) -> Result {
    if pads.len() != 2 * sizes.len() {
        return Err(TWO_EACH);
    }
    for (axis, &size) in sizes.iter().enumerate() {
        let Amount { before, after } = amounts(pads, axis);
        if before.checked_add(after).and_then(|n| size.checked_add_signed(n)).is_none() {
            return Err(Error::Value("Pad takes more away than there is"));
        }
    }
    Ok(())
}

fn amounts(pads: &[i64], axis: usize) -> Amount {
    let number = |i: usize| {
        isize::try_from(pads[i]).unwrap_or(if pads[i] < 0 { isize::MIN } else { isize::MAX })
    };
    Amount { before: number(axis), after: number(axis + pads.len() / 2) }
}

/// The elements that an axis gains, or loses if negative, at each end.
struct Amount {
    before: isize,
    after: isize,
}

impl Amount {
    fn size(&self, from: usize) -> usize {
        from.wrapping_add_signed(self.before).wrapping_add_signed(self.after)
    }
}

/// Maps an index outside of `0..n` to an element; `None` for the constant.
type Border = fn(isize, isize) -> Option<isize>;

const fn constant(_: isize, _: isize) -> Option<isize> {
    None
}

fn edge(place: isize, n: isize) -> Option<isize> {
    Some(place.clamp(0, n - 1))
}

fn reflect(place: isize, n: isize) -> Option<isize> {
    if n == 1 {
        return Some(0);
    }
    let period = 2 * (n - 1);
    let place = place.rem_euclid(period);
    Some(place.min(period - place))
}

fn wrap(place: isize, n: isize) -> Option<isize> {
    Some(place.rem_euclid(n))
}

/// Rows whose borders are filled together: each column of them has one source.
const ROWS: usize = 32;

/// The last axis: the elements that are kept, and the number of elements added before them.
struct Line {
    first: usize,
    n: usize,
    before: usize,
}

struct Padding<'a, T, A> {
    sizes: &'a [usize],
    amount: A,
    border: Border,
    value: T,
}

impl<T: Elem, A: Fn(usize) -> Amount> Padding<'_, T, A> {
    /// Fills `y` along the axes from `axis` on.
    fn fill(&self, x: &[T], y: &mut [T], axis: usize) {
        let Some(&size) = self.sizes.get(axis) else { return y.clone_from_slice(x) };
        let amount = (self.amount)(axis);
        let len = amount.size(size);
        if y.is_empty() {
            return;
        }
        // Elements that a negative amount removes do not appear in the padding either.
        let first = amount.before.min(0).unsigned_abs();
        let n = size.saturating_sub(first + amount.after.min(0).unsigned_abs());
        if x.is_empty() || n == 0 {
            return y.fill(self.value.clone());
        }
        let (block_x, block_y) = (x.len() / size, y.len() / len);
        let x = &x[first * block_x..][..n * block_x];
        let (before, rest) = y.split_at_mut(amount.before.max(0).unsigned_abs() * block_y);
        let (middle, after) = rest.split_at_mut(n * block_y);
        if axis + 1 == self.sizes.len() {
            middle.clone_from_slice(x);
        } else if axis + 2 == self.sizes.len() && self.line().n > 0 {
            let line = self.line();
            for (x, y) in x.chunks(ROWS * block_x).zip(middle.chunks_mut(ROWS * block_y)) {
                self.fill_lines(&line, (x, block_x), (y, block_y));
            }
        } else {
            for (x, y) in x.chunks_exact(block_x).zip(middle.chunks_exact_mut(block_y)) {
                self.fill(x, y, axis + 1);
            }
        }
        for (place, y) in (-amount.before.max(0)..).zip(before.chunks_exact_mut(block_y)) {
            self.fill_border(x, place, n, y, axis);
        }
        for (place, y) in (n.cast_signed()..).zip(after.chunks_exact_mut(block_y)) {
            self.fill_border(x, place, n, y, axis);
        }
    }

    /// Returns the geometry of the last axis.
    fn line(&self) -> Line {
        let axis = self.sizes.len() - 1;
        let Amount { before, after } = (self.amount)(axis);
        let first = before.min(0).unsigned_abs();
        let n = self.sizes[axis].saturating_sub(first + after.min(0).unsigned_abs());
        Line { first, n, before: before.max(0).unsigned_abs() }
    }

    /// Fills rows of `y` along the last axis from rows of `x`; `to` and `from` are their lengths.
    fn fill_lines(&self, line: &Line, (x, from): (&[T], usize), (y, to): (&mut [T], usize)) {
        let &Line { first, n, before } = line;
        for (x, y) in x.chunks_exact(from).zip(y.chunks_exact_mut(to)) {
            y[before..][..n].clone_from_slice(&x[first..][..n]);
        }
        for column in (0..before).chain(before + n..to) {
            let place = column.cast_signed() - before.cast_signed();
            let source = (self.border)(place, n.cast_signed());
            for (x, y) in x.chunks_exact(from).zip(y.chunks_exact_mut(to)) {
                let source = source.map(|source| &x[first + source.unsigned_abs()]);
                y[column] = source.unwrap_or(&self.value).clone();
            }
        }
    }

    fn fill_border(&self, x: &[T], place: isize, n: usize, y: &mut [T], axis: usize) {
        match (self.border)(place, n.cast_signed()) {
            Some(place) => {
                let block = x.len() / n;
                self.fill(&x[place.unsigned_abs() * block..][..block], y, axis + 1);
            }
            None => y.fill(self.value.clone()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Finds the element at an index by walking to it.
    fn naive(border: usize, place: i64, n: i64) -> Option<i64> {
        let inside = (0..n).contains(&place);
        match border {
            _ if inside => Some(place),
            0 => None,
            1 => Some(if place < 0 { 0 } else { n - 1 }),
            2 if n == 1 => Some(0),
            2 => {
                let (mut at, mut step) = (0, 1);
                for _ in 0..place.abs() {
                    step = if at + step < 0 || at + step >= n { -step } else { step };
                    at += step;
                }
                Some(at)
            }
            _ => Some(((place % n) + n) % n),
        }
    }

    #[test]
    fn every_small_pad_is_its_definition() {
        let x: [i64; 3] = [10, 11, 12];
        for code in 0..3 * 12 * 12 * 4 {
            let (n, border) = (code % 3 + 1, code / 3 % 4);
            let (before, after) = (code as i64 / 12 % 12 - 3, code as i64 / 144 - 3);
            let size = n as i64 + before + after;
            let (cropped, lost) = ((-before).max(0), (-after).max(0));
            let left = n as i64 - cropped - lost;
            if size < 0 || left < 0 {
                continue;
            }
            let (x, mut y, mut z) = (&x[..n], [0; 24], [0; 24]);
            let (y, z) = (&mut y[..size as usize], &mut z[..size as usize]);
            let geometry =
                Pads { sizes: &[n], before: &[before as isize], after: &[after as isize] };
            let (pads, sizes) = (&[before, after], &[n]);
            match border {
                0 => pad_constant(x, Some(&[7]), y, geometry),
                1 => pad_edge(x, y, geometry),
                2 => pad_reflect(x, y, geometry),
                _ => pad_wrap(x, y, geometry),
            }
            let result = match border {
                0 => pad_constant_dynamic(x, pads, Some(&[7]), z, sizes),
                1 => pad_edge_dynamic(x, pads, z, sizes),
                2 => pad_reflect_dynamic(x, pads, z, sizes),
                _ => pad_wrap_dynamic(x, pads, z, sizes),
            };
            assert_eq!((result, &*y), (Ok(()), &*z));
            if left == 0 {
                continue;
            }
            for (i, &y) in y.iter().enumerate() {
                let place = naive(border, i as i64 - before.max(0), left);
                assert_eq!(y, place.map_or(7, |place| x[(place + cropped) as usize]));
            }
        }
    }

    #[test]
    fn axes_pad_one_after_the_other() {
        let (x, mut y) = ([1, 2, 3, 4], [0; 16]);
        pad_reflect(&x, &mut y, Pads { sizes: &[2, 2], before: &[1, 1], after: &[1, 1] });
        assert_eq!(y, [4, 3, 4, 3, 2, 1, 2, 1, 4, 3, 4, 3, 2, 1, 2, 1]);
        let (mut y, mut pads) = ([0; 8], [9; 4]);
        assert_eq!(pad_axes(&[1, 1], &[-1i32], &mut pads), Ok(()));
        assert_eq!(pad_constant_dynamic(&x, &pads, None, &mut y, &[2, 2]), Ok(()));
        assert_eq!(y, [0, 1, 2, 0, 0, 3, 4, 0]);
        pad_constant(
            &[],
            Some(&[5]),
            &mut y,
            Pads { sizes: &[0, 2], before: &[4, 0], after: &[0, 0] },
        );
        assert_eq!(y, [5; 8]);
        let mut y = [0];
        pad_edge(&[3], &mut y, Pads { sizes: &[], before: &[], after: &[] });
        assert_eq!(y, [3]);
    }

    #[test]
    fn pad_sizes_are_computed_or_errors() {
        let mut sizes = [0; 2];
        assert_eq!(pad_sizes(&mut sizes, &[1, 0, -2, 3], &[2, 3]), Ok(()));
        assert_eq!(sizes, [1, 6]);
        assert!(pad_sizes(&mut sizes, &[-1, 0, -2, 0], &[2, 3]).is_err());
        assert!(pad_sizes(&mut sizes, &[i64::MAX, 0, 2, 0], &[2, 3]).is_err());
        assert!(pad_sizes(&mut sizes, &[0; 3], &[2, 3]).is_err());
        assert!(pad_edge_dynamic(&[1], &[1, 1], &mut [0; 2], &[1]).is_err());
        let mut pads = [9; 4];
        assert_eq!(pad_axes(&[1, 2, 3, 4], &[1i64, 0], &mut pads), Ok(()));
        assert_eq!(pads, [2, 1, 4, 3]);
        assert!(pad_axes(&[1, 2], &[2i64], &mut pads).is_err());
        assert!(pad_axes(&[1, 2, 3], &[1i64], &mut pads).is_err());
        assert_eq!(center_crop_pad_sizes(&mut sizes, &[7i64, 0]), Ok(()));
        assert_eq!(sizes, [7, 0]);
        assert!(center_crop_pad_sizes(&mut sizes, &[-7i64]).is_err());
    }

    #[test]
    fn an_odd_remainder_is_padded_at_the_end() {
        let mut y = [9; 8];
        center_crop_pad(&[1, 2, 3, 4, 5], &mut y, Shapes { from: &[5], to: &[8] });
        assert_eq!(y, [0, 1, 2, 3, 4, 5, 0, 0]);
        let mut y = [9; 2];
        center_crop_pad(&[1, 2, 3, 4, 5], &mut y, Shapes { from: &[5], to: &[2] });
        assert_eq!(y, [2, 3]);
        let mut y = [9; 4];
        center_crop_pad(&[1, 2, 3, 4], &mut y, Shapes { from: &[4, 1], to: &[2, 2] });
        assert_eq!(y, [2, 0, 3, 0]);
    }
}
