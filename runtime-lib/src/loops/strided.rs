//! Copies between a contiguous tensor and a strided view: the loops of `Transpose`, `Slice`,
//! `Expand`, `Concat`, `Split`, `DepthToSpace` and similar operators.

use crate::Elem;
use crate::loops::geometry::{BLOCK, Strided};
use crate::loops::walk::{Row, walk};
use crate::simd::{HAS_VECTORS, Simd, WithSimd, dispatch, square};
use core::array::from_fn;

/// Copies the elements of a strided view of `x` to `y`.
pub fn copy_from<T: Elem>(x: &[T], y: &mut [T], geometry: Strided<'_>) {
    let Strided { sizes, strides, start } = geometry;
    debug_assert_eq!(y.len(), sizes.iter().product(), "the result has the sizes");
    if y.is_empty() {
        return;
    }
    let row = Row::of(sizes, [strides]);
    if let Some(plane) = Plane::of(sizes, strides, &row) {
        return plane.copy_each(x, y, geometry);
    }
    if HAS_VECTORS
        && (row.len, row.steps[0]) == (BLOCK, 1)
        && let (Some(x), Some(y)) = (T::as_f32(x), T::as_f32_mut(y))
    {
        return dispatch(CopyBlocks { x, y, geometry });
    }
    // The axis before the rows is a loop here, because rows may be short.
    let outer = row.rank.saturating_sub(1);
    let count = sizes[outer..row.rank].iter().product::<usize>();
    let apart = strides[outer..row.rank].first().copied().unwrap_or(0);
    let mut blocks = y.chunks_exact_mut(count * row.len);
    walk(&sizes[..outer], [strides], [start], &mut |[mut at]| {
        for y in blocks.next().unwrap_or_default().chunks_exact_mut(row.len) {
            copy_row(x, at, row.steps[0], y);
            at = at.wrapping_add_signed(apart);
        }
    });
}

/// Copies rows of one block of channels each.
struct CopyBlocks<'a> {
    x: &'a [f32],
    y: &'a mut [f32],
    geometry: Strided<'a>,
}

impl WithSimd for CopyBlocks<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        let CopyBlocks { x, y, geometry: Strided { sizes, strides, start } } = self;
        let row = Row::of(sizes, [strides]);
        let outer = row.rank.saturating_sub(1);
        let count = sizes[outer..row.rank].iter().product::<usize>();
        let apart = strides[outer..row.rank].first().copied().unwrap_or(0);
        let mut blocks = y.as_chunks_mut::<BLOCK>().0.chunks_exact_mut(count);
        walk(&sizes[..outer], [strides], [start], &mut |[mut at]| {
            for y in blocks.next().unwrap_or_default() {
                *y = *x[at..].first_chunk().expect("a row lies inside the view");
                at = at.wrapping_add_signed(apart);
            }
        });
    }
}

#[inline(always)]
pub(crate) fn copy_row<T: Elem>(x: &[T], at: usize, step: isize, y: &mut [T]) {
    match step {
        1 => copy(&x[at..][..y.len()], y),
        0 => y.fill(x[at].clone()),
        // A constant step is compiled to vectors.
        2 if HAS_VECTORS && x.len() - at >= 2 * y.len() => {
            let (pairs, _) = x[at..].as_chunks::<2>();
            y.iter_mut().zip(pairs).for_each(|(y, [first, _])| *y = first.clone());
        }
        step if step > 0 => {
            for (y, x) in y.iter_mut().zip(x[at..].iter().step_by(step.unsigned_abs())) {
                *y = x.clone();
            }
        }
        step => {
            for (y, x) in y.iter_mut().zip(x[..=at].iter().rev().step_by(step.unsigned_abs())) {
                *y = x.clone();
            }
        }
    }
}

/// Copies a row. On targets with vectors, a call takes longer than copying a short row.
#[inline(always)]
pub(crate) fn copy<T: Clone>(x: &[T], y: &mut [T]) {
    match x.len() {
        4..8 if HAS_VECTORS => copy_both_ends::<T, 4>(x, y),
        8..16 if HAS_VECTORS => copy_both_ends::<T, 8>(x, y),
        16..=32 if HAS_VECTORS => copy_both_ends::<T, 16>(x, y),
        _ => y.clone_from_slice(x),
    }
}

/// Copies the first and the last `N` elements, which overlap or are all.
#[inline(always)]
fn copy_both_ends<T: Clone, const N: usize>(x: &[T], y: &mut [T]) {
    if let (Some(from), Some(to)) = (x.first_chunk::<N>(), y.first_chunk_mut()) {
        *to = from.clone();
    }
    if let (Some(from), Some(to)) = (x.last_chunk::<N>(), y.last_chunk_mut()) {
        *to = from.clone();
    }
}

/// Copies `x` to the elements of a strided view of `y`; others do not change.
pub fn copy_to<T: Elem>(x: &[T], y: &mut [T], geometry: Strided<'_>) {
    let Strided { sizes, strides, start } = geometry;
    debug_assert_eq!(x.len(), sizes.iter().product(), "the operand has the sizes");
    if x.is_empty() {
        return;
    }
    let row = Row::of(sizes, [strides]);
    // As in `copy_from`.
    let outer = row.rank.saturating_sub(1);
    let count = sizes[outer..row.rank].iter().product::<usize>();
    let apart = strides[outer..row.rank].first().copied().unwrap_or(0);
    let mut blocks = x.chunks_exact(count * row.len);
    walk(&sizes[..outer], [strides], [start], &mut |[mut at]| {
        for x in blocks.next().unwrap_or_default().chunks_exact(row.len) {
            write_row(x, y, at, row.steps[0]);
            at = at.wrapping_add_signed(apart);
        }
    });
}

/// Copies a row to the elements of `y` that are `step` apart.
#[inline(always)]
fn write_row<T: Elem>(x: &[T], y: &mut [T], mut at: usize, step: isize) {
    if step == 1 {
        return copy(x, &mut y[at..][..x.len()]);
    }
    for x in x {
        y[at] = x.clone();
        at = at.wrapping_add_signed(step);
    }
}

/// The last axis, and the axis that is contiguous in `x`, which are exchanged.
struct Plane {
    /// The axis that has stride one in `x`.
    across: usize,
    /// The size of that axis: the number of rows of the result.
    rows: usize,
    /// The stride of that axis in the result.
    stride_y: usize,
    /// The size of the last axis.
    columns: usize,
    /// The stride of the last axis in `x`.
    stride_x: usize,
}

/// The side of the tiles of a plane, one cache line of `f32` (64 bytes), so that each cache line is
/// used completely.
const SIDE: usize = 16;

/// The side of the tiles that fit in registers.
const CORE: usize = 4;

impl Plane {
    /// Returns the plane, if it is worth tiling.
    fn of(sizes: &[usize], strides: &[isize], row: &Row<1>) -> Option<Self> {
        let last = sizes.len().checked_sub(1)?;
        let across = (0..row.rank).rev().find(|&axis| strides[axis] == 1 && sizes[axis] != 1)?;
        let plane = Plane {
            across,
            rows: sizes[across],
            stride_y: sizes[across + 1..].iter().product(),
            columns: sizes[last],
            stride_x: usize::try_from(strides[last]).ok()?,
        };
        (plane.rows >= SIDE).then_some(plane)
    }

    /// Copies the plane at every index of the other axes.
    fn copy_each<T: Elem>(&self, x: &[T], y: &mut [T], geometry: Strided<'_>) {
        let Strided { sizes, strides, start } = geometry;
        let (before, after) = (&sizes[..self.across], &sizes[self.across + 1..sizes.len() - 1]);
        let mut blocks = y.chunks_exact_mut(self.rows * self.stride_y);
        walk(before, [strides], [start], &mut |[at]| {
            let block = blocks.next().unwrap_or_default();
            let mut at_y = 0;
            walk(after, [&strides[self.across + 1..]], [at], &mut |[at_x]| {
                self.copy(&x[at_x..], &mut block[at_y..]);
                at_y += self.columns;
            });
        });
    }

    fn copy<T: Elem>(&self, x: &[T], y: &mut [T]) {
        if let (Some(x), Some(y), true) = (T::as_f32(x), T::as_f32_mut(y), HAS_VECTORS) {
            return self.copy_f32(x, y);
        }
        for i in (0..self.rows).step_by(SIDE) {
            for j in (0..self.columns).step_by(SIDE) {
                let (x, y) = (&x[j * self.stride_x + i..], &mut y[i * self.stride_y + j..]);
                let (rows, columns) = (self.rows - i, self.columns - j);
                if rows >= SIDE && columns >= SIDE {
                    self.copy_square(x, y);
                } else {
                    self.copy_part(x, y, rows.min(SIDE), columns.min(SIDE));
                }
            }
        }
    }

    fn copy_square<T: Elem>(&self, x: &[T], y: &mut [T]) {
        for j in (0..SIDE).step_by(CORE) {
            for i in (0..SIDE).step_by(CORE) {
                self.copy_core(&x[j * self.stride_x + i..], &mut y[i * self.stride_y + j..]);
            }
        }
    }

    #[inline(always)]
    fn copy_core<T: Elem>(&self, x: &[T], y: &mut [T]) {
        let lines: [[T; CORE]; CORE] = from_fn(|j| {
            let line = &x[j * self.stride_x..];
            line.first_chunk::<CORE>().expect("a square lies inside its plane").clone()
        });
        for i in 0..CORE {
            let row: [T; CORE] = from_fn(|j| lines[j][i].clone());
            let y = &mut y[i * self.stride_y..];
            *y.first_chunk_mut().expect("a square lies inside its plane") = row;
        }
    }

    #[inline(never)]
    fn copy_f32(&self, x: &[f32], y: &mut [f32]) {
        dispatch(CopyPlane { plane: self, x, y });
    }

    fn copy_part<T: Elem>(&self, x: &[T], y: &mut [T], rows: usize, columns: usize) {
        for j in 0..columns {
            let column = y[j..].iter_mut().step_by(self.stride_y);
            for (y, x) in column.zip(&x[j * self.stride_x..][..rows]) {
                *y = x.clone();
            }
        }
    }
}

/// Copies a plane of `f32`: squares are transposed in registers.
struct CopyPlane<'a> {
    plane: &'a Plane,
    x: &'a [f32],
    y: &'a mut [f32],
}

impl WithSimd for CopyPlane<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let CopyPlane { plane, x, y } = self;
        let &Plane { rows, columns, stride_x, stride_y, .. } = plane;
        if columns < CORE {
            return plane.copy_part(x, y, rows, columns);
        }
        // The last tiles overlap those before them: a plane has at least `SIDE` rows.
        for i in (0..rows).step_by(S::LANES).map(|i| i.min(rows - S::LANES)) {
            if columns < S::LANES {
                for j in (0..columns).step_by(CORE).map(|j| j.min(columns - CORE)) {
                    // Not `from_fn`, whose closure is not always inlined.
                    let mut lines = [s.splat(0.0); CORE];
                    for (k, line) in lines.iter_mut().enumerate() {
                        *line = s.load(&x[(j + k) * stride_x + i..]);
                    }
                    s.store_columns(lines, &mut y[i * stride_y + j..], stride_y);
                }
                continue;
            }
            for j in (0..columns).step_by(S::LANES).map(|j| j.min(columns - S::LANES)) {
                let (x, y) = (&x[j * stride_x + i..], &mut y[i * stride_y + j..]);
                square::transpose(s, x, stride_x, y, stride_y);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::array::from_fn;

    fn each(sizes: [usize; 3], mut visit: impl FnMut(usize, [usize; 3])) {
        let [_, m, n] = sizes;
        for at in 0..sizes.iter().product() {
            visit(at, [at / (m * n), at / n % m, at % n]);
        }
    }

    fn at(index: [usize; 3], strides: [isize; 3], start: usize) -> usize {
        let offset: isize = index.iter().zip(strides).map(|(&i, s)| i.cast_signed() * s).sum();
        start.wrapping_add_signed(offset)
    }

    #[test]
    fn every_small_view_is_read_and_written() {
        let x: [u16; 125] = from_fn(|i| i as u16);
        let steps = [-25isize, -5, -2, -1, 0, 1, 2, 5, 25];
        for code in 0..64 * 729 {
            let sizes: [usize; 3] = from_fn(|axis| code >> (2 * axis) & 3);
            let strides = from_fn(|axis| steps[code / 64 / 9usize.pow(axis as u32) % 9]);
            // The offset that the reversed axes reach.
            let start = (0..3)
                .map(|axis| sizes[axis].saturating_sub(1) * (-strides[axis]).max(0).unsigned_abs())
                .sum();
            let geometry = Strided { sizes: &sizes, strides: &strides, start };
            let count = sizes.iter().product();
            let farthest = (0..3)
                .map(|axis| sizes[axis].saturating_sub(1) * strides[axis].max(0).unsigned_abs())
                .sum::<usize>();
            if start + farthest >= x.len() {
                continue;
            }
            let mut y = [999; 27];
            copy_from(&x, &mut y[..count], geometry);
            each(sizes, |i, index| assert_eq!(y[i], x[at(index, strides, start)]));
            let (mut z, mut expected) = ([999; 125], [999; 125]);
            copy_to(&x[..count], &mut z, geometry);
            each(sizes, |i, index| expected[at(index, strides, start)] = x[i]);
            assert_eq!(z, expected);
        }
    }

    /// Transposes planes of each size, where each number is its place.
    fn transpose_planes<T: Elem + Copy>(of_place: fn(u16) -> T) {
        let x: [T; 4 * 35 * 35] = from_fn(|i| of_place(i as u16));
        for (rows, columns) in (7..36).flat_map(|rows| (1..36).map(move |columns| (rows, columns)))
        {
            let mut y = [T::default(); 4 * 35 * 35];
            let y = &mut y[..2 * rows * 2 * columns];
            let plane = (rows * columns).cast_signed();
            let strides = [2 * plane, 1, plane, rows.cast_signed()];
            copy_from(
                &x,
                y,
                Strided { sizes: &[2, rows, 2, columns], strides: &strides, start: 0 },
            );
            for (at_y, &y) in y.iter().enumerate() {
                let (j, k) = (at_y % columns, at_y / columns % 2);
                let (i, n) = (at_y / columns / 2 % rows, at_y / columns / 2 / rows);
                assert!(y == x[((n * 2 + k) * columns + j) * rows + i]);
            }
        }
    }

    #[test]
    fn planes_of_every_size_around_a_square_are_transposed() {
        transpose_planes(|place| place);
        transpose_planes(f32::from);
    }

    #[cfg(feature = "std")]
    #[test]
    fn every_level_transposes_planes() {
        crate::simd::each_level(|_| transpose_planes(f32::from));
    }

    #[test]
    fn a_tensor_without_axes_has_one_element() {
        let mut y = [0];
        copy_from(&[5, 6], &mut y, Strided { sizes: &[], strides: &[], start: 1 });
        assert_eq!(y, [6]);
        copy_to(&[7], &mut y, Strided { sizes: &[], strides: &[], start: 0 });
        assert_eq!(y, [7]);
    }
}
