//! Trains a network from random weights to read handwritten digits, in 20 epochs of 1 500 digits.
//! Prints the accuracy on 297 held-out digits after each epoch, and plots the loss in `loss.svg`.

mod curve;
mod mean;
mod random;

use digits::Digits;
use digits_data::{COUNT, Digit, Image, best, held_out, training};
use mean::Mean;
use onnxc_runtime::view::View;
use random::Random;
use std::{env, error::Error, fs};

mod digits {
    include!(concat!(env!("OUT_DIR"), "/digits.rs"));
}

/// The number of epochs.
const EPOCHS: usize = 20;

/// The batch size, for training and for inference.
const BATCH: usize = 32;

fn main() -> Result<(), Box<dyn Error>> {
    let seed = env::args().nth(1).map_or(Ok(1), |seed| seed.parse())?;
    let mut losses = Vec::new();
    let mut learner = Learner::new(seed)?;
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

/// The network, and the order of the training digits.
struct Learner {
    model: Box<Digits>,
    mean: Mean,
    digits: Vec<Digit>,
    random: Random,
}

impl Learner {
    /// Creates a network with random weights. Training is deterministic in the seed.
    fn new(seed: u64) -> onnxc_runtime::Result<Learner> {
        let mut model = Box::new(Digits::new());
        model.set_seed(seed);
        model.init();
        let mean = Mean::of(&mut model)?;
        Ok(Learner { model, mean, digits: training().collect(), random: Random(seed) })
    }

    /// Trains for an epoch, in a random order, and returns the loss of each step.
    fn epoch(&mut self) -> onnxc_runtime::Result<Vec<f32>> {
        self.random.shuffle(&mut self.digits);
        let mut losses = Vec::new();
        for digits in self.digits.chunks(BATCH) {
            let images: Vec<f32> =
                digits.iter().flat_map(|digit| augment(&digit.image, &mut self.random)).collect();
            let labels: Vec<i64> = digits.iter().map(|digit| digit.label as i64).collect();
            let images = View::new([digits.len(), 1, 8, 8], &images)?;
            losses.push(self.model.step(images, View::new([digits.len()], &labels)?)?);
            self.mean.follow(&mut self.model)?;
        }
        Ok(losses)
    }

    /// Counts the held-out digits that the mean of the weights classifies correctly.
    fn count_right(&mut self) -> onnxc_runtime::Result<usize> {
        let mut right = 0;
        for digits in held_out().collect::<Vec<_>>().chunks(BATCH) {
            let images: Vec<f32> = digits.iter().flat_map(|digit| digit.image).collect();
            let images = View::new([digits.len(), 1, 8, 8], &images)?;
            let scores = self.mean.model().infer(images)?;
            let (scores, _) = scores.data().as_chunks();
            right +=
                digits.iter().zip(scores).filter(|(d, scores)| best(scores) == d.label).count();
        }
        Ok(right)
    }
}

/// Shifts the image by at most a pixel along each axis (data augmentation).
fn augment(image: &Image, random: &mut Random) -> Image {
    let mut shift = || match random.next() % 6 {
        0 => -1,
        1 => 1,
        _ => 0,
    };
    let (down, right) = (shift(), shift());
    std::array::from_fn(|i| {
        let (row, column) = (i as i32 / 8 - down, i as i32 % 8 - right);
        let inside = (0..8).contains(&row) && (0..8).contains(&column);
        if inside { image[(row * 8 + column) as usize] } else { 0.0 }
    })
}

#[test]
fn losses_fall_and_are_the_same_bit_by_bit() -> onnxc_runtime::Result {
    let learn = || {
        let mut learner = Learner::new(1)?;
        let mut losses = Vec::new();
        for _ in 0..4 {
            losses.extend(learner.epoch()?);
        }
        Ok((losses, learner.count_right()?))
    };
    let (losses, right) = learn()?;
    assert!(right > 200, "{right}");
    assert!(losses[losses.len() - 1] < 0.5 * losses[0], "{losses:?}");
    assert_eq!((losses, right), learn()?);
    Ok(())
}

#[test]
fn an_image_moves_by_a_pixel_at_most() {
    let mut image = [0.0; 64];
    image[0] = 1.0;
    let mut random = Random(1);
    let places: std::collections::BTreeSet<_> =
        (0..200).map(|_| augment(&image, &mut random).iter().position(|&ink| ink == 1.0)).collect();
    assert_eq!(places, [None, Some(0), Some(1), Some(8), Some(9)].into());
}
