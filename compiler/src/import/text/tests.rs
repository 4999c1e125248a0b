//! Compares parsed text with the expected messages, and the printer with the parser.

use super::*;
use crate::{
    diag::{Code, Diagnostic},
    import::print,
};
use onnxc_proto::{
    AttributeProto, Bytes, attribute_proto::AttributeType, tensor_proto::DataLocation,
};

const EVERYTHING: &str = r#"
<
    ir_version: 10, # the newest that everyone reads
    opset_import: ["" : 21, "com.example" : 1],
    producer_name: "by \"hand\"", model_version: 3,
    metadata_props: ["a": "b", "c\\": ""]
>
"main graph" (float[N, 3, ?, "batch size"] x, seq(map(int64, string[])) s, float[] any,
    optional(sparse_tensor(double[2, 3])) o, opaque(a.b, c) p, bool flag = {1})
    => (float y, untyped)
<
    float[2] w = {1, -2.5e-3}, int64[N, 2] hidden, string[2] names = {"a", "\"b\""},
    float[1000] far = ["location": "weights.bin", "offset": "64"],
    sparse_tensor(float[2, 3]) thin = {1.5, 2.5} at {0, 1, 1, 2},
    float16[2] halves = {15360, 65535}, int4[3] nibbles = {-8, 7, 1}, double scalar = {-inf}
>
{
    [first] h, "", "odd name" = com.example.Thing:wide <n = 1, x = 2.0, ns = [1, 2],
        xs = [1.0, -inf], none: strings = [], t = float[2] {1, 2}, named = int32 k = {7},
        ty = seq(float[N]), text = "line\nbreak", ts = [float {1}, float {2}]> (x, , w)
    "float" = Add(h, h)
    y = If (flag) <
        then_branch = yes () => (float a) { a = Identity(x) },
        else_branch = "in quotes" () => (float b) <float[1] c = {0}> { b = Identity(c) }
    >
    untyped = "my-domain".Half<axis: int = 1>(y)
}
<domain: "my-domain", opset_import: ["" : 21], overload: "o", doc_string: "halves">
Half <axis, by: float = 2, names: strings = []> (float[N] v, w) => (r) <float[N] m>
{
    m = Div(v, w)
    r = Softmax<axis: int = @axis, of = @by>(m)
}
"#;

fn attribute(node: &str, name: &str) -> AttributeProto {
    let graph = graph(&format!("g () => () {{ y = Op <{node}> () }}"))
        .expect("the text follows the syntax");
    let mut attributes = graph.node[0].attribute.clone().into_iter();
    attributes.find(|attribute| attribute.name() == name).expect("the node has the attribute")
}

fn refused(text: &str) -> Diagnostic {
    model(text).expect_err("the text breaks the syntax")
}

#[test]
fn all_fields_of_a_model_are_read() {
    let model = model(EVERYTHING).expect("the text follows the syntax");
    assert_eq!((model.ir_version(), model.producer_name()), (10, "by \"hand\""));
    assert_eq!(model.metadata_props[1].key(), "c\\");
    let graph = model.graph.as_ref().expect("the model has a graph");
    assert_eq!((graph.name(), graph.input.len(), graph.output.len()), ("main graph", 6, 2));
    let constants: Vec<&str> = graph.initializer.iter().map(|tensor| tensor.name()).collect();
    assert_eq!(constants, ["flag", "w", "names", "far", "halves", "nibbles", "scalar"]);
    assert_eq!(graph.initializer[1].float_data, [1.0, -2.5e-3]);
    assert_eq!(graph.initializer[3].data_location(), DataLocation::External);
    // Two elements per number, the first in the low bits.
    assert_eq!(graph.initializer[5].int32_data, [0x78, 0x1]);
    let indices =
        graph.sparse_initializer[0].indices.as_ref().expect("a sparse constant has indices");
    assert_eq!((&indices.dims[..], &indices.int64_data[..]), (&[2, 2][..], &[0, 1, 1, 2][..]));
    let [thing, _, branch, half] = &graph.node[..] else { panic!("there are four nodes") };
    assert_eq!(thing.output, ["h", "", "odd name"]);
    assert_eq!(thing.input, ["x", "", "w"]);
    assert_eq!((thing.domain(), thing.op_type()), ("com.example", "Thing"));
    assert_eq!((thing.overload(), thing.name()), ("wide", "first"));
    assert_eq!(branch.attribute[1].g.as_ref().map(|g| g.name()), Some("in quotes"));
    assert_eq!(half.domain(), "my-domain");
    let function = &model.functions[0];
    assert_eq!((function.name(), &function.attribute[..]), ("Half", &["axis".to_owned()][..]));
    assert_eq!(function.value_info.len(), 2);
    assert_eq!(function.node[1].attribute[1].ref_attr_name(), "by");
}

#[test]
fn a_printed_model_parses_to_the_same() {
    let first = model(EVERYTHING).expect("the text follows the syntax");
    let text = print::model(&first, usize::MAX);
    assert!(model(&text).expect("printed text follows the syntax") == first, "{text}");
}

#[test]
fn long_constants_are_left_out_and_say_so() {
    let text = "<ir_version: 8> g () => () <int64[3] w = {1, 2, 3}> {}";
    let printed = print::model(&model(text).expect("the text follows the syntax"), 2);
    assert!(printed.contains("int64[3] w = {...}"), "{printed}");
    assert!(refused(&printed).message.contains("left out"));
}

#[test]
fn documentation_is_printed_as_comments() {
    let mut said = model("<ir_version: 8> g (float x) => (float x) { y = Abs(x) }")
        .expect("the text follows the syntax");
    let graph = said.graph.as_mut().expect("the model has a graph");
    graph.node[0].doc_string = Some("one\ntwo".into());
    graph.input[0].doc_string = Some("in".into());
    let text = print::model(&said, 0);
    assert!(text.contains("    # one\n    # two\n    y = Abs (x)\n"), "{text}");
    assert!(text.contains("# x: in\ng ("), "{text}");
}

#[test]
fn attribute_values_determine_their_type() {
    for (text, kind) in [
        ("a = 1", AttributeType::Int),
        ("a = 1.", AttributeType::Float),
        ("a: float = -0", AttributeType::Float),
        ("a = NaN", AttributeType::Float),
        ("a = \"\"", AttributeType::String),
        ("a = [1]", AttributeType::Ints),
        ("a: floats = [1, 2.5]", AttributeType::Floats),
        ("a: ints = []", AttributeType::Ints),
        ("a = float[N]", AttributeType::TypeProto),
        ("a = [float, seq(int8)]", AttributeType::TypeProtos),
        ("a = int8 {1}", AttributeType::Tensor),
        ("a = [int8 {1}, int8 x = {2}]", AttributeType::Tensors),
        ("a = sparse_tensor(float[4]) {1} at {2}", AttributeType::SparseTensor),
        ("a = g () => () {}", AttributeType::Graph),
        ("a = [g () => () {}, \"h\" () => () {}]", AttributeType::Graphs),
        ("a: ints = @b", AttributeType::Ints),
        ("a = @b", AttributeType::Undefined),
    ] {
        assert_eq!(attribute(text, "a").r#type(), kind, "{text}");
    }
    assert_eq!(attribute("a: float = -0", "a").f.map(f32::to_bits), Some((-0.0f32).to_bits()));
    assert_eq!(attribute("a = \"\\\"\\n\"", "a").s, Some(Bytes::from_static(b"\"n")));
}

#[test]
fn errors_have_their_location() {
    for (text, place, message) in [
        ("<ir_version 8>", "line 1, column 13", "expected `:`, but found `8`"),
        ("<version: 8>", "line 1, column 2", "there is no field `version`"),
        (
            "<ir_version: \"8\">",
            "line 1, column 14",
            "expected a whole number, but found the text `8`",
        ),
        ("<ir_version: 99999999999999999999>", "line 1, column 14", "out of range"),
        ("g () => () {\n  y = Op(x\n}", "line 3, column 1", "expected `)`, but found `}`"),
        ("g () => () { = Op() } 1", "line 1, column 23", "expected the name of a function"),
        ("g () => () {", "line 1, column 13", "expected `=`, but found the end of the text"),
        ("g (floaty[2] x) => () {}", "line 1, column 4", "there is no type `floaty`"),
        ("g (floaty x) => () {}", "line 1, column 4", "there is no type `floaty`"),
        ("g (seq(floaty) x) => () {}", "line 1, column 8", "there is no type `floaty`"),
        ("g (map(seq, float) x) => () {}", "line 1, column 8", "there is no type `seq`"),
        ("g (map(1, float) x) => () {}", "line 1, column 8", "expected an element type"),
        ("g () => () <float[N] w = {1}> {}", "line 1, column 26", "cannot have the size `N`"),
        (
            "g () => () <float[] w = {1}> {}",
            "line 1, column 25",
            "shape of a constant must be known",
        ),
        (
            "g () => () <int8[1] w = {128}> {}",
            "line 1, column 26",
            "`128` is no element of type int8",
        ),
        ("g () => () <uint2[1] w = {-1}> {}", "line 1, column 27", "no element of type uint2"),
        ("g () => () <float[1] w = {1e99}> {}", "line 1, column 27", "`1e99` is out of range"),
        (
            "g () => () { y = Op<a = []>() }",
            "line 1, column 26",
            "type of an empty list must be given",
        ),
        (
            "g () => () { y = Op<a: int = [1]>() }",
            "line 1, column 31",
            "a list cannot be of type `int`",
        ),
        (
            "g () => () { y = Op<a: int = 1.0>() }",
            "line 1, column 30",
            "of type `int`, not `float`",
        ),
        ("g () => () { y = Op<a = [1, \"b\"]>() }", "line 1, column 29", "`int`, not `string`"),
        (
            "g () => () { y = Op<a: number = 1>() }",
            "line 1, column 24",
            "expected a type of attributes",
        ),
    ] {
        let diagnostic = refused(text);
        assert_eq!(diagnostic.code, Code::BadSyntax, "{text}");
        assert_eq!(diagnostic.at, [place], "{text}: {}", diagnostic.message);
        assert!(diagnostic.message.contains(message), "{text}: {}", diagnostic.message);
    }
}

#[test]
fn similar_types_are_suggested() {
    for (name, near) in [
        ("flaot", "float"),
        ("float32", "float"),
        ("half", "float16"),
        ("flot16", "float16"),
        ("sec", "seq"),
    ] {
        let help = refused(&format!("g ({name}[2] x) => () {{}}")).help;
        assert_eq!(help.as_deref(), Some(&*format!("did you mean `{near}`?")), "{name}");
    }
}

#[test]
fn depth_has_a_limit() {
    let types = format!("g ({}float{} x) => () {{}}", "seq(".repeat(5000), ")".repeat(5000));
    let graphs = "g () => () { = If <b = ".repeat(5000);
    for text in [types, graphs] {
        assert!(refused(&text).message.contains("deep"));
    }
}

#[test]
fn an_attribute_that_does_not_say_its_type_is_printed_with_its_value() {
    let text = "g (x) => (y) { y = A <a = 0.5, b = [1, 2], c = \"d\", e = [1.5]> (x) }";
    let graph = graph(text).expect("the text is a graph");
    let mut untyped = graph.clone();
    untyped.node[0].attribute.iter_mut().for_each(|attribute| attribute.r#type = None);
    let printed = |graph| print::model(&ModelProto { graph: Some(graph), ..Default::default() }, 9);
    assert_eq!(printed(untyped), printed(graph));
}
