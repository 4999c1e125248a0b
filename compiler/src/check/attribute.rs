//! Attributes: one value of the declared type, or a reference to an attribute of a function.

use super::{
    attribute_types::kind_text,
    context::{Context, Place},
    graph,
    scope::Scope,
    sparse, tensor, types,
    unit::Unit,
};
use crate::diag::{Code, quoted};
use onnxc_proto::{AttributeProto, NodeProto, attribute_proto::AttributeType};
use std::collections::HashSet;

/// Checks the attributes of a node.
pub(super) fn attributes<'p>(
    cx: &mut Context<'p>,
    unit: Unit<'_, 'p>,
    node: &'p NodeProto,
    scope: &Scope<'_, 'p>,
) {
    let mut seen = HashSet::new();
    for attribute in &node.attribute {
        cx.within(Place::Attribute(attribute), |cx| {
            if attribute.name().is_empty() {
                cx.fault(Code::MissingField, "the attribute has no name");
            } else if !seen.insert(attribute.name()) {
                let message = format!("two attributes are called {}", quoted(attribute.name()));
                cx.fault(Code::DuplicateAttribute, message);
            }
            self::attribute(cx, unit, attribute, scope);
        });
    }
}

/// Checks an attribute except for its name, and its contents.
pub(super) fn attribute<'p>(
    cx: &mut Context<'p>,
    unit: Unit<'_, 'p>,
    proto: &'p AttributeProto,
    scope: &Scope<'_, 'p>,
) {
    value(cx, unit.model.ir_version, proto);
    reference(cx, proto);
    let tensors = proto.t.as_deref().into_iter().chain(&proto.tensors);
    tensors.for_each(|tensor| tensor::tensor(cx, tensor));
    let sparse_tensors = proto.sparse_tensor.as_deref().into_iter().chain(&proto.sparse_tensors);
    sparse_tensors.for_each(|tensor| sparse::sparse(cx, tensor));
    let type_protos = proto.tp.as_deref().into_iter().chain(&proto.type_protos);
    type_protos.for_each(|ty| types::ty(cx, ty));
    let graphs = proto.g.as_deref().into_iter().chain(&proto.graphs);
    graphs.for_each(|graph| graph::nested(cx, unit, graph, scope));
}

/// Checks that there is one value, of the declared type.
fn value(cx: &mut Context<'_>, ir_version: i64, proto: &AttributeProto) {
    let filled = filled(proto);
    if filled.len() > 1 {
        let names: Vec<&str> = filled.iter().map(|(field, _)| *field).collect();
        let message = format!("the attribute has several values, in `{}`", names.join("`, `"));
        return cx.fault(Code::AttributeValue, message);
    }
    let said = proto.r#type.unwrap_or_default();
    if said == 0 {
        if ir_version >= 2 {
            let message = "the attribute does not say its type";
            let help = "set `type`, which IR version 2 made a must";
            return cx.fault_with(Code::AttributeType, message, help);
        }
        if filled.is_empty() {
            cx.fault(Code::AttributeValue, "the attribute has no value");
        }
        return;
    }
    let Ok(kind) = AttributeType::try_from(said) else {
        return cx.fault(Code::AttributeType, format!("{said} is not a type of attributes"));
    };
    let is_reference = !proto.ref_attr_name().is_empty();
    match filled.first() {
        Some((field, found)) if *found != kind => {
            let message = format!(
                "the attribute has the type {}, but its value is in `{field}`",
                kind_text(kind)
            );
            cx.fault(Code::AttributeType, message);
        }
        // A missing number, text or list is zero or empty.
        None if is_message(kind) && !is_reference => {
            cx.fault(
                Code::AttributeValue,
                format!("the attribute has no value of type {}", kind_text(kind)),
            );
        }
        _ => {}
    }
}

/// Returns whether a value of a type is a message, which has no default.
fn is_message(kind: AttributeType) -> bool {
    use AttributeType::{Graph, SparseTensor, Tensor, TypeProto};
    matches!(kind, Graph | SparseTensor | Tensor | TypeProto)
}

fn reference(cx: &mut Context<'_>, proto: &AttributeProto) {
    let name = proto.ref_attr_name();
    if name.is_empty() {
        return;
    }
    let shown = quoted(name);
    let Some(function) = cx.in_function() else {
        let message =
            format!("it refers to the attribute {shown} of a function, but stands in none");
        return cx.fault_with(Code::AttributeReference, message, "write the value in its place");
    };
    let with_default = function.attribute_proto.iter().find(|known| known.name() == name);
    if with_default.is_none() && !function.attribute.iter().any(|known| known == name) {
        let message = format!("the function has no attribute {shown}");
        return cx.fault_with(Code::AttributeReference, message, "declare it, or correct the name");
    }
    if !filled(proto).is_empty() {
        let message = format!("it refers to the attribute {shown}, and has a value besides");
        return cx.fault(Code::AttributeReference, message);
    }
    let kinds = [Some(proto), with_default].map(|proto| proto.map(kind));
    if let [Some(here), Some(there)] = kinds
        && here != there
    {
        let message = format!(
            "it is {}, but the attribute {shown} that it refers to is {}",
            kind_text(here),
            kind_text(there)
        );
        cx.fault(Code::AttributeType, message);
    }
}

/// Returns the fields that hold a value, each with its attribute type.
fn filled(proto: &AttributeProto) -> Vec<(&'static str, AttributeType)> {
    let all = [
        (proto.f.is_some(), "f", AttributeType::Float),
        (proto.i.is_some(), "i", AttributeType::Int),
        (proto.s.is_some(), "s", AttributeType::String),
        (proto.t.is_some(), "t", AttributeType::Tensor),
        (proto.g.is_some(), "g", AttributeType::Graph),
        (proto.tp.is_some(), "tp", AttributeType::TypeProto),
        (proto.sparse_tensor.is_some(), "sparse_tensor", AttributeType::SparseTensor),
        (!proto.floats.is_empty(), "floats", AttributeType::Floats),
        (!proto.ints.is_empty(), "ints", AttributeType::Ints),
        (!proto.strings.is_empty(), "strings", AttributeType::Strings),
        (!proto.tensors.is_empty(), "tensors", AttributeType::Tensors),
        (!proto.graphs.is_empty(), "graphs", AttributeType::Graphs),
        (!proto.sparse_tensors.is_empty(), "sparse_tensors", AttributeType::SparseTensors),
        (!proto.type_protos.is_empty(), "type_protos", AttributeType::TypeProtos),
    ];
    let filled = all.into_iter().filter(|(is_filled, ..)| *is_filled);
    filled.map(|(_, field, kind)| (field, kind)).collect()
}

/// Returns the type of an attribute. Files of IR version 1 do not declare it.
pub fn kind(proto: &AttributeProto) -> AttributeType {
    match proto.r#type() {
        AttributeType::Undefined => {
            filled(proto).first().map_or(AttributeType::Undefined, |(_, kind)| *kind)
        }
        said => said,
    }
}

/// Returns whether the attribute has one type, so that it can be compared with the expected one.
pub(super) fn is_sound(proto: &AttributeProto) -> bool {
    let filled = filled(proto);
    let said = proto.r#type.and_then(|said| AttributeType::try_from(said).ok());
    filled.len() <= 1
        && match said {
            None | Some(AttributeType::Undefined) => false,
            Some(said) => filled.iter().all(|(_, kind)| *kind == said),
        }
}
