//! State in a module: the sizes of what one run hands to the next stand in the model's struct, the
//! elements in the arena.

use super::{
    bind::{Bound, Constant},
    method::{Face, number, size},
};
use crate::{
    dim::Dim,
    plan::{Operand, State},
};
use proc_macro2::{Ident, TokenStream};
use quote::{ToTokens, format_ident, quote};

/// The axes of a state whose sizes are known only when the model runs.
fn free_axes(state: &State) -> impl Iterator<Item = (usize, &Dim)> {
    let axes = state.found.shape().iter().enumerate();
    axes.filter(|(_, dim)| dim.known().is_none())
}

impl Face<'_> {
    /// Whether one run hands something to the next.
    pub fn keeps_state(&self) -> bool {
        !self.plan.states.is_empty() && !self.plan.learns
    }

    /// The type of what the struct says of the state: its sizes, once there is one.
    fn state_type(&self) -> TokenStream {
        let count = number(self.plan.states.iter().flat_map(free_axes).count());
        quote!(::core::option::Option<[usize; #count]>)
    }

    /// The field of the struct.
    pub fn state_field(&self) -> Option<TokenStream> {
        let ty = self.state_type();
        self.keeps_state().then(|| {
            quote! {
                /// The sizes of the state, once there is one.
                held: #ty,
            }
        })
    }

    /// The field of a model before its first run.
    pub fn no_state(&self) -> Option<TokenStream> {
        self.keeps_state().then(|| quote!(, held: ::core::option::Option::None))
    }

    /// The argument of the function that does the steps.
    pub fn state_argument(&self) -> Option<TokenStream> {
        let ty = self.state_type();
        self.keeps_state().then(|| quote!(held: &mut #ty,))
    }

    /// The method that forgets the state.
    pub fn reset(&self) -> Option<TokenStream> {
        self.keeps_state().then(|| {
            quote! {
                /// Forgets what earlier runs left: the next one is again the first.
                pub fn reset(&mut self) {
                    self.held = ::core::option::Option::None;
                }
                blank!();
            }
        })
    }

    /// Names the sizes of the state, and puts there what the first run finds.
    pub(super) fn find_states(
        &self,
        constant: Constant<'_>,
        slot: Constant<'_>,
        bound: &mut Bound,
    ) -> TokenStream {
        if !self.keeps_state() {
            return TokenStream::new();
        }
        let settled = bound.symbols.clone();
        let (mut names, mut first) = (Vec::new(), Vec::new());
        for state in &self.plan.states {
            let default = self.plan.initial(&state.found);
            for (axis, dim) in free_axes(state) {
                let symbol = dim.as_symbol().expect("the size of an input is a symbol");
                let is_settled = settled.contains(symbol);
                first.push(match default {
                    Some(tensor) => number(tensor.shape[axis]).to_token_stream(),
                    None if is_settled => size(dim),
                    None => number(0).to_token_stream(),
                });
                let name = &self.names[state.found.operand.buffer];
                names.push(match bound.symbols.insert(symbol.clone()) {
                    true => format_ident!("{symbol}"),
                    false => self.derived(name, &axis.to_string()),
                });
            }
        }
        if !names.is_empty() {
            let sizes = quote!(let [#(#names),*] = held.unwrap_or([#(#first),*]););
            bound.checks.extend(sizes);
        }
        bound.checks.extend(self.check_states(&names));
        let start = self.plan.states.iter().map(|state| start(state, constant, slot));
        quote!(if held.take().is_none() { #(#start)* })
    }

    /// Holds the sizes of the states, which have these names, against the model.
    fn check_states(&self, names: &[Ident]) -> TokenStream {
        let mut names = names.iter();
        let mut checks = TokenStream::new();
        for State { found, .. } in &self.plan.states {
            for (axis, dim) in found.shape().iter().enumerate() {
                let Some(symbol) = dim.as_symbol() else { continue };
                let name = names.next().expect("every free size has a name");
                checks.extend(if *name == **symbol {
                    self.check_bound(symbol)
                } else {
                    self.check_size(found, axis, &name.to_token_stream())
                });
            }
        }
        checks
    }

    /// Says how large the states are that the next run finds.
    pub fn keep_states(&self) -> TokenStream {
        if !self.keeps_state() {
            return TokenStream::new();
        }
        let sizes =
            self.plan.states.iter().flat_map(|state| {
                free_axes(state).map(|(axis, _)| size(&state.next.shape()[axis]))
            });
        quote!(*held = Some([#(#sizes),*]);)
    }
}

/// Puts a state there as the first run finds it.
fn start(state: &State, constant: Constant<'_>, slot: Constant<'_>) -> TokenStream {
    let found = &state.found;
    let whole = Operand::whole(found.operand.buffer, found.operand.len.clone());
    let slot = slot(&whole);
    match &found.default {
        Some(default) => {
            let default = constant(default);
            quote!(borrow(arena, #slot.write()).copy_from_slice(#default);)
        }
        None => quote!(borrow(arena, #slot.write()).fill_with(Default::default);),
    }
}
