//! Decides whether a size of 0 that an input declares means that the size is unknown.
//!
//! ONNX allows empty tensors, but some exporters write 0 for a size that they do not know. A 0 is
//! read as the size 0, as in a cache that is empty at the start, unless the model makes no sense
//! then: it has an error, or each of its outputs is empty. A free size may be 0 when the model
//! runs, so a model that means 0 works too.

use super::{
    context::{Imported, place},
    dimension_names::GivenNames,
    settings::{Settings, Size, Zeros},
};
use crate::{
    diag::{Code, Diagnostic, Diagnostics, quoted},
    ir::{Graph, Node, ValueId},
    ty::TensorType,
};
use onnxc_proto::{
    GraphProto, ValueInfoProto, tensor_shape_proto::dimension::Value as DimValue, type_proto::Value,
};

/// Imports the graph `proto` by `import`, which gets the meaning of zeros.
pub(super) fn import(
    proto: &GraphProto,
    settings: &Settings,
    import: impl Fn(Zeros) -> Result<Imported, Diagnostics>,
) -> Result<Imported, Diagnostics> {
    let literal = import(Zeros::Empty);
    let names = GivenNames::of(proto);
    let zeros: Vec<_> = proto.input.iter().flat_map(|input| axes(&names, input)).collect();
    let reason = match &literal {
        _ if zeros.is_empty() => return literal.map(|imported| warn(proto, settings, imported)),
        Ok(imported) if !is_empty(&imported.graph) => return literal,
        Ok(_) => "every output of the model would be empty",
        Err(_) => "the model does not compile with an empty input",
    };
    let Ok(mut imported) = import(Zeros::Unknown) else { return literal };
    for (input, axis, name) in zeros {
        let message = format!("axis {axis} has the size 0, which is read as unknown");
        let warning = Diagnostic::warning(Code::UnknownSize, message)
            .note(reason)
            .help(format!("set the size with `--dim {name}=N`, which may be 0"))
            .within(format!("input {}", quoted(input.name())))
            .within(place(proto));
        imported.warnings.push(warning);
    }
    Ok(imported)
}

/// Adds a warning if the model computes nothing, which sizes of 0 in the settings or a node cause.
fn warn(proto: &GraphProto, settings: &Settings, mut imported: Imported) -> Imported {
    imported.warnings.extend(small_images(&imported.graph).map(|found| found.within(place(proto))));
    if !is_empty(&imported.graph) {
        return imported;
    }
    let warning = Diagnostic::warning(Code::EmptyOutputs, "every output of the model is empty");
    let zeros = settings.dims.iter().filter(|(_, size)| **size == Size::Fixed(0));
    let zeros: Vec<_> = zeros.map(|(name, _)| quoted(name)).collect();
    let warning = match (zeros.is_empty(), emptying_node(&imported.graph)) {
        (false, _) => warning
            .note(format!("the dimension of size 0: {}", zeros.join(", ")))
            .help("give the size that the model runs with, or keep it free"),
        (true, Some(_)) if imported.warnings.iter().any(|w| w.code == Code::EmptyOutputs) => {
            return imported;
        }
        (true, Some(node)) => warning
            .note("the inputs of this node have elements, and its output has none")
            .help("correct its attributes, or the sizes of the model's inputs")
            .within(node.location()),
        (true, None) => return imported,
    };
    imported.warnings.push(warning.within(place(proto)));
    imported
}

/// Returns a warning for each node that slides a window over images that are too small for it.
fn small_images(graph: &Graph) -> impl Iterator<Item = Diagnostic> {
    const SLIDING: &[&str] =
        &["AveragePool", "Conv", "ConvInteger", "DeformConv", "LpPool", "MaxPool", "QLinearConv"];
    let nodes = graph.walk(graph.body).map(|(_, node)| node);
    let nodes = nodes.filter(|node| SLIDING.contains(&node.op.name()) && is_emptying(graph, node));
    nodes.map(|node| {
        let message = "the window is larger than the padded image, so the output is empty";
        let image = node.input(0).map(|id| format!("the input: {}", graph[id].ty));
        let warning = Diagnostic::warning(Code::EmptyOutputs, message);
        let warning = image.into_iter().fold(warning, Diagnostic::note);
        warning
            .help("correct the attributes of the node, or the sizes of the model's inputs")
            .within(node.location())
    })
}

/// Returns the first node that makes an empty output of inputs that have elements.
fn emptying_node(graph: &Graph) -> Option<&Node> {
    let mut nodes = graph[graph.body].nodes.iter().map(|&id| &graph[id]);
    nodes.find(|node| is_emptying(graph, node))
}

/// Returns whether a node makes an empty output of inputs that have elements.
fn is_emptying(graph: &Graph, node: &Node) -> bool {
    let is_empty = |id: &ValueId| graph[*id].ty.as_tensor().is_some_and(is_empty_tensor);
    let mut inputs = node.inputs.iter().flatten();
    let has_elements = !node.inputs.is_empty() && !inputs.any(is_empty);
    has_elements && node.outputs.iter().flatten().any(is_empty)
}

/// Returns whether all outputs are empty tensors.
fn is_empty(graph: &Graph) -> bool {
    let outputs = &graph[graph.body].outputs;
    let mut types = outputs.iter().map(|&id| graph[id].ty.as_tensor());
    !outputs.is_empty() && types.all(|ty| ty.is_some_and(is_empty_tensor))
}

fn is_empty_tensor(ty: &TensorType) -> bool {
    ty.shape.iter().any(|dim| dim.known() == Some(0))
}

/// Returns the axes of an input that have the size 0, and the names of their dimensions.
fn axes<'i>(
    names: &GivenNames,
    input: &'i ValueInfoProto,
) -> Vec<(&'i ValueInfoProto, usize, String)> {
    let ty = input.r#type.as_ref().and_then(|ty| ty.value.as_ref());
    let Some(Value::TensorType(ty)) = ty else { return Vec::new() };
    let dims = ty.shape.iter().flat_map(|shape| &shape.dim).enumerate();
    dims.filter(|(_, dim)| dim.value == Some(DimValue::DimValue(0)))
        .map(|(axis, dim)| (input, axis, names.label(dim, input.name(), axis)))
        .collect()
}
