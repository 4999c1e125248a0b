//! Embeds external data in the message of a model.

use super::{external::Files, tensor::external_data};
use crate::diag::Result;
use onnxc_proto::{
    AttributeProto, GraphProto, ModelProto, NodeProto, SparseTensorProto, TensorProto,
    tensor_proto::DataLocation,
};
use std::path::PathBuf;

/// Embeds the external data in `directory` in a checked model. The data shares the memory of the
/// mapped files.
///
/// # Errors
///
/// Returns an error if a file cannot be opened, lies outside of `directory`, or does not fit the
/// tensor.
pub fn gather(model: &mut ModelProto, directory: Option<PathBuf>) -> Result {
    let files = Files::within(directory);
    let training = &mut model.training_info;
    let training =
        training.iter_mut().flat_map(|info| [&mut info.initialization, &mut info.algorithm]);
    let mut graphs = training.chain([&mut model.graph]).flatten();
    graphs.try_for_each(|graph| all(graph, &files))?;
    model.functions.iter_mut().try_for_each(|function| {
        function.attribute_proto.iter_mut().try_for_each(|a| attribute(a, &files))?;
        function.node.iter_mut().try_for_each(|part| node(part, &files))
    })
}

fn all(graph: &mut GraphProto, files: &Files) -> Result {
    graph.initializer.iter_mut().try_for_each(|tensor| one(tensor, files))?;
    graph.sparse_initializer.iter_mut().try_for_each(|tensor| sparse(tensor, files))?;
    graph.node.iter_mut().try_for_each(|part| node(part, files))
}

fn node(node: &mut NodeProto, files: &Files) -> Result {
    node.attribute.iter_mut().try_for_each(|a| attribute(a, files))
}

fn attribute(a: &mut AttributeProto, files: &Files) -> Result {
    let mut tensors = a.t.as_deref_mut().into_iter().chain(&mut a.tensors);
    tensors.try_for_each(|tensor| one(tensor, files))?;
    let mut sparse_tensors =
        a.sparse_tensor.as_deref_mut().into_iter().chain(&mut a.sparse_tensors);
    sparse_tensors.try_for_each(|tensor| sparse(tensor, files))?;
    let mut graphs = a.g.as_deref_mut().into_iter().chain(&mut a.graphs);
    graphs.try_for_each(|graph| all(graph, files))
}

fn sparse(tensor: &mut SparseTensorProto, files: &Files) -> Result {
    let mut parts = tensor.values.iter_mut().chain(&mut tensor.indices);
    parts.try_for_each(|tensor| one(tensor, files))
}

fn one(tensor: &mut TensorProto, files: &Files) -> Result {
    if tensor.data_location() == DataLocation::External {
        tensor.raw_data = Some(external_data(tensor, files)?);
        tensor.data_location = None;
        tensor.external_data.clear();
    }
    Ok(())
}
