//! The cache of keys and values.

use super::AttentionOperands;
use super::block::{Kind, Part, run};
use super::{Attention, share};
use crate::Elem;
use crate::threads::{self, Scratch};

/// The sizes of [`append`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Append {
    /// The number of sequences.
    pub batch: usize,
    /// The number of heads of a sequence.
    pub heads: usize,
    /// The number of cached rows of a head.
    pub past: usize,
    /// The number of new rows of a head.
    pub new: usize,
    /// The number of elements of a row.
    pub width: usize,
    /// The strides of sequences, heads and rows of the new rows.
    pub x: [usize; 3],
}

impl Append {
    /// Writes the rows of one head of one sequence.
    fn head<T: Elem>(&self, [b, h]: [usize; 2], x: &[T], past: Option<&[T]>, y: &mut [T]) {
        let len = self.past * self.width;
        let (kept, added) = y.split_at_mut(len);
        if let Some(past) = past {
            kept.clone_from_slice(&past[(b * self.heads + h) * len..][..len]);
        }
        for (row, y) in added.chunks_exact_mut(self.width.max(1)).enumerate() {
            let at = b * self.x[0] + h * self.x[1] + row * self.x[2];
            y.clone_from_slice(&x[at..][..self.width]);
        }
    }

    /// The number of elements of a head, including the new rows.
    fn len(&self) -> usize {
        (self.past + self.new) * self.width
    }
}

/// Concatenates, for each head of each sequence, the rows of `past` and those of `x`.
pub fn append<T: Elem>(x: &[T], past: Option<&[T]>, y: &mut [T], geometry: Append) {
    let heads = geometry.heads.max(1);
    for (i, y) in y.chunks_exact_mut(geometry.len().max(1)).enumerate() {
        geometry.head([i / heads, i % heads], x, past, y);
    }
}

/// The operands of attention with a cache of keys and values.
#[derive(Clone, Copy, Debug)]
pub struct CachedAttentionOperands<'a> {
    /// The queries.
    pub q: &'a [f32],
    /// The keys.
    pub k: &'a [f32],
    /// The values.
    pub v: &'a [f32],
    /// The cached keys.
    pub past_k: Option<&'a [f32]>,
    /// The cached values.
    pub past_v: Option<&'a [f32]>,
    /// Added to the scores.
    pub mask: Option<&'a [f32]>,
    /// Which keys each query attends to.
    pub allowed: Option<&'a [bool]>,
}

/// Appends keys and values to the cache as [`append`] does, and computes
/// [`attention_f32`](super::attention_f32) of the result. The first `geometry.past` keys are in the
/// cache; `geometry.k` and `geometry.v` are the strides of the new ones. The attention of a head
/// follows immediately after its rows are copied, while they are in the processor's cache.
#[inline(never)]
pub fn attention_cached_f32(
    operands: CachedAttentionOperands<'_>,
    y: &mut [f32],
    present_k: &mut [f32],
    present_v: &mut [f32],
    scratch: &mut [f32],
    geometry: Attention,
) {
    let CachedAttentionOperands { q, k, v, past_k, past_v, mask, allowed } = operands;
    let Attention { batch, heads, keys, depth, width, past, .. } = geometry;
    let rows = |width, x| Append { batch, heads, past, new: keys - past, width, x };
    let (of_keys, of_values) = (rows(depth, geometry.k), rows(width, geometry.v));
    let kind = Kind { as_wide: |x| Some(x), as_wide_mut: |x| Some(x) };
    let x = AttentionOperands { q, k, v, mask, allowed, lengths: None };
    let all = Part::all(&geometry);
    let (axis, apart, count) = all.cut(&geometry);
    if axis == 2 || apart == 0 || apart * count != y.len() {
        append(k, past_k, present_k, of_keys);
        append(v, past_v, present_v, of_values);
        let strides = |width| [heads * keys * width, keys * width, width];
        let whole = Attention { k: strides(depth), v: strides(width), ..geometry };
        let x = AttentionOperands { k: present_k, v: present_v, ..x };
        return share(kind, x, y, None, scratch, &whole);
    }
    // Heads are computed one by one.
    let alone = Attention { k: [0, 0, depth], v: [0, 0, width], ..geometry };
    let inner = if axis == 0 { heads } else { 1 };
    let units = [apart, inner * of_keys.len(), inner * of_values.len()];
    let cost = y.len() * keys * 2 / threads::MACS_PER_ELEMENT + present_k.len() + present_v.len();
    let scratch = Scratch::new(scratch);
    threads::share_all([y, present_k, present_v], units, cost, |first, [y, keys, values]| {
        let part = all.of(axis, first, y.len() / apart);
        scratch.with(|scratch| {
            for (i, (at, head)) in part.heads(&geometry).enumerate() {
                let keys = &mut keys[i * of_keys.len()..][..of_keys.len()];
                let values = &mut values[i * of_values.len()..][..of_values.len()];
                of_keys.head(head.place(), k, past_k, keys);
                of_values.head(head.place(), v, past_v, values);
                let x = AttentionOperands { k: keys, v: values, ..x };
                run(kind, x, &mut y[at..], None, scratch, (&alone, head));
            }
        });
    });
}
