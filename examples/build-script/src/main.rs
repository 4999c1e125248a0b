//! Classifies handwritten digits with a model that the build script compiles.

use digits::Digits;
use digits_data::{COUNT, Digit, best, held_out};

mod digits {
    include!(concat!(env!("OUT_DIR"), "/digits.rs"));
}

fn main() {
    println!("{} of {COUNT} digits are right", count_right());
}

fn count_right() -> usize {
    let mut model = Digits::new();
    let is_right = |digit: &Digit| best(model.infer(&digit.image)) == digit.label;
    held_out().filter(is_right).count()
}

#[test]
fn as_many_are_right_as_with_onnx_runtime() {
    assert_eq!(count_right(), 284);
}
