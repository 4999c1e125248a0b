//! Random numbers.
//!
//! Every number is a function of a seed, of how often the call has drawn before, and of the place
//! of the element that it is for: Philox 4×32 with ten rounds (Salmon et al., "Parallel random
//! numbers: as easy as 1, 2, 3", 2011). The seed is its key; its counter has the place in the low
//! and the number of earlier draws in the high half. The same seed gives the same bits on every
//! machine, in whatever order and in however many parts they are asked for. Only the masks of
//! `Dropout` come from the Mersenne Twister, as in what ONNX publishes for it.

mod dropout;
#[cfg(test)]
mod tests;

pub use dropout::{dropout, dropout_mask};

use crate::{Exact, Float, Integer, Real};

/// What one call draws from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stream {
    /// The seed.
    pub seed: u64,
    /// How often it was drawn from before.
    pub iteration: u64,
}

impl Stream {
    /// The stream of a call with a seed of its own.
    pub const fn given(seed: u64, iteration: u64) -> Stream {
        Stream { seed, iteration }
    }

    /// The stream of a call that has none: of the model's seed, and of what stands for the call.
    pub const fn named(model: u64, call: u64, iteration: u64) -> Stream {
        Stream { seed: spread(model) ^ call, iteration }
    }
}

/// Bits that all depend on all bits of `x`, one to one; 0 for 0. (The last steps of SplitMix64.)
const fn spread(x: u64) -> u64 {
    let x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ x >> 31
}

/// What the random calls of a model draw from: its seed, and how often each call has drawn.
#[derive(Clone, Debug)]
pub struct Draws<const CALLS: usize> {
    seed: u64,
    iterations: [u64; CALLS],
}

impl<const CALLS: usize> Draws<CALLS> {
    /// Before the first run, with this seed.
    pub const fn new(seed: u64) -> Draws<CALLS> {
        Draws { seed, iterations: [0; CALLS] }
    }

    /// Starts anew, from the same seed.
    pub fn restart(&mut self) {
        self.iterations = [0; CALLS];
    }

    /// What call number `call` draws from now, which has a seed of its own.
    pub fn given(&mut self, call: usize, seed: u64) -> Stream {
        Stream::given(seed, self.iteration(call))
    }

    /// What call number `call` draws from now, for which `name` stands.
    pub fn named(&mut self, call: usize, name: u64) -> Stream {
        Stream::named(self.seed, name, self.iteration(call))
    }

    fn iteration(&mut self, call: usize) -> u64 {
        let iteration = self.iterations[call];
        self.iterations[call] = iteration.wrapping_add(1);
        iteration
    }
}

/// A source of random bits.
#[derive(Clone, Copy, Debug)]
pub struct Philox {
    key: [u32; 2],
    iteration: u64,
}

impl Philox {
    /// The source of a stream.
    pub const fn new(Stream { seed, iteration }: Stream) -> Philox {
        Philox { key: halves(seed), iteration }
    }

    /// The bits with that number.
    pub fn block(self, number: u64) -> [u32; 4] {
        let ([a, b], [c, d]) = (halves(number), halves(self.iteration));
        self.rounds([a, b, c, d])
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

/// The low and the high half.
const fn halves(x: u64) -> [u32; 2] {
    [x as u32, (x >> 32) as u32]
}

/// 2^-53.
const STEP: f64 = 1.0 / (1u64 << f64::MANTISSA_DIGITS) as f64;

/// The high 53 of 64 bits, as a number from 0 to below 1.
fn unit(low: u32, high: u32) -> f64 {
    let bits = u64::from(high) << 32 | u64::from(low);
    (bits >> (u64::BITS - f64::MANTISSA_DIGITS)) as f64 * STEP
}

/// Numbers from `low` to `high`, all as likely.
pub fn random_uniform<T: Real>(y: &mut [T], low: f32, high: f32, stream: Stream) {
    let (low, high) = (f64::from(low), f64::from(high));
    Philox::new(stream).each(y, |y, u| *y = T::nearest(Exact::Double(low + (high - low) * u)));
}

/// Numbers of the normal distribution with that mean and standard deviation.
pub fn random_normal<T: Real>(y: &mut [T], mean: f32, scale: f32, stream: Stream) {
    let (mean, scale) = (f64::from(mean), f64::from(scale));
    for (number, pair) in (0..).zip(y.chunks_mut(2)) {
        for (y, z) in pair.iter_mut().zip(normal_pair(Philox::new(stream).pair(number))) {
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
pub fn bernoulli<A: Real, B: Real>(x: &[A], y: &mut [B], stream: Stream) {
    let mut x = x.iter();
    Philox::new(stream).each(y, |y, u| {
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
    stream: Stream,
) {
    if classes == 0 || samples == 0 {
        return;
    }
    let mut rows = x.chunks_exact(classes);
    let mut row: &[T] = &[];
    let (mut largest, mut total) = (0.0, 0.0);
    let mut left = 0;
    Philox::new(stream).each(y, |y, u| {
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
