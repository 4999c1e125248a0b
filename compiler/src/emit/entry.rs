//! Generates the public methods that run a plan: in the memory of the model or in the caller's, and
//! with slices for inputs that are arrays.

use super::{
    docs,
    memory::Memory,
    method::{Input, Method},
    port::{Form, Spelling},
    text::line,
};
use proc_macro2::{Ident, TokenStream};
use quote::{format_ident, quote};

/// The type of inputs that are arrays.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Arrays {
    /// References to arrays, whose length rustc checks.
    Arrays,
    /// Slices, whose length the method checks.
    Slices,
}

impl Method<'_> {
    /// Returns the public methods.
    pub fn items(&self) -> TokenStream {
        let has_arrays =
            self.inputs.iter().any(|input| matches!(input.form.content(), Form::Array(_)));
        let kinds: &[Arrays] =
            if has_arrays { &[Arrays::Arrays, Arrays::Slices] } else { &[Arrays::Arrays] };
        let memories = Memory::of_methods(self.cx).iter();
        let mut items = memories.flat_map(|&memory| kinds.iter().map(move |&kind| (memory, kind)));
        let first = items.next().map(|(memory, kind)| self.item(memory, kind));
        let others = items.map(|(memory, kind)| self.item(memory, kind));
        let observed = self.observed_items();
        quote!(#first #(blank!(); #others)* #observed)
    }

    /// Names the method that runs in `memory`.
    pub fn name_in(&self, memory: Memory) -> Ident {
        match memory {
            Memory::Fields | Memory::Own => self.name.clone(),
            Memory::Argument | Memory::Shared => format_ident!("{}_in", self.name),
        }
    }

    /// Names the first of the public methods.
    pub fn first_name(&self) -> Ident {
        self.name_in(Memory::of_methods(self.cx)[0])
    }

    fn item(&self, memory: Memory, arrays: Arrays) -> TokenStream {
        let name = self.name_in(memory);
        let is_checked = arrays == Arrays::Slices;
        let name = if is_checked { format_ident!("try_{name}") } else { name };
        let parameters = self.inputs.iter().map(|input| self.parameter(input, arrays));
        let (life, generics) = (self.life(memory), self.generics(memory));
        let (receiver, argument) = (self.receiver(memory), self.arena_argument(memory));
        let result = if is_checked { self.checked_result(&life) } else { self.result(&life) };
        let body = if is_checked { self.check_slices(memory) } else { self.run(memory) };
        let doc = if is_checked { docs::slices(self, memory) } else { docs::method(self, memory) };
        quote! {
            #doc
            pub fn #name #generics (#receiver, #argument #(#parameters),*) #result {
                #body
            }
        }
    }

    pub(super) fn parameter(&self, input: &Input, arrays: Arrays) -> TokenStream {
        let (name, spelling) = (&input.name, Spelling { imports: &self.cx.imports });
        let ty = match arrays {
            Arrays::Arrays => spelling.input(&input.form, input.dtype),
            Arrays::Slices => spelling.slice_input(&input.form, input.dtype),
        };
        quote!(#name: #ty)
    }

    pub(super) fn receiver(&self, memory: Memory) -> TokenStream {
        let keeps_fields = self.strings > 0 || self.draws().is_some();
        match memory {
            Memory::Fields | Memory::Own => quote!(&mut self),
            Memory::Shared if keeps_fields => quote!(&mut self),
            Memory::Argument | Memory::Shared => quote!(&self),
        }
    }

    /// The lifetime of outputs that are borrowed from the memory.
    pub(super) fn life(&self, memory: Memory) -> TokenStream {
        match memory {
            Memory::Fields | Memory::Own => quote!('_),
            Memory::Argument | Memory::Shared => quote!('a),
        }
    }

    pub(super) fn generics(&self, memory: Memory) -> Option<TokenStream> {
        let life = self.borrows().then(|| quote!('a,));
        match memory {
            Memory::Fields | Memory::Own => None,
            Memory::Argument => life.map(|life| quote!(<#life>)),
            Memory::Shared => Some(quote!(<#life const BLOCKS: usize>)),
        }
    }

    /// The parameter for the memory.
    pub(super) fn arena_argument(&self, memory: Memory) -> Option<TokenStream> {
        let life = self.borrows().then(|| quote!('a));
        match memory {
            Memory::Fields | Memory::Own => None,
            Memory::Argument => {
                let arena = &self.cx.arena_type;
                Some(quote!(arena: &#life mut #arena,))
            }
            Memory::Shared => {
                let arena = self.cx.imports.item("arena::InlineArena");
                Some(quote!(arena: &#life mut #arena<BLOCKS>,))
            }
        }
    }

    /// Calls the function with the kernel calls, unobserved.
    fn run(&self, memory: Memory) -> TokenStream {
        self.run_observed(memory, &self.unobserved())
    }

    /// Calls the function with the kernel calls. `observer` is the argument for it, or empty.
    pub(super) fn run_observed(&self, memory: Memory, observer: &TokenStream) -> TokenStream {
        let arguments = self.inputs.iter().map(|Input { name, form, .. }| match form {
            Form::Scalar => quote!(&[#name]),
            _ => quote!(#name),
        });
        let call = self.call(memory, &quote!(#observer #(#arguments),*));
        let initialize = self.plan.learns.then(|| quote!(self.initialize_variables();));
        quote!(#initialize #call)
    }

    /// Calls the method that takes arrays.
    fn check_slices(&self, memory: Memory) -> TokenStream {
        let as_array = self.cx.imports.function("view::as_array");
        let arguments = self.inputs.iter().zip(&self.plan.inputs).map(|(input, port)| {
            let (name, label) = (&input.name, line(&port.name));
            match &input.form {
                Form::Array(_) => quote!(#as_array(#label, #name)?),
                Form::Optional(form) if matches!(**form, Form::Array(_)) => {
                    quote!(#name.map(|#name| #as_array(#label, #name)).transpose()?)
                }
                _ => quote!(#name),
            }
        });
        let name = self.name_in(memory);
        let arena = self.arena_argument(memory).map(|_| quote!(arena,));
        let call = quote!(self.#name(#arena #(#arguments),*));
        match (self.can_fail(), self.outputs.is_empty()) {
            (true, _) => call,
            (false, true) => quote!(#call; Ok(())),
            (false, false) => quote!(Ok(#call)),
        }
    }

    /// Calls the function with the kernel calls.
    pub fn call(&self, memory: Memory, arguments: &TokenStream) -> TokenStream {
        let (name, imports) = (&self.name, &self.cx.imports);
        let fields = match memory {
            Memory::Fields | Memory::Shared => quote!(self),
            Memory::Own => quote!(self.arena),
            Memory::Argument => quote!(arena),
        };
        let weights = self.reads_weights.get().then(|| {
            if self.cx.takes_weights {
                return quote!(self.weights.view(),);
            }
            let weights = imports.item("arena::WeightsView");
            quote!(#weights::new(&self.weights, WEIGHTS),)
        });
        let strings = (self.strings > 0).then(|| {
            let (field, constants) = (self.field("strings"), self.strings_constant());
            quote!(#fields.#field.of(&#constants),)
        });
        let draws = self.draws().map(|_| {
            let draws = self.field("draws");
            quote!(&mut #fields.#draws,)
        });
        let state = self.state_field_name().map(|name| quote!(&mut #fields.#name,));
        let blocks = self.blocks_in(memory, &fields);
        quote!(#name(#weights #blocks, #strings #draws #state #arguments))
    }

    /// The memory as the function with the kernel calls gets it.
    fn blocks_in(&self, memory: Memory, fields: &TokenStream) -> TokenStream {
        let arena = match memory {
            Memory::Shared => {
                let blocks = self.blocks();
                return quote!(arena.first::<#blocks>());
            }
            Memory::Fields => quote!(#fields.arena),
            Memory::Own | Memory::Argument => quote!(#fields.memory),
        };
        if self.is_dynamic() { quote!(&mut #arena) } else { quote!(#arena.blocks()) }
    }
}
