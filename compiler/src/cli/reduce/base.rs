//! Models from which a search starts.

use super::part::{Types, Whole, types_in};
use crate::cli::compare::values::Values;
use onnxc::{Compiler, Options, export, import};
use onnxc_proto::{Bytes, Message, ModelProto, ValueInfoProto};
use std::collections::BTreeSet;

/// Returns the model after constant folding, if it can be written in ONNX's operators: it has the
/// fewest nodes, and the types of all values.
pub fn folded(bytes: &Bytes, settings: &Options) -> Option<ModelProto> {
    export::model(&Compiler::new(settings).optimize(bytes.clone()).ok()?).ok()
}

/// Returns the model as it was imported, with the types of all values.
pub fn imported(bytes: &Bytes, settings: &Options) -> Option<ModelProto> {
    let mut settings = settings.clone();
    settings.settings.keeps_operators = true;
    export::model(&Compiler::new(&settings).import(bytes.clone()).ok()?.graph).ok()
}

/// Returns the model of the file, with the types of those values that precede the first node with
/// an error.
pub fn raw(bytes: &Bytes, settings: &Options) -> Option<Whole> {
    let mut model = import::decode(bytes.clone()).ok()?;
    let mut gathered = model.clone();
    // A model whose external data cannot be read keeps its references.
    if import::gather(&mut gathered, settings.settings.directory.clone()).is_ok() {
        model = gathered;
    }
    let untyped = Whole::new(model.clone(), Types::new(), Values::new());
    let types = inferred_types(&untyped, settings);
    Some(Whole::new(model, types, Values::new()))
}

/// Returns the types in the longest prefix of the nodes that can be imported.
fn inferred_types(whole: &Whole, settings: &Options) -> Types {
    let types = |end: usize| {
        let nodes: Vec<usize> = (0..end).collect();
        let part = whole.part(&nodes, &[])?;
        let settings = restricted(settings, &part.model);
        let model = imported(&part.model.encode_to_vec().into(), &settings)?;
        model.graph.as_ref().map(types_in)
    };
    let (mut good, mut bad) = (0, whole.len() + 1);
    let mut found = Types::new();
    while good + 1 < bad {
        let middle = good.midpoint(bad);
        match types(middle) {
            Some(types) => (good, found) = (middle, types),
            None => bad = middle,
        }
    }
    found
}

/// Returns the options without those that name something that a part does not have.
pub fn restricted(settings: &Options, part: &ModelProto) -> Options {
    let mut settings = settings.clone();
    let import = &mut settings.settings;
    import.states.clear();
    let Some(graph) = &part.graph else { return settings };
    let inputs: BTreeSet<&str> = graph.input.iter().map(ValueInfoProto::name).collect();
    let named: BTreeSet<String> = graph.input.iter().flat_map(dimension_names).collect();
    import.dims.retain(|name, _| named.contains(name));
    import.consts.retain(|name, _| inputs.contains(name.as_str()));
    let made: BTreeSet<&String> = graph.node.iter().flat_map(|node| &node.output).collect();
    import.types.retain(|name, _| made.contains(name));
    import.shapes.retain(|name, _| inputs.contains(name.as_str()) || made.contains(name));
    let uses = |(domain, name): &(String, String)| {
        graph.node.iter().any(|node| node.domain() == domain && node.op_type() == name)
    };
    import.customs.retain(|operator, _| uses(operator));
    settings
}

/// Returns the names of an input's dimensions: their own, or the ones that onnxc gives them.
fn dimension_names(input: &ValueInfoProto) -> Vec<String> {
    use onnxc_proto::{tensor_shape_proto::dimension::Value, type_proto};
    let ty = input.r#type.as_ref().and_then(|ty| ty.value.as_ref());
    let Some(type_proto::Value::TensorType(ty)) = ty else { return Vec::new() };
    let dims = ty.shape.iter().flat_map(|shape| &shape.dim).enumerate();
    let name = |(axis, dim): (usize, &onnxc_proto::tensor_shape_proto::Dimension)| match &dim.value
    {
        Some(Value::DimParam(name)) if !name.is_empty() => name.clone(),
        _ => format!("{}_{axis}", input.name()),
    };
    dims.map(name).collect()
}
