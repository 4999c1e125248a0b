//! Products of narrow numbers by the processor's own tiles (AMX): rows are copied side by side, as many
//! as some memory on the stack holds, and multiplied with all columns.

use crate::simd::amx::{Amx, BLOCK, Factors, Sums, TILE_BYTES, TILE_ROWS, TILE_SUMS, Tiles};
mod pairs;
mod pixels;

pub(super) use pairs::multiply_rows;

use crate::simd::Simd;
use crate::simd::bytes::{Bytes, Vector};
use core::marker::PhantomData;
use core::mem::MaybeUninit;

/// Bytes of a row that have one sum.
const UNIT: usize = 4;
/// Columns whose sums are handed out together.
pub(crate) const WIDE: usize = 64;
/// Bytes of the rows that are copied at once.
const ROOM: usize = 320 << 10;
/// Fewer rows are not worth a tile.
const LEAST_ROWS: usize = 6;

/// What tiles multiply.
pub(crate) trait Narrow {
    /// What products are summed up in.
    type Sum: Copy + Default;

    /// Multiplies two tiles of rows with two of columns.
    ///
    /// # Safety
    /// As for [`Tiles::multiply_bytes`].
    unsafe fn multiply(tiles: &Tiles, of: Factors, to: Sums<Self::Sum>);
}

/// Four bytes without a sign, with four that have one.
pub(crate) struct Quads;

impl Narrow for Quads {
    type Sum = i32;

    #[inline(always)]
    unsafe fn multiply(tiles: &Tiles, of: Factors, to: Sums<i32>) {
        // SAFETY: the caller's promise is the same.
        unsafe { tiles.multiply_bytes(of, to) }
    }
}

/// Two numbers of `bfloat16`, with two.
pub(crate) struct Pairs;

impl Narrow for Pairs {
    type Sum = f32;

    #[inline(always)]
    unsafe fn multiply(tiles: &Tiles, of: Factors, to: Sums<f32>) {
        // SAFETY: the caller's promise is the same.
        unsafe { tiles.multiply_pairs(of, to) }
    }
}

/// The packed columns. Those of a panel stand side by side: for each unit of their depth, the four
/// bytes of one column after those of the other.
#[derive(Clone, Copy)]
pub(crate) struct Right<'a> {
    data: &'a [u8],
    /// Units of a column.
    units: usize,
    /// A multiple of [`TILE_SUMS`].
    columns: usize,
    /// Columns of a panel, of which the last one has only those that are there.
    panel: usize,
}

impl<'a> Right<'a> {
    /// Columns of so many pairs in panels of 16.
    pub fn of_pairs(pairs: &'a [f32], units: usize, columns: usize) -> Right<'a> {
        // SAFETY: each number is four bytes, of which all bits are allowed.
        let data =
            unsafe { core::slice::from_raw_parts(pairs.as_ptr().cast(), size_of_val(pairs)) };
        Right::new(data, units, columns, TILE_SUMS)
    }

    /// Columns of so many units in panels of 16 or 64.
    pub fn new(data: &'a [u8], units: usize, columns: usize, panel: usize) -> Right<'a> {
        assert!(columns.is_multiple_of(TILE_SUMS) && data.len() >= columns * units * UNIT);
        assert!(panel == TILE_SUMS || panel == WIDE);
        Right { data, units, columns, panel }
    }

    /// Bytes from the start of a row to the next: an odd number of tiles' rows, so that those of a tile
    /// do not compete for the same places of a cache.
    fn row(&self) -> usize {
        (self.units * UNIT).next_multiple_of(TILE_BYTES) | TILE_BYTES
    }

    /// Whether tiles multiply so many rows faster than vectors do.
    pub fn pays(&self, rows: usize) -> bool {
        rows >= LEAST_ROWS && self.row() * BLOCK <= ROOM
    }
}

/// Whose rows are multiplied, and who takes the sums.
pub(crate) trait Ends<T> {
    /// Writes a row. Rows come one after the other.
    fn fill(&mut self, row: usize, to: &mut Row<'_>);
    /// What the sums of the columns from one on start with, as far as there are columns.
    fn start(&self, column: usize, to: &mut [T; WIDE]);
    /// Takes the sums of the rows from one on, for the columns from one on.
    fn take(&mut self, row: usize, column: usize, sums: &[[T; WIDE]]);
}

/// Memory that starts where a vector may.
#[repr(align(64))]
struct Aligned<T>(T);

/// Memory for rows, and for what a last vector writes too much.
type Room = Aligned<MaybeUninit<[u8; ROOM + 2 * TILE_BYTES]>>;

/// Multiplies so many rows with all columns, where that [`pays`](Right::pays).
#[inline(always)]
pub(crate) fn multiply<S: Simd, N: Narrow>(
    s: S,
    amx: Amx,
    right: Right<'_>,
    rows: usize,
    ends: &mut impl Ends<N::Sum>,
) {
    let row = right.row();
    assert!(row * BLOCK <= ROOM);
    let most = ROOM / row / BLOCK * BLOCK;
    let mut room: Room = Aligned(MaybeUninit::uninit());
    let room = (&raw mut room.0).cast::<u8>();
    let tiles = amx.tiles();
    for first in (0..rows).step_by(most) {
        let count = most.min(rows - first);
        for i in 0..count {
            let mut to =
                Row { to: room.wrapping_add(i * row), left: right.units * UNIT, all: PhantomData };
            ends.fill(first + i, &mut to);
            to.finish(s);
        }
        for column in (0..right.columns).step_by(WIDE) {
            // SAFETY: as many rows as `most` are in the room, all that are multiplied with them.
            unsafe { columns::<N>(&tiles, (room, row), right, (first, count, column), ends) };
        }
    }
}

/// Multiplies rows with the columns from one on, which are at most [`WIDE`].
///
/// # Safety
/// The room has memory for the rows, which are filled up to a multiple of [`BLOCK`].
#[inline(always)]
unsafe fn columns<N: Narrow>(
    tiles: &Tiles,
    (room, row): (*const u8, usize),
    right: Right<'_>,
    (first, count, column): (usize, usize, usize),
    ends: &mut impl Ends<N::Sum>,
) {
    let width = WIDE.min(right.columns - column);
    let mut start = Aligned([N::Sum::default(); WIDE]);
    ends.start(column, &mut start.0);
    let (panel, tail) = (right.panel(column), Tail::of(right, column, width));
    let mut sums = Aligned([[N::Sum::default(); WIDE]; BLOCK]);
    for strip in (0..count).step_by(BLOCK) {
        for half in (0..width).step_by(BLOCK) {
            // Where there is no second tile, the first one is multiplied twice.
            let other = if width - half > TILE_SUMS { half + TILE_SUMS } else { half };
            let of = Factors {
                left: room.wrapping_add(strip * row),
                left_row: row,
                right: panel[right.apart(half, right.units)..].as_ptr(),
                right_row: right.panel.min(width) * UNIT,
                others: right.apart(other - half, right.units),
                steps: right.units / TILE_ROWS,
                tail: tail.tiles([half, other].map(|column| right.apart(column, TILE_ROWS))),
            };
            let to = Sums {
                start: start.0[half..].as_ptr(),
                sums: sums.0.as_mut_ptr().cast::<N::Sum>().wrapping_add(half),
                row: size_of_val(&sums.0[0]),
            };
            // SAFETY: the caller vouches for the rows, `Right` for the columns; two tiles of these have
            // sums and what they start with, as `half` is a multiple of both.
            unsafe { N::multiply(tiles, of, to) };
        }
        ends.take(first + strip, column, &sums.0[..BLOCK.min(count - strip)]);
    }
}

impl Right<'_> {
    /// How many bytes behind a column one starts that is so many, a multiple of [`TILE_SUMS`], behind it,
    /// where columns have so many units.
    fn apart(&self, columns: usize, units: usize) -> usize {
        columns * UNIT * if self.panel == WIDE { 1 } else { units }
    }

    /// Where a panel of columns starts.
    fn panel(&self, column: usize) -> &[u8] {
        &self.data[column * self.units * UNIT..]
    }
}

/// What is left of some columns behind whole tiles, and zeros.
struct Tail {
    bytes: Aligned<[u8; WIDE * TILE_BYTES]>,
    is_empty: bool,
}

impl Tail {
    /// That of a panel, or of as many as are [`WIDE`].
    fn of(right: Right<'_>, column: usize, width: usize) -> Tail {
        let mut bytes = Aligned([0; WIDE * TILE_BYTES]);
        let (whole, rest) = (right.units / TILE_ROWS * TILE_ROWS, right.units % TILE_ROWS);
        let row = right.panel.min(width) * UNIT;
        let panels = right.panel(column).chunks(right.units * row).take(width * UNIT / row);
        for (panel, to) in panels.zip(bytes.0.chunks_mut(TILE_ROWS * row)) {
            to[..rest * row].copy_from_slice(&panel[whole * row..]);
        }
        Tail { bytes, is_empty: rest == 0 }
    }

    /// That of two tiles of columns.
    fn tiles(&self, at: [usize; 2]) -> [*const u8; 2] {
        if self.is_empty {
            [core::ptr::null(); 2]
        } else {
            at.map(|at| self.bytes.0[at..].as_ptr())
        }
    }
}

/// Memory of a row.
pub(crate) struct Row<'a> {
    to: *mut u8,
    left: usize,
    all: PhantomData<&'a mut [u8]>,
}

impl Row<'_> {
    /// Writes the next bytes, with some bits flipped.
    #[inline(always)]
    pub fn push<S: Bytes>(&mut self, s: S, bytes: &[u8], flip: Vector<S>) {
        assert!(bytes.len() <= self.left);
        for bytes in bytes.chunks(S::LANES * UNIT) {
            let x = s.xor(s.load_bytes(bytes), flip);
            // SAFETY: there is a place for each byte, and for a vector behind the last one.
            unsafe { s.store_bytes_at(x, self.to) };
            self.to = self.to.wrapping_add(bytes.len());
        }
        self.left -= bytes.len();
    }

    /// Writes the next vector.
    #[inline(always)]
    fn push_vector<S: Simd>(&mut self, s: S, x: S::F32) {
        let n = S::LANES * size_of::<f32>();
        assert!(n <= self.left);
        // SAFETY: there is a place for each number.
        unsafe { s.store_at(x, self.to.cast()) };
        (self.to, self.left) = (self.to.wrapping_add(n), self.left - n);
    }

    /// Writes the next numbers, of which the count is known.
    #[inline(always)]
    fn push_few<const N: usize>(&mut self, x: &[f32; N]) {
        assert!(size_of_val(x) <= self.left);
        // SAFETY: there is a place for each number; any address will do.
        unsafe { self.to.cast::<[f32; N]>().write_unaligned(*x) };
        (self.to, self.left) = (self.to.wrapping_add(size_of_val(x)), self.left - size_of_val(x));
    }

    /// Fills up the row, and its last tile.
    #[inline(always)]
    fn finish<S: Simd>(self, s: S) {
        let n = S::LANES * size_of::<f32>();
        for at in (0..self.left + TILE_BYTES).step_by(n) {
            // SAFETY: there is a place for each byte that is left, and for a vector behind the last one.
            unsafe { s.store_at(s.splat(0.0), self.to.wrapping_add(at).cast()) };
        }
    }
}

/// The first `V` vectors of sums.
#[inline(always)]
pub(crate) fn vectors<S: Bytes, const V: usize>(s: S, sums: &[i32; WIDE]) -> [Vector<S>; V] {
    let mut vectors = [s.level().splat_i32(0); V];
    for (v, vector) in vectors.iter_mut().enumerate() {
        *vector = s.load_sums(&sums[v * S::LANES..]);
    }
    vectors
}
