//! Generates the result of a method, and the last lines of its function.

use super::{
    docs,
    method::{Method, Output},
    port::{Form, Spelling, Values},
    text::doc,
    tokens::array,
};
use crate::{
    dim::Dim,
    ident,
    plan::{Place, Port},
    tensor::Data,
};
use proc_macro2::{Ident, Literal, TokenStream};
use quote::{ToTokens, format_ident, quote};

/// The longest tuple of slots that can be borrowed at once.
const LONGEST_TUPLE: usize = 12;

/// Access to the outputs for the last lines of a function.
pub struct Sources<'b> {
    /// Accesses output `i` in the arena.
    pub slot: &'b dyn Fn(usize) -> TokenStream,
    /// Names output `i` on the heap.
    pub heap: &'b dyn Fn(usize) -> TokenStream,
    /// Reads whether output `i`, an optional, has a value.
    pub is_given: &'b dyn Fn(usize) -> Option<TokenStream>,
    /// Writes a size.
    pub size: &'b dyn Fn(&Dim) -> TokenStream,
}

/// An expression for an output.
enum Value {
    /// The value.
    Plain(TokenStream),
    /// A `Result` with the value.
    Checked(TokenStream),
}

impl Value {
    /// The value, in a function that returns errors.
    fn into_value(self) -> TokenStream {
        match self {
            Value::Plain(value) => value,
            Value::Checked(result) => quote!(#result?),
        }
    }
}

impl Method<'_> {
    /// Returns whether an output is borrowed from the arena.
    pub fn borrows(&self) -> bool {
        self.outputs.iter().any(|output| output.form.borrows())
    }

    /// Returns the return type with its arrow; `lifetime` is that of the arena.
    pub fn result(&self, lifetime: &TokenStream) -> TokenStream {
        if self.can_fail() {
            return self.checked_result(lifetime);
        }
        self.output_type(lifetime).map(|plain| quote!(-> #plain)).unwrap_or_default()
    }

    /// Returns the return type of a method that returns errors.
    pub fn checked_result(&self, lifetime: &TokenStream) -> TokenStream {
        let result = self.cx.imports.item("Result");
        let plain = self.output_type(lifetime).map(|plain| quote!(<#plain>));
        quote!(-> #result #plain)
    }

    /// Returns the type of the outputs, if there are any.
    fn output_type(&self, lifetime: &TokenStream) -> Option<TokenStream> {
        let spelling = Spelling { imports: &self.cx.imports };
        match self.outputs.as_slice() {
            [] => None,
            [Output { form, dtype, .. }] => Some(spelling.output(form, *dtype, lifetime)),
            _ => {
                let name = self.output_name();
                Some(if self.borrows() { quote!(#name<#lifetime>) } else { quote!(#name) })
            }
        }
    }

    /// Names the struct of several outputs, as the module does and as it exports it.
    pub fn output_struct_names(&self) -> Option<[Ident; 2]> {
        let exported = self.output_name_of(&self.cx.public);
        (self.outputs.len() > 1).then(|| [self.output_name(), exported])
    }

    /// Returns the struct of several outputs; a single output needs none.
    pub fn output_struct(&self) -> TokenStream {
        if self.outputs.len() <= 1 {
            return TokenStream::new();
        }
        let (model, name, spelling) =
            (&self.cx.model, self.output_name(), Spelling { imports: &self.cx.imports });
        let method = self.first_name();
        let doc = doc(&[format!("The outputs of [`{model}::{method}`].")]);
        let fields = self.outputs.iter().zip(&self.plan.outputs).map(|(output, port)| {
            let (field, doc) = (&output.field, docs::port(port));
            let ty = spelling.output(&output.form, output.dtype, &quote!('a));
            quote!(#doc pub #field: #ty,)
        });
        let generics = self.borrows().then(|| quote!(<'a>));
        quote! {
            blank!();
            #doc
            #[derive(Clone, Debug)]
            pub struct #name #generics {
                #(#fields)*
            }
        }
    }

    fn output_name(&self) -> Ident {
        self.output_name_of(&self.cx.model)
    }

    fn output_name_of(&self, model: &Ident) -> Ident {
        let method =
            if self.is_inference() { String::new() } else { ident::camel(&self.name.to_string()) };
        let [model, method] =
            [&model.to_string(), &method].map(|word| word.trim_end_matches('_').to_owned());
        format_ident!("{model}{method}Output")
    }

    /// Returns the last lines of the function: they borrow the outputs and return them.
    pub fn give_outputs(&self, sources: &Sources<'_>) -> TokenStream {
        let in_arena: Vec<usize> =
            (0..self.outputs.len()).filter(|&i| self.outputs[i].form.is_in_arena()).collect();
        let is_given = |i: usize| self.derive_name(&self.outputs[i].local.to_string(), "given");
        let flags: TokenStream = (0..self.outputs.len())
            .filter(|&i| matches!(self.outputs[i].form, Form::Optional(_)))
            .filter_map(|i| Some((is_given(i), (sources.is_given)(i)?)))
            .map(|(name, flag)| quote!(let #name = #flag;))
            .collect();
        let names: Vec<&Ident> = in_arena.iter().map(|&i| &self.outputs[i].local).collect();
        let accesses: Vec<TokenStream> = in_arena.iter().map(|&i| (sources.slot)(i)).collect();
        let value = |i: usize| self.value(i, &is_given(i).into_token_stream(), sources);
        let result = match self.outputs.len() {
            0 if !self.can_fail() => return TokenStream::new(),
            0 => Value::Plain(quote!(())),
            1 => value(0),
            n => Value::Plain(self.struct_literal((0..n).map(|i| value(i).into_value()))),
        };
        let result = match (self.can_fail(), result) {
            (true, Value::Checked(result)) => result,
            (true, Value::Plain(value)) => quote!(Ok(#value)),
            (false, result) => result.into_value(),
        };
        // One borrowed output that is returned unchanged needs no name.
        if let ([name], [access]) = (names.as_slice(), accesses.as_slice())
            && let result = result.to_string()
            && (result == name.to_string() || result == quote!(Ok(#name)).to_string())
        {
            let borrow = self.cx.imports.item("arena::borrow");
            let borrowed = quote!(#borrow(arena, #access));
            let result = if self.can_fail() { quote!(Ok(#borrowed)) } else { borrowed };
            return quote!(blank!(); #result);
        }
        let borrow = self.borrow(&names, &accesses);
        quote!(blank!(); #flags #borrow #result)
    }

    /// Borrows slots of the arena under these names.
    pub fn borrow(&self, names: &[&Ident], accesses: &[TokenStream]) -> TokenStream {
        if names.is_empty() {
            return TokenStream::new();
        }
        let borrow = self.cx.imports.item("arena::borrow");
        if let ([name], [access]) = (names, accesses) {
            return quote!(let #name = #borrow(arena, #access););
        }
        let names = names.iter().map(ToTokens::to_token_stream).collect();
        let (names, accesses) = self.group_slots(names, accesses.to_vec());
        quote!(let (#(#names),*) = #borrow(arena, (#(#accesses),*));)
    }

    /// Groups names and accesses, if there are more than the longest tuple of slots has.
    fn group_slots(
        &self,
        names: Vec<TokenStream>,
        accesses: Vec<TokenStream>,
    ) -> (Vec<TokenStream>, Vec<TokenStream>) {
        if names.len() <= LONGEST_TUPLE {
            return (names, accesses);
        }
        let group = names.chunks(LONGEST_TUPLE).map(|names| quote!((#(#names,)*))).collect();
        let together = self.cx.imports.item("arena::Together");
        let groups =
            accesses.chunks(LONGEST_TUPLE).map(|all| quote!(#together((#(#all,)*)))).collect();
        self.group_slots(group, groups)
    }

    fn struct_literal(&self, values: impl Iterator<Item = TokenStream>) -> TokenStream {
        let name = self.output_name();
        let fields = self.outputs.iter().zip(values).map(|(Output { field, .. }, value)| {
            if *field == value.to_string() { quote!(#field) } else { quote!(#field: #value) }
        });
        quote!(#name { #(#fields),* })
    }

    /// Output `i`. `flag` is true if it has a value.
    fn value(&self, i: usize, flag: &TokenStream, sources: &Sources<'_>) -> Value {
        let Output { form, local, .. } = &self.outputs[i];
        let heap = if form.is_in_arena() { TokenStream::new() } else { (sources.heap)(i) };
        self.value_of(form, &self.plan.outputs[i], local, &heap, flag, sources)
    }

    fn value_of(
        &self,
        form: &Form,
        port: &Port,
        local: &Ident,
        heap: &TokenStream,
        flag: &TokenStream,
        sources: &Sources<'_>,
    ) -> Value {
        let shape = || array(port.shape().iter().map(|dim| (sources.size)(dim)));
        let imports = &self.cx.imports;
        match form {
            Form::Scalar => Value::Plain(quote!(#local[0])),
            Form::Array(_) => Value::Plain(quote!(#local)),
            Form::View(_) => {
                let (view, shape) = (imports.item("view::View"), shape());
                Value::Checked(quote!(#view::new(#shape, #local)))
            }
            Form::Heap(_) => {
                let (tensor, shape) = (imports.item("view::Tensor"), shape());
                Value::Checked(quote!(#tensor::new(#shape, #heap)))
            }
            Form::Sequence => Value::Plain(heap.clone()),
            Form::Map(_) | Form::Maps(_, Values::Arena) => self.maps(port, &quote!(#local)),
            Form::Maps(_, Values::Heap) => self.maps(port, heap),
            Form::Optional(form) => {
                let value = self.value_of(form, port, local, heap, flag, sources).into_value();
                Value::Plain(quote!(if #flag { Some(#value) } else { None }))
            }
        }
    }

    /// Maps with constant keys.
    fn maps(&self, port: &Port, values: &TokenStream) -> Value {
        let keys = port.companion.as_ref().map(|keys| &self.plan.buffers[keys.buffer].place);
        let Some(Place::Weight { weight, .. }) = keys else {
            unreachable!("the keys of a sequence of maps are constants")
        };
        let keys: Vec<Literal> = match &weight.constant().data {
            Data::Strings(keys) => keys.iter().map(|key| Literal::string(key)).collect(),
            Data::Bytes(_) => {
                let keys = weight.constant().ints().unwrap_or_default();
                keys.into_iter().map(Literal::i64_unsuffixed).collect()
            }
        };
        let maps = self.cx.imports.item("map::Maps");
        Value::Plain(quote!(#maps::new(&[#(#keys),*], #values)))
    }
}
