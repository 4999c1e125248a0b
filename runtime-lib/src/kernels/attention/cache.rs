//! The keys and values of the steps before, with those of this one behind them.

use super::AttentionOperands;
use super::block::{Kind, Part, run};
use super::{Attention, share};
use crate::Elem;
use crate::threads::{self, Scratch};

/// Rows that are put behind others.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Append {
    /// How many sequences there are.
    pub batch: usize,
    /// Heads of a sequence.
    pub heads: usize,
    /// Rows of a head that are there.
    pub past: usize,
    /// Rows of a head that are new.
    pub new: usize,
    /// Elements of a row.
    pub width: usize,
    /// How far a sequence, a head and a row of the new ones start from the next.
    pub x: [usize; 3],
}

impl Append {
    /// The rows of one head of one sequence.
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

    /// Elements of a head, the new ones among them.
    fn len(&self) -> usize {
        (self.past + self.new) * self.width
    }
}

/// For each head of each sequence, the rows of `past` and then those of `x`.
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

/// [`append`] for keys and values, and [`attention_f32`](super::attention_f32) of what that gives. Of
/// the keys, the first `geometry.past` are in the cache; `geometry.k` and `geometry.v` say where new ones
/// are. A head is attended as soon as it is put together, while the caches have it.
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
    let kind = Kind { as_wide: |x| Some(x) };
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
    // A head is looked at on its own.
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
