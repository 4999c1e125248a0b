//! A line of the model with a part that is underlined.

use super::visible::is_hidden;
use std::ops::Range;

/// The most characters of a line that are shown.
const MOST_CHARACTERS: usize = 90;

/// The most characters that are shown before the underlined part of a longer line.
const MOST_BEFORE: usize = 30;

/// A line of the model, and the part of it that a diagnostic is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Excerpt {
    /// The line. A long one is cut around the underlined part.
    pub line: String,
    /// The underlined part, in characters.
    pub underlined: Range<usize>,
}

impl Excerpt {
    /// Underlines the bytes `part` of `line`, which must be on boundaries of characters.
    pub fn new(line: &str, part: Range<usize>) -> Excerpt {
        let characters: Vec<char> = line.chars().map(in_one_column).collect();
        let start = line[..part.start].chars().count();
        let end = start + line[part].chars().count().max(1);
        let first = match characters.len() > MOST_CHARACTERS {
            true => start.saturating_sub(MOST_BEFORE),
            false => 0,
        };
        let shown = characters.iter().skip(first).take(MOST_CHARACTERS);
        let (before, after) = (
            if first > 0 { "…" } else { "" },
            if characters.len() > first + MOST_CHARACTERS { "…" } else { "" },
        );
        let line = format!("{before}{}{after}", shown.collect::<String>());
        let moved = |at: usize| (at - first).min(MOST_CHARACTERS) + before.chars().count();
        Excerpt { line, underlined: moved(start)..moved(end) }
    }

    /// Returns the line with the marks below the underlined part.
    pub fn marks(&self) -> String {
        " ".repeat(self.underlined.start) + &"^".repeat(self.underlined.len())
    }
}

/// Returns a character that takes one column and does not control the terminal.
fn in_one_column(c: char) -> char {
    match c {
        '\t' => ' ',
        _ if is_hidden(c) => '\u{fffd}',
        _ => c,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(line: &str, part: Range<usize>) -> [String; 2] {
        let excerpt = Excerpt::new(line, part);
        [excerpt.marks(), excerpt.line]
    }

    #[test]
    fn the_marks_are_below_the_part() {
        assert_eq!(shown("é = Add(a, b)", 5..8), ["    ^^^", "é = Add(a, b)"]);
        assert_eq!(shown("y = (", 5..5), ["     ^", "y = ("]);
        assert_eq!(shown("\ta\u{1b}[1m", 1..2), [" ^", " a\u{fffd}[1m"]);
    }

    #[test]
    fn a_long_line_is_cut_around_the_part() {
        let line = format!("{}bad{}", "a".repeat(200), "c".repeat(200));
        let [marks, line] = shown(&line, 200..203);
        assert_eq!(marks, " ".repeat(31) + "^^^");
        assert_eq!(line, format!("…{}bad{}…", "a".repeat(30), "c".repeat(57)));
        let [marks, line] = shown(&"a".repeat(1000), 0..1000);
        assert_eq!((marks.len(), line.chars().count()), (90, 91));
    }
}
