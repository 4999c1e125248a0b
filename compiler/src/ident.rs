//! Rust identifiers made of names in a model, which may be any text.

use std::{
    collections::{HashMap, HashSet},
    mem,
    ops::RangeInclusive,
};

/// The greatest length of an identifier; longer ones are truncated.
const LONGEST: usize = 60;

/// Words that are not identifiers in some edition of Rust.
const KEYWORDS: &[&str] = &[
    "abstract", "as", "async", "await", "become", "box", "break", "const", "continue", "crate",
    "do", "dyn", "else", "enum", "extern", "false", "final", "fn", "for", "gen", "if", "impl",
    "in", "let", "loop", "macro", "match", "mod", "move", "mut", "override", "priv", "pub", "ref",
    "return", "self", "static", "struct", "super", "trait", "true", "try", "type", "typeof",
    "union", "unsafe", "unsized", "use", "virtual", "where", "while", "yield", "_",
];

/// Names that generated code uses, and names of primitive types and crates.
const TAKEN: &[&str] = &[
    "arena",
    "borrow",
    "broadcast",
    "buffers",
    "draws",
    "drop",
    "heap",
    "heap_of",
    "layout",
    "operands",
    "outputs",
    "scratch",
    "sizes",
    "state_initialized",
    "state_shape",
    "strings",
    "weights",
    "usize",
    "isize",
    "f32",
    "f64",
    "i8",
    "i16",
    "i32",
    "i64",
    "i128",
    "u8",
    "u16",
    "u32",
    "u64",
    "u128",
    "bool",
    "str",
    "char",
    "core",
    "std",
    "alloc",
];

/// The letters beyond ASCII that identifiers keep. Rust normalizes identifiers (NFC), which leaves
/// these as they are, so that different names stay different.
const LETTERS: &[RangeInclusive<char>] = &[
    'À'..='į',         // Latin
    'Ĵ'..='ľ',         // Latin
    'Ł'..='ň',         // Latin
    'Ŋ'..='ž',         // Latin
    'Ơ'..='ơ',         // Latin
    'Ư'..='ư',         // Latin
    'Ǎ'..='ǜ',         // Latin
    'Ș'..='ț',         // Latin
    'Ա'..='ֆ',         // Armenian
    'א'..='ת',         // Hebrew
    'ؠ'..='ي',         // Arabic
    'ก'..='ะ',         // Thai
    'ぁ'..='ゖ',       // Hiragana
    'ァ'..='ヺ',       // Katakana
    '一'..='\u{9fff}', // Han
    '가'..='힣',       // Hangul
];

/// Letters of scripts most of whose letters look like Latin ones, and their spellings. In a program
/// whose only letters of a script are such ones, rustc warns (`mixed_script_confusables`).
const SPELLINGS: &[(&str, &str)] = &[
    ("αά", "alpha"),
    ("β", "beta"),
    ("γ", "gamma"),
    ("δ", "delta"),
    ("εέ", "epsilon"),
    ("ζ", "zeta"),
    ("ηή", "eta"),
    ("θ", "theta"),
    ("ιίϊΐ", "iota"),
    ("κ", "kappa"),
    ("λ", "lambda"),
    ("μµ", "mu"),
    ("ν", "nu"),
    ("ξ", "xi"),
    ("οό", "omicron"),
    ("π", "pi"),
    ("ρ", "rho"),
    ("σς", "sigma"),
    ("τ", "tau"),
    ("υύϋΰ", "upsilon"),
    ("φ", "phi"),
    ("χ", "chi"),
    ("ψ", "psi"),
    ("ωώ", "omega"),
    ("а", "a"),
    ("б", "b"),
    ("в", "v"),
    ("гґ", "g"),
    ("д", "d"),
    ("её", "e"),
    ("є", "ye"),
    ("ж", "zh"),
    ("з", "z"),
    ("иі", "i"),
    ("йї", "y"),
    ("к", "k"),
    ("л", "l"),
    ("м", "m"),
    ("н", "n"),
    ("о", "o"),
    ("п", "p"),
    ("р", "r"),
    ("с", "s"),
    ("т", "t"),
    ("уў", "u"),
    ("ф", "f"),
    ("х", "kh"),
    ("ц", "ts"),
    ("ч", "ch"),
    ("ш", "sh"),
    ("щ", "shch"),
    ("ъь", ""),
    ("ы", "y"),
    ("э", "e"),
    ("ю", "yu"),
    ("я", "ya"),
];

/// Converts `name` to an identifier in snake case that generated code does not use: `/stem/Conv_1`
/// becomes `stem_conv_1`.
pub fn snake(name: &str) -> String {
    let word = words(name);
    let is_taken = KEYWORDS.contains(&&*word) || TAKEN.contains(&&*word);
    if is_taken { format!("{word}_") } else { word }
}

/// Converts an identifier in snake case to one that is no identifier in snake case: to upper case,
/// with a letter before it if it has none with a case.
pub fn upper(word: &str) -> String {
    let upper = word.to_uppercase();
    if upper == word { format!("X_{word}") } else { upper }
}

/// Returns whether identifiers keep a character.
fn is_kept(c: char) -> bool {
    let is_letter = || LETTERS.iter().any(|letters| letters.contains(&c));
    c.is_ascii_alphanumeric() || c.is_alphabetic() && is_letter()
}

/// Returns the Latin letters that spell a letter of another script.
fn spelling(c: char) -> Option<&'static str> {
    let lower = lowercase(c);
    SPELLINGS.iter().find(|(letters, _)| letters.contains(lower)).map(|(_, spelling)| *spelling)
}

/// Converts a letter to lowercase, unless that is several characters.
fn lowercase(c: char) -> char {
    let mut lower = c.to_lowercase();
    match (lower.next(), lower.next()) {
        (Some(lower), None) => lower,
        _ => c,
    }
}

/// Converts `name` to snake case; the result may be a keyword.
pub fn words(name: &str) -> String {
    let mut word = String::new();
    let mut lower_before = false;
    for c in name.chars() {
        if word.len() >= LONGEST {
            break;
        }
        let spelling = if c.is_ascii() { None } else { spelling(c) };
        if spelling.is_none() && !is_kept(c) {
            if !word.is_empty() && !word.ends_with('_') {
                word.push('_');
            }
            lower_before = false;
            continue;
        }
        if c.is_uppercase() && lower_before {
            word.push('_');
        }
        lower_before = c.is_lowercase() || c.is_ascii_digit();
        match spelling {
            Some(letters) => word.push_str(letters),
            None => word.push(lowercase(c)),
        }
    }
    let word = word.trim_end_matches('_');
    match word.chars().next() {
        None => "x".into(),
        Some(c) if c.is_ascii_digit() => format!("x{word}"),
        Some(_) => word.into(),
    }
}

/// Returns the most similar of `names`: one that differs in a few letters, or else the shortest one
/// that `name` abbreviates.
pub fn nearest<'n>(name: &str, names: impl IntoIterator<Item = &'n str>) -> Option<&'n str> {
    if name.len() > LONGEST {
        return None;
    }
    let names: Vec<&str> = names.into_iter().collect();
    let near = names.iter().map(|found| (distance(found, name), *found)).min()?;
    if near.0 <= 1 + name.len() / 6 {
        return Some(near.1);
    }
    let longer = names.into_iter().filter(|found| abbreviates(name, found));
    longer.min_by_key(|found| (found.len(), *found))
}

/// Returns whether the longer `name` starts with `short`, or one of its words does, ignoring case:
/// `seq` abbreviates `past_sequence_length`.
fn abbreviates(short: &str, name: &str) -> bool {
    /// Shorter names say too little.
    const SHORTEST: usize = 3;
    let (short, name) = (short.to_ascii_lowercase(), name.to_ascii_lowercase());
    let mut words = name.split(|c: char| !c.is_alphanumeric());
    short.len() >= SHORTEST && (name.starts_with(&short) || words.any(|w| w.starts_with(&short)))
}

/// Returns the edit distance of two names, ignoring case: the number of letters that are inserted,
/// removed or replaced, and of adjacent letters that are exchanged.
fn distance(a: &str, b: &str) -> usize {
    let (a, b) = (a.to_ascii_lowercase().into_bytes(), b.to_ascii_lowercase().into_bytes());
    // The distances of a beginning of `a` from all beginnings of `b`, and those two rows before.
    let (mut row, mut earlier): (Vec<usize>, Vec<usize>) = ((0..=b.len()).collect(), Vec::new());
    for i in 0..a.len() {
        let mut next = vec![i + 1];
        for j in 0..b.len() {
            let replaced = row[j] + usize::from(a[i] != b[j]);
            let mut least = replaced.min(row[j + 1] + 1).min(next[j] + 1);
            if i > 0 && j > 0 && a[i] == b[j - 1] && a[i - 1] == b[j] {
                least = least.min(earlier[j - 1] + 1);
            }
            next.push(least);
        }
        earlier = mem::replace(&mut row, next);
    }
    row[b.len()]
}

/// Converts `name` to an identifier in camel case: `digits_cnn` becomes `DigitsCnn`.
pub fn camel(name: &str) -> String {
    let word = snake(name);
    let parts = word.split('_').filter(|part| !part.is_empty());
    let word: String = parts
        .flat_map(|part| {
            let mut letters = part.chars();
            let first = letters.next().into_iter().flat_map(char::to_uppercase).collect::<String>();
            [first, letters.collect()]
        })
        .collect();
    match &*word {
        "Self" => "Self_".into(),
        // Letters without a case.
        _ if word == snake(name) => format!("X{word}"),
        _ => word,
    }
}

/// Returns whether `text` is a path from the root of a crate: `crate::a::b` or `::a::b`.
pub fn is_path(text: &str) -> bool {
    let letter = |c: char| c.is_ascii_alphabetic() || c == '_';
    let is_name = |word: &str| {
        word.starts_with(letter)
            && word.chars().all(|c| letter(c) || c.is_ascii_digit())
            && !KEYWORDS.contains(&word)
    };
    let Some((root, rest)) = text.split_once("::") else { return false };
    matches!(root, "" | "crate") && rest.split("::").all(is_name)
}

/// Identifiers in use; makes new ones unique.
#[derive(Clone, Default)]
pub struct Names {
    used: HashSet<String>,
    /// The next number to try after each stem: many values of a model may have one name.
    next: HashMap<String, usize>,
}

impl Names {
    /// Returns whether `word` is in use.
    pub fn contains(&self, word: &str) -> bool {
        self.used.contains(word)
    }

    /// Returns `word`, with a number appended if it is in use, and marks it as used.
    pub fn unique(&mut self, word: String) -> String {
        if self.used.insert(word.clone()) {
            return word;
        }
        let stem = word.trim_end_matches('_');
        let next = self.next.entry(stem.to_owned()).or_insert(2);
        loop {
            let name = format!("{stem}_{next}");
            *next += 1;
            if self.used.insert(name.clone()) {
                return name;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_name_differs_in_few_letters() {
        let names = ["table", "label", "batch_size"];
        for (name, near) in [
            ("tabel", Some("label")),
            ("tbale", Some("table")),
            ("lable", Some("label")),
            ("batch_sice", Some("batch_size")),
            ("Batch_Size", Some("batch_size")),
            ("batch", Some("batch_size")),
            ("SIZE", Some("batch_size")),
            ("ba", None),
            ("seq", None),
            ("", None),
        ] {
            assert_eq!(nearest(name, names), near, "{name}");
        }
        assert_eq!([distance("", "abc"), distance("ab", "ba"), distance("abc", "ca")], [3, 1, 3]);
    }

    #[test]
    fn any_text_becomes_an_identifier() {
        let long = "n".repeat(10_000);
        for (name, word) in [
            ("/stem/Conv_output_0", "stem_conv_output_0"),
            ("layer.0.bias", "layer_0_bias"),
            ("LayerNorm", "layer_norm"),
            ("1x1", "x1x1"),
            ("fn", "fn_"),
            ("Größe/Überblick", "größe_überblick"),
            ("入力画像", "入力画像"),
            ("Выход", "vykhod"),
            ("γ", "gamma"),
            ("BN/β", "bn_beta"),
            ("カメラ", "カメラ"),
            ("입력 0", "입력_0"),
            // A combining accent, a symbol, and a letter that Rust would normalize.
            ("e\u{301}", "e"),
            ("2πr²", "x2pir"),
            ("\u{212b}", "x"),
            ("", "x"),
            ("*/ \" \n\u{202e}", "x"),
            (&long, &long[..LONGEST]),
        ] {
            assert_eq!(snake(name), word);
            assert!(syn::parse_str::<syn::Ident>(&snake(name)).is_ok(), "{name}");
            assert!(syn::parse_str::<syn::Ident>(&camel(name)).is_ok(), "{name}");
        }
        assert_eq!((camel("digits_cnn"), camel("self")), ("DigitsCnn".into(), "Self_".into()));
        assert_eq!((camel("größe_über"), camel("ß_入")), ("GrößeÜber".into(), "SS入".into()));
        assert_eq!((camel("入力"), camel("入_力")), ("X入力".into(), "入力".into()));
        assert_eq!(["a_入", "入力", "x_2"].map(upper), ["A_入", "X_入力", "X_2"]);
    }

    #[test]
    fn a_name_that_is_in_use_gets_the_next_free_number() {
        let mut names = Names::default();
        let words = ["c", "c_3", "c", "c", "c_", "c_2", "c_2_2"];
        let found = words.map(|word| names.unique(word.to_owned()));
        assert_eq!(found, ["c", "c_3", "c_2", "c_4", "c_", "c_2_2", "c_2_2_2"]);
    }

    #[test]
    fn a_path_starts_at_the_root_of_a_crate() {
        for path in ["crate::clip", "::ops::math::clip", "crate::_a::b2"] {
            assert!(is_path(path), "{path}");
        }
        for path in ["clip", "ops::clip", "crate::", "crate::fn", "crate::a b", "crate::f()", ""] {
            assert!(!is_path(path), "{path}");
        }
    }

    #[test]
    fn names_are_unique() {
        let mut names = Names::default();
        let all = ["a", "a", "a_2", "a"].map(|word| names.unique(word.into()));
        assert_eq!(all, ["a", "a_2", "a_2_2", "a_3"]);
    }
}
