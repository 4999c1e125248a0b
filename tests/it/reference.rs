//! The reference pages of the book are those that the program generates.

use crate::{
    golden,
    programs::{onnxc, root},
};

/// Compares a page of `docs/reference` with the output of `onnxc` for these arguments.
fn check(page: &str, arguments: &[&str]) {
    let output = onnxc().args(arguments).output().expect("the program was built");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    golden::check(&root().join("docs/reference").join(page), &output.stdout);
}

#[test]
fn the_page_of_options_is_up_to_date() {
    check("options.md", &["reference", "options"]);
}

#[test]
fn the_page_of_error_codes_is_up_to_date() {
    check("error-codes.md", &["reference", "error-codes"]);
}

#[test]
fn the_page_of_operators_is_up_to_date() {
    check("operators.md", &["ops", "--markdown"]);
}
