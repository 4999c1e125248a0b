//! Gradients at points where finite differences fail: at kinks, among zeros, and of constant
//! functions.

use onnxc::{Options, interpreter, tensor::Tensor, value::Value};

fn row(values: &[f64]) -> Value {
    let shape = vec![values.len()];
    let tensor = Tensor::from_numbers(onnxc::dtype::DType::F64, shape, values);
    tensor.expect("`double` is a numeric type").into()
}

fn matrix(columns: usize, values: &[f64]) -> Value {
    let Value::Tensor(tensor) = row(values) else { unreachable!("a row is a tensor") };
    Tensor { shape: vec![values.len() / columns, columns], ..tensor }.into()
}

/// Runs a model of that operator set and compares its outputs.
fn check(opset: u32, model: &str, inputs: &[Value], expected: &[&[f64]]) {
    let text = format!(
        "<ir_version: 10, opset_import: [\"\": {opset}, \"ai.onnx.preview.training\": 1, \
            \"own\": 1]>\n{}",
        model.replace("Gradient<", "ai.onnx.preview.training.Gradient<")
    );
    let plan = onnxc::Compiler::new(&Options::default()).plan(text.clone().into());
    let plan = plan.unwrap_or_else(|diagnostics| panic!("{diagnostics}\n{text}"));
    let found = interpreter::run(&plan, inputs).unwrap_or_else(|error| panic!("{error}\n{text}"));
    assert_eq!(found.len(), expected.len(), "{text}");
    for (found, expected) in found.iter().zip(expected) {
        let found = found.tensor().and_then(Tensor::floats).expect("the tensor is numeric");
        let near = |(a, b): (&f64, &f64)| a == b || (a - b).abs() <= 1e-12 * b.abs().max(1.0);
        let all = found.len() == expected.len() && found.iter().zip(*expected).all(near);
        assert!(all, "{found:?}, but {expected:?} is expected\n{text}");
    }
}

#[test]
fn gradients_of_products_with_zeros_are_finite() {
    let model = |op: &str| {
        format!(
            "g (double[4] x) => (d) <int64 a = {{0}}> {{ y = CumProd{op}(x, a)  \
                d = Gradient<xs = [\"x\"], y = \"y\">(x) }}"
        )
    };
    // 1 + x₁ + x₁x₂ + x₁x₂x₃, x₀ (1 + x₂ + x₂x₃), x₀x₁ (1 + x₃) and x₀x₁x₂.
    check(26, &model(""), &[row(&[2.0, 0.0, 3.0, 0.0])], &[&[1.0, 8.0, 0.0, 0.0]]);
    // y = x₁x₂x₃ + x₂x₃ + x₃ + 1.
    let x = row(&[2.0, 0.0, 3.0, 5.0]);
    check(26, &model("<exclusive = 1, reverse = 1>"), &[x], &[&[0.0, 15.0, 5.0, 4.0]]);
    let scatter = "g (double[2] x, double[3] u) => (dx, du) <int64[3] i = {0, 0, 1}> {
        y = ScatterElements<reduction = \"mul\">(x, i, u)
        dx, du = Gradient<xs = [\"x\", \"u\"], y = \"y\">(x, u) }";
    let inputs = [row(&[2.0, 7.0]), row(&[3.0, 0.0, 0.0])];
    check(21, scatter, &inputs, &[&[0.0, 0.0], &[0.0, 6.0, 7.0]]);
    let inputs = [row(&[2.0, 7.0]), row(&[0.0, 0.0, 4.0])];
    check(21, scatter, &inputs, &[&[0.0, 4.0], &[0.0, 0.0, 7.0]]);
}

#[test]
fn gradients_by_constants_do_not_depend_on_other_elements() {
    let infinity = f64::INFINITY;
    let pad = "g (double[2] x, double[1] v) => (d) <int64[2] pads = {1, 1}> {
        c = Squeeze(v)  p = Pad(x, pads, c)  y = Mul(p, p)
        d = Gradient<xs = [\"v\"], zs = [\"x\"], y = \"y\">(v, x) }";
    check(21, pad, &[row(&[infinity, 1.0]), row(&[0.5])], &[&[2.0]]);
    let one_hot = "g (double[2] v) => (d) <int64[1] i = {1}, int64 depth = {3}> {
        h = OneHot(i, depth, v)  y = Mul(h, h)
        d = Gradient<xs = [\"v\"], y = \"y\">(v) }";
    check(21, one_hot, &[row(&[1.0, infinity])], &[&[4.0, infinity]]);
    let loss = "g (double[1, 3] x, double[3] w) => (d) <int64[1] i = {1}> {
        y = NegativeLogLikelihoodLoss<reduction = \"sum\">(x, i, w)
        d = Gradient<xs = [\"w\"], zs = [\"x\"], y = \"y\">(w, x) }";
    let inputs = [matrix(3, &[-infinity, 2.0, 1.0]), row(&[1.0, 1.0, 1.0])];
    check(21, loss, &inputs, &[&[0.0, -2.0, 0.0]]);
}

#[test]
fn the_derivative_of_a_power_has_a_derivative_at_exponent_0() {
    let model = "g (double[2] a, double[2] b) => (d) {
        y = Pow(a, b)  g = Gradient<xs = [\"a\"], zs = [\"b\"], y = \"y\">(a, b)
        d = Gradient<xs = [\"b\"], zs = [\"a\"], y = \"g\">(b, a) }";
    // 1 / a at 0, and 1 + ln a at 1.
    check(21, model, &[row(&[2.0, 1.0]), row(&[0.0, 1.0])], &[&[0.5, 1.0]]);
}

#[test]
fn ties_share_the_gradient() {
    let scatter = "g (double[2] x, double[3] u) => (dx, du) <int64[3, 1] i = {0, 0, 1}> {
        y = ScatterND<reduction = \"max\">(x, i, u)
        dx, du = Gradient<xs = [\"x\", \"u\"], y = \"y\">(x, u) }";
    let inputs = [row(&[1.0, 5.0]), row(&[1.0, -2.0, 6.0])];
    check(21, scatter, &inputs, &[&[0.5, 0.0], &[0.5, 0.0, 1.0]]);
}

#[test]
fn constant_functions_have_zero_gradients() {
    for (sizes, y) in [("2", "Mul(x, x2)"), ("n", "Mul(x, x2)"), ("n", "Relu(x)"), ("2", "Abs(x)")]
    {
        let model = format!(
            "g (double[{sizes}] x) => (h) <double x2 = {{3.0}}> {{
            y = {y}  g = Gradient<xs = [\"x\"], y = \"y\">(x)
            h = Gradient<xs = [\"x\"], y = \"g\">(x) }}"
        );
        check(21, &model, &[row(&[1.0, 2.0])], &[&[0.0, 0.0]]);
    }
    // `zs` is held constant, and every path from `x` to `y` leads through `r`.
    let held = "g (double[2] x) => (d) { r = Round(x)  y = Exp(r)
        d = Gradient<xs = [\"x\"], zs = [\"r\"], y = \"y\">(x, r) }";
    check(21, held, &[row(&[1.0, 2.0])], &[&[0.0, 0.0]]);
}

#[test]
fn gradients_support_axes_known_at_run_time() {
    let model = |op: &str| {
        format!(
            "g (double[2, 2] x, int64[1] a) => (d) {{ y = {op}(x, a)  \
                d = Gradient<xs = [\"x\"], y = \"y\">(x) }}"
        )
    };
    let x = || matrix(2, &[1.0, 2.0, 3.0, 4.0]);
    for axis in [0, 1, -1] {
        let inputs = [x(), Tensor::from_ints(&[axis]).into()];
        check(21, &model("ReduceSum"), &inputs, &[&[1.0; 4]]);
        check(21, &model("ReduceMean<keepdims = 0>"), &inputs, &[&[0.5; 4]]);
    }
    let inputs = [x(), Tensor::from_ints(&[1]).into()];
    let d = [1.0 / 3.0, 1.0 / 3.0, 1.0 / 7.0, 1.0 / 7.0];
    check(21, &model("ReduceLogSum"), &inputs, &[&d]);
}

#[test]
fn function_parameters_with_the_same_argument_have_separate_gradients() {
    let model = "g (double[2] x) => (a, b) { a, b = own.product(x, x) }
        <domain: \"own\", opset_import: [\"\": 21, \"ai.onnx.preview.training\": 1]>
        product (u, v) => (du, dv) { s = Mul(v, v)  y = Mul(u, s)
            du, dv = Gradient<xs = [\"u\", \"v\"], y = \"y\">(u, v) }";
    check(21, model, &[row(&[2.0, 3.0])], &[&[4.0, 9.0], &[8.0, 18.0]]);
}

#[test]
fn gradients_of_batched_scans_match() {
    let model = |lens: &str, direction: i64| {
        format!(
            "g (double[2, 1] h, double[2, 2, 1] x, double[1] w) => (dh, dx, dw)
                <int64[2] lens = {{1, 2}}> {{
            l, r = Scan<num_scan_inputs = 1, directions = [{direction}],
            body = b (double[1] i, double[1] j) => (double[1] o, double[1] p) {{
                m = Mul(i, w)  o = Add(m, j)  p = Mul(o, j) }}>({lens}, h, x)
            s = ReduceSum<keepdims = 0>(l)  t = ReduceSum<keepdims = 0>(r)  y = Add(s, t)
            dh, dx, dw = Gradient<xs = [\"h\", \"x\", \"w\"], y = \"y\">(h, x, w) }}"
        )
    };
    let Value::Tensor(x) = row(&[2.0, 3.0, 4.0, 5.0]) else { unreachable!("a row is a tensor") };
    let x = Tensor { shape: vec![2, 2, 1], ..x };
    let inputs = [matrix(1, &[1.0, -1.0]), x.into(), row(&[1.0])];
    let (dh, dx) = ([6.0, 10.0], [9.0, 10.0, 13.0, 14.0]);
    check(8, &model("\"\"", 0), &inputs, &[&dh, &dx, &[26.0]]);
    check(8, &model("\"\"", 1), &inputs, &[&dh, &dx, &[28.0]]);
    // The first sample of the batch has one iteration.
    let (dh, dx) = ([3.0, 10.0], [6.0, 0.0, 13.0, 14.0]);
    check(8, &model("lens", 0), &inputs, &[&dh, &dx, &[11.0]]);
    check(8, &model("lens", 1), &inputs, &[&dh, &dx, &[13.0]]);
}
