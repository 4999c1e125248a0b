//! Copies what a model says about its values to the model that is written: documentation, metadata,
//! denotations, and the parameters of quantization.
//!
//! Passes know nothing of them, so they are copied for values that are certainly the same: inputs,
//! outputs, initializers with equal elements, and outputs of nodes that no pass changed. Those of
//! other values, of subgraphs and of functions are left out.

use crate::{
    domain::canonical,
    import::{self, external::Files, tensor::tensor},
};
use onnxc_proto::{
    AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto, TypeProto, ValueInfoProto,
    tensor_shape_proto::Dimension, type_proto::Value,
};
use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    path::PathBuf,
};

/// Returns whether a model says more about its graph and values than their types.
pub fn exist(model: &ModelProto) -> bool {
    let Some(graph) = &model.graph else { return false };
    !graph.doc_string().is_empty() || !graph.metadata_props.is_empty() || describes_values(graph)
}

/// Returns whether a graph says anything about its values.
fn describes_values(graph: &GraphProto) -> bool {
    !graph.quantization_annotation.is_empty()
        || values(graph).any(says_more)
        || graph
            .initializer
            .iter()
            .any(|tensor| !tensor.doc_string().is_empty() || !tensor.metadata_props.is_empty())
}

/// Copies what `read`, whose files are in `directory`, says about its values to `written`.
pub fn keep(read: &ModelProto, directory: Option<PathBuf>, written: &mut ModelProto) {
    let (Some(from), Some(to)) = (&read.graph, &mut written.graph) else { return };
    // The graph that the compiler knows has the documentation of both.
    written.doc_string.clone_from(&read.doc_string);
    to.doc_string.clone_from(&from.doc_string);
    to.metadata_props.clone_from(&from.metadata_props);
    if !describes_values(from) {
        return;
    }
    let files = Files::within(directory);
    let same = same_values(from, to, &files);
    let said: HashMap<&str, &ValueInfoProto> = values(from)
        .filter(|value| same.contains(value.name()) && says_more(value))
        .map(|value| (value.name(), value))
        .collect();
    for value in to.input.iter_mut().chain(&mut to.output).chain(&mut to.value_info) {
        if let Some(said) = said.get(value.name()) {
            value.doc_string.clone_from(&said.doc_string);
            value.metadata_props.clone_from(&said.metadata_props);
            denote(value.r#type.as_mut(), said.r#type.as_ref());
        }
    }
    let tensors = by_name(&from.initializer);
    for tensor in to.initializer.iter_mut().filter(|tensor| same.contains(tensor.name())) {
        if let Some(said) = tensors.get(tensor.name()) {
            tensor.doc_string.clone_from(&said.doc_string);
            tensor.metadata_props.clone_from(&said.metadata_props);
        }
    }
    quantization(from, &same, &files, to);
}

/// Copies the types that `read`, whose files are in `directory`, declares for values of `written`
/// whose types only a run tells.
pub fn declare(read: &ModelProto, directory: Option<PathBuf>, written: &mut ModelProto) {
    let (Some(from), Some(to)) = (&read.graph, &mut written.graph) else { return };
    let typed: HashSet<String> = values(to).map(|value| value.name().to_owned()).collect();
    let made: HashSet<&str> =
        to.node.iter().flat_map(|node| &node.output).map(String::as_str).collect();
    let is_open = |value: &&ValueInfoProto| {
        let name = value.name();
        value.r#type.is_some() && !typed.contains(name) && made.contains(name)
    };
    let open: Vec<&ValueInfoProto> = from.value_info.iter().filter(is_open).collect();
    if !open.is_empty() {
        let same = same_values(from, to, &Files::within(directory));
        let open = open.into_iter().filter(|value| same.contains(value.name()));
        to.value_info.extend(open.cloned());
    }
}

/// Removes the types of intermediate values that can be inferred, and that say nothing else.
/// Subgraphs have no others.
pub fn without_types(graph: &mut GraphProto, needed: &BTreeSet<String>) {
    graph.value_info.retain(|value| needed.contains(value.name()) || says_more(value));
    for attribute in graph.node.iter_mut().flat_map(|node| &mut node.attribute) {
        let graphs = attribute.g.as_deref_mut().into_iter().chain(&mut attribute.graphs);
        graphs.for_each(|graph| without_types(graph, needed));
    }
}

/// The inputs, outputs and intermediate values of a graph, as far as they are declared.
fn values(graph: &GraphProto) -> impl Iterator<Item = &ValueInfoProto> {
    graph.value_info.iter().chain(&graph.output).chain(&graph.input)
}

/// Returns whether a declaration says more than a type.
fn says_more(value: &ValueInfoProto) -> bool {
    let denotes = |ty: &TypeProto| {
        let sizes = sizes(Some(ty)).unwrap_or_default();
        !ty.denotation().is_empty() || sizes.iter().any(|size| !size.denotation().is_empty())
    };
    !value.doc_string().is_empty()
        || !value.metadata_props.is_empty()
        || value.r#type.as_ref().is_some_and(denotes)
}

/// Returns the sizes of a tensor.
fn sizes(ty: Option<&TypeProto>) -> Option<&[Dimension]> {
    match ty?.value.as_ref()? {
        Value::TensorType(ty) => Some(&ty.shape.as_ref()?.dim),
        _ => None,
    }
}

/// Copies the denotations of a type and of its axes.
fn denote(to: Option<&mut TypeProto>, from: Option<&TypeProto>) {
    let (Some(to), Some(from)) = (to, from) else { return };
    to.denotation.clone_from(&from.denotation);
    let (Some(Value::TensorType(to)), Some(from)) = (&mut to.value, sizes(Some(from))) else {
        return;
    };
    let to = to.shape.iter_mut().flat_map(|shape| &mut shape.dim);
    let to: Vec<&mut Dimension> = to.collect();
    if to.len() == from.len() {
        to.into_iter().zip(from).for_each(|(to, from)| to.denotation.clone_from(&from.denotation));
    }
}

fn by_name(tensors: &[TensorProto]) -> HashMap<&str, &TensorProto> {
    tensors.iter().map(|tensor| (tensor.name(), tensor)).collect()
}

/// Returns the names that mean the same in both graphs. A pass may give the name of a value to
/// another one, so a name alone does not decide.
fn same_values(from: &GraphProto, to: &GraphProto, files: &Files) -> HashSet<String> {
    let names = |values: &[ValueInfoProto]| -> HashSet<String> {
        values.iter().map(|value| value.name().to_owned()).collect()
    };
    let mut same: HashSet<String> = &names(&from.input) & &names(&to.input);
    let before = by_name(&from.initializer);
    for tensor in &to.initializer {
        if before.get(tensor.name()).is_some_and(|before| is_equal(before, tensor, files)) {
            same.insert(tensor.name().to_owned());
        }
    }
    let mut made: HashMap<&str, &NodeProto> = HashMap::new();
    for node in &from.node {
        made.extend(node.output.iter().map(|output| (output.as_str(), node)));
    }
    for node in &to.node {
        let before = node.output.first().and_then(|output| made.get(output.as_str()));
        let Some(before) = before.filter(|before| is_same_node(before, node, &same)) else {
            continue;
        };
        let outputs = before.output.iter().zip(&node.output);
        same.extend(
            outputs.filter(|(before, after)| before == after).map(|(_, name)| name.clone()),
        );
    }
    &same | &(&names(&from.output) & &names(&to.output))
}

fn is_equal(one: &TensorProto, other: &TensorProto, files: &Files) -> bool {
    let form = |tensor: &TensorProto| (tensor.data_type(), tensor.dims.clone());
    if form(one) != form(other) {
        return false;
    }
    let [one, other] = [one, other].map(|proto| tensor(proto, files).ok());
    one.is_some() && one == other
}

/// Returns whether a written node computes what a node of the model did.
fn is_same_node(before: &NodeProto, after: &NodeProto, same: &HashSet<String>) -> bool {
    let inputs = |node: &NodeProto| {
        let given = node.input.iter().rposition(|name| !name.is_empty());
        node.input[..given.map_or(0, |last| last + 1)].to_vec()
    };
    let is_same = |name: &String| name.is_empty() || same.contains(name);
    // All attributes are written, and those that were not given have their defaults.
    let is_written = |attribute: &AttributeProto| {
        let plain = |attribute: &AttributeProto| AttributeProto {
            doc_string: None,
            r#type: None,
            ..attribute.clone()
        };
        let named = after.attribute.iter().filter(|other| other.name() == attribute.name());
        named.into_iter().any(|other| plain(other) == plain(attribute))
    };
    before.op_type() == after.op_type()
        && canonical(before.domain()) == canonical(after.domain())
        && inputs(before) == inputs(after)
        && after.input.iter().all(is_same)
        && before.attribute.iter().all(is_written)
}

/// Copies the parameters of quantization, with the initializers that only they name.
fn quantization(from: &GraphProto, same: &HashSet<String>, files: &Files, to: &mut GraphProto) {
    let before = by_name(&from.initializer);
    let mut taken = HashSet::new();
    names_in(to, &mut taken);
    let read = |name: &&str| {
        let proto = before.get(name).filter(|_| !taken.contains(*name))?;
        let (doc_string, metadata_props) = (proto.doc_string.clone(), proto.metadata_props.clone());
        let tensor = tensor(proto, files).ok()?;
        Some(TensorProto { doc_string, metadata_props, ..import::proto(&tensor, name) })
    };
    let mut added: BTreeMap<String, TensorProto> = BTreeMap::new();
    for annotation in &from.quantization_annotation {
        let parameters = annotation.quant_parameter_tensor_names.iter().map(|entry| entry.value());
        let missing = parameters.filter(|name| !same.contains(*name) && !added.contains_key(*name));
        let missing: Vec<&str> = missing.collect();
        let tensors: Option<Vec<TensorProto>> = missing.iter().map(read).collect();
        if let Some(tensors) = tensors.filter(|_| same.contains(annotation.tensor_name())) {
            added.extend(tensors.into_iter().map(|tensor| (tensor.name().to_owned(), tensor)));
            to.quantization_annotation.push(annotation.clone());
        }
    }
    to.initializer.extend(added.into_values());
}

/// Adds the names of all values of a graph and its subgraphs to `names`.
fn names_in(graph: &GraphProto, names: &mut HashSet<String>) {
    names.extend(graph.input.iter().map(|value| value.name().to_owned()));
    names.extend(graph.initializer.iter().map(|tensor| tensor.name().to_owned()));
    for node in &graph.node {
        names.extend(node.output.iter().cloned());
        for attribute in &node.attribute {
            let graphs = attribute.g.as_deref().into_iter().chain(&attribute.graphs);
            graphs.for_each(|graph| names_in(graph, names));
        }
    }
}
