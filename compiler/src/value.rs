//! Values apart from models: what a model is given, and what it gives.

use crate::tensor::Tensor;
use std::fmt;

/// A value of any type that ONNX has.
#[derive(Clone, PartialEq)]
pub enum Value {
    /// A tensor.
    Tensor(Tensor),
    /// Values one after another.
    Sequence(Vec<Value>),
    /// A value, or none.
    Optional(Option<Box<Value>>),
    /// Keys, and a value for each: two tensors of one axis.
    Map(Tensor, Tensor),
}

impl Value {
    /// The tensor, where it is one.
    pub fn tensor(&self) -> Option<&Tensor> {
        match self {
            Value::Tensor(tensor) => Some(tensor),
            Value::Sequence(_) | Value::Optional(_) | Value::Map(..) => None,
        }
    }

    /// The tensor, where it is one.
    pub fn into_tensor(self) -> Option<Tensor> {
        match self {
            Value::Tensor(tensor) => Some(tensor),
            Value::Sequence(_) | Value::Optional(_) | Value::Map(..) => None,
        }
    }

    /// What it is, in a word.
    pub fn kind(&self) -> &'static str {
        match self {
            Value::Tensor(_) => "a tensor",
            Value::Sequence(_) => "a sequence",
            Value::Optional(_) => "an optional value",
            Value::Map(..) => "a map",
        }
    }
}

impl From<Tensor> for Value {
    fn from(tensor: Tensor) -> Value {
        Value::Tensor(tensor)
    }
}

impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Tensor(tensor) => write!(f, "{tensor:?}"),
            Value::Sequence(values) => f.debug_list().entries(values).finish(),
            Value::Optional(None) => f.write_str("none"),
            Value::Optional(Some(value)) => write!(f, "{value:?}"),
            Value::Map(keys, values) => write!(f, "{{{keys:?}: {values:?}}}"),
        }
    }
}
