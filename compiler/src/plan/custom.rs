//! Calls of user-defined operators.

use crate::ty::TensorType;

/// A call of a user-defined function with inputs, outputs and attributes; see
/// `onnxc_runtime::custom`.
#[derive(Clone, Debug, PartialEq)]
pub struct Custom {
    /// The operator, with its domain.
    pub operator: String,
    /// The path of the function.
    pub function: String,
    /// The input parameters.
    pub inputs: Vec<Parameter>,
    /// The output parameters.
    pub outputs: Vec<Parameter>,
    /// The attributes, sorted by name.
    pub attributes: Vec<(String, Attribute)>,
}

/// A parameter of a function.
#[derive(Clone, Debug, PartialEq)]
pub struct Parameter {
    /// The type; `None` if this node omits it.
    pub ty: Option<TensorType>,
    /// Whether some node of the operator omits it, so that the parameter is an `Option`.
    pub is_optional: bool,
}

/// The value of an attribute.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)]
pub enum Attribute {
    Int(i64),
    Float(f32),
    String(String),
    Ints(Vec<i64>),
    Floats(Vec<f32>),
    Strings(Vec<String>),
}
