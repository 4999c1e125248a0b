//! Samples: nodes of each operator, which are compiled to test what is accepted.

use super::facts::Version;
use onnxc::{dtype::DType, ir::Domain};
use std::collections::BTreeMap;

/// The samples. A line is `Name since <attributes> (inputs) -> outputs`. The name of an operator of
/// ONNX Runtime starts with its domain. The version and the attributes are optional. The number of
/// outputs is only given if it is not the full number. An operator may have several samples. Each
/// applies up to the next higher version with samples.
///
/// An input is a shape, `_` if it is omitted, or elements in braces, preceded by a shape if they
/// have not one axis. Its type is that of the operator's signature, unless a type or the name of a
/// constraint precedes it. After `+` stands the type and shape of a graph input that is used in an
/// attribute. In attributes, `@T` is replaced by a type, `#T` by the number of its element type,
/// and `^T` by its name in capitals.
const SAMPLES: &str = include_str!("samples.txt");

/// One node.
pub struct Sample {
    name: &'static str,
    since: i64,
    attributes: &'static str,
    inputs: Vec<Input>,
    outputs: Option<usize>,
}

enum Input {
    /// Omitted.
    Absent,
    /// An input of this shape, with elements if it is a constant, and with a type or constraint if
    /// that is not the one of the signature.
    Given { ty: Option<&'static str>, shape: &'static str, elements: Option<&'static str> },
    /// Not an input of the node, but of subgraphs in its attributes.
    Around { ty: &'static str, shape: &'static str },
}

/// A type for each constraint of an operator.
pub type Types<'t> = BTreeMap<&'t str, &'t str>;

/// Parses all samples.
pub fn samples() -> Vec<Sample> {
    let lines = SAMPLES.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.map(sample).collect()
}

fn sample(line: &'static str) -> Sample {
    let (line, outputs) = match line.rsplit_once(") -> ") {
        Some((line, count)) => {
            (line, Some(count.parse().expect("the number of outputs follows the arrow")))
        }
        None => (line.strip_suffix(')').expect("a line ends with its inputs"), None),
    };
    let (head, inputs) = line.rsplit_once('(').expect("every line has inputs");
    let (name, head) = head.split_once(' ').expect("a line starts with the name");
    let (since, attributes) = match head.split_once(' ') {
        Some((since, attributes)) if since.parse::<i64>().is_ok() => {
            (since.parse().expect("the guard parsed the version"), attributes)
        }
        _ => (1, head),
    };
    Sample { name, since, attributes, inputs: split(inputs).map(input).collect(), outputs }
}

/// Splits at commas outside of brackets.
fn split(text: &'static str) -> impl Iterator<Item = &'static str> {
    let mut depth = 0;
    let parts = text.split(move |c| {
        depth += i32::from(matches!(c, '[' | '{')) - i32::from(matches!(c, ']' | '}'));
        c == ',' && depth == 0
    });
    parts.map(str::trim).filter(|part| !part.is_empty())
}

fn input(text: &'static str) -> Input {
    if text == "_" {
        return Input::Absent;
    }
    if let Some(text) = text.strip_prefix('+') {
        let (ty, shape) = text.split_at(text.find('[').unwrap_or(text.len()));
        return Input::Around { ty, shape };
    }
    let (ty, text) = text.split_at(text.find(['[', '{']).unwrap_or(0));
    let ty = Some(ty).filter(|ty| !ty.is_empty());
    match text.find('{') {
        Some(at) => Input::Given { ty, shape: &text[..at], elements: Some(&text[at..]) },
        None => Input::Given { ty, shape: text, elements: None },
    }
}

impl Sample {
    /// The samples that apply to a version.
    pub fn of<'s>(samples: &'s [Sample], version: &Version) -> Vec<&'s Sample> {
        let name = version.sample_name();
        let named = |s: &&Sample| s.name == name && s.since <= version.since;
        let since = samples.iter().filter(named).map(|s| s.since).max();
        samples.iter().filter(|s| s.name == name && Some(s.since) == since).collect()
    }

    /// The number of outputs of the sample.
    pub fn outputs(&self, version: &Version) -> usize {
        self.outputs.unwrap_or(version.outputs.len())
    }

    /// Returns whether the sample has a value of a constraint's type.
    #[cfg(test)]
    pub fn uses(&self, version: &Version, constraint: &str) -> bool {
        let given = |(i, input): (usize, &Input)| {
            matches!(input, Input::Given { .. })
                && version.input(i).is_some_and(|value| value.ty == constraint)
        };
        self.inputs.iter().enumerate().any(given)
            || (0..self.outputs(version))
                .any(|i| version.output(i).is_some_and(|value| value.ty == constraint))
            || self.attributes.contains(&format!("@{constraint}"))
            || self
                .inputs
                .iter()
                .any(|input| matches!(input, Input::Around { ty, .. } if *ty == constraint))
    }

    /// A model of the node alone, in ONNX's textual syntax.
    pub fn model(&self, version: &Version, types: &Types<'_>) -> String {
        let (mut inputs, mut constants, mut names) = (Vec::new(), Vec::new(), Vec::new());
        for (i, input) in self.inputs.iter().enumerate() {
            let value = format!("i{i}");
            match *input {
                Input::Absent => names.push("\"\"".to_owned()),
                Input::Given { ty, shape, elements } => {
                    let signature = version.input(i).map_or("float", |value| value.ty);
                    let ty = ty.unwrap_or(signature);
                    let ty = types.get(ty).copied().unwrap_or(ty);
                    match elements {
                        Some(elements) => constants.push(constant(ty, shape, &value, elements)),
                        None => inputs.push(format!("{} {value}", shaped_type(ty, shape))),
                    }
                    names.push(value);
                }
                Input::Around { ty, shape } => {
                    let ty = types.get(ty).copied().unwrap_or(ty);
                    inputs.push(format!("{} {value}", shaped_type(ty, shape)));
                }
            }
        }
        let outputs: Vec<String> = (0..self.outputs(version)).map(|i| format!("o{i}")).collect();
        let [inputs, constants, names, outputs] =
            [inputs, constants, names, outputs].map(|list| list.join(", "));
        let (domain, name, since) = (version.domain, version.name, version.since);
        // Nodes in subgraphs belong to the main operator set.
        let newest = Domain::Onnx.newest();
        let (sets, domain) = match domain {
            "ai.onnx" => (format!("\"\" : {since}"), String::new()),
            _ => (format!("\"\" : {newest}, \"{domain}\" : {since}"), format!("{domain}.")),
        };
        let attributes = substitute_types(self.attributes, types);
        format!(
            "<ir_version: 13, opset_import: [{sets}]>\n\
             sample ({inputs}) => ({outputs}) <{constants}> {{\n\
                 {outputs} = {domain}{name} {attributes} ({names})\n\
             }}"
        )
    }
}

/// A constant with its elements, in ONNX's textual syntax.
fn constant(ty: &str, shape: &str, name: &str, elements: &str) -> String {
    let shape = match shape {
        "" => format!("[{}]", count(elements)),
        "[]" => String::new(),
        shape => shape.to_owned(),
    };
    let elements = if ty == "string" { quote_elements(elements) } else { elements.to_owned() };
    format!("{ty}{shape} {name} = {elements}")
}

/// The number of elements in braces.
fn count(elements: &str) -> usize {
    elements.split(',').filter(|element| !element.trim_matches(['{', '}', ' ']).is_empty()).count()
}

/// Quotes the elements.
fn quote_elements(elements: &str) -> String {
    let inner = elements.trim_matches(['{', '}']).split(", ");
    let inner: Vec<String> = inner.map(|element| format!("\"{element}\"")).collect();
    format!("{{{}}}", inner.join(", "))
}

/// A tensor type with a shape.
fn shaped_type(ty: &str, shape: &str) -> String {
    // The shape of a scalar is omitted: `float[]` has an unknown rank.
    let shape = if shape == "[]" { "" } else { shape };
    let inside = ty.trim_end_matches(')');
    format!("{inside}{shape}{}", &ty[inside.len()..])
}

/// Replaces type variables in attributes, longer names first.
fn substitute_types(attributes: &str, types: &Types<'_>) -> String {
    let mut text = attributes.to_owned();
    for (name, ty) in types.iter().rev() {
        let element = ty.trim_end_matches(')').rsplit(['(', ',']).next().unwrap_or(ty);
        let code = DType::from_name(element).map_or(0, DType::code);
        for (mark, by) in [("@", *ty), ("#", &code.to_string()), ("^", &ty.to_uppercase())] {
            text = text.replace(&format!("{mark}{name}"), by);
        }
    }
    text
}
