//! The typed attributes of a node.

use crate::{
    tensor::Tensor,
    ty::{TensorType, Type},
};
use std::{borrow::Cow, fmt};

/// The value of an attribute. Numbers, strings, tensors and lists of them convert by `into`.
#[derive(Clone, PartialEq)]
#[allow(missing_docs)]
pub enum Attribute {
    Float(f32),
    Int(i64),
    String(Vec<u8>),
    Tensor(Tensor),
    Type(Type),
    Floats(Vec<f32>),
    Ints(Vec<i64>),
    Strings(Vec<Vec<u8>>),
    Tensors(Vec<Tensor>),
    Types(Vec<Type>),
    /// A sparse tensor: the values, their indices, and the type of the whole tensor.
    Sparse(Tensor, Tensor, TensorType),
    /// A subgraph, by its index among the subgraphs of the node.
    Graph(usize),
    /// Several subgraphs, by their indices.
    Graphs(Vec<usize>),
}

/// The attributes that an operator reports.
#[derive(Default, PartialEq)]
pub struct Attributes(pub Vec<(Cow<'static, str>, Attribute)>);

impl Attributes {
    /// Appends an attribute of any kind.
    pub fn push(&mut self, name: impl Into<Cow<'static, str>>, value: Attribute) {
        self.0.push((name.into(), value));
    }

    /// Returns the attribute called `name`.
    pub fn get(&self, name: &str) -> Option<&Attribute> {
        self.0.iter().find(|(found, _)| found == name).map(|(_, value)| value)
    }

    /// Appends an integer.
    pub fn int(&mut self, name: &'static str, value: i64) {
        self.push(name, Attribute::Int(value));
    }

    /// Appends a flag, which ONNX stores as 0 or 1.
    pub fn flag(&mut self, name: &'static str, value: bool) {
        self.int(name, i64::from(value));
    }

    /// Appends integers.
    pub fn ints(&mut self, name: &'static str, values: &[i64]) {
        self.push(name, Attribute::Ints(values.to_vec()));
    }

    /// Appends a float.
    pub fn float(&mut self, name: &'static str, value: f32) {
        self.push(name, Attribute::Float(value));
    }

    /// Appends floats.
    pub fn floats(&mut self, name: &'static str, values: &[f32]) {
        self.push(name, Attribute::Floats(values.to_vec()));
    }

    /// Appends a string.
    pub fn string(&mut self, name: &'static str, value: &str) {
        self.push(name, Attribute::String(value.as_bytes().to_vec()));
    }

    /// Appends strings.
    pub fn strings<S: AsRef<str>>(&mut self, name: &'static str, values: &[S]) {
        let values = values.iter().map(|value| value.as_ref().as_bytes().to_vec()).collect();
        self.push(name, Attribute::Strings(values));
    }

    /// Appends a type.
    pub fn ty(&mut self, name: &'static str, value: &Type) {
        self.push(name, Attribute::Type(value.clone()));
    }

    /// Appends a region by its index.
    pub fn region(&mut self, name: &'static str, number: usize) {
        self.push(name, Attribute::Graph(number));
    }

    /// Appends a tensor.
    pub fn tensor(&mut self, name: &'static str, value: &Tensor) {
        self.push(name, Attribute::Tensor(value.clone()));
    }
}

impl Attribute {
    /// Returns the kind of attribute, for messages.
    pub fn kind(&self) -> &'static str {
        match self {
            Attribute::Float(_) => "float",
            Attribute::Int(_) => "int",
            Attribute::String(_) => "string",
            Attribute::Tensor(_) => "tensor",
            Attribute::Type(_) => "type",
            Attribute::Floats(_) => "floats",
            Attribute::Ints(_) => "ints",
            Attribute::Strings(_) => "strings",
            Attribute::Tensors(_) => "tensors",
            Attribute::Types(_) => "types",
            Attribute::Sparse(..) => "sparse tensor",
            Attribute::Graph(_) => "graph",
            Attribute::Graphs(_) => "graphs",
        }
    }
}

macro_rules! from {
    ($($T:ty => |$x:ident| $value:expr;)*) => {$(
        impl From<$T> for Attribute {
            fn from($x: $T) -> Attribute {
                $value
            }
        }
    )*};
}

from! {
    f32 => |x| Attribute::Float(x);
    f64 => |x| Attribute::Float(x as f32);
    i32 => |x| Attribute::Int(x.into());
    i64 => |x| Attribute::Int(x);
    bool => |x| Attribute::Int(x.into());
    &str => |x| Attribute::String(x.into());
    String => |x| Attribute::String(x.into());
    Tensor => |x| Attribute::Tensor(x);
    Type => |x| Attribute::Type(x);
    Vec<f32> => |x| Attribute::Floats(x);
    &[f32] => |x| Attribute::Floats(x.to_vec());
    Vec<i64> => |x| Attribute::Ints(x);
    &[i64] => |x| Attribute::Ints(x.to_vec());
    Vec<String> => |x| Attribute::Strings(x.into_iter().map(String::into_bytes).collect());
    &[&str] => |x| Attribute::Strings(x.iter().map(|text| text.as_bytes().to_vec()).collect());
    Vec<Tensor> => |x| Attribute::Tensors(x);
    Vec<Type> => |x| Attribute::Types(x);
}

fn list<T, D: fmt::Display>(
    f: &mut fmt::Formatter<'_>,
    items: &[T],
    text: impl Fn(&T) -> D,
) -> fmt::Result {
    f.write_str("[")?;
    for (i, item) in items.iter().enumerate() {
        write!(f, "{}{}", if i == 0 { "" } else { ", " }, text(item))?;
    }
    f.write_str("]")
}

fn string(bytes: &[u8]) -> String {
    format!("{:?}", String::from_utf8_lossy(bytes))
}

/// Formats the value in ONNX's textual syntax.
impl fmt::Display for Attribute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Attribute::Float(x) => write!(f, "{x:?}"),
            Attribute::Int(x) => write!(f, "{x}"),
            Attribute::String(x) => f.write_str(&string(x)),
            Attribute::Tensor(x) => write!(f, "{x:?}"),
            Attribute::Type(x) => write!(f, "{x}"),
            Attribute::Floats(x) => list(f, x, |x| format!("{x:?}")),
            Attribute::Ints(x) => list(f, x, |&x| x),
            Attribute::Strings(x) => list(f, x, |x| string(x)),
            Attribute::Tensors(x) => list(f, x, |x| format!("{x:?}")),
            Attribute::Types(x) => list(f, x, Type::clone),
            Attribute::Sparse(values, indices, ty) => {
                write!(f, "sparse {ty} {{{values:?} at {indices:?}}}")
            }
            Attribute::Graph(i) => write!(f, "graph {i}"),
            Attribute::Graphs(x) => list(f, x, |&x| x),
        }
    }
}

impl fmt::Display for Attributes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, (name, value)) in self.0.iter().enumerate() {
            write!(f, "{}{name} = {value}", if i == 0 { " <" } else { ", " })?;
        }
        if self.0.is_empty() { Ok(()) } else { f.write_str(">") }
    }
}
