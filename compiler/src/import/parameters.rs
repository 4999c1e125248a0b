//! Counts the parameters of a model.

use super::unread;
use crate::dtype::DType;
use onnxc_proto::{GraphProto, ModelProto, TensorProto};
use std::collections::HashSet;

/// Returns the number of elements of the initializers that the nodes of a model read: weights of
/// any precision, with their scales and zero points. Initializers of `int64` are shapes and axes.
pub(super) fn count(model: &ModelProto) -> u64 {
    let names = unread::names(model);
    model.graph.as_ref().map_or(0, |graph| in_graph(graph, &names))
}

fn in_graph(graph: &GraphProto, names: &HashSet<&str>) -> u64 {
    let sparse = graph.sparse_initializer.iter().filter_map(|sparse| sparse.values.as_ref());
    let initializers = graph.initializer.iter().chain(sparse);
    let read = initializers.filter(|tensor| names.contains(tensor.name()) && is_weight(tensor));
    let nodes = graph.node.iter().flat_map(|node| &node.attribute);
    let subgraphs = nodes.flat_map(|given| given.g.as_deref().into_iter().chain(&given.graphs));
    read.map(len).chain(subgraphs.map(|graph| in_graph(graph, names))).fold(0, u64::saturating_add)
}

fn is_weight(tensor: &TensorProto) -> bool {
    let dtype = DType::from_code(tensor.data_type());
    let is_other = |dtype| matches!(dtype, DType::I64 | DType::U64 | DType::Bool | DType::String);
    dtype.is_some_and(|dtype| !is_other(dtype))
}

/// The number of elements of a tensor. The checker has reported a negative size.
fn len(tensor: &TensorProto) -> u64 {
    let sizes = tensor.dims.iter().map(|&size| u64::try_from(size).unwrap_or(0));
    sizes.fold(1, u64::saturating_mul)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::import::text;

    #[test]
    fn initializers_count_that_nodes_read() {
        let model = text::model(
            "<ir_version: 10, opset_import: [\"\" : 21]>
            g (float[2] x, bool c) => (float[2] y)
            <float[2] a = {1, 2}, int8[3] q = {1, 2, 3}, float[4] unread = {1, 2, 3, 4},
            int64[1] axes = {0}> {
                y = If (c) <
                    then_branch = t () => (float[2] s) <float[1] b = {1}> { s = Sum (x, a, b) },
                    else_branch = e () => (float[2] r) { r = Op (x, q, axes) }
                >
            }",
        );
        assert_eq!(count(&model.expect("the text is a model")), 2 + 3 + 1);
    }
}
