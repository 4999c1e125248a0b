//! What follows the sums of a product or of a convolution.

use super::simd_elem::SimdElem;
use crate::loops::epilogue::Activation;
use crate::simd::HAS_VECTORS;

/// A function of sums. Kernels keep them between its bounds as they store them, and then [`finish`] what
/// is left to do: nothing, where that was all.
///
/// [`finish`]: FusedActivation::finish
#[derive(Clone, Copy)]
pub(crate) struct FusedActivation<T> {
    f: Activation,
    rest: fn(Activation, &mut [T], usize, usize, usize),
}

impl<T: SimdElem> FusedActivation<T> {
    /// Sums are what they are.
    pub const NONE: Self = FusedActivation { f: Activation::Identity, rest: |_, _, _, _, _| () };

    /// Computes `y`, with `f` of the sums in `rows` times `cols` elements, whose rows start `stride`
    /// apart.
    // Inlined, down from what a model calls, where `f` is known: so a program has no functions but
    // those that its models name. Where no vectors are, it has those of single numbers.
    #[inline(always)]
    pub fn within(
        f: Activation,
        y: &mut [T],
        [rows, cols, stride]: [usize; 3],
        compute: impl FnOnce(&mut [T], Self),
    ) {
        if f.only_caps() {
            return compute(y, FusedActivation { f, ..FusedActivation::NONE });
        }
        if HAS_VECTORS {
            return compute(y, FusedActivation { f, rest: T::activate });
        }
        compute(y, FusedActivation::NONE);
        if cols > 0 {
            for row in y.chunks_mut(stride.max(cols)).take(rows) {
                f.apply_each(row[..cols].iter_mut());
            }
        }
    }

    /// The same, for elements that are all in one piece.
    #[inline(always)]
    pub fn within_all(f: Activation, y: &mut [T], compute: impl FnOnce(&mut [T], Self)) {
        let len = y.len();
        FusedActivation::within(f, y, [1, len, len], compute);
    }

    /// Whether nothing is left to do where sums are between the bounds.
    #[inline(always)]
    pub fn only_caps(self) -> bool {
        self.f.only_caps()
    }

    /// The bounds that sums are kept between; none where that is not all that the function does.
    pub fn clamp(self) -> Option<(T, T)> {
        match self.f {
            Activation::Relu => Some((T::ZERO, T::HIGHEST)),
            Activation::Clip { min, max } => {
                Some((T::from_f64(f64::from(min)), T::from_f64(f64::from(max))))
            }
            _ => None,
        }
    }

    /// Does what is left to do where sums are between the bounds, in `rows` times `cols` elements,
    /// whose rows start `stride` apart.
    pub fn finish(self, y: &mut [T], rows: usize, cols: usize, stride: usize) {
        (self.rest)(self.f, y, rows, cols, stride);
    }

    /// Does all that there is to do, where sums were kept between no bounds.
    pub fn apply(self, y: &mut [T], rows: usize, cols: usize, stride: usize) {
        match self.clamp() {
            Some(bounds) => T::cap(bounds, y, rows, cols, stride),
            None => self.finish(y, rows, cols, stride),
        }
    }
}
