//! Composite recognition: nodes that exporters write for one operator become that operator.

use onnxc::{Options, interpreter, tensor::Tensor, value::Value};

/// Returns a model in ONNX's text.
pub fn model(inputs: &str, body: &str) -> String {
    // The result has the type of the first input.
    let ty = &inputs[..=inputs.find(']').expect("the type has axes")];
    format!("<ir_version: 10, opset_import: [\"\" : 18]>\nmodel ({inputs}) => ({ty} y)\n{body}")
}

/// Returns the graph after `recognize`, as text.
pub fn recognize(inputs: &str, body: &str) -> String {
    recognize_model(model(inputs, body))
}

pub fn recognize_model(model: String) -> String {
    graph_after("recognize", model)
}

/// Returns the graph after a pass, as text.
fn graph_after(last: &str, model: String) -> String {
    let mut text = String::new();
    let result = onnxc::Compiler::new(&Options::default())
        .observe(|pass, graph| {
            if pass == last {
                text = graph.to_string();
            }
        })
        .plan(model.into());
    result.unwrap_or_else(|diagnostics| panic!("{diagnostics}"));
    text
}

/// Runs a model on numbers that grow from input to input.
pub fn run(text: &str, shapes: &[&[usize]]) -> Vec<f64> {
    let mut seed = 0.0;
    let numbers = |shape: &[usize]| {
        let numbers = (0..shape.iter().product::<usize>()).map(|_| {
            seed += 0.7;
            f64::sin(seed) as f32
        });
        numbers.collect::<Vec<f32>>()
    };
    let numbers: Vec<Vec<f32>> = shapes.iter().copied().map(numbers).collect();
    let inputs: Vec<_> = shapes.iter().copied().zip(numbers.iter().map(Vec::as_slice)).collect();
    run_on(text, &inputs)
}

/// Runs a model on inputs of these shapes and elements.
pub fn run_on(text: &str, inputs: &[(&[usize], &[f32])]) -> Vec<f64> {
    let plan = onnxc::Compiler::new(&Options::default())
        .plan(text.to_owned().into())
        .unwrap_or_else(|diagnostics| panic!("{diagnostics}"));
    let inputs = inputs.iter().map(|(shape, elements)| {
        let tensor = Tensor::from_floats(elements);
        Value::Tensor(Tensor { shape: shape.to_vec(), ..tensor })
    });
    let outputs =
        interpreter::run(&plan, &inputs.collect::<Vec<Value>>()).expect("the inputs fit the model");
    outputs[0].tensor().and_then(Tensor::floats).expect("the result is numeric")
}

const ERF: &str = "{
    root = Constant<value = float {1.4142135}>()
    one = Constant<value = float {1.0}>()
    half = Constant<value = float {0.5}>()
    a = Div(x, root)
    b = Erf(a)
    c = Add(b, one)
    d = Mul(x, c)
    y = Mul(d, half)
}";

const TANH: &str = "{
    three = Constant<value = float {3.0}>()
    small = Constant<value = float {0.044715}>()
    root = Constant<value = float {0.7978845608}>()
    one = Constant<value = float {1.0}>()
    half = Constant<value = float {0.5}>()
    a = Pow(x, three)
    b = Mul(small, a)
    c = Add(x, b)
    d = Mul(c, root)
    e = Tanh(d)
    f = Add(one, e)
    g = Mul(half, x)
    y = Mul(g, f)
}";

#[test]
fn gelu_is_recognized_in_both_forms() {
    for (body, tanh) in [(ERF, false), (TANH, true)] {
        let text = recognize("float[6] x", body);
        assert!(text.contains("= Gelu ") && !text.contains("Mul"), "{text}");
        assert_eq!(text.contains("approximate = \"tanh\""), tanh, "{text}");
    }
    // With another constant, the function is another.
    for (from, to) in [("{0.5}", "{0.25}"), ("{1.4142135}", "{1.5}"), ("{1.0}", "{2.0}")] {
        let text = recognize("float[6] x", &ERF.replace(from, to));
        assert!(text.contains("Erf") && !text.contains("Gelu"), "{text}");
    }
}

#[test]
fn the_gradient_of_gelu_is_one_kernel() {
    for approximate in ["none", "tanh"] {
        let text = recognize_model(format!(
            "<ir_version: 10, opset_import: [\"\": 20, \"ai.onnx.preview.training\": 1]>
            model (float[6] x, float[6] w) => (float[6] dx) {{
                a = Gelu<approximate = \"{approximate}\">(x)
                y = Mul(a, w)
                dx = ai.onnx.preview.training.Gradient<xs = [\"x\"], y = \"y\">(x)
            }}"
        ));
        let wanted = format!("GeluGrad <approximate = \"{approximate}\"> (w, x)");
        assert!(text.contains(&wanted), "{text}");
        assert!(["Erf", "Tanh", "Mul"].iter().all(|op| !text.contains(op)), "{text}");
    }
}

#[test]
fn the_gradient_of_composite_gelu_is_one_kernel() {
    for (body, approximate) in [(ERF, "none"), (TANH, "tanh")] {
        let body = body.replace("y =", "gelu =");
        let text = recognize_model(format!(
            "<ir_version: 10, opset_import: [\"\": 18, \"ai.onnx.preview.training\": 1]>
            model (float[6] x, float[6] w) => (float[6] dx) {}
                z = Mul(gelu, w)
                dx = ai.onnx.preview.training.Gradient<xs = [\"x\"], y = \"z\">(x)
            }}",
            body.trim_end_matches('}')
        ));
        let wanted = format!("GeluGrad <approximate = \"{approximate}\"> (w, x)");
        assert!(text.contains(&wanted), "{text}");
        assert!(["Erf", "Tanh", "Mul"].iter().all(|op| !text.contains(op)), "{text}");
    }
}

#[test]
fn the_gradient_of_softmax_is_one_kernel_along_the_last_axis() {
    for (axis, is_one) in [(1, true), (0, false)] {
        let text = recognize_model(format!(
            "<ir_version: 10, opset_import: [\"\": 20, \"ai.onnx.preview.training\": 1]>
            model (float[6, 5] x, float[6, 5] w) => (float[6, 5] dx) {{
                a = Softmax<axis = {axis}>(x)
                y = Mul(a, w)
                dx = ai.onnx.preview.training.Gradient<xs = [\"x\"], y = \"y\">(x)
            }}"
        ));
        assert_eq!(text.contains("SoftmaxGrad (w, "), is_one, "{text}");
        assert_eq!(text.contains("ReduceSum"), !is_one, "{text}");
    }
}

/// Attention of two heads as PyTorch's exporter writes it.
const ATTENTION: &str = "{
    split = Constant<value = int64[4] {1, 5, 2, 3}>()
    merge = Constant<value = int64[3] {1, 5, 6}>()
    scale = Constant<value = float {1.7320508}>()
    q4 = Reshape(q, split)
    k4 = Reshape(k, split)
    v4 = Reshape(v, split)
    qh = Transpose<perm = [0, 2, 1, 3]>(q4)
    kt = Transpose<perm = [0, 2, 3, 1]>(k4)
    vh = Transpose<perm = [0, 2, 1, 3]>(v4)
    products = MatMul(qh, kt)
    scaled = Div(products, scale)
    scores = Add(scaled, mask)
    weights = Softmax<axis = -1>(scores)
    heads = MatMul(weights, vh)
    rows = Transpose<perm = [0, 2, 1, 3]>(heads)
    y = Reshape(rows, merge)
}";

const OPERANDS: &str = "float[1, 5, 6] q, float[1, 5, 6] k, float[1, 5, 6] v, float[5, 5] mask";

#[test]
fn attention_is_recognized_with_transposes() {
    let text = recognize(OPERANDS, ATTENTION);
    assert!(text.contains("q_num_heads = 2"), "{text}");
    assert!(!text.contains("Transpose") && !text.contains("MatMul"), "{text}");
    // A mask of one column, broadcast along the keys, has another meaning for the operator.
    let text = recognize(&OPERANDS.replace("float[5, 5] mask", "float[5, 1] mask"), ATTENTION);
    assert!(!text.contains("Attention"), "{text}");
    let text = recognize(OPERANDS, &ATTENTION.replace("<axis = -1>", "<axis = 1>"));
    assert!(!text.contains("Attention"), "{text}");
}

#[test]
fn recognized_operators_have_the_same_results() {
    let attention: &[&[usize]] = &[&[1, 5, 6], &[1, 5, 6], &[1, 5, 6], &[5, 5]];
    let cases: [(&str, &str, &[&[usize]]); 3] = [
        ("float[6] x", ERF, &[&[6]]),
        ("float[6] x", TANH, &[&[6]]),
        (OPERANDS, ATTENTION, attention),
    ];
    for (inputs, body, shapes) in cases {
        // An `Abs` of numbers that are not negative keeps the pattern from matching.
        let apart = body.replace("c = Add(b, one)", "p = Add(b, one)\n c = Abs(p)");
        let apart = apart.replace("f = Add(one, e)", "p = Add(one, e)\n f = Abs(p)");
        let apart = apart.replace("heads = MatMul(weights", "p = Abs(weights)\n heads = MatMul(p");
        assert_ne!(apart, body);
        let (one, other) = (run(&model(inputs, body), shapes), run(&model(inputs, &apart), shapes));
        let far = one.iter().zip(&other).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
        assert!(one.len() == other.len() && far < 1e-6, "{far}: {one:?} {other:?}");
    }
}

/// Returns a decoding step with a KV cache around an attention.
fn step(attention: &str) -> String {
    let heads = |name, rows| format!("float[1, 2, {rows}, 4] {name}");
    let [q, k, v] = ["q", "k", "v"].map(|name| heads(name, 1));
    let [past_k, past_v] = ["past_k", "past_v"].map(|name| heads(name, 3));
    format!(
        "<ir_version: 10, opset_import: [\"\" : 23]>
         step ({q}, {k}, {v}, {past_k}, {past_v}) => ({}, {}) {{
             keys = Concat<axis = 2>(past_k, k)
             values = Concat<axis = -2>(past_v, v)
             {attention}
             sum = Add(z, keys)
             y = Add(sum, values)
         }}",
        heads("y", 4),
        heads("keys", 4),
    )
}

#[test]
fn attention_fuses_the_concatenation_of_a_cache() {
    let plain = step("z = Attention(q, keys, values)");
    let text = graph_after("fuse", plain.clone());
    assert!(text.contains("Attention") && !text.contains("Concat"), "{text}");
    // With a cache, the operator aligns the causal mask with the end of the cache.
    let causal = step("z = Attention<is_causal = 1>(q, keys, values)");
    assert!(graph_after("fuse", causal).contains("Concat"));
    let apart = step("less = Neg(values)  minus = Attention(q, keys, less)  z = Neg(minus)");
    assert!(graph_after("fuse", apart.clone()).contains("Concat"));
    let one = &[1, 2, 1, 4][..];
    let shapes = [one, one, one, &[1, 2, 3, 4], &[1, 2, 3, 4]];
    let (found, expected) = (run(&plain, &shapes), run(&apart, &shapes));
    assert!(
        found.iter().zip(&expected).all(|(a, b)| (a - b).abs() < 1e-6),
        "{found:?} {expected:?}"
    );
}

#[test]
fn matmul_reads_transposed_operands_in_place() {
    let inputs = "float[2, 3, 4, 5] x, float[2, 5, 3, 4] a, float[2, 6, 3, 5] b";
    let body = "{
        left = Transpose<perm = [0, 2, 3, 1]>(a)
        right = Transpose<perm = [0, 2, 3, 1]>(b)
        first = MatMul(left, right)
        back = Transpose<perm = [0, 1, 3, 2]>(right)
        y = MatMul(first, back)
    }";
    let steps = |body: &str| {
        let plan = onnxc::Compiler::new(&Options::default())
            .plan(model(inputs, body).into())
            .unwrap_or_else(|diagnostics| panic!("{diagnostics}"));
        plan.steps.len()
    };
    assert_eq!(steps(body), 2, "two products, and nothing is transposed");
    // A double negation keeps the pattern from matching.
    let between = "minus = Neg(left)\n plus = Neg(minus)\n first = MatMul(plus, right)";
    let apart = body.replace("first = MatMul(left, right)", between);
    let shapes: &[&[usize]] = &[&[2, 3, 4, 5], &[2, 5, 3, 4], &[2, 6, 3, 5]];
    let (one, other) = (run(&model(inputs, body), shapes), run(&model(inputs, &apart), shapes));
    let far = one.iter().zip(&other).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
    assert!(one.len() == 120 && far < 1e-5, "{far}: {one:?} {other:?}");
}

/// SiLU: `x` times a function that is zero at -∞.
const SILU: &str = "{
    large = Constant<value = float[2, 2] {3e38, 3e38, 3e38, 3e38}>()
    sum = MatMul(x, large)
    gate = Sigmoid(sum)
    y = Mul(sum, gate)
}";

#[test]
fn recognized_operators_propagate_nan() {
    // The logarithm of `Relu` is -∞ for negative numbers.
    let before = "{\n r = Relu(z)\n x = Log(r)";
    let gelu = |body: &str| body.replacen('{', before, 1);
    for (inputs, body, shape) in [
        ("float[6] z", gelu(ERF), &[6][..]),
        ("float[6] z", gelu(TANH), &[6]),
        ("float[6, 2] x", SILU.into(), &[6, 2]),
    ] {
        let apart = body.replace("c = Add(b, one)", "p = Add(b, one)\n c = Abs(p)");
        let apart = apart.replace("f = Add(one, e)", "p = Add(one, e)\n f = Abs(p)");
        let apart = apart.replace("gate = Sigmoid(sum)", "p = Sigmoid(sum)\n gate = Abs(p)");
        assert_ne!(apart, body);
        let not_numbers = |body: &str| {
            run(&model(inputs, body), &[shape]).iter().map(|y| y.is_nan()).collect::<Vec<_>>()
        };
        let found = not_numbers(&body);
        assert!(found.contains(&true) && found.contains(&false), "{body}");
        assert_eq!(found, not_numbers(&apart), "{body}");
    }
}

#[test]
fn a_query_without_keys_gives_zeros() {
    // A mask of logarithms of zeros hides every key.
    let hidden = "zero = Sub(mask, mask)\n hidden = Log(zero)\n scores = Add(scaled, hidden)";
    let body = ATTENTION.replace("scores = Add(scaled, mask)", hidden);
    let text = recognize(OPERANDS, &body);
    assert!(text.contains("Attention"), "{text}");
    let shapes: &[&[usize]] = &[&[1, 5, 6], &[1, 5, 6], &[1, 5, 6], &[5, 5]];
    assert_eq!(run(&model(OPERANDS, &body), shapes), [0.0; 30]);
}
