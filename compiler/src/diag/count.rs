//! Numbers of things in messages.

use std::fmt::Display;

/// Formats a number of things: `1 input`, `2 inputs`.
pub fn counted(count: impl Display, noun: &str) -> String {
    let count = count.to_string();
    match (count.as_str(), noun) {
        ("1", one) => format!("1 {one}"),
        (_, "axis") => format!("{count} axes"),
        (_, one) => format!("{count} {one}s"),
    }
}

/// Formats how many things exist: `there is 1 axis`, `there are 2 axes`.
pub fn there_are(count: impl Display, noun: &str) -> String {
    let counted = counted(count, noun);
    let verb = if counted.starts_with("1 ") { "is" } else { "are" };
    format!("there {verb} {counted}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_thing_is_singular() {
        assert_eq!(counted(1, "input"), "1 input");
        assert_eq!([0, 2, 11].map(|n| counted(n, "axis")), ["0 axes", "2 axes", "11 axes"]);
        assert_eq!(there_are(1, "axis"), "there is 1 axis");
        assert_eq!(
            [0, 21].map(|n| there_are(n, "part")),
            ["there are 0 parts", "there are 21 parts"]
        );
    }
}
