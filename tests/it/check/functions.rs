//! Rules for functions.

use super::{
    Case,
    bases::{BRANCH, CALLS},
    case, edit, swap,
};
use onnxc::diag::Code::*;
use onnxc_proto::FunctionProto;

/// Returns [`CALLS`] with its first function changed.
fn function(change: impl FnOnce(&mut FunctionProto)) -> Vec<u8> {
    edit(CALLS, |model| change(&mut model.functions[0]))
}

/// Returns [`CALLS`] with another function, which no node calls.
fn more(text: &str) -> Vec<u8> {
    edit(CALLS, |model| {
        model.functions.push(onnxc::import::text::function(text).expect("the text is valid"));
    })
}

/// Returns a chain of functions, each of which calls the next.
fn chain(length: usize) -> Vec<u8> {
    edit(CALLS, |model| {
        for i in 0..length {
            let body = match i + 1 == length {
                true => "Identity(x)".to_owned(),
                false => format!("f.Link{}(x)", i + 1),
            };
            let text = format!(
                "<domain: \"f\", opset_import: [\"\" : 21, \"f\" : 1]> Link{i} (x) => (y) {{ \
                    y = {body} }}"
            );
            model.functions.push(onnxc::import::text::function(&text).expect("the text is valid"));
        }
    })
}

pub fn cases() -> Vec<Case> {
    const HEAD: &str = "<domain: \"f\", opset_import: [\"\" : 21, \"f\" : 1]>";
    let more = |text: &str| self::more(&format!("{HEAD} {text}"));
    vec![
        case(
            "function_twice",
            DuplicateFunction,
            "same domain, name and overload",
            edit(CALLS, |m| {
                let again = m.functions[0].clone();
                m.functions.push(again);
            }),
        ),
        case(
            "function_recursive",
            RecursiveFunction,
            "calls itself",
            more("Loop1 (x) => (y) { y = f.Loop1(x) }"),
        ),
        case(
            "function_recursive_called",
            RecursiveFunction,
            "leads back",
            swap(
                &CALLS.replace(
                    "opset_import: [\"\" : 21]>\n    Same",
                    "opset_import: [\"f\" : 1]>\n    Same",
                ),
                "r = Identity(v)",
                "r = f.Twice(v)",
            ),
        ),
        case(
            "function_recursive_nested",
            RecursiveFunction,
            "calls itself",
            more(
                "Deep (c, x) => (y) { y = If<then_branch = a () => (p) { p = f.Deep(c, x) }, \
                    else_branch = b () => (q) { q = Identity(x) }>(c) }",
            ),
        ),
        case(
            "functions_too_many",
            FunctionLimit,
            "10003 functions",
            edit(CALLS, |m| {
                for i in 0..10_000 {
                    let mut more = m.functions[2].clone();
                    more.name = Some(format!("Same{i}"));
                    m.functions.push(more);
                }
            }),
        ),
        case("functions_too_deep", FunctionLimit, "more than 100 deep", chain(101)),
        case(
            "function_unnamed",
            MissingField,
            "the function has no name",
            edit(CALLS, |m| {
                let mut unnamed = m.functions[2].clone();
                unnamed.name = None;
                m.functions.push(unnamed);
            }),
        ),
        case(
            "function_no_domain",
            MissingField,
            "the function has no domain",
            edit(CALLS, |m| {
                let mut more = m.functions[2].clone();
                more.domain = None;
                m.functions.push(more);
            }),
        ),
        case(
            "function_inputs_alike",
            FunctionSignature,
            "two inputs called `x`",
            more("Bad (x, x) => (y) { y = Identity(x) }"),
        ),
        case(
            "function_outputs_alike",
            FunctionSignature,
            "two outputs called `y`",
            more("Bad (x) => (y, y) { y = Identity(x) }"),
        ),
        case(
            "function_attributes_alike",
            FunctionSignature,
            "two attributes called `perm`",
            function(|f| f.attribute.push("perm".into())),
        ),
        case(
            "function_attribute_default",
            FunctionSignature,
            "two attributes called `axis`",
            function(|f| f.attribute.push("axis".into())),
        ),
        case("function_undefined", UndefinedValue, "`w`", more("Bad (x) => (y) { y = Add(x, w) }")),
        case(
            "function_sees_graph",
            UndefinedValue,
            "`z`",
            more("Bad (x) => (y) { y = Add(x, z) }"),
        ),
        case(
            "function_unsorted",
            NotSorted,
            "`p`, but a later one",
            more("Bad (x) => (y) { y = Neg(p) p = Abs(x) }"),
        ),
        case(
            "function_defines_twice",
            DuplicateName,
            "`p` is defined twice",
            more("Bad (x) => (p) { p = Neg(x) p = Abs(x) }"),
        ),
        case(
            "function_output_undefined",
            UndefinedOutput,
            "its output `q`",
            more("Bad (x) => (q) { y = Neg(x) }"),
        ),
        case(
            "function_domain",
            UnknownDomain,
            "the function does not import",
            more("Bad (x) => (y) { y = ai.onnx.ml.Scaler(x) }"),
        ),
        case(
            "function_operator",
            UnknownOperator,
            "`Nothing`",
            more("Bad (x) => (y) { y = Nothing(x) }"),
        ),
        case(
            "function_version",
            FunctionImports,
            "version 9 of the operator set `ai.onnx`, but the model 21",
            self::more(
                "<domain: \"f\", opset_import: [\"\" : 9]> Bad (x) => (y) { y = Softmax(x) }",
            ),
        ),
        case(
            "function_versions",
            ContradictingOpsets,
            "in versions 21 and 13",
            self::more(
                "<domain: \"f\", opset_import: [\"\" : 21, \"ai.onnx\" : 13]> Bad (x) => (y) { \
                    y = Relu(x) }",
            ),
        ),
        case(
            "call_inputs",
            BadArity,
            "2 inputs, but the function knows 1",
            swap(CALLS, "f.Flat<axis = 0>(x)", "f.Flat<axis = 0>(x, x)"),
        ),
        case(
            "call_outputs",
            BadArity,
            "2 outputs, but the function knows 1",
            swap(CALLS, "y = f.Flat", "y, u = f.Flat"),
        ),
        case(
            "call_not_imported",
            UnknownDomain,
            "`f`",
            edit(BRANCH, |m| {
                let text = format!("{HEAD} F (x) => (y) {{ y = Relu(x) }}");
                m.functions.push(onnxc::import::text::function(&text).expect("the text is valid"));
                let graph = m.graph.as_mut().expect("the base model has a graph");
                graph.node[1].op_type = Some("F".into());
                graph.node[1].domain = Some("f".into());
            }),
        ),
    ]
}
