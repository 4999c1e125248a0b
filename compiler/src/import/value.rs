//! Reads and writes values in files of their own, such as test data.

use super::{alone, proto, types};
use crate::{
    array::Array,
    check,
    diag::{Code, Diagnostic, Result},
    dtype::DType,
    tensor::{Data, Tensor},
    ty::Type,
    value::Value,
};
use onnxc_proto::{
    Bytes, MapProto, Message, OptionalProto, SequenceProto, TensorProto, TypeProto,
    optional_proto::DataType as OptionalKind, sequence_proto::DataType as SequenceKind, type_proto,
};

/// Decodes a value of type `ty`, or a tensor without one.
///
/// # Errors
///
/// Returns an error if the bytes are not a message of the type, or if the message is invalid.
pub fn read(bytes: Bytes, ty: Option<&TypeProto>) -> Result<Value> {
    match ty.and_then(|ty| ty.value.as_ref()) {
        Some(type_proto::Value::SequenceType(_)) => {
            let proto = decode(bytes)?;
            check::sequence(&proto).into_first()?;
            sequence(&proto)
        }
        Some(type_proto::Value::OptionalType(_)) => {
            let proto = decode(bytes)?;
            check::optional(&proto).into_first()?;
            optional(&proto)
        }
        Some(type_proto::Value::MapType(_)) => {
            let proto = decode(bytes)?;
            check::map(&proto).into_first()?;
            map(&proto)
        }
        _ => tensor(&decode(bytes)?),
    }
}

/// Returns the type that [`read`] takes for values of type `ty`, without names of sizes.
pub fn type_message(ty: &Type) -> Option<TypeProto> {
    types::proto(ty, &|_| None)
}

/// Encodes a value.
pub fn write(value: &Value, name: &str) -> Vec<u8> {
    match value {
        Value::Tensor(tensor) => proto(tensor, name).encode_to_vec(),
        Value::Sequence(values) => sequence_proto(values, name).encode_to_vec(),
        Value::Optional(value) => optional_proto(value.as_deref(), name).encode_to_vec(),
        Value::Map(keys, values) => map_proto(keys, values, name).encode_to_vec(),
    }
}

fn decode<M: Message + Default>(bytes: Bytes) -> Result<M> {
    M::decode(bytes).map_err(|error| Diagnostic::new(Code::BadTensor, error.to_string()))
}

fn tensor(proto: &TensorProto) -> Result<Value> {
    alone(proto).map(Value::Tensor)
}

fn sequence(proto: &SequenceProto) -> Result<Value> {
    if !proto.sparse_tensor_values.is_empty() {
        return Err(unread_sparse());
    }
    let tensors = proto.tensor_values.iter().map(tensor);
    let sequences = proto.sequence_values.iter().map(sequence);
    let maps = proto.map_values.iter().map(map);
    let optionals = proto.optional_values.iter().map(optional);
    let all = tensors.chain(sequences).chain(maps).chain(optionals);
    Ok(Value::Sequence(all.collect::<Result<_>>()?))
}

fn optional(proto: &OptionalProto) -> Result<Value> {
    let value = match proto {
        OptionalProto { tensor_value: Some(value), .. } => tensor(value)?,
        OptionalProto { sequence_value: Some(value), .. } => sequence(value)?,
        OptionalProto { map_value: Some(value), .. } => map(value)?,
        OptionalProto { optional_value: Some(value), .. } => optional(value)?,
        OptionalProto { sparse_tensor_value: Some(_), .. } => return Err(unread_sparse()),
        _ => return Ok(Value::Optional(None)),
    };
    Ok(Value::Optional(Some(Box::new(value))))
}

/// The error for a sparse tensor inside of another value.
fn unread_sparse() -> Diagnostic {
    let message = "onnxc does not read sparse tensors in sequences and optionals";
    Diagnostic::new(Code::Unsupported, message).help("store them as dense tensors")
}

fn map(proto: &MapProto) -> Result<Value> {
    let bad = |what: &str| Diagnostic::new(Code::BadTensor, what);
    let dtype = DType::from_code(proto.key_type.unwrap_or_default());
    let keys = if dtype == Some(DType::String) {
        let text = |key: &Bytes| String::from_utf8(key.to_vec());
        let keys = proto.string_keys.iter().map(text).collect::<std::result::Result<_, _>>();
        Tensor::from_strings(keys.map_err(|_| bad("a key of the map is not UTF-8"))?)
    } else {
        Tensor::from_ints(&proto.keys)
    };
    let values = proto.values.iter().flat_map(|values| &values.tensor_values);
    let values: Vec<Tensor> = values.map(alone).collect::<Result<_>>()?;
    let dtype = values.first().map_or(DType::F32, |value| value.dtype);
    let mut all = Array::zeroed(dtype, 0);
    for value in &values {
        if (value.dtype, value.len()) != (dtype, 1) {
            return Err(bad("the values of the map are not numbers of one type"));
        }
        all.append(Array::from_tensor(value));
    }
    if values.len() != keys.len() {
        return Err(bad("the map has not as many values as keys"));
    }
    Ok(Value::Map(keys, all.into_tensor(vec![values.len()])))
}

fn sequence_proto(values: &[Value], name: &str) -> SequenceProto {
    let mut found = SequenceProto { name: Some(name.to_owned()), ..SequenceProto::default() };
    let mut kind = SequenceKind::Tensor;
    for value in values {
        kind = match value {
            Value::Tensor(value) => {
                found.tensor_values.push(proto(value, ""));
                SequenceKind::Tensor
            }
            Value::Sequence(values) => {
                found.sequence_values.push(sequence_proto(values, ""));
                SequenceKind::Sequence
            }
            Value::Optional(value) => {
                found.optional_values.push(optional_proto(value.as_deref(), ""));
                SequenceKind::Optional
            }
            Value::Map(keys, values) => {
                found.map_values.push(map_proto(keys, values, ""));
                SequenceKind::Map
            }
        };
    }
    found.elem_type = Some(kind as i32);
    found
}

fn optional_proto(value: Option<&Value>, name: &str) -> OptionalProto {
    let mut found = OptionalProto { name: Some(name.to_owned()), ..OptionalProto::default() };
    let kind = match value {
        None => OptionalKind::Undefined,
        Some(Value::Tensor(value)) => {
            found.tensor_value = Some(proto(value, ""));
            OptionalKind::Tensor
        }
        Some(Value::Sequence(values)) => {
            found.sequence_value = Some(sequence_proto(values, ""));
            OptionalKind::Sequence
        }
        Some(Value::Optional(value)) => {
            found.optional_value = Some(Box::new(optional_proto(value.as_deref(), "")));
            OptionalKind::Optional
        }
        Some(Value::Map(keys, values)) => {
            found.map_value = Some(map_proto(keys, values, ""));
            OptionalKind::Map
        }
    };
    found.elem_type = Some(kind as i32);
    found
}

fn map_proto(keys: &Tensor, values: &Tensor, name: &str) -> MapProto {
    let each = Array::from_tensor(values);
    let each = (0..values.len()).map(|i| Value::Tensor(each.part(i, 1).into_tensor(Vec::new())));
    MapProto {
        name: Some(name.to_owned()),
        key_type: Some(keys.dtype.code()),
        keys: keys.ints().unwrap_or_default(),
        string_keys: match &keys.data {
            Data::Strings(keys) => keys.iter().map(|key| Bytes::from(key.clone())).collect(),
            Data::Bytes(_) => Vec::new(),
        },
        values: Some(sequence_proto(&each.collect::<Vec<_>>(), "")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::import::text;

    fn survives(value: &Value, ty: &str) {
        let text = format!("<ir_version: 10, opset_import: [\"\" : 21]> g ({ty} x) => (x) {{}}");
        let model = text::model(&text).expect("the model is valid");
        let graph = model.graph.expect("the model has a graph");
        let found = read(write(value, "x").into(), graph.input[0].r#type.as_ref());
        assert_eq!(found.as_ref(), Ok(value), "{ty}");
    }

    #[test]
    fn sparse_tensors_are_not_left_out() {
        let sparse = "sparse_tensor(float[3]) = {1} at {1}";
        let text = format!(
            "<ir_version: 10, opset_import: [\"\" : 21]>
            g (optional(float[3]) o, seq(float[3]) s) => () {{ v = a.B<v = {sparse}>() }}"
        );
        let graph = text::model(&text).expect("the text is valid").graph.expect("it has a graph");
        let sparse = *graph.node[0].attribute[0].sparse_tensor.clone().expect("it is sparse");
        let list = SequenceProto {
            elem_type: Some(SequenceKind::SparseTensor as i32),
            sparse_tensor_values: vec![sparse.clone()],
            ..SequenceProto::default()
        };
        let optional = OptionalProto {
            elem_type: Some(OptionalKind::SparseTensor as i32),
            sparse_tensor_value: Some(sparse),
            ..OptionalProto::default()
        };
        for (i, bytes) in [optional.encode_to_vec(), list.encode_to_vec()].into_iter().enumerate() {
            let found = read(bytes.into(), graph.input[i].r#type.as_ref());
            assert_eq!(found.map_err(|error| error.code), Err(Code::Unsupported));
        }
    }

    #[test]
    fn values_survive_a_round_trip_through_a_file() {
        let tensor = || Value::Tensor(Tensor::from_ints(&[1, 2]));
        let keys = Tensor::from_strings(vec!["a".into(), "b".into()]);
        let map = || Value::Map(keys.clone(), Tensor::from_floats(&[0.5, 1.5]));
        survives(&tensor(), "int64[2]");
        survives(&Value::Sequence(vec![tensor(), tensor()]), "seq(int64[2])");
        survives(&Value::Sequence(vec![map()]), "seq(map(string, float))");
        survives(&Value::Optional(None), "optional(int64[2])");
        let inside = Value::Sequence(vec![tensor()]);
        survives(&Value::Optional(Some(inside.into())), "optional(seq(int64[2]))");
        survives(&map(), "map(string, float)");
    }
}
