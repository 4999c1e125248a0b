//! Options as the command line spells them.

use crate::{
    choice::Choice,
    domain,
    import::{Axis, Const, Operator},
};
use std::{collections::BTreeMap, fmt};

/// The word of a choice, unless it is the default.
pub(super) fn unless_default<T: Choice + Default>(choice: T) -> Vec<String> {
    if choice == T::default() { Vec::new() } else { vec![choice.word().to_owned()] }
}

/// Entries as `NAME=VALUE`.
pub(super) fn pairs<T: fmt::Display>(entries: &BTreeMap<String, T>) -> Vec<String> {
    entries.iter().map(|(name, value)| format!("{name}={value}")).collect()
}

/// A shape as `NAME=SIZE,…`.
pub(super) fn shape_argument(name: &str, axes: &[Axis]) -> String {
    let axes: Vec<String> = axes.iter().map(Axis::to_string).collect();
    format!("{name}={}", axes.join(","))
}

/// A constant as `NAME=VALUE`, or `NAME` for a default.
pub(super) fn constant_argument(name: &str, value: &Const) -> String {
    match value {
        Const::Default => name.to_owned(),
        Const::Value(value) => format!("{name}={}", shortened(value)),
    }
}

/// A custom operator as `DOMAIN::OPERATOR=PATH`.
pub(super) fn custom_argument((domain, name): &Operator, path: &str) -> String {
    format!("{}::{name}={path}", domain::shown(domain))
}

/// Shortens a long value.
fn shortened(value: &str) -> String {
    const LONGEST: usize = 60;
    match value.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", &value[..end]),
        None => value.to_owned(),
    }
}

/// Quotes a word for a shell, if necessary.
pub(super) fn shell_quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-./:,=+".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}
