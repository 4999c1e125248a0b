//! Computes attention weights from the products of queries and keys, row by row.

use super::{Attention, Precision, Stage};
use crate::kernels::softmax::{Times, max_of, softmax_rounded};
use crate::loops::epilogue::Activation;
use crate::loops::index::signed;
use crate::simd::{MAX_LANES, Simd, WithSimd, dispatch, map_in_place, math};
use crate::{Elem, Float, Number};
use core::ops::Range;

/// The indices of a row of the scores.
#[derive(Clone, Copy)]
pub(super) struct Place {
    pub batch: usize,
    /// The head of queries.
    pub head: usize,
    pub query: usize,
}

/// The range of keys that the queries of a sequence may attend to.
#[derive(Clone, Copy)]
pub(super) struct Span {
    /// The index of the key of the first query.
    offset: i64,
    /// The number of keys that are neither padding nor beyond the mask.
    pub keys: usize,
}

impl Span {
    pub fn of(g: &Attention, batch: usize, lengths: Option<&[i64]>, masked: bool) -> Span {
        let known = if masked { g.mask_len.min(g.keys) } else { g.keys };
        let Some(&len) = lengths.and_then(|lengths| lengths.get(batch)) else {
            return Span { offset: signed(g.past), keys: known };
        };
        let keys = usize::try_from(len).unwrap_or(0).min(known);
        Span { offset: len.saturating_sub(signed(g.queries)), keys }
    }

    /// Returns the keys that a query attends to, unless the mask excludes them.
    pub fn attended(&self, g: &Attention, query: usize) -> Range<usize> {
        let own = self.offset.saturating_add(signed(query));
        let place = |at: i64| usize::try_from(at).unwrap_or(0).min(self.keys);
        let start = g.left.map_or(0, |left| place(own.saturating_sub(signed(left))));
        let end = g
            .right
            .map_or(self.keys, |right| place(own.saturating_add(signed(right)).saturating_add(1)));
        start..end.max(start)
    }
}

/// Computes rows of weights from rows of products.
pub(super) struct Finish<'a, T: Float> {
    g: &'a Attention,
    mask: Option<&'a [T]>,
    allowed: Option<&'a [bool]>,
    /// The output of the scores at the requested stage.
    scores: Option<&'a mut [T]>,
    /// Whether the element type is the wide type, so that nothing is rounded.
    wide: bool,
    cap: Option<T::Wide>,
}

impl<'a, T: Float> Finish<'a, T> {
    pub fn new(
        g: &'a Attention,
        mask: Option<&'a [T]>,
        allowed: Option<&'a [bool]>,
        scores: Option<&'a mut [T]>,
        wide: bool,
    ) -> Finish<'a, T> {
        // With 16-bit elements the cap is rounded too, as every scalar is.
        let cap = (g.softcap != 0.0).then(|| rounded::<T>(T::Wide::from_f64(g.softcap.into())));
        Finish { g, mask, allowed, scores, wide, cap }
    }

    /// Returns whether the scores of all keys are requested.
    pub fn needs_all_keys(&self) -> bool {
        self.scores.is_some()
    }

    /// Replaces the products with the keys from `first` on by weights. Returns the factor that
    /// scales the products of these weights and the values.
    pub fn row(&mut self, row: &mut [T::Wide], first: usize, place: Place, span: Span) -> T::Wide {
        let attended = span.attended(self.g, place.query);
        let start = attended.start.clamp(first, first + row.len());
        let end = attended.end.clamp(start, first + row.len());
        let part = start - first..end - first;
        self.round(row);
        self.write_stage(Stage::Products, row, place);
        self.cap(row);
        self.write_stage(Stage::Capped, row, place);
        let at = self.mask_at(start, place);
        let some = self.allow(&mut row[part.clone()], at);
        if let Some(factor) = self.weigh_fused(&mut row[part.clone()], at) {
            fill_outside(row, part, T::Wide::ZERO);
            return if some { factor } else { T::Wide::ZERO };
        }
        let some = some && self.add_mask(&mut row[part.clone()], at);
        fill_outside(row, part.clone(), T::Wide::LOWEST);
        self.write_stage(Stage::Masked, row, place);
        if some {
            self.weigh(&mut row[part.clone()]);
            fill_outside(row, part, T::Wide::ZERO);
        } else {
            row.fill(T::Wide::ZERO);
        }
        self.write_stage(Stage::Weights, row, place);
        T::Wide::ONE
    }

    /// Rounds a row to the element type.
    fn round(&self, row: &mut [T::Wide]) {
        if !self.wide {
            row.iter_mut().for_each(|x| *x = rounded::<T>(*x));
        }
    }

    /// Writes the row of all keys if this is the requested stage.
    fn write_stage(&mut self, stage: Stage, row: &[T::Wide], place: Place) {
        let Some(scores) = self.scores.as_deref_mut() else { return };
        if self.g.stage == stage {
            let head = place.batch * self.g.heads * self.g.group + place.head;
            let to = &mut scores[(head * self.g.queries + place.query) * row.len()..];
            to.iter_mut().zip(row).for_each(|(to, &x)| *to = T::narrow(x));
        }
    }

    /// Replaces each score `x` by `cap · tanh(x / cap)`.
    fn cap(&self, row: &mut [T::Wide]) {
        let Some(cap) = self.cap else { return };
        match T::Wide::as_f32_mut(row) {
            Some(row) if self.wide => {
                let alpha = self.g.softcap;
                Activation::ScaledTanh { alpha, beta: 1.0 / alpha }.apply(row);
            }
            _ => {
                for x in row {
                    let tanh = rounded::<T>(rounded::<T>(x.div(cap)).tanh());
                    *x = rounded::<T>(tanh.mul(cap));
                }
            }
        }
    }

    /// Returns the offset in the mask of a row's key `start`.
    fn mask_at(&self, start: usize, place: Place) -> usize {
        let [batch, head, query] = self.g.mask;
        place.batch * batch + place.head * head + place.query * query + start
    }

    /// Sets the scores of excluded keys to -∞. Returns whether any key is left.
    fn allow(&self, row: &mut [T::Wide], at: usize) -> bool {
        let (Some(allowed), false) = (self.allowed, row.is_empty()) else { return !row.is_empty() };
        let allowed = &allowed[at..][..row.len()];
        for (x, &allowed) in row.iter_mut().zip(allowed) {
            *x = if allowed { *x } else { T::Wide::LOWEST };
        }
        allowed.contains(&true)
    }

    /// Returns the part of the mask that is added to a row.
    fn mask_part(&self, len: usize, at: usize) -> Option<&'a [T]> {
        self.mask.map(|mask| &mask[at..][..len])
    }

    /// Adds the mask to scores. Returns whether any score is left.
    fn add_mask(&self, row: &mut [T::Wide], at: usize) -> bool {
        let Some(mask) = self.mask_part(row.len(), at) else { return true };
        row.iter_mut().zip(mask).for_each(|(x, mask)| *x = x.add(mask.widen()));
        self.round(row);
        leaves_any(mask)
    }

    /// Adds the mask to scores of `f32`, replaces them by weights that lack a common factor, and
    /// returns this factor. Returns `None` if a stage is requested or a step is rounded.
    fn weigh_fused(&self, row: &mut [T::Wide], at: usize) -> Option<T::Wide> {
        let double = self.g.precision == Precision::Double;
        if self.scores.is_some() || !self.wide || double {
            return None;
        }
        let mask = self.mask_part(row.len(), at);
        let row = T::Wide::as_f32_mut(row)?;
        if row.is_empty() || mask.is_some_and(|mask| !leaves_any(mask)) {
            // A factor of zero is not enough: the products of these scores and the values may be
            // infinite, and zero times infinity is NaN.
            row.fill(0.0);
            return Some(T::Wide::ZERO);
        }
        let factor = dispatch(SoftmaxRow { row, mask: mask.and_then(T::as_f32) });
        Some(T::Wide::from_f64(factor.into()))
    }

    /// Replaces a row by its softmax, or by zeros if all scores are -∞.
    fn weigh(&self, row: &mut [T::Wide]) {
        let precision = self.g.precision;
        match T::Wide::as_f32_mut(row) {
            Some(row) => match precision {
                Precision::Wide | Precision::Through | Precision::Single => softmax_f32(row),
                Precision::Double => softmax_double(row),
                #[cfg(feature = "half")]
                Precision::F16 => softmax_in::<half::f16, f32>(row, rounded::<half::f16>),
                #[cfg(feature = "half")]
                Precision::BF16 => softmax_in::<half::bf16, f32>(row, rounded::<half::bf16>),
            },
            None => match precision {
                Precision::Wide | Precision::Through | Precision::Double => {
                    softmax_in::<T::Wide, _>(row, |x| x);
                }
                Precision::Single => softmax_in::<f32, _>(row, rounded_via_f64::<f32, _>),
                #[cfg(feature = "half")]
                Precision::F16 => {
                    softmax_in::<half::f16, _>(row, rounded_via_f64::<half::f16, _>);
                }
                #[cfg(feature = "half")]
                Precision::BF16 => {
                    softmax_in::<half::bf16, _>(row, rounded_via_f64::<half::bf16, _>);
                }
            },
        }
        if precision != Precision::Through {
            self.round(row);
        }
    }
}

/// Fills a row outside of `part`.
fn fill_outside<W: Copy>(row: &mut [W], part: Range<usize>, x: W) {
    row[..part.start].fill(x);
    row[part.end..].fill(x);
}

/// Rounds `x` to `T`.
#[inline(always)]
pub(super) fn rounded<T: Float>(x: T::Wide) -> T::Wide {
    T::narrow(x).widen()
}

/// Rounds `x` to `P` by way of `f64`, for a `P` whose wide type is not `W`.
fn rounded_via_f64<P: Float, W: Float>(x: W) -> W {
    W::from_f64(P::from_f64(x.to_f64()).to_f64())
}

/// Replaces a row by its softmax, rounded to `P` at each step, or by zeros if all scores are -∞.
fn softmax_in<P: Float, W: Float>(row: &mut [W], round: fn(W) -> W) {
    row.iter_mut().for_each(|x| *x = round(*x));
    if row.iter().all(|x| *x == W::LOWEST) {
        return row.fill(W::ZERO);
    }
    softmax_rounded::<P, W>(row, round);
}

/// Replaces a row by its softmax, computed in `f64`, or by zeros if all scores are -∞.
fn softmax_double(row: &mut [f32]) {
    let max = row.iter().fold(f32::NEG_INFINITY, |max, &x| Number::maximum(max, x));
    if max == f32::NEG_INFINITY {
        return row.fill(0.0);
    }
    let e = |x: f32| libm::exp(f64::from(x) - f64::from(max));
    let sum: f64 = row.iter().map(|&x| e(x)).sum();
    row.iter_mut().for_each(|x| *x = f32::from_f64(e(*x) / sum));
}

/// Replaces a row by its softmax, or by zeros if all scores are -∞.
#[inline(never)]
fn softmax_f32(row: &mut [f32]) {
    let factor = dispatch(SoftmaxRow { row: &mut *row, mask: None });
    map_in_place(row, Times(factor));
}

/// Replaces a row by the exponentials of its differences from the maximum. Returns the reciprocal
/// of their sum. A row that is all -∞ becomes zeros.
struct SoftmaxRow<'a> {
    row: &'a mut [f32],
    /// The mask that is added to the row first.
    mask: Option<&'a [f32]>,
}

impl WithSimd for SoftmaxRow<'_> {
    type Output = f32;

    #[inline(always)]
    fn run<S: Simd>(self, s: S) -> f32 {
        let row = self.row;
        let max = match self.mask {
            Some(mask) => add_and_max(s, row, mask),
            None => max_of(s, row),
        };
        if max == f32::NEG_INFINITY {
            let any_nan = row.iter().any(|x| x.is_nan());
            row.fill(0.0);
            return if any_nan { f32::NAN } else { 0.0 };
        }
        let shift = s.splat(max);
        let mut sum = s.splat(0.0);
        let mut vectors = row.chunks_exact_mut(S::LANES);
        for x in &mut vectors {
            let e = math::exp_to_one(s, s.sub(s.load(x), shift));
            sum = s.add(sum, e);
            s.store(e, x);
        }
        let rest = vectors.into_remainder();
        if !rest.is_empty() {
            let mut whole = [f32::NEG_INFINITY; MAX_LANES];
            whole[..rest.len()].copy_from_slice(rest);
            let e = math::exp_to_one(s, s.sub(s.load(&whole), shift));
            sum = s.add(sum, e);
            s.store_head(e, rest);
        }
        1.0 / s.sum(sum)
    }
}

/// Adds a mask, and returns the largest sum.
#[inline(always)]
fn add_and_max<S: Simd>(s: S, row: &mut [f32], mask: &[f32]) -> f32 {
    let mut max = s.splat(f32::NEG_INFINITY);
    let mut rows = row.chunks_exact_mut(S::LANES);
    let mut masks = mask.chunks_exact(S::LANES);
    for (row, mask) in (&mut rows).zip(&mut masks) {
        let x = s.add(s.load(row), s.load(mask));
        max = s.max(max, x);
        s.store(x, row);
    }
    let mut rest = f32::NEG_INFINITY;
    for (x, mask) in rows.into_remainder().iter_mut().zip(masks.remainder()) {
        *x += mask;
        rest = rest.max(*x);
    }
    s.largest(max).max(rest)
}

/// Returns whether a mask leaves any score.
fn leaves_any<T: Float>(mask: &[T]) -> bool {
    mask.iter().any(|x| *x != T::LOWEST)
}
