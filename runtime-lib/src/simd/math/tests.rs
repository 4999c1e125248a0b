//! Every function against `libm` in `f64`, over one in so many of all bit patterns.

use super::*;
use crate::simd::each_level;
use std::{vec, vec::Vec};

/// One in 1 009 of all `f32`, and those where something changes.
fn inputs() -> Vec<f32> {
    let edges =
        [0.0, f32::MIN_POSITIVE, 1e-45, 88.722_83, 88.722_84, 103.97, 104.0, 1.0, 10.0, 3.95]
            .into_iter()
            .chain([
                f32::MAX,
                f32::INFINITY,
                f32::NAN,
                9.01,
                2.0 / 3.0,
                4.0 / 3.0,
                0.5,
                0.35,
                17.4,
            ]);
    let patterns = (0..=u32::MAX).step_by(1009).map(f32::from_bits);
    edges.flat_map(|x| [x, -x]).chain(patterns).collect()
}

/// The distance of `y` from `truth`, in units of the last place of the nearest `f32`.
fn ulps(y: f32, truth: f64) -> f64 {
    let nearest = truth as f32;
    if y == nearest || (y.is_nan() && nearest.is_nan()) {
        return 0.0;
    }
    if !y.is_finite() || !nearest.is_finite() {
        return f64::INFINITY;
    }
    let bits = nearest.abs().to_bits();
    let ulp = f64::from(f32::from_bits(bits + 1)) - f64::from(f32::from_bits(bits));
    (f64::from(y) - truth).abs() / ulp
}

fn check(name: &str, f: fn(&[f32], &mut [f32]), truth: fn(f64) -> f64, bound: f64) {
    let x = inputs();
    let truths: Vec<f64> = x.iter().map(|&x| truth(f64::from(x))).collect();
    each_level(|level| {
        let mut y = vec![0.0; x.len()];
        f(&x, &mut y);
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

#[test]
fn functions_are_within_their_bounds() {
    check("exp", exp_f32, libm::exp, 1.2);
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
        for f in [exp_m1_in_place_f32, tanh_in_place_f32, erf_in_place_f32] {
            let mut y = [0.0, -0.0];
            f(&mut y);
            assert_eq!(y.map(f32::to_bits), [0.0f32, -0.0].map(f32::to_bits), "{level:?}");
        }
    });
}

#[test]
fn slices_of_every_length_are_mapped_whole() {
    each_level(|level| {
        for n in 0..40 {
            let x: Vec<f32> = (0..n).map(|i| i as f32 / 8.0).collect();
            let mut y = vec![0.0; n];
            exp_f32(&x, &mut y);
            let mut z = x.clone();
            exp_in_place_f32(&mut z);
            assert_eq!(y, z, "{level:?}");
            let near = |(x, y): (&f32, &f32)| (x.exp() - y).abs() <= 1e-6 * y;
            assert!(x.iter().zip(&y).all(near), "{level:?}: {y:?}");
        }
    });
}
