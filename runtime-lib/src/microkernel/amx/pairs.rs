//! GEMM with a right operand of `bfloat16` pairs.

use super::{Pairs, Right, Row, TILE_SUMS, TileEpilogue, WIDE, multiply};
use crate::microkernel::epilogue::{Epilogue, Target, store};
use crate::microkernel::panels::{Matrix, PANEL_ROWS};
use crate::simd::amx::Amx;
use crate::simd::bf16_pair::PAIR;
use crate::simd::{self, Simd, WithSimd, dispatch_pairs, tiles};

/// A part of a product.
#[derive(Clone, Copy)]
pub(crate) struct PairRows<'a, T> {
    /// The rows, of `k` elements, an even number.
    pub a: Matrix<'a, T>,
    /// The number of rows.
    pub m: usize,
    /// The columns of the right operand.
    pub n: usize,
    /// The depth.
    pub k: usize,
    /// The panels of the right operand.
    pub b: &'a [T],
    /// The layout of the result.
    pub to: Target,
    /// The epilogue.
    pub epilogue: Epilogue<'a, T>,
}

/// Computes the product if the processor has tiles and they pay; returns whether it did.
pub(in crate::microkernel) fn multiply_rows(of: &PairRows<'_, f32>, y: &mut [f32]) -> bool {
    let Some(amx) = tiles().filter(|_| right(of).pays_for_pairs()) else { return false };
    dispatch_pairs(ByTiles { amx, of, y });
    true
}

fn right<'a>(of: &PairRows<'a, f32>) -> Right<'a> {
    Right::of_pairs(of.b, of.k / PAIR, of.n.next_multiple_of(TILE_SUMS))
}

struct ByTiles<'a> {
    amx: Amx,
    of: &'a PairRows<'a, f32>,
    y: &'a mut [f32],
}

impl WithSimd for ByTiles<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        if S::LANES == TILE_SUMS {
            let ByTiles { amx, of, y } = self;
            multiply::<Pairs>(amx, right(of), of.m, &mut Rows { s, of, y });
        }
    }
}

/// The epilogue, at a level whose vectors are as wide as tiles.
struct Rows<'a, S> {
    s: S,
    of: &'a PairRows<'a, f32>,
    y: &'a mut [f32],
}

impl<S: Simd> TileEpilogue<f32> for Rows<'_, S> {
    #[inline(always)]
    fn fill(&mut self, row: usize, to: &mut Row<'_>) {
        let (s, PairRows { a, k, .. }) = (self.s, *self.of);
        let x = &a.data[row * a.row..];
        let mut at = 0;
        if a.col == 1 {
            while k - at >= PAIR * S::LANES {
                let pairs = s.pairs([s.load(&x[at..]), s.load(&x[at + S::LANES..])]);
                to.push_vector(s, pairs);
                at += PAIR * S::LANES;
            }
        }
        for k in (at..k).step_by(PAIR) {
            to.push_few(&[simd::bf16_pair::of([x[k * a.col], x[(k + 1) * a.col]])]);
        }
    }

    #[inline(always)]
    fn start(&self, _: usize, _: &mut [f32; WIDE]) {}

    #[inline(always)]
    fn take(&mut self, row: usize, column: usize, sums: &[[f32; WIDE]]) {
        let (s, PairRows { n, to, epilogue, .. }) = (self.s, *self.of);
        let y = &mut self.y[row * to.row..];
        let (tile, left) = (sums.as_flattened(), n - column);
        match to.neighbors(column, WIDE) {
            Some(at) if left >= WIDE => epilogue.finish_rows::<S, 4>(s, tile, row, (y, to.row, at)),
            _ => {
                for (i, few) in (0..).step_by(PANEL_ROWS).zip(sums.chunks(PANEL_ROWS)) {
                    let (rows, y) = ([row + i, few.len()], &mut y[i * to.row..]);
                    store(s, few.as_flattened(), WIDE, (rows, left), (y, to, column), &epilogue);
                }
            }
        }
    }
}
