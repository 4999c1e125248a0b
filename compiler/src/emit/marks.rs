//! Marks: macros in place of text without tokens: comments, blank lines and printed chunks.

use proc_macro2::{Group, Ident, Spacing, TokenStream, TokenTree};

/// Returns whether a word starts a mark: `comment!("…");`, `note!("…");`, `blank!();` or
/// `chunk!(N);`.
pub fn is_mark(word: &Ident, next: Option<&TokenTree>) -> bool {
    let is_called = matches!(next, Some(TokenTree::Punct(mark))
        if mark.as_char() == '!' && mark.spacing() == Spacing::Alone);
    is_called && ["comment", "note", "blank", "chunk"].iter().any(|mark| word == mark)
}

/// Returns the tokens without comments and blank lines, which a macro cannot return.
pub fn strip_marks(tokens: TokenStream) -> TokenStream {
    let mut plain = TokenStream::new();
    let mut trees = tokens.into_iter().peekable();
    while let Some(tree) = trees.next() {
        match tree {
            TokenTree::Ident(word) if is_mark(&word, trees.peek()) => {
                // The mark, the arguments and the semicolon.
                trees.by_ref().take(3).for_each(drop);
            }
            TokenTree::Group(group) => {
                let inside = self::strip_marks(group.stream());
                plain.extend([TokenTree::Group(Group::new(group.delimiter(), inside))]);
            }
            tree => plain.extend([tree]),
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;
    use quote::quote;

    #[test]
    fn stripping_removes_comments_and_blank_lines() {
        let tokens = strip_marks(quote! {
            comment!("head");
            fn f(comment: usize) -> bool {
                note!("note");
                blank!();
                comment != 0
            }
        });
        let expected = quote! {
            fn f(comment: usize) -> bool {
                comment != 0
            }
        };
        assert_eq!(tokens.to_string(), expected.to_string());
    }
}
