//! The struct of a module with its constants and methods.

use super::{
    Style,
    context::Context,
    docs,
    memory::Memory,
    method::Method,
    tokens::{hexadecimal, number},
    training::Training,
};
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
        let Context { model, public, arena_type, public_arena_type, module, .. } = self.cx;
        let outputs = self.methods().filter_map(Method::output_struct_names);
        let arena = [arena_type.clone(), public_arena_type.clone()];
        let arena = self.has_arena_type().then_some(arena);
        let structs = [[model.clone(), public.clone()]].into_iter().chain(arena).chain(outputs);
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
        let (arena_type, constants) = (self.arena_item(), self.constants());
        let (arena_bytes, macs) = (self.arena_bytes_methods(), self.infer.macs_method());
        let (set_seed, reset) = (self.set_seed(), self.reset());
        let (infer, training) = (self.infer.items(), self.training.as_ref().map(Training::items));
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
            }
            #default
            #arena_type
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
            let (bytes, layout) = (number(plan.weight_bytes), hexadecimal(self.cx.weight_layout));
            quote! {
                /// The size of the weights in bytes.
                pub const WEIGHT_BYTES: usize = #bytes;
                /// Identifies the layout of the weights. A weights file ends with it.
                pub const WEIGHT_LAYOUT: u64 = #layout;
            }
        });
        let variables = self.training.as_ref().map(Training::variables);
        let nodes = self.infer.nodes_constant();
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
            #nodes
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
            return quote! {
                /// Creates the model.
                pub const fn new() -> #model {
                    #model { #initial }
                }
            };
        }
        let (weights, result) = (imports.item("arena::Weights"), imports.item("Result"));
        let into = imports.prelude("convert", "Into");
        let check = quote! {
            weights.into().check(#model::WEIGHT_BYTES, #model::WEIGHT_LAYOUT)?
        };
        let (new, given) = if self.cx.takes_weights {
            (TokenStream::new(), check)
        } else {
            let new = quote! {
                /// Creates the model with the weights in the program.
                pub const fn new() -> #model {
                    #model { weights: None, #initial }
                }
                blank!();
            };
            (new, quote!(Some(#check)))
        };
        quote! {
            #new
            /// Creates the model with a weights file of the caller: static bytes, or an `Arc` of
            /// anything that owns bytes, such as a mapped file. `Weights::verify` checks that the
            /// file is undamaged.
            ///
            /// # Errors
            ///
            /// `weights` is not a weights file of layout `WEIGHT_LAYOUT`, or is static and not
            /// aligned to 16 bytes.
            pub fn with_weights(weights: impl #into<#weights>) -> #result<#model> {
                let weights = #given;
                Ok(#model { weights, #initial })
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

    /// Returns whether the memory of a run has a type, so that threads can share the model.
    fn has_arena_type(&self) -> bool {
        Memory::of_methods(self.cx).contains(&Memory::Own)
    }

    /// The fields after the weights, and their initializers.
    fn fields(&self) -> [TokenStream; 2] {
        if self.has_arena_type() {
            let arena = &self.cx.arena_type;
            return [quote!(arena: #arena,), quote!(arena: #arena::new(),)];
        }
        let [mut fields, mut initial] = self.run_fields("arena");
        if self.training.is_some() {
            fields.extend(quote! {
                /// Whether the arena holds the variables.
                variables_initialized: bool,
            });
            initial.extend(quote!(variables_initialized: false,));
        }
        [fields, initial]
    }

    /// The fields of the memory of a run, and their initializers.
    fn run_fields(&self, memory: &str) -> [TokenStream; 2] {
        let of_methods =
            self.methods().flat_map(|method| [method.strings_field(), method.draws_field()]);
        let arena = [self.infer.arena_field(memory)].into_iter();
        let all = arena.chain(of_methods).chain([self.infer.state_field()]);
        let [mut fields, mut initial] = [TokenStream::new(), TokenStream::new()];
        for [field, initializer] in all.flatten() {
            fields.extend(field);
            initial.extend(initializer);
        }
        [fields, initial]
    }

    /// The type of the memory of a run.
    fn arena_item(&self) -> Option<TokenStream> {
        if !self.has_arena_type() {
            return None;
        }
        let (arena, doc) = (&self.cx.arena_type, docs::arena(&self.infer));
        let [fields, initial] = self.run_fields("memory");
        let set_seed = self.infer.draws().map(|_| {
            let (field, draws) = (self.infer.field("draws"), self.cx.imports.item("random::Draws"));
            let doc = docs::set_seed("a new arena");
            quote! {
                blank!();
                #doc
                pub fn set_seed(&mut self, seed: u64) {
                    self.#field = #draws::new(seed);
                }
            }
        });
        let reset = self.infer.reset();
        Some(quote! {
            blank!();
            #doc
            #[derive(Clone, Debug, Default)]
            pub struct #arena {
                #fields
            }
            blank!();
            impl #arena {
                /// Creates the memory of a run.
                pub const fn new() -> #arena {
                    #arena { #initial }
                }
                #set_seed
                #reset
            }
        })
    }

    /// The method that seeds the random numbers.
    fn set_seed(&self) -> Option<TokenStream> {
        let draws = self.methods().filter(|method| method.draws().is_some());
        let fields: Vec<Ident> = draws.map(|method| method.field("draws")).collect();
        if fields.is_empty() {
            return None;
        }
        let body = if self.has_arena_type() {
            quote!(self.arena.set_seed(seed);)
        } else {
            let draws = self.cx.imports.item("random::Draws");
            quote!(#(self.#fields = #draws::new(seed);)*)
        };
        let doc = docs::set_seed("a new model");
        Some(quote! {
            #doc
            pub fn set_seed(&mut self, seed: u64) {
                #body
            }
            blank!();
        })
    }

    /// The method that resets the state.
    fn reset(&self) -> Option<TokenStream> {
        self.infer.keeps_state().then(|| {
            quote! {
                /// Resets the state: the next run starts from the initial one.
                pub fn reset(&mut self) {
                    self.arena.reset();
                }
                blank!();
            }
        })
    }
}
