//! Random numbers.
//!
//! But for those of `Dropout`, every number is a function of a seed and of the place of the element that it is for: Philox
//! 4×32 with ten rounds (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011). The
//! same seed gives the same numbers on every machine, in whatever order and in however many parts
//! they are asked for.

use crate::{Exact, Float, Integer, Real};

/// A source of random bits.
#[derive(Clone, Copy, Debug)]
pub struct Philox {
    key: [u32; 2],
}

impl Philox {
    /// The source that `seed` stands for.
    pub const fn new(seed: u64) -> Philox {
        Philox { key: [seed as u32, (seed >> 32) as u32] }
    }

    /// The bits with that number.
    pub fn block(self, number: u64) -> [u32; 4] {
        self.rounds([number as u32, (number >> 32) as u32, 0, 0])
    }

    fn rounds(self, mut counter: [u32; 4]) -> [u32; 4] {
        /// What the parts of the counter are multiplied by.
        const FACTORS: [u64; 2] = [0xd251_1f53, 0xcd9e_8d57];
        /// What the key grows by each round: the golden ratio and √3 - 1.
        const STEPS: [u32; 2] = [0x9e37_79b9, 0xbb67_ae85];
        let mut key = self.key;
        for _ in 0..10 {
            let first = FACTORS[0] * u64::from(counter[0]);
            let second = FACTORS[1] * u64::from(counter[2]);
            counter = [
                (second >> 32) as u32 ^ counter[1] ^ key[0],
                second as u32,
                (first >> 32) as u32 ^ counter[3] ^ key[1],
                first as u32,
            ];
            key = [key[0].wrapping_add(STEPS[0]), key[1].wrapping_add(STEPS[1])];
        }
        counter
    }

    /// Two numbers from 0 to below 1.
    fn pair(self, number: u64) -> [f64; 2] {
        let [a, b, c, d] = self.block(number);
        [unit(a, b), unit(c, d)]
    }

    /// Calls `each` with every place of `y` and a number from 0 to below 1.
    fn each<Y>(self, y: &mut [Y], mut each: impl FnMut(&mut Y, f64)) {
        for (number, pair) in (0..).zip(y.chunks_mut(2)) {
            for (y, u) in pair.iter_mut().zip(self.pair(number)) {
                each(y, u);
            }
        }
    }
}

/// 2^-53.
const STEP: f64 = 1.0 / (1u64 << f64::MANTISSA_DIGITS) as f64;

/// The high 53 of 64 bits, as a number from 0 to below 1.
fn unit(low: u32, high: u32) -> f64 {
    let bits = u64::from(high) << 32 | u64::from(low);
    (bits >> (u64::BITS - f64::MANTISSA_DIGITS)) as f64 * STEP
}

/// Numbers from `low` to `high`, all as likely.
pub fn random_uniform<T: Real>(y: &mut [T], low: f32, high: f32, seed: u64) {
    let (low, high) = (f64::from(low), f64::from(high));
    Philox::new(seed).each(y, |y, u| *y = T::nearest(Exact::Double(low + (high - low) * u)));
}

/// Numbers of the normal distribution with that mean and standard deviation.
pub fn random_normal<T: Real>(y: &mut [T], mean: f32, scale: f32, seed: u64) {
    let (mean, scale) = (f64::from(mean), f64::from(scale));
    for (number, pair) in (0..).zip(y.chunks_mut(2)) {
        for (y, z) in pair.iter_mut().zip(normal_pair(Philox::new(seed).pair(number))) {
            *y = T::nearest(Exact::Double(mean + scale * z));
        }
    }
}

/// Two numbers of the standard normal distribution, of two from 0 to below 1: the radius and the
/// angle of a point in the plane.
fn normal_pair([u, v]: [f64; 2]) -> [f64; 2] {
    let radius = libm::sqrt(-2.0 * libm::log1p(-u));
    let (sin, cos) = libm::sincos(core::f64::consts::TAU * v);
    [radius * cos, radius * sin]
}

/// 1 with the probability that the element of `x` says, else 0.
pub fn bernoulli<A: Real, B: Real>(x: &[A], y: &mut [B], seed: u64) {
    let mut x = x.iter();
    Philox::new(seed).each(y, |y, u| {
        let p = x.next().map_or(0.0, |x| x.exact().to_f64());
        *y = B::nearest(Exact::Unsigned(u64::from(u < p)));
    });
}

/// In each row of `y`, which has `samples` columns, classes drawn with the probabilities whose
/// logarithms, up to a common term, stand in a row of `x`, which has `classes` columns.
pub fn multinomial<T: Float, I: Integer>(
    x: &[T],
    y: &mut [I],
    classes: usize,
    samples: usize,
    seed: u64,
) {
    if classes == 0 || samples == 0 {
        return;
    }
    let mut rows = x.chunks_exact(classes);
    let mut row: &[T] = &[];
    let (mut largest, mut total) = (0.0, 0.0);
    let mut left = 0;
    Philox::new(seed).each(y, |y, u| {
        if left == 0 {
            left = samples;
            row = rows.next().unwrap_or_default();
            largest = row.iter().map(|x| x.to_f64()).fold(f64::NEG_INFINITY, f64::max);
            total = row.iter().map(|x| weight(*x, largest)).sum();
        }
        left -= 1;
        *y = I::from_i64(drawn(row, largest, u * total));
    });
}

/// How likely a class is, next to the likeliest.
fn weight<T: Float>(x: T, largest: f64) -> f64 {
    libm::exp(x.to_f64() - largest)
}

/// The class in whose part of the sum of all weights `place` lies.
fn drawn<T: Float>(row: &[T], largest: f64, place: f64) -> i64 {
    let (mut sum, mut last) = (0.0, 0);
    for (class, &x) in (0..).zip(row) {
        let weight = weight(x, largest);
        if weight > 0.0 {
            last = class;
        }
        sum += weight;
        if place < sum {
            break;
        }
    }
    last
}

/// The Mersenne Twister MT19937 (Matsumoto and Nishimura, 1998), with which the results that ONNX
/// publishes for `Dropout` with a seed are made.
struct MersenneTwister {
    state: [u32; MersenneTwister::WORDS],
    next: usize,
}

impl MersenneTwister {
    /// How many words the state has.
    const WORDS: usize = 624;

    /// The source that the low 32 bits of `seed` stand for.
    fn new(seed: u64) -> MersenneTwister {
        let mut word = seed as u32;
        let mut state = [word; MersenneTwister::WORDS];
        for (i, to) in (1..).zip(&mut state[1..]) {
            word = 1_812_433_253u32.wrapping_mul(word ^ word >> 30).wrapping_add(i);
            *to = word;
        }
        MersenneTwister { state, next: MersenneTwister::WORDS }
    }

    /// Mixes all words.
    fn turn(&mut self) {
        /// How far the words lie apart that are mixed, beside neighbors.
        const FAR: usize = 397;
        for i in 0..MersenneTwister::WORDS {
            let [next, far] = [i + 1, i + FAR].map(|i| self.state[i % MersenneTwister::WORDS]);
            let mixed = self.state[i] & 0x8000_0000 | next & 0x7fff_ffff;
            let factor = if mixed & 1 == 1 { 0x9908_b0df } else { 0 };
            self.state[i] = far ^ mixed >> 1 ^ factor;
        }
        self.next = 0;
    }

    /// The next bits.
    fn bits(&mut self) -> u32 {
        if self.next == MersenneTwister::WORDS {
            self.turn();
        }
        let mut bits = self.state[self.next];
        self.next += 1;
        bits ^= bits >> 11;
        bits ^= bits << 7 & 0x9d2c_5680;
        bits ^= bits << 15 & 0xefc6_0000;
        bits ^ bits >> 18
    }

    /// The next number from 0 to below 1: 27 bits, and 26 lower ones.
    fn unit(&mut self) -> f64 {
        let (high, low) = (self.bits() >> 5, self.bits() >> 6);
        (u64::from(high) << 26 | u64::from(low)) as f64 * STEP
    }
}

/// Whether each element stays: with probability `1 - ratio` in training, else always.
pub fn dropout_mask(ratio: &[f64], training: &[bool], mask: &mut [bool], seed: u64) {
    let Some(ratio) = rate(ratio, training) else { return mask.fill(true) };
    let mut source = MersenneTwister::new(seed);
    mask.fill_with(|| source.unit() >= ratio);
}

/// `y = x / (1 - ratio)` where the mask is true, else 0; outside training `y = x`.
pub fn dropout<T: Real>(x: &[T], mask: &[bool], ratio: &[f64], training: &[bool], y: &mut [T]) {
    let Some(ratio) = rate(ratio, training) else { return y.copy_from_slice(x) };
    let scale = 1.0 / (1.0 - ratio);
    for ((y, &x), &stays) in y.iter_mut().zip(x).zip(mask) {
        *y = T::nearest(Exact::Double(if stays { x.exact().to_f64() * scale } else { 0.0 }));
    }
}

/// How much is dropped, in training.
fn rate(ratio: &[f64], training: &[bool]) -> Option<f64> {
    let trains = training.first().is_some_and(|&training| training);
    if trains { ratio.first().copied() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many numbers are drawn where their distribution is looked at.
    const MANY: usize = 40_000;

    /// The examples that the authors of the generator publish.
    #[test]
    fn bits_are_those_of_philox() {
        let cases = [
            ([0; 4], [0; 2], [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]),
            ([!0; 4], [!0; 2], [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd]),
            (
                [0x243f_6a88, 0x85a3_08d3, 0x1319_8a2e, 0x0370_7344],
                [0xa409_3822, 0x299f_31d0],
                [0xd16c_fe09, 0x94fd_cceb, 0x5001_e420, 0x2412_6ea1],
            ),
        ];
        for (counter, key, expected) in cases {
            assert_eq!(Philox { key }.rounds(counter), expected);
        }
    }

    /// The first and the ten thousandth bits of the generator's best known seed.
    #[test]
    fn bits_are_those_of_the_twister() {
        let mut source = MersenneTwister::new(5489);
        assert_eq!(source.bits(), 3_499_211_612);
        (2..10_000).for_each(|_| {
            source.bits();
        });
        assert_eq!(source.bits(), 4_123_659_995);
        let mut source = MersenneTwister::new(0);
        let units = [source.unit(), source.unit(), source.unit()];
        assert_eq!(
            units,
            [0.548_813_503_927_324_8, 0.715_189_366_372_419_5, 0.602_763_376_071_643_9]
        );
    }

    /// Holds the mean and the variance of numbers against those of their distribution, and the
    /// share of them below each of a few bounds: 5 standard errors are allowed.
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
        random_uniform(&mut y, -1.0, 3.0, 7);
        let below = [(-1.0, 0.0), (-0.5, 0.125), (0.0, 0.25), (1.0, 0.5), (2.5, 0.875), (3.0, 1.0)];
        check(&y, 1.0, 16.0 / 12.0, 1.8, &below);
        let mut again = [0.0f32; 9];
        random_uniform(&mut again, -1.0, 3.0, 7);
        assert_eq!(again[..], y.map(|y| y as f32)[..9]);
        random_uniform(&mut again, -1.0, 3.0, 8);
        assert_ne!(again[..], y.map(|y| y as f32)[..9]);
    }

    #[test]
    fn normal_numbers_have_their_tails() {
        let mut y = [0.0; MANY];
        random_normal(&mut y, 5.0, 2.0, 1 << 40);
        let phi = |z: f64| 0.5 * libm::erfc(-z / core::f64::consts::SQRT_2);
        let below = [-3.0, -2.0, -1.0, -0.25, 0.0, 0.5, 1.0, 2.0, 3.0];
        check(&y, 5.0, 4.0, 3.0, &below.map(|z| (5.0 + 2.0 * z, phi(z))));
        let pairs = y.chunks_exact(2).map(|pair| (pair[0] - 5.0) * (pair[1] - 5.0));
        let correlation = pairs.sum::<f64>() / (MANY as f64 / 2.0) / 4.0;
        assert!(correlation.abs() < 5.0 / libm::sqrt(MANY as f64 / 2.0), "{correlation}");
    }

    #[test]
    fn truths_have_their_probabilities() {
        for p in [0.0, 0.1, 0.5, 1.0] {
            let mut y = [false; MANY];
            bernoulli(&[p as f32; MANY], &mut y, 3);
            let share = y.iter().filter(|&&y| y).count() as f64 / MANY as f64;
            let error = libm::sqrt(p * (1.0 - p) / MANY as f64);
            assert!((share - p).abs() <= 5.0 * error, "{share} of all are true");
        }
    }

    #[test]
    fn classes_are_drawn_as_often_as_they_are_likely() {
        let shares = [[0.5, 0.25, 0.125, 0.125], [0.0, 0.1, 0.0, 0.9]];
        let x = shares.as_flattened().iter().map(|&p| libm::logf(p as f32) + 3.0);
        let mut logits = [0.0f32; 8];
        logits.iter_mut().zip(x).for_each(|(logit, x)| *logit = x);
        let mut y = [0i64; 2 * MANY];
        multinomial(&logits, &mut y, 4, MANY, 11);
        for (shares, y) in shares.iter().zip(y.chunks(MANY)) {
            for (class, &share) in (0..).zip(shares) {
                let found = y.iter().filter(|&&y| y == class).count() as f64 / MANY as f64;
                let error = libm::sqrt(share * (1.0 - share) / MANY as f64);
                assert!((found - share).abs() <= 5.0 * error, "class {class}: {found}");
            }
        }
    }

    #[test]
    fn dropped_elements_are_made_up_for() {
        let (x, mut y, mut mask) = ([3.0f32; MANY], [0.0; MANY], [false; MANY]);
        dropout_mask(&[0.75], &[true], &mut mask, 5);
        dropout(&x, &mask, &[0.75], &[true], &mut y);
        assert!(y.iter().zip(mask).all(|(&y, stays)| y == if stays { 12.0 } else { 0.0 }));
        let share = mask.iter().filter(|&&stays| stays).count() as f64 / MANY as f64;
        assert!((share - 0.25).abs() < 5.0 * libm::sqrt(0.25 * 0.75 / MANY as f64), "{share}");
        dropout_mask(&[0.75], &[false], &mut mask, 5);
        dropout(&x, &mask, &[0.75], &[false], &mut y);
        assert!(mask.iter().all(|&stays| stays) && y == x);
        dropout_mask(&[1.0], &[true], &mut mask, 5);
        dropout(&x, &mask, &[1.0], &[true], &mut y);
        assert!(y.iter().all(|&y| y == 0.0));
    }
}
