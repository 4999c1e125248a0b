//! The back end that writes a plan as a Rust module. The only room that knows of tokens; it sees
//! plans, and nothing that came before them.

mod arena;
mod bind;
mod custom;
mod docs;
mod draws;
mod face;
mod flow;
mod format;
mod port;
mod state;
mod steps;
mod weights;

use crate::{
    ident,
    plan::{Kind, Plan},
};
pub use face::Signature;
pub use port::{Form, Values};
pub use weights::write as write_weights;

use face::Face;
use proc_macro2::TokenStream;
use quote::quote;

/// How a module is written.
#[derive(Clone, Debug)]
pub struct Style {
    /// The name of the model, from which the struct has its own.
    pub name: String,
    /// Where the weights stand.
    pub weights: WeightsIn,
    /// Where the arena is.
    pub arena: ArenaIn,
}

/// Where the weights stand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WeightsIn {
    /// In the module, as a byte string.
    Module,
    /// In a file of this name beside the module.
    File(String),
}

/// Where the arena is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArenaIn {
    /// In the model's struct.
    Struct,
    /// On the heap.
    Heap,
    /// With the caller, who gives it to each run, so that several models share one.
    Caller,
}

/// A module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Module {
    /// The source.
    pub code: String,
}

/// How a program calls the module of `plan`.
pub fn signature(plan: &Plan, style: &Style) -> Signature {
    Face::new(plan, style).signature()
}

/// Writes `plan` as a module.
pub fn module(plan: &Plan, style: &Style) -> Module {
    Module { code: format::print(tokens(plan, style)) }
}

/// Writes `plan` as the items of a module with its weights in it, as a macro gives them.
pub fn items(plan: &Plan, style: &Style) -> TokenStream {
    let style = Style { weights: WeightsIn::Module, ..style.clone() };
    format::plain(tokens(plan, &style))
}

fn tokens(plan: &Plan, style: &Style) -> TokenStream {
    let face = Face::new(plan, style);
    let room = quote::format_ident!("{}", ident::snake(&style.name));
    let version = env!("CARGO_PKG_VERSION");
    let (head, model) = (docs::head(plan, style), face.items());
    let body = steps::body(plan, &face);
    let (strings, weights) = (weights::strings_item(plan), weights::item(plan, style));
    let has_sequences = plan.buffers.iter().any(|(_, buffer)| buffer.kind == Kind::Sequence);
    let unused_mut = has_sequences.then(|| quote!(, unused_mut));
    quote! {
        #head
        #model
        blank!();
        #[allow(clippy::all, elided_lifetimes_in_paths, unused_parens, unused_variables #unused_mut)]
        mod #room {
            #body
            blank!();
            #strings
            #weights
            blank!();
            const _: () = ::onnxc_runtime::view::generated_by(#version);
        }
    }
}
