//! Locates a diagnostic at a node. The node is shown as ONNX text, with the part at fault
//! underlined.

use crate::diag::{Diagnostic, Excerpt, quoted};
use onnxc_proto::{AttributeProto, NodeProto, attribute_proto::AttributeType};
use std::{fmt::Write, ops::Range};

/// The most items of a list that are shown.
const MOST_ITEMS: usize = 8;

/// Locates a diagnostic at node number `i`.
pub fn at_node(diagnostic: Diagnostic, node: &NodeProto, i: usize) -> Diagnostic {
    show_node(diagnostic, node).within(node_place(node, i))
}

/// Shows `node` in a diagnostic, unless it shows a node in the node already.
pub(super) fn show_node(diagnostic: Diagnostic, node: &NodeProto) -> Diagnostic {
    diagnostic.excerpt(|diagnostic| excerpt(diagnostic, node))
}

/// Returns the location of a node, for messages.
pub(super) fn node_place(node: &NodeProto, i: usize) -> String {
    format!("{}, number {i}", node_name(node))
}

/// Returns the name of a node for messages: its own, or that of its first output.
pub(super) fn node_name(node: &NodeProto) -> String {
    let named = [node.name(), node.output.first().map_or("", String::as_str)];
    let name = named.into_iter().find(|name| !name.is_empty()).unwrap_or_default();
    format!("node {} ({})", quoted(name), node.op_type())
}

/// Returns the node as text. The underlined part is the attribute, the input or the output that the
/// diagnostic names, or else the operator.
fn excerpt(diagnostic: &Diagnostic, node: &NodeProto) -> Excerpt {
    let mut text = Text::default();
    text.list(&node.output);
    text.line += " = ";
    text.part(node.op_type(), node.op_type());
    let operator = text.parts.len() - 1;
    if !node.attribute.is_empty() {
        text.line += " <";
        text.attributes(&node.attribute);
        text.line += ">";
    }
    text.line += " (";
    text.list(&node.input);
    text.line += ")";
    let named = names(diagnostic).find_map(|name| text.parts.iter().find(|(part, _)| part == name));
    let (_, underlined) = named.unwrap_or(&text.parts[operator]);
    Excerpt::new(&text.line, underlined.clone())
}

/// Returns the names in backticks in the location of a diagnostic, innermost first, and in its
/// message.
fn names(diagnostic: &Diagnostic) -> impl Iterator<Item = &str> {
    let texts = diagnostic.at.iter().rev().chain([&diagnostic.message]);
    texts.flat_map(|text| text.split('`').skip(1).step_by(2)).filter(|name| !name.is_empty())
}

/// A line, and where its parts are.
#[derive(Default)]
struct Text {
    line: String,
    parts: Vec<(String, Range<usize>)>,
}

impl Text {
    /// Adds the part `name`, written as `text`.
    fn part(&mut self, name: &str, text: &str) {
        let start = self.line.len();
        self.line += text;
        self.parts.push((name.to_owned(), start..self.line.len()));
    }

    fn list(&mut self, names: &[String]) {
        for (i, name) in names.iter().enumerate() {
            self.line += if i > 0 { ", " } else { "" };
            self.part(name, name);
        }
    }

    fn attributes(&mut self, attributes: &[AttributeProto]) {
        for (i, attribute) in attributes.iter().enumerate() {
            self.line += if i > 0 { ", " } else { "" };
            self.part(attribute.name(), &format!("{} = {}", attribute.name(), value(attribute)));
        }
    }
}

/// Returns the value of an attribute as text. Tensors, types and graphs are only hinted at.
fn value(attribute: &AttributeProto) -> String {
    if let Some(reference) = attribute.ref_attr_name.as_ref().filter(|name| !name.is_empty()) {
        return format!("@{reference}");
    }
    match attribute.r#type() {
        AttributeType::Float => attribute.f().to_string(),
        AttributeType::Int => attribute.i().to_string(),
        AttributeType::String => format!("{:?}", String::from_utf8_lossy(attribute.s())),
        AttributeType::Floats => items(&attribute.floats, f32::to_string),
        AttributeType::Ints => items(&attribute.ints, i64::to_string),
        AttributeType::Strings => {
            items(&attribute.strings, |text| format!("{:?}", String::from_utf8_lossy(text)))
        }
        _ => "{...}".to_owned(),
    }
}

fn items<T>(items: &[T], text: impl Fn(&T) -> String) -> String {
    let shown: Vec<String> = items.iter().take(MOST_ITEMS).map(text).collect();
    let mut list = format!("[{}", shown.join(", "));
    if items.len() > MOST_ITEMS {
        write!(list, ", … {} in all", items.len()).expect("text can be written");
    }
    list + "]"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diag::Code;

    fn shown(message: &str, place: Option<&str>) -> [String; 2] {
        let attribute = AttributeProto {
            name: Some("pads".into()),
            r#type: Some(AttributeType::Ints.into()),
            ints: (0..10).collect(),
            ..Default::default()
        };
        let node = NodeProto {
            op_type: Some("Conv".into()),
            input: vec!["x".into(), "w".into()],
            output: vec!["y".into()],
            attribute: vec![attribute],
            ..Default::default()
        };
        let diagnostic = Diagnostic::new(Code::ShapeMismatch, message);
        let diagnostic = place.into_iter().fold(diagnostic, Diagnostic::within);
        let excerpt = at_node(diagnostic, &node, 3).excerpt.expect("a node has an excerpt");
        [excerpt.marks().trim_start().to_owned(), excerpt.line]
    }

    #[test]
    fn the_named_part_of_a_node_is_underlined() {
        let line = "y = Conv <pads = [0, 1, 2, 3, 4, 5, 6, 7, … 10 in all]> (x, w)";
        let pads = &line["y = Conv <".len()..line.len() - "> (x, w)".len()];
        let cases = [
            ("no names", None, "^^^^"),
            ("`w` is no tensor", None, "^"),
            ("`other` is unknown", Some("attribute `pads`"), &*"^".repeat(pads.chars().count())),
        ];
        for (message, place, marks) in cases {
            assert_eq!(shown(message, place), [marks.to_owned(), line.to_owned()]);
        }
    }
}
