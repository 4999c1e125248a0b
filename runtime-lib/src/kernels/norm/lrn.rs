//! Local response normalization across channels.

use crate::loops::geometry::Axis;
use crate::simd::{Pointwise, Simd, WithSimd, dispatch, math};
use crate::threads::{By, Share};
use crate::{Float, Number};
use core::ops::Range;

/// The attributes of `LRN`.
#[derive(Clone, Copy, Debug)]
pub struct Lrn {
    /// The number of channels in the sum, centered; an even number has one more after the center.
    pub size: usize,
    /// The factor of the mean square.
    pub alpha: f32,
    /// The exponent.
    pub beta: f32,
    /// The constant added to the mean square.
    pub bias: f32,
}

/// The number of pixels that is worth a part of the work.
const PIXELS: usize = 256;
/// The cost of a power, in elements.
const ELEMENTS: usize = 4;

/// `y = x / (bias + α/size Σ x²)^β`, summed over the neighboring channels; the axis is the
/// channels.
pub fn lrn<T: Float>(x: &[T], y: &mut [T], geometry: Axis, lrn: Lrn) {
    let Axis { outer, len, inner } = geometry;
    if y.is_empty() {
        return;
    }
    let cost = y.len() * (lrn.size.min(len) + ELEMENTS);
    Share::of(y, inner).hand_out(PIXELS, By::OnlyRows, cost, |mut piece| {
        let first = piece.rows.start * PIXELS;
        for (o, c) in (0..outer).flat_map(|o| (0..len).map(move |c| (o, c))) {
            let (y, around) = (piece.y.plane(o * len + c), lrn.around(c, len));
            let from = &x[(o * len + around.start) * inner + first..];
            let pixels =
                Pixels { x: from, apart: inner, planes: around.len(), own: c - around.start };
            match (T::as_f32(pixels.x), T::as_f32_mut(y)) {
                (Some(x), Some(y)) => pixels.with(x).normalize_f32(y, lrn),
                _ => pixels.normalize(y, lrn),
            }
        }
    });
}

impl Lrn {
    /// Returns the channels in the sum of channel `c`.
    fn around(&self, c: usize, channels: usize) -> Range<usize> {
        let (before, after) = (self.size.saturating_sub(1) / 2, self.size / 2);
        c.saturating_sub(before)..channels.min(c + after + 1)
    }

    /// Returns the factor of the sum of squares.
    fn scale(&self) -> f64 {
        f64::from(self.alpha) / self.size as f64
    }
}

/// The same pixels of several channels.
#[derive(Clone, Copy)]
struct Pixels<'a, T> {
    /// The elements, from those of the first channel.
    x: &'a [T],
    /// The stride between channels, in elements.
    apart: usize,
    /// The number of channels.
    planes: usize,
    /// The index of the channel that is normalized.
    own: usize,
}

impl<T: Float> Pixels<'_, T> {
    /// Returns the same positions of another tensor.
    fn with<U>(self, x: &[U]) -> Pixels<'_, U> {
        let Pixels { apart, planes, own, .. } = self;
        Pixels { x, apart, planes, own }
    }

    /// `y = x v^-β` with `v^-β = e^(-β ln v)`.
    fn normalize(self, y: &mut [T], lrn: Lrn) {
        let wide = |x: f32| T::Wide::from_f64(f64::from(x));
        let (scale, beta, bias) = (T::Wide::from_f64(lrn.scale()), wide(lrn.beta), wide(lrn.bias));
        for (i, y) in y.iter_mut().enumerate() {
            let plane = |plane: usize| self.x[plane * self.apart + i].widen();
            let squares = (0..self.planes).map(|at| plane(at).mul(plane(at)));
            let v = bias.add(scale.mul(squares.fold(T::Wide::ZERO, Number::add)));
            *y = T::narrow(plane(self.own).mul(v.ln().mul(beta).neg().exp()));
        }
    }
}

impl Pixels<'_, f32> {
    #[inline(never)]
    fn normalize_f32(self, y: &mut [f32], lrn: Lrn) {
        let Lrn { beta, bias, .. } = lrn;
        let scale = lrn.scale() as f32;
        if beta == 0.75 {
            dispatch(Normalize { x: self, y, scale, bias, power: Roots });
        } else {
            dispatch(Normalize { x: self, y, scale, bias, power: Power { beta } });
        }
    }
}

/// `v^-¾ = 1 / (√v √√v)`, the exponent of most networks.
#[derive(Clone, Copy)]
struct Roots;

impl Pointwise for Roots {
    #[inline(always)]
    fn apply<S: Simd>(self, s: S, v: S::F32) -> S::F32 {
        let root = s.sqrt(v);
        s.div(s.splat(1.0), s.mul(root, s.sqrt(root)))
    }
}

/// `v^-β = e^(-β ln v)`.
#[derive(Clone, Copy)]
struct Power {
    beta: f32,
}

impl Pointwise for Power {
    #[inline(always)]
    fn apply<S: Simd>(self, s: S, v: S::F32) -> S::F32 {
        math::exp(s, s.mul(s.splat(-self.beta), math::ln(s, v)))
    }
}

/// `y = x power(bias + scale Σ x²)`.
struct Normalize<'a, F> {
    x: Pixels<'a, f32>,
    y: &'a mut [f32],
    scale: f32,
    bias: f32,
    power: F,
}

impl<F: Pointwise> WithSimd for Normalize<'_, F> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let Normalize { x: Pixels { x, apart, planes, own }, y, scale, bias, power } = self;
        let (scale, bias) = (s.splat(scale), s.splat(bias));
        for (first, y) in (0..).step_by(S::LANES).zip(y.chunks_mut(S::LANES)) {
            let plane = |plane: usize| s.load_head(&x[plane * apart + first..][..y.len()]);
            let mut sum = s.splat(0.0);
            for at in 0..planes {
                let x = plane(at);
                sum = s.mul_add(x, x, sum);
            }
            let v = s.mul_add(sum, scale, bias);
            s.store_head(s.mul(plane(own), power.apply(s, v)), y);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::array::from_fn;

    fn check<T: Float>(error: f64) {
        for beta in [0.75, 0.5, 1.25] {
            check_power::<T>(beta, error);
        }
    }

    fn check_power<T: Float>(beta: f32, error: f64) {
        for (outer, len, inner, size) in [
            (2, 5, 3, 3),
            (1, 4, 300, 2),
            (3, 7, 1, 5),
            (1, 3, 1, 9),
            (1, 0, 2, 3),
            (2, 5, 0, 3),
            (1, 5, 2, 1),
        ] {
            let n = outer * len * inner;
            let x: [T; 1200] = from_fn(|i| T::from_f64(((i * 37) % 23) as f64 / 4.0 - 2.0));
            let mut y = [T::ZERO; 1200];
            let parameters = Lrn { size, alpha: 0.5, beta, bias: 2.0 };
            lrn(&x[..n], &mut y[..n], Axis { outer, len, inner }, parameters);
            for i in 0..n {
                let c = (i / inner % len) as isize;
                let half = (size as isize - 1) / 2;
                let sum: f64 = (c - half..c - half + size as isize)
                    .filter(|channel| (0..len as isize).contains(channel))
                    .map(|channel| (i as isize + (channel - c) * inner as isize) as usize)
                    .map(|at| x[at].to_f64() * x[at].to_f64())
                    .sum();
                let expected =
                    x[i].to_f64() / libm::pow(2.0 + 0.5 / size as f64 * sum, beta.into());
                assert!((y[i].to_f64() - expected).abs() <= error * expected.abs());
            }
        }
    }

    #[test]
    fn a_sum_over_all_channels_may_have_any_size() {
        let (x, mut y) = ([1.0f32, 2.0, 3.0], [0.0; 3]);
        let parameters = Lrn { size: usize::MAX, alpha: 0.5, beta: 0.75, bias: 1.0 };
        lrn(&x, &mut y, Axis { outer: 1, len: 3, inner: 1 }, parameters);
        assert_eq!(y, x, "a mean over this many channels is 0");
    }

    #[test]
    fn every_element_is_the_formula() {
        check::<f32>(1e-6);
        check::<f64>(1e-14);
        #[cfg(feature = "half")]
        check::<half::f16>(1e-3);
    }
}
