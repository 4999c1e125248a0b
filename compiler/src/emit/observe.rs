//! Generates the parts of a module that show a run to an observer: the table of nodes, the methods
//! `infer_with` and `infer_profiled`, and the lines after each node.

use super::{
    docs,
    entry::Arrays,
    memory::Memory,
    method::Method,
    nodes::{View, comment},
    steps::Body,
    text::line,
    tokens::{array, number},
};
use crate::plan::{Kind, Operand, Place, Step, Written};
use proc_macro2::{Ident, Literal, TokenStream};
use quote::{format_ident, quote};

impl Method<'_> {
    /// The parameter of the function with the kernel calls.
    pub(super) fn observer_parameter(&self) -> Option<TokenStream> {
        let name = &self.observer.as_ref()?.name;
        let observer = self.cx.imports.item("observe::Observer");
        Some(quote!(#name: &mut impl #observer,))
    }

    /// The argument for that parameter in a run that nobody observes.
    pub(super) fn unobserved(&self) -> TokenStream {
        let observer = self.observer.as_ref().map(|_| {
            let unobserved = self.cx.imports.item("observe::Unobserved");
            quote!(&mut #unobserved,)
        });
        observer.unwrap_or_default()
    }

    /// The statement before the first step.
    pub(super) fn observer_start(&self) -> Option<TokenStream> {
        let name = &self.observer.as_ref()?.name;
        self.cx.observed.times.then(|| quote!(#name.start();))
    }

    /// The constant that lists the nodes.
    pub(super) fn nodes_constant(&self) -> Option<TokenStream> {
        let observer = self.observer.as_ref()?;
        let node = self.cx.imports.item("observe::Node");
        let each = observer.nodes.all.iter().map(|observed| {
            let (name, operator) = observed.name();
            let (name, operator) = (line(name), line(operator));
            let macs = Literal::u64_unsuffixed(observed.macs);
            quote!(#node::new(#name, #operator, #macs))
        });
        Some(quote! {
            /// The nodes that an observer of a run sees.
            pub const NODES: &'static [#node] = &[#(#each),*];
        })
    }

    /// The public methods with an observer.
    pub(super) fn observed_items(&self) -> TokenStream {
        let Some(observer) = &self.observer else { return TokenStream::new() };
        let observed = self.cx.observed;
        let views = [(observed.values, View::Values), (observed.times, View::Times)];
        let views = views.into_iter().filter(|(is_on, _)| *is_on).map(|(_, view)| view);
        let items = views.flat_map(|view| {
            let memories = Memory::of_methods(self.cx).iter();
            memories.map(move |&memory| self.observed_item(&observer.name, memory, view))
        });
        quote!(#(blank!(); #items)*)
    }

    fn observed_item(&self, observer: &Ident, memory: Memory, view: View) -> TokenStream {
        let (imports, model) = (&self.cx.imports, &self.cx.model);
        let (suffix, ty, argument) = match view {
            View::Values => {
                let [node, value, taps] = ["Node", "ValueView", "Taps"]
                    .map(|name| imports.item(&format!("observe::{name}")));
                let closure = imports.prelude("ops", "FnMut");
                (
                    "with",
                    quote!(impl #closure(&'static #node, #value<'_>)),
                    quote!(&mut #taps::new(#model::NODES, #observer),),
                )
            }
            View::Times => {
                let ty = imports.item("observe::Observer");
                ("profiled", quote!(&mut impl #ty), quote!(#observer,))
            }
        };
        let name = format_ident!("{}_{suffix}", self.name_in(memory));
        let parameters = self.inputs.iter().map(|input| self.parameter(input, Arrays::Arrays));
        let (life, generics) = (self.life(memory), self.generics(memory));
        let (receiver, arena) = (self.receiver(memory), self.arena_argument(memory));
        let (result, body) = (self.result(&life), self.run_observed(memory, &argument));
        let doc = docs::observed(self, memory, view);
        quote! {
            #doc
            pub fn #name #generics (
                #receiver, #arena #(#parameters,)* #observer: #ty
            ) #result {
                #body
            }
        }
    }
}

impl Body<'_> {
    /// The lines after a step that show it to the observer. A node whose calls continue with `next`
    /// has not ended.
    pub(super) fn observe(&self, step: &Step, next: Option<&Step>) -> TokenStream {
        let (Some(observer), Some(comment_here)) = (&self.method.observer, comment(step)) else {
            return TokenStream::new();
        };
        let (name, node) = (&observer.name, number(observer.nodes.numbers[comment_here]));
        let observed = self.method.cx.observed;
        let results = match step {
            Step::Call(call) if observed.values => &call.results[..],
            _ => &[],
        };
        let values = results.iter().map(|written| self.observe_value(name, &node, written));
        let is_end = observed.times && next.and_then(comment) != Some(comment_here);
        let end = is_end.then(|| quote!(#name.node(#node);));
        quote!(#(#values)* #end)
    }

    /// The line that shows a value.
    fn observe_value(
        &self,
        observer: &Ident,
        node: &Literal,
        Written { name, shape, operand }: &Written,
    ) -> Option<TokenStream> {
        let buffer = &self.plan.buffers[operand.buffer];
        let data = self.observed_data(operand)?;
        let value = line(name);
        if buffer.kind == Kind::Sequence {
            return Some(quote!(#observer.sequence(#node, #value, #data);));
        }
        let shape = array(shape.iter().map(|dim| self.size(dim)));
        Some(quote!(#observer.value(#node, #value, &#shape, || #data);))
    }

    /// The elements of a value, if its memory exists.
    fn observed_data(&self, operand: &Operand) -> Option<TokenStream> {
        let id = operand.buffer;
        let name = format_ident!("{}", self.method.names[id]);
        match self.plan.buffers[id].place {
            Place::Arena { .. } if self.slots.contains_key(&id) => Some(self.borrow_one(operand)),
            Place::Heap if self.made.contains(id) && !self.freed.contains(&id) => {
                let slice = self.slice(operand, false, &[]);
                let is_whole = slice.to_string() == quote!(&#name).to_string();
                let is_vector = self.plan.buffers[id].kind == Kind::Elements;
                Some(if is_whole && is_vector { quote!(&#name[..]) } else { slice })
            }
            Place::Arena { .. } | Place::Heap | Place::Input(_) | Place::Weight { .. } => None,
        }
    }
}
