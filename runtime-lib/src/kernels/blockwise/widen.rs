//! Decodes panels of block-quantized weights to `f32`.

use super::{COLS, Codes, Weights};
use crate::microkernel::{Widen, block_depth};
use crate::simd::{Simd, WithSimd, dispatch};

impl<C: Codes> Widen for Weights<'_, C> {
    /// Decodes whole panels of one block of rows, in the order of `pack_b`.
    fn widen(&self, first: usize, to: &mut [f32]) {
        let (k, across) = (self.geometry.k, self.geometry.n.next_multiple_of(COLS));
        let depth = block_depth(k);
        let row = first / (across * depth) * depth;
        let rows = depth.min(k - row);
        let panel = (first - row * across) / (COLS * rows);
        for (i, y) in to.chunks_exact_mut(COLS * rows).enumerate() {
            dispatch(Panel { weights: *self, panel: panel + i, row, y });
        }
    }
}

/// Rows of a panel.
struct Panel<'a, 'y, C> {
    weights: Weights<'a, C>,
    panel: usize,
    /// The first row.
    row: usize,
    y: &'y mut [f32],
}

impl<C: Codes> WithSimd for Panel<'_, '_, C> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        match S::LANES {
            16 => self.decode::<S, 1>(s),
            8 => self.decode::<S, 2>(s),
            _ => self.decode::<S, 4>(s),
        }
    }
}

impl<C: Codes> Panel<'_, '_, C> {
    #[inline(always)]
    fn decode<S: Simd, const V: usize>(self, s: S) {
        let Panel { weights, panel, row, y } = self;
        let (words, _) = weights.panel(panel).as_chunks::<COLS>();
        let (mut y, _) = y.as_chunks_mut::<COLS>();
        let (mut row, block) = (row, weights.geometry.block);
        while !y.is_empty() {
            let i = row / block;
            let here = ((i + 1) * block - row).min(y.len());
            let (rows, rest) = y.split_at_mut(here);
            let (scales, zeros) = (weights.scales(panel, i), weights.zeros(panel, i));
            let scales = [scales, &zeros];
            decode_block::<S, C, V>(s, (words, row), scales, weights.codes, rows);
            (y, row) = (rest, row + here);
        }
    }
}

/// Decodes the rows from `row` on, all of one block.
#[inline(always)]
fn decode_block<S: Simd, C: Codes, const V: usize>(
    s: S,
    (words, row): (&[[f32; COLS]], usize),
    [scales, zeros]: [&[f32; COLS]; 2],
    codes: C,
    y: &mut [[f32; COLS]],
) {
    let mut scale = [[s.splat(0.0); 2]; V];
    for (v, scale) in scale.iter_mut().enumerate() {
        let lanes = v * S::LANES..(v + 1) * S::LANES;
        *scale = [s.load(&scales[lanes.clone()]), s.load(&zeros[lanes])];
    }
    // A block of rows may start and end within a word.
    let skipped = row % C::PER_WORD;
    let head = if skipped == 0 { 0 } else { (C::PER_WORD - skipped).min(y.len()) };
    let (head, whole) = y.split_at_mut(head);
    let words = &words[row / C::PER_WORD..];
    decode_word::<S, C, V>(s, &words[0], skipped, &scale, codes, head);
    let words = &words[usize::from(skipped > 0)..];
    let mut whole = whole.chunks_exact_mut(C::PER_WORD);
    let mut at = words.iter();
    for (y, words) in (&mut whole).zip(&mut at) {
        decode_word::<S, C, V>(s, words, 0, &scale, codes, y);
    }
    if let Some(words) = at.next() {
        decode_word::<S, C, V>(s, words, 0, &scale, codes, whole.into_remainder());
    }
}

/// Decodes rows of one word, after the first `skipped`.
#[inline(always)]
fn decode_word<S: Simd, C: Codes, const V: usize>(
    s: S,
    words: &[f32; COLS],
    skipped: usize,
    scale: &[[S::F32; 2]; V],
    codes: C,
    y: &mut [[f32; COLS]],
) {
    for (v, [scale, zero]) in scale.iter().enumerate() {
        let lanes = v * S::LANES..(v + 1) * S::LANES;
        let mut vector = s.bits(s.load(&words[lanes.clone()]));
        for _ in 0..skipped {
            vector = codes.shift(s, vector);
        }
        for y in &mut *y {
            let centered = s.sub(codes.numbers(s, vector), *zero);
            s.store(s.mul(centered, *scale), &mut y[lanes.clone()]);
            vector = codes.shift(s, vector);
        }
    }
}
