//! The constants of a module: slots of the arena and of the weights, and geometries.

use super::tokens::{number, parse_tokens};
use crate::{
    dtype::DType,
    ident::{Names, words},
};
use proc_macro2::{Ident, Literal, TokenStream};
use quote::{format_ident, quote};
use std::collections::HashMap;

/// The constants of a module. Equal ones of the same name are one.
#[derive(Default)]
pub struct Constants {
    names: Names,
    slots: HashMap<(String, Slot), Ident>,
    dynamic: HashMap<(String, DynamicSlot), Ident>,
    arena: Vec<(usize, TokenStream)>,
    /// The slots that a run places.
    dynamic_arena: Vec<TokenStream>,
    weights: Vec<(usize, TokenStream)>,
    /// The constant for a geometry, by its source.
    geometries: HashMap<String, Ident>,
    /// The other constants in the order of their first use.
    items: Vec<TokenStream>,
}

/// Where a buffer is.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Slot {
    /// The memory.
    pub memory: Memory,
    /// The first byte.
    pub offset: usize,
    /// The number of elements.
    pub len: usize,
    /// The element type.
    pub dtype: DType,
}

/// A buffer that a run places in the arena.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct DynamicSlot {
    /// Its number among the buffers of a run.
    pub number: usize,
    /// The first and the last step that use it.
    pub life: (u32, u32),
    /// The element type.
    pub dtype: DType,
}

/// The memory of a slot.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub enum Memory {
    /// The arena.
    Arena,
    /// The weights.
    Weights,
}

impl Constants {
    /// Returns the constant for a slot, in which `element` names the type and `note` says what the
    /// slot holds.
    pub fn slot(&mut self, name: &str, slot: Slot, element: &TokenStream, note: &str) -> Ident {
        let name = name.to_uppercase();
        if let Some(ident) = self.slots.get(&(name.clone(), slot)) {
            return ident.clone();
        }
        let ident = format_ident!("{}", self.names.unique(name.clone()));
        let (offset, len) = (number(slot.offset), number(slot.len));
        let note = (!note.is_empty()).then(|| quote!(note!(#note);));
        let item = quote!(const #ident: Slot<#element> = Slot::new(#offset, #len); #note);
        let group = match slot.memory {
            Memory::Arena => &mut self.arena,
            Memory::Weights => &mut self.weights,
        };
        group.push((slot.offset, item));
        self.slots.insert((name, slot), ident.clone());
        ident
    }

    /// Returns the constant for a buffer that a run places; see [`Constants::slot`].
    pub fn dynamic_slot(
        &mut self,
        name: &str,
        slot: DynamicSlot,
        element: &TokenStream,
        note: &str,
    ) -> Ident {
        let name = name.to_uppercase();
        if let Some(ident) = self.dynamic.get(&(name.clone(), slot)) {
            return ident.clone();
        }
        let ident = format_ident!("{}", self.names.unique(name.clone()));
        let (i, first, last) = (number(slot.number), slot.life.0, slot.life.1);
        let [first, last] = [first, last].map(Literal::u32_unsuffixed);
        let note = (!note.is_empty()).then(|| quote!(note!(#note);));
        self.dynamic_arena.push(quote! {
            const #ident: DynamicSlot<#element> = DynamicSlot::new(#i, #first, #last); #note
        });
        self.dynamic.insert((name, slot), ident.clone());
        ident
    }

    /// Returns the constant for a geometry with this source, of the type `ty`.
    pub fn geometry(&mut self, name: &str, ty: &str, source: &str, value: TokenStream) -> Ident {
        if let Some(ident) = self.geometries.get(source) {
            return ident.clone();
        }
        let ident = self.item(name, ty, &parse_tokens(ty), value);
        self.geometries.insert(source.to_owned(), ident.clone());
        ident
    }

    /// Returns a constant of the type `ty`, which is named after a value and `kind`.
    pub fn item(&mut self, name: &str, kind: &str, ty: &TokenStream, value: TokenStream) -> Ident {
        let name = format!("{}_{}", name.trim_end_matches('_'), words(kind)).to_uppercase();
        let ident = format_ident!("{}", self.names.unique(name));
        self.items.push(quote!(blank!(); const #ident: #ty = #value;));
        ident
    }

    /// Returns all items: the arena and the weights in the order of their memory, then the rest.
    pub fn items(mut self, arena_bytes: usize, weight_bytes: usize) -> TokenStream {
        let group = |title: &str, bytes: usize, slots: &mut Vec<(usize, TokenStream)>| {
            slots.sort_by_key(|(offset, _)| *offset);
            let items = slots.iter().map(|(_, item)| item);
            let title = format!("{title} ({bytes} bytes)");
            (!slots.is_empty()).then(|| quote!(blank!(); comment!(#title); #(#items)*))
        };
        let arena = group("Arena", arena_bytes, &mut self.arena);
        let dynamic = &self.dynamic_arena;
        let dynamic = (!dynamic.is_empty()).then(|| {
            quote! {
                blank!();
                comment!("Buffers of a run, and the steps that use them");
                #(#dynamic)*
            }
        });
        let weights = group("Weights", weight_bytes, &mut self.weights);
        let items = &self.items;
        quote!(#arena #dynamic #weights #(#items)*)
    }
}
