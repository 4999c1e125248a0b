//! Cuts long modules and functions into chunks, which are printed one by one: then the memory of
//! printing does not grow with the module.

use super::marks::is_mark;
use proc_macro2::{Delimiter, Group, Ident, Literal, TokenStream, TokenTree};
use quote::quote;

/// The number of statements of a chunk.
const STATEMENTS: usize = 256;

/// The number of tokens up to which a block stays whole.
const SHORT: usize = 1024;

/// The chunks of a module, until they are printed.
#[derive(Default)]
pub struct Chunks(Vec<Option<Chunk>>);

/// The statements or items of a part of a block.
pub struct Chunk {
    /// The number of blocks around it.
    pub depth: usize,
    tokens: TokenStream,
}

/// A kind of block whose parts between semicolons are printed alike alone and together.
#[derive(Clone, Copy, PartialEq)]
enum Block {
    /// The body of a module.
    Items,
    /// The body of a function.
    Statements,
    /// Another block.
    Whole,
}

impl Chunk {
    /// Returns a file whose only items are blocks around the chunk.
    pub fn into_file(self) -> syn::File {
        let mut function: syn::ItemFn = syn::parse_quote!(
            fn chunk() {}
        );
        function.block.stmts = statements(self.tokens);
        let item = (1..self.depth).fold(syn::Item::Fn(function), |inside, _| {
            let mut module: syn::ItemMod = syn::parse_quote!(
                mod around {}
            );
            module.content = Some((syn::token::Brace::default(), vec![inside]));
            module.into()
        });
        syn::File { shebang: None, attrs: Vec::new(), items: vec![item] }
    }
}

/// Parses statements. About half of them are marks, which need no parser.
fn statements(tokens: TokenStream) -> Vec<syn::Stmt> {
    let (mut all, mut others) = (Vec::new(), TokenStream::new());
    let mut trees = tokens.into_iter().peekable();
    while let Some(tree) = trees.next() {
        match tree {
            TokenTree::Ident(word) if is_mark(&word, trees.peek()) => {
                all.extend(parse(std::mem::take(&mut others)));
                let argument = trees.nth(1);
                trees.next_if(|tree| matches!(tree, TokenTree::Punct(_)));
                let Some(TokenTree::Group(argument)) = argument else { continue };
                all.push(mark(word, argument.stream()));
            }
            tree => others.extend([tree]),
        }
    }
    all.extend(parse(others));
    all
}

fn parse(statements: TokenStream) -> Vec<syn::Stmt> {
    let parsed = syn::parse::Parser::parse2(syn::Block::parse_within, statements);
    parsed.expect("the emitted tokens are statements")
}

/// Returns the statement `word!(argument);`.
fn mark(word: Ident, argument: TokenStream) -> syn::Stmt {
    let mac = syn::Macro {
        path: word.into(),
        bang_token: Default::default(),
        delimiter: syn::MacroDelimiter::Paren(Default::default()),
        tokens: argument,
    };
    let semi_token = Some(Default::default());
    syn::Stmt::Macro(syn::StmtMacro { attrs: Vec::new(), mac, semi_token })
}

impl Chunks {
    /// Takes the parts of long blocks, and returns the tokens with `chunk!(N);` in their place.
    pub fn cut(&mut self, tokens: TokenStream) -> TokenStream {
        cut_inside(tokens, 0, self)
    }

    /// Takes the chunk whose mark is the text.
    pub fn take(&mut self, text: &str) -> Option<Chunk> {
        let number: usize = text.strip_prefix("chunk!(")?.strip_suffix(");")?.parse().ok()?;
        self.0.get_mut(number)?.take()
    }

    /// Keeps a chunk, and returns its mark.
    fn keep(&mut self, chunk: Chunk) -> TokenStream {
        let number = Literal::usize_unsuffixed(self.0.len());
        self.0.push(Some(chunk));
        quote!(chunk!(#number);)
    }
}

/// Cuts the blocks of items that are `depth` blocks deep.
fn cut_inside(tokens: TokenStream, depth: usize, chunks: &mut Chunks) -> TokenStream {
    let mut next = Block::Whole;
    let each = tokens.into_iter().map(|tree| match tree {
        TokenTree::Ident(word) => {
            next = match (word.to_string().as_str(), next) {
                ("mod", _) => Block::Items,
                ("fn", _) => Block::Statements,
                (_, before) => before,
            };
            TokenTree::Ident(word)
        }
        TokenTree::Punct(mark) => {
            next = if mark.as_char() == ';' { Block::Whole } else { next };
            TokenTree::Punct(mark)
        }
        TokenTree::Group(group) if group.delimiter() == Delimiter::Brace => {
            let (block, inside) = (std::mem::replace(&mut next, Block::Whole), group.stream());
            // The stream is not copied if it is the only one.
            drop(group);
            let inside = match block {
                Block::Items | Block::Whole => cut_inside(inside, depth + 1, chunks),
                Block::Statements => inside,
            };
            let inside = match block {
                Block::Items | Block::Statements => cut_block(inside, depth + 1, chunks),
                Block::Whole => inside,
            };
            TokenTree::Group(Group::new(Delimiter::Brace, inside))
        }
        tree => tree,
    });
    each.collect()
}

/// Cuts one block after each [`STATEMENTS`] semicolons.
fn cut_block(tokens: TokenStream, depth: usize, chunks: &mut Chunks) -> TokenStream {
    let trees: Vec<TokenTree> = tokens.into_iter().collect();
    if trees.len() <= SHORT {
        return trees.into_iter().collect();
    }
    let (mut outline, mut chunk, mut ends) = (TokenStream::new(), Vec::new(), 0);
    for tree in trees {
        let is_end = matches!(&tree, TokenTree::Punct(mark) if mark.as_char() == ';');
        chunk.push(tree);
        ends += usize::from(is_end);
        if is_end && ends % STATEMENTS == 0 {
            let tokens = chunk.drain(..).collect();
            outline.extend(chunks.keep(Chunk { depth, tokens }));
        }
    }
    outline.extend(chunk);
    outline
}

#[cfg(test)]
mod tests {
    use super::{SHORT, STATEMENTS};
    use crate::emit::format::print;
    use quote::{format_ident, quote};

    #[test]
    fn a_long_module_is_printed_like_its_parts() {
        let call = |i: usize| {
            let name = format_ident!("value_{i}");
            quote! {
                comment!("call");
                let #name = kernel(&arena, [1.0; 4], "text");
                if #name > 0 {
                    return #name;
                }
                blank!();
            }
        };
        let module = |count: usize| {
            let calls = (0..count).map(call);
            let items = (0..count).map(|i| {
                let name = format_ident!("A{i}");
                quote!(const #name: fn(usize) = f; note!("[1]");)
            });
            quote! {
                mod m {
                    #(#items)*
                    impl S {
                        fn run(&self) -> usize {
                            #(#calls)*
                            0
                        }
                    }
                }
            }
        };
        let (few, many) = (print(module(2)), print(module(SHORT + STATEMENTS)));
        assert!(!many.contains("chunk"));
        let lines = |text: &str| text.lines().count();
        let each = lines(&print(module(3))) - lines(&few);
        assert_eq!(lines(&many), lines(&few) + (SHORT + STATEMENTS - 2) * each);
        let number = |line: &str| line.replace(|c: char| c.is_ascii_digit(), "");
        let kinds =
            |text: &str| text.lines().map(number).collect::<std::collections::BTreeSet<_>>();
        assert_eq!(kinds(&few), kinds(&many));
    }
}
