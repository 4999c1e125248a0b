//! Gradients of mutants, in `double`, held against finite differences of the function.

use crate::{
    choices::Choices,
    mutant::mutant,
    oracle::{self, plan},
};
use onnxc::{Optimize, plan::Plan, tensor::Tensor, value::Value};
use onnxc_proto::{
    AttributeProto, Message, ModelProto, NodeProto, OperatorSetIdProto, TypeProto, ValueInfoProto,
    type_proto,
};

const FLOAT: i32 = 1;
const DOUBLE: i32 = 11;
/// The domain of the operator `Gradient`.
const DOMAIN: &str = "ai.onnx.preview.training";
/// The step of the differences.
const STEP: f64 = 1e-5;

/// Runs the target.
pub fn run(bytes: &[u8]) {
    let mut choices = Choices::new(bytes);
    let Some((model, inputs)) = mutant(&mut choices).and_then(derivative) else { return };
    let Some(plan) = plan(&model.encode_to_vec(), Optimize::Speed) else { return };
    // Neither zero, nor near a whole number: functions are rarely smooth there.
    let number = |i: usize| ((i * 7 + 3) % 11) as f64 / 7.0 - 0.81;
    let Some(values) = oracle::inputs_of(&plan, &number) else { return };
    for (i, name) in inputs.iter().enumerate() {
        let Some(at) = plan.inputs.iter().position(|port| port.name == *name) else { continue };
        check(&plan, &values, at, i + 1);
    }
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
