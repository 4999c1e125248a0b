//! Products with AMX tiles.

use super::{COLUMNS, Multiply, PANEL, Product, ROWS, Results, packed_columns_depth};
use crate::kernels::quantized::quad;
use crate::microkernel;
use crate::microkernel::amx::{Quads, Right, Row, TileEpilogue, WIDE, vectors};
use crate::microkernel::int8_operands::Int8Epilogue;
use crate::simd::int8::{Bytes, Vector, WithBytes};
use crate::simd::{Simd, tiles};

/// Returns whether the processor has tiles and they pay. They start all rows with the same
/// accumulators, which a zero point of the weights does not allow.
#[inline(always)]
pub fn pay(of: Multiply<'_>) -> bool {
    !of.needs_sums && tiles().is_some() && right(of).pays(of.geometry.m)
}

fn right(of: Multiply<'_>) -> Right<'_> {
    let Product { n, k, .. } = of.geometry;
    let columns = n.next_multiple_of(COLUMNS);
    Right::new(of.w, packed_columns_depth(k) / 4, columns, PANEL)
}

/// Computes all rows with tiles, if they [`pay`]. A separate function keeps its rows off the
/// stack of the others.
pub struct ByTiles<'a, R> {
    pub of: Multiply<'a>,
    pub results: R,
}

impl<R: Results> WithBytes for ByTiles<'_, R> {
    #[inline(always)]
    fn run<S: Bytes>(mut self, s: S) {
        let (of, Some(amx)) = (self.of, tiles()) else { return };
        let end = self.results.end(s, of.geometry, 0, [0; ROWS]);
        let mut ends = Rows { s, of, flip: s.level().splat_i32(quad(of.flip)), end };
        microkernel::amx::multiply::<Quads>(amx, right(of), of.geometry.m, &mut ends);
    }
}

struct Rows<'a, S: Bytes, E> {
    s: S,
    of: Multiply<'a>,
    flip: Vector<S>,
    end: E,
}

impl<S: Bytes, E: Int8Epilogue<S>> TileEpilogue<i32> for Rows<'_, S, E> {
    #[inline(always)]
    fn rows(&self) -> Option<(&[u8], usize)> {
        (self.of.flip == 0).then_some((self.of.x, self.of.geometry.k))
    }

    #[inline(always)]
    fn fill(&mut self, row: usize, to: &mut Row<'_>) {
        let k = self.of.geometry.k;
        to.push(self.s, &self.of.x[row * k..][..k], self.flip);
    }

    #[inline(always)]
    fn start(&self, column: usize, to: &mut [i32; WIDE]) {
        for (j, to) in to.chunks_mut(S::LANES).enumerate() {
            let j = column + j * S::LANES;
            if j < self.of.geometry.n {
                self.s.store_sums(self.end.start(self.s, 0, j), to);
            }
        }
    }

    #[inline(always)]
    fn take(&mut self, row: usize, column: usize, sums: &[[i32; WIDE]]) {
        for (i, sums) in (row..).zip(sums) {
            self.end.take(self.s, i, column, &vectors::<S, 4>(self.s, sums));
        }
    }
}
