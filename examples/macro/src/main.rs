//! Classifies handwritten digits with a model that a macro compiles.

use digits_data::{COUNT, Digit, best, held_out};

onnxc_macros::include_onnx!("../models/digits.onnx");

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
