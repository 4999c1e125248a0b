//! Products of narrow numbers by the processor's own tiles (AMX): rows are copied side by side, as many
//! as some memory on the stack holds, and multiplied with all columns.

mod pairs;
mod pixels;

use crate::loops::bounds::reach;
use crate::simd::Simd;
use crate::simd::amx::{ASKED, Amx, BLOCK, Factors, Sums, TILE_BYTES, TILE_ROWS, TILE_SUMS, Tiles};
use crate::simd::int8::{Bytes, Vector};
use core::marker::PhantomData;
use core::mem::MaybeUninit;
pub(super) use pairs::{PairRows, multiply_rows};

/// Bytes of a row that have one sum.
const UNIT: usize = 4;
/// Columns whose sums are handed out together.
pub(crate) const WIDE: usize = 64;
/// Bytes of the rows that are copied at once.
const ROOM: usize = 320 << 10;
/// Fewer products of units are not worth that the processor gets its tiles ready. Tests are of small
/// sizes, too.
const LEAST_PRODUCTS: usize = if cfg!(test) { 1 } else { 200_000 };
/// Columns of fewer pairs are not worth it, either.
const LEAST_PAIRS: usize = if cfg!(test) { 1 } else { 32 };
/// Fewer rows are not worth a tile.
const LEAST_ROWS: usize = if cfg!(test) { 1 } else { 6 };

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
        assert!(columns.is_multiple_of(TILE_SUMS) && data.len() >= reach([[columns, units, UNIT]]));
        assert!(panel == TILE_SUMS || panel == WIDE);
        Right { data, units, columns, panel }
    }

    /// Bytes from the start of a row to the next: an odd number of tiles' rows, so that those of a tile
    /// do not compete for the same places of a cache.
    fn row(&self) -> usize {
        (self.units * UNIT).next_multiple_of(TILE_BYTES) | TILE_BYTES
    }

    /// Whether a block of rows has room.
    fn fits(&self) -> bool {
        self.row() * BLOCK <= ROOM
    }

    /// Whether tiles multiply so many rows of bytes faster than vectors do.
    pub fn pays(&self, rows: usize) -> bool {
        self.fits()
            && rows >= LEAST_ROWS
            && self.columns > TILE_SUMS
            && rows * self.columns * self.units >= LEAST_PRODUCTS
    }

    /// Whether tiles multiply pairs faster than vectors do. Only the depth of columns decides: threads have
    /// some of the rows or columns, and sums of tiles are not rounded as those of vectors are.
    fn pays_for_pairs(&self) -> bool {
        self.fits() && self.units >= LEAST_PAIRS
    }

    /// How many of so many rows, which start so many bytes behind each other, are whole blocks that can
    /// be read with all that tiles read of them.
    fn whole(&self, all: &[u8], row: usize, rows: usize) -> usize {
        let reach = (self.units * UNIT).next_multiple_of(TILE_BYTES);
        let there = all.len().checked_sub(reach).map_or(0, |last| last / row.max(1) + 1);
        rows.min(there) / BLOCK * BLOCK
    }
}

/// Whose rows are multiplied, and who takes the sums.
pub(crate) trait TileEpilogue<T> {
    /// All rows, each of as many units as a column and how many bytes behind the last, if they can be
    /// read where they stand: for what is behind a row, columns have zeros.
    fn rows(&self) -> Option<(&[u8], usize)> {
        None
    }
    /// Writes a row. Rows come one after the other, from the first on that is not read where it stands.
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
type RowBuffer = Aligned<MaybeUninit<[u8; ROOM + 2 * TILE_BYTES]>>;

/// Multiplies so many rows with all columns, where that [`pays`](Right::pays).
#[inline(always)]
pub(crate) fn multiply<N: Narrow>(
    amx: Amx,
    right: Right<'_>,
    rows: usize,
    ends: &mut impl TileEpilogue<N::Sum>,
) {
    let row = right.row();
    assert!(right.fits());
    let mut room: RowBuffer = Aligned(MaybeUninit::uninit());
    let room = (&raw mut room.0).cast::<u8>();
    let mut blocks = Blocks::<N> {
        tiles: amx.tiles(),
        right,
        tail: Aligned([0; WIDE * TILE_BYTES]),
        later: (core::ptr::null(), 0),
        sums: Aligned([[N::Sum::default(); WIDE]; BLOCK]),
    };
    let placed = ends.rows().map(|(all, row)| (all.as_ptr(), row, right.whole(all, row, rows)));
    let mut first = 0;
    if let Some((at, row, count @ 1..)) = placed {
        // SAFETY: `whole` saw so many rows, and what is behind the last.
        unsafe { blocks.run((at, row), (0, count), ends) };
        first = count;
    }
    while first < rows {
        let count = (ROOM / row / BLOCK * BLOCK).min(rows - first);
        for i in 0..count {
            let left = right.units * UNIT;
            let mut to = Row { to: room.wrapping_add(i * row), left, all: PhantomData };
            ends.fill(first + i, &mut to);
            to.finish();
        }
        // SAFETY: a multiple of `BLOCK` rows are in the room. What those have that are not written
        // becomes sums that nobody takes.
        unsafe { blocks.run((room, row), (first, count), ends) };
        first += count;
    }
}

/// Blocks of two tiles by two.
struct Blocks<'a, N: Narrow> {
    tiles: Tiles,
    right: Right<'a>,
    /// What is left of some columns behind whole tiles, and zeros.
    tail: Aligned<[u8; WIDE * TILE_BYTES]>,
    /// What is asked for next, and how far each step goes on.
    later: (*const u8, usize),
    /// The sums of some rows and columns.
    sums: Aligned<[[N::Sum; WIDE]; BLOCK]>,
}

impl<N: Narrow> Blocks<'_, N> {
    /// Multiplies so many rows, of which the first has a number, with all columns.
    ///
    /// # Safety
    /// The rows can be read, filled up to a multiple of [`BLOCK`], and each to a multiple of
    /// [`TILE_BYTES`].
    #[inline(always)]
    unsafe fn run(
        &mut self,
        left: (*const u8, usize),
        (first, count): (usize, usize),
        ends: &mut impl TileEpilogue<N::Sum>,
    ) {
        for column in (0..self.right.columns).step_by(WIDE) {
            let mut start = Aligned([N::Sum::default(); WIDE]);
            ends.start(column, &mut start.0);
            let width = WIDE.min(self.right.columns - column);
            self.keep_tail(column, width);
            self.ask_for_next((column, width), count);
            for strip in (0..count).step_by(BLOCK) {
                for half in (0..width).step_by(BLOCK) {
                    let left = (left.0.wrapping_add(strip * left.1), left.1);
                    // SAFETY: the caller vouches for the rows; there are such columns.
                    unsafe { self.multiply(left, (column, half, width), &start.0) };
                }
                let sums = &self.sums.0[..BLOCK.min(count - strip)];
                ends.take(first + strip, column, sums);
            }
        }
    }

    /// Has the columns behind these asked for while these are multiplied with so many rows. Behind the
    /// last ones are those of the product that follows.
    #[inline(always)]
    fn ask_for_next(&mut self, (column, width): (usize, usize), rows: usize) {
        let panel = self.right.panel(column).as_ptr();
        let blocks = rows.div_ceil(BLOCK) * width.div_ceil(BLOCK);
        let step = (TILE_ROWS * width * UNIT / blocks).next_multiple_of(TILE_BYTES).min(ASKED);
        self.later = (panel.wrapping_add(width * self.right.units * UNIT), step);
    }

    /// Multiplies [`BLOCK`] rows with as many columns, less those that there are not.
    ///
    /// # Safety
    /// The rows can be read; the columns from `half` on are some of the `width` from `column` on.
    #[inline(always)]
    unsafe fn multiply(
        &mut self,
        (left, left_row): (*const u8, usize),
        (column, half, width): (usize, usize, usize),
        start: &[N::Sum; WIDE],
    ) {
        let right = self.right;
        // Where there is no second tile, the first one is multiplied twice.
        let other = if width - half > TILE_SUMS { half + TILE_SUMS } else { half };
        let tail = |column| self.tail.0[right.apart(column, TILE_ROWS)..].as_ptr();
        let has_tail = !right.units.is_multiple_of(TILE_ROWS);
        let of = Factors {
            left,
            left_row,
            right: right.panel(column)[right.apart(half, right.units)..].as_ptr(),
            right_row: right.panel.min(width) * UNIT,
            others: right.apart(other - half, right.units),
            steps: right.units / TILE_ROWS,
            tail: if has_tail { [tail(half), tail(other)] } else { [core::ptr::null(); 2] },
            later: self.later,
        };
        let to = Sums {
            start: start[half..].as_ptr(),
            sums: self.sums.0.as_mut_ptr().cast::<N::Sum>().wrapping_add(half),
            row: size_of_val(&self.sums.0[0]),
        };
        // SAFETY: the caller vouches for the rows, `Right` for the columns; two tiles of these have sums
        // and what they start with, as `half` is a multiple of both.
        unsafe { N::multiply(&self.tiles, of, to) };
        self.later.0 = self.later.0.wrapping_add(of.steps * of.later.1);
    }

    /// Copies what is left of a panel behind whole tiles, or of as many panels as are [`WIDE`].
    fn keep_tail(&mut self, column: usize, width: usize) {
        let right = self.right;
        let (whole, rest) = (right.units / TILE_ROWS * TILE_ROWS, right.units % TILE_ROWS);
        if rest == 0 {
            return;
        }
        let row = right.panel.min(width) * UNIT;
        let panels = right.panel(column).chunks(right.units * row).take(width * UNIT / row);
        for (panel, to) in panels.zip(self.tail.0.chunks_mut(TILE_ROWS * row)) {
            let (kept, none) = to.split_at_mut(rest * row);
            kept.copy_from_slice(&panel[whole * row..]);
            none.fill(0);
        }
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
        let (mut rest, mut to) = (bytes, self.to);
        loop {
            let x = s.xor(s.load_bytes(rest), flip);
            // SAFETY: there is a place for each byte, and for a vector behind the last one.
            unsafe { s.store_bytes_at(x, to) };
            let Some((_, more)) = rest.split_at_checked(S::LANES * UNIT) else { break };
            (rest, to) = (more, to.wrapping_add(S::LANES * UNIT));
        }
        (self.to, self.left) = (self.to.wrapping_add(bytes.len()), self.left - bytes.len());
    }

    /// Writes the next vector.
    #[inline(always)]
    fn push_vector<S: Simd>(&mut self, s: S, x: S::F32) {
        let n = S::LANES * size_of::<f32>();
        assert!(n <= self.left);
        // SAFETY: there is a place for each number, and a row of numbers starts where one may.
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
    fn finish(self) {
        for at in (0..self.left + TILE_BYTES).step_by(TILE_BYTES) {
            let to = self.to.wrapping_add(at).cast::<[u8; TILE_BYTES]>();
            // SAFETY: there is a place for each byte that is left, and for a tile's row behind the last
            // one; any address will do.
            unsafe { to.write_unaligned([0; TILE_BYTES]) };
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
