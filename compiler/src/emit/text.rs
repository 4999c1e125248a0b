//! Text of the model in comments, documentation and messages.

pub use crate::diag::line;

use proc_macro2::TokenStream;
use quote::quote;

/// Returns one doc comment for each line.
pub fn doc(lines: &[String]) -> TokenStream {
    let lines =
        lines.iter().map(|line| if line.is_empty() { String::new() } else { format!(" {line}") });
    quote!(#(#[doc = #lines])*)
}

/// Returns text of the model to put between backticks.
pub fn code(text: &str) -> String {
    match line(text).replace('`', "'") {
        // Nothing between backticks is two backticks.
        text if text.is_empty() => " ".into(),
        text => text,
    }
}

/// Escapes text for a cell of a table.
pub fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}

/// Escapes text of the model, so that rustdoc shows it unchanged: without markup and links.
pub fn escape(text: &str) -> String {
    let line = line(text);
    let line = line.trim();
    let mut escaped = String::new();
    let mut is_number = true;
    for (i, c) in line.char_indices() {
        let markup =
            matches!(c, '\\' | '`' | '*' | '_' | '[' | ']' | '<' | '>' | '#' | '&' | '~' | '|');
        // A list item, or the line below a heading.
        let at_start =
            i == 0 && matches!(c, '-' | '+' | '=') || is_number && matches!(c, '.' | ')');
        // An address would be a link.
        let address = c == ':' && line[i..].starts_with("://");
        if markup || at_start || address {
            escaped.push('\\');
        }
        escaped.push(c);
        is_number &= c.is_ascii_digit();
    }
    escaped
}

/// Breaks a line at spaces, so that each has at most 96 characters where words allow.
pub fn wrap(line: &str) -> Vec<String> {
    const WIDTH: usize = 96;
    let mut lines: Vec<String> = Vec::new();
    for word in line.split(' ') {
        match lines.last_mut() {
            Some(last) if last.chars().count() + 1 + word.chars().count() <= WIDTH => {
                last.push(' ');
                last.push_str(word);
            }
            Some(_) => lines.push(format!("  {word}")),
            None => lines.push(word.to_owned()),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_of_the_model_is_escaped() {
        for (text, shown) in [
            ("a *b* [c](d) <e>", "a \\*b\\* \\[c\\](d) \\<e\\>"),
            ("    let x = 1;", "let x = 1;"),
            ("- 1. item", "\\- 1. item"),
            ("12. item", "12\\. item"),
            ("see https://a.b/c", "see https\\://a.b/c"),
            ("===", "\\==="),
        ] {
            assert_eq!(escape(text), shown);
        }
        assert_eq!((code("a`b"), code("")), ("a'b".into(), " ".into()));
    }

    #[test]
    fn long_lines_break_at_spaces() {
        let words = ["--dim batch=1"; 10].join(" ");
        let lines = wrap(&words);
        assert!(lines.len() == 2 && lines.iter().all(|line| line.len() <= 96), "{lines:?}");
        assert_eq!(lines.join(" ").split_whitespace().collect::<Vec<_>>().join(" "), words);
    }
}
