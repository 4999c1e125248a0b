//! GEMM whose right operand is stored in pairs of `bfloat16` numbers: the elements of a column in
//! two neighboring rows. Panels and blocks of rows are those of
//! [`pack_b`](crate::kernels::matmul::pack_b).
//!
//! If the processor has BF16 instructions, the left operand is rounded to `bfloat16` as it is
//! packed. A single row is not: a GEMV is bound by memory bandwidth, so each pair is split to two
//! `f32` as it is loaded.

#[cfg(x86_avx512)]
use super::amx::{PairRows, multiply_rows};
use super::epilogue::{Epilogue, finish};
use super::gemm_tile::{GemmBlock, PairDistance};
use super::panels::{Matrix, PACKED_ROWS, PANEL_ROWS, Part, panel_cols};
use crate::simd::bf16_pair::PAIR;
use crate::simd::{self, MAX_LANES, Simd, WithSimd, dispatch, dispatch_pairs};
use crate::threads;

/// The columns of a panel.
const COLS: usize = panel_cols::<f32>();

/// A right operand in pairs, with an even number of rows, and the functions that multiply it.
#[derive(Clone, Copy)]
pub(crate) struct Pairs<'a, T> {
    /// The panels.
    pub data: &'a [T],
    /// Packs rows and columns of a left operand as panels of pairs.
    pub pack: fn(Matrix<'_, T>, Part, Part, &mut [T]),
    /// Multiplies a block of these panels.
    pub multiply: fn(GemmBlock<'_, T, ()>),
    /// Multiplies unpacked rows with AMX tiles, if the processor has them and they pay; returns
    /// whether it did.
    #[cfg(x86_avx512)]
    pub multiply_rows: fn(&PairRows<'_, T>, &mut [T]) -> bool,
    /// Multiplies a single row.
    pub multiply_row: fn(PairRow<'_, T>, &mut [T]),
}

impl<'a> Pairs<'a, f32> {
    /// Wraps the bits of an operand's pairs.
    pub fn of(bits: &'a [u32]) -> Pairs<'a, f32> {
        let data = simd::bf16_pair::words(bits);
        Pairs {
            data,
            pack: pack_left,
            multiply,
            #[cfg(x86_avx512)]
            multiply_rows,
            multiply_row,
        }
    }
}

#[inline(never)]
fn multiply(block: GemmBlock<'_, f32, ()>) {
    dispatch_pairs(block.with_rows(PairDistance(COLS)));
}

/// Packs rows and columns of a left operand as panels of rows of pairs; the last panel is filled
/// with zeros.
fn pack_left(a: Matrix<'_, f32>, (i, rows): Part, (k, depth): Part, panels: &mut [f32]) {
    let panels = panels.chunks_exact_mut((PANEL_ROWS * depth / PAIR).max(1));
    for (panel, first) in panels.zip((0..rows).step_by(PANEL_ROWS)) {
        let rows = PANEL_ROWS.min(rows - first);
        let from = &a.data[(i + first) * a.row + k * a.col..];
        let packed = if a.col == 1 { rows - rows % PACKED_ROWS } else { 0 };
        let (apart, count) = (a.row, packed);
        dispatch_pairs(PackRows { rows: from, apart, count, depth, panel: &mut *panel });
        if packed == PANEL_ROWS {
            continue;
        }
        for (k, to) in panel.chunks_exact_mut(PANEL_ROWS).enumerate() {
            for (r, to) in to.iter_mut().enumerate().skip(packed) {
                let at = |k: usize| if r < rows { from[r * a.row + k * a.col] } else { 0.0 };
                *to = simd::bf16_pair::of([at(PAIR * k), at(PAIR * k + 1)]);
            }
        }
    }
}

/// Packs some contiguous rows of a panel, a multiple of [`PACKED_ROWS`].
struct PackRows<'a> {
    rows: &'a [f32],
    apart: usize,
    count: usize,
    depth: usize,
    panel: &'a mut [f32],
}

impl WithSimd for PackRows<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let PackRows { rows, apart, count, depth, panel } = self;
        let step = PAIR * S::LANES;
        let whole = depth - depth % step;
        for first in (0..count).step_by(PACKED_ROWS) {
            for k in (0..whole).step_by(step) {
                let mut four = [s.splat(0.0); PACKED_ROWS];
                for (i, pairs) in four.iter_mut().enumerate() {
                    let row = &rows[(first + i) * apart + k..][..step];
                    *pairs = s.pairs([s.load(row), s.load(&row[S::LANES..])]);
                }
                s.store_columns(four, &mut panel[k / PAIR * PANEL_ROWS + first..], PANEL_ROWS);
            }
        }
        for (k, to) in panel.chunks_exact_mut(PANEL_ROWS).enumerate().skip(whole / PAIR) {
            for (r, to) in to.iter_mut().enumerate().take(count) {
                let at = r * apart + PAIR * k;
                *to = simd::bf16_pair::of([rows[at], rows[at + 1]]);
            }
        }
    }
}

/// The operands of a GEMV with pairs.
#[derive(Clone, Copy)]
pub(crate) struct PairRow<'a, T> {
    /// The row.
    pub x: &'a [T],
    /// The panels.
    pub b: &'a [T],
    /// The number of rows of a panel; the last panel may have fewer.
    pub depth: usize,
    /// The epilogue.
    pub epilogue: Epilogue<'a, T>,
}

/// Multiplies a row, on several threads where that pays.
#[inline(never)]
fn multiply_row(row: PairRow<'_, f32>, y: &mut [f32]) {
    let across = y.len().div_ceil(COLS);
    // Reading a weight costs half as much as reading an `f32`.
    let cost = y.len() * row.x.len() / 4;
    threads::share(y, COLS, cost, |first, y| dispatch(PairSums { row, first, across, y }));
}

/// The multiplication of a row by some of the columns.
struct PairSums<'a> {
    row: PairRow<'a, f32>,
    /// The first panel.
    first: usize,
    /// The number of panels of the same rows.
    across: usize,
    y: &'a mut [f32],
}

impl WithSimd for PairSums<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        match S::LANES {
            16 => self.groups::<S, 1, 4>(s),
            8 => self.groups::<S, 2, 2>(s),
            _ => self.groups::<S, 4, 1>(s),
        }
    }
}

impl PairSums<'_> {
    /// Multiplies by all panels, `P` at a time. A row of a panel is `V` vectors.
    #[inline(always)]
    fn groups<S: Simd, const V: usize, const P: usize>(self, s: S) {
        let PairSums { row, first, across, y } = self;
        let panels = y.len().div_ceil(COLS);
        let mut panel = 0;
        while panel < panels {
            let count = if panels - panel >= P { P } else { 1 };
            let mut sums = [[0.0; MAX_LANES]; P];
            let mut data = row.b;
            for x in row.x.chunks(row.depth.max(1)) {
                let len = COLS * x.len() / PAIR;
                let group = &data[(first + panel) * len..][..count * len];
                if count == P {
                    add_panels::<S, V, P>(s, x, group, &mut sums);
                } else {
                    add_panels::<S, V, 1>(s, x, group, &mut sums);
                }
                data = &data[across * len..];
            }
            for (sums, p) in sums.iter().zip(panel..panel + count) {
                let at = (first + p) * COLS;
                let y = &mut y[p * COLS..];
                let width = COLS.min(y.len());
                finish(s, &sums[..width], &mut y[..width], [0, at], &row.epilogue);
            }
            panel += count;
        }
    }
}

/// Adds `x` times `P` panels, whose rows are `V` vectors, to the accumulators in `y`.
#[inline(always)]
#[expect(clippy::needless_range_loop, reason = "sums stay in registers where constants index them")]
fn add_panels<S: Simd, const V: usize, const P: usize>(
    s: S,
    x: &[f32],
    panels: &[f32],
    y: &mut [[f32; MAX_LANES]],
) {
    let panel = x.len() / PAIR * COLS;
    assert!(panels.len() >= P * panel);
    // Even and odd rows have separate accumulators, to hide the latency of additions.
    let mut sums = [[[s.splat(0.0); PAIR]; V]; P];
    let mut at = panels.as_ptr();
    for x in x.as_chunks::<PAIR>().0 {
        let x = [s.splat(x[0]), s.splat(x[1])];
        for p in 0..P {
            for v in 0..V {
                // SAFETY: as asserted, `panels` has `P` panels, with a row for each pair of `x`.
                let pairs = s.split(unsafe { s.load_at(at.add(p * panel + v * S::LANES)) });
                s.prefetch(at.wrapping_add(p * panel), 16 * COLS);
                sums[p][v][0] = s.mul_add(x[0], pairs[0], sums[p][v][0]);
                sums[p][v][1] = s.mul_add(x[1], pairs[1], sums[p][v][1]);
            }
        }
        at = at.wrapping_add(COLS);
    }
    for p in 0..P {
        for v in 0..V {
            let y = &mut y[p][v * S::LANES..(v + 1) * S::LANES];
            let sum = s.add(sums[p][v][0], sums[p][v][1]);
            s.store(s.add(s.load(y), sum), y);
        }
    }
}
