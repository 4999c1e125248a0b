//! Generates calls of custom operators.

use super::{
    steps::{Body, Local},
    text::code,
    tokens::{array, number, parse_tokens},
};
use crate::plan::{
    Arg, Call, Custom, Plan,
    custom::{Attribute, Parameter},
};
use proc_macro2::{Literal, TokenStream};
use quote::{ToTokens, quote};
use std::collections::BTreeMap;

impl Body<'_> {
    /// The call of a custom operator's function.
    pub(super) fn custom(&mut self, call: &Call, custom: &Custom, locals: &[Local]) -> TokenStream {
        let path = parse_tokens(&custom.function);
        let inputs = call.inputs.iter().zip(&custom.inputs);
        let inputs =
            inputs.map(|(arg, parameter)| self.view(arg, parameter, "view::View", false, locals));
        let outputs = call.outputs.iter().zip(&custom.outputs);
        let outputs = outputs
            .map(|(arg, parameter)| self.view(arg, parameter, "view::ViewMut", true, locals));
        let arguments: Vec<TokenStream> = inputs.chain(outputs).collect();
        let attributes = self.attributes(custom);
        quote!(#path(#(#arguments,)* #attributes)?;)
    }

    /// The argument for an input or output.
    fn view(
        &self,
        arg: &Arg,
        parameter: &Parameter,
        path: &str,
        written: bool,
        locals: &[Local],
    ) -> TokenStream {
        let (Some(operand), Some(ty)) = (arg.operand(), &parameter.ty) else {
            return quote!(None);
        };
        let shape = array(ty.shape.iter().map(|dim| self.size(dim)));
        let slice = self.slice(operand, written, locals);
        let view = self.method.cx.imports.item(path);
        let view = quote!(#view::new(#shape, #slice)?);
        if parameter.is_optional { quote!(Some(#view)) } else { view }
    }

    /// The attributes, in a constant if there are any.
    fn attributes(&mut self, custom: &Custom) -> TokenStream {
        let imports = &self.method.cx.imports;
        let attributes = imports.item("custom::Attributes");
        if custom.attributes.is_empty() {
            return quote!(#attributes::new(&[]));
        }
        let kind = imports.item("custom::Attribute");
        let each = custom.attributes.iter().map(|(name, attribute)| {
            let attribute = value(attribute);
            quote!((#name, #kind::#attribute))
        });
        let value = quote!(#attributes::new(&[#(#each),*]));
        self.constant("Attributes", &attributes, value).to_token_stream()
    }
}

/// The value of an attribute, without the name of the enum.
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

/// A number, as bits if it has no literal.
fn float(x: f32) -> TokenStream {
    if x.is_finite() {
        return Literal::f32_unsuffixed(x).to_token_stream();
    }
    let bits = Literal::u32_unsuffixed(x.to_bits());
    quote!(f32::from_bits(#bits))
}

/// The custom operators that a module calls, with the signatures of their functions, for the
/// documentation.
pub fn signatures(plan: &Plan) -> Vec<String> {
    let mut known: BTreeMap<(&str, &str), Custom> = BTreeMap::new();
    for custom in plan.customs() {
        let all =
            known.entry((&custom.operator, &custom.function)).or_insert_with(|| custom.clone());
        // One node may omit an operand that another node has.
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
            let element = ty.dtype.rust().trim_start_matches("::onnxc_runtime::");
            format!("{kind}<{element}, {}>", number(ty.rank()))
        });
        if parameter.is_optional { format!("Option<{view}>") } else { view }
    };
    let inputs = custom.inputs.iter().map(|x| parameter("View", x));
    let outputs = custom.outputs.iter().map(|y| parameter("ViewMut", y));
    let all: Vec<String> = inputs.chain(outputs).chain(["Attributes".into()]).collect();
    let operator = code(&custom.operator);
    format!("`{operator}` is `{}`: `fn({}) -> Result`", custom.function, all.join(", "))
}
