//! Calls of functions of the user's own.

use super::{
    docs,
    method::{element, number, sizes},
    steps::{Body, Local},
};
use crate::plan::{
    Arg, Call, Custom, Plan,
    custom::{Attribute, Parameter},
};
use proc_macro2::{Literal, TokenStream};
use quote::{ToTokens, quote};
use std::collections::BTreeMap;

impl Body<'_> {
    /// The call of a function of the user's own.
    pub(super) fn custom(&mut self, call: &Call, custom: &Custom, locals: &[Local]) -> TokenStream {
        let path: TokenStream = custom.function.parse().expect("a path is tokens");
        let inputs = call.inputs.iter().zip(&custom.inputs);
        let inputs =
            inputs.map(|(arg, parameter)| self.view(arg, parameter, &quote!(View), false, locals));
        let inputs: Vec<TokenStream> = inputs.collect();
        let outputs = call.outputs.iter().zip(&custom.outputs);
        let outputs = outputs
            .map(|(arg, parameter)| self.view(arg, parameter, &quote!(ViewMut), true, locals));
        let outputs: Vec<TokenStream> = outputs.collect();
        let given = custom.inputs.iter().any(|parameter| parameter.ty.is_some());
        self.paths.extend(given.then(|| "view::View".to_owned()));
        let taken = custom.outputs.iter().any(|parameter| parameter.ty.is_some());
        self.paths.extend(taken.then(|| "view::ViewMut".to_owned()));
        let attributes = self.attributes(call, custom);
        quote!(#path(#(#inputs,)* #(#outputs,)* #attributes)?;)
    }

    /// What the function is given for an input or output.
    fn view(
        &self,
        arg: &Arg,
        parameter: &Parameter,
        kind: &TokenStream,
        written: bool,
        locals: &[Local],
    ) -> TokenStream {
        let (Some(operand), Some(ty)) = (arg.operand(), &parameter.ty) else {
            return quote!(None);
        };
        let (shape, slice) = (sizes(&ty.shape), self.slice(operand, written, locals));
        let view = quote!(#kind::new(#shape, #slice)?);
        if parameter.is_optional { quote!(Some(#view)) } else { view }
    }

    /// The attributes: a constant, where there are any.
    fn attributes(&mut self, call: &Call, custom: &Custom) -> TokenStream {
        self.paths.insert("custom::Attributes".into());
        if custom.attributes.is_empty() {
            return quote!(Attributes::new(&[]));
        }
        self.paths.insert("custom::Attribute".into());
        let attributes = custom.attributes.iter().map(|(name, attribute)| {
            let attribute = value(attribute);
            quote!((#name, Attribute::#attribute))
        });
        let value = quote!(Attributes::new(&[#(#attributes),*]));
        self.constant(&call.node, "Attributes", value).to_token_stream()
    }
}

/// The value of an attribute, behind the name of the enum.
fn value(attribute: &Attribute) -> TokenStream {
    match attribute {
        Attribute::Int(x) => {
            let x = Literal::i64_unsuffixed(*x);
            quote!(Int(#x))
        }
        Attribute::Float(x) => {
            let x = float(*x);
            quote!(Float(#x))
        }
        Attribute::String(x) => quote!(String(#x)),
        Attribute::Ints(all) => {
            let all = all.iter().map(|x| Literal::i64_unsuffixed(*x));
            quote!(Ints(&[#(#all),*]))
        }
        Attribute::Floats(all) => {
            let all = all.iter().map(|x| float(*x));
            quote!(Floats(&[#(#all),*]))
        }
        Attribute::Strings(all) => quote!(Strings(&[#(#all),*])),
    }
}

/// A number, to the bit where it has no literal.
fn float(x: f32) -> TokenStream {
    if x.is_finite() {
        return Literal::f32_unsuffixed(x).to_token_stream();
    }
    let bits = Literal::u32_unsuffixed(x.to_bits());
    quote!(f32::from_bits(#bits))
}

/// The functions that a module calls, each with its signature, as the documentation says them.
pub fn signatures(plan: &Plan) -> Vec<String> {
    let mut known: BTreeMap<(&str, &str), Custom> = BTreeMap::new();
    for custom in plan.customs() {
        let all =
            known.entry((&custom.operator, &custom.function)).or_insert_with(|| custom.clone());
        // What one node leaves out another one has.
        let inputs = all.inputs.iter_mut().zip(&custom.inputs);
        for (all, one) in inputs.chain(all.outputs.iter_mut().zip(&custom.outputs)) {
            all.ty = all.ty.take().or_else(|| one.ty.clone());
        }
    }
    known.values().map(signature).collect()
}

fn signature(custom: &Custom) -> String {
    let parameter = |kind: &str, parameter: &Parameter| {
        let view = parameter.ty.as_ref().map_or("_".into(), |ty| {
            let element = element(ty.dtype).to_string().replace(' ', "");
            let element = element.trim_start_matches("::onnxc_runtime::").to_owned();
            format!("{kind}<{element}, {}>", number(ty.rank()))
        });
        if parameter.is_optional { format!("Option<{view}>") } else { view }
    };
    let inputs = custom.inputs.iter().map(|x| parameter("View", x));
    let outputs = custom.outputs.iter().map(|y| parameter("ViewMut", y));
    let all: Vec<String> = inputs.chain(outputs).chain(["Attributes".into()]).collect();
    let operator = docs::code(&custom.operator);
    format!("`{operator}` is `{}`: `fn({}) -> Result`", custom.function, all.join(", "))
}
