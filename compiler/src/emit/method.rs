//! The public face of a plan: a method of the model's struct.

use super::{ArenaIn, Style, arena::Run, docs, port::Form, weights};
use crate::{
    arena::Map,
    dim::Dim,
    dtype::DType,
    ident::{self, Names},
    plan::{BufferId, Kind, Place, Plan, Step},
};
use proc_macro2::{Ident, Literal, TokenStream};
use quote::{ToTokens, format_ident, quote};
use std::{
    cell::RefCell,
    collections::{HashMap, HashSet},
};

/// How many slots are borrowed at once: the longest tuple of slots.
const PLACES: usize = 12;

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
    /// Whether one run hands something to the next.
    pub keeps_state: bool,
}

/// What the face and the steps must agree on.
pub struct Face<'p> {
    pub(super) plan: &'p Plan,
    /// Where the arena is.
    pub(super) arena: ArenaIn,
    /// The model's struct.
    pub model: Ident,
    /// The method that runs the plan.
    pub method: Ident,
    /// The private module with its calls.
    pub room: Ident,
    /// The name of each buffer, in snake case.
    pub names: Map<BufferId, String>,
    /// Every name, and those that were made of others.
    derived: RefCell<(Names, HashMap<String, Ident>)>,
    pub(super) inputs: Vec<Given>,
    outputs: Vec<Taken>,
    /// How many constant tensors of strings there are.
    strings: usize,
    /// When the model refuses its inputs.
    refusals: Vec<&'static str>,
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
    /// The variable for its elements.
    pub local: Ident,
    /// How.
    pub form: Form,
    /// The element type, as Rust.
    pub element: TokenStream,
}

impl<'p> Face<'p> {
    /// The face of inference.
    pub fn new(plan: &'p Plan, style: &Style) -> Face<'p> {
        Face::of(plan, style, "infer")
    }

    /// The face of a plan that `method` runs.
    pub fn of(plan: &'p Plan, style: &Style, method: &str) -> Face<'p> {
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
        let mut taken = HashSet::new();
        let inputs: Vec<Given> = plan
            .inputs
            .iter()
            .map(|port| Given {
                name: format_ident!("{}", buffers[port.operand.buffer]),
                form: match port.default {
                    Some(_) => Form::Optional(Form::of_input(&port.ty).into()),
                    None => Form::of_input(&port.ty),
                },
                element: element(port.dtype()),
            })
            .collect();
        let mut fields = Names::default();
        let outputs = plan.outputs.iter().map(|port| {
            let field = fields.unique(ident::snake(&port.name));
            // Two outputs may be one value.
            let local = if taken.insert(port.operand.buffer) {
                buffers[port.operand.buffer].clone()
            } else {
                names.unique(field.clone())
            };
            Taken {
                name: format_ident!("{field}"),
                local: format_ident!("{local}"),
                form: Form::of_output(plan, port),
                element: element(port.dtype()),
            }
        });
        let outputs: Vec<Taken> = outputs.collect();
        let refuses_sizes = inputs.iter().any(|given| given.form.refuses())
            || outputs.iter().any(|taken| taken.form.refuses())
            || plan.states.iter().any(|state| !state.found.ty.is_fixed())
            || has_open_sizes(plan)
            || plan.steps.iter().any(Step::refuses_sizes);
        let refuses_elements = plan.steps.iter().any(Step::refuses_elements);
        Face {
            plan,
            arena: style.arena,
            room: format_ident!("{}", room(style, method)),
            method: format_ident!("{method}"),
            model: format_ident!("{}", ident::camel(&style.name)),
            names: buffers,
            derived: RefCell::new((names, HashMap::new())),
            refusals: [
                refuses_sizes
                    .then_some("Where the inputs' sizes do not fit the model, or each other."),
                refuses_elements.then_some(
                    "Where a node refuses what it is given, such as an index outside an axis.",
                ),
            ]
            .into_iter()
            .flatten()
            .collect(),
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
            refuses: self.refuses(),
            keeps_state: self.keeps_state(),
        }
    }

    /// Whether the model can refuse its inputs.
    pub fn refuses(&self) -> bool {
        !self.refusals.is_empty()
    }

    /// A name made of another one, which nothing else has.
    pub fn derived(&self, name: &str, what: &str) -> Ident {
        let (names, derived) = &mut *self.derived.borrow_mut();
        let wanted = format!("{}_{what}", name.trim_end_matches('_'));
        let ident = derived.entry(wanted.clone());
        ident.or_insert_with(|| format_ident!("{}", names.unique(wanted))).clone()
    }

    /// The method.
    pub fn method(&self) -> TokenStream {
        let arguments = self.inputs.iter().map(|Given { name, form, element }| {
            let ty = form.given(element);
            quote!(#name: #ty)
        });
        let given = self.inputs.iter().map(|Given { name, form, .. }| match form {
            Form::Scalar => quote!(&[#name]),
            _ => quote!(#name),
        });
        let Run { method, argument, life, .. } = self.run();
        let (result, call) = (arrow(&self.result(&life)), self.call(&quote!(#(#given),*)));
        let begin = self.plan.learns.then(|| quote!(self.begin();));
        let mut text = docs::method(self);
        if self.refuses() {
            text.extend(["", "# Errors", ""].iter().chain(&self.refusals).map(|&line| line.into()));
            if self.keeps_state() {
                text.push("An error in the middle of a run resets the model.".into());
            }
            if self.plan.learns {
                text.push("The variables are then as they were.".into());
            }
        }
        let doc = docs::lines(&text);
        quote! {
            #doc
            pub fn #method(&mut self, #argument #(#arguments),*) #result {
                #begin
                #call
            }
        }
    }

    /// The call of the function that does the steps, on these arguments.
    pub fn call(&self, given: &TokenStream) -> TokenStream {
        let (method, room) = (&self.method, &self.room);
        let strings = (self.strings > 0).then(|| {
            let strings = self.field("strings");
            quote!(self.#strings.of(&#room::STRINGS),)
        });
        let draws = self.draws().map(|_| {
            let draws = self.field("draws");
            quote!(&mut self.#draws,)
        });
        let state = self.keeps_state().then(|| quote!(&mut self.held,));
        let blocks = self.run().blocks;
        quote!(#room::#method(&self.weights(), #blocks, #strings #draws #state #given))
    }

    /// Whether the weights of the model stand in the plan's private module.
    pub fn has_weights(&self) -> bool {
        self.method == "infer"
    }

    /// A field of the struct that the plan alone has.
    pub fn field(&self, what: &str) -> Ident {
        match self.method.to_string().as_str() {
            "infer" => format_ident!("{what}"),
            method => format_ident!("{}_{what}", method.trim_end_matches('_')),
        }
    }

    /// The field for the constant strings, and what it is at first.
    pub fn strings_field(&self) -> Option<[TokenStream; 2]> {
        let (count, field) = (number(self.strings), self.field("strings"));
        let path = quote!(::onnxc_runtime::strings::Strings);
        (self.strings > 0).then(|| [quote!(#field: #path<#count>,), quote!(, #field: #path::new())])
    }

    /// The struct of several outputs; one output stands for itself.
    pub fn output_struct(&self) -> TokenStream {
        if self.outputs.len() <= 1 {
            return TokenStream::new();
        }
        let (model, name) = (&self.model, self.output());
        let doc = docs::lines(&[match self.method.to_string().as_str() {
            "infer" => format!("What [`{model}`] gives."),
            method => format!("What [`{model}::{method}`] gives."),
        }]);
        let fields = self.outputs.iter().zip(&self.plan.outputs).map(|(taken, port)| {
            let (field, ty, doc) = (&taken.name, taken.ty(&quote!('a)), docs::port(port));
            quote!(#doc pub #field: #ty,)
        });
        let generics = self.borrows().then(|| quote!(<'a>));
        quote! {
            blank!();
            #doc
            #[allow(dead_code)]
            #[derive(Clone, Debug)]
            pub struct #name #generics {
                #(#fields)*
            }
        }
    }

    /// The struct of several outputs.
    fn output(&self) -> Ident {
        let model = self.model.to_string();
        let method = match self.method.to_string().as_str() {
            "infer" => String::new(),
            method => ident::camel(method),
        };
        let [model, method] = [model.as_str(), &method].map(|word| word.trim_end_matches('_'));
        format_ident!("{model}{method}Output")
    }

    /// Whether an output is borrowed from the arena.
    pub(super) fn borrows(&self) -> bool {
        self.outputs.iter().any(|taken| taken.form.borrows())
    }

    fn result(&self, lifetime: &TokenStream) -> TokenStream {
        let plain = match self.outputs.as_slice() {
            [] => quote!(()),
            [one] => one.ty(lifetime),
            _ => {
                let name = self.output();
                if self.borrows() { quote!(#name<#lifetime>) } else { quote!(#name) }
            }
        };
        if self.refuses() { quote!(::onnxc_runtime::Result<#plain>) } else { plain }
    }

    /// The head of the function that does the steps.
    pub fn steps_head(&self) -> TokenStream {
        let arguments = self.inputs.iter().map(|Given { name, form, element }| {
            let ty = match form {
                Form::Scalar | Form::Array(_) => quote!(&[#element]),
                Form::View(rank) => {
                    let rank = number(*rank);
                    quote!(View<'_, #element, #rank>)
                }
                form => form.given(element),
            };
            quote!(#name: #ty)
        });
        let result = match self.outputs.len() {
            0 | 1 => self.result(&quote!('a)),
            _ => {
                let name = self.output();
                let plain =
                    if self.borrows() { quote!(super::#name<'a>) } else { quote!(super::#name) };
                if self.refuses() { quote!(::onnxc_runtime::Result<#plain>) } else { plain }
            }
        };
        let generics = self.borrows().then(|| quote!(<'a>));
        let life = self.borrows().then(|| quote!('a));
        let strings = (self.strings > 0).then(|| {
            let count = number(self.strings);
            quote!(strings: &::onnxc_runtime::strings::Constants<#count>,)
        });
        let draws = self.draws().map(|count| quote!(draws: &mut Draws<#count>,));
        let (state, method) = (self.state_argument(), &self.method);
        let result = arrow(&result);
        quote! {
            pub(super) fn #method #generics (
                weights: &::onnxc_runtime::arena::Weights,
                arena: &#life mut [Block],
                #strings
                #draws
                #state
                #(#arguments),*
            ) #result
        }
    }

    /// The last lines of the function: borrows the outputs and gives them.
    pub fn give_outputs(
        &self,
        slots: &dyn Fn(usize) -> TokenStream,
        heap: &dyn Fn(usize) -> TokenStream,
        given: &dyn Fn(usize) -> Option<TokenStream>,
    ) -> TokenStream {
        let borrowed: Vec<usize> =
            (0..self.outputs.len()).filter(|&i| self.outputs[i].form.is_in_arena()).collect();
        let local = |i: usize| self.outputs[i].local.clone();
        let is_there = |i: usize| self.derived(&self.outputs[i].local.to_string(), "given");
        let flags: TokenStream = (0..self.outputs.len())
            .filter(|&i| matches!(self.outputs[i].form, Form::Optional(_)))
            .filter_map(|i| Some((is_there(i), given(i)?)))
            .map(|(name, flag)| quote!(let #name = #flag;))
            .collect();
        let names: Vec<Ident> = borrowed.iter().map(|&i| local(i)).collect();
        let accesses: Vec<TokenStream> = borrowed.iter().map(|&i| slots(i)).collect();
        let borrow = match names.as_slice() {
            [] => TokenStream::new(),
            [name] => quote!(let #name = borrow(arena, #(#accesses)*);),
            _ => {
                let tokens = names.iter().map(ToTokens::to_token_stream).collect();
                let (names, accesses) = together(tokens, accesses.clone());
                quote!(let (#(#names),*) = borrow(arena, (#(#accesses),*));)
            }
        };
        let value = |i: usize| {
            let (port, form) = (&self.plan.outputs[i], &self.outputs[i].form);
            let flag = is_there(i).into_token_stream();
            let heap = if form.is_in_arena() { TokenStream::new() } else { heap(i) };
            form.give(self.plan, port, &local(i), &heap, &flag)
        };
        let result = match self.outputs.len() {
            0 if !self.refuses() => return TokenStream::new(),
            0 => quote!(()),
            1 => value(0),
            n => {
                let name = self.output();
                let fields = (0..n).map(|i| {
                    let (field, value) = (&self.outputs[i].name, value(i));
                    if *field == value.to_string() {
                        quote!(#field)
                    } else {
                        quote!(#field: #value)
                    }
                });
                quote!(super::#name { #(#fields),* })
            }
        };
        let result = if self.refuses() { quote!(Ok(#result)) } else { result };
        // One borrowed output that is given as it is needs no name.
        match (names.as_slice(), accesses.as_slice()) {
            ([name], [access]) if *name == result.to_string() => {
                quote!(blank!(); borrow(arena, #access))
            }
            _ => quote!(blank!(); #flags #borrow #result),
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

/// What a function says of its result.
fn arrow(result: &TokenStream) -> TokenStream {
    let is_none = result.to_string() == "()";
    if is_none { TokenStream::new() } else { quote!(-> #result) }
}

/// The name of the private module with the calls of a method.
fn room(style: &Style, method: &str) -> String {
    let name = ident::snake(&style.name);
    if method == "infer" { name } else { format!("{}_{method}", name.trim_end_matches('_')) }
}

/// Names and accesses in groups, where there are more than a tuple of slots has places.
fn together(
    names: Vec<TokenStream>,
    accesses: Vec<TokenStream>,
) -> (Vec<TokenStream>, Vec<TokenStream>) {
    if names.len() <= PLACES {
        return (names, accesses);
    }
    let group = names.chunks(PLACES).map(|names| quote!((#(#names,)*))).collect();
    let path = quote!(::onnxc_runtime::arena::Together);
    let groups = accesses.chunks(PLACES).map(|all| quote!(#path((#(#all,)*)))).collect();
    together(group, groups)
}

impl Taken {
    fn ty(&self, lifetime: &TokenStream) -> TokenStream {
        self.form.taken(&self.element, lifetime)
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

/// Whether memory for a value of unknown size may be refused.
fn has_open_sizes(plan: &Plan) -> bool {
    plan.buffers.iter().any(|(_, buffer)| {
        buffer.place == Place::Heap && buffer.kind == Kind::Elements && buffer.len.known().is_none()
    })
}
