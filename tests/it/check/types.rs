//! Rules for declared and inferred types.

use super::{Case, bases::PLAIN, case, edit, swap};
use onnxc::diag::Code::*;
use onnxc_proto::{
    TypeProto, ValueInfoProto,
    tensor_shape_proto::dimension::Value as Size,
    type_proto::{self, Value},
};

/// Returns [`PLAIN`] with a further input of a type, changed.
fn input(ty: &str, change: impl FnOnce(&mut TypeProto)) -> Vec<u8> {
    let base = PLAIN.replace("float[3] b)", &format!("float[3] b, {ty} more)"));
    edit(&base, |m| {
        let input = &mut m.graph.as_mut().expect("the base model has a graph").input[2];
        change(input.r#type.as_mut().expect("the input has a type"));
    })
}

fn value(ty: &mut TypeProto) -> &mut Value {
    ty.value.as_mut().expect("the type has a value")
}

fn tensor(ty: &mut TypeProto) -> &mut type_proto::Tensor {
    match value(ty) {
        Value::TensorType(tensor) => tensor,
        _ => panic!("the type is a tensor's"),
    }
}

fn size(ty: &mut TypeProto, size: i64) {
    let shape = tensor(ty).shape.as_mut().expect("the tensor has a shape");
    shape.dim[0].value = Some(Size::DimValue(size));
}

/// Returns [`PLAIN`] with the declaration of an intermediate value.
fn inner(ty: &str, change: impl FnOnce(&mut ValueInfoProto)) -> Vec<u8> {
    let base = PLAIN.replace("{1, 2, 3}>", &format!("{{1, 2, 3}}, {ty} y>"));
    edit(&base, |m| {
        change(&mut m.graph.as_mut().expect("the base model has a graph").value_info[0])
    })
}

fn output(change: impl FnOnce(&mut TypeProto)) -> Vec<u8> {
    edit(PLAIN, |m| {
        let output = &mut m.graph.as_mut().expect("the base model has a graph").output[0];
        change(output.r#type.as_mut().expect("the output has a type"));
    })
}

pub fn cases() -> Vec<Case> {
    use Value::{MapType, OpaqueType, OptionalType, SequenceType, SparseTensorType};
    vec![
        case(
            "input_untyped",
            MissingType,
            "the input has no type",
            edit(PLAIN, |m| {
                let graph = m.graph.as_mut().expect("the base model has a graph");
                let more = ValueInfoProto { name: Some("more".into()), ..Default::default() };
                graph.input.push(more);
            }),
        ),
        case(
            "type_empty",
            MissingType,
            "the input has no type",
            input("float[2]", |ty| ty.value = None),
        ),
        case("input_shapeless", MissingType, "the input has no shape", {
            input("float[2]", |ty| tensor(ty).shape = None)
        }),
        case("output_untyped", MissingType, "the output has no type", output(|ty| ty.value = None)),
        case("output_shapeless", MissingType, "the output has no shape", {
            output(|ty| tensor(ty).shape = None)
        }),
        case(
            "type_no_element",
            MissingType,
            "`elem_type`",
            input("float[2]", |ty| tensor(ty).elem_type = None),
        ),
        case(
            "type_element_undefined",
            MissingType,
            "`elem_type`",
            input("float[2]", |ty| tensor(ty).elem_type = Some(0)),
        ),
        case(
            "type_element_unknown",
            BadType,
            "99 is not",
            input("float[2]", |ty| tensor(ty).elem_type = Some(99)),
        ),
        case(
            "type_negative",
            NegativeSize,
            "axis 0 has the size -2",
            input("float[2]", |ty| size(ty, -2)),
        ),
        case(
            "type_sequence",
            MissingType,
            "`elem_type`",
            input("seq(float[2])", |ty| {
                if let SequenceType(sequence) = value(ty) {
                    sequence.elem_type = None;
                }
            }),
        ),
        case(
            "type_optional",
            MissingType,
            "`elem_type`",
            input("optional(float[2])", |ty| {
                if let OptionalType(optional) = value(ty) {
                    optional.elem_type = None;
                }
            }),
        ),
        case(
            "type_map_no_key",
            MissingType,
            "`key_type`",
            input("map(int64, float[2])", |ty| {
                if let MapType(map) = value(ty) {
                    map.key_type = None;
                }
            }),
        ),
        case(
            "type_map_float",
            BadType,
            "not float",
            input("map(int64, float[2])", |ty| {
                if let MapType(map) = value(ty) {
                    map.key_type = Some(1);
                }
            }),
        ),
        case(
            "type_map_bool",
            BadType,
            "not bool",
            input("map(int64, float[2])", |ty| {
                if let MapType(map) = value(ty) {
                    map.key_type = Some(9);
                }
            }),
        ),
        case(
            "type_map_no_value",
            MissingType,
            "`value_type`",
            input("map(int64, float[2])", |ty| {
                if let MapType(map) = value(ty) {
                    map.value_type = None;
                }
            }),
        ),
        case(
            "type_sparse_no_shape",
            MissingType,
            "`shape`",
            input("sparse_tensor(float[2])", |ty| {
                if let SparseTensorType(sparse) = value(ty) {
                    sparse.shape = None;
                }
            }),
        ),
        case(
            "type_opaque",
            BadType,
            "has no name",
            input("float[2]", |ty| {
                ty.value = Some(OpaqueType(type_proto::Opaque::default()));
            }),
        ),
        case(
            "type_of_output",
            NegativeSize,
            "the size -2",
            edit(PLAIN, |m| {
                let output = &mut m.graph.as_mut().expect("the base model has a graph").output[0];
                size(output.r#type.as_mut().expect("the output has a type"), -2);
            }),
        ),
        case(
            "type_of_value",
            NegativeSize,
            "the size -7",
            inner("float[2, 3]", |info| {
                size(info.r#type.as_mut().expect("the value has a type"), -7);
            }),
        ),
        case(
            "declared_element",
            DeclaredMismatch,
            "declares double[2, 3]",
            swap(PLAIN, "=> (float[", "=> (double["),
        ),
        case(
            "declared_size",
            DeclaredMismatch,
            "declares float[2, 4]",
            swap(PLAIN, "=> (float[2, 3]", "=> (float[2, 4]"),
        ),
        case(
            "declared_rank",
            DeclaredMismatch,
            "declares float[6]",
            swap(PLAIN, "=> (float[2, 3]", "=> (float[6]"),
        ),
        case(
            "declared_size_inside",
            DeclaredMismatch,
            "declares float[9, 3]",
            inner("float[9, 3]", |_| {}),
        ),
        case(
            "declared_inside",
            DeclaredMismatch,
            "declares int64[2, 3]",
            inner("int64[2, 3]", |_| {}),
        ),
        case(
            "element_refused",
            TypeMismatch,
            "is string",
            swap(
                &PLAIN.replace("[first]", "u = Neg(s) [first]"),
                "(float[2, 3] x",
                "(string[2] s, float[2, 3] x",
            ),
        ),
        case(
            "elements_differ",
            TypeMismatch,
            "element type",
            swap(
                &PLAIN.replace("[first]", "u = Add(x, s) [first]"),
                "(float[2, 3] x",
                "(double[3] s, float[2, 3] x",
            ),
        ),
        case(
            "sizes_differ",
            ShapeMismatch,
            "do not broadcast",
            swap(
                &PLAIN.replace("[first]", "u = Add(x, s) [first]"),
                "(float[2, 3] x",
                "(float[4] s, float[2, 3] x",
            ),
        ),
    ]
}
