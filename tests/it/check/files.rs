//! Files that are not models, and messages nested too deep.

use super::{Case, bases::PLAIN, case, parse};
use onnxc::diag::Code::*;
use onnxc_proto::Message;

pub fn cases() -> Vec<Case> {
    let plain = parse(PLAIN).encode_to_vec();
    let mut latin = plain.clone();
    let name =
        plain.windows(6).position(|window| window == b"second").expect("a node is called so");
    latin[name] = 0xff;
    vec![
        case("file_empty", NotAModel, "the file is empty", *b""),
        case("file_cut_short", NotAModel, "cut short", &plain[..plain.len() - 9]),
        case("file_other_format", NotAModel, "a PNG image", *b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"),
        case("file_notes", NotAModel, "not in ONNX's textual syntax", *b"Buy milk.\n"),
        case(
            "file_lfs_pointer",
            NotAModel,
            "pointer of Git LFS",
            *b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n",
        ),
        case("file_without_graph", NotAModel, "has no graph", [8, 10]),
        case("file_text_not_utf8", NotAModel, "not UTF-8", *b"<ir_version: 10> g\xff"),
        case("file_name_not_utf8", NotAModel, "of another format", latin),
        case("nested_graphs", TooDeep, "more than 100 deep", nest_graphs(200)),
        case("nested_graphs_far", TooDeep, "more than 100 deep", nest_graphs(50_000)),
        case("nested_types", TooDeep, "more than 100 deep", nest_types(50_000)),
        case("nested_text_graphs", TooDeep, "more than 32 deep", text_graphs(10_000)),
        case("nested_text_types", TooDeep, "more than 32 deep", text_types(10_000)),
    ]
}

fn encode_varint(mut value: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    while value >= 0x80 {
        bytes.push(u8::try_from(value % 0x80).expect("seven bits fit a byte") | 0x80);
        value /= 0x80;
    }
    bytes.push(u8::try_from(value).expect("seven bits fit a byte"));
    bytes
}

/// Nests messages, each the only field of the one around it, under these tags.
fn nest(tags: &[u8]) -> Vec<u8> {
    // Built from the inside out and reversed, so that each level is appended.
    let mut reversed = Vec::new();
    for tag in tags.iter().rev() {
        let head = [vec![tag << 3 | 2], encode_varint(reversed.len())].concat();
        reversed.extend(head.into_iter().rev());
    }
    reversed.reverse();
    reversed
}

/// Nests graphs in attributes of nodes, `depth` deep.
fn nest_graphs(depth: usize) -> Vec<u8> {
    nest(&[&[7][..], &[1, 5, 6].repeat(depth)].concat())
}

/// Nests sequence types, `depth` deep.
fn nest_types(depth: usize) -> Vec<u8> {
    nest(&[&[7, 11, 2][..], &[4, 1].repeat(depth)].concat())
}

fn text_graphs(depth: usize) -> String {
    let head = "<ir_version: 10, opset_import: [\"\" : 21]> g () => (y) { y = If<then_branch = ";
    head.to_owned() + &"h () => (y) { y = If<then_branch = ".repeat(depth)
}

fn text_types(depth: usize) -> String {
    let head = "<ir_version: 10, opset_import: [\"\" : 21]> g (";
    head.to_owned() + &"seq(".repeat(depth)
}
