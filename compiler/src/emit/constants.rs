//! The constants of a module: slots of the arena and of the weights, and geometries.

use super::{
    chunks::{Block, Sink},
    imports::Imports,
    tokens::{number, parse_tokens},
};
use crate::{
    dtype::DType,
    ident::{self, Names, words},
};
use proc_macro2::{Ident, Literal, TokenStream};
use quote::{format_ident, quote};
use std::{cell::RefCell, collections::HashMap};

/// The number of blocks around constants.
const DEPTH: usize = 1;

/// The constants of a module. Equal ones of the same name are one.
pub struct Constants {
    /// The receiver of the chunks of constants and of functions.
    pub sink: Sink,
    names: Names,
    slots: HashMap<(String, Slot), Ident>,
    dynamic: HashMap<(String, DynamicSlot), Ident>,
    arena: Vec<Item<Slot>>,
    /// The slots that a run places.
    dynamic_arena: Vec<Item<DynamicSlot>>,
    weights: Vec<Item<Slot>>,
    /// The constant for a geometry, by its source.
    geometries: HashMap<String, Ident>,
    /// The other constants in the order of their first use.
    items: Block,
}

/// A constant for a slot, and what the slot holds.
struct Item<S> {
    slot: S,
    ident: Ident,
    note: String,
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

impl Slot {
    fn item(&self, ident: &Ident, imports: &Imports) -> TokenStream {
        let (offset, len) = (number(self.offset), number(self.len));
        let element = imports.element(self.dtype);
        let slot = imports.item("arena::Slot");
        quote!(const #ident: #slot<#element> = #slot::new(#offset, #len);)
    }
}

impl DynamicSlot {
    fn item(&self, ident: &Ident, imports: &Imports) -> TokenStream {
        let (i, [first, last]) = (number(self.number), [self.life.0, self.life.1]);
        let [first, last] = [first, last].map(Literal::u32_unsuffixed);
        let element = imports.element(self.dtype);
        let slot = imports.item("arena::DynamicSlot");
        quote!(const #ident: #slot<#element> = #slot::new(#i, #first, #last);)
    }
}

impl Constants {
    /// Creates a list without constants. `taken` are the names of other constants of the module.
    pub fn new(sink: Sink, taken: impl Iterator<Item = Ident>) -> RefCell<Constants> {
        let mut names = Names::default();
        taken.for_each(|name| drop(names.unique(name.to_string())));
        RefCell::new(Constants {
            names,
            slots: HashMap::new(),
            dynamic: HashMap::new(),
            arena: Vec::new(),
            dynamic_arena: Vec::new(),
            weights: Vec::new(),
            geometries: HashMap::new(),
            items: sink.block(DEPTH),
            sink,
        })
    }

    /// Returns the constant for a slot; `note` says what the slot holds.
    pub fn slot(&mut self, name: &str, slot: Slot, note: String) -> Ident {
        let name = ident::upper(name);
        if let Some(ident) = self.slots.get(&(name.clone(), slot)) {
            return ident.clone();
        }
        let ident = format_ident!("{}", self.names.unique(name.clone()));
        let group = match slot.memory {
            Memory::Arena => &mut self.arena,
            Memory::Weights => &mut self.weights,
        };
        group.push(Item { slot, ident: ident.clone(), note });
        self.slots.insert((name, slot), ident.clone());
        ident
    }

    /// Returns the constant for a buffer that a run places; see [`Constants::slot`].
    pub fn dynamic_slot(&mut self, name: &str, slot: DynamicSlot, note: String) -> Ident {
        let name = ident::upper(name);
        if let Some(ident) = self.dynamic.get(&(name.clone(), slot)) {
            return ident.clone();
        }
        let ident = format_ident!("{}", self.names.unique(name.clone()));
        self.dynamic_arena.push(Item { slot, ident: ident.clone(), note });
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
        let name = ident::upper(&format!("{}_{}", name.trim_end_matches('_'), words(kind)));
        let ident = format_ident!("{}", self.names.unique(name));
        self.items.push(quote!(blank!(); const #ident: #ty = #value;), 0);
        ident
    }

    /// Returns all items: the arena and the weights in the order of their memory, then the rest.
    pub fn items(self, imports: &Imports, arena_bytes: usize, weight_bytes: usize) -> TokenStream {
        let Constants { sink, mut arena, mut weights, dynamic_arena, .. } = self;
        [&mut arena, &mut weights]
            .into_iter()
            .for_each(|group| group.sort_by_key(|item| item.slot.offset));
        let slot = |slot: &Slot, ident: &Ident| slot.item(ident, imports);
        let dynamic_slot = |slot: &DynamicSlot, ident: &Ident| slot.item(ident, imports);
        let arena = group(&format!("Arena ({arena_bytes} bytes)"), &arena, &slot, &sink);
        let dynamic = "Buffers of a run, and the steps that use them";
        let dynamic = group(dynamic, &dynamic_arena, &dynamic_slot, &sink);
        let weights = group(&format!("Weights ({weight_bytes} bytes)"), &weights, &slot, &sink);
        let (items, _) = self.items.finish();
        quote!(#arena #dynamic #weights #items)
    }
}

/// Returns the items of a group, below its title.
fn group<S>(
    title: &str,
    group: &[Item<S>],
    item: &dyn Fn(&S, &Ident) -> TokenStream,
    sink: &Sink,
) -> TokenStream {
    if group.is_empty() {
        return TokenStream::new();
    }
    let mut items = sink.block(DEPTH);
    for Item { slot, ident, note } in group {
        let (item, is_noted) = (item(slot, ident), !note.is_empty());
        let note = is_noted.then(|| quote!(note!(#note);));
        items.push(quote!(#item #note), 0);
    }
    let (items, _) = items.finish();
    quote!(blank!(); comment!(#title); #items)
}
