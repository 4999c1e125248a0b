//! An archive of NumPy as a reference: inputs and expected values by their names.

use super::values::{Traced, Values};
use crate::cli::inputs::Inputs;
use onnxc::{
    diag::{Code, Diagnostic, quoted},
    ident,
    plan::Plan,
    value::Value,
};
use onnxc_proto::GraphProto;
use std::{collections::HashSet, path::Path};

/// The most names that a message lists.
const SHOWN: usize = 5;

/// Returns the arrays that are inputs of a plan.
pub fn inputs(values: &Values, plan: &Plan) -> Inputs {
    let names = plan.inputs.iter().map(|port| &port.name);
    let pair = |name: &String| Some((name.clone(), Value::Tensor(values.get(name)?.clone())));
    names.filter_map(pair).collect()
}

/// Returns the warning for arrays that belong to no value of the model, if there are any.
pub fn warning(
    place: &Path,
    values: &Values,
    graph: &GraphProto,
    compiled: &Traced,
) -> Option<Diagnostic> {
    let known = known(graph, compiled);
    let unknown: Vec<&str> = unknown(values, &known).collect();
    let names: Vec<String> = unknown.iter().take(SHOWN).map(|name| quoted(name)).collect();
    let rest = match unknown.len().saturating_sub(SHOWN) {
        _ if names.is_empty() => return None,
        0 => String::new(),
        rest => format!(" and {rest} others"),
    };
    let message = format!("the model has no value for these arrays: {}{rest}", names.join(", "));
    let warning = Diagnostic::warning(Code::BadOption, message).within(place.display().to_string());
    let open = || known.iter().copied().filter(|name| !values.contains_key(*name));
    let similar = |name: &&str| {
        let near = ident::nearest(name, open())?;
        Some(format!("did you mean {} instead of {}?", quoted(near), quoted(name)))
    };
    Some(match unknown.iter().find_map(similar) {
        Some(help) => warning.help(help),
        None => warning,
    })
}

/// Returns the arrays of values that nodes of the model compute, but that the compiled model lacks
/// because it merges or folds nodes.
pub fn merged(values: &Values, graph: &GraphProto, compiled: &Traced) -> Vec<String> {
    let computed: HashSet<&str> = computed(graph).collect();
    let kept: HashSet<&str> = compiled.names().iter().map(|name| name.value.as_str()).collect();
    let is_merged = |name: &&String| computed.contains(&***name) && !kept.contains(&***name);
    values.keys().filter(is_merged).cloned().collect()
}

/// Returns the names of the values that nodes compute.
fn computed(graph: &GraphProto) -> impl Iterator<Item = &str> {
    graph.node.iter().flat_map(|node| &node.output).map(String::as_str)
}

/// Returns a note for each missing input that is similar to an array of no value.
pub fn similar(
    values: &Values,
    graph: &GraphProto,
    compiled: &Traced,
    missing: &[&str],
) -> Vec<String> {
    let known = known(graph, compiled);
    let note = |name: &&str| {
        let near = ident::nearest(name, unknown(values, &known))?;
        Some(format!("the archive has no {}, but {}", quoted(name), quoted(near)))
    };
    missing.iter().filter_map(note).collect()
}

/// Returns the arrays that belong to no value of the model.
fn unknown<'v>(values: &'v Values, known: &HashSet<&str>) -> impl Iterator<Item = &'v str> {
    values.keys().map(String::as_str).filter(|name| !known.contains(name))
}

/// Returns the names of all values of the model, compiled or not.
fn known<'n>(graph: &'n GraphProto, compiled: &'n Traced) -> HashSet<&'n str> {
    let inputs = graph.input.iter().map(|input| input.name());
    let constants = graph.initializer.iter().map(|tensor| tensor.name());
    let compiled = compiled.names().iter().map(|name| name.value.as_str());
    inputs.chain(constants).chain(computed(graph)).chain(compiled).collect()
}
