//! Random numbers.
//!
//! Every number is a function of a seed, the number of earlier draws of the call, and the index of
//! the element that it is for: Philox 4×32 with ten rounds (Salmon et al., "Parallel random
//! numbers: as easy as 1, 2, 3", 2011). The seed is the key; the low half of the counter is the
//! index, the high half the number of earlier draws. A seed gives the same bits on every machine,
//! in any order and for any number of threads. Only the masks of `Dropout` come from the Mersenne
//! Twister, as in ONNX's reference implementation.

/// The random numbers of one call in one run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stream {
    /// The seed.
    pub seed: u64,
    /// The number of earlier draws.
    pub iteration: u64,
}

impl Stream {
    /// Returns the stream of a call that has a `seed` attribute.
    pub const fn given(seed: u64, iteration: u64) -> Stream {
        Stream { seed, iteration }
    }

    /// Returns the stream of a call without a seed: a function of the model's seed and the number
    /// that identifies the call.
    pub const fn named(model: u64, call: u64, iteration: u64) -> Stream {
        Stream { seed: spread(model) ^ call, iteration }
    }
}

/// Mixes the bits of `x`, bijectively; 0 for 0. (The finalizer of SplitMix64.)
pub(crate) const fn spread(x: u64) -> u64 {
    let x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ x >> 31
}

/// The state of a model's random calls: its seed, and the number of draws of each call.
#[derive(Clone, Debug)]
pub struct Draws<const CALLS: usize> {
    seed: u64,
    iterations: [u64; CALLS],
}

impl<const CALLS: usize> Draws<CALLS> {
    /// Creates the state before the first run.
    pub const fn new(seed: u64) -> Draws<CALLS> {
        Draws { seed, iterations: [0; CALLS] }
    }

    /// Restarts every stream.
    pub fn restart(&mut self) {
        self.iterations = [0; CALLS];
    }

    /// Returns the next stream of call number `call`, which has a `seed` attribute.
    pub fn given(&mut self, call: usize, seed: u64) -> Stream {
        Stream::given(seed, self.iteration(call))
    }

    /// Returns the next stream of call number `call`, which `name` identifies.
    pub fn named(&mut self, call: usize, name: u64) -> Stream {
        Stream::named(self.seed, name, self.iteration(call))
    }

    fn iteration(&mut self, call: usize) -> u64 {
        let iteration = self.iterations[call];
        self.iterations[call] = iteration.wrapping_add(1);
        iteration
    }
}

impl<const CALLS: usize> Default for Draws<CALLS> {
    /// Creates the state before the first run, with the seed 0.
    fn default() -> Draws<CALLS> {
        Draws::new(0)
    }
}

/// A Philox 4×32-10 generator.
#[derive(Clone, Copy, Debug)]
pub struct Philox {
    key: [u32; 2],
    iteration: u64,
}

impl Philox {
    /// Creates the generator of a stream.
    pub const fn new(Stream { seed, iteration }: Stream) -> Philox {
        Philox { key: halves(seed), iteration }
    }

    /// Returns the 128 bits at counter `number`.
    pub fn block(self, number: u64) -> [u32; 4] {
        let ([a, b], [c, d]) = (halves(number), halves(self.iteration));
        self.rounds([a, b, c, d])
    }

    fn rounds(self, mut counter: [u32; 4]) -> [u32; 4] {
        /// The multipliers of the counter's words.
        const FACTORS: [u64; 2] = [0xd251_1f53, 0xcd9e_8d57];
        /// The increments of the key's words in each round: the fractional parts of the golden
        /// ratio and √3.
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

    /// Returns two numbers in [0, 1).
    pub(crate) fn pair(self, number: u64) -> [f64; 2] {
        let [a, b, c, d] = self.block(number);
        [unit(a, b), unit(c, d)]
    }

    /// Calls `each` with every element of `y` and a number in [0, 1).
    pub(crate) fn each<Y>(self, y: &mut [Y], mut each: impl FnMut(&mut Y, f64)) {
        for (number, pair) in (0..).zip(y.chunks_mut(2)) {
            for (y, u) in pair.iter_mut().zip(self.pair(number)) {
                each(y, u);
            }
        }
    }
}

/// Splits `x` into its low and its high half.
const fn halves(x: u64) -> [u32; 2] {
    [x as u32, (x >> 32) as u32]
}

/// 2^-53, the distance of the numbers that [`unit`] returns.
pub(crate) const STEP: f64 = 1.0 / (1u64 << f64::MANTISSA_DIGITS) as f64;

/// Returns the high 53 of 64 bits as a number in [0, 1).
fn unit(low: u32, high: u32) -> f64 {
    let bits = u64::from(high) << 32 | u64::from(low);
    (bits >> (u64::BITS - f64::MANTISSA_DIGITS)) as f64 * STEP
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The test vectors that the authors of the generator publish.
    #[test]
    fn bits_match_philox() {
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
            assert_eq!(Philox { key, iteration: 0 }.rounds(counter), expected);
        }
    }
}
