//! Whether a model is valid: what can be said of the messages alone, before a graph is made of them.
//!
//! The rules are those of the ONNX specification and of onnx's own checker, and those that both
//! leave out and that who relies on a model must not leave out. One file a topic:
//!
//! | file | what it holds the model against |
//! |---|---|
//! | `model` | version of the format, operator sets, metadata, devices |
//! | `graph` | names, single assignment, order, scopes of nested graphs |
//! | `node` | the operator's domain, version, number of inputs and outputs |
//! | `attribute` | one value of the type that is said; references to functions' attributes |
//! | `tensor`, `sparse` | the data against type and shape, in every field that can hold it |
//! | `types` | the types that are declared |
//! | `function` | signatures, imports, no recursion, limits |
//! | `training` | bindings, combined graphs, `Gradient` |
//! | `value` | sequences, maps and optionals outside of models |
//! | `signature` | what ONNX says of each version of each operator, from `operators.txt` |
//!
//! What an operator says of the types and values that it is given is found later, when the graph is
//! built, which relies on what was checked here: it passes over what was found at fault, so that
//! what follows from a fault is no second diagnostic.
//!
//! Some of what the specification forbids is in many files and harms nobody, so it is let be: names
//! that are no C identifiers, nodes and graphs that share a name, inputs and initializers of nested
//! graphs that hide an outer name, an output that is listed twice, outputs of the model without a
//! type (it is inferred), declared types of inner values whose sizes are outdated, annotations of
//! quantization that name nothing.
//!
//! Nothing here recurses deeper than the messages nest, which their decoder limits.

mod attribute;
mod attribute_types;
mod context;
mod function;
mod graph;
mod metadata;
mod model;
mod node;
mod opsets;
mod scope;
pub mod signature;
mod sparse;
mod tensor;
mod training;
mod types;
mod unit;
mod value;

pub use attribute::kind as attribute_kind;
pub use context::{Checked, node_place};
pub use tensor::truths;
pub use training::gradient::{Names as GradientNames, is_flat};
pub use value::{map, optional, sequence};

use crate::diag::Diagnostic;
use context::Context;
use onnxc_proto::{FunctionProto, ModelProto, TensorProto};

/// Checks a model against every rule.
pub fn model(proto: &ModelProto) -> Checked {
    let mut cx = Context::default();
    model::model(&mut cx, proto);
    cx.finish()
}

/// Checks a function without a model against the rules.
pub fn function(proto: &FunctionProto) -> Checked {
    let mut cx = Context::default();
    function::alone(&mut cx, proto);
    cx.finish()
}

/// Checks a tensor without a model.
///
/// # Errors
///
/// The first violation.
pub fn tensor(proto: &TensorProto) -> Result<(), Diagnostic> {
    let mut cx = Context::default();
    tensor::tensor(&mut cx, proto);
    cx.finish().into_first()
}
