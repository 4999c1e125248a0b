//! The checker: decides from the messages of the file whether a model is valid, before import
//! builds a graph.
//!
//! The rules are those of the ONNX specification, those of onnx's own checker, and some that both
//! omit although a compiler relies on them. There is one file per topic:
//!
//! | file | checks |
//! |---|---|
//! | `model` | format version, operator sets, metadata, devices |
//! | `graph` | names, single assignment, order, scopes of nested graphs |
//! | `order` | topological order, cycles |
//! | `node` | the operator's domain and version, the numbers of inputs and outputs |
//! | `node_location` | no rules: shows a node in a diagnostic |
//! | `attribute` | one value of the declared type; references to functions' attributes |
//! | `tensor`, `sparse` | data against type and shape, in every field that can hold data |
//! | `types` | declared types |
//! | `function` | signatures, imports, recursion, limits |
//! | `omissions` | missing types and shapes of inputs and outputs, which compilation does without |
//! | `training` | bindings, merged graphs, `Gradient` |
//! | `value` | sequences, maps and optionals outside of models |
//! | `signature` | the signatures of operators, from `operators.txt` |
//!
//! The requirements of operators on types and values are checked later, when the graph is built.
//! Import relies on the checker: it skips messages with an error, so it does not report
//! consequences of that error.
//!
//! Some violations of the specification occur in many files and do no harm, so they are accepted:
//! names that are not C identifiers, nodes and graphs that share a name, inputs and initializers of
//! nested graphs that shadow an outer name, an output that is listed twice, quantization
//! annotations of unknown tensors.
//!
//! Others make the model invalid, but leave no doubt about its meaning. They are warnings, and
//! import compiles the model all the same: nodes that are not sorted, graphs and initializers
//! without a name, initializers of old files that are no inputs, equal initializers of one name,
//! operators of ONNX Runtime or of `ai.onnx.ml` whose operator set is not imported. Import warns
//! about declared types of inner values and declared shapes of outputs that differ from the
//! inferred ones, which count. Omissions, such as an output without a type, are reported by
//! `onnxc check` only.
//!
//! Recursion is no deeper than the nesting of messages, which the decoder limits.

mod attribute;
mod attribute_types;
mod context;
mod function;
mod graph;
mod metadata;
mod model;
mod node;
mod node_location;
mod omissions;
mod opsets;
mod order;
mod scope;
pub mod signature;
mod sparse;
mod tensor;
mod training;
mod types;
mod unit;
mod value;

pub use attribute::kind as attribute_kind;
pub use context::Checked;
pub use node_location::at_node;
pub use omissions::omissions;
pub use order::{sort, used_values};
pub use tensor::ensure_booleans;
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
/// Returns the first violation.
pub fn tensor(proto: &TensorProto) -> Result<(), Diagnostic> {
    let mut cx = Context::default();
    tensor::tensor(&mut cx, proto);
    cx.finish().into_first()
}
