//! Lists the files of external data that a model names.

use onnxc_proto::{GraphProto, ModelProto, NodeProto, TensorProto};
use std::collections::BTreeSet;

/// Returns the locations of external data in the graphs of a model and of its training.
pub fn external_files(model: &ModelProto) -> BTreeSet<&str> {
    let mut found = BTreeSet::new();
    let training = &model.training_info;
    let training = training.iter().flat_map(|info| [&info.initialization, &info.algorithm]);
    let graphs = training.chain([&model.graph]).flatten();
    graphs.for_each(|graph| in_graph(graph, &mut found));
    found
}

fn in_graph<'m>(graph: &'m GraphProto, found: &mut BTreeSet<&'m str>) {
    graph.initializer.iter().for_each(|tensor| in_tensor(tensor, found));
    let sparse = graph.sparse_initializer.iter();
    let parts = sparse.flat_map(|tensor| tensor.values.iter().chain(&tensor.indices));
    parts.for_each(|tensor| in_tensor(tensor, found));
    graph.node.iter().for_each(|node| in_node(node, found));
}

fn in_node<'m>(node: &'m NodeProto, found: &mut BTreeSet<&'m str>) {
    for attribute in &node.attribute {
        let tensors = attribute.t.as_deref().into_iter().chain(&attribute.tensors);
        tensors.for_each(|tensor| in_tensor(tensor, found));
        let graphs = attribute.g.as_deref().into_iter().chain(&attribute.graphs);
        graphs.for_each(|graph| in_graph(graph, found));
    }
}

fn in_tensor<'m>(tensor: &'m TensorProto, found: &mut BTreeSet<&'m str>) {
    let locations = tensor.external_data.iter().filter(|entry| entry.key() == "location");
    found.extend(locations.map(|entry| entry.value()));
}
