//! SIMD sums of `f32`.

use super::RUN;
use crate::simd::{MAX_LANES, Pointwise, Simd, WithSimd, dispatch, math};

/// The number of parallel vector accumulators.
const SUMS: usize = 4;

/// Returns `Σ f(x)`, at a SIMD level.
#[inline(always)]
pub(crate) fn sum_at<S: Simd, F: Pointwise>(s: S, x: &[f32], f: F) -> f32 {
    let mut total = s.splat(0.0);
    // A long sum is a sum of shorter ones, so that the rounding error grows slowly.
    for run in x.chunks(RUN * SUMS * S::LANES) {
        let mut sums = [s.splat(0.0); SUMS];
        let mut groups = run.chunks_exact(SUMS * S::LANES);
        for group in &mut groups {
            for (i, sum) in sums.iter_mut().enumerate() {
                *sum = s.add(*sum, f.apply(s, s.load(&group[i * S::LANES..])));
            }
        }
        let mut rest = groups.remainder().chunks_exact(S::LANES);
        for x in &mut rest {
            sums[0] = s.add(sums[0], f.apply(s, s.load(x)));
        }
        if !rest.remainder().is_empty() {
            sums[0] = s.add(sums[0], head(s, rest.remainder(), f));
        }
        let [a, b, c, d] = sums;
        total = s.add(total, s.add(s.add(a, b), s.add(c, d)));
    }
    s.sum(total)
}

/// Returns the largest element, or NaN if there is one, at a SIMD level.
#[inline(always)]
pub(crate) fn max_at<S: Simd>(s: S, x: &[f32]) -> f32 {
    let max = fold_at(
        s,
        x,
        f32::NEG_INFINITY,
        // The instruction returns `max` if either is NaN; a NaN in `x` must win.
        #[inline(always)]
        |max, x| s.select(s.eq(x, x), s.max(x, max), x),
    );
    if has_nan(s, max) { f32::NAN } else { s.largest(max) }
}

/// Returns the smallest element, or NaN if there is one, at a SIMD level.
#[inline(always)]
pub(crate) fn min_at<S: Simd>(s: S, x: &[f32]) -> f32 {
    let min = fold_at(
        s,
        x,
        f32::INFINITY,
        #[inline(always)]
        |min, x| s.select(s.eq(x, x), s.min(x, min), x),
    );
    if has_nan(s, min) { f32::NAN } else { -s.largest(s.neg(min)) }
}

#[inline(always)]
fn has_nan<S: Simd>(s: S, x: S::F32) -> bool {
    let (zero, one) = (s.splat(0.0), s.splat(1.0));
    s.any(s.lt(zero, s.select(s.eq(x, x), zero, one)))
}

/// Folds the vectors of a slice by an associative function, lane by lane; the last vector is filled
/// with `start`.
#[inline(always)]
pub(crate) fn fold_at<S: Simd>(
    s: S,
    x: &[f32],
    start: f32,
    take: impl Fn(S::F32, S::F32) -> S::F32,
) -> S::F32 {
    let mut states = [s.splat(start); SUMS];
    let mut groups = x.chunks_exact(SUMS * S::LANES);
    for group in &mut groups {
        for (i, state) in states.iter_mut().enumerate() {
            *state = take(*state, s.load(&group[i * S::LANES..]));
        }
    }
    let mut vectors = groups.remainder().chunks_exact(S::LANES);
    for x in &mut vectors {
        states[0] = take(states[0], s.load(x));
    }
    let rest = vectors.remainder();
    if !rest.is_empty() {
        states[1] = take(states[1], s.load_head_or(rest, start));
    }
    let [a, b, c, d] = states;
    take(take(a, b), take(c, d))
}

/// Returns `Σ e^(x - shift)`, where no difference is positive, at a SIMD level.
#[inline(always)]
pub(crate) fn sum_exp_at<S: Simd>(s: S, x: &[f32], shift: S::F32) -> f32 {
    let mut total = s.splat(0.0);
    for run in x.chunks(RUN * S::LANES) {
        let mut sum = s.splat(0.0);
        let mut vectors = run.chunks_exact(S::LANES);
        for x in &mut vectors {
            sum = s.add(sum, math::exp_to_one(s, s.sub(s.load(x), shift)));
        }
        let rest = s.load_head_or(vectors.remainder(), f32::NEG_INFINITY);
        total = s.add(total, s.add(sum, math::exp_to_one(s, s.sub(rest, shift))));
    }
    s.sum(total)
}

/// Returns `Σ e^(x - shift)`, where no difference is positive.
#[inline(never)]
pub(super) fn sum_exp(x: &[f32], shift: f32) -> f32 {
    dispatch(SumExp { x, shift })
}

struct SumExp<'a> {
    x: &'a [f32],
    shift: f32,
}

impl WithSimd for SumExp<'_> {
    type Output = f32;

    #[inline(always)]
    fn run<S: Simd>(self, s: S) -> f32 {
        sum_exp_at(s, self.x, s.splat(self.shift))
    }
}

/// Returns `f(x)` of at most a vector of elements, padded with zeros.
#[inline(always)]
fn head<S: Simd, F: Pointwise>(s: S, x: &[f32], f: F) -> S::F32 {
    let y = f.apply(s, s.load_head(x));
    if x.len() == S::LANES {
        return y;
    }
    // Not through memory: to load what was stored in parts takes long.
    const THERE: [f32; 2 * MAX_LANES] = {
        let mut there = [0.0; 2 * MAX_LANES];
        there.split_at_mut(MAX_LANES).0.copy_from_slice(&[1.0; MAX_LANES]);
        there
    };
    let there = s.lt(s.splat(0.0), s.load(&THERE[MAX_LANES - x.len()..]));
    s.select(there, y, s.splat(0.0))
}
