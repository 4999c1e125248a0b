//! Reads the sizes and shapes that a model leaves free from given inputs.

use super::{
    dimension_names::GivenNames,
    settings::{Axis, Size},
    types,
};
use crate::value::Value;
use onnxc_proto::{GraphProto, type_proto};
use std::collections::BTreeMap;

/// The names of the model's free dimensions, and their sizes in `inputs`. Inputs in `shapes` have
/// other dimensions.
pub fn free_sizes(
    graph: &GraphProto,
    inputs: &BTreeMap<String, Value>,
    shapes: &BTreeMap<String, Vec<Axis>>,
) -> Vec<(String, Size)> {
    let (names, mut sizes) = (GivenNames::of(graph), Vec::new());
    for info in graph.input.iter().filter(|info| !shapes.contains_key(info.name())) {
        let ty = info.r#type.as_ref().and_then(|ty| ty.value.as_ref());
        let Some(type_proto::Value::TensorType(ty)) = ty else { continue };
        let tensor = inputs.get(info.name()).and_then(Value::tensor);
        let (Some(shape), Some(tensor)) = (&ty.shape, tensor) else { continue };
        for (axis, (dim, &size)) in shape.dim.iter().zip(&tensor.shape).enumerate() {
            // A 0 may mean that the size is unknown.
            let is_free = match types::number(dim) {
                None => true,
                Some(declared) => declared == 0 && size != 0,
            };
            if is_free {
                sizes.push((names.label(dim, info.name(), axis), Size::Fixed(size as i64)));
            }
        }
    }
    sizes
}

/// The names of the inputs whose rank the model does not declare, and their shapes in `inputs`.
pub fn free_shapes(
    graph: &GraphProto,
    inputs: &BTreeMap<String, Value>,
) -> Vec<(String, Vec<Axis>)> {
    let mut shapes = Vec::new();
    for info in &graph.input {
        let ty = info.r#type.as_ref().and_then(|ty| ty.value.as_ref());
        let Some(type_proto::Value::TensorType(ty)) = ty else { continue };
        let tensor = inputs.get(info.name()).and_then(Value::tensor);
        let (None, Some(tensor)) = (&ty.shape, tensor) else { continue };
        let axes = tensor.shape.iter().map(|&size| Axis::Fixed(size as i64));
        shapes.push((info.name().to_owned(), axes.collect()));
    }
    shapes
}
