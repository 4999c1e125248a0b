//! External data: tensors in a file beside the model, for models that exceed the limit of one
//! message.

use onnxc_proto::{
    AttributeProto, GraphProto, Message, ModelProto, StringStringEntryProto, TensorProto,
    tensor_proto::DataLocation,
};

/// The largest message of the file format, in bytes.
pub const LARGEST_FILE: usize = i32::MAX as usize;

/// Smaller tensors stay in the model.
const SMALLEST: usize = 1024;

/// The alignment of tensors in their file, so that they can be memory-mapped.
const PAGE: usize = 4096;

/// The tensors of a model's external data, in file order.
#[derive(Default)]
pub struct Weights(Vec<(usize, onnxc_proto::Bytes)>);

impl Weights {
    /// Writes the tensors one after another.
    ///
    /// # Errors
    ///
    /// Returns an error if the file cannot be written.
    pub fn write(&self, file: &mut dyn std::io::Write) -> std::io::Result<()> {
        let mut at = 0;
        for (start, bytes) in &self.0 {
            std::io::copy(&mut std::io::Read::take(std::io::repeat(0), (start - at) as u64), file)?;
            file.write_all(bytes)?;
            at = start + bytes.len();
        }
        Ok(())
    }
}

/// Moves the large tensors of a model of more than `most` bytes to the file called `location`.
pub fn move_out(model: &mut ModelProto, location: &str, most: usize) -> Option<Weights> {
    if model.encoded_len() <= most {
        return None;
    }
    let mut weights = Weights::default();
    let training = &mut model.training_info;
    let training =
        training.iter_mut().flat_map(|info| [&mut info.initialization, &mut info.algorithm]);
    for graph in training.chain([&mut model.graph]).flatten() {
        graph_out(graph, location, &mut weights);
    }
    Some(weights)
}

fn graph_out(graph: &mut GraphProto, location: &str, weights: &mut Weights) {
    for tensor in &mut graph.initializer {
        tensor_out(tensor, location, weights);
    }
    for attribute in graph.node.iter_mut().flat_map(|node| &mut node.attribute) {
        attribute_out(attribute, location, weights);
    }
}

fn attribute_out(attribute: &mut AttributeProto, location: &str, weights: &mut Weights) {
    let tensors = attribute.t.as_deref_mut().into_iter().chain(&mut attribute.tensors);
    tensors.for_each(|tensor| tensor_out(tensor, location, weights));
    let graphs = attribute.g.as_deref_mut().into_iter().chain(&mut attribute.graphs);
    graphs.for_each(|graph| graph_out(graph, location, weights));
}

fn tensor_out(tensor: &mut TensorProto, location: &str, weights: &mut Weights) {
    let Some(data) = tensor.raw_data.take_if(|data| data.len() >= SMALLEST) else { return };
    let end = weights.0.last().map_or(0, |(start, bytes)| start + bytes.len());
    let start = end.next_multiple_of(PAGE);
    let entry = |key: &str, value: String| StringStringEntryProto {
        key: Some(key.to_owned()),
        value: Some(value),
    };
    tensor.data_location = Some(DataLocation::External.into());
    tensor.external_data = vec![
        entry("location", location.to_owned()),
        entry("offset", start.to_string()),
        entry("length", data.len().to_string()),
    ];
    weights.0.push((start, data));
}
