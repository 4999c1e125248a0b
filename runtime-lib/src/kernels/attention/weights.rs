//! Weights of `f32` that lack a factor, and the factors.

use super::rows::{Rows, exclude, fill_outside, leaves_any};
use crate::kernels::softmax::{End, Times, max_of_vectors};
use crate::simd::{Simd, WithSimd, dispatch, map, math};

/// Replaces rows of scores by the exponentials of their differences from the largest, and writes
/// the reciprocals of the sums of each row. All rows are in one call, so that the processor
/// works on several short rows at once.
pub(super) struct Weigh<'a> {
    pub scores: &'a mut [f32],
    /// The mask that is added to them.
    pub mask: Option<&'a [f32]>,
    /// Which keys each query attends to.
    pub allowed: Option<&'a [bool]>,
    pub rows: &'a Rows<'a>,
    pub factors: &'a mut [f32],
}

impl WithSimd for Weigh<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let Weigh { scores, mask, allowed, rows, factors } = self;
        let all = scores.chunks_exact_mut(rows.pitch().max(1)).zip(factors);
        for (place, (row, factor)) in rows.each().zip(all) {
            let row = &mut row[..rows.keys.len()];
            let (part, at) = rows.attended(place);
            fill_outside(row, part.clone(), 0.0);
            let row = &mut row[part];
            let mask = mask.map(|mask| &mask[at..][..row.len()]);
            let excluded = match allowed {
                Some(allowed) => !exclude(row, &allowed[at..][..row.len()]),
                None => row.is_empty(),
            };
            *factor = if excluded { 0.0 } else { weigh(s, row, mask) };
            if *factor == 0.0 {
                // A factor of zero is not enough: the products of these scores and the values may
                // be infinite, and zero times infinity is NaN.
                row.fill(0.0);
            }
        }
    }
}

/// Adds the mask to a row, replaces it by the exponentials of its differences from the largest, and
/// returns the reciprocal of their sum: 0 if all scores are -∞ or the mask excludes all keys.
#[inline(always)]
fn weigh<S: Simd>(s: S, row: &mut [f32], mask: Option<&[f32]>) -> f32 {
    if row.len() < S::LANES {
        return weigh_short(s, row, mask);
    }
    let (whole, mut end) = End::of(s, row);
    if let Some(mask) = mask {
        end.x = s.add(end.x, s.load(&mask[mask.len() - S::LANES..]));
    }
    let largest = match mask {
        Some(mask) => add_and_max(s, &mut row[..whole], mask),
        None => max_of_vectors(s, &row[..whole]),
    };
    let max = s.largest(s.max(end.x, largest));
    // The maximum of a row with a NaN may be any number.
    if max.is_nan() || max == f32::NEG_INFINITY {
        end.store(s, end.x, row);
        return factor_without_max(row, mask);
    }
    let shift = s.splat(max);
    let last = math::exp_to_one(s, s.sub(end.x, shift));
    let mut sum = s.mul(last, end.is_new);
    for x in row[..whole].chunks_exact_mut(S::LANES) {
        let e = math::exp_to_one(s, s.sub(s.load_for_update(x), shift));
        sum = s.add(sum, e);
        s.store(e, x);
    }
    end.store(s, last, row);
    1.0 / s.sum(sum)
}

/// [`weigh`] for a row that is shorter than a vector.
#[inline(always)]
fn weigh_short<S: Simd>(s: S, row: &mut [f32], mask: Option<&[f32]>) -> f32 {
    let mut x = s.load_head_or(row, f32::NEG_INFINITY);
    if let Some(mask) = mask {
        x = s.add(x, s.load_head(mask));
    }
    let max = s.largest(x);
    if max.is_nan() || max == f32::NEG_INFINITY {
        s.store_head(x, row);
        return factor_without_max(row, mask);
    }
    let e = math::exp_to_one(s, s.sub(x, s.splat(max)));
    s.store_head(e, row);
    1.0 / s.sum(e)
}

/// Returns the factor of a row, with the mask added, that has no largest score.
#[inline(never)]
fn factor_without_max(row: &[f32], mask: Option<&[f32]>) -> f32 {
    let excluded = mask.is_some_and(|mask| !leaves_any(mask));
    if !excluded && row.iter().any(|x| x.is_nan()) { f32::NAN } else { 0.0 }
}

/// Adds a mask to whole vectors, and returns the largest sums.
#[inline(always)]
fn add_and_max<S: Simd>(s: S, row: &mut [f32], mask: &[f32]) -> S::F32 {
    let mut max = [s.splat(f32::NEG_INFINITY); 2];
    for (i, row) in row.chunks_exact_mut(S::LANES).enumerate() {
        let x = s.add(s.load_for_update(row), s.load(&mask[i * S::LANES..]));
        max[i % 2] = s.max(max[i % 2], x);
        s.store(x, row);
    }
    s.max(max[0], max[1])
}

/// A row that becomes its softmax, or zeros if all scores are -∞.
struct SoftmaxRow<'a>(&'a mut [f32]);

impl WithSimd for SoftmaxRow<'_> {
    type Output = f32;

    #[inline(always)]
    fn run<S: Simd>(self, s: S) -> f32 {
        let factor = if self.0.is_empty() { 0.0 } else { weigh(s, self.0, None) };
        if factor == 0.0 {
            self.0.fill(0.0);
        }
        factor
    }
}

/// Replaces a row by its softmax, or by zeros if all scores are -∞.
#[inline(never)]
pub(super) fn softmax_f32(row: &mut [f32]) {
    let factor = dispatch(SoftmaxRow(&mut *row));
    map(None, row, Times(factor));
}

/// Multiplies rows with a stride by a factor each.
pub(super) struct ScaleRows<'a> {
    pub y: &'a mut [f32],
    pub apart: usize,
    pub width: usize,
    pub factors: &'a [f32],
}

impl WithSimd for ScaleRows<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let ScaleRows { y, apart, width, factors } = self;
        for (i, &factor) in factors.iter().enumerate() {
            let factor = s.splat(factor);
            for y in y[i * apart..][..width].chunks_mut(S::LANES) {
                if y.len() == S::LANES {
                    s.store(s.mul(s.load_for_update(y), factor), y);
                } else {
                    s.store_head(s.mul(s.load_head(y), factor), y);
                }
            }
        }
    }
}
