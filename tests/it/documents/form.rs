//! The form of documents: links, paths, lengths.

use super::{markdown, page::Page, pages};
use crate::programs::root;
use std::{
    fs,
    path::{Path, PathBuf},
};

/// The documents that people read: the pages, and those beside the code.
fn documents() -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> = fs::read_dir(root())
        .expect("the root is a folder")
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "md"))
        .collect();
    for folder in ["docs", "examples", "tests", "compiler", "runtime-lib", "macros", "proto"] {
        paths.extend(markdown(&root().join(folder)));
    }
    paths.retain(|path| !path.iter().any(|part| part == "target" || part == "onnx"));
    paths
}

/// The text of a document without fenced blocks; their lines are empty.
fn prose(text: &str) -> Vec<&str> {
    let mut is_code = false;
    let hide_code = |line| {
        let is_fence = str::trim_start(line).starts_with("```");
        let is_hidden = is_code || is_fence;
        is_code ^= is_fence;
        if is_hidden { "" } else { line }
    };
    text.lines().map(hide_code).collect()
}

/// The relative targets of links in a line.
fn links(line: &str) -> Vec<&str> {
    let targets = line.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    targets.filter(|target| !target.contains("://") && !target.starts_with('#')).collect()
}

/// The parts of a line in single backticks.
fn quoted(line: &str) -> impl Iterator<Item = &str> {
    line.split('`').skip(1).step_by(2)
}

#[test]
fn links_resolve() {
    let mut broken = Vec::new();
    for path in documents() {
        let text = fs::read_to_string(&path).expect("documents are UTF-8");
        for (at, line) in prose(&text).into_iter().enumerate() {
            for target in links(line) {
                let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
                let to = path.with_file_name("").join(file);
                let headings = || fs::read_to_string(&to).unwrap_or_default();
                if !to.exists() || !anchor.is_empty() && !has_anchor(&headings(), anchor) {
                    broken.push(format!("{}:{}: {target}", path.display(), at + 1));
                }
            }
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

/// Returns whether a heading of the text has that anchor.
fn has_anchor(text: &str, anchor: &str) -> bool {
    let anchor_of = |heading: &str| -> String {
        let kept = heading.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
        kept.map(|c| if c == ' ' { '-' } else { c.to_ascii_lowercase() }).collect()
    };
    prose(text)
        .iter()
        .filter_map(|line| line.strip_prefix('#'))
        .any(|heading| anchor_of(heading.trim_start_matches('#').trim()) == anchor)
}

/// The tops of the repository's paths, by which a path is known as one of the repository.
const TOPS: [&str; 7] =
    ["compiler/", "runtime-lib/", "macros/", "proto/", "examples/", "tests/", "docs/"];

#[test]
fn paths_of_the_repository_exist() {
    let mut missing = Vec::new();
    for path in documents() {
        let text = fs::read_to_string(&path).expect("documents are UTF-8");
        for (at, line) in prose(&text).into_iter().enumerate() {
            for quoted in quoted(line) {
                let is_path = TOPS.iter().any(|top| quoted.starts_with(top));
                let file = quoted.split([' ', ':']).next().unwrap_or_default();
                if is_path && !file.contains(['*', '<', '…']) && !exists(file) {
                    missing.push(format!("{}:{}: {quoted}", path.display(), at + 1));
                }
            }
        }
    }
    assert!(missing.is_empty(), "{}", missing.join("\n"));
}

/// Returns whether a path of the repository exists, or a source file whose extension is left out.
fn exists(path: &str) -> bool {
    let path = root().join(path);
    path.exists() || path.with_extension("rs").exists()
}

#[test]
fn every_page_is_in_the_summary() {
    let summary = Page::read(root().join("docs/SUMMARY.md"));
    let mut listed: Vec<PathBuf> =
        summary.text.lines().flat_map(links).map(|link| Path::new("docs").join(link)).collect();
    listed.sort();
    let mut pages: Vec<PathBuf> = pages().into_iter().map(|page| page.name).collect();
    pages.retain(|name| name.starts_with("docs") && !name.ends_with("SUMMARY.md"));
    pages.sort();
    assert_eq!(listed, pages);
}

#[test]
fn line_lengths_are_limited() {
    let mut long = Vec::new();
    for path in documents() {
        let text = fs::read_to_string(&path).expect("documents are UTF-8");
        for (at, line) in text.lines().enumerate() {
            let excepted = line.trim_start().starts_with('|') || line.contains("](");
            if line.chars().count() > 100 && !excepted {
                long.push(format!("{}:{}", path.display(), at + 1));
            }
        }
    }
    assert!(long.is_empty(), "lines of more than 100 columns:\n{}", long.join("\n"));
    let map =
        fs::read_to_string(root().join("ARCHITECTURE.md")).expect("the document is checked in");
    assert!(map.lines().count() <= 250, "ARCHITECTURE.md has {} lines", map.lines().count());
}

#[test]
fn links_and_paths_are_found() {
    assert_eq!(links("[a](b.md#c), [d](https://e) [f](#g)"), ["b.md#c"]);
    assert_eq!(quoted("`a` b `c`").collect::<Vec<_>>(), ["a", "c"]);
    assert!(has_anchor("## How `exact` is it?\n", "how-exact-is-it"));
    assert_eq!(prose("a\n```sh\nb\n```\nc"), ["a", "", "", "", "c"]);
}
