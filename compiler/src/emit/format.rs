//! Prints tokens as text, with comments and blank lines, which tokens cannot represent.

use super::chunks::Chunks;
use proc_macro2::TokenStream;

/// Returns the source of a file of these tokens. A line `comment!("…");` becomes a comment, a line
/// `note!("…");` becomes a comment at the end of the line before, and a line `blank!();` becomes
/// empty.
pub fn print(tokens: TokenStream) -> String {
    let (mut chunks, mut lines) = (Chunks::default(), Vec::new());
    let outline = chunks.cut(tokens);
    print_lines(&unparse(outline), &mut chunks, &mut lines);
    lines.join("\n") + "\n"
}

fn unparse(tokens: TokenStream) -> String {
    prettyplease::unparse(&syn::parse2(tokens).expect("the emitted tokens are a Rust file"))
}

/// Adds the lines of a text, with those of chunks in place of their marks.
fn print_lines(text: &str, chunks: &mut Chunks, lines: &mut Vec<String>) {
    let mut given = text.lines();
    while let Some(line) = given.next() {
        let text = line.trim_start();
        let indent = &line[..line.len() - text.len()];
        if text == "blank!();" {
            blank(lines);
        } else if let Some(chunk) = chunks.take(text) {
            let depth = chunk.depth;
            let text = prettyplease::unparse(&chunk.into_file());
            print_lines(inside(&text, depth), chunks, lines);
        } else if let Some(literal) = text.strip_prefix("comment!(") {
            comment(&argument(literal, &mut given), indent, lines);
        } else if let Some(literal) = text.strip_prefix("note!(") {
            note(&argument(literal, &mut given), lines);
        } else {
            lines.push(line.to_owned());
        }
    }
}

/// Returns the lines inside the `depth` blocks that a text consists of.
fn inside(text: &str, depth: usize) -> &str {
    let start = text.match_indices('\n').nth(depth - 1).map_or(text.len(), |(at, _)| at + 1);
    let end = text.trim_end().rmatch_indices('\n').nth(depth - 1).map_or(start, |(at, _)| at + 1);
    &text[start..end.max(start)]
}

/// Returns the argument of a mark, which starts with `first`. A long argument is on the lines
/// between the parentheses.
fn argument<'t>(first: &str, following: &mut impl Iterator<Item = &'t str>) -> String {
    match first.strip_suffix(");") {
        Some(argument) => argument.to_owned(),
        None => following.take_while(|line| line.trim() != ");").collect(),
    }
}

/// Adds an empty line, unless there is one already or a block begins.
fn blank(lines: &mut Vec<String>) {
    if lines.last().is_some_and(|before| !before.is_empty() && !before.ends_with('{')) {
        lines.push(String::new());
    }
}

fn comment(literal: &str, indent: &str, lines: &mut Vec<String>) {
    let comment: syn::LitStr = syn::parse_str(literal).expect("`comment!` has a string literal");
    if !lines.last().is_some_and(|before| before.trim().starts_with("//")) {
        blank(lines);
    }
    lines.extend(comment.value().lines().map(|line| format!("{indent}// {line}")));
}

/// Adds a comment at the end of the line before.
fn note(literal: &str, lines: &mut [String]) {
    let note: syn::LitStr = syn::parse_str(literal).expect("`note!` has a string literal");
    let line = lines.last_mut().expect("a note follows an item");
    *line = format!("{line} // {}", note.value());
}

#[cfg(test)]
mod tests {
    use super::*;
    use quote::quote;

    #[test]
    fn comments_and_blank_lines_are_preserved() {
        let text = print(quote! {
            comment!("head \"quoted\"");
            fn f() {
                comment!("first");
                a();
                comment!("second");
                b();
                blank!();
                c();
                note!("[1, 2]");
            }
        });
        let expected = [
            "// head \"quoted\"",
            "fn f() {",
            "    // first",
            "    a();",
            "",
            "    // second",
            "    b();",
            "",
            "    c(); // [1, 2]",
            "}",
            "",
        ];
        let expected = expected.join("\n");
        assert_eq!(text, expected);
    }

    #[test]
    fn a_long_note_stays_on_the_line_of_its_item() {
        let note = format!("[{}]", ["1"; 40].join(", "));
        let text = print(quote! {
            const A: usize = 1;
            note!(#note);
        });
        assert_eq!(text, format!("const A: usize = 1; // {note}\n"));
    }
}
