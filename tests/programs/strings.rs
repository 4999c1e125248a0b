//! Inputs of strings are `&str`: views, arrays, slices, optional ones, and keys of maps.

mod fixed;
mod text;

use onnxc_runtime::{map::Map, view::View};

fn main() {
    let line = String::from("one two three");
    let words: Vec<&str> = line.split(' ').collect();
    let counts = Map::new(&["c", "a"], &[3.0, 1.0]).unwrap();
    let mut model = text::Text::new();
    let given = model.infer((&words).into(), &["."], None, counts).unwrap();
    assert_eq!(given.tagged.data(), ["one.", "two.", "three."]);
    assert_eq!(given.asked.data(), ["!.", "?."]);
    assert_eq!(given.row, &[1.0, 0.0, 3.0]);
    let none: [&str; 0] = [];
    let given = model.infer(View::from(&none), &["."], Some(&[";", ":"]), counts).unwrap();
    assert_eq!(given.tagged.data().len(), 0);
    assert_eq!(given.asked.data(), [";.", ":."]);

    let mut model = fixed::Fixed::new();
    let given = model.infer(&["x", "y"], &["z"], None, counts).unwrap();
    assert_eq!(given.tagged.data(), ["xz", "yz"]);
    let given = model.try_infer(&words[..2], &["z"], Some(&words[1..]), counts).unwrap();
    assert_eq!(given.tagged.data(), ["onez", "twoz"]);
    assert_eq!(given.asked.data(), ["twoz", "threez"]);
    let error = model.try_infer(&words, &["z"], None, counts).unwrap_err();
    assert_eq!(error.to_string(), "input `words`: expected 2 elements, found 3");
    let error = model.try_infer(&words[..2], &["z"], Some(&words), counts).unwrap_err();
    assert_eq!(error.to_string(), "input `ends`: expected 2 elements, found 3");
}
