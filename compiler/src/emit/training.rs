//! Generates the methods of a trainable model: variables, and the algorithms that update them.

use super::{
    context::Context,
    memory::Memory,
    method::Method,
    text::doc,
    tokens::{array, number},
};
use crate::{
    ident::{self, Names},
    plan::{self, Place},
};
use proc_macro2::{Ident, TokenStream};
use quote::{ToTokens, quote};
use std::collections::HashSet;

/// The names that no algorithm can have: methods, and functions that the module imports.
const TAKEN: &[&str] = &[
    "new",
    "with_weights",
    "weights",
    "set_seed",
    "infer",
    "try_infer",
    "infer_with",
    "infer_profiled",
    "reset",
    "init",
    "initialize_variables",
    "arena_bytes",
    "buffers",
    "macs",
    "state",
    "load_state",
    "variables",
    "borrow",
    "broadcast",
    "heap",
    "heap_of",
];

/// The methods that change variables.
pub struct Training<'p> {
    cx: &'p Context,
    plans: &'p plan::Training,
    reset: Method<'p>,
    init: Method<'p>,
    steps: Vec<Method<'p>>,
}

impl<'p> Training<'p> {
    pub fn new(plans: &'p plan::Training, cx: &'p Context) -> Training<'p> {
        let steps = plans.steps.iter().zip(method_names(plans));
        Training {
            cx,
            plans,
            reset: Method::new(&plans.reset, cx, "reset"),
            init: Method::new(&plans.init, cx, "init"),
            steps: steps.map(|(step, name)| Method::new(&step.plan, cx, &name)).collect(),
        }
    }

    /// The methods that run plans.
    pub fn methods(&self) -> impl Iterator<Item = &Method<'p>> {
        [&self.reset, &self.init].into_iter().chain(&self.steps)
    }

    /// The method that runs the initializations.
    pub fn init(&self) -> &Method<'p> {
        &self.init
    }

    /// The method of each algorithm.
    pub fn steps(&self) -> &[Method<'p>] {
        &self.steps
    }

    /// Returns the constant that lists the variables.
    pub fn variables(&self) -> TokenStream {
        let variable = self.cx.imports.item("variable::Variable");
        let each = self.plans.variables().map(|port| {
            let Place::Arena { offset, .. } = self.plans.reset.buffers[port.operand.buffer].place
            else {
                unreachable!("the plan places variables in the arena")
            };
            let (name, ty) = (&port.name, port.dtype().to_string());
            let shape = port.ty.kept().and_then(|ty| ty.known_shape()).unwrap_or_default();
            let shape = array(shape.into_iter().map(|size| number(size).into_token_stream()));
            let (element, offset) = (self.cx.imports.element(port.dtype()), number(offset));
            quote!(#variable::new::<#element>(#name, #ty, &#shape, #offset))
        });
        quote! {
            /// The variables, in the order of the model.
            pub const VARIABLES: &'static [#variable] = &[#(#each),*];
        }
    }

    /// Returns the methods.
    pub fn items(&self) -> TokenStream {
        let steps = self.steps.iter().map(Method::items);
        let (init, reset) = (self.init_method(), self.reset_method());
        let (state, load_state) = (self.state(), self.load_state());
        let variables = self.variables_method();
        quote! {
            blank!();
            #(#steps blank!();)*
            #init
            blank!();
            #reset
            blank!();
            #state
            blank!();
            #load_state
            blank!();
            #variables
            blank!();
            /// Initializes the variables before the first run.
            fn initialize_variables(&mut self) {
                if !self.variables_initialized {
                    self.reset();
                }
            }
        }
    }

    /// Restarts the random numbers of all methods.
    fn restart_draws(&self) -> TokenStream {
        let draws = self.methods().filter(|method| method.draws().is_some());
        let draws: Vec<Ident> = draws.map(|method| method.field("draws")).collect();
        quote!(#(self.#draws.restart();)*)
    }

    fn init_method(&self) -> TokenStream {
        let (restart, init) =
            (self.restart_draws(), self.init.call(Memory::Fields, &TokenStream::new()));
        let text = "Initializes the variables by the initialization graphs of the model.";
        let mut lines = vec![text.to_owned()];
        lines.extend(restart_doc(&restart));
        let (mut result, mut question, mut done) = Default::default();
        if self.init.can_fail() {
            let name = self.cx.imports.item("Result");
            (result, question, done) = (quote!(-> #name), quote!(?), quote!(Ok(())));
            lines.extend(["", "# Errors", ""].map(String::from));
            lines.extend(self.init.errors().iter().map(|&line| line.into()));
        }
        let doc = doc(&lines);
        quote! {
            #doc
            pub fn init(&mut self) #result {
                #restart
                #init #question;
                self.variables_initialized = true;
                #done
            }
        }
    }

    fn reset_method(&self) -> TokenStream {
        let (restart, reset) =
            (self.restart_draws(), self.reset.call(Memory::Fields, &TokenStream::new()));
        let mut lines = vec!["Sets the variables to the values in the model file.".to_owned()];
        lines.extend(restart_doc(&restart));
        let doc = doc(&lines);
        quote! {
            #doc
            pub fn reset(&mut self) {
                #restart
                #reset;
                self.variables_initialized = true;
            }
        }
    }

    fn state(&self) -> TokenStream {
        let option = self.cx.imports.prelude("option", "Option");
        let bytes = self.cx.imports.function("variable::bytes");
        quote! {
            /// Returns the elements of a variable as bytes, or `None` if there is no variable of
            /// that name.
            pub fn state(&mut self, name: &str) -> #option<&[u8]> {
                self.initialize_variables();
                #bytes(Self::VARIABLES, name, self.arena.blocks())
            }
        }
    }

    fn load_state(&self) -> TokenStream {
        let (result, load) =
            (self.cx.imports.item("Result"), self.cx.imports.function("variable::load"));
        quote! {
            /// Sets the elements of a variable from bytes.
            ///
            /// # Errors
            ///
            /// There is no variable of that name, or `bytes` has another length, or is not made of
            /// elements of its type.
            pub fn load_state(&mut self, name: &str, bytes: &[u8]) -> #result {
                self.initialize_variables();
                #load(Self::VARIABLES, name, self.arena.blocks(), bytes)
            }
        }
    }

    fn variables_method(&self) -> TokenStream {
        let variables = self.cx.imports.item("variable::Variables");
        quote! {
            /// Returns all variables, to read and set them by name, or as a file with the feature
            /// `safetensors` of the runtime library.
            pub fn variables(&mut self) -> #variables<'_> {
                self.initialize_variables();
                #variables::new(Self::VARIABLES, self.arena.blocks())
            }
        }
    }
}

/// The note that `init` and `reset` restart the random numbers, if there are any.
fn restart_doc(restart: &TokenStream) -> Vec<String> {
    let text = "The random numbers restart from the seed that was set last.";
    if restart.is_empty() { Vec::new() } else { vec![String::new(), text.to_owned()] }
}

/// Names the methods that run the algorithms: `step` for a single one, else the name of its graph.
/// The types of their outputs are named after them, so the names differ in camel case too.
fn method_names(training: &plan::Training) -> Vec<String> {
    let mut names = Names::default();
    for name in TAKEN {
        names.unique((*name).to_owned());
    }
    let mut types = HashSet::new();
    let mut unique = |word: String| loop {
        let name = names.unique(word.clone());
        if types.insert(ident::camel(&name)) {
            return name;
        }
    };
    let is_one = training.steps.len() == 1;
    let each = training.steps.iter().map(|step| match ident::snake(&step.name) {
        _ if is_one || step.name.is_empty() => unique("step".into()),
        // `try_` and the name of an algorithm is a method too.
        word if word.starts_with("try") => unique(word + "_"),
        word => unique(word),
    });
    each.collect()
}
