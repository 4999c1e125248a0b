//! The struct of a module with its constants and methods.

use super::{Style, context::Context, docs, method::Method, tokens::number, training::Training};
use proc_macro2::{Ident, Literal, TokenStream};
use quote::quote;

/// The methods of a module.
pub struct Model<'p> {
    pub cx: &'p Context,
    pub infer: Method<'p>,
    pub training: Option<Training<'p>>,
}

impl Model<'_> {
    /// The methods that run plans.
    pub fn methods(&self) -> impl Iterator<Item = &Method<'_>> {
        let training = self.training.iter().flat_map(Training::methods);
        std::iter::once(&self.infer).chain(training)
    }

    /// Returns the `pub use` of the structs.
    pub fn exports(&self) -> TokenStream {
        let Context { model, public, module, .. } = self.cx;
        let outputs = self.methods().filter_map(Method::output_struct_names);
        let structs = std::iter::once([model.clone(), public.clone()]).chain(outputs);
        let exports: Vec<TokenStream> = structs
            .map(|[name, exported]| match name == exported {
                true => quote!(#name),
                false => quote!(#name as #exported),
            })
            .collect();
        let exports = match exports.as_slice() {
            [one] => quote!(#one),
            all => quote!({#(#all),*}),
        };
        quote! {
            #[allow(unused_imports)]
            pub use #module::#exports;
        }
    }

    /// Returns the structs with their methods; `notes` are the last lines of the documentation.
    pub fn items(&self, style: &Style, notes: &[String]) -> TokenStream {
        let (model, doc) = (&self.cx.model, docs::model(self.infer.plan, style, notes));
        let [fields, initial] = self.fields();
        let (weights_field, new) = (self.weights_field(), self.new_methods(&initial));
        let (constants, weights) = (self.constants(), self.weights_method());
        let (arena_bytes, macs) = (self.arena_bytes_methods(), self.infer.macs_method());
        let (set_seed, reset) = (self.set_seed(), self.infer.reset());
        let (infer, training) = (self.infer.item(), self.training.as_ref().map(Training::items));
        let outputs = self.methods().map(Method::output_struct);
        let default = self.default_item();
        quote! {
            #doc
            #[derive(Clone, Debug)]
            pub struct #model {
                #weights_field
                #fields
            }
            blank!();
            impl #model {
                #constants
                blank!();
                #macs
                #arena_bytes
                #new
                blank!();
                #set_seed
                #reset
                #infer
                #training
                #weights
            }
            #default
            #(#outputs)*
        }
    }

    /// The implementation of `Default`, if the model needs nothing from the caller.
    fn default_item(&self) -> Option<TokenStream> {
        let is_complete = !self.cx.has_weights || !self.cx.takes_weights;
        is_complete.then(|| {
            let (model, default) = (&self.cx.model, self.cx.imports.prelude("default", "Default"));
            quote! {
                blank!();
                impl #default for #model {
                    fn default() -> Self {
                        Self::new()
                    }
                }
            }
        })
    }

    /// The constants that say what the model costs.
    fn constants(&self) -> TokenStream {
        let plan = self.infer.plan;
        let arena_bytes = number(plan.arena_bytes);
        let macs = (!self.infer.has_free_macs()).then(|| {
            let macs = Literal::u64_unsuffixed(plan.macs);
            quote! {
                /// The number of multiply-adds of one run, or 0 if it is not known at compile time.
                pub const MACS: u64 = #macs;
            }
        });
        let weight_bytes = self.cx.has_weights.then(|| {
            let bytes = number(plan.weight_bytes);
            quote! {
                /// The size of the weights in bytes.
                pub const WEIGHT_BYTES: usize = #bytes;
            }
        });
        let variables = self.training.as_ref().map(Training::variables);
        let peak = (!self.infer.is_dynamic()).then(|| {
            quote! {
                /// The size of the arena in bytes.
                pub const PEAK_ARENA_BYTES: usize = #arena_bytes;
            }
        });
        quote! {
            #peak
            #weight_bytes
            #macs
            #variables
        }
    }

    fn arena_bytes_methods(&self) -> TokenStream {
        self.methods().filter_map(Method::arena_bytes_method).collect()
    }

    /// `new`, and `with_weights` if there are weights.
    fn new_methods(&self, initial: &TokenStream) -> TokenStream {
        let (model, imports) = (&self.cx.model, &self.cx.imports);
        if !self.cx.has_weights {
            let initial: TokenStream = initial.clone().into_iter().skip(1).collect();
            return quote! {
                /// Creates the model.
                pub const fn new() -> #model {
                    #model { #initial }
                }
            };
        }
        let (weights, result) = (imports.item("arena::Weights"), imports.item("Result"));
        let from_bytes = quote!(#weights::from_bytes(weights, #model::WEIGHT_BYTES)?);
        let (new, given) = if self.cx.takes_weights {
            (TokenStream::new(), from_bytes)
        } else {
            let new = quote! {
                /// Creates the model with the weights in the program.
                pub const fn new() -> #model {
                    #model { weights: None #initial }
                }
                blank!();
            };
            (new, quote!(Some(#from_bytes)))
        };
        quote! {
            #new
            /// Creates the model with weights in flash or in a mapped file.
            ///
            /// # Errors
            ///
            /// `weights` has another length than `WEIGHT_BYTES`, or is not aligned to 16 bytes.
            pub fn with_weights(weights: &'static [u8]) -> #result<#model> {
                let weights = #given;
                Ok(#model { weights #initial })
            }
        }
    }

    fn weights_field(&self) -> Option<TokenStream> {
        let imports = &self.cx.imports;
        self.cx.has_weights.then(|| {
            let weights = imports.item("arena::Weights");
            if self.cx.takes_weights {
                return quote! {
                    /// The caller's weights.
                    weights: #weights,
                };
            }
            let option = imports.prelude("option", "Option");
            quote! {
                /// The caller's weights, or `None` for the program's: a new model is all zeros.
                weights: #option<#weights>,
            }
        })
    }

    fn weights_method(&self) -> Option<TokenStream> {
        self.cx.has_weights.then(|| {
            let weights = self.cx.imports.item("arena::Weights");
            let given = match self.cx.takes_weights {
                true => quote!(self.weights),
                false => quote!(self.weights.unwrap_or(#weights::new(WEIGHTS))),
            };
            quote! {
                blank!();
                fn weights(&self) -> #weights {
                    #given
                }
            }
        })
    }

    /// The fields after the weights, and their initializers.
    fn fields(&self) -> [TokenStream; 2] {
        let [mut fields, mut initial] =
            [self.infer.arena_field(), self.infer.new_arena()].map(Option::unwrap_or_default);
        let of_methods =
            self.methods().flat_map(|method| [method.strings_field(), method.draws_field()]);
        for [field, initializer] in of_methods.chain([self.infer.state_field()]).flatten() {
            fields.extend(field);
            initial.extend(initializer);
        }
        if self.training.is_some() {
            fields.extend(quote! {
                /// Whether the arena holds the variables.
                variables_initialized: bool,
            });
            initial.extend(quote!(, variables_initialized: false));
        }
        [fields, initial]
    }

    /// The method that seeds the random numbers.
    fn set_seed(&self) -> Option<TokenStream> {
        let draws = self.methods().filter(|method| method.draws().is_some());
        let fields: Vec<Ident> = draws.map(|method| method.field("draws")).collect();
        (!fields.is_empty()).then(|| {
            let draws = self.cx.imports.item("random::Draws");
            quote! {
                /// Restarts the random numbers from a seed; a new model has the seed 0.
                ///
                /// The same seed gives the same numbers in the same order of runs, on every
                /// machine. A node with a seed attribute restarts from that seed.
                pub fn set_seed(&mut self, seed: u64) {
                    #(self.#fields = #draws::new(seed);)*
                }
                blank!();
            }
        })
    }
}
