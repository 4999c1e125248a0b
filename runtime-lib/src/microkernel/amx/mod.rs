//! Products of int8 and `bfloat16` numbers with AMX tiles: rows are copied to a buffer on the
//! stack, as many as it holds, and multiplied by all columns.

mod pairs;
mod pixels;

use crate::loops::bounds::reach;
use crate::simd::Simd;
use crate::simd::amx::{
    Accumulators, Amx, BLOCK, Operands, PREFETCH_BYTES, TILE_BYTES, TILE_ROWS, TILE_SUMS, Tiles,
};
use crate::simd::int8::{Bytes, Vector};
use core::marker::PhantomData;
use core::mem::MaybeUninit;
pub(super) use pairs::{PairRows, multiply_rows};

/// The bytes of a row that go into one accumulator.
const UNIT: usize = 4;
/// The columns whose accumulators are passed to the epilogue together.
pub(crate) const WIDE: usize = 64;
/// The bytes of rows that are copied at once.
const BUFFER_BYTES: usize = 320 << 10;
/// The fewest products of units that are worth setting up the tiles. Tests use small sizes, too.
const MIN_PRODUCTS: usize = if cfg!(test) { 1 } else { 200_000 };
/// The fewest pairs of a column for which tiles pay.
const MIN_PAIRS: usize = if cfg!(test) { 1 } else { 32 };
/// The fewest rows for which tiles pay.
const MIN_ROWS: usize = if cfg!(test) { 1 } else { 6 };

/// An element type that tiles multiply.
pub(crate) trait Narrow {
    /// The accumulator.
    type Sum: Copy + Default;

    /// Multiplies two tiles of rows with two of columns.
    ///
    /// # Safety
    ///
    /// The contract of [`Tiles::multiply_bytes`].
    unsafe fn multiply(tiles: &Tiles, of: Operands, to: Accumulators<Self::Sum>);
}

/// Four unsigned bytes, times four signed ones.
pub(crate) struct Quads;

impl Narrow for Quads {
    type Sum = i32;

    #[inline(always)]
    unsafe fn multiply(tiles: &Tiles, of: Operands, to: Accumulators<i32>) {
        // SAFETY: the contract is that of this function.
        unsafe { tiles.multiply_bytes(of, to) }
    }
}

/// Two `bfloat16` numbers, times two.
pub(crate) struct Pairs;

impl Narrow for Pairs {
    type Sum = f32;

    #[inline(always)]
    unsafe fn multiply(tiles: &Tiles, of: Operands, to: Accumulators<f32>) {
        // SAFETY: the contract is that of this function.
        unsafe { tiles.multiply_pairs(of, to) }
    }
}

/// The packed columns. A panel holds, for each unit of the depth, the four bytes of every column.
#[derive(Clone, Copy)]
pub(crate) struct Right<'a> {
    data: &'a [u8],
    /// The units of a column.
    units: usize,
    /// The number of columns, a multiple of [`TILE_SUMS`].
    columns: usize,
    /// The columns of a panel; the last panel may have fewer.
    panel: usize,
}

impl<'a> Right<'a> {
    /// Wraps columns of pairs in panels of 16.
    pub fn of_pairs(pairs: &'a [f32], units: usize, columns: usize) -> Right<'a> {
        // SAFETY: an `f32` is four bytes, and all bit patterns of bytes are valid.
        let data =
            unsafe { core::slice::from_raw_parts(pairs.as_ptr().cast(), size_of_val(pairs)) };
        Right::new(data, units, columns, TILE_SUMS)
    }

    /// Wraps columns of `units` units in panels of 16 or 64.
    pub fn new(data: &'a [u8], units: usize, columns: usize, panel: usize) -> Right<'a> {
        assert!(columns.is_multiple_of(TILE_SUMS) && data.len() >= reach([[columns, units, UNIT]]));
        assert!(panel == TILE_SUMS || panel == WIDE);
        Right { data, units, columns, panel }
    }

    /// Returns the row stride of the buffer, in bytes: an odd number of tile rows, so that the rows
    /// of a tile do not compete for the same cache sets.
    fn row(&self) -> usize {
        (self.units * UNIT).next_multiple_of(TILE_BYTES) | TILE_BYTES
    }

    /// Returns whether a block of rows fits in the buffer.
    fn fits(&self) -> bool {
        self.row() * BLOCK <= BUFFER_BYTES
    }

    /// Returns whether tiles multiply `rows` rows of bytes faster than vectors do.
    pub fn pays(&self, rows: usize) -> bool {
        self.fits()
            && rows >= MIN_ROWS
            && self.columns > TILE_SUMS
            && rows * self.columns * self.units >= MIN_PRODUCTS
    }

    /// Returns whether tiles multiply pairs faster than vectors do. Only the depth decides, so that
    /// every thread's part gives the same answer: tiles round differently from vectors.
    fn pays_for_pairs(&self) -> bool {
        self.fits() && self.units >= MIN_PAIRS
    }

    /// Returns how many of `rows` rows with the stride `row` bytes form whole blocks that tiles can
    /// read in place, including the padding of each row.
    fn whole(&self, all: &[u8], row: usize, rows: usize) -> usize {
        let reach = (self.units * UNIT).next_multiple_of(TILE_BYTES);
        let there = all.len().checked_sub(reach).map_or(0, |last| last / row.max(1) + 1);
        rows.min(there) / BLOCK * BLOCK
    }
}

/// The source of the rows, and the consumer of the accumulators.
pub(crate) trait TileEpilogue<T> {
    /// Returns all rows and their stride in bytes, if tiles can read them in place: elements behind
    /// a row are multiplied by zeros of the columns.
    fn rows(&self) -> Option<(&[u8], usize)> {
        None
    }
    /// Writes a row to the buffer. Rows are requested in order, from the first one that is not read
    /// in place.
    fn fill(&mut self, row: usize, to: &mut Row<'_>);
    /// Writes the initial accumulators of the columns from `column` on, as far as there are
    /// columns.
    fn start(&self, column: usize, to: &mut [T; WIDE]);
    /// Consumes the accumulators of the rows from `row` on for the columns from `column` on.
    fn take(&mut self, row: usize, column: usize, sums: &[[T; WIDE]]);
}

/// Memory aligned for vectors.
#[repr(align(64))]
struct Aligned<T>(T);

/// The buffer for rows, with a margin for the last vector.
type RowBuffer = Aligned<MaybeUninit<[u8; BUFFER_BYTES + 2 * TILE_BYTES]>>;

/// Multiplies `rows` rows with all columns, if that [`pays`](Right::pays).
#[inline(always)]
pub(crate) fn multiply<N: Narrow>(
    amx: Amx,
    right: Right<'_>,
    rows: usize,
    epilogue: &mut impl TileEpilogue<N::Sum>,
) {
    let row = right.row();
    assert!(right.fits());
    let mut buffer: RowBuffer = Aligned(MaybeUninit::uninit());
    let buffer = (&raw mut buffer.0).cast::<u8>();
    let mut blocks = Blocks::<N> {
        tiles: amx.tiles(),
        right,
        tail: Aligned([0; WIDE * TILE_BYTES]),
        prefetch: (core::ptr::null(), 0),
        sums: Aligned([[N::Sum::default(); WIDE]; BLOCK]),
    };
    let placed = epilogue.rows().map(|(all, row)| (all.as_ptr(), row, right.whole(all, row, rows)));
    let mut first = 0;
    if let Some((at, row, count @ 1..)) = placed {
        // SAFETY: `whole` returned a number of rows that can be read with their padding.
        unsafe { blocks.run((at, row), (0, count), epilogue) };
        first = count;
    }
    while first < rows {
        let count = (BUFFER_BYTES / row / BLOCK * BLOCK).min(rows - first);
        for i in 0..count {
            let left = right.units * UNIT;
            let mut to = Row { to: buffer.wrapping_add(i * row), left, all: PhantomData };
            epilogue.fill(first + i, &mut to);
            to.finish();
        }
        // SAFETY: the buffer holds a multiple of `BLOCK` rows. Bytes that were not written only
        // affect accumulators that nothing consumes.
        unsafe { blocks.run((buffer, row), (first, count), epilogue) };
        first += count;
    }
}

/// The multiplication in blocks of two by two tiles.
struct Blocks<'a, N: Narrow> {
    tiles: Tiles,
    right: Right<'a>,
    /// The last, incomplete tile of some columns, padded with zeros.
    tail: Aligned<[u8; WIDE * TILE_BYTES]>,
    /// The address to prefetch next, and the distance to the one after, in bytes.
    prefetch: (*const u8, usize),
    /// The accumulators of some rows and columns.
    sums: Aligned<[[N::Sum; WIDE]; BLOCK]>,
}

impl<N: Narrow> Blocks<'_, N> {
    /// Multiplies `count` rows, starting at row `first`, with all columns.
    ///
    /// # Safety
    ///
    /// The rows can be read, padded to a multiple of [`BLOCK`] rows of a multiple of
    /// [`TILE_BYTES`].
    #[inline(always)]
    unsafe fn run(
        &mut self,
        left: (*const u8, usize),
        (first, count): (usize, usize),
        epilogue: &mut impl TileEpilogue<N::Sum>,
    ) {
        for column in (0..self.right.columns).step_by(WIDE) {
            let mut start = Aligned([N::Sum::default(); WIDE]);
            epilogue.start(column, &mut start.0);
            let width = WIDE.min(self.right.columns - column);
            self.keep_tail(column, width);
            self.plan_prefetch((column, width), count);
            for strip in (0..count).step_by(BLOCK) {
                for half in (0..width).step_by(BLOCK) {
                    let left = (left.0.wrapping_add(strip * left.1), left.1);
                    // SAFETY: by this function's contract the rows can be read, and `half` is below
                    // `width`.
                    unsafe { self.multiply(left, (column, half, width), &start.0) };
                }
                let sums = &self.sums.0[..BLOCK.min(count - strip)];
                epilogue.take(first + strip, column, sums);
            }
        }
    }

    /// Schedules the prefetch of the columns behind these while these are multiplied by `rows`
    /// rows. Behind the last columns are those of the next product.
    #[inline(always)]
    fn plan_prefetch(&mut self, (column, width): (usize, usize), rows: usize) {
        let panel = self.right.panel(column).as_ptr();
        let blocks = rows.div_ceil(BLOCK) * width.div_ceil(BLOCK);
        let step =
            (TILE_ROWS * width * UNIT / blocks).next_multiple_of(TILE_BYTES).min(PREFETCH_BYTES);
        self.prefetch = (panel.wrapping_add(width * self.right.units * UNIT), step);
    }

    /// Multiplies [`BLOCK`] rows with as many columns, or the remaining ones.
    ///
    /// # Safety
    ///
    /// The rows can be read; the columns from `half` on are among the `width` from `column` on.
    #[inline(always)]
    unsafe fn multiply(
        &mut self,
        (left, left_row): (*const u8, usize),
        (column, half, width): (usize, usize, usize),
        start: &[N::Sum; WIDE],
    ) {
        let right = self.right;
        // Without a second tile, the first one is multiplied twice.
        let other = if width - half > TILE_SUMS { half + TILE_SUMS } else { half };
        let tail = |column| self.tail.0[right.apart(column, TILE_ROWS)..].as_ptr();
        let has_tail = !right.units.is_multiple_of(TILE_ROWS);
        let of = Operands {
            left,
            left_row,
            right: right.panel(column)[right.apart(half, right.units)..].as_ptr(),
            right_row: right.panel.min(width) * UNIT,
            second: right.apart(other - half, right.units),
            steps: right.units / TILE_ROWS,
            tail: if has_tail { [tail(half), tail(other)] } else { [core::ptr::null(); 2] },
            prefetch: self.prefetch,
        };
        let to = Accumulators {
            start: start[half..].as_ptr(),
            sums: self.sums.0.as_mut_ptr().cast::<N::Sum>().wrapping_add(half),
            row: size_of_val(&self.sums.0[0]),
        };
        // SAFETY: by this function's contract the rows can be read; `Right::new` checked the
        // columns. Both column tiles have accumulators and initial values, as `half` is a multiple
        // of two tiles.
        unsafe { N::multiply(&self.tiles, of, to) };
        self.prefetch.0 = self.prefetch.0.wrapping_add(of.steps * of.prefetch.1);
    }

    /// Copies the incomplete tile of a panel, or of as many panels as have [`WIDE`] columns
    /// together.
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
    /// Returns the distance in bytes of two columns, `columns` apart (a multiple of [`TILE_SUMS`]),
    /// if columns have `units` units.
    fn apart(&self, columns: usize, units: usize) -> usize {
        columns * UNIT * if self.panel == WIDE { 1 } else { units }
    }

    /// Returns the panel that starts at `column`.
    fn panel(&self, column: usize) -> &[u8] {
        &self.data[column * self.units * UNIT..]
    }
}

/// The memory of a row in the buffer.
pub(crate) struct Row<'a> {
    to: *mut u8,
    left: usize,
    all: PhantomData<&'a mut [u8]>,
}

impl Row<'_> {
    /// Writes the next bytes, XORed with `flip`.
    #[inline(always)]
    pub fn push<S: Bytes>(&mut self, s: S, bytes: &[u8], flip: Vector<S>) {
        assert!(bytes.len() <= self.left);
        let (mut rest, mut to) = (bytes, self.to);
        loop {
            let x = s.xor(s.load_bytes(rest), flip);
            // SAFETY: `left` covers the bytes, and the buffer has a margin of a vector.
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
        // SAFETY: `left` covers the vector; rows of numbers are aligned to it.
        unsafe { s.store_at(x, self.to.cast()) };
        (self.to, self.left) = (self.to.wrapping_add(n), self.left - n);
    }

    /// Writes the next `N` numbers.
    #[inline(always)]
    fn push_few<const N: usize>(&mut self, x: &[f32; N]) {
        assert!(size_of_val(x) <= self.left);
        // SAFETY: `left` covers the numbers; the write is unaligned.
        unsafe { self.to.cast::<[f32; N]>().write_unaligned(*x) };
        (self.to, self.left) = (self.to.wrapping_add(size_of_val(x)), self.left - size_of_val(x));
    }

    /// Fills the row and its last tile with zeros.
    #[inline(always)]
    fn finish(self) {
        for at in (0..self.left + TILE_BYTES).step_by(TILE_BYTES) {
            let to = self.to.wrapping_add(at).cast::<[u8; TILE_BYTES]>();
            // SAFETY: `left` and the padding of the last tile cover the bytes; the write is
            // unaligned.
            unsafe { to.write_unaligned([0; TILE_BYTES]) };
        }
    }
}

/// Returns the first `V` vectors of accumulators.
#[inline(always)]
pub(crate) fn vectors<S: Bytes, const V: usize>(s: S, sums: &[i32; WIDE]) -> [Vector<S>; V] {
    let mut vectors = [s.level().splat_i32(0); V];
    for (v, vector) in vectors.iter_mut().enumerate() {
        *vector = s.load_sums(&sums[v * S::LANES..]);
    }
    vectors
}
