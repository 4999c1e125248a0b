//! Generates the state of a module: its elements stay in the arena, and the struct stores the free
//! sizes.

use super::{
    bind::{Bound, Constant},
    method::Method,
    tokens::{number, size},
};
use crate::{
    dim::Dim,
    plan::{Operand, State},
};
use proc_macro2::{Ident, TokenStream};
use quote::{ToTokens, format_ident, quote};

/// The axes of a state whose sizes are only known at run time.
fn free_axes(state: &State) -> impl Iterator<Item = (usize, &Dim)> {
    let axes = state.found.shape().iter().enumerate();
    axes.filter(|(_, dim)| dim.known().is_none())
}

impl Method<'_> {
    /// Returns whether one run passes state to the next.
    pub fn keeps_state(&self) -> bool {
        !self.plan.states.is_empty() && !self.plan.learns
    }

    /// The number of free sizes of all states.
    fn free_sizes(&self) -> usize {
        self.plan.states.iter().flat_map(free_axes).count()
    }

    /// Names the field of the struct: the free sizes, or whether there is a state.
    pub fn state_field_name(&self) -> Option<Ident> {
        let name = if self.free_sizes() == 0 { "state_initialized" } else { "state_shape" };
        self.keeps_state().then(|| format_ident!("{name}"))
    }

    fn state_type(&self) -> TokenStream {
        match self.free_sizes() {
            0 => quote!(bool),
            count => {
                let (option, count) = (self.cx.imports.prelude("option", "Option"), number(count));
                quote!(#option<[usize; #count]>)
            }
        }
    }

    /// The value of the field while there is no state.
    fn no_state(&self) -> TokenStream {
        if self.free_sizes() == 0 { quote!(false) } else { quote!(None) }
    }

    /// The field of the struct, and its initializer.
    pub fn state_field(&self) -> Option<[TokenStream; 2]> {
        let (name, ty, none) = (self.state_field_name()?, self.state_type(), self.no_state());
        let doc = match self.free_sizes() {
            0 => " Whether the arena holds the state.",
            _ => " The free sizes of the state, or `None` before the first run.",
        };
        Some([quote!(#[doc = #doc] #name: #ty,), quote!(#name: #none,)])
    }

    /// The parameter of the function with the kernel calls.
    pub fn state_parameter(&self) -> Option<TokenStream> {
        let (name, ty) = (self.state_field_name()?, self.state_type());
        Some(quote!(#name: &mut #ty,))
    }

    /// The method of the arena that resets the state.
    pub fn reset(&self) -> Option<TokenStream> {
        let (name, none) = (self.state_field_name()?, self.no_state());
        Some(quote! {
            blank!();
            /// Resets the state: the next run starts from the initial one.
            pub fn reset(&mut self) {
                self.#name = #none;
            }
        })
    }

    /// Binds the free sizes of the state, and initializes it before the first run.
    pub fn find_states(
        &self,
        constant: Constant<'_>,
        slot: Constant<'_>,
        bound: &mut Bound,
    ) -> TokenStream {
        let Some(field) = self.state_field_name() else { return TokenStream::new() };
        let settled = bound.symbols.clone();
        let (mut names, mut initial) = (Vec::new(), Vec::new());
        for state in &self.plan.states {
            let default = self.plan.initial(&state.found);
            for (axis, dim) in free_axes(state) {
                let symbol = dim.as_symbol().expect("a free size of an input is a symbol");
                let is_settled = settled.contains(symbol);
                initial.push(match default {
                    Some(tensor) => number(tensor.shape[axis]).to_token_stream(),
                    None if is_settled => size(dim),
                    None => number(0).to_token_stream(),
                });
                let name = &self.names[state.found.operand.buffer];
                names.push(match bound.symbols.insert(symbol.clone()) {
                    true => format_ident!("{symbol}"),
                    false => self.derive_name(name, &axis.to_string()),
                });
            }
        }
        if !names.is_empty() {
            let sizes = quote!(let [#(#names),*] = #field.unwrap_or([#(#initial),*]););
            bound.checks.extend(sizes);
        }
        bound.checks.extend(self.check_states(&names));
        let start = self.plan.states.iter().map(|state| self.initialize(state, constant, slot));
        // An error in the middle of the run leaves no state.
        let is_first = match names.as_slice() {
            [] => quote!(!::core::mem::take(#field)),
            _ => quote!(#field.take().is_none()),
        };
        quote!(if #is_first { #(#start)* })
    }

    /// Checks the sizes of the states, which have these names.
    fn check_states(&self, names: &[Ident]) -> TokenStream {
        let mut names = names.iter();
        let mut checks = TokenStream::new();
        for State { found, .. } in &self.plan.states {
            for (axis, dim) in found.shape().iter().enumerate() {
                let Some(symbol) = dim.as_symbol() else { continue };
                let name = names.next().expect("`find_states` names every free size");
                checks.extend(if *name == **symbol {
                    self.check_bound(symbol)
                } else {
                    self.check_size(found, axis, &name.to_token_stream())
                });
            }
        }
        checks
    }

    /// Stores the free sizes of the states for the next run.
    pub fn keep_states(&self, size: &dyn Fn(&Dim) -> TokenStream) -> TokenStream {
        let Some(field) = self.state_field_name() else { return TokenStream::new() };
        if self.free_sizes() == 0 {
            return quote!(*#field = true;);
        }
        let sizes =
            self.plan.states.iter().flat_map(|state| {
                free_axes(state).map(|(axis, _)| size(&state.next.shape()[axis]))
            });
        quote!(*#field = Some([#(#sizes),*]);)
    }

    /// Writes the initial value of a state.
    fn initialize(&self, state: &State, constant: Constant<'_>, slot: Constant<'_>) -> TokenStream {
        let found = &state.found;
        let whole = Operand::whole(found.operand.buffer, found.operand.len.clone());
        let (borrow, slot) = (self.cx.imports.item("arena::borrow"), slot(&whole));
        match &found.default {
            Some(default) => {
                let default = constant(default);
                quote!(#borrow(arena, #slot.write()).copy_from_slice(#default);)
            }
            None => {
                let default = self.cx.imports.prelude("default", "Default");
                quote!(#borrow(arena, #slot.write()).fill_with(#default::default);)
            }
        }
    }
}
