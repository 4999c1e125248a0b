//! Normalization by the channels around each.

use crate::geometry::Axis;
use crate::index::number;
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

/// `y = x / (bias + α/size Σ x²)^β`, where the sum goes over the channels around each; the axis
/// is that of the channels.
pub fn lrn<T: Float>(x: &[T], y: &mut [T], geometry: Axis, lrn: Lrn) {
    let Axis { outer, len, inner } = geometry;
    let Lrn { size, alpha, beta, bias } = lrn;
    let wide = |x: f32| T::Wide::from_f64(f64::from(x));
    let (scale, beta, bias) = (wide(alpha).div(number(size)), wide(beta), wide(bias));
    let (before, after) = (size.saturating_sub(1) / 2, size / 2);
    let mut block = [T::Wide::ZERO; 256];
    for (o, c) in (0..outer).flat_map(|o| (0..len).map(move |c| (o, c))) {
        let neighbors = c.saturating_sub(before)..len.min(c + after + 1);
        for first in (0..inner).step_by(block.len()) {
            let block = &mut block[..256.min(inner - first)];
            block.fill(T::Wide::ZERO);
            let at = |channel: usize| (o * len + channel) * inner + first;
            for x in neighbors.clone().map(|channel| &x[at(channel)..]) {
                for (sum, x) in block.iter_mut().zip(x) {
                    *sum = sum.add(x.widen().mul(x.widen()));
                }
            }
            // v^-β = e^(-β ln v)
            block.iter_mut().for_each(|sum| *sum = bias.add(scale.mul(*sum)));
            log_in_place(block);
            block.iter_mut().for_each(|log| *log = log.mul(beta).neg());
            exp_in_place(block);
            for ((y, x), power) in y[at(c)..].iter_mut().zip(&x[at(c)..]).zip(&*block) {
                *y = T::narrow(x.widen().mul(*power));
            }
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
