//! The language of the sources: retired words, doc comments that say what an item is, line widths.
//!
//! `retired_words.txt` lists the words, `docs/glossary.md` the terms to use instead.

use crate::programs::root;
use std::{
    fs,
    path::{Path, PathBuf},
};

/// The folders and files whose text is checked.
const CHECKED: &[&str] = &[
    ".ci",
    ".github",
    "ARCHITECTURE.md",
    "CONTRIBUTING.md",
    "README.md",
    "SECURITY.md",
    "compiler",
    "docs",
    "examples",
    "macros",
    "proto",
    "runtime-lib",
    "tests",
];

/// Text that is generated, quoted, or written by others.
const SKIPPED: &[&str] = &[
    "docs/glossary.md",
    "examples/firmware/src/models",
    "proto/onnx.proto",
    "tests/golden",
    "tests/it/retired_words.txt",
    "tests/targets/models",
];

/// Words with which no doc comment starts, because a sentence that starts with them names a thing
/// by a clause.
const OPENINGS: &[&str] = &["What", "That", "Those", "So", "Likewise"];

/// The greatest width of a line of code, in columns.
const WIDTH: usize = 100;

/// A retired phrase, in lower case and with spaces around it.
struct Retired {
    phrase: String,
    better: String,
    excepted: Vec<String>,
}

/// Reads `retired_words.txt`: `phrase, phrase -> better; except path, path`.
fn read_retired_words() -> Vec<Retired> {
    let lines = include_str!("retired_words.txt").lines();
    let lines = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
    let mut retired = Vec::new();
    for line in lines {
        let (phrases, rest) = line.split_once(" -> ").expect("a line says what to write instead");
        let (better, paths) = rest.split_once("; except ").unwrap_or((rest, ""));
        let excepted: Vec<String> =
            paths.split(", ").filter(|path| !path.is_empty()).map(str::to_owned).collect();
        retired.extend(phrases.split(", ").map(|phrase| Retired {
            phrase: format!(" {phrase} "),
            better: better.to_owned(),
            excepted: excepted.clone(),
        }));
    }
    retired
}

/// Returns the words of a line in lower case, separated by single spaces, identifiers in parts.
fn split_words(line: &str) -> String {
    let mut words = String::from(" ");
    let mut before = ' ';
    for c in line.chars() {
        let is_hump = before.is_ascii_lowercase() || before.is_ascii_digit();
        if (is_hump && c.is_ascii_uppercase() || !c.is_ascii_alphanumeric())
            && !words.ends_with(' ')
        {
            words.push(' ');
        }
        if c.is_ascii_alphanumeric() {
            words.push(c.to_ascii_lowercase());
        }
        before = c;
    }
    if !words.ends_with(' ') {
        words.push(' ');
    }
    words
}

/// Lists the files of text below `path`, relative to the root.
fn list_texts(path: &Path, texts: &mut Vec<PathBuf>) {
    let inside = path.strip_prefix(root()).expect("the path is below the root");
    if SKIPPED.iter().any(|skipped| inside.starts_with(skipped)) || inside.ends_with("target") {
        return;
    }
    if path.is_dir() {
        let entries = fs::read_dir(path).expect("the folder can be read").flatten();
        let mut entries: Vec<_> = entries.map(|entry| entry.path()).collect();
        entries.sort();
        entries.iter().for_each(|entry| list_texts(entry, texts));
        return;
    }
    let is_text = match path.extension() {
        Some(extension) => {
            ["rs", "md", "py", "sh", "toml", "txt", "yml"].iter().any(|e| extension == *e)
        }
        None => ["run", "setup"].iter().any(|name| path.ends_with(name)),
    };
    if is_text {
        texts.push(inside.to_owned());
    }
}

/// Calls `check` with the path of each checked file and each of its lines with the line before;
/// returns the faults.
fn check_lines(check: impl Fn(&Path, [&str; 2]) -> Option<String>) -> Vec<String> {
    let mut texts = Vec::new();
    for entry in CHECKED.iter().map(|entry| root().join(entry)).filter(|path| path.exists()) {
        list_texts(&entry, &mut texts);
    }
    let mut faults = Vec::new();
    for path in texts {
        let Ok(text) = fs::read_to_string(root().join(&path)) else { continue };
        let before = std::iter::once("").chain(text.lines());
        for (number, lines) in before.zip(text.lines()).enumerate() {
            if let Some(fault) = check(&path, lines.into()) {
                faults.push(format!("{}:{}: {fault}", path.display(), number + 1));
            }
        }
    }
    faults
}

#[track_caller]
fn assert_no_faults(faults: &[String]) {
    assert!(faults.is_empty(), "{} faults\n{}", faults.len(), faults.join("\n"));
}

#[test]
fn retired_words_stay_out() {
    let retired = read_retired_words();
    assert_no_faults(&check_lines(|path, [_, line]| {
        let words = split_words(line);
        let found = retired.iter().find(|word| {
            words.contains(&word.phrase) && !word.excepted.iter().any(|p| path.starts_with(p))
        })?;
        Some(format!("`{}` is retired: write {}", found.phrase.trim(), found.better))
    }));
}

#[test]
fn doc_comments_start_with_what_an_item_is_or_does() {
    assert_no_faults(&check_lines(|path, [before, line]| {
        let is_rust = path.extension().is_some_and(|extension| extension == "rs");
        let is_doc = |line: &str| ["//!", "///"].iter().any(|mark| line.starts_with(mark));
        let [before, line] = [before, line].map(str::trim_start);
        if !is_rust || !is_doc(line) || is_doc(before) {
            return None;
        }
        let first = line[3..].split_whitespace().next()?;
        let opening = OPENINGS.iter().find(|word| **word == first)?;
        Some(format!("the documentation starts with `{opening}`"))
    }));
}

#[test]
fn lines_are_at_most_100_columns_wide() {
    assert_no_faults(&check_lines(|path, [_, line]| {
        let is_code = path.extension().is_some_and(|e| ["rs", "py", "sh"].iter().any(|x| e == *x));
        let width = line.chars().count();
        (is_code && width > WIDTH).then(|| format!("{width} columns"))
    }));
}

#[test]
fn words_are_found_in_identifiers() {
    assert_eq!(
        split_words("fn conv_in_blocks(InBlocks: f32)"),
        " fn conv in blocks in blocks f32 "
    );
    assert_eq!(split_words("/// A HTTPPort2Gate"), " a httpport2 gate ");
}
