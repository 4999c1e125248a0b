//! Prints tokens as text, with comments and blank lines, which tokens cannot represent.

use proc_macro2::TokenStream;

/// Returns the source of a file of these tokens. A line `comment!("…");` becomes a comment, a line
/// `note!("…");` becomes a comment at the end of the line before, a line `blank!();` becomes empty,
/// and a line `chunk!(N);` becomes text `N` of the chunks.
pub fn print(tokens: TokenStream, chunks: Vec<String>) -> String {
    let file = syn::parse2(tokens).expect("the emitted tokens are a Rust file");
    let outline = prettyplease::unparse(&file);
    let bytes = chunks.iter().map(String::len).sum::<usize>() + outline.len();
    let mut lines = Lines { text: String::with_capacity(bytes), last: 0 };
    print_lines(&outline, &mut { chunks }, &mut lines);
    lines.text
}

/// Lines of a text, each with its end.
struct Lines {
    text: String,
    /// Where the last line starts.
    last: usize,
}

impl Lines {
    fn push(&mut self, parts: &[&str]) {
        self.last = self.text.len();
        self.text.extend(parts.iter().copied());
        self.text.push('\n');
    }

    fn last(&self) -> Option<&str> {
        self.text[self.last..].strip_suffix('\n')
    }

    /// Adds text at the end of the last line.
    fn append(&mut self, parts: &[&str]) {
        self.text.pop().expect("there is a line");
        self.text.extend(parts.iter().copied());
        self.text.push('\n');
    }
}

/// Adds the lines of a text, with those of chunks in place of their marks.
fn print_lines(text: &str, chunks: &mut [String], lines: &mut Lines) {
    let mut given = text.lines();
    while let Some(line) = given.next() {
        let text = line.trim_start();
        let indent = &line[..line.len() - text.len()];
        if text == "blank!();" {
            blank(lines);
        } else if let Some(number) = chunk(text) {
            // Its memory is free as soon as its lines are copied.
            let chunk = std::mem::take(&mut chunks[number]);
            print_lines(&chunk, chunks, lines);
        } else if let Some(literal) = text.strip_prefix("comment!(") {
            comment(&argument(literal, &mut given), indent, lines);
        } else if let Some(literal) = text.strip_prefix("note!(") {
            note(&argument(literal, &mut given), lines);
        } else {
            lines.push(&[line]);
        }
    }
}

/// Returns the number of the chunk whose mark is the text.
fn chunk(text: &str) -> Option<usize> {
    text.strip_prefix("chunk!(")?.strip_suffix(");")?.parse().ok()
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
fn blank(lines: &mut Lines) {
    if lines.last().is_some_and(|before| !before.is_empty() && !before.ends_with('{')) {
        lines.push(&[]);
    }
}

fn comment(literal: &str, indent: &str, lines: &mut Lines) {
    let comment: syn::LitStr = syn::parse_str(literal).expect("`comment!` has a string literal");
    if !lines.last().is_some_and(|before| before.trim().starts_with("//")) {
        blank(lines);
    }
    comment.value().lines().for_each(|line| lines.push(&[indent, "// ", line]));
}

/// Adds a comment at the end of the line before.
fn note(literal: &str, lines: &mut Lines) {
    let note: syn::LitStr = syn::parse_str(literal).expect("`note!` has a string literal");
    lines.append(&[" // ", &note.value()]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use quote::quote;

    #[test]
    fn comments_and_blank_lines_are_preserved() {
        let tokens = quote! {
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
        };
        let text = print(tokens, Vec::new());
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
        let tokens = quote! {
            const A: usize = 1;
            note!(#note);
        };
        let text = print(tokens, Vec::new());
        assert_eq!(text, format!("const A: usize = 1; // {note}\n"));
    }
}
