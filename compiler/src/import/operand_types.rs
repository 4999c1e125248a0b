//! Compares the types of a node's inputs with those that the signature of its operator allows.
//!
//! Operators check what their kernels need. This finds what they overlook, such as the type of an
//! input that only a run reads.

use crate::{
    check::signature::{self, Form, Parameter, Times},
    diag::{Code, Diagnostic, Result},
    ir::{Graph, ValueId},
    ty::Type,
};
use std::collections::HashMap;

/// The types of the inputs and the outputs of a node: `None` for one that is omitted or unknown.
#[derive(PartialEq, Eq, Hash)]
pub struct Operands {
    inputs: Vec<Option<String>>,
    outputs: Vec<Option<String>>,
}

impl Operands {
    /// Returns the types of these values.
    pub fn of(graph: &Graph, inputs: &[Option<ValueId>], outputs: &[Option<ValueId>]) -> Operands {
        let of = |ids: &[Option<ValueId>]| {
            ids.iter().map(|id| id.and_then(|id| type_text(&graph[id].ty))).collect()
        };
        Operands { inputs: of(inputs), outputs: of(outputs) }
    }
}

/// Returns whether a form lists these types, as runtimes demand.
pub fn lists(form: &'static Form, operands: &Operands) -> bool {
    let mut bound: HashMap<&str, &str> = HashMap::new();
    let sides = [(&form.inputs, &operands.inputs), (&form.outputs, &operands.outputs)];
    let given = sides.into_iter().flat_map(|(parameters, types)| {
        types.iter().enumerate().map(move |(i, found)| (parameter(parameters, i), found))
    });
    given.into_iter().all(|operand| {
        let (Some(parameter), Some(found)) = operand else { return true };
        let is_free = parameter.is_mixed || form.constraint(parameter).is_none();
        let is_one = is_free || *bound.entry(parameter.ty).or_insert(found) == found;
        is_one && form.types(parameter).contains(&found.as_str())
    })
}

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
        let Some(parameter) = parameter(&form.inputs, i) else { return Ok(()) };
        let Some(found) = id.and_then(|id| type_text(&graph[id].ty)) else { continue };
        let allowed = form.types(parameter);
        if !is_allowed(&found, allowed) {
            let message = format!("input {i}, `{}`, is of type {found}", parameter.name);
            let diagnostic = Diagnostic::new(Code::TypeMismatch, message);
            return Err(diagnostic.note(format!("allowed: {}", allowed.join(", "))));
        }
        if form.constraint(parameter).is_none() || parameter.is_mixed {
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

/// Warns about the first input whose type is none that the version of the operator lists. Kernels
/// take it, but other runtimes refuse the model.
pub(super) fn warn_of_unlisted_types(
    graph: &Graph,
    (domain, name, version): (&str, &str, i64),
    inputs: &[Option<ValueId>],
) -> Option<Diagnostic> {
    let (since, signature) = signature::find(domain, name, version)?;
    let form = signature.form.as_ref()?;
    let operands = Operands::of(graph, inputs, &[]);
    let unlisted = operands.inputs.iter().enumerate().find_map(|(i, found)| {
        let (parameter, found) = (parameter(&form.inputs, i)?, found.as_ref()?);
        let allowed = form.types(parameter);
        (!allowed.contains(&found.as_str())).then_some((i, parameter, found, allowed))
    });
    let (i, parameter, found, allowed) = unlisted?;
    let message = format!(
        "input {i}, `{}`, is of type {found}, which version {since} of the operator does not have",
        parameter.name
    );
    let warning = Diagnostic::warning(Code::TypeMismatch, message);
    let warning = warning.note(format!("allowed: {}", allowed.join(", ")));
    let newer = signature::versions(domain, name).filter(|(since, form)| {
        *since > version && form.is_some_and(|form| lists(form, &operands))
    });
    Some(match newer.map(|(since, _)| since).min() {
        Some(newer) => warning.help(format!("import version {newer} of the operator set")),
        None => warning.help("put a `Cast` before it"),
    })
}

/// Returns the parameter of argument `i`; the last one if it takes any number of arguments.
fn parameter(parameters: &'static [Parameter], i: usize) -> Option<&'static Parameter> {
    let last = || parameters.last().filter(|last| matches!(last.times, Times::AtLeast(_)));
    parameters.get(i).or_else(last)
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
