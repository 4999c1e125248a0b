//! Compares the types of a node's inputs with those that the signature of its operator allows.
//!
//! Operators check what their kernels need. This finds what they overlook, such as the type of an
//! input that only a run reads.

use crate::{
    check::signature::{Form, Parameter, Times},
    diag::{Code, Diagnostic, Result},
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
        let Some(found) = id.and_then(|id| type_text(&graph[id].ty)) else { continue };
        let name = parameter.name;
        let constraint = form.constraints.iter().find(|one| one.name == parameter.ty);
        let alone = [parameter.ty];
        let allowed = constraint.map_or(alone.as_slice(), |one| &one.types);
        if !is_allowed(&found, allowed) {
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

/// Returns whether an operator takes a type. Indices, sizes and flags must have a type of the list.
/// Where the list has floating-point types, kernels take more than ONNX lists, so that only the
/// kind of type counts.
fn is_allowed(found: &str, allowed: &[&str]) -> bool {
    if allowed.contains(&found) {
        return true;
    }
    let kinds: Vec<Kind> = allowed.iter().map(|text| Kind::of(text)).collect();
    let kind = Kind::of(found);
    if kind.form == "optional" {
        return kinds.iter().any(|other| other.form == kind.form);
    }
    let takes_floats = kinds.iter().any(|kind| kind.class == Class::Float);
    takes_floats && kinds.contains(&kind)
}

/// A container and a class of elements: types of one kind have the same kernels.
#[derive(PartialEq)]
struct Kind<'t> {
    /// The container, or nothing for a tensor.
    form: &'t str,
    class: Class,
}

/// A class of element types.
#[derive(PartialEq)]
enum Class {
    Float,
    Integer,
    /// Fewer than eight bits, or a floating-point type of eight bits.
    Narrow,
    Other,
}

impl Kind<'_> {
    fn of(text: &str) -> Kind<'_> {
        let (form, element) = text.split_once('(').unwrap_or(("", text));
        let class = match element.trim_end_matches(')') {
            "float" | "double" | "float16" | "bfloat16" => Class::Float,
            "int8" | "int16" | "int32" | "int64" | "uint8" | "uint16" | "uint32" | "uint64" => {
                Class::Integer
            }
            text if text.starts_with("float")
                || text.trim_start_matches('u').starts_with("int") =>
            {
                Class::Narrow
            }
            _ => Class::Other,
        };
        Kind { form, class }
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
