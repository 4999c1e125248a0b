//! Glob patterns: `*` matches any text, `?` any character.

/// Returns whether a pattern matches a single name.
pub fn is_literal(pattern: &str) -> bool {
    !pattern.contains(['*', '?'])
}

/// Returns whether a pattern matches a name.
pub fn matches(pattern: &str, name: &str) -> bool {
    let (pattern, name): (Vec<char>, Vec<char>) =
        (pattern.chars().collect(), name.chars().collect());
    let (mut p, mut n) = (0, 0);
    // The place to continue after a mismatch: the last star takes one more character.
    let mut star: Option<(usize, usize)> = None;
    while n < name.len() {
        match (pattern.get(p), star) {
            (Some('*'), _) => {
                star = Some((p, n));
                p += 1;
            }
            (Some(&c), _) if c == '?' || c == name[n] => (p, n) = (p + 1, n + 1),
            (_, Some((at, taken))) => {
                star = Some((at, taken + 1));
                (p, n) = (at + 1, taken + 1);
            }
            (_, None) => return false,
        }
    }
    pattern[p..].iter().all(|&c| c == '*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_stand_for_names() {
        for (pattern, name, fits) in [
            ("fc1.weight", "fc1.weight", true),
            ("fc1.weight", "fc1.weights", false),
            ("*", "", true),
            ("fc*", "fc1.weight", true),
            ("*.weight", "fc1.weight", true),
            ("*.weight", "fc1.weight.scale", false),
            ("fc?.*", "fc2.bias", true),
            ("fc?.*", "fc12.bias", false),
            ("*a*b", "aaab", true),
            ("*a*b?", "aaab", false),
            ("ü?", "üé", true),
        ] {
            assert_eq!(matches(pattern, name), fits, "{pattern} {name}");
        }
    }
}
