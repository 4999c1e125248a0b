//! Float operators between quantized tensors are computed in integers.

use crate::programs::folder;
use onnxc::{
    Compiler, Optimize, Options, export, interpreter, plan::Plan, tensor::Tensor, value::Value,
};
use onnxc_proto::{Bytes, Message};
use std::fs;

/// Plans a model on `float[1, 2, 3, 3] x`. Returns its graph after the passes, too, as text.
fn plan(body: &str) -> (Plan, String) {
    let text = format!(
        "<ir_version: 10, opset_import: [\"\" : 18]>
        model (float[1, 2, 3, 3] x) => (float[1, 2, 3, 3] y) {{
            s = Constant<value = float {{0.0625}}>()
            z = Constant<value = int8 {{3}}>()
            t = Constant<value = float {{0.125}}>()
            u = Constant<value = uint8 {{128}}>()
            a = QuantizeLinear(x, s, z)
            b = DequantizeLinear(a, s, z)
            {body}
        }}"
    );
    let (plan, after) = plan_for(text.clone(), Optimize::Speed);
    // A plan for small code gives the same results.
    assert_eq!(run(&plan_for(text, Optimize::Size).0), run(&plan));
    (plan, after)
}

fn plan_for(model: impl Into<Bytes>, optimize: Optimize) -> (Plan, String) {
    let mut options = Options::default();
    options.optimize = optimize;
    let mut after = String::new();
    let result = Compiler::new(&options)
        .observe(|pass, graph| {
            if pass == "quantize" {
                after = graph.to_string();
            }
        })
        .plan(model.into());
    (result.unwrap_or_else(|diagnostics| panic!("{diagnostics}")), after)
}

fn numbers() -> Vec<f32> {
    (0..18).map(|i| (i * 7 % 18) as f32 / 4.0 - 2.1).collect()
}

/// Runs the model on [`numbers`].
fn run(plan: &Plan) -> Vec<f64> {
    let x = Tensor { shape: vec![1, 2, 3, 3], ..Tensor::from_floats(&numbers()) };
    let outputs = interpreter::run(plan, &[Value::Tensor(x)]).expect("the input fits the model");
    outputs[0].tensor().and_then(Tensor::floats).expect("the result is numeric")
}

/// Returns [`numbers`] after quantization.
fn quantized_numbers() -> Vec<f64> {
    numbers().iter().map(|x| (f64::from(*x) / 0.0625).round_ties_even() * 0.0625).collect()
}

/// Rounds to the nearest multiple of an eighth in the range of `uint8`.
fn to_u8(x: f64) -> f64 {
    (x / 0.125).round_ties_even().clamp(-128.0, 127.0) * 0.125
}

fn count(text: &str, what: &str) -> usize {
    text.matches(what).count()
}

#[test]
fn quantized_convolutions_are_computed_in_integers() {
    let (plan, text) = plan(
        "w = Constant<value = int8[2, 2, 1, 1] {10, -20, 30, 40}>()
        v = Constant<value = float[2] {0.0625, 0.03125}>()
        o = Constant<value = int8[2] {0, 2}>()
        p = Constant<value = float[2] {0.5, -0.25}>()
        c = DequantizeLinear<axis = 0>(w, v, o)
        d = Conv(b, c, p)
        e = Relu(d)
        f = QuantizeLinear(e, t, u)
        y = DequantizeLinear(f, t, u)",
    );
    assert!(text.contains("QuantizedConv") && !text.contains("= Conv"), "{text}");
    assert_eq!(count(&text, "= QuantizeLinear"), 1, "{text}");
    let x = quantized_numbers();
    let weights = [[10.0, -20.0], [28.0, 38.0]];
    let (scales, bias) = ([0.0625, 0.03125], [0.5, -0.25]);
    let y = (0..18).map(|i| {
        let (f, at) = (i / 9, i % 9);
        let sum = weights[f][0] * x[at] + weights[f][1] * x[9 + at];
        to_u8((sum * scales[f] + bias[f]).max(0.0))
    });
    assert_eq!(run(&plan), y.collect::<Vec<f64>>());
}

#[test]
fn qlinear_convolutions_are_computed_in_integers() {
    let (plan, text) = plan(
        "w = Constant<value = int8[2, 2, 1, 1] {10, -20, 30, 40}>()
        v = Constant<value = float[2] {0.0625, 0.03125}>()
        o = Constant<value = int8[2] {0, 0}>()
        p = Constant<value = int32[2] {128, -128}>()
        c = QLinearConv(a, s, z, w, v, o, t, u, p)
        y = DequantizeLinear(c, t, u)",
    );
    assert!(text.contains("QuantizedConv") && !text.contains("QLinearConv"), "{text}");
    let x = quantized_numbers();
    let weights = [[10.0, -20.0], [30.0, 40.0]];
    let (scales, bias) = ([0.0625, 0.03125], [8.0, -8.0]);
    let y = (0..18).map(|i| {
        let (f, at) = (i / 9, i % 9);
        let sum = weights[f][0] * x[at] + weights[f][1] * x[9 + at] + bias[f];
        to_u8(sum * scales[f])
    });
    assert_eq!(run(&plan), y.collect::<Vec<f64>>());
}

#[test]
fn quantized_data_movement_and_activations_use_integers() {
    let (plan, text) = plan(
        "c = Transpose<perm = [0, 1, 3, 2]>(b)
        d = QuantizeLinear(c, s, z)
        e = DequantizeLinear(d, s, z)
        f = Add(b, e)
        g = QuantizeLinear(f, t, u)
        h = DequantizeLinear(g, t, u)
        i = Neg(h)
        j = Relu(i)
        k = QuantizeLinear(j, t, u)
        y = DequantizeLinear(k, t, u)",
    );
    assert!(["QuantizedAdd", "QuantizedTable"].iter().all(|op| text.contains(op)), "{text}");
    assert!(!text.contains("Relu") && count(&text, "= QuantizeLinear") == 1, "{text}");
    let x = quantized_numbers();
    let y = (0..18).map(|i| {
        let turned = i / 9 * 9 + i % 3 * 3 + i / 3 % 3;
        to_u8((-to_u8(x[i] + x[turned])).max(0.0))
    });
    assert_eq!(run(&plan), y.map(|y| y + 0.0).collect::<Vec<f64>>());
}

/// `x · Sigmoid(x)` with a quantized sigmoid, a choice between numbers, and a `Reshape`.
#[test]
fn functions_that_read_a_value_twice_are_one_table() {
    let (plan, text) = plan(
        "c = Sigmoid(b)
        d = QuantizeLinear(c, s, z)
        e = DequantizeLinear(d, s, z)
        f = Mul(b, e)
        g = QuantizeLinear(f, t, u)
        h = DequantizeLinear(g, t, u)
        n = Constant<value = float {0.5}>()
        k = Less(h, n)
        m = Where(k, n, h)
        r = Constant<value = int64[3] {2, 3, 3}>()
        v = Reshape(m, r)
        q = QuantizeLinear(v, t, u)
        i = DequantizeLinear(q, t, u)
        o = Constant<value = int64[4] {1, 2, 3, 3}>()
        y = Reshape(i, o)",
    );
    assert_eq!(count(&text, "QuantizedTable"), 1, "{text}");
    assert!(!text.contains("Mul") && !text.contains("Where"), "{text}");
    let x = quantized_numbers();
    let y = x.iter().map(|x| {
        let sigmoid = (1.0 / (1.0 + (-x).exp()) / 0.0625).round_ties_even() * 0.0625;
        to_u8(x * sigmoid).max(0.5)
    });
    assert_eq!(run(&plan), y.collect::<Vec<f64>>());
}

/// Squeeze and excitation: means over all pixels, and a product with a number for each channel.
#[test]
fn gates_of_channels_are_computed_in_integers() {
    for keepdims in [0, 1] {
        let (plan, text) = plan(&format!(
            "i = Constant<value = int64[2] {{-1, 2}}>()
            c = ReduceMean<keepdims = {keepdims}>(b, i)
            d = QuantizeLinear(c, t, u)
            r = Constant<value = int64[4] {{1, 2, 1, 1}}>()
            e = Reshape(d, r)
            f = DequantizeLinear(e, t, u)
            g = Mul(f, b)
            h = QuantizeLinear(g, t, u)
            y = DequantizeLinear(h, t, u)"
        ));
        assert!(["QuantizedAveragePool", "QuantizedMul"].iter().all(|op| text.contains(op)));
        assert!(!text.contains("ReduceMean") && count(&text, "= QuantizeLinear") == 1, "{text}");
        let x = quantized_numbers();
        let mean = |i: usize| to_u8(x[i / 9 * 9..][..9].iter().sum::<f64>() / 9.0);
        let y = (0..18).map(|i| to_u8(x[i] * mean(i)) + 0.0);
        assert_eq!(run(&plan), y.collect::<Vec<f64>>());
    }
}

#[test]
fn parts_of_a_split_stay_integers() {
    let (plan, text) = plan(
        "p = Constant<value = int64[2] {1, 2}>()
        c, d = Split<axis = -1>(b, p)
        e = QuantizeLinear(c, s, z)
        f = QuantizeLinear(d, s, z)
        g = DequantizeLinear(e, s, z)
        h = DequantizeLinear(f, s, z)
        y = Concat<axis = 3>(h, g)",
    );
    assert_eq!((count(&text, "= Slice"), count(&text, "= QuantizeLinear")), (2, 1), "{text}");
    let x = quantized_numbers();
    let y = (0..18).map(|i| x[i / 3 * 3 + (i + 1) % 3]);
    assert_eq!(run(&plan), y.collect::<Vec<f64>>());
}

/// Pixels of three bytes have no padding, so they do not end larger pixels.
#[test]
fn three_channels_are_concatenated_and_read() {
    let (_, text) = plan(
        "k = Constant<value = int8[4, 2, 1, 1] {1, -2, 3, 4, -5, 6, 7, 8}>()
        kd = DequantizeLinear(k, s)
        c = Conv(b, kd)
        d = QuantizeLinear(c, t, u)
        e = DequantizeLinear(d, t, u)
        l = Constant<value = int8[3, 2, 1, 1] {9, -8, 7, 6, -5, 4}>()
        ld = DequantizeLinear(l, s)
        f = Conv(b, ld)
        g = QuantizeLinear(f, t, u)
        h = DequantizeLinear(g, t, u)
        m = Concat<axis = 1>(e, h)
        o = QuantizeLinear(m, t, u)
        p = DequantizeLinear(o, t, u)
        n = Constant<value = int8[2, 7, 1, 1] {1, 2, 3, 4, 5, 6, 7, -7, 6, -5, 4, -3, 2, 1}>()
        nd = DequantizeLinear(n, s)
        q = Conv(p, nd)
        r = QuantizeLinear(q, t, u)
        y = DequantizeLinear(r, t, u)",
    );
    assert_eq!(count(&text, "QuantizedConv"), 3, "{text}");
}

#[test]
fn unquantized_values_stay_float() {
    let (_, text) =
        plan("c = Softmax(b)\n f = QuantizeLinear(c, t, u)\n y = DequantizeLinear(f, t, u)");
    assert!(text.contains("Softmax") && !text.contains("Quantized"), "{text}");
}

#[test]
fn optimized_models_are_computed_in_integers() {
    let path = folder("models/network_int8.onnxtxt");
    let model = Bytes::from(fs::read(path).expect("the model is checked in"));
    let graph = Compiler::new(&Options::default()).optimize(model.clone());
    let graph = graph.unwrap_or_else(|diagnostics| panic!("{diagnostics}"));
    let optimized = export::model(&graph).expect("the graph has operators of ONNX only");
    for model in [model, optimized.encode_to_vec().into()] {
        let (_, text) = plan_for(model, Optimize::Speed);
        assert_eq!(count(&text, "QuantizedConv"), 2, "{text}");
    }
}
