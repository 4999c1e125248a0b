//! The activation that is fused into a product or a convolution.

use super::simd_elem::SimdElem;
use crate::loops::epilogue::Activation;
use crate::simd::HAS_VECTORS;

/// An activation of accumulators. Kernels clamp them to its bounds as they store them, and then
/// [`finish`] applies the rest, which is nothing for activations that only clamp.
///
/// [`finish`]: FusedActivation::finish
#[derive(Clone, Copy)]
pub(crate) struct FusedActivation<T> {
    f: Activation,
    rest: fn(Activation, &mut [T], usize, usize, usize),
}

impl<T: SimdElem> FusedActivation<T> {
    /// The identity.
    pub const NONE: Self = FusedActivation { f: Activation::Identity, rest: |_, _, _, _, _| () };

    /// Computes `y` and applies `f` to `rows` by `cols` elements, with the row stride `stride`.
    // Inlined up to the function that a model calls, where `f` is a constant, so that a program
    // contains only the activations that its models use. Without vectors it uses their scalar
    // forms.
    #[inline(always)]
    pub fn within(
        f: Activation,
        y: &mut [T],
        [rows, cols, stride]: [usize; 3],
        compute: impl FnOnce(&mut [T], Self),
    ) {
        if f.is_clamp() {
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

    /// Computes `y` and applies `f` to all of its elements.
    #[inline(always)]
    pub fn within_all(f: Activation, y: &mut [T], compute: impl FnOnce(&mut [T], Self)) {
        let len = y.len();
        FusedActivation::within(f, y, [1, len, len], compute);
    }

    /// Returns whether the activation only clamps.
    #[inline(always)]
    pub fn is_clamp(self) -> bool {
        self.f.is_clamp()
    }

    /// Returns the bounds of an activation that only clamps.
    pub fn clamp(self) -> Option<(T, T)> {
        match self.f {
            Activation::Relu => Some((T::ZERO, T::HIGHEST)),
            Activation::Clip { min, max } => {
                Some((T::from_f64(f64::from(min)), T::from_f64(f64::from(max))))
            }
            _ => None,
        }
    }

    /// Applies the rest of the activation, after clamping, to `rows` by `cols` elements with the
    /// row stride `stride`.
    pub fn finish(self, y: &mut [T], rows: usize, cols: usize, stride: usize) {
        (self.rest)(self.f, y, rows, cols, stride);
    }

    /// Applies the whole activation to accumulators that were not clamped.
    pub fn apply(self, y: &mut [T], rows: usize, cols: usize, stride: usize) {
        match self.clamp() {
            Some(bounds) => T::clamp_rows(bounds, y, rows, cols, stride),
            None => self.finish(y, rows, cols, stride),
        }
    }
}
