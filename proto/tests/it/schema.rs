//! Reads the schema `onnx.proto`, and compares the sources of this crate with it.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use onnxc_proto::Version;

/// The messages and enumerations of `onnx.proto`.
pub struct Schema {
    pub messages: Vec<Message>,
    values: Vec<Value>,
}

/// A message by its path, such as `TypeProto.Tensor`.
pub struct Message {
    pub path: String,
    pub fields: Vec<Field>,
}

pub struct Field {
    pub label: Label,
    pub ty: String,
    pub name: String,
    pub tag: u32,
    pub packed: bool,
}

#[derive(Clone, PartialEq)]
pub enum Label {
    Optional,
    Repeated,
    Oneof(String),
}

/// A value of an enumeration by the path of that, such as `TensorProto.DataType`.
struct Value {
    path: String,
    name: String,
    number: u32,
}

impl Schema {
    pub fn read() -> Schema {
        let mut schema = Schema { messages: Vec::new(), values: Vec::new() };
        let mut open: Vec<(&str, &str)> = Vec::new();
        let lines = include_str!("../../onnx.proto").lines().map(str::trim);
        for line in lines.filter(|line| !line.is_empty() && !line.starts_with("//")) {
            match line.split(' ').collect::<Vec<_>>()[..] {
                ["syntax", ..] | ["package", ..] | ["reserved", ..] => (),
                ["}"] => drop(open.pop().expect("a brace that closes has one that opens")),
                [kind @ ("message" | "enum" | "oneof"), name, "{"] => {
                    open.push((kind, name));
                    if kind == "message" {
                        schema.messages.push(Message { path: path(&open), fields: Vec::new() });
                    }
                }
                [name, "=", number] => {
                    let number =
                        number.trim_end_matches(';').parse().expect("an enumerator has a number");
                    schema.values.push(Value { path: path(&open), name: name.into(), number });
                }
                _ => schema.read_field(line, &open),
            }
        }
        schema
    }

    fn read_field(&mut self, line: &str, open: &[(&str, &str)]) {
        let (declaration, packed) = match line.strip_suffix(" [packed = true];") {
            Some(declaration) => (declaration, true),
            None => (line.strip_suffix(';').expect("a field ends its line"), false),
        };
        let (label, ty, name, tag) = match declaration.split(' ').collect::<Vec<_>>()[..] {
            ["optional", ty, name, "=", tag] => (Label::Optional, ty, name, tag),
            ["repeated", ty, name, "=", tag] => (Label::Repeated, ty, name, tag),
            [ty, name, "=", tag] => {
                let Some(("oneof", oneof)) = open.last() else { panic!("no label: {line}") };
                (Label::Oneof((*oneof).into()), ty, name, tag)
            }
            _ => panic!("not a line of a schema: {line}"),
        };
        let tag = tag.parse().expect("a field has a number");
        let field = Field { label, ty: ty.into(), name: name.into(), tag, packed };
        let path = path(open);
        let message = self.messages.iter_mut().find(|message| message.path == path);
        message.expect("every field is in a message").fields.push(field);
    }

    pub fn message(&self, path: &str) -> Option<&Message> {
        self.messages.iter().find(|message| message.path == path)
    }

    /// Returns the message that `ty` names in `scope`, unless it is a scalar or an enumeration.
    pub fn resolve(&self, scope: &str, ty: &str) -> Option<&Message> {
        if scope.is_empty() {
            return self.message(ty);
        }
        let outer = scope.rsplit_once('.').map_or("", |(outer, _)| outer);
        self.message(&format!("{scope}.{ty}")).or_else(|| self.resolve(outer, ty))
    }

    /// The declarations as [`Source`] writes them.
    fn declarations(&self) -> BTreeSet<String> {
        let values = self.values.iter().map(|value| {
            format!("{}.{} = {}", rust_path(&value.path), camel(&value.name), value.number)
        });
        let fields = self
            .messages
            .iter()
            .flat_map(|message| message.fields.iter().flat_map(|field| declare(message, field)));
        values.chain(fields).collect()
    }
}

/// A field of a struct, or a variant of an enum and that enum's field.
fn declare(message: &Message, field: &Field) -> Vec<String> {
    let Field { label, ty, name, tag, packed } = field;
    let path = rust_path(&message.path);
    let packing = match packed {
        _ if !NUMBERS.contains(&ty.as_str()) => "",
        true => "packed ",
        false => "unpacked ",
    };
    match label {
        Label::Optional => vec![format!("{path}.{name} = {tag} optional {ty}")],
        Label::Repeated => vec![format!("{path}.{name} = {tag} repeated {packing}{ty}")],
        Label::Oneof(oneof) => {
            let all = message.fields.iter().filter(|field| field.label == *label);
            let tags: Vec<String> = all.map(|field| field.tag.to_string()).collect();
            let ty_path = rust_path(&format!("{}.{}", message.path, camel(oneof)));
            vec![
                format!("{path}.{oneof} = {} oneof {ty_path}", tags.join(", ")),
                format!("{ty_path}.{} = {tag} {ty}", camel(name)),
            ]
        }
    }
}

fn path(open: &[(&str, &str)]) -> String {
    let names = open.iter().filter(|(kind, _)| *kind != "oneof").map(|(_, name)| *name);
    names.collect::<Vec<_>>().join(".")
}

/// `TypeProto.Tensor` is `type_proto::Tensor` in Rust.
fn rust_path(path: &str) -> String {
    match path.rsplit_once('.') {
        None => path.into(),
        Some((outer, name)) => {
            outer.split('.').map(|part| snake(part) + "::").collect::<String>() + name
        }
    }
}

fn snake(name: &str) -> String {
    let mut snake = String::new();
    for c in name.chars() {
        if c.is_ascii_uppercase() && !snake.is_empty() {
            snake.push('_');
        }
        snake.push(c.to_ascii_lowercase());
    }
    snake
}

fn camel(name: &str) -> String {
    let mut camel = String::new();
    for part in name.split('_').filter(|part| !part.is_empty()) {
        camel.push_str(&part[..1].to_ascii_uppercase());
        camel.push_str(&part[1..].to_ascii_lowercase());
    }
    camel
}

/// The declarations of one source file.
#[derive(Default)]
struct Source {
    open: Vec<String>,
    attribute: Option<String>,
    declarations: BTreeSet<String>,
}

impl Source {
    fn read(&mut self, text: &str) {
        for line in text.lines().map(str::trim).filter(|line| !line.starts_with("//")) {
            if let Some(attribute) = line.strip_prefix("#[prost(") {
                let attribute = attribute.strip_suffix(")]").expect("an attribute is one line");
                self.attribute = Some(attribute.into());
            } else if let Some(head) = line.strip_suffix(" {") {
                self.open.push(head.rsplit(' ').next().expect("a name").into());
            } else if line == "}" {
                self.open.pop();
            } else if let (Some(line), Some((_, outer))) =
                (line.strip_suffix(','), self.open.split_last())
            {
                let outer: String = outer.iter().map(|module| format!("{module}::")).collect();
                let declaration = declared(line, self.attribute.take().as_deref(), &outer);
                self.declarations.insert(format!("{}.{declaration}", self.open.join("::")));
            }
        }
    }
}

/// One line of a struct or an enum, and the attribute above it.
fn declared(line: &str, attribute: Option<&str>, outer: &str) -> String {
    let Some(attribute) = attribute else { return line.into() };
    let split = match line.strip_prefix("pub ") {
        Some(field) => field.trim_start_matches("r#").split_once(": "),
        None => line.split_once('('),
    };
    let (name, ty) = split.expect("a field or a variant has a type");
    if let Some(oneof) = attribute.strip_prefix("oneof = ") {
        let (path, tags) = oneof.split_once(", tags = ").expect("a oneof has tags");
        return format!("{name} = {} oneof {outer}{}", unquote(tags), unquote(path));
    }
    format!("{name} = {}", wire(attribute, ty))
}

/// The tag, label and type of a field by its attribute and, if it is a message, its Rust type.
fn wire(attribute: &str, rust: &str) -> String {
    let parts: Vec<&str> = attribute.split(", ").collect();
    let value = |key: &str| {
        let part = parts.iter().find_map(|part| part.strip_prefix(key)?.strip_prefix(" = "));
        part.map(unquote)
    };
    let ty = match parts[0] {
        "message" => last(rust.trim_end_matches(['>', ')'])),
        "bytes = \"bytes\"" => "bytes",
        scalar => value("enumeration").map_or(scalar, last),
    };
    let label = ["optional ", "repeated "].into_iter().find(|label| parts.contains(&label.trim()));
    let packing = match value("packed") {
        Some("false") => "unpacked ",
        None if label == Some("repeated ") && NUMBERS.contains(&ty) => "packed ",
        _ => "",
    };
    format!("{} {}{packing}{ty}", value("tag").expect("a field has a tag"), label.unwrap_or(""))
}

/// The types that may be packed.
const NUMBERS: [&str; 5] = ["float", "double", "int32", "int64", "uint64"];

fn unquote(value: &str) -> &str {
    value.trim_matches('"')
}

/// Returns the last name of a path, without brackets around it.
fn last(path: &str) -> &str {
    path.rsplit([':', '<', '(']).next().unwrap_or(path)
}

fn sources() -> BTreeSet<String> {
    let mut source = Source::default();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    for entry in fs::read_dir(folder).expect("the crate has sources") {
        let path = entry.expect("the folder can be listed").path();
        if path.extension().is_some_and(|end| end == "rs") && !path.ends_with("lib.rs") {
            source.read(&fs::read_to_string(path).expect("a source is text"));
        }
    }
    source.declarations
}

#[test]
fn the_structs_match_the_schema() {
    let (schema, sources) = (Schema::read().declarations(), sources());
    let without_struct: Vec<_> = schema.difference(&sources).collect();
    let without_schema: Vec<_> = sources.difference(&schema).collect();
    assert!(
        without_struct.is_empty() && without_schema.is_empty(),
        "only in onnx.proto: {without_struct:#?}\nonly in src: {without_schema:#?}"
    );
}

/// The numbers are those of ONNX's own descriptors.
#[test]
fn the_schema_has_all_that_ir_version_14_has() {
    assert_eq!(Version::IrVersion as i64, 14);
    let schema = Schema::read();
    let fields = schema.messages.iter().map(|message| message.fields.len()).sum::<usize>();
    assert_eq!((schema.messages.len(), fields, schema.values.len()), (33, 166, 75));
}

#[test]
fn tags_are_unique_in_a_message() {
    for Message { path, fields } in Schema::read().messages {
        let tags: BTreeSet<u32> = fields.iter().map(|field| field.tag).collect();
        assert_eq!(tags.len(), fields.len(), "{path}");
    }
}
