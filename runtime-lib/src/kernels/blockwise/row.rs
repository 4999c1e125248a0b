//! A single row times block-quantized weights. Memory bandwidth is the limit, so the codes are
//! decoded in registers.

use super::{COLS, Codes, Weights};
use crate::simd::{Simd, WithSimd, dispatch};
use crate::threads;

/// Computes `y = x · weights + bias`. `scratch` has an element for each block of rows.
pub(super) fn multiply<C: Codes>(
    x: &[f32],
    weights: &Weights<'_, C>,
    bias: Option<&[f32]>,
    y: &mut [f32],
    scratch: &mut [f32],
) {
    let block = weights.geometry.block;
    let sums = &mut scratch[..weights.geometry.blocks()];
    sums.iter_mut().zip(x.chunks(block)).for_each(|(sum, x)| *sum = x.iter().sum());
    let sums = &*sums;
    // Each code is read once, and nothing is written for it.
    let cost = y.len() * x.len() / 4;
    threads::share(y, COLS, cost, |first, y| {
        let bias = bias.map(|bias| &bias[first * COLS..][..y.len()]);
        dispatch(Row { x, sums, weights: *weights, first, bias, y });
    });
}

/// A row times some panels of weights.
struct Row<'a, 'y, C> {
    x: &'a [f32],
    /// The sums of the elements of `x` by block.
    sums: &'a [f32],
    weights: Weights<'a, C>,
    /// The first panel.
    first: usize,
    bias: Option<&'a [f32]>,
    y: &'y mut [f32],
}

impl<C: Codes> WithSimd for Row<'_, '_, C> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        match S::LANES {
            16 => self.panels::<S, 1>(s),
            8 => self.panels::<S, 2>(s),
            _ => self.panels::<S, 4>(s),
        }
    }
}

/// The number of rows with separate accumulators, to hide the latency of additions.
const CHAINS: usize = 4;

impl<C: Codes> Row<'_, '_, C> {
    /// Multiplies by the panels, whose rows are `V` vectors.
    #[inline(always)]
    fn panels<S: Simd, const V: usize>(self, s: S) {
        for (i, y) in self.y.chunks_mut(COLS).enumerate() {
            let sums = panel_sums::<S, C, V>(s, self.x, self.sums, &self.weights, self.first + i);
            match self.bias {
                Some(bias) => {
                    let bias = &bias[i * COLS..];
                    y.iter_mut().zip(sums).zip(bias).for_each(|((y, sum), bias)| *y = sum + bias);
                }
                None => y.copy_from_slice(&sums[..y.len()]),
            }
        }
    }
}

/// Returns the products of `x` and the columns of a panel.
///
/// A block contributes `(Σ x · number(code) - zero_point · Σ x) · scale`.
#[inline(always)]
fn panel_sums<S: Simd, C: Codes, const V: usize>(
    s: S,
    x: &[f32],
    sums: &[f32],
    weights: &Weights<'_, C>,
    panel: usize,
) -> [f32; COLS] {
    let block = weights.geometry.block;
    let mut total = [s.splat(0.0); V];
    let words = weights.panel(panel).chunks(block / C::PER_WORD * COLS);
    for (i, (x, words)) in x.chunks(block).zip(words).enumerate() {
        let products = block_products::<S, C, V>(s, x, words, weights.codes);
        let (scales, zeros) = (weights.scales(panel, i), weights.zeros(panel, i));
        let sum = s.splat(-sums[i]);
        for (v, total) in total.iter_mut().enumerate() {
            let lanes = v * S::LANES..(v + 1) * S::LANES;
            let zeros = s.load(&zeros[lanes.clone()]);
            let centered = s.mul_add(zeros, sum, products[v]);
            *total = s.mul_add(centered, s.load(&scales[lanes]), *total);
        }
    }
    let mut y = [0.0; COLS];
    for (v, total) in total.into_iter().enumerate() {
        s.store(total, &mut y[v * S::LANES..(v + 1) * S::LANES]);
    }
    y
}

/// Returns `Σ x · number(code)` for the columns of a block.
#[inline(always)]
fn block_products<S: Simd, C: Codes, const V: usize>(
    s: S,
    x: &[f32],
    words: &[f32],
    codes: C,
) -> [S::F32; V] {
    let mut sums = [[s.splat(0.0); V]; CHAINS];
    let (words, _) = words.as_chunks::<COLS>();
    let whole = x.chunks_exact(C::PER_WORD);
    let rest = whole.remainder();
    for (x, words) in whole.zip(words) {
        add_word::<S, C, V>(s, x, words, codes, &mut sums);
    }
    if let (false, Some(words)) = (rest.is_empty(), words.last()) {
        // The largest number of codes in a word.
        let mut padded = [0.0; 16];
        padded[..rest.len()].copy_from_slice(rest);
        add_word::<S, C, V>(s, &padded[..C::PER_WORD], words, codes, &mut sums);
    }
    let [first, second, third, fourth] = sums;
    let mut products = first;
    for (v, product) in products.iter_mut().enumerate() {
        *product = s.add(s.add(first[v], second[v]), s.add(third[v], fourth[v]));
    }
    products
}

/// Adds the products of the elements of `x` and the codes of a row of words.
#[inline(always)]
fn add_word<S: Simd, C: Codes, const V: usize>(
    s: S,
    x: &[f32],
    words: &[f32; COLS],
    codes: C,
    sums: &mut [[S::F32; V]; CHAINS],
) {
    let mut vectors = [s.splat_i32(0); V];
    for (v, vector) in vectors.iter_mut().enumerate() {
        *vector = s.bits(s.load(&words[v * S::LANES..(v + 1) * S::LANES]));
    }
    for (r, &x) in x.iter().enumerate() {
        let x = s.splat(x);
        for (v, vector) in vectors.iter_mut().enumerate() {
            let numbers = codes.numbers(s, *vector);
            sums[r % CHAINS][v] = s.mul_add(x, numbers, sums[r % CHAINS][v]);
            *vector = codes.shift(s, *vector);
        }
    }
}
