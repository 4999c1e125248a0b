//! Prints the long blocks of a module in chunks while they are generated: then the tokens of one
//! chunk are in memory, not those of the module.

use super::marks::is_mark;
use proc_macro2::{Ident, Literal, TokenStream, TokenTree};
use quote::quote;
use std::{cell::RefCell, rc::Rc};

/// The weight of a chunk. A statement or item of a block weighs 1 and what it contains. The memory
/// of a small chunk is used again for the next one: an allocator keeps few and small free pieces at
/// hand, and collects the others from all over the memory.
const WEIGHT: usize = 16;

/// The receiver of the chunks of long blocks.
#[derive(Clone)]
pub enum Sink {
    /// Prints them; `chunk!(N);` takes the place of those of a block, which are text `N`.
    Print(Rc<RefCell<Vec<String>>>),
    /// Leaves their tokens where they are.
    Keep,
    /// Drops their tokens, which are generated to see what they use.
    Drop,
}

impl Sink {
    /// Returns a block that is `depth` blocks deep.
    pub fn block(&self, depth: usize) -> Block {
        let (done, chunk) = Default::default();
        Block { sink: self.clone(), depth, done, text: None, chunk, weight: 0 }
    }

    /// Returns the texts of the chunks.
    pub fn into_texts(self) -> Vec<String> {
        match self {
            Sink::Print(texts) => texts.take(),
            Sink::Keep | Sink::Drop => Vec::new(),
        }
    }
}

/// Statements or items that are being generated.
pub struct Block {
    sink: Sink,
    /// The number of blocks around them.
    depth: usize,
    /// The tokens in place of the chunks so far.
    done: TokenStream,
    /// The text of the chunks so far. It is one for all: texts that stay in memory between the
    /// tokens of chunks would leave small free pieces all over it.
    text: Option<usize>,
    chunk: TokenStream,
    weight: usize,
}

impl Block {
    /// Adds statements or items that contain blocks of a weight.
    pub fn push(&mut self, tokens: TokenStream, inside: usize) {
        self.chunk.extend(tokens);
        self.weight += 1 + inside;
        if self.weight >= WEIGHT {
            self.put();
            self.weight = 0;
        }
    }

    /// Gives the chunk to the receiver.
    fn put(&mut self) {
        let chunk = std::mem::take(&mut self.chunk);
        match &self.sink {
            Sink::Print(texts) => {
                let printed = print(self.depth, chunk);
                let mut texts = texts.borrow_mut();
                let number = *self.text.get_or_insert_with(|| {
                    let literal = Literal::usize_unsuffixed(texts.len());
                    self.done.extend(quote!(chunk!(#literal);));
                    texts.push(String::new());
                    texts.len() - 1
                });
                texts[number].push_str(&printed);
            }
            Sink::Keep => self.done.extend(chunk),
            Sink::Drop => {}
        }
    }

    /// Returns the tokens of the block, and their weight.
    pub fn finish(mut self) -> (TokenStream, usize) {
        self.done.extend(self.chunk);
        (self.done, usize::from(self.text.is_some()) + self.weight)
    }
}

/// Prints statements or items that are `depth` blocks deep.
fn print(depth: usize, chunk: TokenStream) -> String {
    let mut function: syn::ItemFn = syn::parse_quote!(
        fn chunk() {}
    );
    function.block.stmts = statements(chunk);
    let item = (1..depth).fold(syn::Item::Fn(function), |inside, _| {
        let mut module: syn::ItemMod = syn::parse_quote!(
            mod around {}
        );
        module.content = Some((syn::token::Brace::default(), vec![inside]));
        module.into()
    });
    let file = syn::File { shebang: None, attrs: Vec::new(), items: vec![item] };
    inside(&prettyplease::unparse(&file), depth).to_owned()
}

/// Returns the lines inside the `depth` blocks that a text consists of.
fn inside(text: &str, depth: usize) -> &str {
    let start = text.match_indices('\n').nth(depth - 1).map_or(text.len(), |(at, _)| at + 1);
    let end = text.trim_end().rmatch_indices('\n').nth(depth - 1).map_or(start, |(at, _)| at + 1);
    &text[start..end.max(start)]
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
    if statements.is_empty() {
        return Vec::new();
    }
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

#[cfg(test)]
mod tests {
    use super::{Sink, WEIGHT};
    use crate::emit::format::print;
    use proc_macro2::TokenStream;
    use quote::{format_ident, quote};

    /// A module with this many items, calls and calls inside branches.
    fn module(count: usize, sink: &Sink) -> TokenStream {
        let mut items = sink.block(1);
        for i in 0..count {
            let name = format_ident!("A{i}");
            items.push(quote!(const #name: fn(usize) = f; note!("[1]");), 0);
        }
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
        let (mut calls, mut nested) = (sink.block(3), sink.block(4));
        (0..count).for_each(|i| nested.push(call(i), 0));
        let (nested, weight) = nested.finish();
        calls.push(quote!(let found = if *flag { #nested 0 } else { 1 };), weight);
        (0..count).for_each(|i| calls.push(call(i), 0));
        let [items, calls] = [items, calls].map(|block| block.finish().0);
        quote! {
            mod m {
                #items
                impl S {
                    fn run(&self) -> usize {
                        #calls
                        0
                    }
                }
            }
        }
    }

    #[test]
    fn chunks_are_printed_like_the_whole_module() {
        for count in [1, WEIGHT - 1, WEIGHT, 3 * WEIGHT + 1] {
            let sink = Sink::Print(Default::default());
            let outline = module(count, &sink);
            let texts = sink.into_texts();
            assert_eq!(texts.is_empty(), count + 1 < WEIGHT, "{count}");
            let whole = print(module(count, &Sink::Keep), Vec::new());
            assert_eq!(print(outline, texts), whole, "{count}");
        }
    }

    #[test]
    fn the_tokens_of_a_tree_of_blocks_are_bounded() {
        fn tree(height: usize, depth: usize, sink: &Sink) -> (TokenStream, usize) {
            let mut block = sink.block(depth);
            if height == 0 {
                block.push(quote!(call();), 0);
                return block.finish();
            }
            let branches = [0, 1].map(|_| tree(height - 1, depth + 1, sink));
            let weight = branches.iter().map(|(_, weight)| weight).sum();
            let [then, otherwise] = branches.map(|(tokens, _)| tokens);
            block.push(quote!(if flag { #then } else { #otherwise }), weight);
            block.finish()
        }
        let sink = Sink::Print(Default::default());
        let (outline, weight) = tree(12, 1, &sink);
        assert_eq!((outline.to_string().as_str(), weight), ("chunk ! (272) ;", 1));
        let texts = sink.into_texts();
        let longest = texts.iter().map(|text| text.lines().count()).max();
        assert!(longest.is_some_and(|lines| lines < 4 * WEIGHT), "{longest:?}");
        let [chunks, whole] =
            [outline, tree(12, 1, &Sink::Keep).0].map(|body| quote!(fn f() { #body }));
        assert_eq!(print(chunks, texts), print(whole, Vec::new()));
    }
}
