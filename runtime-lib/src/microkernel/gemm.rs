//! The outer loops of GEMM: blocks that fit in the caches.

#[cfg(x86_avx512)]
use super::amx::PairRows;
use super::bf16_pairs::PairRow;
use super::epilogue::{Addend, Epilogue, Target};
use super::fused_activation::FusedActivation;
use super::gemm_elem::GemmElem;
use super::gemm_tile::{Distance, GemmBlock, PackedRows, RowsInPlace, Starts, TILE_ROWS};
use super::gemv::{Gemv, GemvOperands, Stored};
use super::pack::{Operand, Wide, pack_left, pack_right};
use super::panels::{Matrix, PACKED_ROWS, PANEL_ROWS, Part, panel_cols};
use super::thin::{self, Thin};
use super::tiny::{self, Tiny};
use crate::simd::MAX_LANES;
use crate::simd::bf16_pair::PAIR;
use crate::threads::{self, Scratch};

/// The largest number of rows of a block: with `MAX_K` columns, half of an L2 cache.
const MAX_M: usize = 12 * PANEL_ROWS;
/// The largest number of columns of a block whose right operand is packed for it.
const MAX_N: usize = 512;
/// The largest number of elements of a right operand that are packed for a block: most of an L2
/// cache.
const MAX_PACKED: usize = MAX_N * MAX_K_OF_MATRIX;
/// The largest number of columns of a block with few rows, which reads its left operand from the
/// cache for every panel: the packed columns must stay in the cache as well.
const MAX_N_OF_FEW_ROWS: usize = 128;
/// The largest number of rows of such a block.
const MAX_M_OF_FEW_ROWS: usize = 4 * PANEL_ROWS;
/// The largest number of columns of a block whose right operand is read in place.
const MAX_N_IN_PLACE: usize = 4096;
/// The largest depth of a block. A larger depth loads and stores the result less often.
const MAX_K: usize = 1024;
/// The largest depth of a block whose right operand is not packed in advance: its packed form must
/// fit the L2 cache, and its unpacked rows are each in a page of their own.
const MAX_K_OF_MATRIX: usize = 384;
/// Up to this number of rows, packing the right operand does not pay.
const FEW_ROWS: usize = 24;
/// Rows whose stride is a multiple of this number of bytes compete for the same cache lines.
const ALIASING: usize = 2048;
/// The same for the rows of a left operand, of which a tile reads twelve.
const ALIASING_LEFT: usize = 4096;
/// The alignment of scratch memory, in elements.
const ALIGN: usize = MAX_LANES;

/// The GEMM `y = f(alpha · a · b + addends)`.
#[derive(Clone, Copy)]
pub(crate) struct Product<'a, T> {
    /// The rows of the result.
    pub m: usize,
    /// The columns of the result.
    pub n: usize,
    /// The depth: the columns of `a` and the rows of `b`.
    pub k: usize,
    /// The left operand.
    pub a: Operand<'a, T>,
    /// The right operand.
    pub b: Operand<'a, T>,
    /// The scale of the product.
    pub alpha: T,
    /// The matrices to add.
    pub addends: [Addend<'a, T>; 2],
    /// The activation.
    pub f: FusedActivation<T>,
}

/// Returns the number of rows of a packed right operand of `k` rows that a block multiplies: a
/// multiple of a pair.
pub(crate) fn block_depth(k: usize) -> usize {
    part(k, MAX_K, PAIR)
}

/// Returns the most scratch memory that a product needs, in elements: for a left operand that is
/// not packed if `left`, and for a right one if `right`.
pub(crate) const fn scratch(m: usize, n: usize, k: usize, left: bool, right: bool) -> usize {
    blocks_scratch(m, n, at_most(k, if right { MAX_K_OF_MATRIX } else { MAX_K }), left, right)
}

/// Returns [`scratch`] for a left operand that is not packed and a right one of reduced weight
/// precision.
pub(crate) const fn wide_scratch(m: usize, n: usize, k: usize) -> usize {
    blocks_scratch(m, n, at_most(k, MAX_K), true, true)
}

const fn blocks_scratch(m: usize, n: usize, depth: usize, left: bool, right: bool) -> usize {
    let left = if left { at_most(m.next_multiple_of(PANEL_ROWS), MAX_M) * depth } else { 0 };
    let right = if right {
        at_most(n.next_multiple_of(MAX_LANES).saturating_mul(depth), MAX_PACKED)
    } else {
        0
    };
    left + right + if left + right > 0 { 2 * ALIGN } else { 0 }
}

const fn at_most(x: usize, most: usize) -> usize {
    if x < most { x } else { most }
}

/// Returns the length of the parts of `x`, cut into equal parts of at most `most`.
fn part(x: usize, most: usize, multiple: usize) -> usize {
    x.div_ceil(x.div_ceil(most).max(1)).next_multiple_of(multiple)
}

/// Returns the first `n` elements from an aligned address on, and the rest.
fn split_aligned<T>(scratch: &mut [T], n: usize) -> (&mut [T], &mut [T]) {
    let skip = scratch.as_ptr().align_offset(ALIGN * size_of::<T>());
    let skip = if n == 0 || skip > ALIGN { 0 } else { skip };
    scratch[skip..].split_at_mut(n)
}

/// Panels of the right operand, as a [`GemmBlock`] reads them.
#[derive(Clone, Copy)]
struct Panels<'a, T> {
    data: &'a [T],
    panel: usize,
    rows: Rows<'a, T>,
}

/// The layout of the rows of panels.
#[derive(Clone, Copy)]
enum Rows<'a, T> {
    Apart(usize),
    At(&'a [T]),
    Pairs(fn(GemmBlock<'_, T, ()>)),
}

/// The left operand of a block.
struct LeftPanels<'a, T> {
    data: &'a [T],
    panel: usize,
    /// The stride of the rows, if they are not packed.
    in_place: Option<usize>,
}

/// Packed rows of the left operand.
struct Left<'s, T> {
    panels: &'s mut [T],
    /// The first row and column of the block that the panels hold.
    of: Option<(usize, usize)>,
}

impl<T: GemmElem> Product<'_, T> {
    /// Computes the product. If the result is a single column, it has no rows or columns to skip.
    pub fn run(self, y: &mut [T], to: Target, scratch: &mut [T]) {
        if let Some(row) = self.as_row(to) {
            let n = self.m * self.n;
            T::multiply_row(Gemv { row, n, y: &mut *y, to });
            return self.finish(y, to, (1, (0, n)));
        }
        if self.run_pair_row(y, to) {
            return self.finish(y, to, (1, (0, self.n)));
        }
        if self.run_tiny(y, to) {
            return self.finish(y, to, (self.m, (0, self.n)));
        }
        self.run_matrix(y, to, scratch);
    }

    /// Computes a product of small matrices; returns `false` if they are not small.
    fn run_tiny(&self, y: &mut [T], to: Target) -> bool {
        let (Operand::Matrix(a), Operand::Matrix(b)) = (self.a, self.b) else { return false };
        let Product { m, n, k, .. } = *self;
        let is_tiny = m * n > 0 && tiny::fits::<T>(n, k) && to.pitch == usize::MAX;
        if is_tiny {
            let epilogue = self.epilogue(0, (0, k));
            T::multiply_tiny(&mut Tiny { m, n, k, a, b, y, y_row_stride: to.row, epilogue });
        }
        is_tiny
    }

    /// Computes a product with few columns; returns `false` for other products. The choice does not
    /// depend on the number of rows, some of which a thread computes.
    fn run_thin(&self, y: &mut [T], to: Target, scratch: &mut [T]) -> bool {
        let Product { m, n, .. } = *self;
        let Operand::Matrix(a) = self.a else { return false };
        let (data, row) = match self.b {
            Operand::Matrix(Matrix { row: 1, .. }) => (&[][..], 1),
            Operand::Matrix(b) if b.col == 1 => (b.data, b.row),
            // In a single panel, whose blocks follow each other.
            Operand::Panels(data) | Operand::Blocks(data) if n <= panel_cols::<T>() => {
                (data, panel_cols::<T>())
            }
            _ => return false,
        };
        let is_thin = a.col == 1 && thin::fits(n, self.k) && to.pitch == usize::MAX;
        if !is_thin {
            return false;
        }
        let depth = self.depth();
        for k in (0..self.k).step_by(depth) {
            let ks = (k, depth.min(self.k - k));
            let b = match self.b {
                Operand::Matrix(b) if b.row == 1 => Matrix { data: &b.data[k..], ..b },
                _ => {
                    let (columns, _) = split_aligned(scratch, n * ks.1);
                    thin::transpose(&data[k * row..], row, n, columns);
                    Matrix { data: columns, row: 1, col: ks.1 }
                }
            };
            let a = Matrix { data: &a.data[k..], ..a };
            let epilogue = self.epilogue(0, ks);
            let y = &mut *y;
            T::multiply_thin(&mut Thin { m, n, k: ks.1, a, b, y, y_row_stride: to.row, epilogue });
        }
        true
    }

    /// Computes the product, on several threads where that pays: each computes some of the rows.
    /// One row is computed like several.
    pub fn run_matrix(self, y: &mut [T], to: Target, scratch: &mut [T]) {
        // Without elements there is no scratch memory, which the blocks would align.
        if self.m == 0 || self.n == 0 {
            return;
        }
        if to.row == 0 || to.row < to.place(self.n) {
            return self.run_blocks(y, to, scratch);
        }
        let scratch = Scratch::new(scratch);
        let len = (self.m * to.row).min(y.len());
        let cost = self.m * self.n * self.k / threads::MACS_PER_ELEMENT;
        let rows = self.unit();
        threads::share(&mut y[..len], rows * to.row, cost, |first, y| {
            let part = self.part(first * rows, y.len().div_ceil(to.row));
            scratch.with(|scratch| part.run_blocks(y, to, scratch));
        });
    }

    /// Returns the number that the rows of a thread's part are a multiple of: the rows of a panel,
    /// or the rows packed at once if the part packs its own panels.
    fn unit(&self) -> usize {
        match self.a {
            Operand::Matrix(_) => PACKED_ROWS,
            _ => PANEL_ROWS,
        }
    }

    /// Returns `rows` rows of the product from `first` on, which is a multiple of [`Self::unit`].
    fn part(self, first: usize, rows: usize) -> Self {
        let a = match self.a {
            Operand::Matrix(a) => {
                let data = a.data.get(first * a.row..).unwrap_or(&[]);
                Operand::Matrix(Matrix { data, ..a })
            }
            Operand::Panels(data) => Operand::Panels(&data[first * self.k..]),
            other => other,
        };
        let addends = self.addends.map(|x| x.from(first, 0));
        Product { m: rows, a, addends, ..self }
    }

    /// Returns the depth of a block.
    fn depth(&self) -> usize {
        let depth = match self.b {
            Operand::Matrix(_) | Operand::Rows { .. } => part(self.k, MAX_K_OF_MATRIX, PAIR),
            _ => block_depth(self.k),
        };
        depth.min(self.k)
    }

    /// Computes the product on this thread, block by block.
    fn run_blocks(self, y: &mut [T], to: Target, scratch: &mut [T]) {
        #[cfg(x86_avx512)]
        if self.run_pair_rows(y, to) {
            return self.finish(y, to, (self.m, (0, self.n)));
        }
        if self.run_thin(y, to, scratch) {
            return self.finish(y, to, (self.m, (0, self.n)));
        }
        let cols = panel_cols::<T>();
        let depth = self.depth();
        let in_place = self.in_place().is_some();
        let packs = matches!(self.b, Operand::Matrix(_) | Operand::Wide(_)) && !in_place;
        let most = match (packs, self.m) {
            (true, ..=MAX_M_OF_FEW_ROWS) => MAX_N_OF_FEW_ROWS,
            (true, _) => MAX_N.min(MAX_PACKED / depth.max(1) / cols * cols),
            (false, _) => MAX_N_IN_PLACE,
        };
        let width = part(self.n, most, cols);
        let (panels, rest) = split_aligned(scratch, self.left_len(depth));
        let mut left = Left { panels, of: None };
        let mut n = 0;
        while n < self.n {
            // Whole panels are read in place; the columns of an incomplete one are packed.
            let more = self.n - n;
            let whole = if in_place && more > cols { more - more % cols } else { more };
            let ns = (n, whole.min(width));
            let mut k = 0;
            loop {
                let ks = (k, depth.min(self.k - k));
                let right = self.right(ns, ks, rest);
                self.rows(right, ns, ks, &mut left, (&mut *y, to));
                k += depth;
                if k >= self.k {
                    break;
                }
            }
            n += ns.1;
        }
    }

    /// Returns the GEMV of a product with a single row or column; `None` if its vector or matrix is
    /// not contiguous as GEMV needs it.
    fn as_row(&self, to: Target) -> Option<GemvOperands<'_, T>> {
        let Operand::Matrix(a) = self.a else { return None };
        let epilogue = self.epilogue(0, (0, self.k));
        if self.m == 1 && a.col == 1 {
            let b = match self.b {
                Operand::Matrix(b) => Stored::of(b)?,
                Operand::Panels(data) => Stored::panels(data, self.k, self.n),
                Operand::Blocks(data) => Stored::panels(data, block_depth(self.k), self.n),
                Operand::Rows { data, starts } => Stored::Scattered(data, starts),
                Operand::Wide(_) | Operand::Pairs(_) => return None,
            };
            return Some(GemvOperands { x: &a.data[..self.k], b, epilogue });
        }
        // A column is the row of the transposed product.
        let Operand::Matrix(x) = self.b else { return None };
        if self.n != 1 || x.row != 1 || to.row != 1 {
            return None;
        }
        let b = Stored::of(Matrix { row: a.col, col: a.row, ..a })?;
        let addends = epilogue.addends.map(|x| Addend { row: x.col, col: x.row, ..x });
        let row =
            GemvOperands { x: &x.data[..self.k], b, epilogue: Epilogue { addends, ..epilogue } };
        addends.iter().all(|x| x.col <= 1).then_some(row)
    }

    /// Computes a GEMV with pairs; returns `false` for other products.
    fn run_pair_row(&self, y: &mut [T], to: Target) -> bool {
        let (Operand::Matrix(a), Operand::Pairs(b)) = (self.a, self.b) else { return false };
        let is_row = self.m == 1 && a.col == 1 && to.pitch == usize::MAX;
        if is_row {
            let (x, depth) = (&a.data[..self.k], block_depth(self.k));
            let row = PairRow { x, b: b.data, depth, epilogue: self.epilogue(0, (0, self.k)) };
            (b.multiply_row)(row, &mut y[..self.n]);
        }
        is_row
    }

    /// Multiplies unpacked rows with pairs by AMX tiles; returns `false` if that is not possible or
    /// does not pay.
    #[cfg(x86_avx512)]
    fn run_pair_rows(&self, y: &mut [T], to: Target) -> bool {
        let (Operand::Matrix(a), Operand::Pairs(b)) = (self.a, self.b) else { return false };
        let across = self.n.next_multiple_of(panel_cols::<T>()) / PAIR;
        let depth = self.depth();
        self.k > 0
            && (0..self.k).step_by(depth.max(1)).all(|first| {
                let k = depth.min(self.k - first);
                let part = PairRows {
                    a: Matrix { data: a.data.get(first * a.col..).unwrap_or(&[]), ..a },
                    m: self.m,
                    n: self.n,
                    k,
                    b: &b.data[first * across..][..k * across],
                    to,
                    epilogue: self.epilogue(0, (first, k)),
                };
                (b.multiply_rows)(&part, y)
            })
    }

    /// Returns the right operand, if its rows are contiguous and it is better read in place.
    fn in_place(&self) -> Option<Matrix<'_, T>> {
        let Operand::Matrix(b) = self.b else { return None };
        let apart = !(b.row * size_of::<T>()).is_multiple_of(ALIASING);
        (b.col == 1 && (self.m <= FEW_ROWS || apart)).then_some(b)
    }

    /// Applies the rest of the activation to these rows and columns.
    fn finish(&self, y: &mut [T], to: Target, (rows, (n, cols)): (usize, Part)) {
        if self.f.is_clamp() {
            return;
        }
        let (first, last) = (to.place(n), to.place(n + cols));
        // A column computed as a row is longer than the row stride.
        let row = to.row.max(last - first);
        self.f.finish(&mut y[first..], rows, last - first, row);
    }

    /// Returns whether the right operand is in pairs.
    fn is_paired(&self) -> bool {
        matches!(self.b, Operand::Pairs(_))
    }

    /// Returns the number of elements of the packed rows of a block.
    fn left_len(&self, depth: usize) -> usize {
        match self.a {
            Operand::Matrix(_) => part(self.m, MAX_M, PANEL_ROWS) * depth,
            _ => 0,
        }
    }

    /// Returns the panels of the right operand for these columns and rows, packing them if needed.
    fn right<'s>(&'s self, ns: Part, ks: Part, scratch: &'s mut [T]) -> Panels<'s, T> {
        let ((n, width), (k, depth)) = (ns, ks);
        let cols = panel_cols::<T>();
        match self.b {
            Operand::Panels(data) => Panels {
                data: &data[n * self.k + k * cols..],
                panel: self.k * cols,
                rows: Rows::Apart(cols),
            },
            Operand::Blocks(data) => Panels {
                data: &data[k * self.n.next_multiple_of(cols) + n * depth..],
                panel: depth * cols,
                rows: Rows::Apart(cols),
            },
            Operand::Wide(Wide(b)) => {
                let panel = cols * depth;
                let (data, _) = split_aligned(scratch, width.div_ceil(cols) * panel);
                T::widen_part(b, k * self.n.next_multiple_of(cols) + n * depth, data);
                Panels { data, panel, rows: Rows::Apart(cols) }
            }
            Operand::Pairs(b) => Panels {
                data: &b.data[(k * self.n.next_multiple_of(cols) + n * depth) / PAIR..],
                panel: cols * depth / PAIR,
                rows: Rows::Pairs(b.multiply),
            },
            Operand::Rows { data, starts } => {
                Panels { data: &data[n..], panel: cols, rows: Rows::At(&starts[k..k + depth]) }
            }
            Operand::Matrix(b) if self.in_place().is_some() && width.is_multiple_of(cols) => {
                let data = b.data.get(k * b.row + n..).unwrap_or(&[]);
                Panels { data, panel: cols, rows: Rows::Apart(b.row) }
            }
            Operand::Matrix(b) => {
                let panel = cols * depth;
                let (data, _) = split_aligned(scratch, width.div_ceil(cols) * panel);
                pack_right(b, ks, ns, data, T::pack_columns);
                Panels { data, panel, rows: Rows::Apart(cols) }
            }
        }
    }

    /// Computes the blocks of all rows, for these columns and this part of the depth.
    fn rows(
        &self,
        right: Panels<'_, T>,
        ns: Part,
        ks: Part,
        left: &mut Left<'_, T>,
        (y, to): (&mut [T], Target),
    ) {
        let height = part(self.m, MAX_M, PANEL_ROWS);
        // The rows of whole tiles are read in place; the others are packed.
        let whole = self.left_in_place().map_or(0, |_| self.m - self.m % TILE_ROWS);
        let mut m = 0;
        while m < self.m {
            let rows = height.min(if m < whole { whole } else { self.m } - m);
            let y = &mut y[m * to.row..];
            let a = self.left((m, rows), ks, left);
            let block = GemmBlock {
                m: rows,
                n: ns.1,
                k: if self.is_paired() { ks.1 / PAIR } else { ks.1 },
                a: a.data,
                a_panel_stride: a.panel,
                a_rows: PackedRows,
                b: right.data,
                b_panel_stride: right.panel,
                b_rows: (),
                y: &mut *y,
                to,
                first: ns.0,
                epilogue: self.epilogue(m, ks),
            };
            match (right.rows, a.in_place) {
                (Rows::Apart(distance), None) => T::multiply(block.with_rows(Distance(distance))),
                (Rows::Apart(distance), Some(row)) => {
                    T::multiply_in_place(block.with(Distance(distance), RowsInPlace(row)));
                }
                (Rows::At(starts), _) => T::multiply_rows(block.with_rows(Starts(starts))),
                (Rows::Pairs(multiply), _) => multiply(block),
            }
            if ks.0 + ks.1 == self.k {
                self.finish(y, to, (rows, ns));
            }
            m += rows;
        }
    }

    /// Returns the left operand, if its rows are contiguous and it is better read in place.
    fn left_in_place(&self) -> Option<Matrix<'_, T>> {
        let Operand::Matrix(a) = self.a else { return None };
        let apart = !(a.row * size_of::<T>()).is_multiple_of(ALIASING_LEFT);
        let rows = matches!(self.b, Operand::Pairs(_) | Operand::Rows { .. });
        (a.col == 1 && apart && !rows).then_some(a)
    }

    /// Returns the left operand for these rows and columns.
    fn left<'s>(&'s self, ms: Part, ks: Part, left: &'s mut Left<'_, T>) -> LeftPanels<'s, T> {
        let ((m, rows), (k, depth)) = (ms, ks);
        if let (Some(a), true) = (self.left_in_place(), rows.is_multiple_of(TILE_ROWS)) {
            let data = a.data.get(m * a.row + k..).unwrap_or(&[]);
            return LeftPanels { data, panel: PANEL_ROWS * a.row, in_place: Some(a.row) };
        }
        let (data, panel): (&[T], usize) = match self.a {
            Operand::Matrix(a) => {
                let width = if self.is_paired() { depth / PAIR } else { depth };
                let panels = &mut left.panels[..rows.next_multiple_of(PANEL_ROWS) * width];
                // If all rows are one block, they stay packed for the next columns.
                if left.of.replace((m, k)) != Some((m, k)) {
                    match self.b {
                        Operand::Pairs(b) => (b.pack)(a, ms, ks, panels),
                        _ => pack_left(a, ms, ks, panels, T::pack_rows),
                    }
                }
                (&*panels, PANEL_ROWS * width)
            }
            Operand::Panels(data) | Operand::Blocks(data) | Operand::Rows { data, .. } => {
                (&data[m * self.k + k * PANEL_ROWS..], PANEL_ROWS * self.k)
            }
            Operand::Wide(_) | Operand::Pairs(_) => (&[], 0),
        };
        LeftPanels { data, panel, in_place: None }
    }

    /// Returns the epilogue of the block from row `m` on for this part of the depth.
    fn epilogue(&self, m: usize, (k, depth): Part) -> Epilogue<'_, T> {
        let last = k + depth == self.k;
        Epilogue {
            alpha: self.alpha,
            accumulate: k > 0,
            addends: self.addends.map(|x| if k > 0 { Addend::NONE } else { x.from(m, 0) }),
            clamp: self.f.clamp().filter(|_| last),
        }
    }
}
