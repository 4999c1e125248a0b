//! The public face of a module: the struct, its constants, and `infer`.

use super::{ArenaIn, Style, docs, weights};
use crate::{
    arena::Map,
    dim::{Dim, Symbol},
    dtype::DType,
    ident::{self, Names},
    plan::{BufferId, Place, Plan, Port, Step},
};
use proc_macro2::{Ident, Literal, TokenStream};
use quote::{format_ident, quote};
use std::collections::BTreeSet;

/// How a program calls a generated module.
#[derive(Clone, Debug, PartialEq)]
pub struct Signature {
    /// The model's struct.
    pub model: String,
    /// The form of each input, in order.
    pub inputs: Vec<Form>,
    /// The field and the form of each output, in order; one output has no field.
    pub outputs: Vec<(String, Form)>,
    /// Whether `infer` returns a `Result`.
    pub refuses: bool,
}

/// What the face and the steps must agree on.
pub struct Face<'p> {
    plan: &'p Plan,
    style: &'p Style,
    /// The model's struct.
    pub model: Ident,
    /// The name of each buffer, in snake case.
    pub names: Map<BufferId, String>,
    inputs: Vec<Given>,
    outputs: Vec<Taken>,
    /// How many constant tensors of strings there are.
    strings: usize,
    /// Whether the model can refuse its inputs.
    pub refuses: bool,
}

/// How an input is given.
pub struct Given {
    /// Its name.
    pub name: Ident,
    /// How.
    pub form: Form,
    /// The element type, as Rust.
    pub element: TokenStream,
}

/// How an output is taken.
pub struct Taken {
    /// Its name.
    pub name: Ident,
    /// How.
    pub form: Form,
    /// The element type, as Rust.
    pub element: TokenStream,
}

/// The form of a tensor at the face.
#[derive(Clone, Debug, PartialEq)]
pub enum Form {
    /// One number, by value.
    Scalar,
    /// So many elements, by reference.
    Array(usize),
    /// A view with so many axes, whose sizes are known when the model runs.
    View(usize),
    /// A tensor on the heap with so many axes.
    Heap(usize),
}

impl<'p> Face<'p> {
    pub fn new(plan: &'p Plan, style: &'p Style) -> Face<'p> {
        let mut names = Names::default();
        for symbol in plan.symbols.keys() {
            names.unique(symbol.to_string());
        }
        let mut buffers = Map::default();
        let ports = plan.inputs.iter().chain(&plan.outputs).map(|port| port.operand.buffer);
        for id in ports.chain(plan.buffers.ids()) {
            if !buffers.contains(id) {
                buffers.insert(id, names.unique(ident::snake(&plan.buffers[id].name)));
            }
        }
        let inputs: Vec<Given> = plan
            .inputs
            .iter()
            .map(|port| Given {
                name: format_ident!("{}", buffers[port.operand.buffer]),
                form: input_form(port),
                element: element(port.ty.dtype),
            })
            .collect();
        let mut fields = Names::default();
        let outputs = plan.outputs.iter().map(|port| Taken {
            name: format_ident!("{}", fields.unique(ident::snake(&port.name))),
            form: output_form(plan, port),
            element: element(port.ty.dtype),
        });
        let outputs: Vec<Taken> = outputs.collect();
        let dynamic = inputs.iter().any(|input| matches!(input.form, Form::View(_)))
            || outputs.iter().any(|taken| matches!(taken.form, Form::View(_) | Form::Heap(_)));
        Face {
            plan,
            style,
            model: format_ident!("{}", ident::camel(&style.name)),
            names: buffers,
            refuses: dynamic || plan.steps.iter().any(refuses),
            strings: weights::strings(plan).len(),
            outputs,
            inputs,
        }
    }

    /// How a program calls the module.
    pub fn signature(&self) -> Signature {
        Signature {
            model: self.model.to_string(),
            inputs: self.inputs.iter().map(|given| given.form.clone()).collect(),
            outputs: self.outputs.iter().map(|t| (t.name.to_string(), t.form.clone())).collect(),
            refuses: self.refuses,
        }
    }

    /// The struct with its methods.
    pub fn items(&self) -> TokenStream {
        let (model, doc) = (&self.model, docs::model(self.plan, self.style));
        let room = format_ident!("{}", ident::snake(&self.style.name));
        let blocks = number(self.plan.arena_bytes.div_ceil(64));
        let arena = match self.style.arena {
            ArenaIn::Struct => quote!(::onnxc_runtime::arena::InlineArena<#blocks>),
            ArenaIn::Heap => quote!(::onnxc_runtime::arena::HeapArena<#blocks>),
        };
        let (arena_bytes, weight_bytes) =
            (number(self.plan.arena_bytes), number(self.plan.weight_bytes));
        let macs = Literal::u64_unsuffixed(self.plan.macs);
        let (infer, count) = (self.infer(&room), number(self.strings));
        let has_strings = self.strings > 0;
        let strings =
            has_strings.then(|| quote!(strings: ::onnxc_runtime::strings::Strings<#count>,));
        let no_strings =
            has_strings.then(|| quote!(, strings: ::onnxc_runtime::strings::Strings::new()));
        let output = self.output_struct();
        let new = match self.style.arena {
            ArenaIn::Struct => quote!(::onnxc_runtime::arena::InlineArena::new()),
            ArenaIn::Heap => quote!(::onnxc_runtime::arena::HeapArena::new()),
        };
        quote! {
            #doc
            #[derive(Clone, Debug)]
            pub struct #model {
                weights: ::onnxc_runtime::arena::Weights,
                arena: #arena,
                #strings
            }
            blank!();
            #[allow(dead_code)]
            impl #model {
                /// The bytes of memory that one run needs, beside what the caller gives.
                pub const PEAK_ARENA_BYTES: usize = #arena_bytes;
                /// The bytes of all weights.
                pub const WEIGHT_BYTES: usize = #weight_bytes;
                /// The multiply-adds of one run, where every size is known.
                pub const MACS: u64 = #macs;
                blank!();
                /// The model with the weights that the program carries.
                pub const fn new() -> #model {
                    #model { weights: ::onnxc_runtime::arena::Weights::new(#room::WEIGHTS), arena: #new #no_strings }
                }
                blank!();
                /// The model with weights that the caller has, in flash or mapped from a file.
                ///
                /// # Errors
                ///
                /// Where they are not as long as the model's, or start at an odd address.
                pub fn with_weights(weights: &'static [u8]) -> ::onnxc_runtime::Result<#model> {
                    let weights = ::onnxc_runtime::arena::Weights::from_bytes(weights, #model::WEIGHT_BYTES)?;
                    Ok(#model { weights, arena: #new #no_strings })
                }
                blank!();
                #infer
            }
            blank!();
            impl Default for #model {
                fn default() -> #model {
                    #model::new()
                }
            }
            #output
        }
    }

    fn infer(&self, room: &Ident) -> TokenStream {
        let arguments = self.inputs.iter().map(|Given { name, form, element }| match form {
            Form::Scalar => quote!(#name: #element),
            Form::Array(len) => {
                let len = number(*len);
                quote!(#name: &[#element; #len])
            }
            Form::View(rank) | Form::Heap(rank) => {
                let rank = number(*rank);
                quote!(#name: ::onnxc_runtime::view::View<'_, #element, #rank>)
            }
        });
        let given = self.inputs.iter().map(|Given { name, form, .. }| match form {
            Form::Scalar => quote!(&[#name]),
            _ => quote!(#name),
        });
        let strings = (self.strings > 0).then(|| quote!(self.strings.of(&#room::STRINGS),));
        let result = self.result(&quote!('_));
        let mut text = vec!["Runs the model.".to_owned()];
        if self.refuses {
            text.extend(
                [
                    "",
                    "# Errors",
                    "",
                    "Where the inputs' sizes do not fit the model, or each other.",
                ]
                .map(String::from),
            );
        }
        let doc = docs::lines(&text);
        quote! {
            #doc
            pub fn infer(&mut self, #(#arguments),*) -> #result {
                #room::infer(&self.weights, self.arena.blocks(), #strings #(#given),*)
            }
        }
    }

    /// The struct of several outputs; one output stands for itself.
    fn output_struct(&self) -> TokenStream {
        if self.outputs.len() == 1 {
            return TokenStream::new();
        }
        let (model, name) = (&self.model, format_ident!("{}Output", self.model));
        let doc = docs::lines(&[format!("What [`{model}`] gives.")]);
        let fields = self.outputs.iter().zip(&self.plan.outputs).map(|(taken, port)| {
            let (field, ty, doc) = (&taken.name, taken.ty(&quote!('a)), docs::port(port));
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

    /// Whether an output is borrowed from the arena.
    fn borrows(&self) -> bool {
        self.outputs.iter().any(|taken| matches!(taken.form, Form::Array(_) | Form::View(_)))
    }

    fn result(&self, lifetime: &TokenStream) -> TokenStream {
        let plain = match self.outputs.as_slice() {
            [one] => one.ty(lifetime),
            _ => {
                let name = format_ident!("{}Output", self.model);
                if self.borrows() { quote!(#name<#lifetime>) } else { quote!(#name) }
            }
        };
        if self.refuses { quote!(::onnxc_runtime::Result<#plain>) } else { plain }
    }

    /// The head of the function that does the steps.
    pub fn steps_head(&self) -> TokenStream {
        let arguments = self.inputs.iter().map(|Given { name, form, element }| match form {
            Form::Scalar | Form::Array(_) => quote!(#name: &[#element]),
            Form::View(rank) | Form::Heap(rank) => {
                let rank = number(*rank);
                quote!(#name: View<'_, #element, #rank>)
            }
        });
        let result = match self.outputs.len() {
            1 => self.result(&quote!('a)),
            _ => {
                let name = format_ident!("{}Output", self.model);
                let plain =
                    if self.borrows() { quote!(super::#name<'a>) } else { quote!(super::#name) };
                if self.refuses { quote!(::onnxc_runtime::Result<#plain>) } else { plain }
            }
        };
        let generics = self.borrows().then(|| quote!(<'a>));
        let life = self.borrows().then(|| quote!('a));
        let strings = (self.strings > 0).then(|| {
            let count = number(self.strings);
            quote!(strings: &::onnxc_runtime::strings::Constants<#count>,)
        });
        quote! {
            pub(super) fn infer #generics (
                weights: &::onnxc_runtime::arena::Weights,
                arena: &#life mut [Block],
                #strings
                #(#arguments),*
            ) -> #result
        }
    }

    /// Settles the symbols of the inputs, and holds their sizes against the model.
    pub fn bind_inputs(&self) -> TokenStream {
        let mut bound: BTreeSet<Symbol> = BTreeSet::new();
        let (mut binds, mut checks) = (TokenStream::new(), TokenStream::new());
        for (given, port) in self.inputs.iter().zip(&self.plan.inputs) {
            let (Form::View(_), name) = (&given.form, &given.name) else { continue };
            for (axis, dim) in port.ty.shape.iter().enumerate() {
                let axis = number(axis);
                match dim.as_symbol() {
                    Some(symbol) if bound.insert(symbol.clone()) => {
                        let ident = format_ident!("{symbol}");
                        binds.extend(quote!(let #ident = #name.shape()[#axis];));
                        checks.extend(self.check_bound(symbol));
                    }
                    _ => checks.extend(check_size(port, name, &axis, dim)),
                }
            }
            checks.extend(quote!(let #name = #name.data();));
        }
        quote!(#binds #checks)
    }

    fn check_bound(&self, symbol: &Symbol) -> TokenStream {
        let Some(size) = self.plan.symbols.get(symbol) else { return TokenStream::new() };
        let Some(bound) = size.max.and_then(|max| usize::try_from(max).ok()) else {
            return TokenStream::new();
        };
        let (label, ident, bound) =
            (docs::line(&size.label), format_ident!("{symbol}"), number(bound));
        quote!(::onnxc_runtime::view::check_bound(#label, #bound, #ident)?;)
    }

    /// The last lines of the function: borrows the outputs and gives them.
    pub fn give_outputs(
        &self,
        slots: &dyn Fn(usize) -> TokenStream,
        heap: &dyn Fn(usize) -> TokenStream,
    ) -> TokenStream {
        let borrowed: Vec<usize> = (0..self.outputs.len())
            .filter(|&i| !matches!(self.outputs[i].form, Form::Heap(_)))
            .collect();
        let local = |i: usize| format_ident!("{}", self.outputs[i].name);
        let names: Vec<Ident> = borrowed.iter().map(|&i| local(i)).collect();
        let accesses: Vec<TokenStream> = borrowed.iter().map(|&i| slots(i)).collect();
        let borrow = match names.as_slice() {
            [] => TokenStream::new(),
            [name] => quote!(let #name = borrow(arena, #(#accesses)*);),
            _ => quote!(let (#(#names),*) = borrow(arena, (#(#accesses),*));),
        };
        let value = |i: usize| {
            let (name, shape) = (local(i), sizes(&self.plan.outputs[i].ty.shape));
            match self.outputs[i].form {
                Form::Scalar => quote!(#name[0]),
                Form::Array(_) => quote!(#name),
                Form::View(_) => quote!(View::new(#shape, #name)?),
                Form::Heap(_) => {
                    let data = heap(i);
                    quote!(::onnxc_runtime::view::Tensor::new(#shape, #data)?)
                }
            }
        };
        let result = match self.outputs.len() {
            1 => value(0),
            n => {
                let name = format_ident!("{}Output", self.model);
                let fields = (0..n).map(|i| {
                    let (field, value) = (local(i), value(i));
                    if field == value.to_string() { quote!(#field) } else { quote!(#field: #value) }
                });
                quote!(super::#name { #(#fields),* })
            }
        };
        let result = if self.refuses { quote!(Ok(#result)) } else { result };
        // One borrowed output that is given as it is needs no name.
        match (names.as_slice(), accesses.as_slice()) {
            ([name], [access]) if *name == result.to_string() => {
                quote!(blank!(); borrow(arena, #access))
            }
            _ => quote!(blank!(); #borrow #result),
        }
    }

    /// The form of input `i`.
    pub fn input_form(&self, i: usize) -> &Form {
        &self.inputs[i].form
    }

    /// The form of output `i`.
    pub fn output_form(&self, i: usize) -> &Form {
        &self.outputs[i].form
    }
}

impl Taken {
    fn ty(&self, lifetime: &TokenStream) -> TokenStream {
        let element = &self.element;
        match self.form {
            Form::Scalar => quote!(#element),
            Form::Array(len) => {
                let len = number(len);
                let life = (lifetime.to_string() != "'_").then(|| lifetime.clone());
                quote!(&#life [#element; #len])
            }
            Form::View(rank) => {
                let rank = number(rank);
                quote!(::onnxc_runtime::view::View<#lifetime, #element, #rank>)
            }
            Form::Heap(rank) => {
                let rank = number(rank);
                quote!(::onnxc_runtime::view::Tensor<#element, #rank>)
            }
        }
    }
}

/// An element type as the face spells it.
pub fn element(dtype: DType) -> TokenStream {
    dtype.rust().parse().expect("a type is tokens")
}

/// A number as it stands in code: without the name of its type.
pub fn number(n: usize) -> Literal {
    Literal::usize_unsuffixed(n)
}

/// Sizes as an array.
pub fn sizes(shape: &[Dim]) -> TokenStream {
    let sizes = shape.iter().map(size);
    quote!([#(#sizes),*])
}

/// A size as an expression.
pub fn size(dim: &Dim) -> TokenStream {
    format!("{dim:?}").parse().expect("a size is an expression")
}

fn check_size(port: &Port, name: &Ident, axis: &Literal, dim: &Dim) -> TokenStream {
    let (label, wanted, expected) = (docs::line(&port.name), format!("{dim:?}"), size(dim));
    quote! {
        ::onnxc_runtime::view::check_size(#label, #axis, #wanted, #expected, #name.shape()[#axis])?;
    }
}

fn input_form(port: &Port) -> Form {
    match port.ty.known_shape() {
        Some(shape) if shape.is_empty() && port.ty.dtype != DType::String => Form::Scalar,
        Some(shape) => Form::Array(shape.iter().product()),
        None => Form::View(port.ty.rank()),
    }
}

fn output_form(plan: &Plan, port: &Port) -> Form {
    if plan.buffers[port.operand.buffer].place == Place::Heap {
        return Form::Heap(port.ty.rank());
    }
    input_form(port)
}

/// Whether a step can refuse the inputs.
fn refuses(step: &Step) -> bool {
    match step {
        Step::Call(call) => call.checked,
        Step::Check(_) => true,
        Step::Loop(step) => step.body.steps.iter().any(refuses),
        Step::If(step) => step
            .branches
            .iter()
            .any(|block| block.refusal.is_some() || block.steps.iter().any(refuses)),
    }
}
