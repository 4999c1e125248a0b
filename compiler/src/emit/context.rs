//! The context that all methods of a module share.

use super::{
    ArenaIn, Observed, Style, WeightsIn,
    imports::{Imports, split},
    weights,
};
use crate::{
    ident,
    plan::{Plan, weight_layout},
};
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
    /// The type of the memory of a run, as the module names it.
    pub arena_type: Ident,
    /// The type of the memory of a run, as the module exports it.
    pub public_arena_type: Ident,
    /// The private module with the struct and the kernel calls.
    pub module: Ident,
    /// Where the arena is.
    pub arena: ArenaIn,
    /// Whether the model trains, so that its arena holds variables.
    pub is_training: bool,
    /// Whether the sizes of a run determine the layout of the arena.
    pub has_dynamic_arena: bool,
    /// Whether the module has weights.
    pub has_weights: bool,
    /// The identifier of the layout of the weights.
    pub weight_layout: u64,
    /// Whether the module has no weights unless the caller passes them.
    pub takes_weights: bool,
    /// The parts of a run that observers get.
    pub observed: Observed,
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
        let [arena_type, public_arena_type] =
            [&model, &public].map(|name| format!("{}Arena", name.trim_end_matches('_')));
        Context {
            imports: Imports::new([model.clone(), arena_type.clone()], &geometries),
            model: format_ident!("{model}"),
            public: format_ident!("{public}"),
            arena_type: format_ident!("{arena_type}"),
            public_arena_type: format_ident!("{public_arena_type}"),
            module: format_ident!("{}", ident::snake(&style.name)),
            arena: style.arena,
            // A model without training information has one plan.
            is_training: plans.len() > 1,
            has_dynamic_arena: plans.iter().any(|plan| plan.has_dynamic_arena),
            has_weights: weights::has_weights(plans),
            weight_layout: weight_layout(plans),
            takes_weights: matches!(style.weights, WeightsIn::Caller(_)),
            observed: style.observed,
        }
    }
}
