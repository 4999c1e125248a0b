//! Generates the function that lists the buffers of a run: a run lays them out in the arena.

use super::{
    constants::DynamicSlot,
    method::Method,
    sizes::Sizes,
    steps::{Body, factors, shape_note},
    tokens::{number, parse_tokens},
};
use crate::{
    dim::{Dim, Symbol},
    plan::{BufferId, DynamicBuffer, Place},
};
use proc_macro2::{Ident, TokenStream};
use quote::quote;
use std::collections::{BTreeSet, HashMap};

impl Method<'_> {
    /// Names the function that lists the buffers.
    fn buffers_name(&self) -> Ident {
        self.field("buffers")
    }

    /// The symbols on which the sizes of the buffers depend.
    fn layout_symbols(&self) -> Vec<Ident> {
        let plan = self.plan;
        let mut used: BTreeSet<Symbol> = BTreeSet::new();
        for DynamicBuffer { buffer, .. } in &plan.dynamic {
            if let Place::Arena { capacity, .. } = &plan.buffers[*buffer].place {
                plan.symbols_of(capacity, &mut used);
            }
        }
        self.symbol_names(&used)
    }

    /// Returns the method that computes the size of the arena, if sizes of a run determine it.
    pub fn arena_bytes_method(&self) -> Option<TokenStream> {
        if !self.is_dynamic() {
            return None;
        }
        let (symbols, buffers) = (self.layout_symbols(), self.buffers_name());
        let (arena, name) = (self.arena_parameter(), self.field("arena_bytes"));
        let parameters = symbols.iter().map(|symbol| quote!(#symbol: usize));
        let arena = parse_tokens(&arena.to_string().replacen('<', "::<", 1));
        Some(quote! {
            /// Returns the size of the arena in bytes for a run with these sizes, or `usize::MAX`
            /// if no memory can hold it.
            pub fn #name(#(#parameters),*) -> usize {
                #arena::bytes_of(&#buffers([#(#symbols),*]))
            }
            blank!();
        })
    }
}

impl Body<'_> {
    /// The statement that lays out the arena for the sizes of the run.
    pub(super) fn lay_out(&self) -> TokenStream {
        if !self.method.is_dynamic() {
            return TokenStream::new();
        }
        let (symbols, buffers) = (self.method.layout_symbols(), self.method.buffers_name());
        quote!(let (arena, layout) = arena.lay_out([#(#symbols),*], #buffers)?;)
    }

    /// The buffers that the function uses among those that a run places.
    fn placed(&self) -> impl Iterator<Item = &DynamicBuffer> {
        self.plan.dynamic.iter().filter(|placed| !self.empty.contains(&placed.buffer))
    }

    /// The number of each buffer that a run places.
    pub(super) fn number_placed(&self) -> HashMap<BufferId, usize> {
        self.placed().enumerate().map(|(number, placed)| (placed.buffer, number)).collect()
    }

    /// The constant for a buffer that a run places.
    pub(super) fn dynamic_slot(&self, id: BufferId) -> Ident {
        let (buffer, imports) = (&self.plan.buffers[id], &self.method.cx.imports);
        let placed = self.plan.dynamic_buffer(id).expect("the caller knows that a run places it");
        let (number, life) = (self.numbers[&id], (placed.first, placed.last));
        let dtype = buffer.dtype;
        let slot = DynamicSlot { number, life, dtype };
        let note = buffer.shape.as_deref().map_or(String::new(), shape_note);
        imports.item("arena::DynamicSlot");
        // The constant, which is written later, names the type.
        imports.element(dtype);
        self.constants.borrow_mut().dynamic_slot(&self.method.names[id], slot, note)
    }

    /// The function that lists the buffers of a run with given sizes.
    pub(super) fn buffers_function(&self) -> TokenStream {
        if !self.method.is_dynamic() {
            return TokenStream::new();
        }
        let first = Sizes::first_pass_unchecked();
        self.buffers(&first);
        let buffers = self.buffers(&first.second_pass());
        let (symbols, name) = (self.method.layout_symbols(), self.method.buffers_name());
        let buffer = self.method.cx.imports.item("arena::Buffer");
        let [sizes, count] = [symbols.len(), self.placed().count()].map(number);
        quote! {
            blank!();
            /// Returns the buffers of a run with these sizes.
            fn #name([#(#symbols),*]: [usize; #sizes]) -> [#buffer; #count] {
                #buffers
            }
        }
    }

    fn buffers(&self, sizes: &Sizes) -> TokenStream {
        sizes.with_lets(|| {
            let mut computed = TokenStream::new();
            let each = self.placed().map(|of| self.buffer(of.buffer, sizes, &mut computed));
            let each: Vec<TokenStream> = each.collect();
            quote!(#computed [#(#each),*])
        })
    }

    /// One buffer of a run. The variables of computed sizes are added to `computed`.
    fn buffer(&self, id: BufferId, sizes: &Sizes, computed: &mut TokenStream) -> TokenStream {
        let (slot, name) = (&self.slots[&id], &self.method.names[id]);
        let text = |dim: &Dim| {
            let text = sizes.text(dim, &|value| self.size_variable(value, name));
            self.import_of(&text);
            text
        };
        let Place::Arena { capacity, .. } = &self.plan.buffers[id].place else {
            unreachable!("a run places buffers in the arena")
        };
        if let Some(size) = self.computed_size(capacity, &text) {
            let len = self.method.derive_name(name, "len");
            let size = self.bounded(capacity, size);
            computed.extend(quote!(let #len = #size;));
            return quote!(#slot.sized(&[#len]));
        }
        let factors = factors(capacity).into_iter().map(|factor| parse_tokens(&text(&factor)));
        quote!(#slot.sized(&[#(#factors),*]))
    }

    /// The call `size` of a function that computes the size `dim`, which is not called if its free
    /// sizes are those of no tensor that memory can hold.
    fn bounded(&self, dim: &Dim, size: TokenStream) -> TokenStream {
        let mut used: BTreeSet<Symbol> = BTreeSet::new();
        if let Some(computed) = dim.as_symbol().and_then(|symbol| self.plan.computed.get(symbol)) {
            computed.visit(&mut |dim| dim.symbols(&mut used));
        }
        if used.is_empty() {
            return size;
        }
        let (bounded, symbols) =
            (self.method.cx.imports.item("arena::bounded"), self.method.symbol_names(&used));
        quote!(#bounded(&[#(#symbols),*], || #size))
    }

    /// The call of the function of the runtime library that computes a size, if there is one.
    pub(super) fn computed_size(
        &self,
        dim: &Dim,
        text: &dyn Fn(&Dim) -> String,
    ) -> Option<TokenStream> {
        let computed = self.plan.computed.get(dim.as_symbol()?)?;
        let function = self.method.cx.imports.function(computed.path());
        let arguments = computed.arguments(text);
        let arguments = arguments.iter().map(|argument| parse_tokens(argument));
        Some(quote!(#function(#(#arguments),*)))
    }
}
