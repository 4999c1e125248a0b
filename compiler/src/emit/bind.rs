//! The first lines of a module's function: what the inputs settle.

use super::{
    docs,
    method::{Face, Given, number, size},
    port::Form,
};
use crate::{
    dim::{Dim, Symbol},
    plan::{Operand, Port},
};
use proc_macro2::{Ident, TokenStream};
use quote::{format_ident, quote};
use std::collections::BTreeSet;

/// What was bound so far.
#[derive(Default)]
pub(super) struct Bound {
    pub symbols: BTreeSet<Symbol>,
    pub binds: TokenStream,
    pub checks: TokenStream,
}

/// How a constant is read.
pub(super) type Constant<'a> = &'a dyn Fn(&Operand) -> TokenStream;

impl Face<'_> {
    /// Settles the symbols of the inputs, holds their sizes against the model, and names their
    /// elements. Whether what was kept from the run before is there is seen last.
    pub fn bind_inputs(&self, constant: Constant<'_>, slot: Constant<'_>) -> TokenStream {
        let mut bound = Bound::default();
        let ports = || self.inputs.iter().zip(&self.plan.inputs);
        let is_optional = |given: &Given| matches!(given.form, Form::Optional(_));
        // An absent value settles nothing that another one can settle.
        for (given, port) in ports().filter(|(given, _)| !is_optional(given)) {
            self.bind(&given.form, given, port, &mut bound);
        }
        for (given, port) in ports().filter(|(given, _)| is_optional(given)) {
            match &port.default {
                Some(default) => self.bind_default(given, port, &constant(default), &mut bound),
                None => self.bind_optional(given, port, &mut bound),
            }
        }
        let found = self.find_states(constant, slot, &mut bound);
        let Bound { binds, checks, .. } = bound;
        quote!(#binds #checks #found)
    }

    /// Puts its default in place of what the caller left out.
    fn bind_default(&self, given: &Given, port: &Port, default: &TokenStream, bound: &mut Bound) {
        let (name, form) = (&given.name, given.form.content());
        let chosen = match form {
            Form::Scalar => quote!(#name.as_ref().map_or(#default, ::core::slice::from_ref)),
            Form::View(_) => {
                let shape = self.plan.initial(port).map(|tensor| tensor.shape.as_slice());
                let shape = shape.unwrap_or_default().iter().map(|&size| number(size));
                quote!(#name.unwrap_or(View::new([#(#shape),*], #default)?))
            }
            _ => quote!(#name.map_or(#default, |#name| &#name[..])),
        };
        bound.binds.extend(quote!(let #name = #chosen;));
        self.bind(form, given, port, bound);
    }

    fn bind(&self, form: &Form, given: &Given, port: &Port, bound: &mut Bound) {
        let name = &given.name;
        match form {
            Form::View(_) => {
                self.settle(port, bound, &|axis| quote!(#name.shape()[#axis]), &|check| check);
                bound.checks.extend(quote!(let #name = #name.data();));
            }
            Form::Map(_) => {
                self.settle(port, bound, &|_| quote!(#name.len()), &|check| check);
                let keys = self.beside(port);
                bound.checks.extend(quote!(let (#keys, #name) = (#name.keys(), #name.values());));
            }
            _ => {}
        }
    }

    fn bind_optional(&self, given: &Given, port: &Port, bound: &mut Bound) {
        let (name, element) = (&given.name, &given.element);
        let (is_there, absent) = (self.beside(port), self.derived(&name.to_string(), "absent"));
        bound.binds.extend(quote!(let #is_there = &[#name.is_some()];));
        // An absent value is as many zeros as the model would have of it.
        let zeros = |len: TokenStream| quote!(let #absent = ::onnxc_runtime::arena::heap::<#element>(if #is_there[0] { 0 } else { #len }););
        let bind = match given.form.content() {
            Form::Scalar => quote!(let #name = &[#name.unwrap_or_default()];),
            Form::Array(len) => {
                let zeros = zeros(quote::ToTokens::into_token_stream(number(*len)));
                quote!(#zeros let #name = #name.map_or(&#absent[..], |#name| &#name[..]);)
            }
            Form::Sequence => quote! {
                let #absent = ::onnxc_runtime::sequence::Sequence::new();
                let #name = #name.unwrap_or(&#absent);
            },
            _ => {
                let of = |axis| quote!(#name.map_or(0, |#name| #name.shape()[#axis]));
                let when_there = |check| quote!(if #is_there[0] { #check });
                self.settle(port, bound, &of, &when_there);
                let zeros = zeros(size(&port.shape().iter().product::<Dim>()));
                quote!(#zeros let #name = #name.map_or(&#absent[..], |#name| #name.data());)
            }
        };
        bound.checks.extend(bind);
    }

    /// Binds the symbols among the sizes of an input, and checks the others.
    fn settle(
        &self,
        port: &Port,
        bound: &mut Bound,
        of: &dyn Fn(proc_macro2::Literal) -> TokenStream,
        guarded: &dyn Fn(TokenStream) -> TokenStream,
    ) {
        for (axis, dim) in port.shape().iter().enumerate() {
            let found = of(number(axis));
            match dim.as_symbol() {
                Some(symbol) if bound.symbols.insert(symbol.clone()) => {
                    let ident = format_ident!("{symbol}");
                    bound.binds.extend(quote!(let #ident = #found;));
                    bound.checks.extend(self.check_bound(symbol));
                }
                _ => bound.checks.extend(guarded(self.check_size(port, axis, &found))),
            }
        }
    }

    /// Holds the size of an axis against the model.
    pub(super) fn check_size(&self, port: &Port, axis: usize, found: &TokenStream) -> TokenStream {
        let dim = &port.shape()[axis];
        let (label, wanted) = (docs::line(&port.name), format!("{dim:?}"));
        let (axis, expected) = (number(axis), size(dim));
        quote!(::onnxc_runtime::view::check_size(#label, #axis, #wanted, #expected, #found)?;)
    }

    /// The name of what stands beside the elements of an input.
    fn beside(&self, port: &Port) -> Ident {
        let beside = port.beside.as_ref().expect("such a port has something beside its elements");
        format_ident!("{}", self.names[beside.buffer])
    }

    pub(super) fn check_bound(&self, symbol: &Symbol) -> TokenStream {
        let Some(size) = self.plan.symbols.get(symbol) else { return TokenStream::new() };
        let Some(bound) = size.max.and_then(|max| usize::try_from(max).ok()) else {
            return TokenStream::new();
        };
        let (label, ident, bound) =
            (docs::line(&size.label), format_ident!("{symbol}"), number(bound));
        quote!(::onnxc_runtime::view::check_bound(#label, #bound, #ident)?;)
    }
}
