//! Training models: the semantics of the specification, in the interpreter and in a module.

use crate::{
    golden,
    programs::{folder, onnxc},
};
use onnxc::{
    Options,
    diag::Diagnostics,
    import,
    interpreter::Learner,
    plan::Training,
    tensor::{Data, Tensor},
    value::Value,
};
use onnxc_proto::{
    GraphProto, Message, ModelProto, OperatorSetIdProto, SparseTensorProto, StringStringEntryProto,
    TensorProto, TrainingInfoProto,
};
use onnxc_runtime::view::View;

onnxc_macros::include_onnx!("models/learn.onnx");
onnxc_macros::include_onnx!("models/refusing.onnx");

/// Returns a linear model: `fit` follows the gradient, and `average` keeps a running average.
fn line() -> ModelProto {
    let graph = "line (float[4, 2] x) => (float[4, 1] y)
        <float[2, 1] w = {0.5, -0.5}, float[1] b = {0.0}, float[2, 1] slow = {0.0, 0.0}> {
            xw = MatMul(x, w)
            y = Add(xw, b)
        }";
    let init = "start () => (float[2, 1] w0) {
            w0 = RandomNormal<shape = [2, 1], scale = 0.1>()
        }";
    let fit =
        "fit (float[4, 1] target) => (float loss, float[2, 1] w1, float[1] b1, int64 iteration1)
        <float rate = {0.1}, int64 iteration = {0}, int64 one = {1}> {
            error = Sub(y, target)
            square = Mul(error, error)
            loss = ReduceMean<keepdims = 0>(square)
            dw, db = ai.onnx.preview.training.Gradient<xs = [\"w\", \"b\"], y = \"loss\">(w, b)
            w_part = Mul(rate, dw)
            w1 = Sub(w, w_part)
            b_part = Mul(rate, db)
            b1 = Sub(b, b_part)
            iteration1 = Add(iteration, one)
        }";
    let average = "average () => (float[2, 1] slow1) <float rate = {0.5}> {
            new_part = Sub(w, slow)
            part = Mul(rate, new_part)
            slow1 = Add(slow, part)
        }";
    let fit =
        info(init, &[("w", "w0")], fit, &[("w", "w1"), ("b", "b1"), ("iteration", "iteration1")]);
    let average = info("", &[], average, &[("slow", "slow1")]);
    model(graph, vec![fit, average])
}

/// Returns a model with a step whose first node could update its variable in place, and whose
/// second can fail.
fn failing() -> ModelProto {
    let graph = "g (float[n, 2] x, int64[1] at) => (float[n, 2] y) <float[2] a = {1.0, 2.0}> {
            y = Add(x, a)
        }";
    let step = "step () => (float[2] a1, float[n, 2] b1, float[1, 2] picked)
        <float[3, 2] b = {1.0, 2.0, 3.0, 4.0, 5.0, 6.0}, float one = {1.0}> {
            b1 = Identity(y)
            a1 = Add(a, one)
            picked = Gather(b, at)
        }";
    model(graph, vec![info("", &[], step, &[("a", "a1"), ("b", "b1")])])
}

/// Parses a graph in ONNX's text; `None` if the text is empty.
fn graph(text: &str) -> Option<GraphProto> {
    let read = |text| import::text::graph(text).expect("the text is valid");
    (!text.is_empty()).then(|| read(text))
}

fn model(text: &str, training_info: Vec<TrainingInfoProto>) -> ModelProto {
    let set = |(domain, version): (&str, i64)| OperatorSetIdProto {
        domain: Some(domain.into()),
        version: Some(version),
    };
    ModelProto {
        ir_version: Some(8),
        opset_import: [("", 17), ("ai.onnx.preview.training", 1)].map(set).to_vec(),
        graph: graph(text),
        training_info,
        ..ModelProto::default()
    }
}

fn info(
    init: &str,
    init_bindings: &[(&str, &str)],
    algorithm: &str,
    bindings: &[(&str, &str)],
) -> TrainingInfoProto {
    let bound = |bindings: &[(&str, &str)]| {
        let each = bindings.iter().map(|(key, value)| StringStringEntryProto {
            key: Some((*key).into()),
            value: Some((*value).into()),
        });
        each.collect()
    };
    TrainingInfoProto {
        initialization: graph(init),
        initialization_binding: bound(init_bindings),
        algorithm: graph(algorithm),
        update_binding: bound(bindings),
    }
}

fn plan(model: &ModelProto) -> Training {
    try_plan(model, &Options::default()).expect("the model is valid")
}

fn try_plan(model: &ModelProto, options: &Options) -> Result<Training, Diagnostics> {
    let planned = onnxc::Compiler::new(options).training_plans(model.encode_to_vec().into())?;
    Ok(planned.expect("the model has training information"))
}

fn floats(shape: &[usize], numbers: &[f32]) -> Tensor {
    let bytes: Vec<u8> = numbers.iter().flat_map(|x| x.to_le_bytes()).collect();
    Tensor { shape: shape.to_vec(), data: Data::Bytes(bytes.into()), ..Tensor::from_floats(&[]) }
}

fn state(learner: &Learner<'_>, name: &str) -> Vec<f64> {
    let found = learner.state().find(|(found, _)| *found == name);
    found
        .and_then(|(_, tensor)| tensor.floats())
        .expect("the model has a variable of floats by this name")
}

const X: [f32; 8] = [1.0, 0.0, 0.0, 1.0, 1.0, 1.0, -1.0, 0.5];
const TARGET: [f32; 4] = [2.0, -1.0, 1.0, -2.5];

#[test]
fn checked_in_models_are_up_to_date() {
    golden::check(&folder("models").join("learn.onnx"), &line().encode_to_vec());
    golden::check(&folder("models").join("refusing.onnx"), &failing().encode_to_vec());
}

#[test]
fn module_and_interpreter_train_bit_identically() {
    let training = plan(&line());
    let (mut learner, mut module) = (Learner::new(&training), Learn::new());
    let same = |learner: &Learner<'_>, module: &mut Learn| {
        assert_eq!(Learn::VARIABLES.len(), learner.state().count());
        for (name, tensor) in learner.state() {
            assert_eq!(module.state(name), Some(tensor.bytes()), "{name}");
        }
    };
    same(&learner, &mut module);
    learner.init().expect("the initialization is constant");
    module.init();
    same(&learner, &mut module);
    let [x, target] = [floats(&[4, 2], &X), floats(&[4, 1], &TARGET)].map(Value::Tensor);
    let mut losses = Vec::new();
    for _ in 0..50 {
        let found =
            learner.step(0, &[x.clone(), target.clone()]).expect("the inputs fit the model");
        let loss = module.fit(&X, &TARGET);
        assert_eq!(found[0].tensor().map(Tensor::bytes), Some(&loss.to_le_bytes()[..]));
        losses.push(loss);
        learner.step(1, std::slice::from_ref(&x)).expect("the inputs fit the model");
        module.average(&X);
        same(&learner, &mut module);
        let found = learner.infer(std::slice::from_ref(&x)).expect("the inputs fit the model");
        let y: Vec<u8> = module.infer(&X).iter().flat_map(|y| y.to_le_bytes()).collect();
        assert_eq!(found[0].tensor().map(Tensor::bytes), Some(&y[..]));
        same(&learner, &mut module);
    }
    assert!(losses[49] < 0.1 * losses[0], "{losses:?}");
}

#[test]
fn variables_can_be_reset_and_loaded() {
    let mut model = Learn::new();
    assert_eq!(model.state("w"), Some(&[0.5f32, -0.5].map(f32::to_le_bytes).concat()[..]));
    assert_eq!(model.state("rate"), None);
    model.set_seed(1);
    model.init();
    let first = model.state("w").map(<[u8]>::to_vec);
    model.fit(&X, &TARGET);
    assert_ne!(model.state("w"), first.as_deref());
    model.init();
    assert_eq!(model.state("w"), first.as_deref());
    model.set_seed(2);
    model.init();
    assert_ne!(model.state("w"), first.as_deref());
    assert!(model.load_state("w", &[0; 7]).is_err() && model.load_state("v", &[]).is_err());
    model
        .load_state("w", first.as_deref().unwrap_or_default())
        .expect("the state has the length of the variable");
    assert_eq!(model.state("w"), first.as_deref());
    model.reset();
    assert_eq!(model.state("w"), Learn::new().state("w"));
    let mut copy = model.clone();
    copy.fit(&X, &TARGET);
    assert_ne!(model.state("w"), copy.state("w"));
}

#[test]
fn variables_are_saved_and_loaded_as_safetensors() {
    let (mut model, mut copy) = (Learn::new(), Learn::new());
    model.fit(&X, &TARGET);
    let file = model.variables().to_safetensors().expect("the format has these types");
    copy.variables().load_safetensors(&file).expect("the model is the same");
    for variable in Learn::VARIABLES {
        assert_eq!(copy.state(variable.name), model.state(variable.name), "{}", variable.name);
    }
    // A file of the Python package: the tensors of the largest types first, spaces after the
    // header.
    let head = concat!(
        r#"{"b":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"#,
        r#""w":{"dtype":"F32","shape":[2,1],"data_offsets":[4,12]}}  "#
    );
    let numbers = [0.5f32, 1.5, -2.5].map(f32::to_le_bytes).concat();
    let file = [&head.len().to_le_bytes()[..], head.as_bytes(), &numbers].concat();
    copy.variables().load_safetensors(&file).expect("these are its variables");
    assert_eq!(copy.state("b"), Some(&numbers[..4]));
    assert_eq!(copy.state("w"), Some(&numbers[4..]));
    assert_eq!(copy.state("slow"), model.state("slow"));
}

#[test]
fn a_step_computes_everything_before_updating_variables() {
    let text = "g () => (float[2] y) <float[2] a = {1.0, 2.0}, float[2] b = {3.0, 4.0}> {
            y = Add(a, b)
        }";
    let swap = "swap () => (a, b, float[2] c1) <float[2] c = {0.0, 0.0}> {
            c1 = Sub(y, c)
        }";
    let update = info("", &[], swap, &[("a", "b"), ("b", "a"), ("c", "c1")]);
    let training = plan(&model(text, vec![update]));
    let mut learner = Learner::new(&training);
    for [a, b, c] in [[3.0, 1.0, 4.0], [1.0, 3.0, 0.0]] {
        learner.step(0, &[]).expect("a step without inputs succeeds");
        let first = ["a", "b", "c"].map(|name| state(&learner, name)[0]);
        assert_eq!(first, [a, b, c]);
    }
}

#[test]
fn each_algorithm_reads_the_updates_of_the_one_before() {
    let text = "g () => (float y) <float a = {1.0}> { y = Add(a, a) }";
    let [first, second] = [
        "first () => (float a1) <float k = {3.0}> { a1 = Mul(y, k) }",
        "second () => (float a2) <float k = {1.0}, float seen = {0.0}> { a2 = Add(y, k) }",
    ];
    let infos =
        vec![info("", &[], first, &[("a", "a1")]), info("", &[], second, &[("seen", "a2")])];
    let training = plan(&model(text, infos));
    let mut learner = Learner::new(&training);
    learner.step(0, &[]).and_then(|_| learner.step(1, &[])).expect("the step succeeds");
    assert_eq!((state(&learner, "a"), state(&learner, "seen")), (vec![6.0], vec![13.0]));
}

#[test]
fn initializations_run_in_order_and_reset_other_variables() {
    let text = "g () => (float y) <float a = {1.0}, float b = {2.0}> { y = Add(a, b) }";
    let one = "one () => (float v) { v = Constant<value = float {10.0}>() }";
    let two = "two () => (float v) { v = Constant<value = float {20.0}>() }";
    let step = "step () => (float b1) { b1 = Add(b, a) }";
    let infos =
        vec![info(one, &[("a", "v")], step, &[("b", "b1")]), info(two, &[("a", "v")], "", &[])];
    let training = plan(&model(text, infos));
    let mut learner = Learner::new(&training);
    learner.step(0, &[]).expect("the step succeeds");
    assert_eq!((state(&learner, "a"), state(&learner, "b")), (vec![1.0], vec![3.0]));
    learner.init().expect("the step succeeds");
    assert_eq!((state(&learner, "a"), state(&learner, "b")), (vec![20.0], vec![2.0]));
}

#[test]
fn constants_may_belong_to_one_graph_only() {
    let text = "g (float[2] x, float k) => (float[2] y) <float[2] a = {1.0, 2.0}> {
            ax = Mul(a, x)
            y = Mul(ax, k)
        }";
    let init = "start () => (float[2] a0) { a0 = Constant<value = float[2] {5.0, 6.0}>() }";
    let [fit, count] = [
        "fit (float rate) => (float[2] a1) { part = Mul(rate, y) a1 = Sub(a, part) }",
        "count () => (float n1) <float n = {0.0}, float one = {1.0}> { n1 = Add(n, one) }",
    ];
    let infos =
        vec![info(init, &[("a", "a0")], fit, &[("a", "a1")]), info("", &[], count, &[("n", "n1")])];
    let model = model(text, infos);
    let mut options = Options::default();
    for settled in ["x=[1, 2]", "k=2", "rate=0.25"] {
        options.constant(settled).expect("the option is valid");
    }
    let training = try_plan(&model, &options).unwrap_or_else(|found| panic!("{found}"));
    let mut learner = Learner::new(&training);
    learner.step(0, &[]).expect("a step without inputs succeeds");
    assert_eq!(state(&learner, "a"), [0.5, 0.0]);
    options.constant("rat=1").expect("the option is valid");
    let message = try_plan(&model, &options).err().expect("the option is an error").to_string();
    assert!(message.contains("no input `rat`") && !message.contains("`rate`"), "{message}");
    let mut options = Options::default();
    options.state("x=y").expect("the option is valid");
    let message = try_plan(&model, &options).err().expect("the option is an error").to_string();
    assert!(
        message.contains("`x` cannot be a state: the variables are the states of"),
        "{message}"
    );
}

#[test]
fn a_variable_that_is_also_an_input_is_not_an_argument() {
    let text = "g (float a, float x) => (float y) <float a = {1.0}> { y = Mul(a, x) }";
    let training = plan(&model(text, vec![info("", &[], "", &[("a", "y")])]));
    let names: Vec<_> = training.steps[0].plan.inputs.iter().map(|port| &*port.name).collect();
    assert_eq!(names, ["x"]);
    let mut learner = Learner::new(&training);
    let two = || Value::Tensor(Tensor { shape: vec![], ..floats(&[1], &[2.0]) });
    for expected in [2.0, 4.0] {
        learner.step(0, &[two()]).expect("the input fits the model");
        assert_eq!(state(&learner, "a"), [expected]);
    }
}

#[test]
fn algorithms_may_use_the_same_name() {
    let text = "g () => (float[2] y) <float[2] a = {1.0, 1.0}> { y = Add(a, a) }";
    let [first, second] = [
        "first () => (float[2] m1) <float[2] m = {7.0, 7.0}> { m1 = Add(m, y) }",
        "second () => (float[2] a1) { a1 = Add(a, m) }",
    ];
    let infos = vec![info("", &[], first, &[("m", "m1")]), info("", &[], second, &[("a", "a1")])];
    let mut model = model(text, infos);
    let tensor = |data_type: i32| TensorProto {
        dims: vec![1],
        data_type: Some(data_type),
        ..TensorProto::default()
    };
    let other = model.training_info[1].algorithm.as_mut().expect("the model has two steps");
    other.sparse_initializer.push(SparseTensorProto {
        values: Some(TensorProto { name: Some("m".into()), float_data: vec![5.0], ..tensor(1) }),
        indices: Some(TensorProto { int64_data: vec![1], ..tensor(7) }),
        dims: vec![2],
    });
    let training = plan(&model);
    let mut learner = Learner::new(&training);
    learner.step(1, &[]).expect("the step succeeds");
    assert_eq!(state(&learner, "a"), [1.0, 6.0]);
    assert_eq!(state(&learner, "m"), [7.0, 7.0]);
}

#[test]
fn a_failed_step_changes_no_variable() {
    let training = plan(&failing());
    let (mut learner, mut module) = (Learner::new(&training), Refusing::new());
    let at_first = ([1.0, 2.0].to_vec(), [1.0, 2.0, 3.0, 4.0, 5.0, 6.0].to_vec());
    let mut step = |rows: usize, at: i64| {
        let x = vec![0.5; 2 * rows];
        let view = View::new([rows, 2], &x).expect("the shape fits the data");
        let inputs = [floats(&[rows, 2], &x), Tensor::from_ints(&[at])].map(Value::Tensor);
        let refused = learner.step(0, &inputs).is_err();
        assert_eq!(module.step(view, &[at]).is_err(), refused);
        for (name, tensor) in learner.state() {
            assert_eq!(module.state(name), Some(tensor.bytes()), "{name}");
        }
        (refused, (state(&learner, "a"), state(&learner, "b")))
    };
    assert_eq!(step(2, 0), (true, at_first.clone()), "two rows are too few");
    assert_eq!(step(3, 7), (true, at_first), "there is no row 7");
    let next = (vec![2.0, 3.0], vec![1.5, 2.5, 1.5, 2.5, 1.5, 2.5]);
    assert_eq!(step(3, 2), (false, next));
}

#[test]
fn bench_needs_the_name_of_a_step_if_there_are_several() {
    let model = folder("models").join("learn.onnx");
    let run = onnxc().arg("bench").arg(model).arg("--step").output();
    let run = run.expect("the program was built");
    let text = String::from_utf8_lossy(&run.stderr);
    assert_eq!(run.status.code(), Some(1), "{text}");
    assert!(text.contains("`fit`, `average`") && text.contains("--step=NAME"), "{text}");
}
