//! The keys and values of the steps before, with those of this one behind them.

use crate::Elem;

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

/// For each head of each sequence, the rows of `past` and then those of `x`.
pub fn append<T: Elem>(x: &[T], past: Option<&[T]>, y: &mut [T], geometry: Append) {
    let Append { batch, heads, past: before, new, width, x: strides } = geometry;
    let len = before * width;
    if y.is_empty() {
        return;
    }
    let all = (0..batch).flat_map(|b| (0..heads).map(move |h| (b, h)));
    for ((i, (b, h)), y) in all.enumerate().zip(y.chunks_exact_mut((before + new) * width)) {
        let (kept, added) = y.split_at_mut(len);
        if let Some(past) = past {
            kept.clone_from_slice(&past[i * len..][..len]);
        }
        for (row, y) in added.chunks_exact_mut(width).enumerate() {
            let at = b * strides[0] + h * strides[1] + row * strides[2];
            y.clone_from_slice(&x[at..][..width]);
        }
    }
}
