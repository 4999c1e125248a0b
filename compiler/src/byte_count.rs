//! Numbers of bytes in text: `200K`, `1MiB`, `65536`.

use crate::diag::{Code, Diagnostic, Result, quoted};

/// The units in lower case, each with its size in bytes. As in GNU's tools, a letter alone is a
/// power of 1024.
const UNITS: &[(&str, usize)] = &[
    ("", 1),
    ("b", 1),
    ("k", 1 << 10),
    ("kib", 1 << 10),
    ("kb", 1000),
    ("m", 1 << 20),
    ("mib", 1 << 20),
    ("mb", 1_000_000),
    ("g", 1 << 30),
    ("gib", 1 << 30),
    ("gb", 1_000_000_000),
];

/// Parses a number of bytes: digits, which may be grouped by `_`, and a unit in upper or lower
/// case. `option` names the option for the message.
///
/// # Errors
///
/// Returns an error if the text has another form, or if the number is out of range.
pub fn parse(option: &str, text: &str) -> Result<usize> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '_').unwrap_or(text.len());
    let (digits, unit) = (text[..end].replace('_', ""), text[end..].trim_start().to_lowercase());
    let unit = UNITS.iter().find(|(name, _)| *name == unit);
    let bytes =
        digits.parse::<usize>().ok().zip(unit).and_then(|(n, (_, unit))| n.checked_mul(*unit));
    bytes.ok_or_else(|| {
        let message = format!("`--{option}` expects a number of bytes, found {}", quoted(text));
        Diagnostic::new(Code::BadOption, message)
            .help("write it as `65536`, `64K`, `64KiB` or `1M`")
    })
}

/// Formats a number with a comma after each group of three digits.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_of_bytes_may_have_a_unit() {
        let cases = [
            ("65536", 65_536),
            ("65_536", 65_536),
            ("0", 0),
            ("200K", 200 << 10),
            ("64 KiB", 64 << 10),
            ("64kb", 64_000),
            ("1MiB", 1 << 20),
            ("2m", 2 << 20),
            ("3MB", 3_000_000),
            ("1g", 1 << 30),
            ("12B", 12),
        ];
        for (text, bytes) in cases {
            assert_eq!(parse("max-arena", text).ok(), Some(bytes), "{text}");
        }
        for text in ["", "K", "-1", "1.5M", "12 bytes", "1KK", "99999999999999999999", "0x10"] {
            assert!(parse("max-arena", text).is_err(), "{text}");
        }
    }

    #[test]
    fn digits_are_grouped_by_three() {
        let found = [0, 999, 1000, 65_536, 1_234_567].map(grouped);
        assert_eq!(found, ["0", "999", "1,000", "65,536", "1,234,567"]);
    }
}
