//! What the random calls of a module draw from: a field of the model's struct.

use super::face::{Face, number};
use proc_macro2::{Literal, TokenStream};
use quote::quote;

impl Face<'_> {
    /// How many calls draw random numbers, where any does.
    pub fn draws(&self) -> Option<Literal> {
        (self.plan.draws > 0).then(|| number(self.plan.draws))
    }

    /// The field of the struct.
    pub fn draws_field(&self) -> Option<TokenStream> {
        let count = self.draws()?;
        Some(quote!(draws: ::onnxc_runtime::random::Draws<#count>,))
    }

    /// The field of a model before its first run.
    pub fn no_draws(&self) -> Option<TokenStream> {
        self.draws().map(|_| quote!(, draws: ::onnxc_runtime::random::Draws::new(0)))
    }

    /// The method that starts the random numbers anew.
    pub fn set_seed(&self) -> Option<TokenStream> {
        self.draws().map(|_| {
            quote! {
                /// Starts the random numbers anew, from this seed; a new model has the seed 0. The
                /// same seed gives the same numbers in the same order of runs, on every machine.
                /// A node with a seed of its own keeps it, and starts anew from that.
                pub fn set_seed(&mut self, seed: u64) {
                    self.draws = ::onnxc_runtime::random::Draws::new(seed);
                }
                blank!();
            }
        })
    }
}
