//! Random numbers.
//!
//! Every number is a function of a seed, of how often the call has drawn before, and of the place
//! of the element that it is for: Philox 4×32 with ten rounds (Salmon et al., "Parallel random
//! numbers: as easy as 1, 2, 3", 2011). The seed is its key; its counter has the place in the low
//! and the number of earlier draws in the high half. The same seed gives the same bits on every
//! machine, in whatever order and in however many parts they are asked for. Only the masks of
//! `Dropout` come from the Mersenne Twister, as in what ONNX publishes for it.

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
pub(crate) const fn spread(x: u64) -> u64 {
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
    pub(crate) fn pair(self, number: u64) -> [f64; 2] {
        let [a, b, c, d] = self.block(number);
        [unit(a, b), unit(c, d)]
    }

    /// Calls `each` with every place of `y` and a number from 0 to below 1.
    pub(crate) fn each<Y>(self, y: &mut [Y], mut each: impl FnMut(&mut Y, f64)) {
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
pub(crate) const STEP: f64 = 1.0 / (1u64 << f64::MANTISSA_DIGITS) as f64;

/// The high 53 of 64 bits, as a number from 0 to below 1.
fn unit(low: u32, high: u32) -> f64 {
    let bits = u64::from(high) << 32 | u64::from(low);
    (bits >> (u64::BITS - f64::MANTISSA_DIGITS)) as f64 * STEP
}

#[cfg(test)]
mod tests {
    use super::*;

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
            assert_eq!(Philox { key, iteration: 0 }.rounds(counter), expected);
        }
    }
}
