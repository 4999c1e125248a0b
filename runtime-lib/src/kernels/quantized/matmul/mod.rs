//! Products of an 8-bit matrix with constant weights.

mod dynamic;
#[cfg(x86_avx512)]
mod tiles;

pub use dynamic::{DynamicMatMulOperands, dynamic_matmul};

use super::{
    ALIGN, Channels, Int8Operands, Limits, Requantize, ZeroPointOperands, join, quad, scale,
    scale_each, scaled_byte, split_aligned,
};
use crate::microkernel::int8_operands::{Int8Block, Int8Epilogue, LeftOperand};
use crate::simd::Simd;
use crate::simd::int8 as quads;
use crate::simd::int8::{
    Byte, Bytes, MAX_SUMS, Vector, WithBytes, add_row_products, dispatch_bytes,
};
use crate::threads::{self, Scratch};

/// The sizes of a product.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Product {
    /// The number of rows of the result.
    pub m: usize,
    /// The number of columns of the result.
    pub n: usize,
    /// The number of products that each element sums.
    pub k: usize,
}

/// The number of columns in a panel of weights. The last panel has the remaining columns, padded to
/// a multiple of [`COLUMNS`].
const PANEL: usize = 64;
/// The number of columns in a panel is a multiple of this.
const COLUMNS: usize = MAX_SUMS;
/// The number of rows that are copied together.
const ROWS: usize = 96;
/// The number of rows from which on [`matmul_scratch`] is constant.
pub const MOST_ROWS: i64 = ROWS as i64;

const fn at_most(x: usize, most: usize) -> usize {
    if x < most { x } else { most }
}

/// Returns the length of the scratch buffer, in bytes.
pub const fn matmul_scratch(geometry: &Product) -> usize {
    at_most(geometry.m, ROWS) * packed_columns_depth(geometry.k) + ALIGN
}

/// Returns the number of bytes of a packed column with `k` elements.
pub const fn packed_columns_depth(k: usize) -> usize {
    k.next_multiple_of(4)
}

/// Returns the number of bytes that [`pack_columns`] writes.
pub const fn packed_columns_len(geometry: &Product) -> usize {
    packed_columns_depth(geometry.k) * geometry.n.next_multiple_of(COLUMNS)
}

/// Packs weights with the strides of rows and columns into panels of columns: for each four rows,
/// the four bytes of one column after those of another.
pub fn pack_columns<T: Copy + Default>(
    w: &[T],
    y: &mut [T],
    geometry: &Product,
    [row, col]: [usize; 2],
) {
    y.fill(T::default());
    let depth = packed_columns_depth(geometry.k);
    for j in 0..geometry.n {
        let first = j / PANEL * PANEL;
        let width = (geometry.n - first).next_multiple_of(COLUMNS).min(PANEL);
        let to = first * depth + (j - first) * 4;
        // Plain indices are faster in unoptimized build scripts, which compile models too.
        let (mut k, mut at) = (0, j * col);
        while k < geometry.k {
            y[to + k / 4 * 4 * width + k % 4] = w[at];
            (k, at) = (k + 1, at + row);
        }
    }
}

/// `y = (x - x_zero) · w`, requantized. The weights are packed by [`pack_columns`] and have no zero
/// point. The bias includes `-x_zero` times the sum of the weights, for unsigned `x`.
#[inline(always)]
pub fn matmul<X: Byte, Y: Byte>(
    operands: Int8Operands<'_, X>,
    y: &mut [Y],
    scratch: &mut [u8],
    geometry: Product,
    to: Requantize,
) {
    multiply(operands, &[], y, scratch, geometry, to);
}

/// `y = (x - x_zero) · (w - w_zero)`, requantized. The weights are packed by [`pack_columns`]. The
/// bias includes `-x_zero` times the sum of the weights without their zero point, for unsigned `x`.
#[inline(always)]
pub fn matmul_with_zeros<X: Byte, Y: Byte>(
    operands: ZeroPointOperands<'_, X>,
    y: &mut [Y],
    scratch: &mut [u8],
    geometry: Product,
    to: Requantize,
) {
    let (operands, zeros) = operands.split();
    multiply(operands, zeros, y, scratch, geometry, to);
}

#[inline(never)]
fn multiply<X: Byte, Y: Byte>(
    operands: Int8Operands<'_, X>,
    w_zero: &[i32],
    y: &mut [Y],
    scratch: &mut [u8],
    geometry: Product,
    to: Requantize,
) {
    let Int8Operands { x, w, bias, factor, offset } = operands;
    let channels = Channels::new(bias, factor, offset);
    let (x, flip, w) = (X::bits(x), X::FLIP, i8::bits(w));
    let product = Multiply { x, flip, w, needs_sums: !w_zero.is_empty(), geometry };
    product.share(Y::bits_mut(y), scratch, |product, first, y, scratch| {
        let (channels, w_zero) = (channels.from(first), from(w_zero, first));
        let results = ToBytes { y, channels, w_zero, to, flip: Y::FLIP };
        dispatch_bytes(Work { product, results, scratch });
    });
}

#[derive(Clone, Copy)]
struct Multiply<'a> {
    x: &'a [u8],
    flip: u8,
    w: &'a [u8],
    /// Whether the results depend on the sums of the rows of `x`: with zero points of the weights,
    /// `Σ x · (w - w_zero) = Σ x · w - w_zero · Σ x`.
    needs_sums: bool,
    geometry: Product,
}

impl<'a> Multiply<'a> {
    /// Splits the product between threads if that pays: by rows, or by columns if there is one row.
    /// `part` receives the first column of its part.
    fn share<Y: Send>(
        self,
        y: &mut [Y],
        scratch: &mut [u8],
        part: impl Fn(Multiply<'a>, usize, &mut [Y], &mut [u8]) + Sync,
    ) {
        /// The number of rows of a part is a multiple of the number of rows of a tile.
        const TILE: usize = 12;
        let Product { m, n, k } = self.geometry;
        let scratch = Scratch::new(scratch);
        let products = m * n * k / (4 * threads::MACS_PER_ELEMENT);
        if m > 1 {
            return threads::share(y, TILE * n, products, |first, y| {
                let x = &self.x[first * TILE * k..];
                let geometry = Product { m: y.len().checked_div(n).unwrap_or(0), n, k };
                let product = Multiply { x, geometry, ..self };
                scratch.with(|scratch| part(product, 0, y, scratch));
            });
        }
        // Each weight is read once, and no copy of it is written.
        threads::share(y, PANEL, n * k / 8, |first, y| {
            let w = &self.w[first * PANEL * packed_columns_depth(k)..];
            let product = Multiply { w, geometry: Product { m, n: y.len(), k }, ..self };
            scratch.with(|scratch| part(product, first * PANEL, y, scratch));
        });
    }
}

struct Work<'a, R> {
    product: Multiply<'a>,
    results: R,
    scratch: &'a mut [u8],
}

/// The destination of a product's accumulators.
trait Results {
    /// Returns the epilogue of the rows from `first` on, whose sums are `rows`, if they are needed.
    fn end<S: Bytes>(
        &mut self,
        s: S,
        geometry: Product,
        first: usize,
        rows: [i32; ROWS],
    ) -> impl Int8Epilogue<S>;
    /// The initial accumulator of column `j` in a row with the sum `row`.
    fn start(&self, j: usize, row: i32) -> i32;
    /// Stores the accumulator of column `j` as element `at` of the result.
    fn take(&mut self, at: usize, j: usize, sum: i32);
}

impl<R: Results> Work<'_, R> {
    /// Computes four columns at a time, without vectors.
    #[inline(always)]
    fn run_scalar(mut self) {
        let Multiply { x, flip, w, geometry, needs_sums } = self.product;
        let Product { m, n, k } = geometry;
        let (weights, _) = w.as_chunks::<4>();
        for i in 0..m {
            let row = &x[i * k..][..k];
            let summed = if needs_sums { row } else { &[] };
            let row_sum = summed.iter().map(|&x| i32::from(x ^ flip)).sum();
            for j in (0..n).step_by(quads::COLUMNS) {
                let panel = j / PANEL * PANEL;
                let width = (n - panel).next_multiple_of(COLUMNS).min(PANEL);
                let weights = &weights[panel * packed_columns_depth(k) / 4 + (j - panel)..];
                let columns = j..n.min(j + quads::COLUMNS);
                let mut sums = [0; quads::COLUMNS];
                for (sum, j) in sums.iter_mut().zip(columns.clone()) {
                    *sum = self.results.start(j, row_sum);
                }
                add_row_products(row, flip, weights, width, &mut sums);
                for (&sum, j) in sums.iter().zip(columns) {
                    self.results.take(i * n + j, j, sum);
                }
            }
        }
    }
}

impl<R: Results> WithBytes for Work<'_, R> {
    #[inline(always)]
    fn run<S: Bytes>(mut self, s: S) {
        if S::IS_SCALAR {
            return self.run_scalar();
        }
        let Multiply { x, flip, w, geometry, needs_sums } = self.product;
        let Product { m, n, k } = geometry;
        let mut sums = [0; ROWS];
        let depth = packed_columns_depth(k);
        #[cfg(x86_avx512)]
        if S::TILES && tiles::pay(self.product) {
            return s.run(tiles::ByTiles { of: self.product, results: self.results });
        }
        for i in (0..m).step_by(ROWS) {
            let rows = ROWS.min(m - i);
            let (copy, _) = split_aligned(self.scratch, rows * depth);
            let copies = copy.chunks_exact_mut(depth.max(1)).zip(&mut sums);
            for (row, (to, row_sum)) in (i..i + rows).zip(copies) {
                fill(s, &x[row * k..][..k], flip, to);
                if needs_sums {
                    // The padding of the last quad counts as zeros, which are flipped too.
                    *row_sum = sum(s, to) - i32::from(flip) * (depth - k) as i32;
                }
            }
            let mut end = self.results.end(s, geometry, i, sums);
            for j in (0..n).step_by(PANEL) {
                let width = (n - j).next_multiple_of(COLUMNS).min(PANEL);
                let right = &w[j * depth..][..width * depth];
                let left = LeftOperand::Rows(copy);
                let block = Int8Block { m: rows, quads: depth / 4, left, right, width, first: j };
                block.run(s, &mut end);
            }
        }
    }
}

/// Copies a row as unsigned bytes.
#[inline(always)]
fn fill<S: Bytes>(s: S, row: &[u8], flip: u8, to: &mut [u8]) {
    let mask = s.level().splat_i32(quad(flip));
    for (from, to) in row.chunks(4 * S::LANES).zip(to.chunks_mut(4 * S::LANES)) {
        s.store_bytes(s.xor(s.load_bytes(from), mask), to);
    }
}

/// Returns the sum of unsigned bytes.
#[inline(always)]
fn sum<S: Bytes>(s: S, bytes: &[u8]) -> i32 {
    let (ones, mut sums) = (s.level().splat_i32(quad(1)), s.level().splat_i32(0));
    for bytes in bytes.chunks(4 * S::LANES) {
        sums = s.dot(sums, s.load_bytes(bytes), ones);
    }
    let mut each = [0; MAX_SUMS];
    s.store_sums(sums, &mut each);
    each.iter().sum()
}

struct ToBytes<'a> {
    y: &'a mut [u8],
    channels: Channels<'a>,
    w_zero: &'a [i32],
    to: Requantize,
    flip: u8,
}

impl Results for ToBytes<'_> {
    #[inline(always)]
    fn end<S: Bytes>(
        &mut self,
        s: S,
        geometry: Product,
        first: usize,
        rows: [i32; ROWS],
    ) -> impl Int8Epilogue<S> {
        let y = &mut self.y[first * geometry.n..];
        let limits = Limits::new(s, self.to, self.flip);
        let (channels, w_zero) = (self.channels, self.w_zero);
        BytesEpilogue { y, n: geometry.n, channels, w_zero, rows, limits }
    }

    #[inline(always)]
    fn start(&self, j: usize, row: i32) -> i32 {
        let zero = self.w_zero.get(j).copied().unwrap_or(0);
        self.channels.bias[j].wrapping_sub(zero.wrapping_mul(row))
    }

    #[inline(always)]
    fn take(&mut self, at: usize, j: usize, sum: i32) {
        let (bounds, factor) = (self.to.bounds(), self.channels.factor[j]);
        self.y[at] = scaled_byte(sum, factor, self.channels.offset.get(j), bounds);
    }
}

/// Subtracts from accumulators the products of the zero points of their columns and the sum of
/// their row.
#[inline(always)]
fn subtract_products(sums: &mut [i32], zeros: &[i32], row: i32) {
    for (sum, &zero) in sums.iter_mut().zip(zeros) {
        *sum = sum.wrapping_sub(zero.wrapping_mul(row));
    }
}

struct BytesEpilogue<'a, S: Bytes> {
    y: &'a mut [u8],
    n: usize,
    channels: Channels<'a>,
    w_zero: &'a [i32],
    /// The sums of the rows, if the weights have zero points.
    rows: [i32; ROWS],
    limits: Limits<S>,
}

/// Returns `numbers[j..]`, or an empty slice out of bounds.
#[inline(always)]
fn from<T>(numbers: &[T], j: usize) -> &[T] {
    numbers.get(j..).unwrap_or(&[])
}

impl<S: Bytes> Int8Epilogue<S> for BytesEpilogue<'_, S> {
    #[inline(always)]
    fn start(&self, s: S, i: usize, j: usize) -> Vector<S> {
        let bias = from(self.channels.bias, j);
        if self.w_zero.is_empty() {
            return s.load_sums(bias);
        }
        let mut starts = [0; MAX_SUMS];
        starts.iter_mut().zip(bias).for_each(|(start, &bias)| *start = bias);
        subtract_products(&mut starts, from(self.w_zero, j), self.rows[i]);
        s.load_sums(&starts)
    }

    #[inline(always)]
    fn take<const V: usize>(&mut self, s: S, i: usize, j: usize, sums: &[Vector<S>; V]) {
        let l = s.level();
        if S::ROUNDS && j + V * S::LANES <= self.n {
            let bytes = self.channels.bytes(s, self.limits, *sums, |v| j + v * S::LANES);
            let bits = self.limits.bits(s, join(s, bytes));
            return s.store_bytes(bits, &mut self.y[i * self.n + j..][..V * S::LANES]);
        }
        for (v, &sum) in sums.iter().enumerate() {
            let j = j + v * S::LANES;
            let Some(n) = self.n.checked_sub(j).filter(|&n| n > 0) else { return };
            let n = n.min(S::LANES);
            let factors = &self.channels.factor[j..][..n];
            let byte = if let Some(offsets) = self.channels.offset.get(j..j + n) {
                let x = l.mul(l.to_f32(sum), l.load_head(factors));
                self.limits.round(s, l.add(x, l.load_head(offsets)))
            } else if self.channels.plain {
                self.limits.cap(s, scale(s, sum, factors))
            } else {
                self.limits.cap(s, scale_each(s, sum, factors))
            };
            let bits = self.limits.bits(s, byte);
            self.y[i * self.n + j..][..n].copy_from_slice(&s.low_bytes(bits)[..n]);
        }
    }
}
