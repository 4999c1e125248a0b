//! Compares steps of prepared training models with the formulas of losses and optimizers.

use crate::programs::{onnxc, root, scratch};
use onnxc::{
    Compiler, Options, interpreter,
    plan::Plan,
    tensor::Tensor,
    train::{Initial, Loss, Method, Optimizer, Prepare, Setting},
    value::Value,
};
use onnxc_proto::{Message, ModelProto, ValueInfoProto};
use std::{collections::BTreeMap, fs};

/// Returns a linear layer with three outputs and a bias. `opset` is its operator set, and `end` the
/// nodes after the `MatMul`.
fn line(opset: u32, end: &str) -> String {
    let set = format!("<ir_version: 8, opset_import: [\"\": {opset}]>");
    format!(
        "{set} line (double[batch, 2] x) => (double[batch, 3] y)
        <double[2, 3] w = {{0.3, -0.2, 0.5, 0.1, 0.4, -0.6}}, double[3] b = {{0.1, -0.3, 0.2}}>
        {{ p = MatMul(x, w)  {end} }}"
    )
}

const PLAIN: &str = "y = Add(p, b)";

/// Tensors by name.
type Values = BTreeMap<String, Tensor>;

/// The step of a training model, compiled as a model whose variables are inputs.
struct Step {
    plan: Plan,
    inputs: Vec<String>,
    outputs: Vec<String>,
    bindings: Vec<(String, String)>,
    state: Values,
}

impl Step {
    fn of(model: &ModelProto) -> Step {
        let mut model = model.clone();
        let info = model.training_info.remove(0);
        let algorithm = info.algorithm.expect("the model has a step");
        let mut graph = model.graph.take().expect("the model has a graph");
        graph.input.extend(algorithm.input);
        graph.initializer.extend(algorithm.initializer);
        graph.node.extend(algorithm.node);
        graph.output = algorithm.output;
        let bindings: Vec<(String, String)> =
            info.update_binding.iter().map(|b| (b.key().into(), b.value().into())).collect();
        let is_state = |name: &str| bindings.iter().any(|(key, _)| key == name);
        let outputs = graph.output.iter().map(|output| (output.name(), output.r#type.clone()));
        let types: BTreeMap<&str, _> = outputs.collect();
        let typed = |(name, value): &(String, String)| ValueInfoProto {
            name: Some(name.clone()),
            r#type: types[value.as_str()].clone(),
            ..ValueInfoProto::default()
        };
        graph.input.extend(bindings.iter().map(typed).collect::<Vec<_>>());
        let (state, rest) = graph.initializer.drain(..).partition(|tensor| is_state(tensor.name()));
        graph.initializer = rest;
        let state: Vec<onnxc_proto::TensorProto> = state;
        let state = state.iter().map(|proto| {
            (proto.name().to_owned(), onnxc::import::alone(proto).expect("the tensor is valid"))
        });
        let state = state.collect();
        let names = |list: &[ValueInfoProto]| list.iter().map(|v| v.name().to_owned()).collect();
        let (inputs, outputs) = (names(&graph.input), names(&graph.output));
        model.graph = Some(graph);
        let bytes = model.encode_to_vec().into();
        let plan = onnxc::Compiler::new(&Options::default()).plan(bytes);
        let plan = plan.unwrap_or_else(|diagnostics| panic!("{diagnostics}"));
        Step { plan, inputs, outputs, bindings, state }
    }

    /// Runs a step, updates the variables, and returns the loss.
    fn take(&mut self, given: &Values) -> f64 {
        let value = |name: &String| {
            let tensor = given.get(name).or_else(|| self.state.get(name));
            Value::Tensor(tensor.unwrap_or_else(|| panic!("no {name}")).clone())
        };
        let inputs: Vec<Value> = self.inputs.iter().map(value).collect();
        let outputs = interpreter::run(&self.plan, &inputs).expect("the inputs fit the model");
        let outputs =
            outputs.into_iter().map(|value| value.into_tensor().expect("the value is a tensor"));
        let outputs: Values = self.outputs.iter().cloned().zip(outputs).collect();
        for (variable, value) in &self.bindings {
            self.state.insert(variable.clone(), outputs[value].clone());
        }
        outputs["loss"].floats().expect("the loss is a number")[0]
    }

    fn floats(&self, name: &str) -> Vec<f64> {
        self.state[name].floats().expect("the tensor is numeric")
    }
}

fn doubles(shape: Vec<usize>, values: &[f64]) -> Tensor {
    Tensor::from_numbers(onnxc::dtype::DType::F64, shape, values)
        .expect("`double` is a numeric type")
}

const X: [f64; 8] = [0.5, -1.0, 2.0, 0.3, -0.7, 1.1, 0.9, 0.4];
const CLASSES: [i64; 4] = [2, 0, 1, 1];
const TARGETS: [f64; 12] = [1.0, 0.0, 0.0, 2.5, 0.0, 1.0, 0.0, 1.0, -3.0, 1.0, 0.0, 1.0];

/// Returns the inputs of a step for a loss.
fn given(loss: Loss) -> Values {
    let label = match loss {
        Loss::CrossEntropy | Loss::Nll => Tensor::from_ints(&CLASSES),
        _ => doubles(vec![4, 3], &TARGETS),
    };
    BTreeMap::from([("x".into(), doubles(vec![4, 2], &X)), ("label".into(), label)])
}

/// Computes the loss of rows of three numbers, and its gradient.
fn reference(loss: Loss, y: &[f64]) -> (f64, Vec<f64>) {
    let n = y.len() as f64;
    let each = |f: &dyn Fn(f64, f64) -> (f64, f64)| {
        let both: Vec<_> = y.iter().zip(&TARGETS).map(|(&y, &t)| f(y, t)).collect();
        let total: f64 = both.iter().map(|(loss, _)| loss).sum();
        (total / n, both.iter().map(|(_, gradient)| gradient / n).collect())
    };
    match loss {
        Loss::Mse => each(&|y, t| ((y - t).powi(2), 2.0 * (y - t))),
        Loss::Mae => each(&|y, t| ((y - t).abs(), (y - t).signum())),
        Loss::Huber => each(&|y, t| {
            let d = y - t;
            if d.abs() < 1.0 { (d * d / 2.0, d) } else { (d.abs() - 0.5, d.signum()) }
        }),
        Loss::Bce => each(&|y, t| (y.exp().ln_1p() - y * t, 1.0 / (1.0 + (-y).exp()) - t)),
        Loss::CrossEntropy | Loss::Nll => {
            let (mut total, mut gradients) = (0.0, Vec::new());
            for (row, &class) in y.chunks(3).zip(&CLASSES) {
                let sum: f64 = row.iter().map(|y| y.exp()).sum();
                // The inputs of `nll` are logarithms, whose exponentials sum to 1.
                total += (sum.ln() - row[class as usize]) / 4.0;
                let hot = |i: usize| f64::from(u8::from(i == class as usize));
                gradients.extend((0..3).map(|i| (row[i].exp() / sum - hot(i)) / 4.0));
            }
            (total, gradients)
        }
    }
}

/// A reference for the optimizers: a variable and its states, by the formulas of PyTorch's
/// documentation.
struct Reference {
    x: Vec<f64>,
    v: Vec<f64>,
    h: Vec<f64>,
}

const RATE: f64 = 0.05;
const DECAY: f64 = 0.1;

impl Reference {
    fn step(&mut self, method: Method, t: i32, gradient: &[f64]) {
        let rounded = |decimal: f32| f64::from(decimal);
        for (i, &g) in gradient.iter().enumerate() {
            let (x, v, h) = (&mut self.x[i], &mut self.v[i], &mut self.h[i]);
            let decay = match method {
                Method::AdamW => 0.0,
                Method::Sgd | Method::RmsProp => DECAY,
                _ => rounded(DECAY as f32),
            };
            let g = g + decay * *x;
            match method {
                Method::Sgd => *x -= RATE * g,
                Method::Momentum => {
                    *v = rounded(0.9) * *v + g;
                    *x -= RATE * *v;
                }
                Method::Nesterov => {
                    *v = rounded(0.9) * *v + g;
                    *x -= RATE * (g + rounded(0.9) * *v);
                }
                Method::Adam | Method::AdamW => {
                    if method == Method::AdamW {
                        *x *= 1.0 - RATE * DECAY;
                    }
                    let (alpha, beta) = (rounded(0.9), rounded(0.999));
                    *v = alpha * *v + (1.0 - alpha) * g;
                    *h = beta * *h + (1.0 - beta) * g * g;
                    let rate = RATE * (1.0 - beta.powi(t)).sqrt() / (1.0 - alpha.powi(t));
                    *x -= rate * *v / (h.sqrt() + rounded(1e-8));
                }
                Method::Adagrad => {
                    *h += g * g;
                    *x -= RATE / (1.0 + f64::from(t - 1) * rounded(0.5)) * g
                        / (h.sqrt() + rounded(1e-10));
                }
                Method::RmsProp => {
                    *h = 0.99 * *h + (1.0 - 0.99) * g * g;
                    *v = 0.8 * *v + g / (h.sqrt() + 1e-8);
                    *x -= RATE * *v;
                }
            }
        }
    }
}

fn optimizer(method: Method) -> Optimizer {
    let mut settings = vec![(Setting::LearningRate, RATE), (Setting::WeightDecay, DECAY)];
    match method {
        Method::RmsProp => settings.push((Setting::Momentum, 0.8)),
        Method::Adagrad => settings.push((Setting::RateDecay, 0.5)),
        _ => {}
    }
    let set = |to: Optimizer, (setting, value)| {
        to.with(setting, value).expect("the optimizer has this setting")
    };
    settings.into_iter().fold(method.into(), set)
}

fn prepare_model(text: &str, prepare: &Prepare) -> ModelProto {
    match prepare.bytes(text.to_owned().into()) {
        Ok(model) => model,
        Err(diagnostics) => panic!("{diagnostics}\n{text}"),
    }
}

fn assert_near(a: &[f64], b: &[f64], what: &str) {
    let is_near = |(a, b): (&f64, &f64)| (a - b).abs() <= 1e-9 * b.abs().max(1.0);
    assert!(a.len() == b.len() && a.iter().zip(b).all(is_near), "{what}: {a:?} is not {b:?}");
}

/// Compares three steps of the compiled model with the formulas.
fn check(text: &str, loss: Loss, method: Method) {
    let what = format!("{loss:?} {method:?} {text}");
    let model = prepare_model(text, &Prepare::new(loss, optimizer(method)));
    let mut step = Step::of(&model);
    let zeros = |name: &str| vec![0.0; step.floats(name).len()];
    let start = |name: &str| Reference { x: step.floats(name), v: zeros(name), h: zeros(name) };
    let (mut w, mut b) = (start("w"), start("b"));
    for t in 1..=3 {
        let row = |i: usize, c: usize| X[2 * i] * w.x[c] + X[2 * i + 1] * w.x[3 + c] + b.x[c];
        let mut y: Vec<f64> = (0..12).map(|at| row(at / 3, at % 3)).collect();
        if loss == Loss::Nll {
            for row in y.chunks_mut(3) {
                let sum: f64 = row.iter().map(|y| y.exp()).sum();
                row.iter_mut().for_each(|y| *y -= sum.ln());
            }
        }
        let (total, gradients) = reference(loss, &y);
        assert_near(&[step.take(&given(loss))], &[total], &what);
        let column = |c: usize, k: usize| (0..4).map(|i| X[2 * i + k] * gradients[3 * i + c]).sum();
        let dw: Vec<f64> = (0..6).map(|at| column(at % 3, at / 3)).collect();
        let db: Vec<f64> = (0..3).map(|c| (0..4).map(|i| gradients[3 * i + c]).sum()).collect();
        w.step(method, t, &dw);
        b.step(method, t, &db);
        assert_near(&step.floats("w"), &w.x, &format!("step {t} of {what}"));
        assert_near(&step.floats("b"), &b.x, &format!("step {t} of {what}"));
    }
    let valid = Compiler::new(&Options::default()).check_bytes(model.encode_to_vec().into());
    assert!(valid.invalid.is_empty(), "{what}: {:?}", valid.invalid);
}

const METHODS: [Method; 7] = [
    Method::Sgd,
    Method::Momentum,
    Method::Nesterov,
    Method::Adam,
    Method::AdamW,
    Method::Adagrad,
    Method::RmsProp,
];

#[test]
fn optimizers_match_their_formulas() {
    METHODS.iter().for_each(|&method| check(&line(21, PLAIN), Loss::Mse, method));
}

#[test]
fn losses_match_their_formulas_in_every_operator_set() {
    for opset in [7, 9, 11, 12, 13, 18, 26] {
        for loss in [Loss::Mse, Loss::Mae, Loss::Huber, Loss::Bce] {
            check(&line(opset, PLAIN), loss, Method::Sgd);
        }
        if opset > 7 {
            check(&line(opset, PLAIN), Loss::CrossEntropy, Method::Sgd);
            let end = "z = Add(p, b)  y = LogSoftmax<axis = 1>(z)";
            check(&line(opset, end), Loss::Nll, Method::Sgd);
        }
    }
}

#[test]
fn a_loss_applies_to_the_input_of_its_activation() {
    for opset in [11, 21] {
        let softmax = line(opset, "z = Add(p, b)  y = Softmax<axis = 1>(z)");
        check(&softmax, Loss::CrossEntropy, Method::Sgd);
        check(&line(opset, "z = Add(p, b)  y = Sigmoid(z)"), Loss::Bce, Method::Sgd);
    }
}

#[test]
fn classes_may_lie_along_the_last_axis() {
    let losses = [11, 21].map(|opset| {
        let text = format!(
            "<ir_version: 8, opset_import: [\"\": {opset}]>
            words (double[batch, length, 2] x) => (double[batch, length, 3] y)
            <double[2, 3] w = {{0.3, -0.2, 0.5, 0.1, 0.4, -0.6}}>
            {{ p = MatMul(x, w)  y = Softmax<axis = 2>(p) }}"
        );
        let mut step =
            Step::of(&prepare_model(&text, &Prepare::new(Loss::CrossEntropy, Method::Sgd)));
        let label = Tensor { shape: vec![2, 2], ..Tensor::from_ints(&CLASSES) };
        let x = doubles(vec![2, 2, 2], &X);
        step.take(&BTreeMap::from([("x".into(), x), ("label".into(), label)]))
    });
    assert_near(&losses, &[loss_without_bias(); 2], "classes along the last axis");
}

/// Returns the cross-entropy loss of `line` without its bias.
fn loss_without_bias() -> f64 {
    let w = [0.3, -0.2, 0.5, 0.1, 0.4, -0.6];
    let y = |at: usize| X[at / 3 * 2] * w[at % 3] + X[at / 3 * 2 + 1] * w[3 + at % 3];
    reference(Loss::CrossEntropy, &(0..12).map(y).collect::<Vec<_>>()).0
}

/// Returns a model with a `Softmax` over three axes of these sizes.
fn over_several_axes(sizes: &str) -> String {
    format!(
        "<ir_version: 8, opset_import: [\"\": 11]>
        squeezed (double[batch, 2] x) => (double[rows, {sizes}] y)
        <double[2, 3] w = {{0.3, -0.2, 0.5, 0.1, 0.4, -0.6}}, int64[4] shape = {{-1, {sizes}}}>
        {{ p = MatMul(x, w)  z = Reshape(p, shape)  y = Softmax(z) }}"
    )
}

#[test]
fn class_axes_of_size_1_are_skipped() {
    let classes = Prepare::new(Loss::CrossEntropy, Method::Sgd);
    let mut step = Step::of(&prepare_model(&over_several_axes("3, 1, 1"), &classes));
    let label = Tensor { shape: vec![4, 1, 1], ..Tensor::from_ints(&CLASSES) };
    let x = doubles(vec![4, 2], &X);
    let loss = step.take(&BTreeMap::from([("x".into(), x), ("label".into(), label)]));
    assert_near(&[loss], &[loss_without_bias()], "classes before axes of size 1");
    let message = diagnostics(&over_several_axes("1, 3, 2"), &classes);
    assert!(message.contains("the `Softmax` is over several axes"), "{message}");
}

/// A network with every kind of constant that is trainable by default, and every kind that is not.
const NET: &str = r#"<ir_version: 8, opset_import: ["" : 17]>
    net (float[n, 2, 6, 6] image) => (float[n, 4] probabilities, float[n, 3, 6, 6] features)
    <float[3, 2, 3, 3] conv_w = {CONV}, float[3] conv_b = {1, 2, 3}, float[3] bn_scale = {1, 1, 1},
     float[3] bn_bias = {0, 0, 0}, float[3] bn_mean = {0, 0, 0}, float[3] bn_var = {1, 1, 1},
     float low = {0}, float[1] mask = {-10000}, float[1, 4] none = {0, 0, 0, 0},
     float[3, 1, 1] mean = {0.5, 0.4, 0.3},
     int64[2] shape = {0, -1}, float[108, 4] fc_w = {FC}, float[4] fc_b = {0, 0, 0, 1}>
    {
        c = Conv<pads = [1, 1, 1, 1]>(image, conv_w, conv_b)
        centered = Sub(c, mean)
        features = BatchNormalization(centered, bn_scale, bn_bias, bn_mean, bn_var)
        r = Clip(features, low)
        d = Dropout(r)
        flat = Reshape(d, shape)
        logits = Gemm(flat, fc_w, fc_b)
        also = Max(logits, none)
        masked = Add(also, mask)
        probabilities = Softmax(masked)
    }"#;

fn net() -> String {
    let halves = |count: usize| vec!["0.5"; count].join(", ");
    NET.replace("CONV", &halves(54)).replace("FC", &halves(432))
}

fn keys(model: &ModelProto) -> Vec<&str> {
    model.training_info[0].update_binding.iter().map(|binding| binding.key()).collect()
}

fn classes() -> Prepare {
    Prepare::new(Loss::CrossEntropy, Method::Sgd).output("probabilities")
}

#[test]
fn weights_are_trainable_by_default() {
    let model = prepare_model(&net(), &classes());
    assert_eq!(keys(&model), ["conv_w", "conv_b", "bn_scale", "bn_bias", "fc_w", "fc_b"]);
    let before = onnxc::import::decode(net().into()).expect("the bytes are a model");
    assert_eq!(model.graph, before.graph);
    assert_eq!(keys(&prepare_model(&net(), &classes().trainable("fc*"))), ["fc_w", "fc_b"]);
    let named = classes().trainable("?c_b").trainable("low");
    assert_eq!(keys(&prepare_model(&net(), &named)), ["low", "fc_b"]);
}

#[test]
fn initial_weights_depend_on_fan_in() {
    let model = prepare_model(&net(), &classes());
    let first = model.training_info[0].initialization.as_ref().expect("weights are initialized");
    let high = |name: &str| {
        let node =
            first.node.iter().find(|node| node.output[0] == name).expect("a node draws the weight");
        assert_eq!(node.op_type(), "RandomUniform", "{name}");
        node.attribute.iter().find(|a| a.name() == "high").expect("the node has a bound").f()
    };
    assert_eq!(high("conv_w.initial"), (6.0_f64 / 18.0).sqrt() as f32);
    assert_eq!(high("fc_w.initial"), (6.0_f64 / 108.0).sqrt() as f32);
    let kept = prepare_model(&net(), &classes().initial(Initial::Keep));
    assert!(kept.training_info[0].initialization.is_none());
}

#[test]
fn a_step_takes_a_label_and_returns_the_loss() {
    let model = prepare_model(&net(), &classes());
    let step = model.training_info[0].algorithm.as_ref().expect("the model has a step");
    let text = onnxc::import::print::model(
        &ModelProto { graph: Some(step.clone()), ..ModelProto::default() },
        usize::MAX,
    );
    assert!(text.contains("step (int64[n] label) => (float loss,"), "{text}");
    assert!(
        text.contains("SoftmaxCrossEntropyLoss <reduction = \"mean\"> (masked, label)"),
        "{text}"
    );
}

/// Returns the diagnostics of a preparation that fails.
fn diagnostics(text: &str, prepare: &Prepare) -> String {
    prepare.bytes(text.to_owned().into()).expect_err("the preparation fails").to_string()
}

#[test]
fn all_errors_of_a_preparation_are_reported() {
    let mse = Prepare::new(Loss::Mse, Method::Sgd);
    let message = diagnostics(&net(), &mse.clone().trainable("fc3*").trainable("shape"));
    for part in ["2 outputs", "`probabilities`, `features`", "--trainable fc3*", "of type int64"] {
        assert!(message.contains(part), "{part}: {message}");
    }
    for (text, prepare, part) in [
        (net(), mse.clone().output("y"), "the model has no output `y`"),
        (net(), classes().trainable("bn_*r"), "looks like a weight"),
        (net(), Prepare::new(Loss::Nll, Method::Sgd).output("probabilities"), "say `--loss cross"),
        (line(7, PLAIN), Prepare::new(Loss::CrossEntropy, Method::Sgd), "version 9"),
        (line(21, "q = Add(p, b)  y = Round(q)"), mse.clone(), "depends on no initializer"),
        (line(21, "q = Add(p, b)  y = Round(q)"), mse.clone().trainable("b"), "`b`"),
    ] {
        let message = diagnostics(&text, &prepare);
        assert!(message.contains(part), "{part}: {message}");
    }
    let one =
        line(21, "q = Add(p, b)  y = ReduceSum<keepdims = 0>(q)").replace("[batch, 3] y", " y");
    let message = diagnostics(&one, &Prepare::new(Loss::CrossEntropy, Method::Sgd));
    assert!(message.contains("wants samples and classes"), "{message}");
    let twice = prepare_model(&line(21, PLAIN), &mse);
    let message = mse.model(twice).expect_err("the model is trainable already").to_string();
    assert!(message.contains("has training information already"), "{message}");
    let message = Optimizer::from(Method::Sgd)
        .with(Setting::Beta1, 0.5)
        .expect_err("the optimizer lacks this setting");
    assert!(message.to_string().contains("it knows `lr`, `weight-decay`"), "{message}");
    let message = Optimizer::from(Method::Adam)
        .with(Setting::Beta1, 1.0)
        .expect_err("the value is out of range");
    assert!(message.to_string().contains("at least 0 and less than 1"), "{message}");
}

#[test]
fn new_names_do_not_collide() {
    let text = line(21, "label = Add(p, b)  loss = Neg(label)  step = Neg(loss)  y = Abs(step)");
    let model = prepare_model(&text, &Prepare::new(Loss::Mse, Method::Adam));
    let step = model.training_info[0].algorithm.as_ref().expect("the model has a step");
    assert_eq!(step.input[0].name(), "label_2");
    assert_eq!(step.output[0].name(), "loss_2");
}

#[test]
fn models_with_gradient_nodes_can_be_trained() {
    let end = "z = Add(p, b)  s = Mul(z, z)  g = ai.onnx.preview.training.Gradient<xs = [\"x\"], \
        y = \"s\">(x)  h = MatMul(g, w)  y = Tanh(h)";
    let text = line(21, end).replace("21]", "21, \"ai.onnx.preview.training\": 1]");
    let mut step = Step::of(&prepare_model(&text, &Prepare::new(Loss::Mse, Method::Sgd)));
    let before = step.take(&given(Loss::Mse));
    assert!((0..20).map(|_| step.take(&given(Loss::Mse))).last() < Some(before));
}

#[test]
fn optimize_keeps_training_information() {
    let text = line(
        21,
        "i = Identity(p)  c = Constant<value_float = 2.0>()  d = Cast<to = 11>(c)  e = Mul(d, d)  \
            f = Mul(e, i)  z = Add(f, b)  y = Softmax(z)",
    );
    let model = prepare_model(&text, &Prepare::new(Loss::CrossEntropy, Method::Adam));
    let smaller = Compiler::new(&Options::default()).optimize_model(model.encode_to_vec().into());
    let smaller = smaller.unwrap_or_else(|diagnostics| panic!("{diagnostics}"));
    let nodes = |model: &ModelProto| model.graph.as_ref().map_or(0, |graph| graph.node.len());
    assert!(nodes(&smaller) + 3 <= nodes(&model), "{}", nodes(&smaller));
    assert_eq!(smaller.training_info, model.training_info);
    let outputs = |model: &ModelProto| model.graph.as_ref().map(|graph| graph.output.len());
    assert_eq!(outputs(&smaller), outputs(&model));
    let (mut a, mut b) = (Step::of(&model), Step::of(&smaller));
    for _ in 0..3 {
        let given = given(Loss::CrossEntropy);
        assert_eq!(a.take(&given), b.take(&given));
    }
    assert_eq!(a.floats("w"), b.floats("w"));
}

#[test]
fn optimize_rejects_a_change_of_training_semantics() {
    // Optimizing writes `Softmax` in version 13, and `LogSoftmax` of that version differs.
    let model = prepare_model(
        &line(11, "z = Add(p, b)  y = Softmax<axis = 1>(z)"),
        &Prepare::new(Loss::CrossEntropy, Method::Sgd),
    );
    let message = Compiler::new(&Options::default()).optimize_model(model.encode_to_vec().into());
    let message = message.expect_err("the operator changed").to_string();
    assert!(message.contains("`LogSoftmax` differs"), "{message}");
}

#[test]
fn optimize_keeps_defaults_of_inputs() {
    let text = r#"<ir_version: 8, opset_import: ["" : 17]>
        g (float[2] x, float[2] scale) => (float[2] y) <float[2] scale = {1, 2}>
        { y = Mul(x, scale) }"#;
    let model = Compiler::new(&Options::default()).optimize_model(text.into());
    let graph = model.expect("the model is valid").graph.expect("the model has a graph");
    assert_eq!(graph.initializer[0].name(), "scale");
    assert_eq!(graph.input.len(), 2);
}

#[test]
fn train_prep_writes_a_valid_model() {
    let directory = scratch("train_prep");
    let to = directory.join("train.onnx");
    let model = root().join("examples/models/digits.onnx");
    let arguments = ["--loss", "cross-entropy", "--optimizer", "adamw", "--lr", "0.002", "-o"];
    let output = onnxc().arg("train-prep").arg(&model).args(arguments).arg(&to).output();
    let output = output.expect("the program was built");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let output = onnxc().arg("check").arg(&to).output().expect("the program was built");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    let trained = onnxc::import::decode(fs::read(&to).expect("the command wrote the model").into());
    let before = onnxc::import::decode(fs::read(&model).expect("the file exists").into());
    let (trained, before) =
        (trained.expect("the bytes are a model"), before.expect("the bytes are a model"));
    assert_eq!(trained.graph, before.graph);
    let message = |settings: &[&str]| {
        let arguments = [&["--loss", "mse", "--optimizer", "sgd"], settings, &["-o"]].concat();
        let output = onnxc().arg("train-prep").arg(&model).args(arguments).arg(&to).output();
        String::from_utf8_lossy(&output.expect("the program was built").stderr).into_owned()
    };
    let text = message(&["--beta1", "0.5", "--alpha", "2"]);
    assert!(text.contains("`beta1`") && text.contains("`alpha`"), "{text}");
    let text = message(&["--lr", "-1"]);
    assert!(text.contains("-1 cannot be the `lr`") && text.contains("at least 0"), "{text}");
}
