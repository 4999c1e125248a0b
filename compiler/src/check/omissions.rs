//! Reports what ONNX's own checker requires of the interface of a model, and compilation does
//! without: the types of outputs, which are inferred, and the shapes of inputs, which the user may
//! specify.

use super::{
    context::{Checked, Context, Place},
    types,
};
use crate::diag::{Code, Diagnostic};
use onnxc_proto::{ModelProto, ValueInfoProto, type_proto::Value};

/// Reports the inputs and outputs of a model whose type or shape is missing, as warnings. Errors
/// that [`super::model`] reports are left out.
pub fn omissions(proto: &ModelProto) -> Checked {
    let mut cx = Context::default();
    if let Some(graph) = &proto.graph {
        cx.within(Place::Graph(graph), |cx| {
            let inputs = graph.input.iter().map(|value| ("input", value));
            for (role, value) in inputs.chain(graph.output.iter().map(|value| ("output", value))) {
                cx.within(Place::Value(role, value), |cx| interface(cx, role, value));
            }
        });
    }
    cx.finish()
}

fn interface(cx: &mut Context<'_>, role: &str, info: &ValueInfoProto) {
    let ty = info.r#type.as_ref().and_then(|ty| ty.value.as_ref());
    let missing = match ty {
        None if role == "input" => return,
        None => "type",
        Some(Value::TensorType(ty)) if ty.shape.is_none() && types::is_complete(ty) => "shape",
        Some(
            Value::TensorType(_)
            | Value::SparseTensorType(_)
            | Value::SequenceType(_)
            | Value::OptionalType(_)
            | Value::MapType(_)
            | Value::OpaqueType(_),
        ) => return,
    };
    let warning = Diagnostic::warning(Code::MissingType, format!("the {role} has no {missing}"));
    let source = if role == "output" { "onnxc infers it" } else { "`--shape` sets it" };
    let help = match missing {
        "shape" => "declare one: an unknown size has a name (`dim_param`), or is left empty",
        _ => "declare one",
    };
    cx.report(warning.note(source).help(help));
}
