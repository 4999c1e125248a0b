//! A network learns on a Cortex-M4: it reads handwritten digits, and somebody has hung the camera
//! upside down. It learns from one digit after another, each seen once, and only its last layers
//! change; what lies before them costs no backward pass. The digits stand in flash, and all that
//! changes is within 256 KB of RAM.
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

/// After how many digits it says how well it does.
const LESSON: usize = 100;

/// How often it does.
const LESSONS: usize = 4;

/// How many digits that it never learns from it is then asked about.
const ASKED: usize = 100;

#[entry]
fn main() -> ! {
    // The variable is a static one: `entry` sees to it that it is borrowed once.
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

/// Learns from the digits behind the first ones, one by one, and gives the mean loss. A label that is
/// no class would be refused.
fn learn(learner: &mut DigitsLearner, first: usize) -> Result<f32> {
    let mut sum = 0.0;
    for digit in training().skip(first).take(LESSON) {
        sum += learner.step(&turned(digit.image), &[digit.label as i64])?;
    }
    Ok(sum / LESSON as f32)
}

/// Prints how many digits are right among those that it never learns from.
fn count_right(learner: &mut DigitsLearner) {
    let asked = held_out().take(ASKED);
    let right = asked.filter(|digit| best(learner.infer(&turned(digit.image))) == digit.label);
    print_number(right.count() as u32, 1);
    print(" of ");
    print_number(ASKED as u32, 1);
    print(" digits are right\n");
}

/// What a camera sees that hangs upside down.
fn turned(mut image: Image) -> Image {
    image.reverse();
    image
}
