//! `Attention`: the softmax of `scale · q · kᵀ + mask`, times `v`, for each head.
//!
//! Some rows of queries are worked on at a time. Their scores with the keys that they may attend
//! stand in scratch memory of the caller, become weights there, and are multiplied with the
//! values. [`attention_scratch`] says how much memory that takes. Where nothing is to be rounded on the
//! way, and no stage of it is asked for, the mask is added while the largest score is looked for, and it
//! is the results that are divided by the sum of the weights: values are to stay below the largest number
//! by the number of keys.
//!
//! Keys that no row of a block attends are not read, so what stands behind the length of a
//! sequence may be anything. 16-bit elements are multiplied in `f32`, and every tensor of the
//! function by which ONNX defines the operator is rounded to its own type.
//!
//! In `f32` the relative error of results is at most `1e-6 √K` for `K` keys and values of one sign.

mod block;
mod cache;
mod linear;
mod rotary;
mod rows;
mod scaled;
#[cfg(all(test, feature = "std"))]
pub(crate) mod tests;

pub use cache::{Append, CachedAttentionOperands, append, attention_cached_f32};
pub use linear::{
    LinearAttention, LinearAttentionOperands, linear_attention, linear_attention_scratch,
};
pub use rotary::{
    Rotary, rotary_embedding, rotary_embedding_in_place, rotary_embedding_interleaved,
    rotary_embedding_interleaved_in_place,
};
pub use scaled::scaled;

use crate::Float;
use crate::microkernel::{GemmElem, scratch};
use crate::threads::{self, Scratch};
use block::{Kind, Part, run};

/// The sizes of an attention, and what it attends.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Attention {
    /// How many sequences there are.
    pub batch: usize,
    /// Heads of keys and values.
    pub heads: usize,
    /// Heads of queries that share each of them.
    pub group: usize,
    /// Queries of a head.
    pub queries: usize,
    /// Keys and values of a head.
    pub keys: usize,
    /// Elements of a query and of a key.
    pub depth: usize,
    /// Elements of a value.
    pub width: usize,
    /// How far a sequence, a head and a row of the queries start from the next.
    pub q: [usize; 3],
    /// The same of the keys.
    pub k: [usize; 3],
    /// The same of the values.
    pub v: [usize; 3],
    /// The same of the results.
    pub y: [usize; 3],
    /// The same of the mask, by the heads of queries; 0 where it is broadcast.
    pub mask: [usize; 3],
    /// How many keys the mask knows; those behind them are not attended.
    pub mask_len: usize,
    /// How many keys stand before the first query's own, where no lengths are given.
    pub past: usize,
    /// How many keys before its own a query attends; all where there is no bound.
    pub left: Option<usize>,
    /// How many keys behind its own a query attends.
    pub right: Option<usize>,
    /// The factor of the products; `1 / √depth` where there is none.
    pub scale: Option<f32>,
    /// What the scores stay below, by a hyperbolic tangent; 0 for no bound.
    pub softcap: f32,
    /// How the weights are calculated.
    pub precision: Precision,
    /// What is written to the output for scores.
    pub stage: Stage,
    /// How many rows are worked on at a time.
    pub rows: usize,
}

/// How weights are calculated from scores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Precision {
    /// In the wide type, and rounded to the type of the elements.
    Wide,
    /// In the wide type, in which they are multiplied with the values, too.
    Through,
    /// In `f64`, and rounded to the type of the elements.
    Double,
    /// With every step rounded to `f32`.
    Single,
    /// With every step rounded to `f16`.
    #[cfg(feature = "half")]
    F16,
    /// With every step rounded to `bf16`.
    #[cfg(feature = "half")]
    BF16,
}

/// A stage on the way from products to weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Products of queries and keys, scaled.
    Products,
    /// Kept below the bound.
    Capped,
    /// With the mask added.
    Masked,
    /// Weights.
    Weights,
}

/// Up to so many rows that share keys, the keys are read where they stand: to pack them would
/// take longer than the products.
const FEW_ROWS: usize = 8;
/// Packed keys take at most so many more than there are.
const PANEL: usize = crate::simd::MAX_LANES;

/// Values that start a multiple of so many bytes apart compete for the same lines of the caches.
const ALIASING: usize = 2048;

impl Attention {
    /// Whether values are copied before they are multiplied; `size` is that of an element, or 0
    /// where elements are not of the wide type.
    const fn copies(&self, size: usize) -> bool {
        let aliases = self.v[2] > self.width && (self.v[2] * size).is_multiple_of(ALIASING);
        size == 0 || aliases && self.shared_rows() > FEW_ROWS
    }

    /// How many rows share a head of keys.
    const fn shared_rows(&self) -> usize {
        self.group * self.queries
    }

    /// Rows of the largest block.
    const fn block_rows(&self) -> usize {
        let (all, rows) = (self.shared_rows(), if self.rows == 0 { 1 } else { self.rows });
        if all < rows { all } else { rows }
    }
}

/// The operands of an attention.
#[derive(Clone, Copy, Debug)]
pub struct AttentionOperands<'a, T> {
    /// The queries.
    pub q: &'a [T],
    /// The keys.
    pub k: &'a [T],
    /// The values.
    pub v: &'a [T],
    /// Added to the scores.
    pub mask: Option<&'a [T]>,
    /// Which keys each query attends to.
    pub allowed: Option<&'a [bool]>,
    /// The number of keys of each sequence.
    pub lengths: Option<&'a [i64]>,
}

/// How many elements of scratch memory an attention wants, in the wide type; `size` is that of an
/// element in bytes, or 0 where elements are not of the wide type.
pub const fn attention_scratch(geometry: &Attention, size: usize) -> usize {
    let Attention { keys, depth, width, .. } = *geometry;
    let rows = geometry.block_rows();
    let packs = size == 0 || geometry.shared_rows() > FEW_ROWS;
    let packed = if packs { (keys + PANEL) * depth } else { 0 };
    let copied = if geometry.copies(size) { keys * width } else { 0 };
    packed + copied + rows * (depth + keys + 1 + width) + product_scratch(geometry)
}

/// The part of [`attention_scratch`] that does not grow with the number of keys without end.
pub const fn product_scratch(geometry: &Attention) -> usize {
    let Attention { keys, depth, width, .. } = *geometry;
    let rows = geometry.block_rows();
    let (scores, results) =
        (scratch(rows, keys, depth, true, false), scratch(rows, width, keys, true, true));
    if scores < results { results } else { scores }
}

/// Computes it, on several threads where that pays.
fn share<T: Float>(
    kind: Kind<T>,
    x: AttentionOperands<'_, T>,
    y: &mut [T],
    scores: Option<&mut [T]>,
    scratch: &mut [T::Wide],
    g: &Attention,
) where
    T::Wide: GemmElem,
{
    let all = Part::all(g);
    let (axis, apart, count) = all.cut(g);
    // Heads that share keys may lie outside of the queries.
    if scores.is_some() || apart == 0 || apart * count != y.len() {
        return run(kind, x, y, scores, scratch, (g, all));
    }
    let scratch = Scratch::new(scratch);
    let cost = y.len() * g.keys * 2 / threads::MACS_PER_ELEMENT;
    threads::share(y, apart, cost, |first, y| {
        let part = all.of(axis, first, y.len().div_ceil(apart));
        scratch.with(|scratch| run(kind, x, y, None, scratch, (g, part)));
    });
}

/// Attention of `f32`. A mask is added (`mask`) or says what is attended (`allowed`); of each
/// sequence the first `lengths` keys count. What [`Stage`] says goes to `scores`.
#[inline(never)]
pub fn attention_f32(
    operands: AttentionOperands<'_, f32>,
    y: &mut [f32],
    scores: Option<&mut [f32]>,
    scratch: &mut [f32],
    geometry: Attention,
) {
    let kind = Kind { as_wide: |x| Some(x) };
    share(kind, operands, y, scores, scratch, &geometry);
}

/// [`attention_f32`], of `f64`.
#[inline(never)]
pub fn attention_f64(
    operands: AttentionOperands<'_, f64>,
    y: &mut [f64],
    scores: Option<&mut [f64]>,
    scratch: &mut [f64],
    geometry: Attention,
) {
    let kind = Kind { as_wide: |x| Some(x) };
    share(kind, operands, y, scores, scratch, &geometry);
}

/// [`attention_f32`], of 16-bit elements.
pub fn attention_half<T: Float<Wide = f32>>(
    operands: AttentionOperands<'_, T>,
    y: &mut [T],
    scores: Option<&mut [T]>,
    scratch: &mut [f32],
    geometry: Attention,
) {
    let kind = Kind { as_wide: |_| None };
    share(kind, operands, y, scores, scratch, &geometry);
}
