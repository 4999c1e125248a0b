//! Compares products of tiles with scalar sums of products, on processors with AMX or emulated
//! tiles.

use super::*;
use crate::simd::{each_level, tiles};
use core::fmt::Debug;
use core::ptr::null;
use std::{vec, vec::Vec};

/// The four bytes that go into one accumulator.
type Unit = [u8; 4];

/// A type that tiles multiply. All sums of the tests are exact.
struct Kind<T> {
    multiply: unsafe fn(&Tiles, Operands, Accumulators<T>),
    /// Returns a pseudo-random unit.
    unit: fn(usize) -> Unit,
    /// Returns the initial accumulator of a column.
    start: fn(usize) -> T,
    /// Adds the products of two units.
    add: fn(T, Unit, Unit) -> T,
}

/// Some accumulators wrap around.
const BYTES: Kind<i32> = Kind {
    multiply: Tiles::multiply_bytes,
    unit: |i| [0, 1, 2, 3].map(|j| ((4 * i + j) * 7919 / 8) as u8),
    start: |j| i32::MAX - 40_000 * j as i32,
    add: |sum, a, b| {
        let products = a.into_iter().zip(b).map(|(a, b)| i32::from(a) * i32::from(b as i8));
        products.fold(sum, i32::wrapping_add)
    },
};

/// The numbers are integers up to eight.
const PAIRS: Kind<f32> = Kind {
    multiply: Tiles::multiply_pairs,
    unit: |i| {
        let [x, y] = [0, 1].map(|j| ((2 * i + j) * 7919 / 8 % 17) as f32 - 8.0);
        (x.to_bits() >> 16 | y.to_bits()).to_le_bytes()
    },
    start: |j| j as f32 - 20.0,
    add: |sum, a, b| {
        let [a, b] = [a, b].map(u32::from_le_bytes);
        let product = |shift: u32| {
            f32::from_bits(a << shift & 0xffff_0000) * f32::from_bits(b << shift & 0xffff_0000)
        };
        sum + product(16) + product(0)
    },
};

/// The layout of operands.
#[derive(Clone, Copy, Debug)]
struct Case {
    steps: usize,
    has_tail: bool,
    /// The units between the end of a row of the left operand and the next row.
    gap: usize,
    /// The stride of the right operand's rows, in columns: those of a tile, or of all columns and
    /// perhaps second.
    panel: usize,
    /// Whether the second tile of columns is the first one again.
    again: bool,
}

impl Case {
    /// Returns the row stride of the left operand, in units.
    fn left_row(&self) -> usize {
        (self.steps + usize::from(self.has_tail)) * TILE_ROWS + self.gap
    }

    /// Returns the distance from the columns of the first tile to those of the second, in units, if
    /// columns have `steps` steps.
    fn second(&self, steps: usize) -> usize {
        match self.panel {
            _ if self.again => 0,
            TILE_SUMS => steps * TILE_ROWS * TILE_SUMS,
            _ => TILE_SUMS,
        }
    }
}

/// The operands of a case.
struct Given {
    case: Case,
    left: Vec<Unit>,
    right: Vec<Unit>,
    tail: Vec<Unit>,
}

impl Given {
    fn new(unit: fn(usize) -> Unit, case: Case, seed: usize) -> Given {
        let units = |count, seed| (0..count).map(|i| unit(i + seed)).collect();
        let step = 2 * TILE_ROWS * case.panel;
        let left = units(BLOCK * case.left_row(), seed);
        Given { case, left, right: units(step * case.steps, seed + 1), tail: units(step, seed + 2) }
    }

    fn factors(&self) -> Operands {
        let Case { steps, has_tail, gap, panel, .. } = self.case;
        let tail = |from| if has_tail { self.tail[from..].as_ptr().cast() } else { null() };
        let (left, right) = (self.left.as_ptr().cast(), self.right.as_ptr().cast());
        Operands {
            left,
            left_row: self.case.left_row() * size_of::<Unit>(),
            right,
            right_row: panel * size_of::<Unit>(),
            second: self.case.second(steps) * size_of::<Unit>(),
            steps,
            tail: [0, self.case.second(1)].map(tail),
            prefetch: if gap == 0 { (null(), 0) } else { (right, PREFETCH_BYTES) },
        }
    }

    /// Returns the units of a row and a column.
    fn units(&self, i: usize, j: usize) -> impl Iterator<Item = (Unit, Unit)> {
        let Case { steps, has_tail, panel, .. } = self.case;
        let all = [(&self.right, steps), (&self.tail, usize::from(has_tail))];
        let column = all.into_iter().flat_map(move |(of, steps)| {
            let first = j / TILE_SUMS * self.case.second(steps) + j % TILE_SUMS;
            (0..steps * TILE_ROWS).map(move |k| of[first + k * panel])
        });
        self.left[i * self.case.left_row()..].iter().copied().zip(column)
    }
}

fn check<T: Copy + Debug + PartialEq>(amx: Amx, of: &Kind<T>, case: Case, seed: usize) {
    /// Elements between rows of results, which must not change.
    const BETWEEN: usize = 3;
    let given = Given::new(of.unit, case, seed);
    let start: Vec<T> = (0..BLOCK).map(of.start).collect();
    let kept = (of.start)(77);
    let mut sums = vec![kept; BLOCK * (BLOCK + BETWEEN)];
    let row = (BLOCK + BETWEEN) * size_of::<T>();
    let to = Accumulators { start: start.as_ptr(), sums: sums.as_mut_ptr(), row };
    // SAFETY: the operands and the results have `BLOCK` rows and columns.
    unsafe { (of.multiply)(&amx.tiles(), given.factors(), to) };
    for (i, row) in sums.chunks(BLOCK + BETWEEN).enumerate() {
        for (j, &sum) in row[..BLOCK].iter().enumerate() {
            let truth = given.units(i, j).fold(start[j], |sum, (a, b)| (of.add)(sum, a, b));
            assert_eq!(sum, truth, "{case:?}: row {i}, column {j}");
        }
        assert_eq!(row[BLOCK..], [kept; BETWEEN], "{case:?}: behind row {i}");
    }
}

fn check_all(amx: Amx, seed: usize) {
    for (steps, has_tail) in [(0, false), (0, true), (1, false), (1, true), (3, false), (4, true)] {
        for (gap, panel, again) in
            [(0, TILE_SUMS, false), (0, TILE_SUMS, true), (5, BLOCK, false), (16, 2 * BLOCK, false)]
        {
            let case = Case { steps, has_tail, gap, panel, again };
            check(amx, &BYTES, case, seed);
            check(amx, &PAIRS, case, seed);
        }
    }
}

#[test]
fn products_of_tiles_are_sums_of_products() {
    each_level(|_| {
        if let Some(amx) = tiles() {
            check_all(amx, 3);
        }
    });
}

#[test]
fn each_thread_has_tiles_of_its_own() {
    each_level(|_| {
        let Some(amx) = tiles() else { return };
        std::thread::scope(|threads| {
            for seed in 0..4 {
                threads.spawn(move || check_all(amx, seed));
            }
        });
    });
}
