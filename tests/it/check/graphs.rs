//! Rules for graphs: names, single assignment, order, scopes.

use super::{
    Case,
    bases::{BRANCH, LOOP, PLAIN, SPARSE, entry},
    case, edit, swap,
};
use onnxc::diag::Code::*;
use onnxc_proto::GraphProto;

/// Returns [`PLAIN`] with its graph changed.
fn graph(change: impl FnOnce(&mut GraphProto)) -> Vec<u8> {
    edit(PLAIN, |model| change(model.graph.as_mut().expect("the base model has a graph")))
}

pub fn cases() -> Vec<Case> {
    let pair = || vec![entry("k", "a"), entry("k", "b")];
    vec![
        case("graph_unnamed", MissingField, "the graph has no name", graph(|g| g.name = None)),
        case("graph_metadata", DuplicateKey, "`k`", graph(|g| g.metadata_props = pair())),
        case("node_metadata", DuplicateKey, "`k`", graph(|g| g.node[0].metadata_props = pair())),
        case("input_metadata", DuplicateKey, "`k`", graph(|g| g.input[0].metadata_props = pair())),
        case(
            "tensor_metadata",
            DuplicateKey,
            "`k`",
            graph(|g| g.initializer[0].metadata_props = pair()),
        ),
        case(
            "input_unnamed",
            MissingField,
            "the input has no name",
            graph(|g| {
                let unnamed = g.input[0].clone();
                g.input.push(unnamed);
                g.input[2].name = Some(String::new());
            }),
        ),
        case(
            "input_twice",
            DuplicateInput,
            "called `x`",
            graph(|g| {
                let again = g.input[0].clone();
                g.input.push(again);
            }),
        ),
        case(
            "initializer_unnamed",
            MissingField,
            "the initializer has no name",
            graph(|g| {
                let again = g.initializer[0].clone();
                g.initializer.push(again);
                g.initializer[1].name = None;
            }),
        ),
        case(
            "initializer_twice",
            DuplicateInitializer,
            "same name",
            graph(|g| {
                let again = g.initializer[0].clone();
                g.initializer.push(again);
            }),
        ),
        case(
            "initializer_twice_sparse",
            DuplicateInitializer,
            "same name",
            edit(SPARSE, |m| {
                let g = m.graph.as_mut().expect("the base model has a graph");
                let mut values =
                    g.sparse_initializer[0].values.clone().expect("the base model has one");
                (values.dims, values.float_data) = (vec![1], vec![1.0]);
                g.initializer.push(values);
            }),
        ),
        case(
            "initializer_no_input",
            InitializerNotInput,
            "IR version 3",
            edit(PLAIN, |m| {
                m.ir_version = Some(3);
                m.opset_import[0].version = Some(7);
            }),
        ),
        case(
            "output_unnamed",
            MissingField,
            "the output has no name",
            graph(|g| {
                let again = g.output[0].clone();
                g.output.push(again);
                g.output[1].name = None;
            }),
        ),
        case(
            "output_undefined",
            UndefinedOutput,
            "`nothing`",
            graph(|g| {
                g.output[0].name = Some("nothing".into());
            }),
        ),
        case(
            "value_undefined",
            UndefinedValue,
            "`nowhere`",
            swap(PLAIN, "Mul(y, b)", "Mul(y, nowhere)"),
        ),
        case(
            "value_undefined_twice",
            UndefinedValue,
            "`nowhere`",
            swap(PLAIN, "Mul(y, b)", "Mul(nowhere, nowhere)"),
        ),
        case(
            "nodes_unsorted",
            NotSorted,
            "`y`, but a later one does",
            graph(|g| g.node.swap(0, 1)),
        ),
        case(
            "nodes_cyclic",
            Cycle,
            "the nodes form a cycle",
            swap(PLAIN, "Add(x, w)", "Add(x, z)"),
        ),
        case(
            "node_of_itself",
            Cycle,
            "the node uses its own output",
            swap(PLAIN, "Add(x, w)", "Add(x, y)"),
        ),
        case(
            "output_of_two_nodes",
            DuplicateName,
            "`y` is defined twice",
            graph(|g| {
                let again = g.node[0].clone();
                g.node.insert(1, again);
            }),
        ),
        case(
            "output_is_input",
            DuplicateName,
            "`b` is defined twice",
            graph(|g| {
                let mut again = g.node[0].clone();
                again.output[0] = "b".into();
                g.node.push(again);
            }),
        ),
        case(
            "output_is_initializer",
            DuplicateName,
            "`w` is defined twice",
            graph(|g| {
                let mut again = g.node[0].clone();
                again.output[0] = "w".into();
                g.node.push(again);
            }),
        ),
        case(
            "outputs_alike",
            DuplicateName,
            "`u` is defined twice",
            swap(PLAIN, "[first]", "u, u = Dropout(x) [first]"),
        ),
        case(
            "branch_gives_outer",
            UndefinedOutput,
            "its output `x`",
            swap(BRANCH, "=> (one) { one = Relu(x) }", "=> (x) { one = Relu(x) }"),
        ),
        case(
            "branch_gives_nothing",
            UndefinedOutput,
            "its output `two`",
            swap(BRANCH, "=> (one)", "=> (two)"),
        ),
        case(
            "branch_unnamed",
            MissingField,
            "the graph has no name",
            swap(BRANCH, "yes ()", "\"\" ()"),
        ),
        case(
            "branch_defines_outer",
            DuplicateName,
            "`x` is defined twice",
            swap(BRANCH, "one = Relu(x)", "x = Relu(x) one = Relu(x)"),
        ),
        case(
            "branch_undefined",
            UndefinedValue,
            "`nowhere`",
            swap(BRANCH, "Relu(x)", "Relu(nowhere)"),
        ),
        case(
            "branch_uses_later",
            NotSorted,
            "`z`, but a later one does",
            swap(&BRANCH.replace("Abs(y)", "Abs(x)"), "Relu(x)", "Relu(z)"),
        ),
        case(
            "branch_uses_result",
            Cycle,
            "the nodes form a cycle",
            swap(BRANCH, "Relu(x)", "Relu(z)"),
        ),
        case(
            "branch_uses_other",
            UndefinedValue,
            "`other`",
            swap(BRANCH, "Relu(x)", "Relu(other)"),
        ),
        case("branch_value_outside", UndefinedValue, "`one`", swap(BRANCH, "Abs(y)", "Abs(one)")),
        case("body_inputs_alike", DuplicateInput, "called `i`", edit(LOOP, body_inputs_alike)),
    ]
}

fn body_inputs_alike(model: &mut onnxc_proto::ModelProto) {
    let node = &mut model.graph.as_mut().expect("the base model has a graph").node[0];
    let body = node.attribute[0].g.as_mut().expect("the loop has a body");
    body.input[1].name = Some("i".into());
    body.node[0].input[0] = "go".into();
}
