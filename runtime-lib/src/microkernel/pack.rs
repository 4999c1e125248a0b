//! Packing: copies operands in the order in which micro-kernels read them.

use super::bf16_pairs::Pairs;
use super::panels::{Matrix, PACKED_ROWS, PANEL_ROWS, Part, panel_cols};
use crate::Number;
use crate::simd::{Simd, WithSimd};

/// An operand of a product.
#[derive(Clone, Copy)]
pub(crate) enum Operand<'a, T> {
    /// A matrix that is not packed.
    Matrix(Matrix<'a, T>),
    /// Panels: of [`PANEL_ROWS`] rows on the left, of [`panel_cols`] columns on the right.
    Panels(&'a [T]),
    /// On the right only: the panels of the rows that a block multiplies, then those of the next
    /// rows, as [`pack_blocks`] packs them.
    Blocks(&'a [T]),
    /// On the right only: packed like `Blocks`, with elements of fewer bits, which are widened.
    Wide(Wide<'a>),
    /// On the right only: packed like `Blocks`, in pairs.
    Pairs(Pairs<'a, T>),
    /// On the right only: rows at arbitrary offsets in `data`, which are the bits of the elements
    /// of `starts`. A panel can be read after the last row.
    Rows {
        /// All rows.
        data: &'a [T],
        /// The offset of each row.
        starts: &'a [T],
    },
}

/// A packed operand with elements of fewer bits.
pub(crate) trait Widen: Sync {
    /// Widens the elements from `first` on.
    fn widen(&self, first: usize, to: &mut [f32]);
}

/// A packed operand that widens to `f32`.
#[derive(Clone, Copy)]
pub(crate) struct Wide<'a>(pub &'a dyn Widen);

/// Packs rows and columns of a left operand as panels of rows; the last panel is filled with zeros.
/// Contiguous rows are packed by `pack_rows`, [`PACKED_ROWS`] at a time.
pub(crate) fn pack_left<T: Number>(
    a: Matrix<'_, T>,
    (i, rows): Part,
    (k, depth): Part,
    panels: &mut [T],
    pack_rows: impl Fn(&[T], usize, Part, &mut [T]),
) {
    if a.row == 1 {
        return pack_left_transposed(a, (i, rows), (k, depth), panels);
    }
    for (p, panel) in panels.chunks_exact_mut((PANEL_ROWS * depth).max(1)).enumerate() {
        let first = p * PANEL_ROWS;
        let there = PANEL_ROWS.min(rows - first);
        let from = &a.data[(i + first) * a.row + k * a.col..];
        for r in there..PANEL_ROWS {
            panel[r..].iter_mut().step_by(PANEL_ROWS).for_each(|to| *to = T::ZERO);
        }
        let packed = if a.col == 1 { there - there % PACKED_ROWS } else { 0 };
        pack_rows(from, a.row, (packed, depth), panel);
        // Plain indices, because unoptimized build scripts run this, too.
        for r in packed..there {
            let (mut at, mut to) = (r * a.row, r);
            while to < panel.len() {
                panel[to] = from[at];
                (at, to) = (at + a.col, to + PANEL_ROWS);
            }
        }
    }
}

/// Packs a left operand with contiguous columns: a few columns at a time for all panels, because a
/// panel reads only a part of each cache line of a column.
fn pack_left_transposed<T: Number>(
    a: Matrix<'_, T>,
    (i, rows): Part,
    (k, depth): Part,
    panels: &mut [T],
) {
    const COLUMNS: usize = 8;
    for first in (0..depth).step_by(COLUMNS) {
        let columns = COLUMNS.min(depth - first);
        for (p, panel) in panels.chunks_exact_mut(PANEL_ROWS * depth).enumerate() {
            let there = PANEL_ROWS.min(rows - p * PANEL_ROWS);
            let from = &a.data[i + p * PANEL_ROWS + (k + first) * a.col..];
            let panel = &mut panel[first * PANEL_ROWS..][..columns * PANEL_ROWS];
            for (k, to) in panel.chunks_exact_mut(PANEL_ROWS).enumerate() {
                copy_column(&from[k * a.col..], there, to);
            }
        }
    }
}

/// Copies `there` elements of a panel's column, and fills it with zeros.
#[inline(always)]
fn copy_column<T: Number>(from: &[T], there: usize, to: &mut [T]) {
    if there == PANEL_ROWS {
        return copy_whole::<PANEL_ROWS, T>(from, to);
    }
    let mut column = [T::ZERO; PANEL_ROWS];
    let whole = there - there % PACKED_ROWS;
    for r in (0..whole).step_by(PACKED_ROWS) {
        copy_whole::<PACKED_ROWS, T>(&from[r..], &mut column[r..]);
    }
    column[whole..there].copy_from_slice(&from[whole..there]);
    copy_whole::<PANEL_ROWS, T>(&column, to);
}

/// Copies `N` elements. A constant length avoids a call to `memcpy`.
#[inline(always)]
fn copy_whole<const N: usize, T: Copy>(from: &[T], to: &mut [T]) {
    if let (Some(from), Some(to)) = (from.first_chunk::<N>(), to.first_chunk_mut::<N>()) {
        *to = *from;
    }
}

/// A divisor of the columns of a panel, for every element type.
const COPIED: usize = 8;

/// [`pack_rows`] with vectors.
pub(crate) struct PackRows<'a> {
    pub rows: &'a [f32],
    pub apart: usize,
    pub count: usize,
    pub depth: usize,
    pub panel: &'a mut [f32],
}

impl WithSimd for PackRows<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let PackRows { rows, apart, count, depth, panel } = self;
        let whole = depth - depth % S::LANES;
        for first in (0..count).step_by(PACKED_ROWS) {
            for k in (0..whole).step_by(S::LANES) {
                let row = |i: usize| s.load(&rows[(first + i) * apart + k..]);
                let four = [row(0), row(1), row(2), row(3)];
                s.store_columns(four, &mut panel[k * PANEL_ROWS + first..], PANEL_ROWS);
            }
        }
        let rest = rows.get(whole..).unwrap_or(&[]);
        pack_rows(rest, apart, (count, depth - whole), &mut panel[whole * PANEL_ROWS..]);
    }
}

/// Packs contiguous rows of a panel, `count` of them (a multiple of [`PACKED_ROWS`]) with the
/// stride `apart`, as `depth` columns of [`PANEL_ROWS`] elements.
pub(crate) fn pack_rows<T: Number>(
    from: &[T],
    apart: usize,
    (count, depth): Part,
    panel: &mut [T],
) {
    let row = |r: usize| &from[r * apart..][..depth];
    for first in (0..count).step_by(PACKED_ROWS) {
        let (a, b, c, d) = (row(first), row(first + 1), row(first + 2), row(first + 3));
        // Plain indices, because unoptimized build scripts run this, too.
        let mut at = first;
        for k in 0..depth {
            let to = &mut panel[at..at + 4];
            (to[0], to[1], to[2], to[3]) = (a[k], b[k], c[k], d[k]);
            at += PANEL_ROWS;
        }
    }
}

/// Packs a right operand as panels, in blocks of `depth` rows, so that the memory of a block is
/// contiguous.
pub(crate) fn pack_blocks<T: Number>(
    b: Matrix<'_, T>,
    (rows, cols): (usize, usize),
    depth: usize,
    mut blocks: &mut [T],
) {
    let width = cols.next_multiple_of(panel_cols::<T>());
    for k in (0..rows).step_by(depth.max(1)) {
        let there = depth.min(rows - k);
        let (block, rest) = blocks.split_at_mut(there * width);
        pack_right(b, (k, there), (0, cols), block, pack_columns);
        blocks = rest;
    }
}

/// Packs rows and columns of a right operand as panels of columns; the last panel is filled with
/// zeros.
pub(crate) fn pack_right<T: Number>(
    b: Matrix<'_, T>,
    (k, depth): Part,
    (n, cols): Part,
    panels: &mut [T],
    pack_columns: impl Fn(&[T], usize, usize, &mut [T]),
) {
    let width = panel_cols::<T>();
    if depth == 0 {
        return;
    }
    panels[cols / width * width * depth..].fill(T::ZERO);
    if b.row == 1 {
        let whole = cols - cols % width;
        for (j, panel) in (0..whole).step_by(width).zip(panels.chunks_exact_mut(width * depth)) {
            pack_columns(&b.data[(n + j) * b.col + k..], b.col, depth, panel);
        }
        if whole < cols {
            pack_each(b, (k, depth), (n + whole, cols - whole), &mut panels[whole * depth..]);
        }
        return;
    }
    pack_each(b, (k, depth), (n, cols), panels);
}

/// Packs a right operand without vectors, element by element if its rows are not contiguous.
fn pack_each<T: Number>(b: Matrix<'_, T>, (k, depth): Part, (n, cols): Part, panels: &mut [T]) {
    let width = panel_cols::<T>();
    for r in 0..depth {
        let from = &b.data[(k + r) * b.row + n * b.col..];
        for j in (0..cols).step_by(width) {
            let there = width.min(cols - j);
            let to = &mut panels[j * depth + r * width..][..there];
            if b.col == 1 && there == width {
                for at in (0..width).step_by(COPIED) {
                    copy_whole::<COPIED, T>(&from[j + at..], &mut to[at..]);
                }
            } else if b.col == 1 {
                to.copy_from_slice(&from[j..j + there]);
            } else {
                let (mut at, mut i) = (j * b.col, 0);
                while i < there {
                    to[i] = from[at];
                    (at, i) = (at + b.col, i + 1);
                }
            }
        }
    }
}

/// Packs the contiguous columns of a panel, which have the stride `apart`, as rows.
pub(crate) fn pack_columns<T: Number>(from: &[T], apart: usize, depth: usize, panel: &mut [T]) {
    let width = panel_cols::<T>();
    for (c, column) in from.chunks(apart.max(1)).take(width).enumerate() {
        // Plain indices, because unoptimized build scripts run this, too.
        let (mut at, mut to) = (0, c);
        while at < depth {
            panel[to] = column[at];
            (at, to) = (at + 1, to + width);
        }
    }
}

/// [`pack_columns`] with vectors.
pub(crate) struct PackColumns<'a> {
    pub columns: &'a [f32],
    pub apart: usize,
    pub depth: usize,
    pub panel: &'a mut [f32],
}

impl WithSimd for PackColumns<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let PackColumns { columns, apart, depth, panel } = self;
        let width = panel_cols::<f32>();
        let whole = depth - depth % S::LANES;
        for first in (0..width).step_by(4) {
            let column = |i: usize| &columns[(first + i) * apart..][..depth];
            let four = [column(0), column(1), column(2), column(3)];
            for k in (0..whole).step_by(S::LANES) {
                // No closure: one that loads vectors is not always inlined.
                let [a, b, c, d] = four;
                let four = [s.load(&a[k..]), s.load(&b[k..]), s.load(&c[k..]), s.load(&d[k..])];
                s.store_columns(four, &mut panel[k * width + first..], width);
            }
            for k in whole..depth {
                for (to, column) in panel[k * width + first..].iter_mut().zip(four) {
                    *to = column[k];
                }
            }
        }
    }
}
