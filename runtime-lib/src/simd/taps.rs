//! Sums over the taps of a sliding window, for several vectors of outputs at once.

use super::Simd;

/// The taps of a window: an offset in the input and a weight for each.
#[derive(Clone, Copy)]
pub(crate) struct Taps<'a> {
    starts: &'a [f32],
    weights: &'a [f32],
    /// The largest offset.
    reach: usize,
}

impl<'a> Taps<'a> {
    /// Creates taps with offsets that are the bits of `starts`.
    ///
    /// # Panics
    ///
    /// Panics if the numbers of offsets and of weights differ.
    pub fn new(starts: &'a [f32], weights: &'a [f32]) -> Taps<'a> {
        assert_eq!(starts.len(), weights.len(), "each tap has a weight");
        let reach = starts.iter().fold(0, |reach, start| reach.max(start.to_bits()));
        Taps { starts, weights, reach: reach as usize }
    }

    /// Adds, for each tap, its weight times the vector at its offset from each element of `places`.
    ///
    /// # Panics
    ///
    /// Panics if a vector is not inside `x`.
    #[inline(always)]
    pub fn add<S: Simd, const N: usize>(
        &self,
        s: S,
        sums: &mut [S::F32; N],
        x: &[f32],
        places: &[usize; N],
    ) {
        let last = places.iter().fold(0, |last, &place| last.max(place));
        let end = last.checked_add(self.reach + S::LANES);
        assert!(end.is_some_and(|end| end <= x.len()));
        for (start, &weight) in self.starts.iter().zip(self.weights) {
            let weight = s.splat(weight);
            // SAFETY: `start` is at most `reach`, and a place at most `last`, so that a vector from
            // their sum on ends at `end` or before it.
            unsafe {
                let x = x.as_ptr().add(start.to_bits() as usize);
                for (sum, &place) in sums.iter_mut().zip(places) {
                    *sum = s.mul_add(s.load_at(x.add(place)), weight, *sum);
                }
            }
        }
    }
}
