//! Sequences, maps and optionals in separate files, as in test data.

use super::{
    context::{Checked, Context, Place},
    sparse, tensor, types,
};
use crate::{
    diag::{Code, Diagnostic, Result, counted, quoted},
    dtype::DType,
};
use onnxc_proto::{
    MapProto, OptionalProto, SequenceProto, optional_proto::DataType as OptionalKind,
    sequence_proto::DataType as SequenceKind,
};

/// Checks a sequence.
pub fn sequence(proto: &SequenceProto) -> Checked {
    let mut cx = Context::default();
    in_sequence(&mut cx, proto);
    cx.finish()
}

/// Checks an optional.
pub fn optional(proto: &OptionalProto) -> Checked {
    let mut cx = Context::default();
    in_optional(&mut cx, proto);
    cx.finish()
}

/// Checks a map.
pub fn map(proto: &MapProto) -> Checked {
    let mut cx = Context::default();
    in_map(&mut cx, proto);
    cx.finish()
}

fn in_sequence<'p>(cx: &mut Context<'p>, proto: &'p SequenceProto) {
    let fields = [
        (SequenceKind::Tensor, proto.tensor_values.len()),
        (SequenceKind::SparseTensor, proto.sparse_tensor_values.len()),
        (SequenceKind::Sequence, proto.sequence_values.len()),
        (SequenceKind::Map, proto.map_values.len()),
        (SequenceKind::Optional, proto.optional_values.len()),
    ];
    let said = SequenceKind::try_from(proto.elem_type.unwrap_or_default());
    let kind = said.ok().filter(|kind| *kind != SequenceKind::Undefined);
    let Some(kind) = kind else {
        return cx.fault(Code::Container, "the sequence does not say what it is of: `elem_type`");
    };
    if let Some((other, _)) = fields.iter().find(|(other, len)| *other != kind && *len > 0) {
        let message =
            format!("the sequence is of kind {kind:?}, but has elements of kind {other:?}");
        return cx.fault(Code::Container, message);
    }
    each(cx, &proto.tensor_values, |cx, value| tensor::tensor(cx, value));
    each(cx, &proto.sparse_tensor_values, sparse::sparse);
    each(cx, &proto.sequence_values, in_sequence);
    each(cx, &proto.map_values, in_map);
    each(cx, &proto.optional_values, in_optional);
}

fn each<'p, M>(cx: &mut Context<'p>, values: &'p [M], check: impl Fn(&mut Context<'p>, &'p M)) {
    for (i, value) in values.iter().enumerate() {
        cx.within(Place::Item("element", i), |cx| check(cx, value));
    }
}

fn in_optional<'p>(cx: &mut Context<'p>, proto: &'p OptionalProto) {
    let fields = [
        (OptionalKind::Tensor, proto.tensor_value.is_some()),
        (OptionalKind::SparseTensor, proto.sparse_tensor_value.is_some()),
        (OptionalKind::Sequence, proto.sequence_value.is_some()),
        (OptionalKind::Map, proto.map_value.is_some()),
        (OptionalKind::Optional, proto.optional_value.is_some()),
    ];
    let Ok(kind) = OptionalKind::try_from(proto.elem_type.unwrap_or_default()) else {
        return cx.fault(Code::Container, "the optional is of a kind that ONNX does not have");
    };
    if let Some((other, _)) = fields.iter().find(|(other, is_there)| *other != kind && *is_there) {
        let message =
            format!("the optional is of kind {kind:?}, but has a value of kind {other:?}");
        return cx.fault(Code::Container, message);
    }
    proto.tensor_value.iter().for_each(|value| tensor::tensor(cx, value));
    proto.sparse_tensor_value.iter().for_each(|value| sparse::sparse(cx, value));
    proto.sequence_value.iter().for_each(|value| in_sequence(cx, value));
    proto.map_value.iter().for_each(|value| in_map(cx, value));
    proto.optional_value.iter().for_each(|value| in_optional(cx, value));
}

fn in_map<'p>(cx: &mut Context<'p>, proto: &'p MapProto) {
    if let Err(diagnostic) = map_form(proto) {
        return cx.report(diagnostic);
    }
    if let Some(values) = &proto.values {
        cx.within(Place::Field("values"), |cx| in_sequence(cx, values));
    }
}

fn map_form(proto: &MapProto) -> Result {
    let bad = |message: String| Diagnostic::new(Code::Container, message);
    let dtype = tensor::dtype(proto.key_type.unwrap_or_default())
        .map_err(|_| bad("the map does not say what its keys are: `key_type`".into()))?;
    types::key(dtype)?;
    let (wrong, right) = if dtype == DType::String {
        (proto.keys.len(), proto.string_keys.len())
    } else {
        (proto.string_keys.len(), proto.keys.len())
    };
    if wrong > 0 {
        return Err(bad(format!("the keys are of type {dtype}, but stored otherwise")));
    }
    if let Some(key) = proto.string_keys.iter().find(|key| std::str::from_utf8(key).is_err()) {
        let message =
            format!("the key {} is not valid UTF-8", quoted(&String::from_utf8_lossy(key)));
        return Err(Diagnostic::new(Code::BadText, message));
    }
    let Some(values) = &proto.values else { return Err(bad("the map has no `values`".into())) };
    let count = values.tensor_values.len()
        + values.sparse_tensor_values.len()
        + values.sequence_values.len()
        + values.map_values.len()
        + values.optional_values.len();
    if count != right {
        let (keys, values) = (counted(right, "key"), counted(count, "value"));
        return Err(bad(format!("the map has {keys}, but {values}")));
    }
    Ok(())
}
