//! Lists the files of external data that a model names.

use onnxc_proto::{
    AttributeProto, GraphProto, ModelProto, NodeProto, SparseTensorProto, TensorProto,
};
use std::collections::BTreeSet;

/// Returns the locations of external data in the graphs of a model and of its training, and in its
/// functions.
pub fn external_files(model: &ModelProto) -> BTreeSet<&str> {
    let mut found = BTreeSet::new();
    let training = &model.training_info;
    let training = training.iter().flat_map(|info| [&info.initialization, &info.algorithm]);
    let graphs = training.chain([&model.graph]).flatten();
    graphs.for_each(|graph| in_graph(graph, &mut found));
    for function in &model.functions {
        function.node.iter().for_each(|node| in_node(node, &mut found));
        let defaults = function.attribute_proto.iter();
        defaults.for_each(|attribute| in_attribute(attribute, &mut found));
    }
    found
}

fn in_graph<'m>(graph: &'m GraphProto, found: &mut BTreeSet<&'m str>) {
    graph.initializer.iter().for_each(|tensor| in_tensor(tensor, found));
    graph.sparse_initializer.iter().for_each(|tensor| in_sparse(tensor, found));
    graph.node.iter().for_each(|node| in_node(node, found));
}

fn in_node<'m>(node: &'m NodeProto, found: &mut BTreeSet<&'m str>) {
    node.attribute.iter().for_each(|attribute| in_attribute(attribute, found));
}

fn in_attribute<'m>(attribute: &'m AttributeProto, found: &mut BTreeSet<&'m str>) {
    let tensors = attribute.t.as_deref().into_iter().chain(&attribute.tensors);
    tensors.for_each(|tensor| in_tensor(tensor, found));
    let sparse = attribute.sparse_tensor.as_deref().into_iter().chain(&attribute.sparse_tensors);
    sparse.for_each(|tensor| in_sparse(tensor, found));
    let graphs = attribute.g.as_deref().into_iter().chain(&attribute.graphs);
    graphs.for_each(|graph| in_graph(graph, found));
}

fn in_sparse<'m>(tensor: &'m SparseTensorProto, found: &mut BTreeSet<&'m str>) {
    tensor.values.iter().chain(&tensor.indices).for_each(|part| in_tensor(part, found));
}

fn in_tensor<'m>(tensor: &'m TensorProto, found: &mut BTreeSet<&'m str>) {
    let locations = tensor.external_data.iter().filter(|entry| entry.key() == "location");
    found.extend(locations.map(|entry| entry.value()));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::import::text;

    #[test]
    fn files_are_found_wherever_a_tensor_may_be() {
        let at = |name: &str| format!("float[2] = [\"location\": \"{name}\"]");
        let text = format!(
            "<ir_version: 10, opset_import: [\"\" : 21]>
            g (bool b) => (y) <float[2] w = [\"location\": \"weights\"]> {{
                y = If (b) <
                    then_branch = t () => (v) {{ v = Constant<value = {}>() }},
                    else_branch = e () => (v) {{ v = a.F() }}
                >
            }}
            <domain: \"a\", opset_import: [\"\" : 21]>
            F <c: tensor = {}> () => (z) {{
                x = Constant<value = {}>()
                s = Constant<sparse_value = sparse_tensor(float[2]) = {{1}} at {{1}}>()
                z = Add(x, s)
            }}",
            at("branch"),
            at("default"),
            at("function"),
        );
        let mut model = text::model(&text).expect("the text is valid");
        let place = onnxc_proto::StringStringEntryProto {
            key: Some("location".into()),
            value: Some("sparse".into()),
        };
        let sparse = model.functions[0].node[1].attribute[0].sparse_tensor.as_mut();
        let values = sparse.and_then(|sparse| sparse.values.as_mut()).expect("it has values");
        values.external_data.push(place);
        let found: Vec<&str> = external_files(&model).into_iter().collect();
        assert_eq!(found, ["branch", "default", "function", "sparse", "weights"]);
    }
}
