//! Mutants of valid models: changes of attributes, dimensions, types, wiring and constants.

use crate::{choices::Choices, oracle, seeds};
use onnxc_proto::{
    AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto, TypeProto,
    tensor_shape_proto::{Dimension, dimension},
    type_proto,
};

/// The element types of ONNX have the numbers up to this one.
const LAST_TYPE: usize = 27;

/// Runs the target.
pub fn run(bytes: &[u8]) {
    if let Some(model) = mutant(&mut Choices::new(bytes)) {
        oracle::compare(&model);
    }
}

/// Makes a mutant: a seed, and changes as long as there are choices. Some seeds are not models of
/// ONNX's text, such as those with types that it cannot write.
pub fn mutant(choices: &mut Choices<'_>) -> Option<ModelProto> {
    let mut model = seeds::choose(choices)?;
    while choices.has_more() {
        let Some(graph) = &mut model.graph else { break };
        match choices.byte() % 8 {
            0 | 1 => change_attribute(graph, choices),
            2 => change_dimension(graph, choices),
            3 => change_type(graph, choices),
            4 => rewire(graph, choices),
            5 => make_constant(graph, choices),
            6 => add_node(graph, choices),
            _ => change_constant(graph, choices),
        }
    }
    Some(model)
}

fn change_attribute(graph: &mut GraphProto, choices: &mut Choices<'_>) {
    let Some(node) = choices.position(&graph.node, |node| !node.attribute.is_empty()) else {
        return;
    };
    let attributes = &mut graph.node[node].attribute;
    let i = choices.below(attributes.len());
    let AttributeProto { f, i: int, ints, floats, .. } = &mut attributes[i];
    match (f, int) {
        (Some(f), _) => *f = choices.float(),
        (_, Some(int)) => *int = choices.int(),
        _ if !ints.is_empty() => {
            let at = choices.below(ints.len());
            match choices.byte() % 4 {
                0 => drop(ints.remove(at)),
                1 => ints.push(choices.int()),
                _ => ints[at] = choices.int(),
            }
        }
        _ if !floats.is_empty() => {
            let at = choices.below(floats.len());
            floats[at] = choices.float();
        }
        _ => drop(attributes.remove(i)),
    }
}

/// Returns the tensor type of an input, chosen at random.
fn input_type<'g>(
    graph: &'g mut GraphProto,
    choices: &mut Choices<'_>,
) -> Option<&'g mut type_proto::Tensor> {
    let i = choices.below(graph.input.len());
    match graph.input.get_mut(i)?.r#type.as_mut()? {
        TypeProto { value: Some(type_proto::Value::TensorType(tensor)), .. } => Some(tensor),
        _ => None,
    }
}

fn change_dimension(graph: &mut GraphProto, choices: &mut Choices<'_>) {
    let Some(shape) = input_type(graph, choices).and_then(|ty| ty.shape.as_mut()) else { return };
    let dimension = |value| Dimension { value: Some(value), denotation: None };
    let small = |choices: &mut Choices<'_>| {
        dimension(dimension::Value::DimValue(i64::from(choices.byte() % 5)))
    };
    let size = match choices.byte() % 4 {
        0 => dimension(dimension::Value::DimParam("n".into())),
        1 => dimension(dimension::Value::DimValue(choices.int())),
        _ => small(choices),
    };
    let at = choices.below(shape.dim.len());
    match choices.byte() {
        // All of them, which leads to other numbers of axes at once.
        252.. => shape.dim = (0..choices.byte() % 6).map(|_| small(choices)).collect(),
        byte if byte % 4 == 0 => shape.dim.insert(at, size),
        byte if byte % 4 == 1 && !shape.dim.is_empty() => drop(shape.dim.remove(at)),
        _ => {
            if let Some(dim) = shape.dim.get_mut(at) {
                *dim = size;
            }
        }
    }
}

fn change_type(graph: &mut GraphProto, choices: &mut Choices<'_>) {
    let code = i32::try_from(choices.below(LAST_TYPE)).unwrap_or(1);
    if let Some(ty) = input_type(graph, choices) {
        ty.elem_type = Some(code);
    }
}

/// Returns the name of a value of the graph, chosen at random.
fn value(graph: &GraphProto, choices: &mut Choices<'_>) -> Option<String> {
    let inputs = graph.input.iter().filter_map(|input| input.name.clone());
    let outputs = graph.node.iter().flat_map(|node| node.output.clone());
    let names: Vec<String> = inputs.chain(outputs).collect();
    choices.of(&names).cloned()
}

fn rewire(graph: &mut GraphProto, choices: &mut Choices<'_>) {
    let name = match choices.byte() % 8 {
        0 => Some(String::new()),
        _ => value(graph, choices),
    };
    let i = choices.below(graph.node.len());
    let Some(node) = graph.node.get_mut(i) else { return };
    let at = choices.below(node.input.len());
    if let (Some(input), Some(name)) = (node.input.get_mut(at), name) {
        *input = name;
    }
}

/// Makes an input a constant of its type and sizes.
fn make_constant(graph: &mut GraphProto, choices: &mut Choices<'_>) {
    /// The most elements of a constant.
    const MOST: i64 = 4096;
    let i = choices.below(graph.input.len());
    let Some(ty) = input_type(graph, choices).cloned() else { return };
    let dims: Vec<i64> = ty.shape.iter().flat_map(|shape| &shape.dim).map(known).collect();
    let count = dims.iter().try_fold(1, |n: i64, &size| n.checked_mul(size));
    let Some(count) = count.filter(|count| (0..=MOST).contains(count)) else { return };
    if i >= graph.input.len() || ty.elem_type != Some(1) {
        return;
    }
    let name = graph.input.remove(i).name;
    let float_data = (0..count).map(|_| choices.float()).collect();
    let data_type = ty.elem_type;
    graph.initializer.push(TensorProto { name, dims, data_type, float_data, ..Default::default() });
}

fn known(dim: &Dimension) -> i64 {
    match dim.value {
        Some(dimension::Value::DimValue(size)) => size,
        _ => 2,
    }
}

/// Adds a node that reads a value and is an output.
fn add_node(graph: &mut GraphProto, choices: &mut Choices<'_>) {
    const UNARY: [&str; 10] = [
        "Relu",
        "Neg",
        "Exp",
        "Shape",
        "Transpose",
        "Flatten",
        "Softmax",
        "Identity",
        "Size",
        "Not",
    ];
    const BINARY: [&str; 10] =
        ["Add", "Mul", "MatMul", "Div", "Concat", "Gather", "Expand", "Reshape", "Tile", "Pad"];
    let name = format!("m{}", graph.node.len());
    let (Some(a), Some(b)) = (value(graph, choices), value(graph, choices)) else { return };
    let (op, input) = match choices.byte() % 2 {
        0 => (UNARY[choices.below(UNARY.len())], vec![a]),
        _ => (BINARY[choices.below(BINARY.len())], vec![a, b]),
    };
    let axis = (op == "Concat").then(|| AttributeProto {
        name: Some("axis".into()),
        r#type: Some(2),
        i: Some(choices.int()),
        ..AttributeProto::default()
    });
    graph.node.push(NodeProto {
        op_type: Some(op.into()),
        input,
        output: vec![name.clone()],
        attribute: axis.into_iter().collect(),
        ..NodeProto::default()
    });
    let mut output = graph.output.first().cloned().unwrap_or_default();
    (output.name, output.r#type) = (Some(name), None);
    graph.output.push(output);
}

fn change_constant(graph: &mut GraphProto, choices: &mut Choices<'_>) {
    let i = choices.below(graph.initializer.len());
    let Some(tensor) = graph.initializer.get_mut(i) else { return };
    let at = choices.below(tensor.int64_data.len().max(tensor.float_data.len()));
    if let Some(int) = tensor.int64_data.get_mut(at) {
        *int = choices.int();
    } else if let Some(float) = tensor.float_data.get_mut(at) {
        *float = choices.float();
    } else if let Some(dim) = tensor.dims.first_mut() {
        *dim = choices.int();
    }
}
