//! Rules for tensors, dense and sparse.

use super::{
    Case,
    bases::{COORDINATES, PLAIN, SPARSE, entry},
    case, edit,
};
use onnxc::diag::Code::*;
use onnxc_proto::{
    Bytes, SparseTensorProto, TensorProto,
    tensor_proto::{DataLocation, DataType, Segment},
};

/// Returns [`PLAIN`] with its constant changed.
fn tensor(change: impl FnOnce(&mut TensorProto)) -> Vec<u8> {
    let base = PLAIN.replace("Add(x, w)", "Identity(x)");
    edit(&base, |m| {
        change(&mut m.graph.as_mut().expect("the base model has a graph").initializer[0])
    })
}

/// Returns [`PLAIN`] with another constant.
fn other(dtype: DataType, dims: &[i64], change: impl FnOnce(&mut TensorProto)) -> Vec<u8> {
    tensor(|t| {
        *t = TensorProto {
            name: Some("w".into()),
            dims: dims.to_vec(),
            data_type: Some(dtype as i32),
            ..Default::default()
        };
        change(t);
    })
}

/// Returns [`PLAIN`] with its constant in another file.
fn external(dtype: DataType, entries: &[(&str, &str)]) -> Vec<u8> {
    other(dtype, &[3], |t| {
        t.data_location = Some(DataLocation::External as i32);
        t.external_data = entries.iter().map(|(key, value)| entry(key, value)).collect();
    })
}

/// Returns a model with its sparse constant changed.
fn sparse(base: &str, change: impl FnOnce(&mut SparseTensorProto)) -> Vec<u8> {
    edit(base, |m| {
        change(&mut m.graph.as_mut().expect("the base model has a graph").sparse_initializer[0]);
    })
}

fn raw(len: usize) -> Option<Bytes> {
    Some(vec![0; len].into())
}

pub fn cases() -> Vec<Case> {
    [dense(), stored_elsewhere(), sparse_cases()].into_iter().flatten().collect()
}

fn dense() -> Vec<Case> {
    vec![
        case(
            "tensor_untyped",
            ElementType,
            "`data_type` is missing",
            tensor(|t| t.data_type = None),
        ),
        case(
            "tensor_undefined",
            ElementType,
            "`data_type` is missing",
            tensor(|t| t.data_type = Some(0)),
        ),
        case("tensor_type_unknown", ElementType, "99 is not", tensor(|t| t.data_type = Some(99))),
        case("tensor_negative", NegativeSize, "the size -3", tensor(|t| t.dims = vec![-3])),
        case(
            "tensor_overflow",
            TensorTooLarge,
            "larger than any memory",
            tensor(|t| t.dims = vec![1 << 40, 1 << 40]),
        ),
        case(
            "tensor_bytes_overflow",
            TensorTooLarge,
            "larger than any memory",
            tensor(|t| t.dims = vec![i64::MAX / 2]),
        ),
        case(
            "tensor_no_data",
            DataFields,
            "3 elements, but no data",
            tensor(|t| t.float_data.clear()),
        ),
        case(
            "tensor_two_fields",
            DataFields,
            "`float_data` and `raw_data`",
            tensor(|t| t.raw_data = raw(12)),
        ),
        case(
            "tensor_empty_with_data",
            DataFields,
            "no elements, but `float_data`",
            tensor(|t| t.dims = vec![0]),
        ),
        case(
            "tensor_string_raw",
            DataField,
            "not in `raw_data`",
            other(DataType::String, &[3], |t| t.raw_data = raw(3)),
        ),
        case(
            "tensor_wrong_field",
            DataField,
            "in `int64_data`, not in `float_data`",
            tensor(|t| t.data_type = Some(7)),
        ),
        case(
            "tensor_half_field",
            DataField,
            "in `int32_data`, not in `float_data`",
            tensor(|t| t.data_type = Some(10)),
        ),
        case(
            "tensor_uint_field",
            DataField,
            "in `uint64_data`, not in `int32_data`",
            other(DataType::Uint32, &[1], |t| t.int32_data = vec![1]),
        ),
        case("tensor_short", BadTensor, "takes 3", tensor(|t| t.float_data.truncate(2))),
        case("tensor_long", BadTensor, "takes 3", tensor(|t| t.float_data.push(4.0))),
        case("tensor_complex", BadTensor, "takes 6", tensor(|t| t.data_type = Some(14))),
        case(
            "tensor_raw_short",
            BadTensor,
            "11 bytes",
            other(DataType::Float, &[3], |t| t.raw_data = raw(11)),
        ),
        case(
            "tensor_raw_long",
            BadTensor,
            "16 bytes",
            other(DataType::Float, &[3], |t| t.raw_data = raw(16)),
        ),
        case(
            "tensor_nibbles",
            BadTensor,
            "takes 2",
            other(DataType::Int4, &[3], |t| t.int32_data = vec![1]),
        ),
        case(
            "tensor_nibbles_raw",
            BadTensor,
            "takes 2",
            other(DataType::Uint4, &[3], |t| t.raw_data = raw(1)),
        ),
        case(
            "tensor_pairs",
            BadTensor,
            "takes 2",
            other(DataType::Int2, &[5], |t| t.raw_data = raw(1)),
        ),
        case("tensor_scalar", BadTensor, "takes 1", tensor(|t| t.dims.clear())),
        case(
            "tensor_bool_raw",
            BadTensor,
            "boolean 1 of the tensor is 2, neither 0 nor 1",
            other(DataType::Bool, &[3], |t| t.raw_data = Some(Bytes::from_static(&[1, 2, 0]))),
        ),
        case(
            "tensor_bool_field",
            BadTensor,
            "boolean 2 of the tensor is 256, neither 0 nor 1",
            other(DataType::Bool, &[3], |t| t.int32_data = vec![1, 0, 256]),
        ),
        case(
            "tensor_string_bytes",
            BadText,
            "string 1 of the tensor",
            other(DataType::String, &[2], |t| {
                t.string_data = vec![Bytes::from_static(b"a"), Bytes::from_static(b"\xff\xfe")];
            }),
        ),
        case(
            "tensor_segment",
            Segmented,
            "in segments",
            tensor(|t| t.segment = Some(Segment { begin: Some(0), end: Some(3) })),
        ),
        case(
            "tensor_location",
            BadField,
            "`data_location` is 7",
            tensor(|t| t.data_location = Some(7)),
        ),
        case("tensor_bool_in_attribute", BadTensor, "boolean 0 of the tensor is -1", {
            let base = PLAIN.replace("[first]", "u = Constant<value = bool[1] {1}>() [first]");
            edit(&base, |m| {
                let node = &mut m.graph.as_mut().expect("the base model has a graph").node[0];
                let tensor = node.attribute[0].t.as_mut().expect("the constant has a value");
                tensor.int32_data = vec![-1];
            })
        }),
        case("tensor_in_attribute", BadTensor, "takes 2", {
            let base = PLAIN.replace("[first]", "u = Constant<value = float[2] {1, 2}>() [first]");
            edit(&base, |m| {
                let node = &mut m.graph.as_mut().expect("the base model has a graph").node[0];
                let tensor = node.attribute[0].t.as_mut().expect("the constant has a value");
                tensor.float_data.pop();
            })
        }),
    ]
}

fn stored_elsewhere() -> Vec<Case> {
    let float = DataType::Float;
    vec![
        case(
            "external_with_data",
            DataFields,
            "stored externally, but `float_data`",
            tensor(|t| t.data_location = Some(1)),
        ),
        case("external_nowhere", ExternalReference, "has no `location`", external(float, &[])),
        case(
            "external_location_empty",
            ExternalReference,
            "has no `location`",
            external(float, &[("location", "")]),
        ),
        case(
            "external_offset",
            ExternalReference,
            "`offset` is `-4`",
            external(float, &[("location", "w"), ("offset", "-4")]),
        ),
        case(
            "external_offset_text",
            ExternalReference,
            "`offset` is `far`",
            external(float, &[("location", "w"), ("offset", "far")]),
        ),
        case(
            "external_length",
            ExternalReference,
            "`length` is 8, but type and shape want 12",
            external(float, &[("location", "w"), ("length", "8")]),
        ),
        case(
            "external_length_huge",
            ExternalReference,
            "not a number of bytes",
            external(float, &[("location", "w"), ("length", "18446744073709551615")]),
        ),
        case(
            "external_key_twice",
            ExternalReference,
            "the key `location` twice",
            external(float, &[("location", "w"), ("location", "v")]),
        ),
        case(
            "external_strings",
            ExternalReference,
            "strings cannot",
            external(DataType::String, &[("location", "w")]),
        ),
        case(
            "external_without_directory",
            BadExternalData,
            "without a directory",
            external(float, &[("location", "w")]),
        ),
    ]
}

fn sparse_cases() -> Vec<Case> {
    let places = |places: &[i64]| {
        let places = places.to_vec();
        move |s: &mut SparseTensorProto| {
            s.indices.as_mut().expect("the base model has one").int64_data = places;
        }
    };
    vec![
        case("sparse_no_values", SparseForm, "no `values`", sparse_attribute(|s| s.values = None)),
        case(
            "sparse_values_matrix",
            SparseForm,
            "must have one axis",
            sparse(SPARSE, |s| {
                s.values.as_mut().expect("the base model has one").dims = vec![2, 1];
            }),
        ),
        case("sparse_no_axes", SparseForm, "must be positive", sparse(SPARSE, |s| s.dims.clear())),
        case(
            "sparse_zero",
            SparseForm,
            "must be positive",
            sparse(SPARSE, |s| s.dims = vec![0, 3]),
        ),
        case(
            "sparse_overflow",
            TensorTooLarge,
            "larger than any memory",
            sparse(SPARSE, |s| s.dims = vec![1 << 40, 1 << 40]),
        ),
        case(
            "sparse_no_indices",
            SparseForm,
            "2 values, but no `indices`",
            sparse(SPARSE, |s| s.indices = None),
        ),
        case(
            "sparse_indices_type",
            SparseForm,
            "of type int64",
            sparse(SPARSE, |s| {
                let indices = s.indices.as_mut().expect("the base model has one");
                (indices.data_type, indices.int32_data) = (Some(6), vec![0, 5]);
                indices.int64_data.clear();
            }),
        ),
        case(
            "sparse_indices_count",
            SparseForm,
            "the shape [2] or [2, 2], but has [3]",
            sparse(SPARSE, |s| {
                let indices = s.indices.as_mut().expect("the base model has one");
                (indices.dims, indices.int64_data) = (vec![3], vec![0, 1, 5]);
            }),
        ),
        case(
            "sparse_indices_axes",
            SparseForm,
            "but has [2, 1]",
            sparse(SPARSE, |s| {
                s.indices.as_mut().expect("the base model has one").dims = vec![2, 1];
            }),
        ),
        case(
            "sparse_indices_cube",
            SparseForm,
            "but has [2, 1, 1]",
            sparse(SPARSE, |s| {
                s.indices.as_mut().expect("the base model has one").dims = vec![2, 1, 1];
            }),
        ),
        case("sparse_outside", SparseIndices, "[6], lies outside", sparse(SPARSE, places(&[0, 6]))),
        case(
            "sparse_negative",
            SparseIndices,
            "[-1], lies outside",
            sparse(SPARSE, places(&[-1, 5])),
        ),
        case(
            "sparse_unsorted",
            SparseIndices,
            "[0], does not lie behind",
            sparse(SPARSE, places(&[5, 0])),
        ),
        case(
            "sparse_twice",
            SparseIndices,
            "[5], does not lie behind",
            sparse(SPARSE, places(&[5, 5])),
        ),
        case(
            "sparse_row_outside",
            SparseIndices,
            "[1, 3], lies outside",
            sparse(COORDINATES, places(&[0, 0, 1, 3])),
        ),
        case(
            "sparse_rows_unsorted",
            SparseIndices,
            "[0, 2], does not lie behind",
            sparse(COORDINATES, places(&[1, 0, 0, 2])),
        ),
        case(
            "sparse_values_short",
            BadTensor,
            "takes 2",
            sparse(SPARSE, |s| {
                s.values.as_mut().expect("the base model has one").float_data.pop();
            }),
        ),
        case("sparse_unnamed", MissingField, "the initializer has no name", {
            let base = SPARSE.replace("Add(x, w)", "Identity(x)");
            sparse(&base, |s| s.values.as_mut().expect("the base model has one").name = None)
        }),
    ]
}

/// Returns a model with a sparse constant in an attribute, changed.
fn sparse_attribute(change: impl FnOnce(&mut SparseTensorProto)) -> Vec<u8> {
    let node = "u = Constant<sparse_value = sparse_tensor(float[3]) {1.5} at {1}>() z = ";
    let base = SPARSE.replace("z = ", node);
    edit(&base, |m| {
        let node = &mut m.graph.as_mut().expect("the base model has a graph").node[0];
        change(node.attribute[0].sparse_tensor.as_mut().expect("the constant has a value"));
    })
}
