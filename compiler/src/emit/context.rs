//! The context that all methods of a module share.

use super::{
    ArenaIn, Style, WeightsIn,
    imports::{Imports, split},
    weights,
};
use crate::{ident, plan::Plan};
use proc_macro2::Ident;
use quote::format_ident;
use std::collections::BTreeSet;

/// The context that all methods of a module share.
pub struct Context {
    /// The names that the module takes from the runtime library.
    pub imports: Imports,
    /// The model's struct, as the module names it.
    pub model: Ident,
    /// The model's struct, as the module exports it.
    pub public: Ident,
    /// The private module with the struct and the kernel calls.
    pub module: Ident,
    /// Where the arena is.
    pub arena: ArenaIn,
    /// Whether the sizes of a run determine the layout of the arena.
    pub has_dynamic_arena: bool,
    /// Whether the module has weights.
    pub has_weights: bool,
    /// Whether the module has no weights unless the caller passes them.
    pub takes_weights: bool,
}

impl Context {
    /// The context of a module with these plans.
    pub fn new(plans: &[&Plan], style: &Style) -> Context {
        let mut geometries: BTreeSet<&str> = BTreeSet::new();
        for plan in plans {
            plan.calls(&mut |call| geometries.extend(call.params.uses()));
        }
        let public = ident::camel(&style.name);
        // A geometry with the name of the model keeps its name inside the module.
        let is_taken = geometries.iter().any(|path| split(path).1 == public);
        let model = if is_taken { format!("{public}Model") } else { public.clone() };
        Context {
            imports: Imports::new(model.clone(), &geometries),
            model: format_ident!("{model}"),
            public: format_ident!("{public}"),
            module: format_ident!("{}", ident::snake(&style.name)),
            arena: style.arena,
            has_dynamic_arena: plans.iter().any(|plan| plan.has_dynamic_arena),
            has_weights: weights::has_weights(plans),
            takes_weights: matches!(style.weights, WeightsIn::Caller(_)),
        }
    }
}
