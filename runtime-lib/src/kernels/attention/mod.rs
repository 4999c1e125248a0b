//! `Attention`: the softmax of `scale · q · kᵀ + mask`, times `v`, for each head.
//!
//! A block of query rows is computed at a time. Its scores with the keys that it may attend are in
//! scratch memory of the caller, become weights in place, and are multiplied by the values.
//! [`attention_scratch`] returns the length of that memory. If no step is rounded and no stage is
//! requested, the mask is added in the same loop that finds the largest score, and the results are
//! divided by the sum of the weights instead of the weights. Values must then be smaller than the
//! largest number divided by the number of keys.
//!
//! Keys that no row of a block attends are not read, so the memory behind the length of a sequence
//! may hold anything. 16-bit elements are multiplied in `f32`, and each tensor of the function that
//! defines the operator in ONNX is rounded to its own type.
//!
//! In `f32`, the relative error of results is at most `1e-6 √K` for `K` keys and values of one
//! sign.

mod block;
mod cache;
mod linear;
mod rotary;
mod rows;
mod scaled;
#[cfg(all(test, feature = "std"))]
pub(crate) mod tests;
mod weights;

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

/// The sizes, strides and options of an attention.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Attention {
    /// The number of sequences.
    pub batch: usize,
    /// The number of heads of keys and values.
    pub heads: usize,
    /// The number of query heads that share each of them.
    pub group: usize,
    /// The number of queries of a head.
    pub queries: usize,
    /// The number of keys and values of a head.
    pub keys: usize,
    /// The number of elements of a query and of a key.
    pub depth: usize,
    /// The number of elements of a value.
    pub width: usize,
    /// The strides of sequences, heads and rows of the queries.
    pub q: [usize; 3],
    /// The strides of the keys.
    pub k: [usize; 3],
    /// The strides of the values.
    pub v: [usize; 3],
    /// The strides of the results.
    pub y: [usize; 3],
    /// The strides of the mask, by heads of queries; 0 along axes that are broadcast.
    pub mask: [usize; 3],
    /// The number of keys that the mask covers; the keys after them are not attended.
    pub mask_len: usize,
    /// The number of keys before the key of the first query, if no lengths are given.
    pub past: usize,
    /// The number of earlier keys that a query attends; `None` is unlimited.
    pub left: Option<usize>,
    /// The number of later keys that a query attends; `None` is unlimited.
    pub right: Option<usize>,
    /// The factor of the products; `1 / √depth` by default.
    pub scale: Option<f32>,
    /// The bound that a hyperbolic tangent imposes on the scores; 0 for none.
    pub softcap: f32,
    /// The precision of the softmax.
    pub precision: Precision,
    /// The stage of the scores that is written.
    pub stage: Stage,
    /// The maximum number of rows of a block.
    pub rows: usize,
}

/// The precision of the weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Precision {
    /// In the wide type, then rounded to the element type.
    Wide,
    /// In the wide type, in which they are multiplied by the values too.
    Through,
    /// In `f64`, then rounded to the element type.
    Double,
    /// Every step is rounded to `f32`.
    Single,
    /// Every step is rounded to `f16`.
    #[cfg(feature = "half")]
    F16,
    /// Every step is rounded to `bf16`.
    #[cfg(feature = "half")]
    BF16,
}

/// A stage between products and weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// The scaled products of queries and keys.
    Products,
    /// The scores after `softcap`.
    Capped,
    /// The scores with the mask added.
    Masked,
    /// The weights.
    Weights,
}

/// The number of rows that share keys up to which keys are not packed: packing would take longer
/// than the products.
const FEW_ROWS: usize = 8;
/// The number of keys by which packing pads at most, and by which rows of scores are moved apart.
const PANEL: usize = crate::simd::MAX_LANES;

/// Values with a row stride that is a multiple of this many bytes compete for the same cache lines.
const ALIASING: usize = 2048;

/// Rows of scores whose length is a multiple of this compete for the same cache lines, too.
const ALIASING_SCORES: usize = 256;

/// Returns the distance between rows of this many scores.
const fn pitch(keys: usize) -> usize {
    if keys > 0 && keys.is_multiple_of(ALIASING_SCORES) { keys + PANEL } else { keys }
}

/// Returns the largest distance between rows of up to this many scores.
const fn largest_pitch(keys: usize) -> usize {
    if keys < ALIASING_SCORES { keys } else { keys + PANEL }
}

impl Attention {
    /// Returns whether values are copied before they are multiplied. `size` is the size of an
    /// element in bytes, or 0 if the element type is not the wide type.
    const fn copies(&self, size: usize) -> bool {
        let aliases = self.v[2] > self.width && (self.v[2] * size).is_multiple_of(ALIASING);
        size == 0 || aliases && self.shared_rows() > FEW_ROWS
    }

    /// The number of rows that share a head of keys.
    const fn shared_rows(&self) -> usize {
        self.group * self.queries
    }

    /// The number of rows of the largest block.
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

/// Returns the length of the scratch buffer, in elements of the wide type. `size` is the size of an
/// element in bytes, or 0 if the element type is not the wide type.
pub const fn attention_scratch(geometry: &Attention, size: usize) -> usize {
    let Attention { keys, depth, width, .. } = *geometry;
    let rows = geometry.block_rows();
    let packs = size == 0 || geometry.shared_rows() > FEW_ROWS;
    let packed = if packs { (keys + PANEL) * depth } else { 0 };
    let copied = if geometry.copies(size) { keys * width } else { 0 };
    packed + copied + rows * (depth + largest_pitch(keys) + 1 + width) + product_scratch(geometry)
}

/// The part of [`attention_scratch`] that stays bounded as the number of keys grows.
pub const fn product_scratch(geometry: &Attention) -> usize {
    let Attention { keys, depth, width, .. } = *geometry;
    let rows = geometry.block_rows();
    let (scores, results) =
        (scratch(rows, keys, depth, true, false), scratch(rows, width, keys, true, true));
    if scores < results { results } else { scores }
}

/// Computes an attention, on several threads if that pays.
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
    // The query heads that share keys may be the outermost axis of the results.
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

/// Attention of `f32`. `mask` is added to the scores, `allowed` selects the keys to attend, and
/// only the first `lengths` keys of each sequence count. The scores at the [`Stage`] requested are
/// written to `scores`.
#[inline(never)]
pub fn attention_f32(
    operands: AttentionOperands<'_, f32>,
    y: &mut [f32],
    scores: Option<&mut [f32]>,
    scratch: &mut [f32],
    geometry: Attention,
) {
    let kind = Kind { as_wide: |x| Some(x), as_wide_mut: |x| Some(x) };
    share(kind, operands, y, scores, scratch, &geometry);
}

/// [`attention_f32`], of `f64`.
#[inline]
pub fn attention_f64(
    operands: AttentionOperands<'_, f64>,
    y: &mut [f64],
    scores: Option<&mut [f64]>,
    scratch: &mut [f64],
    geometry: Attention,
) {
    let kind = Kind { as_wide: |x| Some(x), as_wide_mut: |x| Some(x) };
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
    let kind = Kind { as_wide: |_| None, as_wide_mut: |_| None };
    share(kind, operands, y, scores, scratch, &geometry);
}
