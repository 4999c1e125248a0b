//! From the bytes of a file to a graph.

pub(crate) mod attribute;
mod bindings;
mod build;
mod constant;
mod custom;
mod declared;
mod diagnostics;
mod external;
mod function;
mod gather;
mod interface;
pub mod print;
mod region;
mod spec;
mod tensor;
pub mod text;
mod topological_sort;
mod training;
pub(crate) mod types;
pub mod value;

pub use custom::Operator;
pub use gather::gather;
pub use spec::Spec;
pub(crate) use tensor::as_input;
pub use training::{Training, training};

use crate::{
    check::{self, Checked},
    diag::{Code, Diagnostic, Diagnostics},
    file,
    ir::Graph,
    tensor::Tensor,
    value::Value,
};
use onnxc_proto::{Bytes, GraphProto, ModelProto, decode_model, type_proto};
use std::{collections::BTreeMap, fmt, ops::RangeInclusive, path::PathBuf};

/// What the user settles about a model before it is read.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// Sizes of dimensions, by name.
    pub dims: BTreeMap<String, Size>,
    /// The sizes of inputs whose number of axes the model does not say, by name.
    pub shapes: BTreeMap<String, Vec<Axis>>,
    /// Inputs that are constants, by name.
    pub consts: BTreeMap<String, Const>,
    /// What becomes of inputs that have a default.
    pub defaults: Defaults,
    /// State: the name of an input, and that of the output that the next run finds there.
    pub states: BTreeMap<String, String>,
    /// The functions of the user's own that are called for operators.
    pub customs: BTreeMap<Operator, String>,
    /// What such operators give: the types of values, by name, as ONNX's text writes them.
    pub types: BTreeMap<String, String>,
    /// Where the model's external data lies.
    pub directory: Option<PathBuf>,
}

/// What the user says of a dimension.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Size {
    /// It is this.
    Fixed(i64),
    /// It lies between these: at most the second. The first is 0 or 1, and promises nothing.
    Between(i64, i64),
}

/// As the option `--dim` spells it.
impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Size::Fixed(size) => write!(f, "{size}"),
            Size::Between(least, most) => write!(f, "{least}..={most}"),
        }
    }
}

impl From<i64> for Size {
    fn from(size: i64) -> Size {
        Size::Fixed(size)
    }
}

impl From<RangeInclusive<i64>> for Size {
    fn from(bounds: RangeInclusive<i64>) -> Size {
        let (least, most) = bounds.into_inner();
        Size::Between(least, most)
    }
}

/// What the user says of an axis.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Axis {
    /// It has this size.
    Fixed(i64),
    /// It is the dimension of this name.
    Named(String),
}

/// As the option `--shape` spells it.
impl fmt::Display for Axis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Axis::Fixed(size) => write!(f, "{size}"),
            Axis::Named(name) => f.write_str(name),
        }
    }
}

impl From<i64> for Axis {
    fn from(size: i64) -> Axis {
        Axis::Fixed(size)
    }
}

impl From<&str> for Axis {
    fn from(name: &str) -> Axis {
        Axis::Named(name.to_owned())
    }
}

/// What the user says of an input that is a constant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Const {
    /// It is its default.
    Default,
    /// It is this: a number, or several in brackets.
    Value(String),
}

/// What becomes of inputs that have a default, which is an initializer of their name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Defaults {
    /// The caller may leave them out.
    #[default]
    Argument,
    /// They are constants.
    Constant,
}

/// A graph, and the files beside the model that were read for it.
pub struct Imported {
    /// The graph.
    pub graph: Graph,
    /// External data files, relative to the model's directory.
    pub files: Vec<PathBuf>,
}

/// Builds the graph of a checked model. The nodes and tensors that the checker found at fault are
/// passed over, so that a consequence of a fault is not reported as well.
///
/// # Errors
///
/// The diagnostics of the checker, followed by those of the import.
pub fn graph(
    proto: &ModelProto,
    checked: &Checked,
    settings: &Settings,
) -> Result<Imported, Diagnostics> {
    if proto.graph.is_none() {
        return Err(not_a_model("it has no graph").into());
    }
    let built = build::model(proto, settings, checked);
    let bound = bindings::types(proto, settings, checked);
    let mut found = checked.diagnostics.clone();
    let (imported, more) = match built {
        Ok(imported) => (Some(imported), bound),
        // A fault of the model's graph is a fault of the training graphs, too.
        Err(found) => (None, diagnostics::once_a_file(found.0)),
    };
    found.extend(more);
    imported.filter(|_| found.is_empty()).ok_or(Diagnostics(found))
}

/// The message in a model file, which may be in ONNX's textual syntax.
pub fn decode(bytes: Bytes) -> Result<ModelProto, Diagnostic> {
    if bytes.is_empty() {
        return Err(not_a_model("the file is empty"));
    }
    if is_text(&bytes) {
        // A copy, for nobody may change what was found to be UTF-8.
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
    let what = if bytes.iter().take(256).all(printable) {
        "the file is text, but not in ONNX's textual syntax, which starts with `<`"
    } else {
        "the file is cut short, or of another format"
    };
    let proto = decode_model(bytes).map_err(|error| {
        let error = error.to_string();
        if error.contains("recursion limit") {
            let message = "messages lie inside each other more than 100 deep";
            return Diagnostic::new(Code::TooDeep, message).note(error);
        }
        not_a_model(what).note(error)
    })?;
    if proto.graph.is_none() {
        return Err(not_a_model("the file has no graph"));
    }
    Ok(proto)
}

/// Whether a model is text: behind white space and comments stands `<`, which starts the list of
/// operator sets. No message of the binary format starts with any of these characters.
fn is_text(bytes: &[u8]) -> bool {
    let mut rest = bytes.trim_ascii_start();
    while rest.starts_with(b"#") {
        let line = rest.iter().position(|&b| b == b'\n').unwrap_or(rest.len());
        rest = rest[line..].trim_ascii_start();
    }
    rest.starts_with(b"<")
}

fn not_a_model(what: &str) -> Diagnostic {
    Diagnostic::new(Code::NotAModel, format!("this is not an ONNX model: {what}"))
}

/// The constant that a tensor outside a model is.
pub fn alone(proto: &onnxc_proto::TensorProto) -> Result<Tensor, Diagnostic> {
    check::tensor(proto)?;
    tensor::tensor(proto, &external::Files::none())
}

/// A constant as a tensor outside a model.
pub fn proto(tensor: &Tensor, name: &str) -> onnxc_proto::TensorProto {
    tensor::proto(tensor, name)
}

/// The names and sizes of the dimensions that are free in the model, as its inputs have them.
pub fn free_sizes(graph: &GraphProto, inputs: &BTreeMap<String, Value>) -> Vec<(String, Size)> {
    let mut sizes = Vec::new();
    for info in &graph.input {
        let ty = info.r#type.as_ref().and_then(|ty| ty.value.as_ref());
        let Some(type_proto::Value::TensorType(ty)) = ty else { continue };
        let tensor = inputs.get(info.name()).and_then(Value::tensor);
        let (Some(shape), Some(tensor)) = (&ty.shape, tensor) else { continue };
        for (axis, (dim, &size)) in shape.dim.iter().zip(&tensor.shape).enumerate() {
            if types::number(dim).is_none() {
                sizes.push((types::label(dim, info.name(), axis), Size::Fixed(size as i64)));
            }
        }
    }
    sizes
}

/// The names of the inputs whose number of axes the model does not say, and their shapes.
pub fn free_shapes(
    graph: &GraphProto,
    inputs: &BTreeMap<String, Value>,
) -> Vec<(String, Vec<Axis>)> {
    let mut shapes = Vec::new();
    for info in &graph.input {
        let ty = info.r#type.as_ref().and_then(|ty| ty.value.as_ref());
        let Some(type_proto::Value::TensorType(ty)) = ty else { continue };
        let tensor = inputs.get(info.name()).and_then(Value::tensor);
        let (None, Some(tensor)) = (&ty.shape, tensor) else { continue };
        let axes = tensor.shape.iter().map(|&size| Axis::Fixed(size as i64));
        shapes.push((info.name().to_owned(), axes.collect()));
    }
    shapes
}
