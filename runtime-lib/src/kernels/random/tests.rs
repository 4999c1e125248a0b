//! Compares random numbers with their distributions.

use super::*;
use crate::random::Draws;

/// The sample size.
const MANY: usize = 40_000;

/// Returns the first stream of a seed.
fn stream(seed: u64) -> Stream {
    Stream::given(seed, 0)
}

/// Compares the mean, the variance, and the share below a few bounds with those of the
/// distribution, within 5 standard errors.
fn check(y: &[f64], mean: f64, variance: f64, kurtosis: f64, below: &[(f64, f64)]) {
    let n = y.len() as f64;
    let found = y.iter().sum::<f64>() / n;
    assert!((found - mean).abs() < 5.0 * libm::sqrt(variance / n), "mean {found}");
    let found = y.iter().map(|y| (y - mean) * (y - mean)).sum::<f64>() / n;
    let error = variance * libm::sqrt((kurtosis - 1.0) / n);
    assert!((found - variance).abs() < 5.0 * error, "variance {found}");
    for &(bound, share) in below {
        let found = y.iter().filter(|&&y| y < bound).count() as f64 / n;
        let error = libm::sqrt(share * (1.0 - share) / n);
        assert!((found - share).abs() <= 5.0 * error, "{found} of all are below {bound}");
    }
}

#[test]
fn uniform_numbers_fill_their_interval() {
    let mut y = [0.0; MANY];
    random_uniform(&mut y, -1.0, 3.0, stream(7));
    let below = [(-1.0, 0.0), (-0.5, 0.125), (0.0, 0.25), (1.0, 0.5), (2.5, 0.875), (3.0, 1.0)];
    check(&y, 1.0, 16.0 / 12.0, 1.8, &below);
    let mut again = [0.0f32; 9];
    random_uniform(&mut again, -1.0, 3.0, stream(7));
    assert_eq!(again[..], y.map(|y| y as f32)[..9]);
    random_uniform(&mut again, -1.0, 3.0, stream(8));
    assert_ne!(again[..], y.map(|y| y as f32)[..9]);
}

#[test]
fn normal_numbers_have_their_tails() {
    let mut y = [0.0; MANY];
    random_normal(&mut y, 5.0, 2.0, stream(1 << 40));
    let phi = |z: f64| 0.5 * libm::erfc(-z / core::f64::consts::SQRT_2);
    let below = [-3.0, -2.0, -1.0, -0.25, 0.0, 0.5, 1.0, 2.0, 3.0];
    check(&y, 5.0, 4.0, 3.0, &below.map(|z| (5.0 + 2.0 * z, phi(z))));
    let pairs = y.chunks_exact(2).map(|pair| (pair[0] - 5.0) * (pair[1] - 5.0));
    let correlation = pairs.sum::<f64>() / (MANY as f64 / 2.0) / 4.0;
    assert!(correlation.abs() < 5.0 / libm::sqrt(MANY as f64 / 2.0), "{correlation}");
}

#[test]
fn booleans_are_true_with_their_probability() {
    for p in [0.0, 0.1, 0.5, 1.0] {
        let mut y = [false; MANY];
        bernoulli(&[p as f32; MANY], &mut y, stream(3));
        let share = y.iter().filter(|&&y| y).count() as f64 / MANY as f64;
        let error = libm::sqrt(p * (1.0 - p) / MANY as f64);
        assert!((share - p).abs() <= 5.0 * error, "{share} of all are true");
    }
}

#[test]
fn classes_are_drawn_with_their_probability() {
    let shares = [[0.5, 0.25, 0.125, 0.125], [0.0, 0.1, 0.0, 0.9]];
    let x = shares.as_flattened().iter().map(|&p| libm::logf(p as f32) + 3.0);
    let mut logits = [0.0f32; 8];
    logits.iter_mut().zip(x).for_each(|(logit, x)| *logit = x);
    let mut y = [0i64; 2 * MANY];
    multinomial(&logits, &mut y, 4, MANY, stream(11));
    for (shares, y) in shares.iter().zip(y.chunks(MANY)) {
        for (class, &share) in (0..).zip(shares) {
            let found = y.iter().filter(|&&y| y == class).count() as f64 / MANY as f64;
            let error = libm::sqrt(share * (1.0 - share) / MANY as f64);
            assert!((found - share).abs() <= 5.0 * error, "class {class}: {found}");
        }
    }
}

#[test]
fn kept_elements_are_scaled_by_the_dropout_rate() {
    let (x, mut y, mut mask) = ([3.0f32; MANY], [0.0; MANY], [false; MANY]);
    dropout_mask(&[0.75], &[true], &mut mask, stream(5));
    dropout(&x, &mask, &[0.75], &[true], &mut y);
    assert!(y.iter().zip(mask).all(|(&y, stays)| y == if stays { 12.0 } else { 0.0 }));
    let share = mask.iter().filter(|&&stays| stays).count() as f64 / MANY as f64;
    assert!((share - 0.25).abs() < 5.0 * libm::sqrt(0.25 * 0.75 / MANY as f64), "{share}");
    dropout_mask(&[0.75], &[false], &mut mask, stream(5));
    dropout(&x, &mask, &[0.75], &[false], &mut y);
    assert!(mask.iter().all(|&stays| stays) && y == x);
    dropout_mask(&[1.0], &[true], &mut mask, stream(5));
    dropout(&x, &mask, &[1.0], &[true], &mut y);
    assert!(y.iter().all(|&y| y == 0.0));
}

/// Returns the Kolmogorov–Smirnov statistic times √n, which exceeds 1.95 once in a thousand
/// samples.
fn kolmogorov(y: &mut [f64], below: impl Fn(f64) -> f64) -> f64 {
    y.sort_unstable_by(f64::total_cmp);
    let n = y.len() as f64;
    let distance = |(i, &y): (usize, &f64)| {
        let share = below(y);
        (share - i as f64 / n).abs().max((share - (i + 1) as f64 / n).abs())
    };
    y.iter().enumerate().map(distance).fold(0.0, f64::max) * libm::sqrt(n)
}

/// Returns whether counts fit the expectation: Pearson's χ² within 3.3 standard deviations, by the
/// Wilson–Hilferty transformation.
fn fits(found: &[usize], expected: &[f64]) -> bool {
    let part = |(&found, &expected): (&usize, &f64)| {
        (found as f64 - expected) * (found as f64 - expected) / expected
    };
    let statistic: f64 = found.iter().zip(expected).map(part).sum();
    let freedom = (found.len() - 1) as f64;
    let spread = 2.0 / (9.0 * freedom);
    libm::cbrt(statistic / freedom) < 1.0 - spread + 3.3 * libm::sqrt(spread)
}

#[test]
fn numbers_have_the_distribution_asked_for_in_every_iteration_and_type() {
    for iteration in [0, 1, 1 << 40] {
        for seed in [0, 1, u64::MAX] {
            let stream = Stream::given(seed, iteration);
            let mut y = [0.0; MANY];
            random_uniform(&mut y, -2.0, 2.0, stream);
            assert!(kolmogorov(&mut y, |y| (y + 2.0) / 4.0) < 1.95, "{stream:?}");
            let mut y = [0.0f32; MANY];
            random_normal(&mut y, 1.0, 3.0, stream);
            let below = |y: f64| 0.5 * libm::erfc((1.0 - y) / 3.0 / core::f64::consts::SQRT_2);
            assert!(kolmogorov(&mut y.map(f64::from), below) < 1.95, "{stream:?}");
        }
    }
}

#[test]
fn drawn_classes_have_their_frequencies() {
    for seed in 0..5 {
        let stream = Stream::named(seed, 0xcbf2_9ce4_8422_2325, seed);
        let shares = [0.05, 0.15, 0.3, 0.5];
        let logits = shares.map(|p: f64| libm::log(p) - 7.0);
        let mut y = [0i32; MANY];
        multinomial(&logits, &mut y, 4, MANY, stream);
        let found = [0, 1, 2, 3].map(|class| y.iter().filter(|&&y| y == class).count());
        assert!(fits(&found, &shares.map(|p| p * MANY as f64)), "{found:?}");

        let (mut y, mut mask) = ([0u8; MANY], [false; MANY]);
        bernoulli(&[0.2f32; MANY], &mut y, stream);
        dropout_mask(&[0.8], &[true], &mut mask, stream);
        let ones = [y.map(|y| y == 1), mask].map(|y| y.iter().filter(|&&y| y).count());
        for ones in ones {
            assert!(fits(&[ones, MANY - ones], &[0.2, 0.8].map(|p| p * MANY as f64)), "{ones}");
        }

        // Each of the 16 patterns of four adjacent bits, 16 of them per block.
        let mut found = [0; 16];
        for number in 0..2_000 {
            for word in Philox::new(stream).block(number) {
                (0..8).for_each(|i| found[(word >> (4 * i) & 15) as usize] += 1);
            }
        }
        assert!(fits(&found, &[4_000.0; 16]), "{found:?}");
    }
}

#[test]
fn each_iteration_and_each_seed_draws_different_numbers() {
    let mut draws = Draws::<2>::new(0);
    let mut first = [[0.0f32; 4]; 6];
    let streams = [
        draws.named(0, 9),
        draws.named(0, 9),
        draws.named(1, 10),
        draws.given(1, 12),
        Draws::<1>::new(1).named(0, 9),
        Draws::<1>::new(2).named(0, 9),
    ];
    for (y, stream) in first.iter_mut().zip(streams) {
        random_uniform(y, 0.0, 1.0, stream);
    }
    for (i, a) in first.iter().enumerate() {
        assert!(first[..i].iter().flatten().all(|b| !a.contains(b)), "{first:?}");
    }
    assert_eq!(Draws::<1>::new(3).given(0, 9), Draws::<1>::new(4).given(0, 9));
    let masks = [0, 1].map(|iteration| {
        let mut mask = [false; 64];
        dropout_mask(&[0.5], &[true], &mut mask, Stream::given(7, iteration));
        mask
    });
    assert_ne!(masks[0], masks[1]);
}
