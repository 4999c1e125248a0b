//! Declared types.

use super::{context::Context, metadata::metadata};
use crate::{
    diag::{Code, Diagnostic, Result},
    dtype::DType,
};
use onnxc_proto::{
    TensorShapeProto, TypeProto, ValueInfoProto,
    tensor_shape_proto::dimension,
    type_proto::{self, Value},
};

/// Checks the type of an input of a model, which is required. The user may specify a missing shape.
pub(super) fn input(cx: &mut Context<'_>, info: &ValueInfoProto) {
    if info.r#type.as_ref().is_none_or(|ty| ty.value.is_none()) {
        return cx.fault_with(Code::MissingType, "the input has no type", "declare one");
    }
    declared(cx, info);
    if let Some(Value::TensorType(ty)) = info.r#type.as_ref().and_then(|ty| ty.value.as_ref()) {
        ty.shape.iter().for_each(|shape| unknown_sizes(cx, info.name(), shape));
    }
}

/// Warns about sizes of -1.
fn unknown_sizes(cx: &mut Context<'_>, input: &str, shape: &TensorShapeProto) {
    for (axis, dim) in shape.dim.iter().enumerate() {
        if dim.value == Some(dimension::Value::DimValue(-1)) {
            let message = format!("axis {axis} has the size -1, which is read as unknown");
            let warning = Diagnostic::warning(Code::UnknownSize, message);
            cx.report(warning.help(format!("set the size with `--dim {input}_{axis}=N`")));
        }
    }
}

/// Checks the declared type of a value, if there is one: converters write empty types.
pub(super) fn declared(cx: &mut Context<'_>, info: &ValueInfoProto) {
    metadata(cx, &info.metadata_props);
    if let Some(proto) = info.r#type.as_ref().filter(|ty| ty.value.is_some()) {
        ty(cx, proto);
    }
}

/// Returns whether a type of tensors says of what.
pub(super) fn is_complete(ty: &type_proto::Tensor) -> bool {
    dtype(ty.elem_type.unwrap_or_default(), "elem_type").is_ok()
}

/// Checks a type.
pub(super) fn ty(cx: &mut Context<'_>, proto: &TypeProto) {
    if let Err(diagnostic) = fault(proto) {
        cx.report(diagnostic);
    }
}

/// Types nest no deeper than messages, whose depth the decoder limits.
fn fault(proto: &TypeProto) -> Result {
    let inner = |proto: Option<&TypeProto>, field| match proto {
        Some(proto) => fault(proto),
        None => Err(missing(field)),
    };
    match &proto.value {
        None => Err(Diagnostic::new(Code::MissingType, "the type says nothing")),
        Some(Value::TensorType(ty)) => {
            dtype(ty.elem_type.unwrap_or_default(), "elem_type")?;
            ty.shape.as_ref().map_or(Ok(()), shape)
        }
        Some(Value::SparseTensorType(ty)) => {
            dtype(ty.elem_type.unwrap_or_default(), "elem_type")?;
            shape(ty.shape.as_ref().ok_or_else(|| missing("shape"))?)
        }
        Some(Value::SequenceType(ty)) => inner(ty.elem_type.as_deref(), "elem_type"),
        Some(Value::OptionalType(ty)) => inner(ty.elem_type.as_deref(), "elem_type"),
        Some(Value::MapType(ty)) => {
            key(dtype(ty.key_type.unwrap_or_default(), "key_type")?)?;
            inner(ty.value_type.as_deref(), "value_type")
        }
        Some(Value::OpaqueType(ty)) if ty.name().is_empty() => {
            Err(Diagnostic::new(Code::BadType, "the opaque type has no name"))
        }
        Some(Value::OpaqueType(_)) => Ok(()),
    }
}

/// Checks that an element type is allowed for keys.
pub(super) fn key(dtype: DType) -> Result {
    use DType::{I8, I16, I32, I64, String, U8, U16, U32, U64};
    if matches!(dtype, I8 | I16 | I32 | I64 | U8 | U16 | U32 | U64 | String) {
        return Ok(());
    }
    let message = format!("keys of a map are whole numbers or strings, not {dtype}");
    Err(Diagnostic::new(Code::BadType, message))
}

fn dtype(code: i32, field: &str) -> Result<DType> {
    DType::from_code(code).ok_or_else(|| match code {
        0 => missing(field),
        _ => Diagnostic::new(Code::BadType, format!("{code} is not an element type of ONNX")),
    })
}

fn shape(proto: &TensorShapeProto) -> Result {
    for (axis, dim) in proto.dim.iter().enumerate() {
        // Exporters write -1 for an unknown size, and all readers accept it.
        if let Some(dimension::Value::DimValue(size @ ..-1)) = dim.value {
            let message = format!("axis {axis} has the size {size}");
            let help = "a size that is not known has a name (`dim_param`), or nothing";
            return Err(Diagnostic::new(Code::NegativeSize, message).help(help));
        }
    }
    Ok(())
}

fn missing(field: &str) -> Diagnostic {
    Diagnostic::new(Code::MissingType, format!("the field `{field}` of the type is missing"))
}
