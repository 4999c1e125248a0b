//! The page of all `unsafe` code: where it is, and why it is sound.

use crate::{golden, programs::root, tidy::sources};
use std::{fmt::Write, fs, path::Path};

const HEAD: &str = "# `unsafe` code

Every block of `unsafe` code, every `unsafe` function and every `unsafe` implementation, with its
argument as the source states it. A test renews this page, and another one limits `unsafe` to these
folders. Generated modules have none, and neither have the other crates.

";

/// A contract or an argument.
struct Claim {
    /// The function or the implementation around it.
    place: String,
    /// Whether callers must uphold it: it is the contract of an `unsafe` function.
    is_contract: bool,
    text: String,
}

/// Returns the text of a comment line behind its mark; `None` for code.
fn comment(line: &str) -> Option<&str> {
    let line = line.trim_start();
    line.strip_prefix("///").or_else(|| line.strip_prefix("//")).map(str::trim)
}

/// Returns the name of the function or the implementation that a line starts.
fn item(line: &str) -> Option<String> {
    let line = line.trim();
    if let Some(implementation) = line.strip_prefix("unsafe impl") {
        return Some(format!("impl{}", implementation.trim_end_matches(['{', '}', ' '])));
    }
    let (before, name) = line.split_once("fn ").or_else(|| line.split_once("trait "))?;
    let is_item = before.split(' ').all(|word| {
        matches!(word, "" | "pub" | "pub(crate)" | "pub(super)" | "const" | "unsafe" | "extern")
            || word.starts_with('"')
    });
    let end = name.find(|c: char| !c.is_alphanumeric() && c != '_')?;
    (is_item && end > 0).then(|| name[..end].to_owned())
}

/// Returns the claims of a file in order.
fn claims(source: &str) -> Vec<Claim> {
    let lines: Vec<&str> = source.lines().collect();
    let (mut claims, mut around) = (Vec::new(), String::new());
    for (i, line) in lines.iter().enumerate() {
        around = item(line).unwrap_or(around);
        let Some(text) = comment(line) else { continue };
        let (is_contract, first) = match text.strip_prefix("SAFETY:") {
            Some(first) => (false, first.trim()),
            None if text == "# Safety" => (true, ""),
            None => continue,
        };
        let following = lines[i + 1..].iter().map_while(|line| comment(line));
        let following = following.skip_while(|line| is_contract && line.is_empty());
        let body = following.take_while(|line| !line.is_empty() && !line.starts_with("# "));
        let words: Vec<&str> = std::iter::once(first).chain(body).collect();
        // A contract, and the argument for an implementation, stand before their item.
        let code = lines[i + 1..].iter().filter(|line| comment(line).is_none());
        let mut code = code.skip_while(|line| line.trim_start().starts_with("#["));
        let is_item = |line: &&&str| is_contract || line.trim_start().starts_with("unsafe impl");
        let next = code.next().filter(is_item).and_then(|line| item(line));
        let place = next.unwrap_or_else(|| around.clone());
        claims.push(Claim { place, is_contract, text: words.join(" ").trim().to_owned() });
    }
    claims
}

fn page() -> String {
    let mut page = HEAD.to_owned();
    let root = root();
    let mut files: Vec<_> = ["runtime-lib/src", "compiler/src", "macros/src", "proto/src"]
        .iter()
        .flat_map(|folder| sources(&root.join(folder)))
        .filter(|path| path.file_name().is_some_and(|name| name != "tests.rs"))
        .collect();
    files.sort();
    for path in files {
        let source = fs::read_to_string(&path).expect("the sources are text");
        let claims = claims(&source);
        if claims.is_empty() {
            continue;
        }
        let path = path.strip_prefix(root).unwrap_or(Path::new("")).to_string_lossy();
        let path = path.replace('\\', "/");
        writeln!(page, "## `{path}`\n\n| where | argument |\n|---|---|")
            .expect("a string has no limit");
        for Claim { place, is_contract, text } in claims {
            let kind = if is_contract { " requires" } else { "" };
            let text = text.replace('|', "\\|");
            writeln!(page, "| `{place}`{kind} | {text} |").expect("a string has no limit");
        }
        page.push('\n');
    }
    page.truncate(page.trim_end().len());
    page + "\n"
}

#[test]
fn the_reference_page_of_unsafe_code_is_up_to_date() {
    golden::check(&root().join("docs/reference/unsafe-code.md"), page().as_bytes());
}

#[test]
fn every_argument_is_more_than_a_word() {
    let page = page();
    let short: Vec<&str> = page
        .lines()
        .filter_map(|line| line.strip_prefix("| `")?.split_once(" | "))
        .filter(|(_, text)| text.split(' ').count() < 4 && !text.starts_with("See [`"))
        .map(|(place, _)| place)
        .collect();
    assert!(short.is_empty(), "these arguments say too little: {short:?}");
}
