//! Gradients of mutants, in `double`, held against finite differences of the function.

use crate::{
    choices::Choices,
    mutant::mutant,
    oracle::{self, plan},
};
use onnxc::{Optimize, dtype::DType, plan::Plan, tensor::Tensor, value::Value};
use onnxc_proto::{
    AttributeProto, GraphProto, Message, ModelProto, NodeProto, OperatorSetIdProto, TypeProto,
    ValueInfoProto, type_proto,
};
use std::{cell::Cell, collections::HashSet};

const FLOAT: i32 = 1;
const DOUBLE: i32 = 11;
/// The domain of the operator `Gradient`.
const DOMAIN: &str = "ai.onnx.preview.training";
/// The step of the differences.
const STEP: f64 = 1e-5;

/// Returns the model with gradients, and the names of the inputs that they are by.
pub fn model(bytes: &[u8]) -> Option<(ModelProto, Vec<String>)> {
    derivative(mutant(&mut Choices::new(bytes))?)
}

/// Runs the target.
pub fn run(bytes: &[u8]) {
    let Some((model, inputs)) = model(bytes) else { return };
    let Some(plan) = plan(&model.encode_to_vec(), Optimize::Speed) else { return };
    let Some(graph) = &model.graph else { return };
    if rounds(&plan) || has_large_numbers(graph) {
        return;
    }
    // Neither zero, nor near a whole number, nor equal to those of another input: functions are
    // rarely smooth there.
    let count = Cell::new(0);
    let number = |_| (count.replace(count.get() + 1) * 7 % 23) as f64 / 14.0 - 0.81;
    // What ends up where several elements are scattered to is open, so places differ.
    let places = graph.node.iter().filter_map(scattered_to);
    let are_given = places.clone().all(|name| graph.input.iter().any(|input| input.name() == name));
    let integer: &dyn Fn(usize) -> u8 = match places.count() {
        0 => &|_| 1,
        _ if are_given => &|i| u8::try_from(i).unwrap_or(0),
        _ => return,
    };
    let Some(values) = oracle::inputs_of(&plan, &number, integer) else { return };
    for (i, name) in inputs.iter().enumerate().filter(|(_, name)| !is_ratio(graph, name)) {
        let Some(at) = plan.inputs.iter().position(|port| port.name == *name) else { continue };
        check(&plan, &values, at, i + 1);
    }
}

/// Returns whether a constant has a number that the step of the differences hardly changes when it
/// is added.
fn has_large_numbers(graph: &GraphProto) -> bool {
    let mut all = graph.initializer.iter().flat_map(|tensor| &tensor.double_data);
    all.any(|x| x.is_nan() || x.abs() > 1e4)
}

/// Returns whether a plan rounds numbers to a type narrower than `double`. Its function is a
/// staircase, whose differences over small steps are not those of the function before rounding.
fn rounds(plan: &Plan) -> bool {
    let mut found = false;
    plan.calls(&mut |call| {
        let mut written = call.writes().map(|operand| plan.buffers[operand.buffer].dtype);
        found |= written.any(|dtype| dtype.is_float() && dtype != DType::F64);
    });
    found
}

/// Returns the name of the places to which a node moves elements, unless it joins those that meet.
fn scattered_to(node: &NodeProto) -> Option<&str> {
    let joins = |attribute: &AttributeProto| {
        attribute.name() == "reduction" && attribute.s.as_deref() != Some(b"none")
    };
    let scatters = node.op_type().starts_with("Scatter") || node.op_type() == "MaxUnpool";
    let is_open = scatters && !node.attribute.iter().any(joins);
    node.input.get(1).filter(|_| is_open).map(|name| &**name)
}

/// Returns whether the ratio of a `Dropout`, which counts as a constant, depends on an input.
fn is_ratio(graph: &GraphProto, input: &str) -> bool {
    let mut dependent = HashSet::from([input]);
    graph.node.iter().any(|node| {
        let depends = |name: &String| dependent.contains(&**name);
        let is_ratio = node.op_type().contains("Dropout") && node.input.iter().skip(1).any(depends);
        if node.input.iter().any(depends) {
            dependent.extend(node.output.iter().map(|name| &**name));
        }
        is_ratio
    })
}

/// Compares the gradient by input `at`, which is the output `gradient`, with differences.
fn check(plan: &Plan, values: &[Value], at: usize, gradient: usize) {
    let Some(x) = values[at].tensor() else { return };
    let Some(given) = oracle::run(plan, values).and_then(|all| numbers(all.get(gradient)?)) else {
        return;
    };
    let direction: Vec<f64> = (0..given.len()).map(|i| 0.4 + (i * 5 % 7) as f64 / 9.0).collect();
    let loss = |step: f64| -> Option<f64> {
        let moved = x.floats()?.into_iter().zip(&direction).map(|(x, d)| x + step * d);
        let moved = Tensor::from_wide(x.dtype, &moved.collect::<Vec<f64>>());
        let mut values = values.to_vec();
        values[at] = Tensor { shape: x.shape.clone(), ..moved }.into();
        numbers(oracle::run(plan, &values)?.first()?)?.first().copied()
    };
    let losses = [-2.0, -1.0, 0.0, 1.0, 2.0].map(|step| loss(step * STEP));
    let [Some(a), Some(b), Some(c), Some(d), Some(e)] = losses else { return };
    let quotients = [b - a, c - b, d - c, e - d].map(|difference| difference / STEP);
    let expected = (d - b) / (2.0 * STEP);
    // The function is smooth where all quotients agree, and large numbers have large errors.
    let is_smooth = quotients
        .iter()
        .all(|quotient| (quotient - expected).abs() < 1e-2 * (1.0 + expected.abs()));
    if !is_smooth || !(c.abs() < 1e4 && expected.abs() < 1e4) {
        return;
    }
    let found: f64 = given.iter().zip(&direction).map(|(g, d)| g * d).sum();
    let error = (found - expected).abs();
    assert!(
        error < 5e-2 * (1.0 + expected.abs()) || !found.is_finite(),
        "the gradient by input {at} is {found}, but {expected} is expected"
    );
}

fn numbers(value: &Value) -> Option<Vec<f64>> {
    value.tensor()?.floats()
}

/// Returns the model with `double` numbers, whose outputs are a loss and its gradient by each input
/// of this type, and the names of these inputs.
fn derivative(mut model: ModelProto) -> Option<(ModelProto, Vec<String>)> {
    let graph = model.graph.as_mut()?;
    let mut inputs = Vec::new();
    for input in &mut graph.input {
        let TypeProto { value: Some(type_proto::Value::TensorType(ty)), .. } =
            input.r#type.as_mut()?
        else {
            return None;
        };
        if ty.elem_type == Some(FLOAT) {
            ty.elem_type = Some(DOUBLE);
            inputs.push(input.name.clone()?);
        }
    }
    for tensor in &mut graph.initializer {
        if tensor.data_type == Some(FLOAT) && tensor.raw_data.is_none() {
            tensor.data_type = Some(DOUBLE);
            tensor.double_data = tensor.float_data.drain(..).map(f64::from).collect();
        }
    }
    let y = graph.output.first()?.name.clone()?;
    let node = |op: &str, inputs: &[&str], output: &str| NodeProto {
        op_type: Some(op.into()),
        input: inputs.iter().map(|&name| name.into()).collect(),
        output: vec![output.into()],
        ..NodeProto::default()
    };
    let attribute = |name: &str, code: i32| AttributeProto {
        name: Some(name.into()),
        r#type: Some(code),
        ..AttributeProto::default()
    };
    // The weight of each element differs.
    graph.node.push(node("Sin", &[&y], "g_sine"));
    graph.node.push(node("Mul", &[&y, "g_sine"], "g_product"));
    let mut sum = node("ReduceSum", &["g_product"], "g_loss");
    sum.attribute.push(AttributeProto { i: Some(0), ..attribute("keepdims", 2) });
    let names: Vec<&str> = inputs.iter().map(|name| &**name).collect();
    let mut gradient = node("Gradient", &names, "");
    gradient.domain = Some(DOMAIN.into());
    gradient.output = (0..names.len()).map(|i| format!("g_{i}")).collect();
    let texts = names.iter().map(|name| name.as_bytes().to_vec().into()).collect();
    gradient.attribute.push(AttributeProto { strings: texts, ..attribute("xs", 8) });
    gradient.attribute.push(AttributeProto { s: Some("g_loss".into()), ..attribute("y", 3) });
    let outputs = [&["g_loss".to_owned()][..], &gradient.output].concat();
    graph.output = outputs
        .into_iter()
        .map(|name| ValueInfoProto { name: Some(name), ..ValueInfoProto::default() })
        .collect();
    graph.node.extend([sum, gradient]);
    let domain = OperatorSetIdProto { domain: Some(DOMAIN.into()), version: Some(1) };
    model.opset_import.push(domain);
    Some((model, inputs))
}
