//! Calls of a function of the user's own, in place of a kernel.

use crate::ty::TensorType;

/// A call of a function of the user's own. It is given the inputs, the outputs and the attributes,
/// as `onnxc_runtime::custom` says.
#[derive(Clone, Debug, PartialEq)]
pub struct Custom {
    /// The operator, with its domain.
    pub operator: String,
    /// The function's path.
    pub function: String,
    /// What the function takes of the inputs.
    pub inputs: Vec<Parameter>,
    /// What it takes of the outputs.
    pub outputs: Vec<Parameter>,
    /// The attributes, sorted by name.
    pub attributes: Vec<(String, Attribute)>,
}

/// What a function takes of an input or output.
#[derive(Clone, Debug, PartialEq)]
pub struct Parameter {
    /// The type; `None` where this node leaves it out.
    pub ty: Option<TensorType>,
    /// Whether some node of the operator leaves it out, so that it is an `Option`.
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
