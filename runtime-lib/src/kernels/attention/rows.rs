//! Computes attention weights from the products of queries and keys, row by row.

use super::weights::{Weigh, softmax_f32};
use super::{Attention, Precision, Stage, pitch};
use crate::kernels::softmax::softmax_rounded;
use crate::loops::epilogue::Activation;
use crate::loops::index::signed;
use crate::simd::dispatch;
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

/// The rows of a block of scores.
pub(super) struct Rows<'a> {
    pub g: &'a Attention,
    pub span: Span,
    /// The sequence.
    pub batch: usize,
    /// The heads of queries.
    pub heads: Range<usize>,
    pub queries: Range<usize>,
    /// The keys whose scores a row holds.
    pub keys: Range<usize>,
}

impl Rows<'_> {
    pub fn len(&self) -> usize {
        self.heads.len() * self.queries.len()
    }

    /// The distance between rows of scores.
    pub fn pitch(&self) -> usize {
        pitch(self.keys.len())
    }

    pub fn first(&self) -> Place {
        Place { batch: self.batch, head: self.heads.start, query: self.queries.start }
    }

    pub fn each(&self) -> impl Iterator<Item = Place> {
        let (batch, queries) = (self.batch, self.queries.clone());
        let of = move |head| queries.clone().map(move |query| Place { batch, head, query });
        self.heads.clone().flat_map(of)
    }

    /// Returns the scores of a row that its query attends to, and the offset of the first in the
    /// mask.
    #[inline(always)]
    pub fn attended(&self, place: Place) -> (Range<usize>, usize) {
        let attended = self.span.attended(self.g, place.query);
        let start = attended.start.clamp(self.keys.start, self.keys.end);
        let end = attended.end.clamp(start, self.keys.end);
        let [batch, head, query] = self.g.mask;
        let at = place.batch * batch + place.head * head + place.query * query + start;
        (start - self.keys.start..end - self.keys.start, at)
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

    /// Replaces products by weights. Writes the factors that scale the products of the weights of
    /// each row and the values.
    pub fn block(&mut self, products: &mut [T::Wide], rows: &Rows<'_>, factors: &mut [T::Wide]) {
        factors.fill(T::Wide::ONE);
        if self.block_f32(products, rows, factors).is_some() {
            return;
        }
        for (place, row) in rows.each().zip(products.chunks_exact_mut(rows.pitch().max(1))) {
            let row = &mut row[..rows.keys.len()];
            self.row(row, place, rows.attended(place));
        }
    }

    /// Computes weights that lack a factor. Returns `None` if a stage is requested or a step is
    /// rounded.
    fn block_f32(
        &self,
        products: &mut [T::Wide],
        rows: &Rows<'_>,
        factors: &mut [T::Wide],
    ) -> Option<()> {
        let rounds = !self.wide || self.g.precision == Precision::Double;
        if self.scores.is_some() || rounds {
            return None;
        }
        let factors = T::Wide::as_f32_mut(factors)?;
        self.cap(products);
        let scores = T::Wide::as_f32_mut(products)?;
        let (mask, allowed) = (self.mask.and_then(T::as_f32), self.allowed);
        dispatch(Weigh { scores, mask, allowed, rows, factors });
        Some(())
    }

    /// Replaces a row of products by weights.
    fn row(&mut self, row: &mut [T::Wide], place: Place, (part, at): (Range<usize>, usize)) {
        self.round(row);
        self.write_stage(Stage::Products, row, place);
        self.cap(row);
        self.write_stage(Stage::Capped, row, place);
        let some = self.allow(&mut row[part.clone()], at);
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

    /// Sets the scores of excluded keys to -∞. Returns whether any key is left.
    fn allow(&self, row: &mut [T::Wide], at: usize) -> bool {
        match self.allowed {
            Some(allowed) => exclude(row, &allowed[at..][..row.len()]),
            None => !row.is_empty(),
        }
    }

    /// Adds the mask to scores. Returns whether any score is left.
    fn add_mask(&self, row: &mut [T::Wide], at: usize) -> bool {
        let Some(mask) = self.mask.map(|mask| &mask[at..][..row.len()]) else { return true };
        row.iter_mut().zip(mask).for_each(|(x, mask)| *x = x.add(mask.widen()));
        self.round(row);
        leaves_any(mask)
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
#[inline(always)]
pub(super) fn fill_outside<W: Copy>(row: &mut [W], part: Range<usize>, x: W) {
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

/// Sets the scores of excluded keys to -∞. Returns whether any key is left.
#[inline(always)]
pub(super) fn exclude<W: Number>(row: &mut [W], allowed: &[bool]) -> bool {
    for (x, &allowed) in row.iter_mut().zip(allowed) {
        *x = if allowed { *x } else { W::LOWEST };
    }
    allowed.contains(&true)
}

/// Returns whether a mask leaves any score.
pub(super) fn leaves_any<T: Float>(mask: &[T]) -> bool {
    mask.iter().any(|x| *x != T::LOWEST)
}
