//! The arena of a method: a field of the model's struct, or an argument of each run.

use super::{ArenaIn, method::Method, tokens::number};
use proc_macro2::{Ident, Literal, TokenStream};
use quote::{ToTokens, format_ident, quote};

impl Method<'_> {
    pub fn blocks(&self) -> Literal {
        number(self.plan.arena_bytes.div_ceil(64))
    }

    /// The type of an arena that the struct has.
    fn arena_type(&self) -> Option<TokenStream> {
        match self.cx.arena {
            ArenaIn::Struct => Some(self.cx.imports.item("arena::InlineArena")),
            ArenaIn::Heap if self.cx.has_dynamic_arena => {
                Some(self.cx.imports.item("arena::DynamicArena"))
            }
            ArenaIn::Heap => Some(self.cx.imports.item("arena::HeapArena")),
            ArenaIn::Caller => None,
        }
    }

    /// Returns whether the sizes of a run determine where its buffers are.
    pub fn is_dynamic(&self) -> bool {
        !self.plan.dynamic.is_empty()
    }

    /// The type of the arena as the function with the kernel calls gets it.
    pub fn arena_parameter(&self) -> TokenStream {
        if self.is_dynamic() {
            let (ty, blocks) = (self.cx.imports.item("arena::DynamicArena"), self.blocks());
            return quote!(#ty<#blocks>);
        }
        let block = self.cx.imports.item("arena::Block");
        quote!([#block])
    }

    /// The field of the struct.
    pub fn arena_field(&self) -> Option<TokenStream> {
        let (ty, blocks) = (self.arena_type()?, self.blocks());
        Some(quote!(arena: #ty<#blocks>,))
    }

    /// The initializer of the field.
    pub fn new_arena(&self) -> Option<TokenStream> {
        let ty = self.arena_type()?;
        Some(quote!(, arena: #ty::new()))
    }

    /// How the method gets the arena.
    pub fn run(&self) -> Run {
        if self.cx.arena != ArenaIn::Caller {
            return Run {
                name: self.name.clone(),
                method: self.name.to_token_stream(),
                argument: None,
                blocks: if self.is_dynamic() {
                    quote!(&mut self.arena)
                } else {
                    quote!(self.arena.blocks())
                },
                life: quote!('_),
            };
        }
        let life = self.borrows().then(|| quote!('a));
        let parameter = life.as_ref().map(|life| quote!(#life,));
        let (arena, blocks) = (self.cx.imports.item("arena::InlineArena"), self.blocks());
        Run {
            name: format_ident!("infer_in"),
            method: quote!(infer_in<#parameter const BLOCKS: usize>),
            argument: Some(quote!(arena: &#life mut #arena<BLOCKS>,)),
            blocks: quote!(arena.first::<#blocks>()),
            life: quote!('a),
        }
    }
}

/// How a method gets the arena.
pub struct Run {
    /// The method's name.
    pub name: Ident,
    /// The method's name and generics.
    pub method: TokenStream,
    /// Its argument after `self`.
    pub argument: Option<TokenStream>,
    /// The blocks of the arena.
    pub blocks: TokenStream,
    /// The lifetime of borrowed outputs.
    pub life: TokenStream,
}
