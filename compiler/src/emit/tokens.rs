//! Makes tokens of numbers and sizes.

use crate::dim::Dim;
use proc_macro2::{Literal, TokenStream};
use quote::quote;

/// A number without a type suffix.
pub fn number(n: usize) -> Literal {
    Literal::usize_unsuffixed(n)
}

/// A number in hexadecimal notation, without a type suffix.
pub fn hexadecimal(n: u64) -> Literal {
    format!("{n:#018x}").parse().expect("Rust has the same notation")
}

/// A size as an expression.
pub fn size(dim: &Dim) -> TokenStream {
    parse_tokens(&dim.expression(&|_| None))
}

/// Parses an expression.
pub fn parse_tokens(source: &str) -> TokenStream {
    source.parse().expect("formulas and sizes are written as Rust expressions")
}

/// Returns the tokens one after another. Unlike `quote!`, this copies none of them.
pub fn join<const N: usize>(parts: [TokenStream; N]) -> TokenStream {
    let mut parts = parts.into_iter().filter(|part| !part.is_empty());
    let mut all = parts.next().unwrap_or_default();
    parts.for_each(|part| all.extend(part));
    all
}

/// Items between brackets.
pub fn array(items: impl Iterator<Item = TokenStream>) -> TokenStream {
    quote!([#(#items),*])
}
