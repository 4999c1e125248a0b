//! Prints tokens as text, with comments and blank lines, which tokens cannot represent.

use proc_macro2::{Group, Spacing, TokenStream, TokenTree};

/// The macros in place of text that has no tokens.
const MARKS: [&str; 3] = ["comment", "note", "blank"];

/// Returns the source of a file of these tokens. A line `comment!("…");` becomes a comment, a line
/// `note!("…");` becomes a comment at the end of the line before, and a line `blank!();` becomes
/// empty.
pub fn print(tokens: TokenStream) -> String {
    let file = syn::parse2(tokens).expect("the emitted tokens are a Rust file");
    let text = prettyplease::unparse(&file);
    let mut lines: Vec<String> = Vec::new();
    let mut given = text.lines();
    while let Some(line) = given.next() {
        let text = line.trim_start();
        let indent = &line[..line.len() - text.len()];
        if text == "blank!();" {
            blank(&mut lines);
        } else if let Some(literal) = text.strip_prefix("comment!(") {
            comment(&argument(literal, &mut given), indent, &mut lines);
        } else if let Some(literal) = text.strip_prefix("note!(") {
            note(&argument(literal, &mut given), &mut lines);
        } else {
            lines.push(line.to_owned());
        }
    }
    lines.join("\n") + "\n"
}

/// Returns the tokens without comments and blank lines, which a macro cannot return.
pub fn strip_marks(tokens: TokenStream) -> TokenStream {
    let mut plain = TokenStream::new();
    let mut trees = tokens.into_iter().peekable();
    while let Some(tree) = trees.next() {
        let called = matches!(trees.peek(), Some(TokenTree::Punct(mark))
            if mark.as_char() == '!' && mark.spacing() == Spacing::Alone);
        match tree {
            TokenTree::Ident(word) if called && MARKS.contains(&word.to_string().as_str()) => {
                // The mark, the arguments and the semicolon.
                trees.by_ref().take(3).for_each(drop);
            }
            TokenTree::Group(group) => {
                let inside = self::strip_marks(group.stream());
                plain.extend([TokenTree::Group(Group::new(group.delimiter(), inside))]);
            }
            tree => plain.extend([tree]),
        }
    }
    plain
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

    #[test]
    fn stripping_removes_comments_and_blank_lines() {
        let tokens = strip_marks(quote! {
            comment!("head");
            fn f(comment: usize) -> bool {
                note!("note");
                blank!();
                comment != 0
            }
        });
        let expected = quote! {
            fn f(comment: usize) -> bool {
                comment != 0
            }
        };
        assert_eq!(tokens.to_string(), expected.to_string());
    }
}
