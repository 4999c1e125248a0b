//! Decodes the bytes of a file to a model message.

use super::{
    foreign::{self, Foreign},
    text, types,
};
use crate::{
    diag::{Code, Diagnostic},
    file,
};
use onnxc_proto::{Bytes, GraphProto, Message, ModelProto, NodeProto, TensorProto, decode_model};

/// Decodes a model file, in the binary format or in ONNX's textual syntax.
///
/// # Errors
///
/// Returns an error if the bytes are empty, cut short, of another format or nested too deeply, if
/// text is not UTF-8 or not in ONNX's syntax, or if the model has no graph.
pub fn decode(bytes: Bytes) -> Result<ModelProto, Diagnostic> {
    let bytes = bytes.strip_prefix(BYTE_ORDER_MARK).map_or(bytes.clone(), |b| bytes.slice_ref(b));
    if bytes.is_empty() {
        return Err(not_a_model("the file is empty")
            .help("export or download it again: the program that wrote it may have been stopped"));
    }
    if let Some(Foreign { format, help }) = foreign::recognize(&bytes) {
        return Err(not_a_model(&format!("the file is {format}")).help(help));
    }
    if is_text(&bytes) {
        // Copies the bytes: the file may be mapped, and another process could change it after the
        // check.
        let utf8 = String::from_utf8(bytes.to_vec());
        let bad = |error: std::string::FromUtf8Error| {
            not_a_model("it is text, but not UTF-8").note(error.to_string())
        };
        return text::model(&utf8.map_err(bad)?);
    }
    if file::is_pointer(&bytes) {
        return Err(not_a_model("the file is a pointer of Git LFS").help(file::FETCH));
    }
    let printable = |&b: &u8| matches!(b, b'\t'..=b'\r' | b' '..=b'~');
    let is_printable = bytes.iter().take(256).all(printable);
    let proto = decode_model(bytes.clone()).map_err(|error| {
        if is_graph(bytes.clone()) {
            return lone_graph();
        }
        if is_tensor(bytes.clone()) {
            return not_a_model("the file is a single tensor (`TensorProto`), such as test data")
                .help("name the `.onnx` file of the model");
        }
        let error = error.to_string();
        if error.contains("recursion limit") {
            let message = "messages lie inside each other more than 100 deep";
            return Diagnostic::new(Code::TooDeep, message).note(error);
        }
        match is_printable {
            true => not_a_model("the file is text, but not in ONNX's textual syntax")
                .help("a model in this syntax starts with `<ir_version: 10, opset_import: [...]>`"),
            false => not_a_model("the file is cut short, or of another format")
                .note(error)
                .help("check the size of the file; export or download it again"),
        }
    })?;
    if proto.graph.is_none() {
        return Err(if is_graph(bytes) {
            lone_graph()
        } else {
            not_a_model("the file has no graph")
        });
    }
    Ok(proto)
}

/// The UTF-8 byte order mark, which some editors write at the start of a text.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Returns whether a file is a tensor with data.
fn is_tensor(bytes: Bytes) -> bool {
    TensorProto::decode(bytes).is_ok_and(|tensor| {
        let has_data = tensor.raw_data.is_some()
            || !tensor.float_data.is_empty()
            || !tensor.int32_data.is_empty()
            || !tensor.int64_data.is_empty()
            || !tensor.string_data.is_empty();
        has_data && tensor.data_type.is_some_and(|code| types::dtype(code).is_ok())
    })
}

/// Returns whether a file is a graph with nodes.
fn is_graph(bytes: Bytes) -> bool {
    let is_node = |node: &NodeProto| node.op_type.is_some() && !node.output.is_empty();
    GraphProto::decode(bytes)
        .is_ok_and(|graph| !graph.node.is_empty() && graph.node.iter().all(is_node))
}

/// The diagnostic for a graph without a model around it.
fn lone_graph() -> Diagnostic {
    not_a_model("the file is a graph without its model (`GraphProto`)")
        .help("make a model of it: `onnx.save(onnx.helper.make_model(graph), \"model.onnx\")`")
}

/// Returns whether a model is text: after white space and comments comes `<`, which starts the list
/// of operator sets. No binary message starts with any of these characters.
fn is_text(bytes: &[u8]) -> bool {
    let mut rest = bytes.trim_ascii_start();
    while rest.starts_with(b"#") {
        let line = rest.iter().position(|&b| b == b'\n').unwrap_or(rest.len());
        rest = rest[line..].trim_ascii_start();
    }
    rest.starts_with(b"<")
}

/// The diagnostic for bytes or messages that are not a model.
pub(super) fn not_a_model(reason: &str) -> Diagnostic {
    Diagnostic::new(Code::NotAModel, format!("this is not an ONNX model: {reason}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_byte_order_mark_is_skipped() {
        let text = "\u{feff}<ir_version: 10, opset_import: [\"\" : 21]> g () => () {}";
        let model = decode(text.into()).expect("the text is a model");
        assert_eq!(model.ir_version, Some(10));
    }

    #[test]
    fn a_tensor_is_named() {
        let tensor = TensorProto {
            dims: vec![1],
            data_type: Some(1),
            raw_data: Some(Bytes::from_static(&[0; 4])),
            ..TensorProto::default()
        };
        let error = decode(tensor.encode_to_vec().into()).expect_err("a tensor is no model");
        assert!(error.message.contains("`TensorProto`"), "{}", error.message);
    }

    #[test]
    fn a_graph_is_named() {
        let text = "<ir_version: 10, opset_import: [\"\" : 21]> \
            g (float[2] x) => (float[2] y) <float[2] w = {1, 2}> { y = Mul (x, w) }";
        let graph = decode(text.into()).expect("the text is a model").graph;
        let bytes = graph.expect("a model has a graph").encode_to_vec();
        let error = decode(bytes.into()).expect_err("a graph is no model");
        assert!(error.message.contains("`GraphProto`"), "{}", error.message);
    }
}
