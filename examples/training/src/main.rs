//! Teaches a network that knows nothing to read handwritten digits: 20 times through 1 500 of them,
//! from random first values. How well it does on 297 others, which it never learns from, is printed
//! on the way, and `loss.svg` shows how the loss falls.

mod curve;

use digits::Digits;
use digits_data::{COUNT, Digit, best, held_out, training};
use onnxc_runtime::view::View;
use std::{env, error::Error, fs};

mod digits {
    include!(concat!(env!("OUT_DIR"), "/digits.rs"));
}

/// How often all digits are seen.
const EPOCHS: usize = 20;

/// How many digits a step learns from, and how many are classified at once.
const BATCH: usize = 32;

fn main() -> Result<(), Box<dyn Error>> {
    let seed = env::args().nth(1).map_or(Ok(1), |seed| seed.parse())?;
    let mut losses = Vec::new();
    let mut learner = Learner::new(seed);
    for epoch in 1..=EPOCHS {
        let of_epoch = learner.epoch()?;
        let mean = of_epoch.iter().sum::<f32>() / of_epoch.len() as f32;
        let right = 100.0 * learner.count_right()? as f32 / COUNT as f32;
        println!("epoch {epoch:2}: loss {mean:.4}, {right:.1} % of the digits held out are right");
        losses.extend(of_epoch);
    }
    fs::write("loss.svg", curve::svg(&losses))?;
    Ok(())
}

/// The network, and the digits in the order in which it sees them.
struct Learner {
    model: Box<Digits>,
    digits: Vec<Digit>,
    random: Random,
}

impl Learner {
    /// A network with random first values. From the same seed all goes the same way.
    fn new(seed: u64) -> Learner {
        let mut model = Box::new(Digits::new());
        model.set_seed(seed);
        model.init();
        Learner { model, digits: training().collect(), random: Random(seed) }
    }

    /// Learns from all digits once, in an order of its own, and gives the loss of each step.
    fn epoch(&mut self) -> onnxc_runtime::Result<Vec<f32>> {
        self.random.shuffle(&mut self.digits);
        let steps = self.digits.chunks(BATCH).map(|digits| {
            let labels: Vec<i64> = digits.iter().map(|digit| digit.label as i64).collect();
            let labels = View::new([digits.len()], &labels)?;
            self.model.step(View::new([digits.len(), 1, 8, 8], &pixels(digits))?, labels)
        });
        steps.collect()
    }

    /// How many of the digits held out are right.
    fn count_right(&mut self) -> onnxc_runtime::Result<usize> {
        let mut right = 0;
        for digits in held_out().collect::<Vec<_>>().chunks(BATCH) {
            let scores = self.model.infer(View::new([digits.len(), 1, 8, 8], &pixels(digits))?)?;
            let (scores, _) = scores.data().as_chunks();
            right +=
                digits.iter().zip(scores).filter(|(d, scores)| best(scores) == d.label).count();
        }
        Ok(right)
    }
}

fn pixels(digits: &[Digit]) -> Vec<f32> {
    digits.iter().flat_map(|digit| digit.image).collect()
}

/// Random numbers: SplitMix64 (Steele, Lea and Flood).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let x = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        x ^ (x >> 31)
    }

    fn shuffle<T>(&mut self, list: &mut [T]) {
        for last in (1..list.len()).rev() {
            list.swap(last, (self.next() % (last as u64 + 1)) as usize);
        }
    }
}

#[test]
fn losses_fall_and_are_the_same_bit_by_bit() -> onnxc_runtime::Result {
    let learn = || {
        let mut learner = Learner::new(1);
        let mut losses = learner.epoch()?;
        losses.extend(learner.epoch()?);
        Ok((losses, learner.count_right()?))
    };
    let (losses, right) = learn()?;
    assert!(right > 200, "{right}");
    assert!(losses[losses.len() - 1] < 0.5 * losses[0], "{losses:?}");
    assert_eq!((losses, right), learn()?);
    Ok(())
}
