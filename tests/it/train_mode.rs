//! Training mode of normalization and dropout, compared with the formulas.

use onnxc::{
    Compiler, Options,
    dtype::DType,
    import,
    interpreter::Learner,
    plan::Training,
    tensor::Tensor,
    train::{Initial, Loss, Method, Optimizer, Prepare, Setting},
    value::Value,
};
use onnxc_proto::{Message, ModelProto};

const RATE: f64 = 0.1;

fn prepare() -> Prepare {
    let sgd = Optimizer::from(Method::Sgd)
        .with(Setting::LearningRate, RATE)
        .expect("the optimizer has this setting");
    Prepare::new(Loss::Mse, sgd).initial(Initial::Keep).training_mode(true)
}

fn prepare_model(text: &str, prepare: &Prepare) -> ModelProto {
    let model = prepare.bytes(text.to_owned().into()).unwrap_or_else(|all| panic!("{all}\n{text}"));
    let found = Compiler::new(&Options::default()).check_bytes(model.encode_to_vec().into());
    assert!(found.invalid.is_empty(), "{:?}\n{text}", found.invalid);
    model
}

fn plan(model: &ModelProto) -> Training {
    let options = Options::default();
    let planned = onnxc::Compiler::new(&options).training_plans(model.encode_to_vec().into());
    planned.unwrap_or_else(|all| panic!("{all}")).expect("the model has training information")
}

fn doubles(shape: &[usize], values: &[f64]) -> Value {
    let tensor = Tensor::from_numbers(DType::F64, shape.to_vec(), values);
    Value::Tensor(tensor.expect("`double` is a numeric type"))
}

fn floats(values: &[Value], i: usize) -> Vec<f64> {
    values[i].tensor().and_then(Tensor::floats).expect("the tensor is numeric")
}

fn state(learner: &Learner<'_>, name: &str) -> Vec<f64> {
    let mut all = learner.state();
    let found = all.find(|(found, _)| *found == name).and_then(|(_, tensor)| tensor.floats());
    found.unwrap_or_else(|| panic!("no variable {name}"))
}

fn is_near(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-8 * b.abs().max(1.0)
}

fn assert_near(a: &[f64], b: &[f64], what: &str) {
    assert_eq!(a.len(), b.len(), "{what}");
    assert!(a.iter().zip(b).all(|(&a, &b)| is_near(a, b)), "{what}: {a:?} is not {b:?}");
}

/// Returns a net: squares in two channels of three pixels, normalized, activated and averaged; then
/// a matrix.
fn net(opset: u32) -> String {
    format!(
        r#"<ir_version: 8, opset_import: ["" : {opset}]>
        net (double[n, 2, 3] x) => (double[n, 1] y)
        <double[2] scale = {{1.5, 0.5}}, double[2] bias = {{0.25, -0.5}},
         double[2] mean = {{0.5, -0.25}}, double[2] var = {{1.5, 0.75}},
         double[2, 1] w = {{1.0, -2.0}}> {{
            squares = Mul(x, x)
            normal = BatchNormalization<epsilon = 0.125, momentum = 0.75>
                (squares, scale, bias, mean, var)
            bent = Tanh(normal)
            means = ReduceMean<axes = [2], keepdims = 0>(bent)
            y = MatMul(means, w)
        }}"#
    )
}

/// Returns the mean and variance of each of two channels of three pixels.
fn statistics(squares: &[f64]) -> [[f64; 2]; 2] {
    let count = squares.len() as f64 / 2.0;
    let channel = |c: usize| squares.chunks(3).skip(c).step_by(2).flatten();
    let mean = [0, 1].map(|c| channel(c).sum::<f64>() / count);
    let var = [0, 1].map(|c| channel(c).map(|x| (x - mean[c]).powi(2)).sum::<f64>() / count);
    [mean, var]
}

/// Computes the output of [`net`] with these statistics; the weights are `scale`, `bias` and `w`.
fn output(squares: &[f64], weights: &[f64], [mean, var]: [[f64; 2]; 2]) -> Vec<f64> {
    let (scale, bias, w) = (&weights[0..2], &weights[2..4], &weights[4..6]);
    let bent = |c: usize, x: f64| {
        ((x - mean[c]) / (var[c] + 0.125).sqrt() * scale[c] + bias[c]).tanh() / 3.0
    };
    let channel =
        |row: &[f64], c: usize| row[3 * c..][..3].iter().map(|&x| bent(c, x)).sum::<f64>();
    let sample = |row: &[f64]| (0..2).map(|c| w[c] * channel(row, c)).sum();
    squares.chunks(6).map(sample).collect()
}

fn mse(y: &[f64], wanted: &[f64]) -> f64 {
    y.iter().zip(wanted).map(|(y, t)| (y - t).powi(2)).sum::<f64>() / y.len() as f64
}

/// Returns the weights after a step of gradient descent, with the gradient from finite differences.
fn step_down(weights: &[f64], loss: impl Fn(&[f64]) -> f64) -> Vec<f64> {
    const H: f64 = 1e-5;
    let moved = |i: usize, by: f64| {
        let mut moved = weights.to_vec();
        moved[i] += by;
        loss(&moved)
    };
    let gradient = |i: usize| (moved(i, H) - moved(i, -H)) / (2.0 * H);
    weights.iter().enumerate().map(|(i, x)| x - RATE * gradient(i)).collect()
}

const X: [f64; 12] = [0.5, -1.0, 2.0, 0.3, -0.7, 1.1, 0.9, 0.4, -0.2, 1.3, -1.6, 0.8];
const WANTED: [f64; 2] = [0.75, -0.25];

fn weights(learner: &Learner<'_>) -> Vec<f64> {
    ["scale", "bias", "w"].map(|name| state(learner, name)).concat()
}

#[test]
fn steps_use_batch_statistics_and_inference_running_statistics() {
    for opset in [9, 14, 17] {
        let training = plan(&prepare_model(&net(opset), &prepare()));
        let mut learner = Learner::new(&training);
        let squares = X.map(|x| x * x);
        let (mut mean, mut var) = ([0.5, -0.25], [1.5, 0.75]);
        let now = statistics(&squares);
        for iteration in 0..3 {
            let what = format!("iteration {iteration}, operators {opset}");
            let loss = |weights: &[f64]| mse(&output(&squares, weights, now), &WANTED);
            let before = weights(&learner);
            let given = [doubles(&[2, 2, 3], &X), doubles(&[2, 1], &WANTED)];
            let outputs = learner.step(0, &given).expect("the inputs fit the model");
            assert_near(&floats(&outputs, 0), &[loss(&before)], &what);
            assert_near(&weights(&learner), &step_down(&before, loss), &what);
            for c in 0..2 {
                mean[c] = 0.75 * mean[c] + 0.25 * now[0][c];
                var[c] = 0.75 * var[c] + 0.25 * now[1][c];
            }
            assert_near(&state(&learner, "mean"), &mean, &what);
            assert_near(&state(&learner, "var"), &var, &what);
            let y = learner.infer(&given[..1]).expect("the input fits the model");
            assert_near(&floats(&y, 0), &output(&squares, &weights(&learner), [mean, var]), &what);
        }
    }
}

#[test]
fn init_resets_running_statistics() {
    let training = plan(&prepare_model(&net(17), &prepare().initial(Initial::Kaiming)));
    let mut learner = Learner::new(&training);
    learner.init().expect("the step succeeds");
    assert_eq!((state(&learner, "mean"), state(&learner, "var")), (vec![0.0; 2], vec![1.0; 2]));
}

#[test]
fn nodes_update_shared_statistics_in_order() {
    let text = r#"<ir_version: 8, opset_import: ["" : 17]>
        twice (double[n, 1] x) => (double[n, 1] y)
        <double[1] one = {1}, double[1] zero = {0}, double[1] mean = {0}, double[1] var = {1},
         double[1] bias = {0}> {
            a = BatchNormalization<momentum = 0.5>(x, one, zero, mean, var)
            moved = Add(x, one)
            also = Identity(mean)
            b = BatchNormalization<momentum = 0.5>(moved, one, zero, also, var)
            sum = Add(a, b)
            y = Add(sum, bias)
        }"#;
    let training = plan(&prepare_model(text, &prepare().trainable("bias")));
    let mut learner = Learner::new(&training);
    let given = [doubles(&[2, 1], &[1.0, 3.0]), doubles(&[2, 1], &[0.0, 0.0])];
    learner.step(0, &given).expect("the inputs fit the model");
    // A mean of 2, then one of 3; variances of 1.
    assert_eq!((state(&learner, "mean"), state(&learner, "var")), (vec![2.0], vec![1.0]));
}

/// Returns a linear layer with three outputs, some of which a step drops.
fn line(opset: u32, middle: &str) -> String {
    format!(
        r#"<ir_version: 8, opset_import: ["" : {opset}]>
        line (double[n, 2] x) => (double[n, 3] y)
        <double[2, 3] w = {{0.3, -0.2, 0.5, 0.1, 0.4, -0.6}}, double[3] b = {{0.1, -0.3, 0.2}},
         double ratio = {{0.25}}> {{
            product = MatMul(x, w)
            sum = Add(product, b)
            {middle}
        }}"#
    )
}

const DROPS: &str = "y = Dropout(sum, ratio)";

/// Computes column `c` of a step of [`line`] on 4 samples that keeps the elements in `mask`: its
/// part of the loss, and the column of `w` and the element of `b` after the step.
fn column(c: usize, mask: usize) -> (f64, [f64; 3]) {
    let (w, b) = ([0.3, -0.2, 0.5, 0.1, 0.4, -0.6], [0.1, -0.3, 0.2]);
    let (mut loss, mut next) = (0.0, [w[c], w[3 + c], b[c]]);
    for (_, x) in X[..8].chunks(2).enumerate().filter(|(i, _)| mask & (1 << i) != 0) {
        let y = (x[0] * w[c] + x[1] * w[3 + c] + b[c]) / 0.75;
        loss += y * y / 12.0;
        let gradient = RATE * 2.0 * y / 12.0 / 0.75;
        next = [next[0] - gradient * x[0], next[1] - gradient * x[1], next[2] - gradient];
    }
    (loss, next)
}

/// Takes a step, and finds the mask of kept elements that explains the result, for each column.
fn find_kept(learner: &mut Learner<'_>) -> [usize; 3] {
    let given = [doubles(&[4, 2], &X[..8]), doubles(&[4, 3], &[0.0; 12])];
    let outputs = learner.step(0, &given).expect("the inputs fit the model");
    let (w, b) = (state(learner, "w"), state(learner, "b"));
    let masks = [0, 1, 2].map(|c| {
        let found = [w[c], w[3 + c], b[c]];
        let fits = |mask: &usize| {
            column(c, *mask).1.iter().zip(found).all(|(&next, found)| is_near(found, next))
        };
        (0..16).find(fits).unwrap_or_else(|| panic!("column {c}: {found:?}"))
    });
    let loss: f64 = (0..3).map(|c| column(c, masks[c]).0).sum();
    assert_near(&floats(&outputs, 0), &[loss], "the loss of what was kept");
    masks
}

#[test]
fn dropout_applies_to_steps_but_not_to_inference() {
    let model = prepare_model(&line(17, DROPS), &prepare().seed(7));
    let training = plan(&model);
    let mut learner = Learner::new(&training);
    let masks = find_kept(&mut learner);
    assert!(masks != [0; 3] && masks != [15; 3], "{masks:?}");
    learner.reset();
    assert_eq!(find_kept(&mut learner), masks, "seeds start anew");
    learner.reset();
    let y = learner.infer(&[doubles(&[4, 2], &X[..8])]).expect("the input fits the model");
    assert_near(&floats(&y, 0)[..1], &[0.5 * 0.3 - 0.1 + 0.1], "inference");
    let others = plan(&prepare_model(&line(17, DROPS), &prepare().seed(8)));
    assert_ne!(find_kept(&mut Learner::new(&others)), masks);
}

/// Returns the training step as text.
fn step_text(model: &ModelProto) -> String {
    let graph = model.training_info[0].algorithm.clone();
    import::print::model(&ModelProto { graph, ..ModelProto::default() }, usize::MAX)
}

#[test]
fn training_mode_copies_only_the_nodes_that_change() {
    let (text, plain) = (net(17), prepare().training_mode(false));
    let model = prepare_model(&text, &prepare());
    let before = import::decode(text.clone().into()).expect("the bytes are a model");
    assert_eq!(model.graph, before.graph);
    let message = step_text(&model);
    assert!(message.contains("(squares, scale, bias, mean, var)"), "{message}");
    assert!(!message.contains("Mul(x, x)") && !message.contains("Mul (x, x)"), "{message}");
    assert!(!step_text(&prepare_model(&text, &plain)).contains("BatchNormalization"));
}

#[test]
fn dropout_in_a_branch_applies_to_steps() {
    let branches = "yes = Constant<value = bool {1}>()
        y = If (yes) <
            then_branch = a () => (double[n, 3] t) { t = Dropout(sum, ratio) },
            else_branch = b () => (double[n, 3] e) { e = Identity(sum) }
        >";
    let training = plan(&prepare_model(&line(17, branches), &prepare().seed(7)));
    find_kept(&mut Learner::new(&training));
}

#[test]
fn nodes_without_a_training_mode_are_errors() {
    let branch = net(17).replace(
        "normal = BatchNormalization<epsilon = 0.125, momentum = 0.75>
                (squares, scale, bias, mean, var)",
        "yes = Constant<value = bool {1}>()
        normal = If (yes) <
            then_branch = a () => (double[n, 2, 3] t) {
                t = BatchNormalization(squares, scale, bias, mean, var)
            },
            else_branch = b () => (double[n, 2, 3] e) { e = Identity(squares) }
        >",
    );
    let computed = net(17).replace("normal =", "none = Sub(mean, mean)  normal =");
    let computed = computed.replace("bias, mean, var)", "bias, none, var)");
    let function = line(17, "y = my.drop(sum, ratio)").replace("17]", "17, \"my\": 1]")
        + "<domain: \"my\", opset_import: [\"\": 17]> drop (a, r) => (b) { b = Dropout(a, r) }";
    for (text, prepare, part) in [
        (line(11, "y = Dropout<ratio = 0.25>(sum)"), prepare(), "version 12 or newer"),
        (branch, prepare(), "a branch or a loop"),
        (computed, prepare(), "no initializer, as `none`"),
        (function, prepare(), "write the functions out"),
        (net(17), prepare().trainable("mean"), "`mean`"),
    ] {
        let message = prepare.bytes(text.clone().into()).err().map(|all| all.to_string());
        let message = message.unwrap_or_else(|| panic!("{text}"));
        assert!(message.contains(part), "{part}: {message}");
    }
}
