//! Generates the first lines of a function, which bind the sizes and elements of the inputs.

use super::{
    method::{Input, Method},
    port::Form,
    text::line,
    tokens::{number, size},
};
use crate::{
    dim::{Dim, Symbol},
    dtype::DType,
    plan::{Operand, Port},
};
use proc_macro2::{Ident, TokenStream};
use quote::{format_ident, quote};
use std::collections::BTreeSet;

/// The statements so far: the symbols that are bound, and the checks behind them.
#[derive(Default)]
pub(super) struct Bound {
    pub symbols: BTreeSet<Symbol>,
    pub binds: TokenStream,
    pub checks: TokenStream,
}

/// Writes the access to an operand.
pub(super) type Constant<'a> = &'a dyn Fn(&Operand) -> TokenStream;

impl Method<'_> {
    /// Binds the symbols of the inputs, checks their sizes and names their elements. The statements
    /// of `layout` and the states come last.
    pub fn bind_inputs(
        &self,
        constant: Constant<'_>,
        slot: Constant<'_>,
        layout: &TokenStream,
    ) -> TokenStream {
        let mut bound = Bound { binds: self.own_strings(), ..Bound::default() };
        let ports = || self.inputs.iter().zip(&self.plan.inputs);
        let is_optional = |input: &Input| matches!(input.form, Form::Optional(_));
        // An absent value has no sizes, so symbols are bound to those of other inputs first.
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
        quote!(#binds #checks #layout #found)
    }

    /// Copies the strings of inputs, which callers own, to elements.
    fn own_strings(&self) -> TokenStream {
        let inputs = self.inputs.iter().filter(|input| input.dtype == DType::String);
        let statements = inputs.map(|Input { name, form, .. }| match form {
            Form::Array(_) => {
                let strings = self.to_strings(&quote!(#name));
                quote!(let #name = #strings;)
            }
            Form::View(_) => quote! {
                let #name = #name.to_strings();
                let #name = #name.view();
            },
            Form::Optional(form) if matches!(**form, Form::Array(_)) => {
                let to_strings = self.cx.imports.function("strings::to_strings");
                quote! {
                    let #name = #name.map(|#name| #to_strings(#name));
                    let #name = #name.as_deref();
                }
            }
            Form::Optional(form) if matches!(**form, Form::View(_)) => quote! {
                let #name = #name.map(|#name| #name.to_strings());
                let #name = #name.as_ref().map(|#name| #name.view());
            },
            _ => TokenStream::new(),
        });
        statements.collect()
    }

    /// Writes a slice of new strings.
    fn to_strings(&self, texts: &TokenStream) -> TokenStream {
        let to_strings = self.cx.imports.function("strings::to_strings");
        quote!(&#to_strings(#texts)[..])
    }

    /// Binds an input to its default if the caller omits it.
    fn bind_default(&self, input: &Input, port: &Port, default: &TokenStream, bound: &mut Bound) {
        let (name, form) = (&input.name, input.form.content());
        let chosen = match form {
            Form::Scalar => quote!(#name.as_ref().map_or(#default, ::core::slice::from_ref)),
            Form::View(_) => {
                let shape = self.plan.initial(port).map(|tensor| tensor.shape.as_slice());
                let shape = shape.unwrap_or_default().iter().map(|&size| number(size));
                let view = self.cx.imports.item("view::View");
                quote!(#name.unwrap_or(#view::new([#(#shape),*], #default)?))
            }
            _ => quote!(#name.map_or(#default, |#name| &#name[..])),
        };
        bound.binds.extend(quote!(let #name = #chosen;));
        self.bind(form, input, port, bound);
    }

    fn bind(&self, form: &Form, input: &Input, port: &Port, bound: &mut Bound) {
        let name = &input.name;
        match form {
            Form::View(_) => {
                self.settle(port, bound, &|axis| quote!(#name.shape()[#axis]), &|check| check);
                bound.checks.extend(quote!(let #name = #name.data();));
            }
            Form::Map(key) => {
                self.settle(port, bound, &|_| quote!(#name.len()), &|check| check);
                let own = |dtype: DType, of: TokenStream| match dtype {
                    DType::String => self.to_strings(&of),
                    _ => of,
                };
                let keys = self.companion(port);
                let [given, values] =
                    [own(*key, quote!(#name.keys())), own(input.dtype, quote!(#name.values()))];
                bound.checks.extend(quote!(let (#keys, #name) = (#given, #values);));
            }
            _ => {}
        }
    }

    fn bind_optional(&self, input: &Input, port: &Port, bound: &mut Bound) {
        let (name, element) = (&input.name, self.cx.imports.element(input.dtype));
        let (is_there, absent) =
            (self.companion(port), self.derive_name(&name.to_string(), "absent"));
        bound.binds.extend(quote!(let #is_there = &[#name.is_some()];));
        // An absent value has zeros for elements.
        let zeros = |len: TokenStream| {
            let heap = self.cx.imports.item("arena::heap");
            quote!(let #absent = #heap::<#element>(if #is_there[0] { 0 } else { #len });)
        };
        let bind = match input.form.content() {
            Form::Scalar => quote!(let #name = &[#name.unwrap_or_default()];),
            Form::Array(len) => {
                let zeros = zeros(quote::ToTokens::into_token_stream(number(*len)));
                quote!(#zeros let #name = #name.map_or(&#absent[..], |#name| &#name[..]);)
            }
            Form::Sequence => {
                let sequence = self.cx.imports.item("sequence::Sequence");
                quote! {
                    let #absent = #sequence::new();
                    let #name = #name.unwrap_or(&#absent);
                }
            }
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

    /// Checks the size of an axis.
    pub(super) fn check_size(&self, port: &Port, axis: usize, found: &TokenStream) -> TokenStream {
        let dim = &port.shape()[axis];
        let (label, wanted) = (line(&port.name), format!("{dim:?}"));
        let (axis, expected) = (number(axis), size(dim));
        let check_size = self.cx.imports.function("view::check_size");
        quote!(#check_size(#label, #axis, #wanted, #expected, #found)?;)
    }

    /// The name of an input's companion buffer.
    fn companion(&self, port: &Port) -> Ident {
        let companion =
            port.companion.as_ref().expect("optionals and maps have a companion buffer");
        format_ident!("{}", self.names[companion.buffer])
    }

    pub(super) fn check_bound(&self, symbol: &Symbol) -> TokenStream {
        let Some(size) = self.plan.symbols.get(symbol) else { return TokenStream::new() };
        let Some(bound) = size.max.and_then(|max| usize::try_from(max).ok()) else {
            return TokenStream::new();
        };
        let (label, ident, bound) = (line(&size.label), format_ident!("{symbol}"), number(bound));
        let check_bound = self.cx.imports.function("view::check_bound");
        quote!(#check_bound(#label, #bound, #ident)?;)
    }
}
