//! The struct of a module with its constants and methods, made of the faces of its plans.

use super::{
    Style, docs,
    method::{Face, number},
    training::Learning,
};
use proc_macro2::{Literal, TokenStream};
use quote::quote;

/// What a module is made of: the face of inference, and those of learning.
pub struct Model<'p> {
    pub infer: Face<'p>,
    pub learning: Option<Learning<'p>>,
}

impl Model<'_> {
    /// The faces, each with a room of its own.
    pub fn faces(&self) -> impl Iterator<Item = &Face<'_>> {
        let learning = self.learning.iter().flat_map(Learning::faces);
        std::iter::once(&self.infer).chain(learning)
    }

    /// The struct with its methods.
    pub fn items(&self, style: &Style, notes: &[String]) -> TokenStream {
        let plan = self.infer.plan;
        let (model, doc) = (&self.infer.model, docs::model(plan, style, notes));
        let room = &self.infer.room;
        let (arena, new_arena) = (self.infer.arena_field(), self.infer.new_arena());
        let (arena_bytes, weight_bytes) = (number(plan.arena_bytes), number(plan.weight_bytes));
        let macs = Literal::u64_unsuffixed(plan.macs);
        let (fields, initial) = self.fields();
        let variables = self.learning.as_ref().map(Learning::variables);
        let (set_seed, reset) = (self.set_seed(), self.infer.reset());
        let (infer, learning) = (self.infer.method(), self.learning.as_ref().map(|l| l.methods()));
        let outputs = self.faces().map(Face::output_struct);
        quote! {
            #doc
            #[derive(Clone, Debug)]
            pub struct #model {
                /// The caller's, or none for the program's: so a new model is nothing but zeros.
                weights: ::core::option::Option<::onnxc_runtime::arena::Weights>,
                #arena
                #fields
            }
            blank!();
            #[allow(dead_code, clippy::pedantic, clippy::nursery)]
            impl #model {
                /// The bytes of memory that one run needs, beside what the caller gives.
                pub const PEAK_ARENA_BYTES: usize = #arena_bytes;
                /// The bytes of all weights.
                pub const WEIGHT_BYTES: usize = #weight_bytes;
                /// The multiply-adds of one run, where every size is known.
                pub const MACS: u64 = #macs;
                #variables
                blank!();
                /// The model with the weights that the program carries.
                pub const fn new() -> #model {
                    #model { weights: ::core::option::Option::None #new_arena #initial }
                }
                blank!();
                /// The model with weights that the caller has, in flash or mapped from a file.
                ///
                /// # Errors
                ///
                /// Where they are not as long as the model's, or start at no multiple of 16 bytes.
                pub fn with_weights(weights: &'static [u8]) -> ::onnxc_runtime::Result<#model> {
                    let weights = ::onnxc_runtime::arena::Weights::from_bytes(weights, #model::WEIGHT_BYTES)?;
                    Ok(#model { weights: ::core::option::Option::Some(weights) #new_arena #initial })
                }
                blank!();
                #set_seed
                #reset
                #infer
                #learning
                blank!();
                /// The weights.
                fn weights(&self) -> ::onnxc_runtime::arena::Weights {
                    self.weights.unwrap_or(::onnxc_runtime::arena::Weights::new(#room::WEIGHTS))
                }
            }
            blank!();
            impl ::core::default::Default for #model {
                fn default() -> Self {
                    Self::new()
                }
            }
            #(#outputs)*
        }
    }

    /// The fields beside weights and arena, and what they are at first.
    fn fields(&self) -> (TokenStream, TokenStream) {
        let (mut fields, mut initial) = (TokenStream::new(), TokenStream::new());
        for face in self.faces() {
            if let Some([field, at_first]) = face.strings_field() {
                fields.extend(field);
                initial.extend(at_first);
            }
            fields.extend(face.draws_field());
            initial.extend(face.no_draws());
        }
        fields.extend(self.infer.state_field());
        initial.extend(self.infer.no_state());
        if self.learning.is_some() {
            fields.extend(quote! {
                /// Whether the arena holds the variables.
                begun: bool,
            });
            initial.extend(quote!(, begun: false));
        }
        (fields, initial)
    }

    /// The method that starts the random numbers anew.
    fn set_seed(&self) -> Option<TokenStream> {
        let fields: Vec<_> =
            self.faces().filter(|face| face.draws().is_some()).map(|f| f.field("draws")).collect();
        (!fields.is_empty()).then(|| {
            quote! {
                /// Starts the random numbers anew, from this seed; a new model has the seed 0. The
                /// same seed gives the same numbers in the same order of runs, on every machine.
                /// A node with a seed of its own keeps it, and starts anew from that.
                pub fn set_seed(&mut self, seed: u64) {
                    #(self.#fields = ::onnxc_runtime::random::Draws::new(seed);)*
                }
                blank!();
            }
        })
    }
}
