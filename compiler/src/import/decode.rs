//! Decodes the bytes of a file to a model message.

use super::{
    foreign::{self, Foreign},
    text,
};
use crate::{
    diag::{Code, Diagnostic},
    file,
};
use onnxc_proto::{Bytes, ModelProto, decode_model};

/// Decodes a model file, in the binary format or in ONNX's textual syntax.
///
/// # Errors
///
/// Returns an error if the bytes are empty, cut short, of another format or nested too deeply, if
/// text is not UTF-8 or not in ONNX's syntax, or if the model has no graph.
pub fn decode(bytes: Bytes) -> Result<ModelProto, Diagnostic> {
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
    let proto = decode_model(bytes).map_err(|error| {
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
        return Err(not_a_model("the file has no graph"));
    }
    Ok(proto)
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
