//! Generates the functions that compute the costs of a run from its sizes.

use super::{method::Method, sizes::Sizes, tokens::parse_tokens};
use crate::dim::Symbol;
use proc_macro2::{Ident, Literal, TokenStream};
use quote::{format_ident, quote};
use std::collections::BTreeSet;

impl Method<'_> {
    /// Returns the symbols of `used` as identifiers: those of the inputs in their order, then those
    /// that steps of the run define.
    pub fn symbol_names(&self, used: &BTreeSet<Symbol>) -> Vec<Ident> {
        let start = self.plan.start_symbols();
        let others = used.iter().filter(|symbol| !start.contains(symbol));
        let used = start.iter().copied().filter(|symbol| used.contains(*symbol)).chain(others);
        used.map(|symbol| format_ident!("{symbol}")).collect()
    }

    /// Returns whether the multiply-adds depend on the sizes of a run, as the memory does.
    pub fn has_free_macs(&self) -> bool {
        self.is_dynamic() && !self.plan.free_macs.is_empty()
    }

    /// Returns the method that computes the multiply-adds from the sizes of a run.
    pub fn macs_method(&self) -> Option<TokenStream> {
        if !self.has_free_macs() {
            return None;
        }
        let mut used: BTreeSet<Symbol> = BTreeSet::new();
        self.plan.free_macs.iter().for_each(|macs| macs.symbols(&mut used));
        let symbols = self.symbol_names(&used);
        let sizes = Sizes::first_pass_unchecked();
        self.macs(&sizes);
        let macs = self.macs(&sizes.second_pass());
        Some(quote! {
            /// Returns the number of multiply-adds of a run with these sizes. It saturates.
            pub fn macs(#(#symbols: usize),*) -> u64 {
                #macs
            }
            blank!();
        })
    }

    fn macs(&self, sizes: &Sizes) -> TokenStream {
        sizes.with_lets(|| {
            let free = self.plan.free_macs.iter().map(|macs| {
                let text = sizes.text(macs, &|_| self.fresh_name("macs", "len"));
                if text.contains("broadcast(") {
                    self.cx.imports.item("view::broadcast");
                }
                let macs = parse_tokens(&text);
                // A method call needs no parentheses.
                if text.contains(' ') { quote!((#macs) as u64) } else { quote!(#macs as u64) }
            });
            let known = (self.plan.macs > 0).then(|| Literal::u64_suffixed(self.plan.macs));
            let mut terms = known.map(|known| quote!(#known)).into_iter().chain(free);
            let first = terms.next().expect("the caller has seen multiply-adds");
            match terms.next() {
                None => first,
                Some(second) => terms.fold(
                    quote!((#first).saturating_add(#second)),
                    |sum, term| quote!(#sum.saturating_add(#term)),
                ),
            }
        })
    }
}
