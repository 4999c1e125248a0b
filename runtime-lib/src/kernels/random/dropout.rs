//! `Dropout`, which uses its own generator.

use crate::random::{STEP, Stream, spread};
use crate::{Exact, Real};

/// The Mersenne Twister MT19937 (Matsumoto and Nishimura, 1998), which produced the results that
/// ONNX publishes for `Dropout` with a seed.
struct MersenneTwister {
    state: [u32; MersenneTwister::WORDS],
    next: usize,
}

impl MersenneTwister {
    /// The number of words of the state.
    const WORDS: usize = 624;

    /// Seeds a generator with the low 32 bits of `seed`.
    fn new(seed: u64) -> MersenneTwister {
        let mut word = seed as u32;
        let mut state = [word; MersenneTwister::WORDS];
        for (i, to) in (1..).zip(&mut state[1..]) {
            word = 1_812_433_253u32.wrapping_mul(word ^ word >> 30).wrapping_add(i);
            *to = word;
        }
        MersenneTwister { state, next: MersenneTwister::WORDS }
    }

    /// Generates the next state.
    fn twist(&mut self) {
        /// The distance between words that are combined.
        const FAR: usize = 397;
        for i in 0..MersenneTwister::WORDS {
            let [next, far] = [i + 1, i + FAR].map(|i| self.state[i % MersenneTwister::WORDS]);
            let mixed = self.state[i] & 0x8000_0000 | next & 0x7fff_ffff;
            let factor = if mixed & 1 == 1 { 0x9908_b0df } else { 0 };
            self.state[i] = far ^ mixed >> 1 ^ factor;
        }
        self.next = 0;
    }

    /// Returns the next 32 bits.
    fn bits(&mut self) -> u32 {
        if self.next == MersenneTwister::WORDS {
            self.twist();
        }
        let mut bits = self.state[self.next];
        self.next += 1;
        bits ^= bits >> 11;
        bits ^= bits << 7 & 0x9d2c_5680;
        bits ^= bits << 15 & 0xefc6_0000;
        bits ^ bits >> 18
    }

    /// Returns the next number in `[0, 1)` with 53 random bits: 27 high and 26 low ones.
    fn unit(&mut self) -> f64 {
        let (high, low) = (self.bits() >> 5, self.bits() >> 6);
        (u64::from(high) << 26 | u64::from(low)) as f64 * STEP
    }
}

/// Writes whether each element is kept: with probability `1 - ratio` in training, always otherwise.
pub fn dropout_mask(ratio: &[f64], training: &[bool], mask: &mut [bool], stream: Stream) {
    let Some(ratio) = rate(ratio, training) else { return mask.fill(true) };
    let mut source = MersenneTwister::new(stream.seed ^ spread(stream.iteration));
    mask.fill_with(|| source.unit() >= ratio);
}

/// `y = x / (1 - ratio)` where the mask is true, else 0; outside of training `y = x`.
pub fn dropout<T: Real>(x: &[T], mask: &[bool], ratio: &[f64], training: &[bool], y: &mut [T]) {
    let Some(ratio) = rate(ratio, training) else { return y.copy_from_slice(x) };
    let scale = 1.0 / (1.0 - ratio);
    for ((y, &x), &stays) in y.iter_mut().zip(x).zip(mask) {
        *y = T::nearest(Exact::Double(if stays { x.exact().to_f64() * scale } else { 0.0 }));
    }
}

/// Returns the ratio, if in training.
fn rate(ratio: &[f64], training: &[bool]) -> Option<f64> {
    let trains = training.first().is_some_and(|&training| training);
    if trains { ratio.first().copied() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first and the 10 000th output of the generator's reference seed.
    #[test]
    fn bits_match_the_mersenne_twister() {
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
}
