//! `Tokenizer`: splits strings into tokens by patterns, which are tables of DFAs.

use crate::loops::index::place;
use alloc::string::String;
use core::ops::Range;

/// The strings, and the DFAs of the patterns.
#[derive(Clone, Copy, Debug)]
pub struct TokenizerOperands<'a> {
    /// The strings.
    pub x: &'a [String],
    /// The equivalence class of each byte, 256 for each pattern.
    pub classes: &'a [u8],
    /// The rows of all DFAs. An element is twice the row of the next state, plus one if a match
    /// ends before the byte. The last column is for the end of the string. Row 0 is no state.
    pub table: &'a [u16],
    /// The row of each pattern that holds its starting states, by the byte before the match.
    pub firsts: &'a [u32],
    /// The text that fills rows of tokens.
    pub pad: &'a [u8],
}

/// The geometry of the table, and the tokens to keep.
#[derive(Clone, Copy, Debug)]
pub struct Tokens {
    /// The length of a row of the table.
    pub columns: usize,
    /// The least number of characters of a token.
    pub least: usize,
    /// Whether markers enclose the tokens of a string.
    pub mark: bool,
}

/// Computes the greatest number of tokens that matches separate, with the markers; 0 without
/// tokens.
pub fn tokenizer_sizes(sizes: &mut [usize], operands: TokenizerOperands<'_>, geometry: Tokens) {
    measure(sizes, operands, geometry, separate);
}

/// Writes the tokens of each string that matches separate, padded to `width`. The patterns apply
/// one after another, each to the tokens that the previous one leaves.
pub fn tokenizer(
    operands: TokenizerOperands<'_>,
    y: &mut [String],
    geometry: Tokens,
    width: usize,
) {
    write(operands, y, geometry, width, separate);
}

/// [`tokenizer_sizes`] of matches.
pub fn tokenizer_matches_sizes(
    sizes: &mut [usize],
    operands: TokenizerOperands<'_>,
    geometry: Tokens,
) {
    measure(sizes, operands, geometry, find_tokens);
}

/// [`tokenizer`] whose tokens are the matches of the first pattern.
pub fn tokenizer_matches(
    operands: TokenizerOperands<'_>,
    y: &mut [String],
    geometry: Tokens,
    width: usize,
) {
    write(operands, y, geometry, width, find_tokens);
}

/// Calls its last argument with the tokens of a string.
type Split = for<'x> fn(&Patterns<'_>, &'x str, &mut dyn FnMut(&'x str));

fn measure(sizes: &mut [usize], operands: TokenizerOperands<'_>, geometry: Tokens, split: Split) {
    let patterns = Patterns::new(operands, geometry);
    let mut widest = 0;
    for x in operands.x {
        let mut count = 0;
        split(&patterns, x, &mut |_| count += 1);
        widest = count.max(widest);
    }
    sizes.fill(if widest > 0 && geometry.mark { widest + 2 } else { widest });
}

fn write(
    operands: TokenizerOperands<'_>,
    y: &mut [String],
    geometry: Tokens,
    width: usize,
    split: Split,
) {
    const START: &str = "\u{2}";
    const END: &str = "\u{3}";
    let patterns = Patterns::new(operands, geometry);
    let pad = core::str::from_utf8(operands.pad).unwrap_or_default();
    for (x, y) in operands.x.iter().zip(y.chunks_exact_mut(width.max(1))) {
        let mut row = y.iter_mut();
        let mut push = |token: &str| {
            if let Some(into) = row.next() {
                into.clear();
                into.push_str(token);
            }
        };
        if geometry.mark {
            push(START);
        }
        split(&patterns, x, &mut push);
        if geometry.mark {
            push(END);
        }
        (0..width).for_each(|_| push(pad));
    }
}

/// The DFAs of the patterns that are still to apply.
#[derive(Clone, Copy)]
struct Patterns<'a> {
    classes: &'a [u8],
    table: &'a [u16],
    firsts: &'a [u32],
    columns: usize,
    least: usize,
}

impl<'a> Patterns<'a> {
    fn new(operands: TokenizerOperands<'a>, geometry: Tokens) -> Patterns<'a> {
        let TokenizerOperands { classes, table, firsts, .. } = operands;
        Patterns { classes, table, firsts, columns: geometry.columns, least: geometry.least }
    }

    fn is_long(&self, token: &str) -> bool {
        token.chars().count() >= self.least
    }

    /// Returns the longest of the leftmost matches of the first pattern that start at `from` or
    /// later.
    fn find(&self, text: &str, from: usize) -> Option<Range<usize>> {
        let starts = (from..=text.len()).filter(|&start| text.is_char_boundary(start));
        let mut matches = starts.filter_map(|start| Some(start..self.longest(text, start)?));
        matches.next()
    }

    /// Returns the end of the longest match that starts at `start`.
    fn longest(&self, text: &str, start: usize) -> Option<usize> {
        let bytes = text.as_bytes();
        let column = |byte: u8| usize::from(self.classes[usize::from(byte)]);
        let last = self.columns - 1;
        let entry =
            |row: usize, column: usize| usize::from(self.table[row * self.columns + column]);
        let before = start.checked_sub(1).map_or(last, |before| column(bytes[before]));
        let mut state = entry(place(self.firsts[0]), before) / 2;
        let mut end = None;
        for (at, &byte) in bytes.iter().enumerate().skip(start) {
            if state == 0 {
                return end;
            }
            let next = entry(state, column(byte));
            if next % 2 == 1 && text.is_char_boundary(at) {
                end = Some(at);
            }
            state = next / 2;
        }
        if state != 0 && entry(state, last) % 2 == 1 { Some(text.len()) } else { end }
    }
}

/// Returns the offset after the character at `at`.
fn after_char(text: &str, at: usize) -> usize {
    at + text[at..].chars().next().map_or(1, char::len_utf8)
}

/// Calls `each` with the parts of a string between the matches of all patterns. A character at
/// which an empty match is found separates, too.
fn separate<'x>(patterns: &Patterns<'_>, text: &'x str, each: &mut dyn FnMut(&'x str)) {
    let Some(rest) = patterns.firsts.get(1..) else { return each(text) };
    let rest = Patterns { firsts: rest, classes: &patterns.classes[256..], ..*patterns };
    let mut keep = |part: &'x str| {
        if patterns.is_long(part) {
            separate(&rest, part, each);
        }
    };
    let mut start = 0;
    while start < text.len() {
        let found = patterns.find(text, start).unwrap_or(text.len()..text.len());
        keep(&text[start..found.start]);
        start = if found.is_empty() { after_char(text, found.end) } else { found.end };
    }
}

/// Calls `each` with the matches of the first pattern. After a match that is too short, the search
/// continues at the next character.
fn find_tokens<'x>(patterns: &Patterns<'_>, text: &'x str, each: &mut dyn FnMut(&'x str)) {
    let mut start = 0;
    while start < text.len()
        && let Some(found) = patterns.find(text, start)
    {
        let token = &text[found.clone()];
        if patterns.is_long(token) {
            each(token);
            start = found.end;
        } else {
            start = after_char(text, found.start);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::{vec, vec::Vec};

    /// The classes of `-`, of spaces and of other bytes.
    fn classes() -> Vec<u8> {
        let mut classes = vec![2; 256];
        (classes[usize::from(b'-')], classes[usize::from(b' ')]) = (0, 1);
        classes
    }

    /// The DFA of `x+`, with `x` a class: a row of starting states, the start, and the state after
    /// an `x`. Its first row has the number `row`.
    fn repeat(class: usize, row: u16) -> Vec<u16> {
        let (start, inside) = (2 * (row + 1), 2 * (row + 2));
        let mut table = [start; 12];
        table[4..8].copy_from_slice(&[0, 0, 0, 0]);
        table[8..].copy_from_slice(&[1, 1, 1, 1]);
        table[4 + class] = inside;
        table[8 + class] = inside + 1;
        table.to_vec()
    }

    type Sizes = fn(&mut [usize], TokenizerOperands<'_>, Tokens);
    type Write = fn(TokenizerOperands<'_>, &mut [String], Tokens, usize);

    const SEPARATE: (Sizes, Write) = (tokenizer_sizes, tokenizer);
    const MATCH: (Sizes, Write) = (tokenizer_matches_sizes, tokenizer_matches);

    fn check(
        (sizes, write): (Sizes, Write),
        of: &[usize],
        (least, mark): (usize, bool),
        x: &[&str],
        expected: &[&str],
    ) {
        let x: Vec<String> = x.iter().map(|&x| x.into()).collect();
        let firsts: Vec<u32> = (0..of.len()).map(|i| 3 * i as u32).collect();
        let rows = of.iter().zip(&firsts);
        let table: Vec<u16> = rows.flat_map(|(&of, &row)| repeat(of, row as u16)).collect();
        let operands = TokenizerOperands {
            x: &x,
            classes: &classes().repeat(of.len()),
            table: &table,
            firsts: &firsts,
            pad: b"#",
        };
        let geometry = Tokens { columns: 4, least, mark };
        let mut width = [9];
        sizes(&mut width, operands, geometry);
        let mut y = vec![String::from("old"); x.len() * width[0]];
        write(operands, &mut y, geometry, width[0]);
        assert_eq!(y, expected);
    }

    #[test]
    fn separators_apply_one_after_another() {
        let x = ["a--bb c", "é "];
        check(SEPARATE, &[0], (1, false), &x, &["a", "bb c", "é ", "#"]);
        check(SEPARATE, &[0, 1], (1, false), &x, &["a", "bb", "c", "é", "#", "#"]);
        check(SEPARATE, &[0, 1], (2, false), &x, &["bb", "#"]);
    }

    #[test]
    fn markers_enclose_tokens_and_padding_follows_them() {
        let expected = ["\u{2}", "a", "b", "\u{3}", "\u{2}", "\u{3}", "#", "#"];
        check(SEPARATE, &[1], (1, true), &["a b", ""], &expected);
        check(SEPARATE, &[1], (1, true), &[" ", ""], &[]);
    }

    #[test]
    fn matches_are_the_longest() {
        check(MATCH, &[2], (1, false), &["ab é-c", "--"], &["ab", "é", "c", "#", "#", "#"]);
        check(MATCH, &[2], (2, false), &["ab é-c"], &["ab"]);
        check(MATCH, &[2], (1, false), &[""], &[]);
    }

    #[test]
    fn empty_matches_separate_at_characters() {
        // The empty pattern: its start matches before every byte.
        let table = [2, 2, 2, 2, 1, 1, 1, 1];
        let x = [String::from("aé")];
        let operands =
            TokenizerOperands { x: &x, classes: &classes(), table: &table, firsts: &[0], pad: b"" };
        let (mut sizes, geometry) = ([9], Tokens { columns: 4, least: 1, mark: false });
        tokenizer_sizes(&mut sizes, operands, geometry);
        assert_eq!(sizes, [0]);
        tokenizer_matches_sizes(&mut sizes, operands, geometry);
        assert_eq!(sizes, [0]);
    }
}
