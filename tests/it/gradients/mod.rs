//! Gradients, compared with finite differences of the function, in `double`.

pub mod cases;
mod points;

use cases::{CASES, UNARY};
use onnxc::{Options, dtype::DType, interpreter, plan::Plan, tensor::Tensor, value::Value};
use std::fmt::Write;

/// A function: its inputs, all of which it is differentiated by, and its nodes, the last of which
/// computes `y`. A size may be a letter, which makes it a free dimension. Inputs have either sign
/// and are not near zero, except that inputs whose names start with `p` are positive, and those
/// that start with `q` lie between 0 and 1.
struct Case<'a> {
    inputs: &'a str,
    constants: &'a str,
    nodes: &'a str,
}

/// Returns a case without constants.
const fn case<'a>(inputs: &'a str, nodes: &'a str) -> Case<'a> {
    Case { inputs, constants: "", nodes }
}

/// Returns a case with constants.
const fn with<'a>(inputs: &'a str, constants: &'a str, nodes: &'a str) -> Case<'a> {
    Case { inputs, constants, nodes }
}

/// The sizes of free dimensions.
const SIZES: &[(&str, usize)] = &[("n", 2), ("m", 3), ("k", 4), ("l", 5), ("z", 0), ("o", 1)];

/// A random generator with a fixed seed. The range of numbers depends on the first letter of a
/// name.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self, name: &str) -> f64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let unit = (self.0 >> 40) as f64 / (1u64 << 24) as f64;
        match name.as_bytes().first() {
            Some(b'p') => 1.1 + unit,
            Some(b'q') => 0.05 + 0.9 * unit,
            _ => (0.15 + unit) * if self.0 >> 20 & 1 == 0 { 1.0 } else { -1.0 },
        }
    }
}

/// Parses inputs into names and shapes.
fn parse_inputs(text: &str) -> Vec<(String, Vec<usize>)> {
    let each = text.split("double").skip(1).map(|input| input.trim().trim_end_matches(','));
    let size = |size: &str| {
        let letter = SIZES.iter().find(|(letter, _)| *letter == size.trim());
        letter.map_or_else(|| size.trim().parse().expect("a size"), |(_, size)| *size)
    };
    let one = |input: &str| match input.split_once(']') {
        Some((sizes, name)) => {
            let sizes = sizes.trim_start_matches('[').split(',').map(size).collect();
            (name.trim().to_owned(), sizes)
        }
        None => (input.to_owned(), Vec::new()),
    };
    each.map(one).collect()
}

fn plan(text: &str) -> Plan {
    match onnxc::Compiler::new(&Options::default()).plan(text.to_owned().into()) {
        Ok(plan) => plan,
        Err(diagnostics) => panic!("{diagnostics}\n{text}"),
    }
}

fn floats(values: Vec<Value>) -> Vec<Vec<f64>> {
    let tensors =
        values.into_iter().map(|value| value.into_tensor().expect("the value is a tensor"));
    tensors.map(|tensor| tensor.floats().expect("the tensor is numeric")).collect()
}

/// Compares every gradient of a case with finite differences.
fn check(case: &Case<'_>) {
    const STEP: f64 = 1e-5;
    let inputs = parse_inputs(case.inputs);
    let names: Vec<&str> = inputs.iter().map(|(name, _)| name.as_str()).collect();
    let mut text = String::from(
        "<ir_version: 10, opset_import: [\"\": 28, \"ai.onnx.preview.training\": 1, \
            \"com.microsoft\": 1]>\n",
    );
    let outputs = names.iter().fold(String::from("loss_"), |all, name| format!("{all}, d_{name}"));
    let constants =
        if case.constants.is_empty() { String::new() } else { format!("<{}>", case.constants) };
    let _ = writeln!(text, "g ({}) => ({outputs}) {constants} {{ {}", case.inputs, case.nodes);
    // The weight of each element differs.
    let xs = names.iter().map(|name| format!("\"{name}\"")).collect::<Vec<_>>().join(", ");
    let _ = writeln!(
        text,
        "s_ = Sin(y)  d_ = Mul(y, s_)  t_ = Add(d_, y)  loss_ = ReduceSum<keepdims = 0>(t_)"
    );
    let _ = write!(
        text,
        "{} = ai.onnx.preview.training.Gradient<xs = [{xs}], y = \"loss_\">({}) }}",
        outputs.replacen("loss_, ", "", 1),
        names.join(", ")
    );
    let plan = plan(&text);
    let mut numbers = Numbers(7);
    let values: Vec<Vec<f64>> = inputs
        .iter()
        .map(|(name, sizes)| {
            (0..sizes.iter().product::<usize>()).map(|_| numbers.next(name)).collect()
        })
        .collect();
    let run = |values: &[Vec<f64>]| -> Vec<Vec<f64>> {
        let tensors = values.iter().zip(&inputs).map(|(values, (_, sizes))| {
            Value::from(Tensor { shape: sizes.clone(), ..Tensor::from_wide(DType::F64, values) })
        });
        let tensors: Vec<Value> = tensors.collect();
        floats(interpreter::run(&plan, &tensors).unwrap_or_else(|error| panic!("{error}\n{text}")))
    };
    let found = run(&values);
    for (i, name) in names.iter().enumerate() {
        for at in 0..values[i].len() {
            let loss = |step: f64| {
                let mut moved = values.clone();
                moved[i][at] += step;
                run(&moved)[0][0]
            };
            let expected = (loss(STEP) - loss(-STEP)) / (2.0 * STEP);
            let given = found[i + 1][at];
            let near = (given - expected).abs() <= 2e-6 * (1.0 + expected.abs());
            assert!(near, "d{name}[{at}] is {given}, but {expected} is expected\n{text}");
        }
    }
}

/// Returns a model of these nodes and the gradient of `y` by `x`.
fn derivative(nodes: &str) -> String {
    format!(
        "<ir_version: 10, opset_import: [\"\": 24, \"ai.onnx.preview.training\": 1]>
        g (float[2, 3] x, float[3] w) => (dx) {{
            {nodes}
            dx = ai.onnx.preview.training.Gradient<xs = [\"x\"], y = \"y\">(x)
        }}"
    )
}

/// Asserts that the gradient is an error whose message has these parts.
fn assert_error(nodes: &str, parts: &[&str]) {
    let text = derivative(nodes);
    let found = onnxc::Compiler::new(&Options::default()).plan(text.into());
    let found = found.err().expect("the gradient does not exist").to_string();
    for part in parts {
        assert!(found.contains(part), "`{part}` is missing in\n{found}");
    }
}

#[test]
fn an_error_shows_the_path_without_a_gradient() {
    assert_error(
        "[double] a = Mul(x, w)  [steps] b = Round(a)  [last] y = Exp(b)",
        &[
            "E0435",
            "`y` depends on `x`",
            "node `double` (Mul) → node `steps` (Round) → node `last` (Exp)",
        ],
    );
    assert_error(
        "[few] k = ArgMax(x)  [real] c = Cast<to = 1>(k)  y = Exp(c)",
        &["E0435", "node `few` (ArgMax) → node `real` (Cast)"],
    );
    assert_error("[region] y = SequenceConstruct(x)", &["input 2 must be a tensor"]);
    assert_error(
        "n = Size(w)  y = Loop(n, \"\", x) <body = b (i, c, s) => (d, t) { d = Identity(c)  \
            t = Concat<axis = 0>(s, s) }>",
        &["E0205", "loop-carried values whose size changes between iterations"],
    );
    let scan = |train: &str| {
        format!(
            "half = Constant<value = float {{0.5}}>()  train = Constant<value = bool {{{train}}}>()
            y = Scan<num_scan_inputs = 1, body = b (s) => (t) {{ t = Dropout(s, half, train) }}>(x)"
        )
    };
    assert_error(&scan("1"), &["E0205", "`Scan` has no gradient for iterations that draw random"]);
    let plan = onnxc::Compiler::new(&Options::default()).plan(derivative(&scan("0")).into());
    plan.map(drop).expect("the dropout is the identity");
}

#[test]
fn an_omitted_input_at_the_end_is_an_error() {
    for op in ["Concat<axis = 0>", "Max"] {
        let nodes = format!("a = {op}(x, x, \"\")  y = Mul(a, a)");
        assert_error(&nodes, &["E0114", "input 2 is missing"]);
    }
}

#[test]
fn unused_gradients_are_not_computed() {
    let text = derivative("a = MatMul(x, v)  y = Mul(a, a)").replace("float[3] w", "float[3, 4] v");
    let (mut nodes, options) = (String::new(), Options::default());
    let keep = |pass: &str, graph: &onnxc::ir::Graph| {
        if pass == "simplify" {
            nodes = graph.to_string();
        }
    };
    onnxc::Compiler::new(&options)
        .observe(keep)
        .plan(text.into())
        .map(drop)
        .expect("the model has a derivative");
    // The product `x v`, its double, and the double times the transposed `v`: no tensor of ones,
    // and no gradient of `v`.
    let count = |op: &str| nodes.matches(op).count();
    assert_eq!([count("= MatMul"), count("= Gemm")], [1, 1], "{nodes}");
    assert!(!nodes.contains("Expand"), "{nodes}");
}

#[test]
fn unary_gradients_match_finite_differences() {
    for (shape, functions) in UNARY {
        for function in *functions {
            let nodes = format!("y = {function}({})", &shape[shape.len() - 1..]);
            check(&case(&format!("double{shape}"), &nodes));
        }
    }
}

#[test]
fn gradients_match_finite_differences() {
    CASES.iter().for_each(check);
}
