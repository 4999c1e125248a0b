//! Values of inputs and outputs.

use crate::tensor::Tensor;
use std::fmt;

/// A value of any ONNX type.
#[derive(Clone, PartialEq)]
pub enum Value {
    /// A tensor.
    Tensor(Tensor),
    /// A list of values.
    Sequence(Vec<Value>),
    /// A value that may be absent.
    Optional(Option<Box<Value>>),
    /// The keys and the values of a map, as tensors with one axis.
    Map(Tensor, Tensor),
}

impl Value {
    /// Returns the tensor, if the value is one.
    pub fn tensor(&self) -> Option<&Tensor> {
        match self {
            Value::Tensor(tensor) => Some(tensor),
            Value::Sequence(_) | Value::Optional(_) | Value::Map(..) => None,
        }
    }

    /// Returns the tensor, if the value is one.
    pub fn into_tensor(self) -> Option<Tensor> {
        match self {
            Value::Tensor(tensor) => Some(tensor),
            Value::Sequence(_) | Value::Optional(_) | Value::Map(..) => None,
        }
    }

    /// Names the kind of value, with its article.
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
