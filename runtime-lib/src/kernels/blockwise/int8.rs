//! Block-quantized weights times rows that are quantized to 8 bits, as `MatMulNBits` does with
//! `accuracy_level` 4.
//!
//! The elements of a row that meet one block of weights share the scale `largest / 127`, so a block
//! contributes `(Σ q · code - zero_point · Σ q) · row_scale · scale`, whose sums are exact.
//!
//! A word has `PER_WORD / 4` groups of four codes, one in each byte: a mask selects the first
//! group, and a shift moves the next one to its place. The rows are in the same order: each of
//! their words has the four elements of one group.

use super::codes::Integers;
use super::{COLS, Weights};
use crate::simd::int8::{Bytes, Vector, WithBytes, dispatch_bytes};
use crate::simd::{Simd, WithSimd, dispatch};
use crate::threads::{By, Piece, Share};
use core::marker::PhantomData;

/// The largest number of codes in a word.
const MOST_PER_WORD: usize = 16;

/// Returns the words of a quantized row of `k` elements.
pub(super) const fn row_words(k: usize) -> usize {
    k.next_multiple_of(MOST_PER_WORD) / 4
}

/// Computes `y = a · weights + bias`. `scratch` has [`row_words`] elements and two for each block,
/// for each row.
pub(super) fn multiply<C: Integers>(
    a: &[f32],
    weights: &Weights<'_, C>,
    bias: Option<&[f32]>,
    y: &mut [f32],
    scratch: &mut [f32],
) {
    let geometry = weights.geometry;
    let (n, k, blocks) = (geometry.n, geometry.k, geometry.blocks());
    let m = a.len() / k.max(1);
    let (words, scratch) = scratch.split_at_mut(m * row_words(k));
    let (scales, sums) = scratch.split_at_mut(m * blocks);
    let rows = a.chunks_exact(k.max(1)).zip(words.chunks_exact_mut(row_words(k).max(1)));
    let scaled = scales.chunks_exact_mut(blocks.max(1)).zip(sums.chunks_exact_mut(blocks.max(1)));
    for ((x, words), (scales, sums)) in rows.zip(scaled) {
        let block = geometry.block;
        dispatch(QuantizeRow::<C> { x, words, scales, sums, block, codes: PhantomData });
    }
    let rows = Rows { words, scales, sums: &sums[..m * blocks], k, blocks };
    // An instruction multiplies four numbers per lane.
    let cost = m * n * k / 8;
    Share::of(y, n).hand_out(COLS, By::Rows, cost, |piece| {
        dispatch_bytes(Tiles { rows, weights: *weights, bias, piece });
    });
}

/// Quantizes a row to 8 bits.
struct QuantizeRow<'a, 'y, C> {
    x: &'a [f32],
    /// The bits of four quantized elements each.
    words: &'y mut [f32],
    /// The scales of the blocks.
    scales: &'y mut [f32],
    /// The sums of the quantized elements of the blocks.
    sums: &'y mut [f32],
    block: usize,
    codes: PhantomData<C>,
}

/// 1.5 · 2²³: adding it rounds to the nearest integer, ties to even, which is then in the low bits.
const ROUNDS: f32 = 12_582_912.0;

impl<C: Integers> WithSimd for QuantizeRow<'_, '_, C> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        let blocks = self.x.chunks(self.block).zip(self.words.chunks_mut(self.block / 4));
        let scales = self.scales.iter_mut().zip(self.sums);
        for ((x, words), (scale, sum)) in blocks.zip(scales) {
            // Without their sign, the bits of numbers are in the order of the numbers, and NaN is
            // the largest.
            let bits = x.iter().map(|x| x.to_bits() & !(1 << 31));
            let largest = f32::from_bits(bits.fold(0, u32::max));
            let inverse = if largest == 0.0 { 0.0 } else { 127.0 / largest };
            *scale = largest / 127.0;
            *sum = quantize_block::<C>(x, inverse, words) as f32;
        }
    }
}

/// Writes the elements of a block times `factor`, rounded to bytes, and returns their sum.
#[inline(always)]
fn quantize_block<C: Integers>(x: &[f32], factor: f32, words: &mut [f32]) -> i32 {
    let round = |x: f32| (x * factor + ROUNDS).to_bits() as u8;
    let mut total = 0;
    let mut write = |word: &mut f32, bytes: [u8; 4]| {
        total += bytes.iter().map(|&byte| i32::from(byte as i8)).sum::<i32>();
        *word = f32::from_bits(u32::from_le_bytes(bytes));
    };
    let whole = x.chunks_exact(C::PER_WORD);
    let rest = whole.remainder();
    let mut words = words.chunks_exact_mut(C::GROUPS);
    for (x, words) in whole.zip(&mut words) {
        for (j, word) in words.iter_mut().enumerate() {
            write(word, core::array::from_fn(|b| round(x[b * C::GROUPS + j])));
        }
    }
    if let (false, Some(words)) = (rest.is_empty(), words.next()) {
        for (j, word) in words.iter_mut().enumerate() {
            let element = |b| rest.get(b * C::GROUPS + j).map_or(0, |&x| round(x));
            write(word, core::array::from_fn(element));
        }
    }
    total
}

/// Quantized rows.
#[derive(Clone, Copy)]
struct Rows<'a> {
    words: &'a [f32],
    scales: &'a [f32],
    sums: &'a [f32],
    k: usize,
    blocks: usize,
}

impl<'a> Rows<'a> {
    /// Returns the words of a row.
    #[inline(always)]
    fn words(&self, row: usize) -> &'a [f32] {
        let len = row_words(self.k);
        &self.words[row * len..][..len]
    }

    /// Returns the scales of a row, and the sums of its blocks.
    #[inline(always)]
    fn scales(&self, row: usize) -> [&'a [f32]; 2] {
        [self.scales, self.sums].map(|of| &of[row * self.blocks..][..self.blocks])
    }
}

/// Some rows times some panels of weights.
struct Tiles<'a, 'y, C> {
    rows: Rows<'a>,
    weights: Weights<'a, C>,
    bias: Option<&'a [f32]>,
    piece: Piece<'y, f32>,
}

impl<C: Integers> WithBytes for Tiles<'_, '_, C> {
    #[inline(always)]
    fn run<S: Bytes>(self, s: S) {
        match S::LANES {
            16 => self.panels::<S, 1, 8, 4, 2>(s),
            8 => self.panels::<S, 2, 2, 2, 2>(s),
            _ => self.panels::<S, 4, 1, 1, 1>(s),
        }
    }
}

impl<C: Integers> Tiles<'_, '_, C> {
    /// Multiplies by the panels, whose rows are `V` vectors. A tile has `A`, `B`, `D` or 1 rows.
    #[inline(always)]
    fn panels<S: Bytes, const V: usize, const A: usize, const B: usize, const D: usize>(
        mut self,
        s: S,
    ) {
        for panel in self.piece.rows.clone() {
            let mut row = self.piece.planes.start;
            while row < self.piece.planes.end {
                row += match self.piece.planes.end - row {
                    left if left >= A => self.tile::<S, V, A>(s, row, panel),
                    left if left >= B => self.tile::<S, V, B>(s, row, panel),
                    left if left >= D => self.tile::<S, V, D>(s, row, panel),
                    _ => self.tile::<S, V, 1>(s, row, panel),
                };
            }
        }
    }

    /// Computes the elements of `R` rows and the columns of a panel. Returns the number of rows.
    #[inline(always)]
    fn tile<S: Bytes, const V: usize, const R: usize>(
        &mut self,
        s: S,
        row: usize,
        panel: usize,
    ) -> usize {
        let l = s.level();
        let sums = tile_sums::<S, C, V, R>(s, &self.rows, row, &self.weights, panel);
        let first = (panel - self.piece.rows.start) * COLS;
        for (r, sums) in sums.into_iter().enumerate() {
            let y = &mut self.piece.y.plane(row + r - self.piece.planes.start)[first..];
            for (v, sum) in sums.into_iter().enumerate() {
                let lanes = v * S::LANES..((v + 1) * S::LANES).min(y.len());
                if lanes.is_empty() {
                    break;
                }
                let sum = match self.bias {
                    Some(bias) => {
                        let bias = &bias[panel * COLS..][lanes.clone()];
                        l.add(sum, l.load_head(bias))
                    }
                    None => sum,
                };
                l.store_head(sum, &mut y[lanes]);
            }
        }
        R
    }
}

/// The accumulators of `R` rows of `V` vectors.
type Sums<S, const V: usize, const R: usize> = [[<<S as Bytes>::Level as Simd>::F32; V]; R];

/// Returns the products of `R` rows and the columns of a panel.
#[inline(always)]
fn tile_sums<S: Bytes, C: Integers, const V: usize, const R: usize>(
    s: S,
    rows: &Rows<'_>,
    row: usize,
    weights: &Weights<'_, C>,
    panel: usize,
) -> Sums<S, V, R> {
    let l = s.level();
    let block = weights.geometry.block;
    let mut total = [[l.splat(0.0); V]; R];
    let x: [_; R] = core::array::from_fn(|r| rows.words(row + r));
    let scaled: [_; R] = core::array::from_fn(|r| rows.scales(row + r));
    let (words, _) = weights.panel(panel).as_chunks::<COLS>();
    for (i, words) in words.chunks(block / C::PER_WORD).enumerate() {
        let x = x.map(|x| &x[i * (block / 4)..][..words.len() * C::GROUPS]);
        let products = block_products::<S, C, V, R>(s, x, words, weights.codes);
        let (scales, zeros) = (weights.scales(panel, i), weights.zeros(panel, i));
        for (v, lanes) in (0..V).map(|v| (v, v * S::LANES..(v + 1) * S::LANES)) {
            let (scales, zeros) = (l.load(&scales[lanes.clone()]), l.load(&zeros[lanes]));
            for r in 0..R {
                let [row_scales, sums] = scaled[r];
                let product = l.to_f32(products[r][v]);
                let centered = l.mul_add(zeros, l.splat(-sums[i]), product);
                let scale = l.mul(scales, l.splat(row_scales[i]));
                total[r][v] = l.mul_add(centered, scale, total[r][v]);
            }
        }
    }
    total
}

/// Returns `Σ q · code` for `R` rows and the columns of a block.
#[inline(always)]
fn block_products<S: Bytes, C: Integers, const V: usize, const R: usize>(
    s: S,
    x: [&[f32]; R],
    words: &[[f32; COLS]],
    codes: C,
) -> [[Vector<S>; V]; R] {
    let l = s.level();
    let mut sums = [[l.splat_i32(0); V]; R];
    let mask = l.splat_i32(C::MASK);
    for (w, words) in words.iter().enumerate() {
        let mut vectors: [_; V] =
            core::array::from_fn(|v| l.bits(l.load(&words[v * S::LANES..(v + 1) * S::LANES])));
        for group in 0..C::GROUPS {
            for (v, vector) in vectors.iter_mut().enumerate() {
                let unsigned = if C::GROUPS == 1 { *vector } else { l.and_i32(*vector, mask) };
                for (sums, x) in sums.iter_mut().zip(x) {
                    let x = l.bits(l.splat(x[w * C::GROUPS + group]));
                    sums[v] = s.dot(sums[v], unsigned, x);
                }
                *vector = codes.shift(l, *vector);
            }
        }
    }
    sums
}
