//! Names and texts without characters that end a line, control a terminal or are invisible.

use std::borrow::Cow;

/// Quotes a name in backticks, on one line, and escapes control and invisible characters.
pub fn quoted(name: &str) -> String {
    format!("`{}`", line(name))
}

/// Returns the start of a text on one line, and escapes control and invisible characters.
pub fn line(text: &str) -> String {
    const LONGEST: usize = 200;
    let end = text.char_indices().nth(LONGEST).map(|(end, _)| end);
    let (shown, more) = end.map_or((text, ""), |end| (&text[..end], "…"));
    format!("{}{more}", visible(shown))
}

/// Escapes the characters of a text that end a line, control a terminal or are invisible.
pub fn visible(text: &str) -> Cow<'_, str> {
    if !text.contains(is_hidden) {
        return text.into();
    }
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        match is_hidden(c) {
            true => shown.extend(c.escape_unicode()),
            false => shown.push(c),
        }
    }
    shown.into()
}

/// Returns whether a character controls the terminal, ends a line, or is invisible.
pub(super) fn is_hidden(c: char) -> bool {
    let is_invisible = matches!(
        c,
        '\u{61c}'
            | '\u{200b}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{2069}'
            | '\u{feff}'
    );
    c.is_control() || is_invisible
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quoted_names_have_no_control_characters() {
        assert_eq!(quoted("a\nb\u{202e}\u{2028}"), "`a\\u{a}b\\u{202e}\\u{2028}`");
        assert!(quoted(&"x".repeat(10_000)).chars().count() < 210);
    }

    #[test]
    fn a_line_keeps_its_backticks() {
        assert_eq!(line("at least `K`"), "at least `K`");
    }
}
