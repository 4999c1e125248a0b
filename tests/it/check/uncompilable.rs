//! Models that pass the checker but cannot be compiled: their tensors are larger than any memory,
//! or of a type that no operator has.

use super::parse;
use onnxc::{Options, diag::Code};
use onnxc_proto::{Bytes, Message};

const LARGE: &str = "which fit no address space";
const UNHEARD_OF: &str = "no operator of ONNX has such";

/// The inputs and outputs of a graph and its nodes, the code of the error, and a part of its
/// message.
const CASES: &[(&str, Code, &str)] = &[
    ("(float[4611686018427387904] x) => (y) { y = Relu(x) }", Code::TooLarge, LARGE),
    ("(float[1099511627776, 1099511627776] x) => (y) { y = Shape(x) }", Code::TooLarge, LARGE),
    (
        "(float[1] x) => (y) <int64[2] sizes = {2147483648, 8589934592}> { y = Expand(x, sizes) }",
        Code::TooLarge,
        LARGE,
    ),
    (
        "(float[4611686018427387904, 3] a, float[4, 3, 4] b) => (y) { y = MatMul(a, b) }",
        Code::TooLarge,
        LARGE,
    ),
    (
        "(float[1099511627776, 1099511627776, 0] a, float[0, 5] b) => (y) { y = MatMul(a, b) }",
        Code::TooLarge,
        LARGE,
    ),
    ("(float[1099511627776, n, 1099511627776] x) => (y) { y = Relu(x) }", Code::TooLarge, LARGE),
    ("(seq(seq(float)) x, float[2] a) => (b) { b = Neg(a) }", Code::Unsupported, UNHEARD_OF),
    ("(seq(optional(float)) x, float[2] a) => (b) { b = Neg(a) }", Code::Unsupported, UNHEARD_OF),
    ("(optional(optional(float)) x) => (b) { b = Identity(x) }", Code::Unsupported, UNHEARD_OF),
    ("(map(int64, seq(float)) x, float[2] a) => (b) { b = Neg(a) }", Code::Unsupported, UNHEARD_OF),
    (
        "(map(int64, float[2, 3]) x, float[2] a) => (b) { b = Neg(a) }",
        Code::Unsupported,
        UNHEARD_OF,
    ),
    (
        "(seq(map(string, float)) x, float[2] a) => (b) { b = Neg(a) }",
        Code::Unsupported,
        "which no operator of ONNX takes",
    ),
    ("(map(string, float) x) => (map(string, float) x) { }", Code::Unsupported, "does not say"),
    ("(sparse_tensor(float[3]) x) => (x) { }", Code::Unsupported, "only constants may be sparse"),
    (
        "(int64 n, seq(float) s, float[2] x) => (y) {
            y = Loop<body = b (int64 i, bool c, float[2] v) => (bool d, float[2] w) {
                d = Identity(c)
                w = Neg(v)
            }>(n, s, x)
        }",
        Code::TypeMismatch,
        "input 1 must be a tensor, but is seq(float)",
    ),
    (
        "(bool[2] c, float[2] x) => (y) {
            y = If<
                then_branch = a () => (float[2] p) { p = Neg(x) },
                else_branch = b () => (float[2] q) { q = Abs(x) }
            >(c)
        }",
        Code::ShapeMismatch,
        "input 0 must have one element, but has 2",
    ),
];

#[test]
fn models_that_cannot_be_compiled_have_a_diagnostic() {
    let mut wrong = Vec::new();
    for (graph, code, says) in CASES {
        let text = format!("<ir_version: 10, opset_import: [\"\" : 21]> g {graph}");
        let model = Bytes::from(parse(&text).encode_to_vec());
        match onnxc::Compiler::new(&Options::default()).compile_bytes(model, "model") {
            Ok(_) => wrong.push(format!("{graph}\nis compiled")),
            Err(all) => match all.0.as_slice() {
                [one] if one.code == *code && one.message.contains(says) => {}
                _ => wrong.push(format!("{graph}\n{all}")),
            },
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}
