//! The back end that writes a plan as a Rust module. The only room that knows of tokens; it sees
//! plans, and nothing that came before them.

mod arena;
mod bind;
mod custom;
mod docs;
mod flow;
mod format;
mod method;
mod model;
mod port;
mod random;
mod state;
mod steps;
mod training;
mod weights;

use crate::plan::{Kind, Plan, Plans, Training};
pub use method::Signature;
pub use port::{Form, Values};
pub use weights::write as write_weights;

use method::Face;
use model::Model;
use proc_macro2::{Literal, TokenStream};
use quote::quote;
use training::Learning;

/// How a module is written.
#[derive(Clone, Debug)]
pub struct Style {
    /// The name of the model, from which the struct has its own.
    pub name: String,
    /// Where the weights stand.
    pub weights: WeightsIn,
    /// Where the arena is.
    pub arena: ArenaIn,
    /// What the module is generated from.
    pub source: Source,
}

/// The model file and the options that a module is generated from, for its header.
#[derive(Clone, Debug, Default)]
pub struct Source {
    /// The name of the model file, without its directory.
    pub file: Option<String>,
    /// The SHA-256 of the model file's bytes, in hexadecimal.
    pub sha256: String,
    /// Whether the model reads external data, which the hash does not cover.
    pub has_external_data: bool,
    /// The options that differ from their defaults, as the command line spells them.
    pub options: Vec<String>,
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

/// How a program calls the methods of a model that learns, and their names: `init`, inference, and
/// each algorithm.
pub fn signatures(training: &Training, style: &Style) -> Vec<(String, Signature)> {
    let infer = Face::new(&training.infer, style);
    let learning = Learning::new(training, style);
    let faces = [learning.init(), &infer].into_iter().chain(learning.steps());
    faces.map(|face| (face.method.to_string(), face.signature())).collect()
}

/// Writes a model as a module.
pub fn module(plans: &Plans, style: &Style) -> Module {
    Module { code: format::print(tokens(plans, style, &[])) }
}

/// Writes a model as the items of a module with its weights in it, as a macro gives them.
pub fn items(plans: &Plans, style: &Style) -> TokenStream {
    let style = Style { weights: WeightsIn::Module, ..style.clone() };
    format::plain(tokens(plans, &style, &docs::notes(plans.infer(), &style)))
}

/// The module as tokens. A macro cannot carry the comment at the head of the file, so it gives the
/// same lines as `notes` for the documentation of the struct.
fn tokens(plans: &Plans, style: &Style, notes: &[String]) -> TokenStream {
    let interface = Literal::u32_unsuffixed(onnxc_runtime::INTERFACE_VERSION);
    let learning = plans.training().map(|training| Learning::new(training, style));
    let model = Model { infer: Face::new(plans.infer(), style), learning };
    let plans: Vec<&Plan> = model.faces().map(|face| face.plan).collect();
    let (head, items) = (docs::head(plans[0], style), model.items(style, notes));
    let weights = weights::item(&plans, style);
    let first = quote! {
        blank!();
        #weights
        blank!();
        const _: () = ::onnxc_runtime::check_interface(#interface);
    };
    let rooms = model.faces().map(|face| room(face, face.has_weights().then_some(&first)));
    quote! {
        #head
        #items
        #(blank!(); #rooms)*
    }
}

/// The private module with the calls of a plan, and the weights where these stand in it.
fn room(face: &Face<'_>, weights: Option<&TokenStream>) -> TokenStream {
    let (plan, room) = (face.plan, &face.room);
    let (body, strings) = (steps::body(plan, face), weights::strings_item(plan));
    let has_sequences = plan.buffers.iter().any(|(_, buffer)| buffer.kind == Kind::Sequence);
    let unused_mut = has_sequences.then(|| quote!(, unused_mut));
    quote! {
        #[allow(clippy::all, clippy::pedantic, clippy::nursery)]
        #[allow(elided_lifetimes_in_paths, unused_parens, unused_variables #unused_mut)]
        mod #room {
            #body
            #strings
            #weights
        }
    }
}
