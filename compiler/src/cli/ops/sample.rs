//! One node of each operator, by which is seen what is accepted.

use super::facts::Version;
use onnxc::{dtype::DType, ir::Domain};
use std::collections::BTreeMap;

/// The samples. A line is `Name since <attributes> (inputs) -> outputs`, where the version and the
/// attributes may be missing, and the number of outputs where all are wanted. An operator may have
/// several; each holds until the next higher version of its name.
///
/// An input is a shape, `_` where it is left out, or elements in braces, behind a shape where that
/// is not of one axis. Its type is what the operator says, but for the inputs of the graph alone
/// that follow a `+` with a type of their own. `@T` stands for a type, `#T` for the number of its
/// elements',
/// `^T` for its name in capitals.
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
    /// Left out.
    Absent,
    /// Given, with that shape, and the elements where it is a constant.
    Given { shape: &'static str, elements: Option<&'static str> },
    /// Not of the node, but of what stands in its attributes.
    Around { ty: &'static str, shape: &'static str },
}

/// What types stand for the constraints of an operator.
pub type Types<'t> = BTreeMap<&'t str, &'t str>;

/// All samples.
pub fn samples() -> Vec<Sample> {
    let lines = SAMPLES.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.map(sample).collect()
}

fn sample(line: &'static str) -> Sample {
    let (line, outputs) = match line.rsplit_once(") -> ") {
        Some((line, count)) => (line, Some(count.parse().expect("a number of outputs"))),
        None => (line.strip_suffix(')').expect("inputs end a line"), None),
    };
    let (head, inputs) = line.rsplit_once('(').expect("inputs stand in every line");
    let (name, head) = head.split_once(' ').expect("the name stands in front");
    let (since, attributes) = match head.split_once(' ') {
        Some((since, attributes)) if since.parse::<i64>().is_ok() => {
            (since.parse().expect("a number"), attributes)
        }
        _ => (1, head),
    };
    Sample { name, since, attributes, inputs: split(inputs).map(input).collect(), outputs }
}

/// The parts between commas that stand in no brackets.
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
    match text.find('{') {
        Some(at) => Input::Given { shape: &text[..at], elements: Some(&text[at..]) },
        None => Input::Given { shape: text, elements: None },
    }
}

impl Sample {
    /// The samples of a version.
    pub fn of<'s>(samples: &'s [Sample], version: &Version) -> Vec<&'s Sample> {
        let named = |s: &&Sample| s.name == version.name && s.since <= version.since;
        let since = samples.iter().filter(named).map(|s| s.since).max();
        samples.iter().filter(|s| s.name == version.name && Some(s.since) == since).collect()
    }

    /// How many outputs of a version are wanted.
    pub fn outputs(&self, version: &Version) -> usize {
        self.outputs.unwrap_or(version.outputs.len())
    }

    /// Whether the node has anything of the type of a constraint.
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

    /// A model of the node alone, in ONNX's text.
    pub fn model(&self, version: &Version, types: &Types<'_>) -> String {
        let (mut inputs, mut constants, mut names) = (Vec::new(), Vec::new(), Vec::new());
        for (i, input) in self.inputs.iter().enumerate() {
            let value = format!("i{i}");
            match *input {
                Input::Absent => names.push("\"\"".to_owned()),
                Input::Given { shape, elements } => {
                    let ty = version.input(i).map_or("float", |value| value.ty);
                    let ty = types.get(ty).copied().unwrap_or(ty);
                    match elements {
                        Some(elements) => constants.push(constant(ty, shape, &value, elements)),
                        None => inputs.push(format!("{} {value}", shaped(ty, shape))),
                    }
                    names.push(value);
                }
                Input::Around { ty, shape } => {
                    let ty = types.get(ty).copied().unwrap_or(ty);
                    inputs.push(format!("{} {value}", shaped(ty, shape)));
                }
            }
        }
        let outputs: Vec<String> = (0..self.outputs(version)).map(|i| format!("o{i}")).collect();
        let [inputs, constants, names, outputs] =
            [inputs, constants, names, outputs].map(|list| list.join(", "));
        let (domain, name, since) = (version.domain, version.name, version.since);
        // What stands in subgraphs is of the main operator set.
        let newest = Domain::Onnx.newest();
        let (sets, domain) = match domain {
            "ai.onnx" => (format!("\"\" : {since}"), String::new()),
            _ => (format!("\"\" : {newest}, \"{domain}\" : {since}"), format!("{domain}.")),
        };
        let attributes = filled(self.attributes, types);
        format!(
            "<ir_version: 13, opset_import: [{sets}]>\n\
             sample ({inputs}) => ({outputs}) <{constants}> {{\n\
                 {outputs} = {domain}{name} {attributes} ({names})\n\
             }}"
        )
    }
}

/// A constant with its elements, in ONNX's text.
fn constant(ty: &str, shape: &str, name: &str, elements: &str) -> String {
    let shape = match shape {
        "" => format!("[{}]", count(elements)),
        "[]" => String::new(),
        shape => shape.to_owned(),
    };
    let elements = if ty == "string" { quoted(elements) } else { elements.to_owned() };
    format!("{ty}{shape} {name} = {elements}")
}

/// How many elements stand in braces.
fn count(elements: &str) -> usize {
    elements.split(',').filter(|element| !element.trim_matches(['{', '}', ' ']).is_empty()).count()
}

/// The elements as strings.
fn quoted(elements: &str) -> String {
    let inner = elements.trim_matches(['{', '}']).split(", ");
    let inner: Vec<String> = inner.map(|element| format!("\"{element}\"")).collect();
    format!("{{{}}}", inner.join(", "))
}

/// A type whose tensor has that shape.
fn shaped(ty: &str, shape: &str) -> String {
    // A shape of no axes is not written: `float[]` is a tensor of any shape.
    let shape = if shape == "[]" { "" } else { shape };
    let inside = ty.trim_end_matches(')');
    format!("{inside}{shape}{}", &ty[inside.len()..])
}

/// The attributes, with types for what stands for them; longer names are looked for first.
fn filled(attributes: &str, types: &Types<'_>) -> String {
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
