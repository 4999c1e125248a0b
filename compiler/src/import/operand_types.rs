//! Compares the types of a node's inputs with those that the signature of its operator allows.
//!
//! Operators check what their kernels need. This finds what they overlook, such as the type of an
//! input that only a run reads.

use crate::{
    check::signature::{Form, Parameter, Times},
    diag::{Code, Diagnostic, Result},
    dtype::DType,
    ir::{Graph, ValueId},
    ty::Type,
};
use std::collections::HashMap;

/// Checks the types of `inputs`.
///
/// # Errors
///
/// Returns an error for the first input whose type is not allowed, or differs from that of another
/// input that must have the same type.
pub(super) fn check_operand_types(
    graph: &Graph,
    form: &'static Form,
    inputs: &[Option<ValueId>],
) -> Result {
    // The first input of each constraint, and its type.
    let mut bound: HashMap<&str, (usize, String)> = HashMap::new();
    for (i, id) in inputs.iter().enumerate() {
        let Some(parameter) = parameter(form, i) else { return Ok(()) };
        let Some(ty) = id.map(|id| &graph[id].ty) else { continue };
        let Some(found) = type_text(ty) else { continue };
        let name = parameter.name;
        let constraint = form.constraints.iter().find(|one| one.name == parameter.ty);
        let alone = [parameter.ty];
        let allowed = constraint.map_or(alone.as_slice(), |one| &one.types);
        if !allowed.contains(&found.as_str()) && !is_container_of_more(ty, allowed) {
            let message = format!("input {i}, `{name}`, is of type {found}");
            let diagnostic = Diagnostic::new(Code::TypeMismatch, message);
            return Err(diagnostic.note(format!("allowed: {}", allowed.join(", "))));
        }
        if constraint.is_none() || parameter.is_mixed {
            continue;
        }
        let (first, expected) =
            bound.entry(parameter.ty).or_insert_with(|| (i, found.clone())).clone();
        if found != expected {
            let message = format!(
                "inputs {first} and {i} must have one type, but are of types {expected} and {found}"
            );
            return Err(Diagnostic::new(Code::TypeMismatch, message));
        }
    }
    Ok(())
}

/// Returns the parameter of input `i`; the last one if it takes any number of inputs.
fn parameter(form: &'static Form, i: usize) -> Option<&'static Parameter> {
    let last = || form.inputs.last().filter(|last| matches!(last.times, Times::AtLeast(_)));
    form.inputs.get(i).or_else(last)
}

/// Returns whether a container has an element type that ONNX leaves out of its lists, but kernels
/// take: a tensor that may be absent is like any other, and `bfloat16` is a number.
fn is_container_of_more(ty: &Type, allowed: &[&str]) -> bool {
    let has = |form: &str| allowed.iter().any(|allowed| allowed.starts_with(form));
    match ty {
        Type::Optional(content) => has("optional(") && content.as_tensor().is_some(),
        Type::Sequence(element) => {
            let dtype = element.as_tensor().map(|ty| ty.dtype);
            has("seq(") && dtype == Some(DType::BF16)
        }
        _ => false,
    }
}

/// Writes a type without its sizes, in ONNX's textual syntax, or returns `None` if it is unknown.
fn type_text(ty: &Type) -> Option<String> {
    Some(match ty {
        Type::Tensor(ty) => ty.dtype.to_string(),
        Type::Unranked(dtype) | Type::Never(dtype) => dtype.to_string(),
        Type::Sequence(ty) => format!("seq({})", type_text(ty)?),
        Type::Optional(ty) => format!("optional({})", type_text(ty)?),
        Type::Map(key, ty) => format!("map({key},{})", type_text(ty)?),
        Type::Sparse(ty) => format!("sparse_tensor({})", ty.dtype),
        Type::Unknown => return None,
    })
}
