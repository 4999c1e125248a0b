//! Fine-tunes a network that knows the digits from 0 to 7, so that it also knows 8 and 9: trains
//! the last layers on all digits, and keeps the layers before them.

use digits_data::{Digit, best, held_out, training};
use mobilenet::Mobilenet;
use onnxc_runtime::view::View;
use std::error::Error;

mod mobilenet {
    include!(concat!(env!("OUT_DIR"), "/mobilenet.rs"));
}

/// The number of passes over the training digits.
const EPOCHS: usize = 10;

/// The batch size, for training and for inference.
const BATCH: usize = 32;

/// The height and width of the network's images, and the number of channels.
const SIZE: usize = 32;
const COLORS: usize = 3;

fn main() -> Result<(), Box<dyn Error>> {
    let mut model = Box::new(Mobilenet::new());
    let digits: Vec<Digit> = training().collect();
    println!("before:   {}", Right::of(&mut model)?);
    for epoch in 1..=EPOCHS {
        learn(&mut model, &digits)?;
        println!("epoch {epoch:2}: {}", Right::of(&mut model)?);
    }
    Ok(())
}

/// Trains on each digit once. Returns the loss of the last step.
fn learn(model: &mut Mobilenet, digits: &[Digit]) -> onnxc_runtime::Result<f32> {
    let mut loss = 0.0;
    for digits in digits.chunks(BATCH) {
        let labels: Vec<i64> = digits.iter().map(|digit| digit.label as i64).collect();
        let images = images(digits);
        let labels = View::new([digits.len()], &labels)?;
        loss = model.step(View::new([digits.len(), COLORS, SIZE, SIZE], &images)?, labels)?;
    }
    Ok(loss)
}

/// The accuracy on the held-out digits: on those that the network knew before, and on the others.
struct Right {
    known: f32,
    new: f32,
}

impl Right {
    fn of(model: &mut Mobilenet) -> onnxc_runtime::Result<Right> {
        let (mut right, mut count) = ([0.0; 2], [0.0; 2]);
        for digits in held_out().collect::<Vec<_>>().chunks(BATCH) {
            let images = images(digits);
            let scores = model.infer(View::new([digits.len(), COLORS, SIZE, SIZE], &images)?)?;
            for (digit, scores) in digits.iter().zip(scores.data().as_chunks().0) {
                let group = usize::from(digit.label > 7);
                count[group] += 1.0;
                right[group] += f32::from(u8::from(best(scores) == digit.label));
            }
        }
        Ok(Right { known: right[0] / count[0], new: right[1] / count[1] })
    }
}

impl std::fmt::Display for Right {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let [known, new] = [self.known, self.new].map(|part| 100.0 * part);
        write!(f, "{known:5.1} % of 0 to 7 are right, {new:5.1} % of 8 and 9")
    }
}

/// Converts digits to the network's images: larger, and with three channels.
fn images(digits: &[Digit]) -> Vec<f32> {
    digits.iter().flat_map(|digit| enlarge(&digit.image).repeat(COLORS)).collect()
}

/// Scales an image of 8 by 8 pixels to [`SIZE`] by [`SIZE`], with linear interpolation.
fn enlarge(image: &[f32; 64]) -> Vec<f32> {
    let pixel = |row: f32, col: f32| {
        let inside = (0.0..8.0).contains(&row) && (0.0..8.0).contains(&col);
        if inside { image[row as usize * 8 + col as usize] } else { 0.0 }
    };
    let place = |i: usize| (i as f32 + 0.5) * 8.0 / SIZE as f32 - 0.5;
    let mut large = Vec::with_capacity(SIZE * SIZE);
    for (row, col) in (0..SIZE * SIZE).map(|i| (place(i / SIZE), place(i % SIZE))) {
        let (above, left) = (row.floor(), col.floor());
        let (down, right) = (row - above, col - left);
        let between = |row: f32| (1.0 - right) * pixel(row, left) + right * pixel(row, left + 1.0);
        large.push((1.0 - down) * between(above) + down * between(above + 1.0));
    }
    large
}

#[test]
fn the_last_layers_learn_new_classes() -> onnxc_runtime::Result {
    let mut model = Box::new(Mobilenet::new());
    let digits: Vec<Digit> = training().take(640).collect();
    let before = Right::of(&mut model)?;
    assert!(before.known > 0.9 && before.new == 0.0, "{before}");
    for _ in 0..2 {
        learn(&mut model, &digits)?;
    }
    let after = Right::of(&mut model)?;
    assert!(after.new > 0.25, "{after}");
    Ok(())
}

#[test]
fn enlarging_is_linear() {
    let mut image = [0.0; 64];
    image[9] = 1.0;
    let large = enlarge(&image);
    let sum: f32 = large.iter().sum();
    assert!((sum - 16.0).abs() < 1e-5, "{sum}");
    assert_eq!(large[5 * SIZE + 5], large[6 * SIZE + 6]);
}
