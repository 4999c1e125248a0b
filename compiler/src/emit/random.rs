//! The random numbers of a method: a field of the model's struct.

use super::{method::Method, tokens::number};
use proc_macro2::{Literal, TokenStream};
use quote::quote;

impl Method<'_> {
    /// The number of calls that draw random numbers, if any does.
    pub fn draws(&self) -> Option<Literal> {
        (self.plan.draws > 0).then(|| number(self.plan.draws))
    }

    /// The field of the struct, and its initializer.
    pub fn draws_field(&self) -> Option<[TokenStream; 2]> {
        let (count, field) = (self.draws()?, self.field("draws"));
        let draws = self.cx.imports.item("random::Draws");
        Some([quote!(#field: #draws<#count>,), quote!(#field: #draws::new(0),)])
    }
}
