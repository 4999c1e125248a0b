//! Compares every function with `libm` in `f64`, for a sample of all bit patterns.

use super::*;
use crate::kernels::accuracy::{inputs, ulps};
use crate::simd::each_level;
use std::{vec, vec::Vec};

fn check(name: &str, f: fn(Option<&[f32]>, &mut [f32]), truth: fn(f64) -> f64, bound: f64) {
    let x = inputs(1_009);
    let truths: Vec<f64> = x.iter().map(|&x| truth(f64::from(x))).collect();
    each_level(|level| {
        let mut y = vec![0.0; x.len()];
        f(Some(&x), &mut y);
        let mut worst = (0.0, 0.0, 0.0, 0.0);
        for ((&x, &y), &truth) in x.iter().zip(&y).zip(&truths) {
            let error = ulps(y, truth);
            if error > worst.0 {
                worst = (error, x, y, truth);
            }
        }
        let (error, x, y, truth) = worst;
        assert!(error <= bound, "{level:?}: {name}({x:e}) = {y:e}, not {truth:e}: {error} ulp");
    });
}

/// Computes `e^-|x|` with [`exp_to_one`].
fn exp_to_one_in(x: Option<&[f32]>, y: &mut [f32]) {
    #[derive(Clone, Copy)]
    struct ToOne;
    impl Pointwise for ToOne {
        #[inline(always)]
        fn apply<S: Simd>(self, s: S, x: S::F32) -> S::F32 {
            exp_to_one(s, s.neg(s.abs(x)))
        }
    }
    map(x, y, ToOne);
}

#[test]
fn functions_are_within_their_bounds() {
    check("exp", exp_f32, libm::exp, 1.2);
    let negative = |x: Option<&[f32]>, y: &mut [f32]| {
        y.iter_mut().zip(x.unwrap_or(&[])).for_each(|(y, x)| *y = exp_of_negative(-x.abs()));
    };
    check("exp of negative", negative, |x| libm::exp(-x.abs()), 1.6);
    check("exp to one", exp_to_one_in, |x| libm::exp(-x.abs()), 1.2);
    check("exp_m1", exp_m1_f32, libm::expm1, 1.9);
    check("ln", ln_f32, libm::log, 1.0);
    check("tanh", tanh_f32, libm::tanh, 2.5);
    check("sigmoid", sigmoid_f32, |x| 1.0 / (1.0 + libm::exp(-x)), 2.5);
    check("softplus", softplus_f32, |x| libm::log1p(libm::exp(-x.abs())) + x.max(0.0), 1.8);
    check("erf", erf_f32, libm::erf, 1.3);
}

#[test]
fn zeros_keep_their_sign() {
    each_level(|level| {
        for f in [exp_m1_f32, tanh_f32, erf_f32] {
            let mut y = [0.0, -0.0];
            f(None, &mut y);
            assert_eq!(y.map(f32::to_bits), [0.0f32, -0.0].map(f32::to_bits), "{level:?}");
        }
    });
}

#[test]
fn slices_of_every_length_are_mapped_completely() {
    each_level(|level| {
        for n in 0..40 {
            let x: Vec<f32> = (0..n).map(|i| i as f32 / 8.0).collect();
            let mut y = vec![0.0; n];
            exp_f32(Some(&x), &mut y);
            let mut z = x.clone();
            exp_f32(None, &mut z);
            assert_eq!(y, z, "{level:?}");
            let near = |(x, y): (&f32, &f32)| (x.exp() - y).abs() <= 1e-6 * y;
            assert!(x.iter().zip(&y).all(near), "{level:?}: {y:?}");
        }
    });
}
