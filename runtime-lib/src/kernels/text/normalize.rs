//! `StringNormalizer`: removes stop words and changes the case.

use crate::kernels::ml::lookup::Texts;
use alloc::string::String;

/// Counts the remaining words. Stop words are sorted by bytes, and in lower case if the comparison
/// ignores case.
pub fn string_normalizer_sizes(
    sizes: &mut [usize],
    x: &[String],
    stop_text: &[u8],
    stop_ends: &[u32],
    any_case: bool,
    turkic: bool,
) {
    let stops = Texts { text: stop_text, ends: stop_ends };
    let left = x.iter().filter(|word| counts(word, &stops, any_case, turkic)).count();
    // If no word remains, the result is one empty string.
    sizes.fill(left.max(1));
}

/// Writes the remaining words.
pub fn string_normalizer(
    x: &[String],
    stop_text: &[u8],
    stop_ends: &[u32],
    y: &mut [String],
    any_case: bool,
    turkic: bool,
) {
    let stops = Texts { text: stop_text, ends: stop_ends };
    each(x, &stops, y, [any_case, turkic], &|word| word.into());
}

/// [`string_normalizer`] in lower case.
pub fn string_normalizer_lower(
    x: &[String],
    stop_text: &[u8],
    stop_ends: &[u32],
    y: &mut [String],
    any_case: bool,
    turkic: bool,
) {
    let stops = Texts { text: stop_text, ends: stop_ends };
    each(x, &stops, y, [any_case, turkic], &|word| lower(word, turkic));
}

/// [`string_normalizer`] in upper case.
pub fn string_normalizer_upper(
    x: &[String],
    stop_text: &[u8],
    stop_ends: &[u32],
    y: &mut [String],
    any_case: bool,
    turkic: bool,
) {
    let stops = Texts { text: stop_text, ends: stop_ends };
    each(x, &stops, y, [any_case, turkic], &|word| upper(word, turkic));
}

fn each(
    x: &[String],
    stops: &Texts<'_>,
    y: &mut [String],
    [any_case, turkic]: [bool; 2],
    change: &dyn Fn(&str) -> String,
) {
    let mut left = x.iter().filter(|word| counts(word, stops, any_case, turkic));
    for y in y {
        *y = left.next().map(|word| change(word)).unwrap_or_default();
    }
}

/// Returns whether a word is kept, i.e. not a stop word.
fn counts(word: &str, stops: &Texts<'_>, any_case: bool, turkic: bool) -> bool {
    let none = stops.ends.len();
    match any_case && none > 0 {
        true => stops.position(&lower(word, turkic)) == none,
        false => stops.position(word) == none,
    }
}

/// Converts to lower case. In Turkic languages I and İ are the capitals of ı and i.
pub fn lower(word: &str, turkic: bool) -> String {
    if turkic {
        word.replace('I', "ı").replace('İ', "i").to_lowercase()
    } else {
        word.to_lowercase()
    }
}

/// Converts to upper case.
fn upper(word: &str, turkic: bool) -> String {
    if turkic { word.replace('i', "İ").to_uppercase() } else { word.to_uppercase() }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Kernel = fn(&[String], &[u8], &[u32], &mut [String], bool, bool);

    fn check(kernel: Kernel, x: &[&str], any_case: bool, turkic: bool, expected: &[&str]) {
        let x: alloc::vec::Vec<String> = x.iter().map(|&word| word.into()).collect();
        let (text, ends) = (b"anthe".as_slice(), [2, 5]);
        let mut sizes = [0];
        string_normalizer_sizes(&mut sizes, &x, text, &ends, any_case, turkic);
        assert_eq!(sizes, [expected.len()]);
        let mut y = alloc::vec![String::from("old"); sizes[0]];
        kernel(&x, text, &ends, &mut y, any_case, turkic);
        assert_eq!(y, expected);
    }

    #[test]
    fn stop_words_go() {
        let x = ["The", "the", "STRASSE", "Maß", ""];
        check(string_normalizer, &x, false, false, &["The", "STRASSE", "Maß", ""]);
        check(string_normalizer, &x, true, false, &["STRASSE", "Maß", ""]);
        check(string_normalizer_lower, &x, true, false, &["strasse", "maß", ""]);
        check(string_normalizer_upper, &x, true, false, &["STRASSE", "MASS", ""]);
    }

    #[test]
    fn an_empty_string_stands_for_no_words() {
        check(string_normalizer_lower, &["the", "an"], false, false, &[""]);
        check(string_normalizer, &[], false, false, &[""]);
    }

    #[test]
    fn turkic_languages_have_two_letters_i() {
        check(string_normalizer_lower, &["Iİiı"], false, true, &["ıiiı"]);
        check(string_normalizer_upper, &["Iİiı"], false, true, &["IİİI"]);
        check(string_normalizer_lower, &["I"], false, false, &["i"]);
    }
}
