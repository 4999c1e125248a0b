//! Normalization by the channels around each.

use crate::elem::Elem;
use crate::geometry::Axis;
use crate::index::number;
use crate::simd::{Simd, WithSimd, dispatch};
use crate::threads::{By, Share};
use crate::unary::{exp_in_place, log_in_place};
use crate::{Float, Number};

/// The attributes of `LRN`.
#[derive(Clone, Copy, Debug)]
pub struct Lrn {
    /// How many channels are summed: as many before each as after, or one more after.
    pub size: usize,
    /// The factor of the mean of squares.
    pub alpha: f32,
    /// The exponent.
    pub beta: f32,
    /// What is added to the mean.
    pub bias: f32,
}

/// Pixels whose sums are made at once.
const PIXELS: usize = 256;

/// `y = x / (bias + α/size Σ x²)^β`, where the sum goes over the channels around each; the axis
/// is that of the channels.
pub fn lrn<T: Float>(x: &[T], y: &mut [T], geometry: Axis, lrn: Lrn) {
    let Axis { outer, len, inner } = geometry;
    let cost = y.len() * (lrn.size + ELEMENTS);
    Share::of(y, inner).hand_out(PIXELS, By::OnlyRows, cost, |mut piece| {
        let first = piece.rows.start * PIXELS;
        let mut sums = [T::Wide::ZERO; PIXELS];
        for (o, c) in (0..outer).flat_map(|o| (0..len).map(move |c| (o, c))) {
            let from = |channel: usize| &x[(o * len + channel) * inner + first..];
            let y = piece.y.plane(o * len + c);
            for (at, y) in (0..).step_by(PIXELS).zip(y.chunks_mut(PIXELS)) {
                let sums = &mut sums[..y.len()];
                lrn.sum(sums, c, len, |channel| &from(channel)[at..]);
                lrn.powers(sums);
                for ((y, x), power) in y.iter_mut().zip(&from(c)[at..]).zip(&*sums) {
                    *y = T::narrow(x.widen().mul(*power));
                }
            }
        }
    });
}

/// So many elements take as long as the power of one.
const ELEMENTS: usize = 6;

impl Lrn {
    /// The sums of the squares of the channels around channel `c`.
    fn sum<'x, T: Float>(
        &self,
        sums: &mut [T::Wide],
        c: usize,
        channels: usize,
        x: impl Fn(usize) -> &'x [T],
    ) {
        let (before, after) = (self.size.saturating_sub(1) / 2, self.size / 2);
        sums.fill(T::Wide::ZERO);
        for x in (c.saturating_sub(before)..channels.min(c + after + 1)).map(x) {
            let x = &x[..sums.len()];
            match (T::as_f32(x), T::Wide::as_f32_mut(sums)) {
                (Some(x), Some(sums)) => dispatch(AddSquares { x, sums }),
                _ => sums.iter_mut().zip(x).for_each(|(sum, x)| {
                    *sum = sum.add(x.widen().mul(x.widen()));
                }),
            }
        }
    }

    /// The factors of elements with such sums around them: `v^-β = e^(-β ln v)`.
    fn powers<W: Float>(&self, sums: &mut [W]) {
        let wide = |x: f32| W::from_f64(f64::from(x));
        let (scale, beta, bias) =
            (wide(self.alpha).div(number(self.size)), wide(self.beta), wide(self.bias));
        sums.iter_mut().for_each(|sum| *sum = bias.add(scale.mul(*sum)));
        log_in_place(sums);
        sums.iter_mut().for_each(|log| *log = log.mul(beta).neg());
        exp_in_place(sums);
    }
}

/// Adds the squares of numbers to sums.
struct AddSquares<'a> {
    x: &'a [f32],
    sums: &'a mut [f32],
}

impl WithSimd for AddSquares<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let (mut xs, mut sums) =
            (self.x.chunks_exact(S::LANES), self.sums.chunks_exact_mut(S::LANES));
        for (x, sums) in (&mut xs).zip(&mut sums) {
            let x = s.load(x);
            s.store(s.mul_add(x, x, s.load(sums)), sums);
        }
        for (x, sum) in xs.remainder().iter().zip(sums.into_remainder()) {
            *sum += x * x;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::array::from_fn;

    fn check<T: Float>(error: f64) {
        for (outer, len, inner, size) in
            [(2, 5, 3, 3), (1, 4, 300, 2), (3, 7, 1, 5), (1, 3, 1, 9), (1, 0, 2, 3), (1, 5, 2, 1)]
        {
            let n = outer * len * inner;
            let x: [T; 1200] = from_fn(|i| T::from_f64(((i * 37) % 23) as f64 / 4.0 - 2.0));
            let mut y = [T::ZERO; 1200];
            let parameters = Lrn { size, alpha: 0.5, beta: 0.75, bias: 2.0 };
            lrn(&x[..n], &mut y[..n], Axis { outer, len, inner }, parameters);
            for i in 0..n {
                let c = (i / inner % len) as isize;
                let half = (size as isize - 1) / 2;
                let sum: f64 = (c - half..c - half + size as isize)
                    .filter(|channel| (0..len as isize).contains(channel))
                    .map(|channel| (i as isize + (channel - c) * inner as isize) as usize)
                    .map(|at| x[at].to_f64() * x[at].to_f64())
                    .sum();
                let expected = x[i].to_f64() / libm::pow(2.0 + 0.5 / size as f64 * sum, 0.75);
                assert!((y[i].to_f64() - expected).abs() <= error * expected.abs());
            }
        }
    }

    #[test]
    fn every_element_is_the_formula() {
        check::<f32>(1e-6);
        check::<f64>(1e-14);
        #[cfg(feature = "half")]
        check::<half::f16>(1e-3);
    }
}
