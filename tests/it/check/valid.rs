//! Valid models, which catch a checker that rejects too much.

use super::{bases::*, check, edit, parse, swap};
use onnxc::diag::Diagnostics;
use onnxc_proto::{Bytes, Message, OperatorSetIdProto, tensor_proto::DataType};

fn assert_valid(name: &str, model: Vec<u8>) {
    let found = check(&model).invalid;
    assert!(found.is_empty(), "{name}\n{}", Diagnostics(found));
}

#[test]
fn base_models_are_valid() {
    for base in [PLAIN, BRANCH, LOOP, CALLS, SPARSE, COORDINATES, INFERENCE] {
        assert_valid(base, parse(base).encode_to_vec());
    }
    assert_valid(STEP, training(STEP).encode_to_vec());
}

#[test]
fn unusual_models_are_accepted() {
    let graph = |change: fn(&mut onnxc_proto::GraphProto)| {
        edit(PLAIN, |model| change(model.graph.as_mut().expect("the base model has a graph")))
    };
    assert_valid(
        "repeated import",
        edit(PLAIN, |m| {
            let again = OperatorSetIdProto { domain: Some("ai.onnx".into()), version: Some(21) };
            m.opset_import.push(again);
        }),
    );
    assert_valid(
        "unused domain",
        edit(PLAIN, |m| {
            let other = OperatorSetIdProto { domain: Some("com.example".into()), version: Some(7) };
            m.opset_import.push(other);
        }),
    );
    assert_valid(
        "oldest format",
        edit(PLAIN, |m| {
            (m.ir_version, m.opset_import) = (Some(1), Vec::new());
            let graph = m.graph.as_mut().expect("the base model has a graph");
            graph.initializer.clear();
            graph.node.remove(0);
            (graph.node[0].op_type, graph.node[0].input) = (Some("Relu".into()), vec!["x".into()]);
        }),
    );
    assert_valid("newest format", edit(PLAIN, |m| m.ir_version = Some(14)));
    assert_valid("default of an input", swap(PLAIN, "float[3] b)", "float[3] b = {1, 2, 3})"));
    assert_valid("output twice", swap(PLAIN, "(float[2, 3] z)", "(float[2, 3] z, float[2, 3] z)"));
    assert_valid(
        "output is an input",
        swap(PLAIN, "(float[2, 3] z)", "(float[2, 3] z, float[2, 3] x)"),
    );
    assert_valid("size inside free", swap(PLAIN, "{1, 2, 3}>", "{1, 2, 3}, float[n, 3] y>"));
    assert_valid("size unknown, as -1", swap(PLAIN, "(float[2, 3] x", "(float[-1, 3] x"));
    assert_valid(
        "size inside unknown, as -1",
        swap(PLAIN, "{1, 2, 3}>", "{1, 2, 3}, float[-1, 3] y>"),
    );
    assert_valid("nodes without names", graph(|g| g.node.iter_mut().for_each(|n| n.name = None)));
    assert_valid("attribute of a tool", swap(PLAIN, "Add(x, w)", "Add<__tool = 1>(x, w)"));
    assert_valid("input left out", swap(PLAIN, "Add(x, w)", "Clip(x, \"\", \"\")"));
    assert_valid("no output wanted", swap(PLAIN, "y = Add(x, w)", "y, \"\" = Dropout(x)"));
    assert_valid("scalar", swap(PLAIN, "float[3] w = {1, 2, 3}", "float w = {1}"));
    assert_valid(
        "branch hides nothing",
        swap(BRANCH, "other = Neg(x)", "one = Neg(x) other = Neg(one)"),
    );
    assert_valid(
        "body hides an input",
        swap(
            LOOP,
            "float[2] before) => (next, after) {",
            "float[2] x) => (next, after) { before = Neg(x)",
        ),
    );
    assert_valid("training without init", edit_training());
}

fn edit_training() -> Vec<u8> {
    let mut model = training(STEP);
    model.training_info[0].initialization = None;
    model.training_info[0].initialization_binding.clear();
    model.encode_to_vec()
}

#[test]
fn tensors_of_every_type_are_accepted_raw() {
    for (dtype, bytes) in [
        (DataType::Float, 12),
        (DataType::Uint8, 3),
        (DataType::Int16, 6),
        (DataType::Int64, 24),
        (DataType::Bool, 3),
        (DataType::Double, 24),
        (DataType::Complex64, 24),
        (DataType::Complex128, 48),
        (DataType::Float8e4m3fn, 3),
        (DataType::Uint4, 2),
        (DataType::Int2, 1),
        (DataType::Float6e2m3, 3),
    ] {
        let base = PLAIN.replace("Add(x, w)", "Identity(x)");
        assert_valid(
            &format!("{dtype:?}"),
            edit(&base, |m| {
                let tensor =
                    &mut m.graph.as_mut().expect("the base model has a graph").initializer[0];
                tensor.float_data.clear();
                (tensor.data_type, tensor.raw_data) =
                    (Some(dtype as i32), Some(Bytes::from(vec![0; bytes])));
            }),
        );
    }
}

#[test]
fn models_with_custom_operators_are_valid() {
    let model = swap(
        &PLAIN.replace("Add(x, w)", "com.example.Op(x, w)"),
        "21]",
        "21, \"com.example\" : 1]",
    );
    let found = check(&model);
    assert!(found.invalid.is_empty(), "{}", Diagnostics(found.invalid));
    let codes: Vec<String> = found.unsupported.iter().map(|f| f.code.to_string()).collect();
    assert_eq!(codes, ["E0304"]);
}
