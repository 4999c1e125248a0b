//! Weight precision: how much smaller weights get, and how small the error is.

use crate::programs::{folder, onnxc, run, scratch};
use onnxc::{Optimize, Options, Precision, interpreter, plan::Plan, tensor::Tensor, value::Value};

/// Precisions, each with its greatest error, and its greatest share of the bytes of `f32`.
const PRECISIONS: [(Precision, f64, f64); 3] = [
    (Precision::Bf16, 1e-2, 0.52),
    (Precision::F16, 2e-3, 0.52),
    (Precision::Int8Weights, 3e-2, 0.32),
];

/// Returns pseudorandom numbers between -1 and 1 for a tensor of these sizes, as text.
fn random_values(sizes: &[usize]) -> String {
    let number = |i: u32| {
        let x = i.wrapping_mul(0x9e37_79b9).wrapping_add(7).wrapping_mul(0x85eb_ca6b);
        x as i32 as f32 / i32::MAX as f32
    };
    let len: usize = sizes.iter().product();
    let numbers: Vec<String> = (0..len as u32).map(|i| format!("{:?}", number(i))).collect();
    format!("float{sizes:?} {{{}}}", numbers.join(", "))
}

/// Returns a model with constants of these names and shapes.
fn model(input: &str, constants: &[(&str, &[usize])], body: &str) -> String {
    let each: Vec<String> = constants
        .iter()
        .map(|(name, sizes)| format!("{name} = Constant<value = {}>()\n", random_values(sizes)))
        .collect();
    format!(
        "<ir_version: 10, opset_import: [\"\" : 21]>
        model ({input}) => (y) {{ {} {body} }}",
        each.concat()
    )
}

fn plan(model: &str, precision: Precision) -> Plan {
    let mut options = Options::default();
    options.precision = precision;
    let planned = onnxc::Compiler::new(&options).plan(model.to_owned().into());
    planned.unwrap_or_else(|diagnostics| panic!("{diagnostics}"))
}

/// Checks the error and the size of the weights for each precision.
fn check(model: &str, input: Tensor) {
    let (exact, inputs) = (plan(model, Precision::Full), [Value::Tensor(input)]);
    for (precision, most, share) in PRECISIONS {
        let narrow = plan(model, precision);
        let effect = &interpreter::measure_errors(&exact, &narrow, &inputs)
            .expect("the input fits the model")[0];
        assert!(effect.error > 0.0 && effect.error < most, "{precision:?}: {effect:?}");
        let bytes = [narrow.weight_bytes, exact.weight_bytes].map(|bytes| bytes as f64);
        assert!(bytes[0] < share * bytes[1], "{precision:?}: {bytes:?}");
    }
}

fn floats(shape: &[usize]) -> Tensor {
    let numbers: Vec<f32> =
        (0..shape.iter().product::<usize>()).map(|i| (i * 37 % 101) as f32 / 50.0 - 1.0).collect();
    Tensor { shape: shape.to_vec(), ..Tensor::from_floats(&numbers) }
}

#[test]
fn matmul_weights_keep_their_precision() {
    let layers: [(&str, &[usize]); 2] = [("v", &[440, 70]), ("w", &[48, 70])];
    let body = "g = MatMul(x, v) h = Tanh(g) y = Gemm<transB = 1>(h, w)";
    for rows in [1, 30] {
        check(&model(&format!("float[{rows}, 440] x"), &layers, body), floats(&[rows, 440]));
    }
    check(&model("float[n, 440] x", &layers, body), floats(&[5, 440]));
}

#[test]
fn convolution_weights_keep_their_precision() {
    let weights: [(&str, &[usize]); 5] = [
        ("v", &[32, 3, 3, 3]),
        ("w", &[48, 32, 3, 3]),
        ("d", &[48, 1, 3, 3]),
        ("t", &[48, 16, 2, 2]),
        ("o", &[8, 16, 6, 6]),
    ];
    let body = "a = Conv<pads = [1, 1, 1, 1]>(x, v) b = Conv<strides = [2, 2]>(a, w)
        c = Conv<group = 48>(b, d) e = ConvTranspose<strides = [2, 2]>(c, t) y = Conv(e, o)";
    // The sizes in the network are 21, 21, 10, 8, 16 and 11 pixels in each direction.
    for sizes in ["21, 21", "h, w"] {
        check(&model(&format!("float[1, 3, {sizes}] x"), &weights, body), floats(&[1, 3, 21, 21]));
    }
}

#[test]
fn embedding_and_lstm_weights_keep_their_precision() {
    let weights: [(&str, &[usize]); 3] =
        [("table", &[60, 32]), ("w", &[1, 128, 32]), ("r", &[1, 128, 32])];
    let body = "rows = Gather(table, x) z, y, c = LSTM<hidden_size = 32>(rows, w, r)";
    let indices = [3, 59, 0, 17, 17, 4];
    let input = Tensor { shape: vec![6, 1], ..Tensor::from_ints(&indices) };
    check(&model("int64[6, 1] x", &weights, body), input);
}

#[test]
fn weight_precision_is_an_error_for_small_code() {
    let model = model("float[1, 4] x", &[("w", &[4, 4])], "y = MatMul(x, w)");
    let mut options = Options::default();
    (options.precision, options.optimize) = (Precision::F16, Optimize::Size);
    let planned = onnxc::Compiler::new(&options).plan(model.into());
    let diagnostics = planned.err().expect("the options conflict");
    assert!(diagnostics.to_string().contains("--precision"), "{diagnostics}");
}

#[test]
fn the_program_reports_the_precision_error() {
    let directory = scratch("precision");
    let model = folder("models/mlp.onnxtxt");
    let compile = |precision: &str| {
        let mut command = onnxc();
        command
            .arg(&model)
            .arg("-o")
            .arg(directory.join("mlp.rs"))
            .args(["--precision", precision]);
        command.output().expect("the program was built")
    };
    let output = compile("int8-weights");
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success() && message.contains("scores: off by "), "{message}");
    assert!(message.contains("bytes of weights instead of"), "{message}");
    let output = compile("int5");
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && message.contains("int8-weights"), "{message}");
}

#[test]
fn generated_modules_read_narrow_weights() {
    let program = scratch("precision_program").join("narrow.rs");
    std::fs::copy(folder("programs/narrow.rs"), &program)
        .expect("the scratch directory is writable");
    run(&program);
}
