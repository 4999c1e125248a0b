//! What the random calls of a module draw from: a field of the model's struct.

use super::method::{Face, number};
use proc_macro2::{Literal, TokenStream};
use quote::quote;

impl Face<'_> {
    /// How many calls of the plan draw random numbers, where any does.
    pub fn draws(&self) -> Option<Literal> {
        (self.plan.draws > 0).then(|| number(self.plan.draws))
    }

    /// The field of the struct.
    pub fn draws_field(&self) -> Option<TokenStream> {
        let (count, field) = (self.draws()?, self.field("draws"));
        Some(quote!(#field: ::onnxc_runtime::random::Draws<#count>,))
    }

    /// The field of a model before its first run.
    pub fn no_draws(&self) -> Option<TokenStream> {
        let field = self.field("draws");
        self.draws().map(|_| quote!(, #field: ::onnxc_runtime::random::Draws::new(0)))
    }
}
