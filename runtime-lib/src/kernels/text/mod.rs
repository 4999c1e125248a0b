//! Strings: concatenation, splitting, matching and normalization. A constant string is stored as
//! bytes among the weights.

mod grams;
mod hash;
#[cfg(feature = "alloc")]
mod normalize;
#[cfg(feature = "alloc")]
mod pattern;
mod repeat;
#[cfg(feature = "alloc")]
mod split;
#[cfg(feature = "alloc")]
mod tokenizer;

pub use grams::{Grams, count_grams, find_grams};
pub use hash::{Hashed, murmur_hash_3, murmur_hash_3_signed};
#[cfg(feature = "alloc")]
pub use normalize::{
    lower, string_normalizer, string_normalizer_lower, string_normalizer_sizes,
    string_normalizer_upper,
};
#[cfg(feature = "alloc")]
pub use pattern::regex_full_match;
pub use repeat::ngram_repeat_block;
#[cfg(feature = "alloc")]
pub use split::{
    string_split, string_split_sizes, string_split_whitespace, string_split_whitespace_sizes,
};
#[cfg(feature = "alloc")]
pub use tokenizer::{
    TokenizerOperands, Tokens, tokenizer, tokenizer_matches, tokenizer_matches_sizes,
    tokenizer_sizes,
};

#[cfg(feature = "alloc")]
use crate::loops::geometry::Broadcast;
#[cfg(feature = "alloc")]
use alloc::string::String;

/// Concatenates `a` and `b`.
#[cfg(feature = "alloc")]
pub fn string_concat(a: &[String], b: &[String], y: &mut [String], geometry: Broadcast<'_>) {
    crate::loops::broadcast::zip(a, b, y, geometry, |a, b| {
        let mut joined = String::with_capacity(a.len() + b.len());
        joined.push_str(a);
        joined.push_str(b);
        joined
    });
}

#[cfg(all(test, feature = "alloc"))]
mod tests {
    use super::*;

    #[test]
    fn one_suffix_is_broadcast_to_many_strings() {
        let (a, b) = (["ä", "", "c"].map(String::from), ["-"].map(String::from));
        let mut y = ["old"; 3].map(String::from);
        string_concat(&a, &b, &mut y, Broadcast { sizes: &[3], a: &[1], b: &[0] });
        assert_eq!(y, ["ä-", "-", "c-"]);
    }
}
