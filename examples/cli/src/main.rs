//! Prints the scores of a handwritten digit, and how many digits are right, with a model that the
//! program `onnxc` compiled:
//!
//! ```sh
//! onnxc examples/models/digits.onnx -o examples/cli/src/digits.rs
//! ```

#[rustfmt::skip] // It stays as the compiler wrote it.
mod digits;

use digits::Digits;
use digits_data::{COUNT, Digit, best, held_out};

fn main() {
    if let Some(digit) = held_out().next() {
        for score in Digits::new().infer(&digit.image) {
            println!("{score:.4}");
        }
    }
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
