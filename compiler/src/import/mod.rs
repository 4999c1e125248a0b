//! Imports models: from the bytes of a file to a graph.

pub(crate) mod attribute;
mod build;
mod constant;
mod context;
mod custom;
mod custom_bindings;
mod declared;
mod decode;
mod diagnostics;
mod dimension_names;
pub(crate) mod external;
mod external_files;
mod foreign;
mod free_sizes;
mod function;
mod gather;
mod interface;
mod operand_types;
mod parameters;
pub mod print;
mod ranks;
mod region;
mod settings;
mod spec;
pub(crate) mod tensor;
pub mod text;
mod topological_sort;
mod training;
mod training_types;
pub(crate) mod types;
mod unread;
pub mod value;
pub(crate) mod version;
mod zeros;

pub use build::graph;
pub use context::Imported;
pub use decode::decode;
pub(crate) use dimension_names::dimension_name;
pub use external_files::external_files;
pub use free_sizes::{free_shapes, free_sizes};
pub use gather::gather;
pub use settings::{Axis, Const, Defaults, Operator, Settings, Size};
pub use spec::Spec;
pub(crate) use tensor::as_input;
pub use training::{Training, training};

use crate::{check, diag::Diagnostic, tensor::Tensor};
use onnxc_proto::TensorProto;

/// Reads a tensor that belongs to no model.
///
/// # Errors
///
/// Returns an error if the tensor is invalid or its data is external.
pub fn alone(proto: &TensorProto) -> Result<Tensor, Diagnostic> {
    check::tensor(proto)?;
    tensor::tensor(proto, &external::Files::none())
}

/// Converts a constant to a tensor message that belongs to no model.
pub fn proto(tensor: &Tensor, name: &str) -> TensorProto {
    tensor::proto(tensor, name)
}
