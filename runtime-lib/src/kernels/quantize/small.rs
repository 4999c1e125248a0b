//! Quantization with one scale for all elements, with little code.

use super::{Quantum, WholeQuantum};
use crate::Float;

/// Computes [`super::quantize_linear`] for elements with one scale and one zero point.
#[inline(never)]
pub fn small_quantize<Y: WholeQuantum>(x: &[f32], scale: &[f32], zero: Option<&[Y]>, y: &mut [Y]) {
    let Some(&scale) = scale.first() else { return };
    let zero = single(zero);
    for (y, &x) in y.iter_mut().zip(x) {
        // The sum is exact, or far beyond the limits.
        let sum = Float::round(x / scale) + zero;
        let sum = if sum > Y::LOW { sum } else { Y::LOW };
        *y = Y::whole(if sum < Y::HIGH { sum } else { Y::HIGH });
    }
}

/// Computes [`super::dequantize_linear`] for elements with one scale and one zero point.
#[inline(never)]
pub fn small_dequantize<X: Quantum>(x: &[X], scale: &[f32], zero: Option<&[X]>, y: &mut [f32]) {
    let Some(&scale) = scale.first() else { return };
    let zero = single(zero);
    for (y, x) in y.iter_mut().zip(x) {
        *y = (x.single() - zero) * scale;
    }
}

/// Returns the zero point, 0 if there is none.
#[inline(always)]
fn single<T: Quantum>(zero: Option<&[T]>) -> f32 {
    zero.and_then(|zero| zero.first()).map_or(0.0, |zero| zero.single())
}

#[cfg(all(test, feature = "std"))]
mod tests {
    use super::super::{Scales, dequantize_linear, quantize_linear};
    use super::*;
    use std::{vec, vec::Vec};

    fn check<T: WholeQuantum + PartialEq + core::fmt::Debug>(zero: Option<&[T]>) {
        let any = (0..4000).map(|i| (i * 7919 % 4001 - 2000) as f32 / 16.0);
        let special = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, -0.0, 0.5, 1.5, 1e30];
        let x: Vec<f32> = any.chain(special).collect();
        let n = x.len();
        let all = Scales {
            outer: 1,
            len: n,
            inner: 1,
            block: n,
            outer_step: 0,
            block_step: 0,
            inner_step: 0,
        };
        for scale in [[1.0], [0.5], [0.043_137], [3.0]] {
            let (mut y, mut wanted) = (vec![T::whole(0.0); n], vec![T::whole(0.0); n]);
            small_quantize(&x, &scale, zero, &mut y);
            quantize_linear(&x, &scale, zero, &mut wanted, all);
            assert_eq!(y, wanted);
            let (mut back, mut wanted) = (vec![0.0; n], vec![0.0; n]);
            small_dequantize(&y, &scale, zero, &mut back);
            dequantize_linear(&y, &scale, zero, &mut wanted, all);
            assert_eq!(back, wanted);
        }
    }

    #[test]
    fn one_scale_for_all_gives_the_same() {
        check::<i8>(None);
        check(Some(&[-128i8]));
        check(Some(&[3u8]));
        check(Some(&[-7i16]));
    }
}
