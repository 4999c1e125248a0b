//! The data of tensors, brought into the message of their model.

use super::{external::Files, tensor::external_data};
use crate::diag::Result;
use onnxc_proto::{GraphProto, ModelProto, TensorProto, tensor_proto::DataLocation};
use std::path::PathBuf;

/// Brings external data, which lies in `directory`, into the message of a model that was checked.
/// It shares its memory with the mapped files.
///
/// # Errors
///
/// Where a file cannot be read.
pub fn gather(model: &mut ModelProto, directory: Option<PathBuf>) -> Result {
    let files = Files::within(directory);
    let training = &mut model.training_info;
    let training =
        training.iter_mut().flat_map(|info| [&mut info.initialization, &mut info.algorithm]);
    let mut graphs = training.chain([&mut model.graph]).flatten();
    graphs.try_for_each(|graph| all(graph, &files))
}

fn all(graph: &mut GraphProto, files: &Files) -> Result {
    for tensor in &mut graph.initializer {
        one(tensor, files)?;
    }
    for attribute in graph.node.iter_mut().flat_map(|node| &mut node.attribute) {
        let mut tensors = attribute.t.as_deref_mut().into_iter().chain(&mut attribute.tensors);
        tensors.try_for_each(|tensor| one(tensor, files))?;
        let mut graphs = attribute.g.as_deref_mut().into_iter().chain(&mut attribute.graphs);
        graphs.try_for_each(|graph| all(graph, files))?;
    }
    Ok(())
}

fn one(tensor: &mut TensorProto, files: &Files) -> Result {
    if tensor.data_location() == DataLocation::External {
        tensor.raw_data = Some(external_data(tensor, files)?);
        tensor.data_location = None;
        tensor.external_data.clear();
    }
    Ok(())
}
