//! SIMD sums of `f32`.

use super::RUN;
use crate::simd::{MAX_LANES, Pointwise, Simd};

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
        for x in groups.remainder().chunks(S::LANES) {
            sums[0] = s.add(sums[0], head(s, x, f));
        }
        let [a, b, c, d] = sums;
        total = s.add(total, s.add(s.add(a, b), s.add(c, d)));
    }
    s.sum(total)
}

/// Returns `f(x)` of at most a vector of elements, padded with zeros.
#[inline(always)]
fn head<S: Simd, F: Pointwise>(s: S, x: &[f32], f: F) -> S::F32 {
    let y = f.apply(s, s.load_head(x));
    if x.len() == S::LANES {
        return y;
    }
    let mut there = [0.0; MAX_LANES];
    s.store_head(y, &mut there[..x.len()]);
    s.load(&there)
}
