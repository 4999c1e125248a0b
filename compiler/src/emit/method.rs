//! A method of the model's struct, and the function with the kernel calls behind it.

use super::{
    Observed,
    context::Context,
    nodes::Observer,
    port::{Form, Spelling},
    tokens::number,
    weights,
};
use crate::{
    arena::Map,
    dtype::DType,
    ident::{self, Names},
    plan::{Buffer, BufferId, Kind, Place, Plan, Step},
};
use proc_macro2::{Ident, TokenStream};
use quote::{format_ident, quote};
use std::{
    cell::{Cell, RefCell},
    collections::{HashMap, HashSet},
};

/// How a program calls a generated module.
#[derive(Clone, Debug, PartialEq)]
pub struct Signature {
    /// The model's struct.
    pub model: String,
    /// The form of each input, in order.
    pub inputs: Vec<Form>,
    /// The field and the form of each output, in order. A single output has no field.
    pub outputs: Vec<(String, Form)>,
    /// Whether `infer` returns a `Result`.
    pub refuses: bool,
    /// Whether one run passes state to the next.
    pub keeps_state: bool,
}

/// A method of the model's struct that runs a plan.
pub struct Method<'p> {
    pub plan: &'p Plan,
    /// The context that all methods share.
    pub cx: &'p Context,
    /// Its name, which is also that of the function with the kernel calls.
    pub name: Ident,
    /// The name of each buffer, in snake case.
    pub names: Map<BufferId, String>,
    /// Every name, and those that were derived from others.
    derived: RefCell<(Names, HashMap<String, Ident>)>,
    pub inputs: Vec<Input>,
    pub outputs: Vec<Output>,
    /// The number of constant tensors of strings.
    pub strings: usize,
    /// Whether the function reads weights.
    pub reads_weights: Cell<bool>,
    /// The nodes and the observer of a run, if it has one.
    pub observer: Option<Observer>,
    errors: Vec<&'static str>,
}

/// An input of a method.
pub struct Input {
    pub name: Ident,
    pub form: Form,
    pub dtype: DType,
}

/// An output of a method.
pub struct Output {
    /// The field of the output struct.
    pub field: Ident,
    /// The variable for the elements.
    pub local: Ident,
    pub form: Form,
    pub dtype: DType,
}

impl<'p> Method<'p> {
    /// The method `name`, which runs `plan`.
    pub fn new(plan: &'p Plan, cx: &'p Context, name: &str) -> Method<'p> {
        let mut names = Names::default();
        for symbol in plan.symbols.keys() {
            names.unique(symbol.to_string());
        }
        // An argument of this name would hide the function.
        names.unique(name.to_owned());
        let buffers = buffer_names(plan, &mut names);
        let inputs = plan.inputs.iter().map(|port| Input {
            name: format_ident!("{}", buffers[port.operand.buffer]),
            form: match port.default {
                Some(_) => Form::Optional(Form::of_input(&port.ty).into()),
                None => Form::of_input(&port.ty),
            },
            dtype: port.dtype(),
        });
        let inputs: Vec<Input> = inputs.collect();
        let outputs = outputs(plan, &buffers, &mut names);
        let errors = errors(plan, &inputs, &outputs);
        let is_observed = name == "infer" && cx.observed != Observed::default();
        let observer =
            is_observed.then(|| Observer::new(plan, &names.unique("observer".to_owned())));
        Method {
            plan,
            cx,
            name: format_ident!("{name}"),
            names: buffers,
            derived: RefCell::new((names, HashMap::new())),
            inputs,
            outputs,
            strings: weights::strings(plan).len(),
            reads_weights: Cell::new(false),
            observer,
            errors,
        }
    }

    /// How a program calls the method.
    pub fn signature(&self) -> Signature {
        let outputs = self.outputs.iter();
        Signature {
            model: self.cx.public.to_string(),
            inputs: self.inputs.iter().map(|input| input.form.clone()).collect(),
            outputs: outputs.map(|y| (y.field.to_string(), y.form.clone())).collect(),
            refuses: self.can_fail(),
            keeps_state: self.keeps_state(),
        }
    }

    /// Returns whether the method runs inference, not an algorithm that changes variables.
    pub fn is_inference(&self) -> bool {
        self.name == "infer"
    }

    /// Returns whether the method returns a `Result`.
    pub fn can_fail(&self) -> bool {
        !self.errors.is_empty()
    }

    /// The conditions under which the method returns an error, a sentence each.
    pub fn errors(&self) -> &[&'static str] {
        &self.errors
    }

    /// Returns a name derived from another one. The same arguments give the same name.
    pub fn derive_name(&self, name: &str, suffix: &str) -> Ident {
        let (names, derived) = &mut *self.derived.borrow_mut();
        let wanted = format!("{}_{suffix}", name.trim_end_matches('_'));
        let ident = derived.entry(wanted.clone());
        ident.or_insert_with(|| format_ident!("{}", names.unique(wanted))).clone()
    }

    /// Returns a new name derived from another one.
    pub fn fresh_name(&self, name: &str, suffix: &str) -> Ident {
        let wanted = format!("{}_{suffix}", name.trim_end_matches('_'));
        format_ident!("{}", self.derived.borrow_mut().0.unique(wanted))
    }

    /// Names a field of the struct that belongs to the method.
    pub fn field(&self, name: &str) -> Ident {
        match self.name.to_string().as_str() {
            "infer" => format_ident!("{name}"),
            method => format_ident!("{}_{name}", method.trim_end_matches('_')),
        }
    }

    /// Names the constant strings that the function reads.
    pub fn strings_constant(&self) -> Ident {
        format_ident!("{}", self.field("strings").to_string().to_uppercase())
    }

    /// Returns the field for the constant strings, and its initializer.
    pub fn strings_field(&self) -> Option<[TokenStream; 2]> {
        let (count, field) = (number(self.strings), self.field("strings"));
        let strings = || self.cx.imports.item("strings::Strings");
        (self.strings > 0).then(|| {
            let strings = strings();
            [quote!(#field: #strings<#count>,), quote!(#field: #strings::new(),)]
        })
    }

    /// Returns the head of the function with the kernel calls.
    pub fn function_head(&self) -> TokenStream {
        let imports = &self.cx.imports;
        let spelling = Spelling { imports };
        let parameters = self.inputs.iter().map(|Input { name, form, dtype }| {
            let ty = match form {
                Form::Scalar | Form::Array(_) => {
                    let element = spelling.input_element(*dtype);
                    quote!(&[#element])
                }
                form => spelling.input(form, *dtype),
            };
            quote!(#name: #ty)
        });
        let generics = self.borrows().then(|| quote!(<'a>));
        let life = self.borrows().then(|| quote!('a));
        let weights = self.reads_weights.get().then(|| {
            let weights = imports.item("arena::WeightsView");
            quote!(weights: #weights<'_>,)
        });
        let strings = (self.strings > 0).then(|| {
            let (constants, count) = (imports.item("strings::Constants"), number(self.strings));
            quote!(strings: &#constants<#count>,)
        });
        let draws = self.draws().map(|count| {
            let draws = imports.item("random::Draws");
            quote!(draws: &mut #draws<#count>,)
        });
        let (state, name) = (self.state_parameter(), &self.name);
        let observer = self.observer_parameter();
        let (arena, result) = (self.arena_parameter(), self.result(&quote!('a)));
        quote! {
            fn #name #generics (
                #weights
                arena: &#life mut #arena,
                #strings
                #draws
                #state
                #observer
                #(#parameters),*
            ) #result
        }
    }
}

/// Names the buffers: those of inputs and outputs first, so that they keep their names.
fn buffer_names(plan: &Plan, names: &mut Names) -> Map<BufferId, String> {
    let mut layouts: HashMap<BufferId, &str> = HashMap::new();
    plan.calls(&mut |call| {
        let layout = match call.kernel.rsplit("::").next() {
            Some("unblock") => "nchw",
            Some("block") => "nchwc",
            Some("to_channels_first") => "nchw",
            Some("from_channels_first") => "nhwc",
            _ => return,
        };
        layouts.extend(call.writes().map(|operand| (operand.buffer, layout)));
    });
    let mut found = Map::default();
    let ports = plan.inputs.iter().chain(&plan.outputs).map(|port| port.operand.buffer);
    for id in ports.chain(plan.buffers.ids()) {
        if !found.contains(id) {
            let name = ident::snake(&plan.buffers[id].name);
            // A value has a buffer for each of its layouts.
            let name = match layouts.get(&id) {
                Some(layout) if names.contains(&name) => format!("{name}_{layout}"),
                _ => name,
            };
            found.insert(id, names.unique(name));
        }
    }
    found
}

fn outputs(plan: &Plan, buffers: &Map<BufferId, String>, names: &mut Names) -> Vec<Output> {
    let (mut taken, mut fields) = (HashSet::new(), Names::default());
    let outputs = plan.outputs.iter().map(|port| {
        let field = fields.unique(ident::snake(&port.name));
        // Two outputs may be one value.
        let local = if taken.insert(port.operand.buffer) {
            buffers[port.operand.buffer].clone()
        } else {
            names.unique(field.clone())
        };
        Output {
            field: format_ident!("{field}"),
            local: format_ident!("{local}"),
            form: Form::of_output(plan, port),
            dtype: port.dtype(),
        }
    });
    outputs.collect()
}

/// The conditions under which a method returns an error.
fn errors(plan: &Plan, inputs: &[Input], outputs: &[Output]) -> Vec<&'static str> {
    let checks_sizes = inputs.iter().any(|input| input.form.can_fail())
        || outputs.iter().any(|output| output.form.can_fail())
        || plan.states.iter().any(|state| !state.found.ty.is_fixed())
        || plan.steps.iter().any(Step::refuses_sizes);
    let checks_elements = plan.steps.iter().any(Step::refuses_elements);
    let sizes = "The sizes of the inputs do not fit the model, or each other.";
    let elements = "A node cannot take the values that it is given, such as an index out of range.";
    let memory = "There is not enough memory for the sizes of the inputs.";
    let errors = [
        checks_sizes.then_some(sizes),
        has_unbounded_memory(plan).then_some(memory),
        checks_elements.then_some(elements),
    ];
    errors.into_iter().flatten().collect()
}

/// Returns whether memory for a value may be missing, because its size is unbounded.
fn has_unbounded_memory(plan: &Plan) -> bool {
    let is_unbounded = |buffer: &Buffer| {
        buffer.place == Place::Heap && buffer.kind == Kind::Elements && buffer.len.known().is_none()
    };
    !plan.dynamic.is_empty() || plan.buffers.iter().any(|(_, buffer)| is_unbounded(buffer))
}
