//! Rules for nodes and their attributes.

use super::{
    Case,
    bases::{BRANCH, CALLS, PLAIN},
    case, edit, swap,
};
use onnxc::diag::Code::*;
use onnxc_proto::{
    AttributeProto, Bytes, NodeProto, TypeProto, attribute_proto::AttributeType as Kind,
};

/// Returns [`PLAIN`] with its first node changed.
fn node(change: impl FnOnce(&mut NodeProto)) -> Vec<u8> {
    edit(PLAIN, |model| {
        change(&mut model.graph.as_mut().expect("the base model has a graph").node[0])
    })
}

/// Returns [`PLAIN`] with its first node replaced.
fn text(node: &str) -> Vec<u8> {
    swap(PLAIN, "[first] y = Add(x, w)", node)
}

/// Returns [`PLAIN`] with a `Flatten` of its input in front, and the attribute of that changed.
fn attribute(change: impl FnOnce(&mut AttributeProto)) -> Vec<u8> {
    let base = PLAIN.replace("[first]", "u = Flatten<axis = 1>(x) [first]");
    edit(&base, |model| {
        let graph = model.graph.as_mut().expect("the base model has a graph");
        change(&mut graph.node[0].attribute[0]);
    })
}

pub fn cases() -> Vec<Case> {
    let unnamed = |a: &mut AttributeProto| {
        *a = AttributeProto {
            name: None,
            r#type: Some(Kind::Int as i32),
            i: Some(1),
            ..Default::default()
        };
    };
    let value = |kind: Kind| {
        move |a: &mut AttributeProto| {
            (a.r#type, a.i) = (Some(kind as i32), None);
        }
    };
    let both = |n: &mut NodeProto| {
        n.input.clear();
        n.output.clear();
    };
    vec![
        case("operator_missing", MissingField, "no operator", node(|n| n.op_type = None)),
        case("node_empty", EmptyNode, "neither inputs nor outputs", swap_unused(both)),
        case(
            "operator_unknown",
            UnknownOperator,
            "`Frobnicate` in version 21",
            text("y = Frobnicate(x)"),
        ),
        case("operator_misspelled", UnknownOperator, "`relu`", text("y = relu(x)")),
        case(
            "operator_later",
            UnknownOperator,
            "`RMSNormalization` in version 21",
            text("y = RMSNormalization(x, w)"),
        ),
        case("operator_elsewhere", UnknownOperator, "`Scaler`", text("y = Scaler(x)")),
        case("operator_unknown_ml", UnknownOperator, "operator set `ai.onnx.ml`", {
            swap(
                &PLAIN.replace("Add(x, w)", "ai.onnx.ml.Nothing(x)"),
                "21]",
                "21, \"ai.onnx.ml\" : 3]",
            )
        }),
        case(
            "operator_removed",
            Deprecated,
            "`Upsample` was removed in version 10",
            text("y = Upsample(x, w)"),
        ),
        case("operator_removed_ml", Deprecated, "`TreeEnsembleRegressor` was removed", {
            swap(
                &PLAIN.replace("Add(x, w)", "ai.onnx.ml.TreeEnsembleRegressor(x)"),
                "21]",
                "21, \"ai.onnx.ml\" : 5]",
            )
        }),
        case("domain_not_imported", UnknownDomain, "`com.example`", text("y = com.example.Op(x)")),
        case(
            "domain_not_imported_ml",
            UnknownDomain,
            "`ai.onnx.ml`",
            text("y = ai.onnx.ml.Scaler(x)"),
        ),
        case("inputs_too_few", BadArity, "has 1 input, but the operator 2", text("y = Add(x)")),
        case(
            "inputs_too_many",
            BadArity,
            "has 3 inputs, but the operator 2",
            text("y = Add(x, w, w)"),
        ),
        case(
            "inputs_none",
            BadArity,
            "has 0 inputs, but the operator 1 or more",
            text("y = Max()"),
        ),
        case("input_left_out", BadArity, "input 0 (`A`) is left out", text("y = Add(\"\", w)")),
        case(
            "outputs_too_few",
            BadArity,
            "has 0 outputs, but the operator 1",
            swap_unused(|n| n.output.clear()),
        ),
        case(
            "outputs_too_many",
            BadArity,
            "has 2 outputs, but the operator 1",
            text("y, u = Add(x, w)"),
        ),
        case(
            "output_left_out",
            BadArity,
            "output 0 (`C`) is left out",
            text("y = Identity(x) \"\" = Add(x, w)"),
        ),
        case("attribute_unnamed", MissingField, "the attribute has no name", attribute(unnamed)),
        case(
            "attribute_twice",
            DuplicateAttribute,
            "called `axis`",
            text("y = Identity(x) u = Flatten<axis = 1, axis = 1>(x)"),
        ),
        case(
            "attribute_untyped",
            AttributeType,
            "does not say its type",
            attribute(|a| a.r#type = None),
        ),
        case(
            "attribute_type_unknown",
            AttributeType,
            "99 is not a type",
            attribute(|a| a.r#type = Some(99)),
        ),
        case(
            "attribute_type_field",
            AttributeType,
            "has the type float, but its value is in `i`",
            attribute(|a| {
                a.r#type = Some(Kind::Float as i32);
            }),
        ),
        case(
            "attribute_type_operator",
            AttributeType,
            "`axis` must be int, but is float",
            text("y = Identity(x) u = Flatten<axis = 1.0>(x)"),
        ),
        case(
            "attribute_type_list",
            AttributeType,
            "`axis` must be int, but is ints",
            text("y = Identity(x) u = Flatten<axis = [1]>(x)"),
        ),
        case(
            "attribute_values",
            AttributeValue,
            "several values, in `f`, `i`",
            attribute(|a| a.f = Some(1.0)),
        ),
        case(
            "attribute_tensor_missing",
            AttributeValue,
            "no value of type tensor",
            constant("value", value(Kind::Tensor)),
        ),
        case(
            "attribute_sparse_missing",
            AttributeValue,
            "no value of type sparse_tensor",
            constant("sparse_value", value(Kind::SparseTensor)),
        ),
        case(
            "attribute_graph_missing",
            AttributeValue,
            "no value of type graph",
            edit(BRANCH, |m| {
                let node = &mut m.graph.as_mut().expect("the base model has a graph").node[0];
                node.attribute[0].g = None;
            }),
        ),
        case("attribute_type_missing", MissingType, "the type says nothing", swap_optional()),
        case(
            "attribute_unknown",
            UnknownAttribute,
            "`gradient` is not an attribute",
            text("y = Relu<gradient = 1>(x)"),
        ),
        case(
            "attribute_outdated",
            UnknownAttribute,
            "`axis` is not an attribute",
            text("y = Add<axis = 0>(x, w)"),
        ),
        case("attribute_missing", MissingAttribute, "`axis` is missing", text("y = Concat(x)")),
        case(
            "attribute_missing_graph",
            MissingAttribute,
            "`else_branch` is missing",
            edit(BRANCH, |m| {
                let node = &mut m.graph.as_mut().expect("the base model has a graph").node[0];
                node.attribute.remove(1);
            }),
        ),
        case("attribute_value_refused", BadAttribute, "`direction` is `UP`", {
            text("y = Identity(x) u = Cast<to = 12>(x) v = BitShift<direction = \"UP\">(u, u)")
        }),
        case(
            "attribute_axis_outside",
            BadAttribute,
            "`axis` is 7",
            text("y = Softmax<axis = 7>(x)"),
        ),
        case("attribute_not_utf8", BadText, "`direction` is not valid UTF-8", {
            let base = PLAIN.replace(
                "[first]",
                "u = Cast<to = 12>(x) v = BitShift<direction = \"LEFT\">(u, u) [first]",
            );
            edit(&base, |m| {
                let node = &mut m.graph.as_mut().expect("the base model has a graph").node[1];
                node.attribute[0].s = Some(Bytes::from_static(b"\xff"));
            })
        }),
        case(
            "reference_outside",
            AttributeReference,
            "stands in none",
            attribute(|a| {
                (a.i, a.ref_attr_name) = (None, Some("axis".into()));
            }),
        ),
        case(
            "reference_unknown",
            AttributeReference,
            "no attribute `axes`",
            swap(CALLS, "@axis", "@axes"),
        ),
        case(
            "reference_with_value",
            AttributeReference,
            "has a value besides",
            edit(CALLS, |m| {
                m.functions[0].node[0].attribute[0].i = Some(1);
            }),
        ),
        case("reference_type", AttributeType, "it is float, but the attribute `axis`", {
            swap(CALLS, "Flatten<axis: int = @axis>", "LeakyRelu<alpha: float = @axis>")
        }),
    ]
}

/// Returns [`PLAIN`] with a further node that nothing uses.
fn swap_unused(change: impl FnOnce(&mut NodeProto)) -> Vec<u8> {
    edit(PLAIN, |model| {
        let graph = model.graph.as_mut().expect("the base model has a graph");
        let mut node = graph.node[0].clone();
        node.output[0] = "unused".into();
        change(&mut node);
        graph.node.push(node);
    })
}

/// Returns [`PLAIN`] with a `Constant` whose attribute is changed.
fn constant(name: &str, change: impl FnOnce(&mut AttributeProto)) -> Vec<u8> {
    let base = PLAIN.replace("[first]", "u = Constant<value_int = 1>() [first]");
    edit(&base, |model| {
        let attribute =
            &mut model.graph.as_mut().expect("the base model has a graph").node[0].attribute[0];
        attribute.name = Some(name.into());
        change(attribute);
    })
}

/// Returns a model with an empty optional that has no element type.
fn swap_optional() -> Vec<u8> {
    let base = PLAIN.replace("[first]", "u = Optional<type = float[2]>() [first]");
    edit(&base, |model| {
        let attribute =
            &mut model.graph.as_mut().expect("the base model has a graph").node[0].attribute[0];
        attribute.tp = Some(Box::new(TypeProto::default()));
    })
}
