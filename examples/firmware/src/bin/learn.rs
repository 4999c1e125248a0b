//! Trains a network on a Cortex-M4: it can read handwritten digits, and learns to read them upside
//! down. It trains on one digit after another, each once. Only its last layers are trained, so the
//! layers before them need no backward pass. The digits are in flash, and all variables and the
//! arena fit 256 KB of RAM.
#![no_std]
#![no_main]

#[rustfmt::skip]
#[path = "../models/digits_learner.rs"]
mod digits_learner;

use cortex_m_rt::entry;
use digits_data::{Image, best, held_out, training};
use digits_firmware::{exit, fail, print, print_number, print_score};
use digits_learner::DigitsLearner;
use onnxc_runtime::Result;

/// The number of digits between two reports of the accuracy.
const LESSON: usize = 100;

/// The number of such lessons.
const LESSONS: usize = 4;

/// The number of held-out digits that measure the accuracy.
const TESTED: usize = 100;

#[entry]
fn main() -> ! {
    // `entry` makes this static local, so it is borrowed once.
    static mut LEARNER: DigitsLearner = DigitsLearner::new();
    count_right(LEARNER);
    for lesson in 0..LESSONS {
        let Ok(loss) = learn(LEARNER, lesson * LESSON) else { fail() };
        print("loss ");
        print_score(loss);
        print(", ");
        count_right(LEARNER);
    }
    exit()
}

/// Trains on one lesson of digits, starting at digit `first`, and returns the mean loss. A label
/// that is not a class would be an error.
fn learn(learner: &mut DigitsLearner, first: usize) -> Result<f32> {
    let mut sum = 0.0;
    for digit in training().skip(first).take(LESSON) {
        sum += learner.step(&rotate(digit.image), &[digit.label as i64])?;
    }
    Ok(sum / LESSON as f32)
}

/// Prints how many of the held-out digits are classified correctly.
fn count_right(learner: &mut DigitsLearner) {
    let tested = held_out().take(TESTED);
    let right = tested.filter(|digit| best(learner.infer(&rotate(digit.image))) == digit.label);
    print_number(right.count() as u32, 1);
    print(" of ");
    print_number(TESTED as u32, 1);
    print(" digits are right\n");
}

/// Rotates an image by 180 degrees.
fn rotate(mut image: Image) -> Image {
    image.reverse();
    image
}
