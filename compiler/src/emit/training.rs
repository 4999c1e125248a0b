//! What the module of a model that learns has beside inference: variables, and what changes them.

use super::{
    Style, docs,
    method::{Face, element, number},
};
use crate::{
    ident::{self, Names},
    plan::{Place, Training},
};
use proc_macro2::TokenStream;
use quote::quote;

/// The methods that all models that learn have.
const METHODS: &[&str] = &[
    "new",
    "with_weights",
    "weights",
    "set_seed",
    "infer",
    "reset",
    "init",
    "begin",
    "state",
    "load_state",
    "variables",
];

/// The faces of what changes variables.
pub struct Learning<'p> {
    training: &'p Training,
    reset: Face<'p>,
    init: Face<'p>,
    steps: Vec<Face<'p>>,
}

impl<'p> Learning<'p> {
    pub fn new(training: &'p Training, style: &Style) -> Learning<'p> {
        let of = |(step, method): (&'p crate::plan::Algorithm, String)| {
            Face::of(&step.plan, style, &method)
        };
        Learning {
            training,
            reset: Face::of(&training.reset, style, "reset"),
            init: Face::of(&training.init, style, "init"),
            steps: training.steps.iter().zip(methods(training)).map(of).collect(),
        }
    }

    /// The faces, each with a room of its own.
    pub fn faces(&self) -> impl Iterator<Item = &Face<'p>> {
        [&self.reset, &self.init].into_iter().chain(&self.steps)
    }

    /// The face of the initializations.
    pub fn init(&self) -> &Face<'p> {
        &self.init
    }

    /// The face of each algorithm.
    pub fn steps(&self) -> &[Face<'p>] {
        &self.steps
    }

    /// The constant that lists the variables.
    pub fn variables(&self) -> TokenStream {
        let each = self.training.variables().map(|port| {
            let Place::Arena { offset, .. } =
                self.training.reset.buffers[port.operand.buffer].place
            else {
                unreachable!("variables lie in the arena")
            };
            let (name, ty) = (&port.name, port.dtype().to_string());
            let shape = port.ty.kept().and_then(|ty| ty.known_shape()).unwrap_or_default();
            let shape = shape.into_iter().map(number);
            let (element, offset) = (element(port.dtype()), number(offset));
            quote!(::onnxc_runtime::variable::Variable::new::<#element>(#name, #ty, &[#(#shape),*], #offset))
        });
        quote! {
            /// What the model learns, in the model's order.
            pub const VARIABLES: &'static [::onnxc_runtime::variable::Variable] = &[#(#each),*];
        }
    }

    /// The methods.
    pub fn methods(&self) -> TokenStream {
        let steps = self.steps.iter().map(Face::method);
        let [reset, init] = [&self.reset, &self.init].map(|face| face.call(&TokenStream::new()));
        let draws = self.faces().filter(|face| face.draws().is_some()).map(|f| f.field("draws"));
        let draws: Vec<_> = draws.collect();
        let restart = quote!(#(self.#draws.restart();)*);
        let (result, refuse, done) = match self.init.refuses() {
            true => (quote!(-> ::onnxc_runtime::Result), quote!(?), Some(quote!(Ok(())))),
            false => Default::default(),
        };
        let errors = self.init.refuses().then(|| {
            docs::lines(
                &["", "# Errors", "", "Where an initialization refuses its constants."]
                    .map(String::from),
            )
        });
        quote! {
            blank!();
            #(#steps blank!();)*
            /// Sets the variables to what the initializations make of them, and starts the random
            /// numbers anew, from the seed that was set last.
            #errors
            pub fn init(&mut self) #result {
                #restart
                #init #refuse;
                self.begun = true;
                #done
            }
            blank!();
            /// Sets the variables to what they are in a new model, and starts the random numbers
            /// anew, from the seed that was set last.
            pub fn reset(&mut self) {
                #restart
                #reset;
                self.begun = true;
            }
            blank!();
            /// The elements of the variable of that name, as bytes; nothing where there is none.
            pub fn state(&mut self, name: &str) -> ::core::option::Option<&[u8]> {
                self.begin();
                ::onnxc_runtime::variable::bytes(Self::VARIABLES, name, self.arena.blocks())
            }
            blank!();
            /// Sets the variable of that name to the elements that these bytes are.
            ///
            /// # Errors
            ///
            /// Where there is none, or the bytes are no elements of its type, or not as many.
            pub fn load_state(&mut self, name: &str, bytes: &[u8]) -> ::onnxc_runtime::Result {
                self.begin();
                ::onnxc_runtime::variable::load(Self::VARIABLES, name, self.arena.blocks(), bytes)
            }
            blank!();
            /// All variables, to be read and set by name, or as a file: feature `safetensors` of the
            /// runtime library.
            pub fn variables(&mut self) -> ::onnxc_runtime::variable::Variables<'_> {
                self.begin();
                ::onnxc_runtime::variable::Variables::new(Self::VARIABLES, self.arena.blocks())
            }
            blank!();
            /// Puts the variables into the arena, where they are not there yet.
            fn begin(&mut self) {
                if !self.begun {
                    self.reset();
                }
            }
        }
    }
}

/// The methods that run the algorithms: `step` where there is one, else each has the name of its
/// graph.
pub fn methods(training: &Training) -> Vec<String> {
    let mut names = Names::default();
    for name in METHODS {
        names.unique((*name).to_owned());
    }
    let is_one = training.steps.len() == 1;
    let each = training.steps.iter().map(|step| match step.name.as_str() {
        "" => names.unique("step".into()),
        _ if is_one => names.unique("step".into()),
        name => names.unique(ident::snake(name)),
    });
    each.collect()
}
