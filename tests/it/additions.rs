//! Checks that an addition is complete: each operator has a sample, drawn cases and a gradient
//! case, and the places that the documentation names exist.

use crate::{gradients::cases::NO_CASE, programs::root};
use std::fs;

const CASES: &str = "tests/it/gradients/cases.rs";
const SAMPLES: &str = "compiler/src/cli/ops/samples.txt";
const DRAWN: &str = "tests/conformance/draw/ops";

fn text(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Returns the names of ONNX's operators, from the table of their signatures.
fn operators() -> Vec<String> {
    let table = text("compiler/src/check/operators.txt");
    let lines = table.lines().filter(|line| !line.starts_with('#') && !line.contains(" = "));
    let names = lines.filter_map(|line| Some(line.split_once(": ")?.0.split_once(' ')?.0));
    let mut names: Vec<String> = names.map(str::to_owned).collect();
    names.sort();
    names.dedup();
    names
}

/// Returns the words of a text: letters, digits and underscores.
fn words(text: &str) -> Vec<&str> {
    let mut words: Vec<&str> = text.split(|c: char| !c.is_alphanumeric() && c != '_').collect();
    words.sort_unstable();
    words.dedup();
    words
}

/// Asserts that `has` holds for every operator.
fn check(place: &str, has: impl Fn(&str) -> bool) {
    let operators = operators();
    assert!(operators.len() > 200, "the table is read wrongly: {operators:?}");
    let missing: Vec<&String> = operators.iter().filter(|name| !has(name)).collect();
    assert!(missing.is_empty(), "{place} lacks {missing:?}");
}

#[test]
fn every_operator_has_a_sample() {
    let samples = text(SAMPLES);
    let mut names: Vec<&str> = samples.lines().filter_map(|line| line.split(' ').next()).collect();
    names.sort_unstable();
    check(SAMPLES, |name| names.binary_search(&name).is_ok());
}

#[test]
fn every_operator_has_drawn_cases() {
    let folder = fs::read_dir(root().join(DRAWN)).expect("the folder is checked in").flatten();
    let files = folder.map(|entry| entry.path()).filter(|path| path.extension().is_some());
    let texts: Vec<String> = files.filter_map(|path| fs::read_to_string(path).ok()).collect();
    let texts = texts.concat();
    check(DRAWN, |name| texts.contains(&format!("\"{name}\"")));
}

#[test]
fn every_operator_has_a_gradient_case_or_a_reason() {
    let text = text(CASES);
    let (cases, _) = text.split_once("const NO_CASE").expect("the reasons come last");
    let cases = words(cases);
    let has_case = |name: &str| cases.binary_search(&name).is_ok();
    let listed: Vec<&str> = NO_CASE.iter().flat_map(|(_, names)| names.split(' ')).collect();
    check(CASES, |name| has_case(name) || listed.contains(&name));
    let both: Vec<&&str> = listed.iter().filter(|name| has_case(name)).collect();
    assert!(both.is_empty(), "{both:?} have cases, and reasons to have none");
}

/// The documents that list the steps of an addition, and the folder that their paths start from.
const PROCEDURES: &[&str] =
    &["compiler/src/ops/mod.rs", "compiler/src/passes/mod.rs", "compiler/src/options.rs"];

#[test]
fn places_of_an_addition_exist() {
    for procedure in PROCEDURES {
        let text = text(procedure);
        let head = text.lines().take_while(|line| line.starts_with("//!"));
        let head: Vec<&str> = head.collect();
        let head = head.join("\n");
        let quoted = head.split('`').skip(1).step_by(2);
        let paths: Vec<&str> = quoted.filter(|name| name.contains('/')).collect();
        assert!(!paths.is_empty(), "{procedure} names no places");
        for path in paths {
            assert!(root().join(path).exists(), "{procedure} names {path}, which does not exist");
        }
    }
}
