//! Calls of a function of the user's own, in place of a kernel.

use super::{Args, Form, Params, Symbols};
use crate::{dim::Dim, ty::TensorType};
use onnxc_runtime::{Error, Result};

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

impl Params for Custom {
    fn source(&self) -> Vec<String> {
        Vec::new()
    }

    fn uses(&self) -> Vec<&'static str> {
        Vec::new()
    }

    fn visit(&self, see: &mut dyn FnMut(&Dim)) {
        let parameters = self.inputs.iter().chain(&self.outputs);
        let types = parameters.filter_map(|parameter| parameter.ty.as_ref());
        types.flat_map(|ty| &ty.shape).for_each(see);
    }

    fn run(&self, _: Form, _: &Symbols<'_>, _: &mut Args<'_>) -> Result {
        Err(Error::Value("a function of the program can be called by the generated module alone"))
    }

    fn custom(&self) -> Option<&Custom> {
        Some(self)
    }
}
