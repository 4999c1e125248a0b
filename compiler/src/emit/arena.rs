//! The memory of a method: its type, and a field of that type.

use super::{ArenaIn, method::Method, tokens::number};
use proc_macro2::{Literal, TokenStream};
use quote::{format_ident, quote};

impl Method<'_> {
    pub fn blocks(&self) -> Literal {
        number(self.plan.arena_bytes.div_ceil(64))
    }

    /// The type of the memory that a model has.
    fn memory_type(&self) -> Option<TokenStream> {
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

    /// The memory of a run as a field, and its initializer.
    pub fn arena_field(&self, name: &str) -> Option<[TokenStream; 2]> {
        let (ty, blocks, name) = (self.memory_type()?, self.blocks(), format_ident!("{name}"));
        Some([quote!(#name: #ty<#blocks>,), quote!(#name: #ty::new(),)])
    }
}
