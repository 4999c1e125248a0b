//! How a module gets its arena: the model's struct has it, or the caller gives it to each run.

use super::{
    ArenaIn,
    method::{Face, number},
};
use proc_macro2::{Literal, TokenStream};
use quote::{ToTokens, quote};

impl Face<'_> {
    fn blocks(&self) -> Literal {
        number(self.plan.arena_bytes.div_ceil(64))
    }

    /// The field of the struct.
    pub fn arena_field(&self) -> Option<TokenStream> {
        let blocks = self.blocks();
        match self.arena {
            ArenaIn::Struct => Some(quote!(arena: ::onnxc_runtime::arena::InlineArena<#blocks>,)),
            ArenaIn::Heap => Some(quote!(arena: ::onnxc_runtime::arena::HeapArena<#blocks>,)),
            ArenaIn::Caller => None,
        }
    }

    /// The field of a new model.
    pub fn new_arena(&self) -> Option<TokenStream> {
        match self.arena {
            ArenaIn::Struct => Some(quote!(, arena: ::onnxc_runtime::arena::InlineArena::new())),
            ArenaIn::Heap => Some(quote!(, arena: ::onnxc_runtime::arena::HeapArena::new())),
            ArenaIn::Caller => None,
        }
    }

    /// How the method that runs the model comes by the arena.
    pub fn run(&self) -> Run {
        if self.arena != ArenaIn::Caller {
            let (method, blocks) = (self.method.to_token_stream(), quote!(self.arena.blocks()));
            return Run { method, argument: None, blocks, life: quote!('_) };
        }
        let life = self.borrows().then(|| quote!('a));
        let given = life.as_ref().map(|life| quote!(#life,));
        let blocks = self.blocks();
        Run {
            method: quote!(infer_in<#given const BLOCKS: usize>),
            argument: Some(quote!(arena: &#life mut ::onnxc_runtime::arena::InlineArena<BLOCKS>,)),
            blocks: quote!(arena.first::<#blocks>()),
            life: quote!('a),
        }
    }
}

/// How a method that runs the model comes by the arena.
pub struct Run {
    /// The method's name and generics.
    pub method: TokenStream,
    /// Its argument behind `self`.
    pub argument: Option<TokenStream>,
    /// The memory.
    pub blocks: TokenStream,
    /// The lifetime of what it gives.
    pub life: TokenStream,
}
