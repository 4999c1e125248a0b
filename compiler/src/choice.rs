//! Options whose values are keywords.

use crate::{
    diag::{Code, Diagnostic, Result, quoted},
    ident,
};

/// A type whose values are keywords on the command line and in the macro. `choices!` implements it,
/// together with `FromStr` and `Display`.
pub trait Choice: Copy + PartialEq + 'static {
    /// Every value, in the order of `--help`.
    const ALL: &'static [Self];
    /// The name of each value, and its line of `--help`.
    const WORDS: &'static [(&'static str, &'static str)];
    /// Returns the name of the value.
    fn word(self) -> &'static str;
}

/// Returns the value called `word`.
///
/// # Errors
///
/// Returns an error if no value has this name.
pub(crate) fn parse<T: Choice>(word: &str) -> Result<T> {
    let found = T::ALL.iter().find(|choice| choice.word() == word);
    found.copied().ok_or_else(|| {
        let words: Vec<String> = T::WORDS.iter().map(|(word, _)| format!("`{word}`")).collect();
        let message = format!("expected {}, found {}", words.join(" or "), quoted(word));
        let error = Diagnostic::new(Code::BadOption, message);
        match ident::nearest(word, T::WORDS.iter().map(|(word, _)| *word)) {
            Some(near) => error.help(format!("did you mean `{near}`?")),
            None => error,
        }
    })
}

/// Implements [`Choice`] for an enum, with a keyword and a line of `--help` for each variant.
macro_rules! choices {
    ($Type:ident: $($Variant:ident $word:literal $help:literal;)+) => {
        impl $crate::choice::Choice for $Type {
            const ALL: &'static [$Type] = &[$($Type::$Variant),+];
            const WORDS: &'static [(&'static str, &'static str)] = &[$(($word, $help)),+];
            fn word(self) -> &'static str {
                match self { $($Type::$Variant => $word),+ }
            }
        }

        impl std::str::FromStr for $Type {
            type Err = $crate::diag::Diagnostic;
            fn from_str(word: &str) -> $crate::diag::Result<$Type> {
                $crate::choice::parse(word)
            }
        }

        impl std::fmt::Display for $Type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad($crate::choice::Choice::word(*self))
            }
        }
    };
}
pub(crate) use choices;

#[cfg(test)]
mod tests {
    use super::Choice;
    use crate::{
        emit::ArenaIn,
        import::Defaults,
        limits::Limit,
        options::Weights,
        plan::{Optimize, Precision},
        train::{Initial, Loss, Method, Setting},
    };
    use std::{fmt::Display, str::FromStr};

    fn each_word_names_its_value<T: Choice + FromStr + Display>() {
        for (choice, (word, _)) in T::ALL.iter().zip(T::WORDS) {
            assert_eq!(choice.to_string(), *word);
            assert!(word.parse::<T>().is_ok_and(|parsed| parsed == *choice), "{word}");
        }
        assert!("".parse::<T>().is_err());
    }

    #[test]
    fn every_word_parses_to_its_value() {
        each_word_names_its_value::<ArenaIn>();
        each_word_names_its_value::<Defaults>();
        each_word_names_its_value::<Limit>();
        each_word_names_its_value::<Initial>();
        each_word_names_its_value::<Loss>();
        each_word_names_its_value::<Method>();
        each_word_names_its_value::<Optimize>();
        each_word_names_its_value::<Precision>();
        each_word_names_its_value::<Setting>();
        each_word_names_its_value::<Weights>();
    }

    #[test]
    fn an_unknown_word_is_an_error_that_lists_the_known_ones() {
        let error =
            "stack".parse::<ArenaIn>().expect_err("`stack` is not a place for the arena").message;
        assert_eq!(error, "expected `struct` or `heap` or `caller`, found `stack`");
    }
}
