//! Generates the Rust module of a plan. Only this part of the compiler knows tokens. It sees plans,
//! and nothing of the earlier stages.

mod arena;
mod bind;
mod chunks;
mod constants;
mod context;
mod custom;
mod docs;
mod dynamic;
mod entry;
mod figures;
mod flow;
mod format;
mod imports;
mod made;
mod marks;
mod memory;
mod method;
mod model;
mod nodes;
mod observe;
mod output;
mod port;
mod random;
mod sizes;
mod slots;
mod state;
mod steps;
mod text;
mod tokens;
mod training;
mod weights;

use crate::{
    choice::choices,
    plan::{self, Kind, Plan, Plans},
};
pub use method::Signature;
pub use nodes::{ObservedNode, nodes};
pub use port::{Form, Values};
pub use weights::write_file as write_weights;

use chunks::Sink;
use constants::Constants;
use context::Context;
use imports::Imports;
use method::Method;
use model::Model;
use proc_macro2::{Literal, TokenStream};
use quote::quote;
use training::Training;

/// The style of a module.
#[derive(Clone, Debug)]
pub struct Style {
    /// The name of the model, which gives the struct its name.
    pub name: String,
    /// Where the weights are.
    pub weights: WeightsIn,
    /// Where the arena is.
    pub arena: ArenaIn,
    /// The parts of a run that observers get.
    pub observed: Observed,
    /// The model file and the options, for the header.
    pub source: Source,
}

/// The parts of a run that observers get.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Observed {
    /// Whether `infer_with` shows the values of each node.
    pub values: bool,
    /// Whether `infer_profiled` tells when each node ends.
    pub times: bool,
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

/// Where the weights are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WeightsIn {
    /// In the module, as a byte string.
    Module,
    /// In a file of this name beside the module.
    File(String),
    /// In a file of this name, which the module does not include: the caller passes its bytes.
    Caller(String),
}

/// Where the arena is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArenaIn {
    /// In the model's struct.
    Struct,
    /// On the heap.
    Heap,
    /// In an argument of each run, so that several models share one.
    Caller,
}

choices! { ArenaIn:
    Struct "struct" "In the model's struct, which may be a `static`";
    Heap "heap" "On the heap, allocated by the first run";
    Caller "caller" "With the caller of `infer_in`: several models may share one";
}

/// A module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Module {
    /// The source.
    pub code: String,
}

/// Returns the signature of the method of a plan's module.
pub fn signature(plan: &Plan, style: &Style) -> Signature {
    Method::new(plan, &Context::new(&[plan], style), "infer").signature()
}

/// Returns the names and signatures of the methods of a trainable model: `init`, inference, and
/// each algorithm.
pub fn signatures(training: &plan::Training, style: &Style) -> Vec<(String, Signature)> {
    let cx = Context::new(&training.plans().collect::<Vec<_>>(), style);
    let infer = Method::new(&training.infer, &cx, "infer");
    let training = Training::new(training, &cx);
    let methods = [training.init(), &infer].into_iter().chain(training.steps());
    methods.map(|method| (method.name.to_string(), method.signature())).collect()
}

/// Generates the module of a model.
pub fn module(plans: &Plans, style: &Style) -> Module {
    let sink = Sink::Print(Default::default());
    let outline = tokens(plans, style, &[], &sink);
    Module { code: format::print(outline, sink.into_texts()) }
}

/// Generates the items of a module for a macro.
pub fn items(plans: &Plans, style: &Style) -> TokenStream {
    let notes = docs::notes(plans.infer(), style);
    marks::strip_marks(tokens(plans, style, &notes, &Sink::Keep))
}

/// Returns whether the module of these plans has weights.
pub fn has_weights(plans: &Plans) -> bool {
    weights::has_weights(&plans.all())
}

/// Generates the tokens of a module; `sink` takes the chunks of its long blocks. `notes` are the
/// last lines of the struct's documentation.
fn tokens(plans: &Plans, style: &Style, notes: &[String], sink: &Sink) -> TokenStream {
    let all = plans.all();
    let cx = Context::new(&all, style);
    let training = plans.training().map(|training| Training::new(training, &cx));
    let model = Model { cx: &cx, infer: Method::new(plans.infer(), &cx, "infer"), training };
    let with_strings = model.methods().filter(|method| method.strings > 0);
    let strings = with_strings.map(|method| method.strings_constant());
    let constants = Constants::new(sink.clone(), strings);
    let functions: Vec<TokenStream> =
        model.methods().map(|method| steps::function(method, &constants)).collect();
    let (arena_bytes, weight_bytes) = (plans.infer().arena_bytes, plans.infer().weight_bytes);
    let constants = constants.into_inner().items(&cx.imports, arena_bytes, weight_bytes);
    let strings = model
        .methods()
        .map(|method| weights::strings_item(method.plan, &method.strings_constant()));
    let strings: TokenStream = strings.collect();
    let (head, exports) = (docs::head(plans.infer(), style), model.exports());
    let (items, weights) = (model.items(style, notes), weights::item(&all, &cx, style));
    let needs_alloc = steps::needs_alloc(model.methods()).then(|| {
        quote! {
            blank!();
            ::onnxc_runtime::needs_alloc!();
        }
    });
    let has_sequences =
        |plan: &&Plan| plan.buffers.iter().any(|(_, buffer)| buffer.kind == Kind::Sequence);
    let unused_mut = all.iter().any(has_sequences).then(|| quote!(, unused_mut));
    let (uses, module) = (cx.imports.items(), &cx.module);
    let features = features(&cx.imports);
    let interface = Literal::u32_unsuffixed(onnxc_runtime::INTERFACE_VERSION);
    quote! {
        #head
        #exports
        blank!();
        #[allow(clippy::all, clippy::pedantic, clippy::nursery, dead_code)]
        #[allow(elided_lifetimes_in_paths, unused_parens, unused_variables #unused_mut)]
        mod #module {
            #features
            #uses
            #needs_alloc
            blank!();
            #items
            #(#functions)*
            #constants
            #strings
            #weights
            blank!();
            const _: () = ::onnxc_runtime::check_interface(#interface);
        }
    }
}

/// Names the features of the runtime library that a module needs.
fn features(imports: &Imports) -> Option<TokenStream> {
    let features: Vec<&str> = imports.features().into_iter().collect();
    let text = format!("Features of onnxc-runtime: {}", features.join(", "));
    (!features.is_empty()).then(|| quote!(comment!(#text);))
}
