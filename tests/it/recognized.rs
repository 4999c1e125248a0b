//! Normalizations, activations and powers that exporters write as several nodes become one kernel.

use crate::recognition::{model, recognize_model, run, run_on};
use onnxc::Options;

/// Returns the kernel calls of a model, one per line.
pub fn plan(model: &str) -> String {
    onnxc::Compiler::new(&Options::default())
        .plan(model.to_owned().into())
        .unwrap_or_else(|diagnostics| panic!("{diagnostics}"))
        .to_string()
}

/// Returns a model of an operator set before 18, where the axes of reductions are attributes.
fn with_attribute_axes(model: &str) -> String {
    let model = model.replace(r#""" : 18"#, r#""" : 13"#);
    model.replace("ReduceMean(", "ReduceMean<axes = [-1]>(").replace(", axes)", ")")
}

/// Requires that a model calls only `kernel`, with the results of the model `apart`, in which no
/// pattern matches.
pub fn check_kernel(kernel: &str, model: &str, apart: &str, shapes: &[&[usize]]) {
    let text = plan(model);
    let calls = text.lines().filter(|line| line.contains(" = ")).count();
    assert!(text.contains(kernel) && calls == 1, "{kernel}: {model}\n{text}");
    assert!(!plan(apart).contains(kernel), "{apart}");
    let (found, expected) = (run(model, shapes), run(apart, shapes));
    let far = found.iter().zip(&expected).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
    assert!(found.len() == expected.len() && far < 2e-6, "{far}: {model}");
}

const CONSTANTS: &str = "
    axes = Constant<value = int64[1] {-1}>()
    epsilon = Constant<value = float {0.0001}>()
    two = Constant<value = float {2.0}>()
    whole_two = Constant<value = int64 {2}>()
    half = Constant<value = float {0.5}>()
    minus_half = Constant<value = float {-0.5}>()
    one = Constant<value = float {1.0}>()";

/// The ways to divide `d` by the root of `v`.
const QUOTIENTS: [&str; 6] = [
    "s = Sqrt(v)  n = Div(d, s)",
    "s = Pow(v, half)  n = Div(d, s)",
    "s = Pow(v, minus_half)  n = Mul(d, s)",
    "r = Sqrt(v)  s = Reciprocal(r)  n = Mul(s, d)",
    "r = Sqrt(v)  s = Div(one, r)  n = Mul(d, s)",
    "r = Sqrt(v)  s = Div(one, r)  t = Mul(s, one)  n = Mul(t, d)",
];

/// The ways to write `d²`.
const SQUARES: [&str; 3] = ["Mul(d, d)", "Pow(d, two)", "Pow(d, whole_two)"];

/// Returns the nodes of a normalization up to `n`.
fn normalize(d: &str, square: &str, quotient: &str) -> String {
    format!(
        "{{{CONSTANTS}
    {d}
    q = {square}
    m = ReduceMean(q, axes)
    v = Add(m, epsilon)
    {quotient}"
    )
}

/// An `Abs` of numbers that are not negative keeps the pattern from matching.
fn apart(model: &str) -> String {
    model.replace("m = ReduceMean(q", "positive = Abs(q)\n m = ReduceMean(positive")
}

/// Checks a model whose axes are an input, and the same with axes as an attribute.
fn check_axes(kernel: &str, model: &str, shapes: &[&[usize]]) {
    let apart = apart(model);
    check_kernel(kernel, model, &apart, shapes);
    check_kernel(kernel, &with_attribute_axes(model), &with_attribute_axes(&apart), shapes);
}

const CENTER: &str = "mean = ReduceMean(x, axes)  d = Sub(x, mean)";

#[test]
fn layer_normalization_is_one_kernel_in_every_spelling() {
    let inputs = "float[3, 4, 10] x, float[10] w, float[10] b";
    let shapes: &[&[usize]] = &[&[3, 4, 10], &[10], &[10]];
    let check = |body: String| {
        check_axes("norm::layer_normalization", &model(inputs, &body), shapes);
    };
    for quotient in QUOTIENTS {
        let core = normalize(CENTER, SQUARES[0], quotient);
        check(format!("{core}\n e = Mul(n, w)\n y = Add(e, b)\n}}"));
        check(format!("{core}\n e = Mul(w, n)\n y = Add(b, e)\n}}"));
        check(format!("{core}\n y = Mul(n, w)\n}}"));
        check(format!("{core}\n y = Identity(n)\n}}"));
    }
    for square in SQUARES {
        let core = normalize(CENTER, square, "s = Sqrt(v)");
        check(format!("{core}\n e = Mul(w, d)\n n = Div(e, s)\n y = Add(n, b)\n}}"));
        let core = normalize(CENTER, square, "s = Sqrt(v)  r = Reciprocal(s)");
        check(format!("{core}\n e = Mul(w, r)\n n = Mul(e, d)\n y = Add(n, b)\n}}"));
    }
}

#[test]
fn layer_normalization_may_shift_after_scaling() {
    let inputs = "float[3, 4, 10] x, float[10] w, float[10] b";
    let shapes: &[&[usize]] = &[&[3, 4, 10], &[10], &[10]];
    let core = normalize(CENTER, SQUARES[0], "o = Sqrt(v)  s = Reciprocal(o)");
    for r in ["r = Mul(s, w)", "r = Mul(w, s)", "r = Pow(v, minus_half)"] {
        let body = format!(
            "{core}
            {r}
            p = Mul(x, r)
            n = Mul(mean, r)
            t = Sub(b, n)
            y = Add(p, t)
        }}"
        );
        let model = model(inputs, &body);
        check_kernel("norm::layer_normalization", &model, &apart(&model), shapes);
    }
}

#[test]
fn rms_normalization_is_one_kernel_in_every_spelling() {
    let inputs = "float[3, 4, 10] d, float[10] w";
    let shapes: &[&[usize]] = &[&[3, 4, 10], &[10]];
    let check = |body: String| {
        check_axes("norm::rms_normalization", &model(inputs, &body), shapes);
    };
    for quotient in QUOTIENTS {
        for square in SQUARES {
            let core = normalize("", square, quotient);
            check(format!("{core}\n y = Mul(w, n)\n}}"));
            check(format!("{core}\n y = Identity(n)\n}}"));
        }
    }
}

#[test]
fn rows_may_have_several_axes_and_any_number_of_them() {
    let body = normalize(CENTER, SQUARES[1], QUOTIENTS[0]);
    let body = format!("{body}\n e = Mul(n, w)\n y = Add(e, b)\n}}")
        .replace("int64[1] {-1}", "int64[2] {2, -2}");
    let inputs = "float[batch, 4, 10] x, float[4, 10] w, float[1, 4, 10] b";
    let text = recognize_model(model(inputs, &body));
    assert!(text.contains("LayerNormalization <axis = 1"), "{text}");
    assert!(!text.contains("ReduceMean"), "{text}");
}

#[test]
fn other_statistics_are_no_layer_normalization() {
    let inputs = "float[4, 4, 4] x, float[4, 4, 4] w";
    let body = format!("{}\n y = Mul(n, w)\n}}", normalize(CENTER, SQUARES[0], QUOTIENTS[0]));
    assert!(recognize_model(model(inputs, &body)).contains("LayerNormalization"));
    // The factor has a number for each element, so it is no scale.
    assert!(recognize_model(model(inputs, &body)).contains("Mul"));
    for (from, to) in [
        ("{-1}", "{1}"),
        ("d = Sub(x, mean)", "d = Sub(mean, x)"),
        ("q = Mul(d, d)", "q = Mul(d, x)"),
        ("ReduceMean(q, axes)", "ReduceSum(q, axes)"),
        ("v = Add(m, epsilon)", "v = Add(m, x)"),
    ] {
        let text = recognize_model(model(inputs, &body.replace(from, to)));
        assert!(!text.contains("LayerNormalization"), "{to}: {text}");
    }
    // If the root is used otherwise, everything before it is computed anyway.
    let shared = body.replace("y = Mul(n, w)", "u = Mul(s, w)\n y = Mul(n, u)");
    let text = recognize_model(model(inputs, &shared));
    assert!(!text.contains("LayerNormalization"), "{text}");
}

#[test]
fn the_gradient_of_a_written_normalization_is_one_kernel() {
    for (center, before, op) in
        [(CENTER, "", "LayerNormalizationGrad"), ("d = Mul(x, one)", "", "RMSNormalizationGrad")]
    {
        let core = normalize(center, SQUARES[1], QUOTIENTS[0]);
        let text = recognize_model(format!(
            "<ir_version: 10, opset_import: [\"\": 18, \"ai.onnx.preview.training\": 1]>
            model (float[3, 10] x, float[10] w, float[3, 10] t)
                => (float[3, 10] dx, float[10] dw) {core}
                {before}
                scaled = Mul(n, w)
                z = Mul(scaled, t)
                dx, dw = ai.onnx.preview.training.Gradient
                    <xs = [\"x\", \"w\"], y = \"z\">(x, w)
            }}"
        ));
        assert!(text.contains(op) && !text.contains("Sqrt"), "{text}");
    }
}

#[test]
fn group_normalization_is_one_kernel() {
    let inputs = "float[2, 6, 3, 5] x";
    let body = "{
        split = Constant<value = int64[3] {0, 3, -1}>()
        shape = Constant<value = int64[4] {2, 6, 3, 5}>()
        ones = Constant<value = float[3] {1, 1, 1}>()
        zeros = Constant<value = float[3] {0, 0, 0}>()
        w = Constant<value = float[6, 1, 1] {1, 2, 3, 4, 5, 6}>()
        b = Constant<value = float[1, 6, 1, 1] {0.5, 1, 0, -1, 2, 3}>()
        groups = Reshape(x, split)
        normal = InstanceNormalization<epsilon = 0.001>(groups, ones, zeros)
        back = Reshape(normal, shape)
        scaled = Mul(back, w)
        y = Add(scaled, b)
    }";
    let shapes: &[&[usize]] = &[&[2, 6, 3, 5]];
    let plain =
        body.replace("scaled = Mul(back, w)", "").replace("Add(scaled, b)", "Identity(back)");
    let apart = |body: &str| {
        body.replace("Reshape(normal", "Neg(normal)\n y0 = Neg(y1)\n back = Reshape(y0")
    };
    let apart = |body: &str| apart(body).replace("back = Neg", "y1 = Neg");
    // A number is as good as one for each channel.
    let numbers = body
        .replace("float[6, 1, 1] {1, 2, 3, 4, 5, 6}", "float {2}")
        .replace("float[1, 6, 1, 1] {0.5, 1, 0, -1, 2, 3}", "float[1] {0.5}");
    for body in [body, &numbers] {
        let text = recognize_model(model(inputs, body));
        assert!(!text.contains("Mul") && !text.contains("Add"), "{text}");
    }
    for body in [body, &numbers, &plain] {
        let models = [model(inputs, body), model(inputs, &apart(body))];
        check_kernel("norm::group_normalization", &models[0], &models[1], shapes);
    }
    // Groups that are no channels.
    let text = recognize_model(model(inputs, &body.replace("{0, 3, -1}", "{1, 3, -1}")));
    assert!(!text.contains("GroupNormalization"), "{text}");
}

#[test]
fn written_activations_are_one_kernel() {
    let constants = "
        one = Constant<value = float {1.0}>()
        three = Constant<value = float {3.0}>()
        zero = Constant<value = float {0.0}>()
        six = Constant<value = float {6.0}>()
        sixth = Constant<value = float {0.16666667}>()";
    let clip = "a = Add(x, three)  c = Clip(a, zero, six)";
    let cases = [
        ("hard_sigmoid", clip, "y = Div(c, six)"),
        ("hard_sigmoid", clip, "y = Mul(sixth, c)"),
        ("hard_swish", clip, "e = Mul(x, c)  y = Div(e, six)"),
        ("hard_swish", clip, "e = Mul(c, x)  y = Mul(e, sixth)"),
        ("hard_swish", clip, "e = Div(c, six)  y = Mul(x, e)"),
        ("mish", "c = Softplus(x)", "t = Tanh(c)  y = Mul(x, t)"),
        ("mish", "e = Exp(x)  p = Add(one, e)  c = Log(p)", "t = Tanh(c)  y = Mul(t, x)"),
        ("swish", "c = Sigmoid(x)", "y = Mul(x, c)"),
    ];
    for (kernel, gate, product) in cases {
        let body = format!("{{{constants}\n {gate}\n {product}\n}}");
        // Every gate is at least zero.
        let mut apart = format!("{{{constants}\n {gate}\n p0 = Abs(c)\n {product}\n}}");
        apart = apart.replace(product, &product.replace("(c", "(p0").replace(", c)", ", p0)"));
        let inputs = "float[40] x";
        let kernel = format!("activation::{kernel}");
        check_kernel(&kernel, &model(inputs, &body), &model(inputs, &apart), &[&[40]]);
    }
}

#[test]
fn a_parametric_relu_with_one_slope_is_a_leaky_relu() {
    let text = |slope| {
        let body = format!("{{ slope = Constant<value = {slope}>()  y = PRelu(x, slope) }}");
        plan(&model("float[2, 3] x", &body))
    };
    for slope in ["float {0.25}", "float[1, 1] {0.25}", "float[3] {0.25, 0.25, 0.25}"] {
        assert!(text(slope).contains("activation::leaky_relu"), "{}", text(slope));
    }
    let several = text("float[3] {0.25, 0.5, 0.25}");
    assert!(several.contains("activation::prelu"), "{several}");
}

/// Returns a model that raises the logarithm of its input to a constant power.
fn power(exponent: &str) -> String {
    let body = format!("{{ e = Constant<value = {exponent}>()  y = Pow(x, e) }}");
    model("float[9] x", &body)
}

#[test]
fn powers_by_a_constant_call_no_general_power() {
    for (exponent, calls, kernel) in [
        ("float {1}", 1, "reshape::identity"),
        ("float {2}", 1, "binary::mul"),
        ("float[1] {3}", 2, "binary::mul"),
        ("int64 {2}", 1, "binary::mul"),
        ("int32[1] {-1}", 1, "unary::reciprocal"),
        ("float {0.5}", 1, "unary::half_power"),
        ("double {-0.5}", 1, "unary::inverse_half_power"),
        ("float[9] {2, 2, 2, 2, 2, 2, 2, 2, 2}", 1, "binary::mul"),
        ("int64 {5}", 1, "binary::pow (x@input 0, exponent@"),
    ] {
        let text = plan(&power(exponent));
        let found = text.lines().filter(|line| line.contains(" = ")).count();
        assert!(found == calls && text.contains(kernel), "{exponent}: {text}");
    }
}

#[test]
fn powers_keep_the_special_cases() {
    for exponent in [0.0, 1.0, 2.0, 3.0, -1.0, 0.5, -0.5, 2.5] {
        let model = power(&format!("float {{{exponent}}}"));
        let x = [-0.0, 0.0, 1e-30, 0.7, -2.0, 1e30, f32::INFINITY, f32::NEG_INFINITY, f32::NAN];
        let y = crate::recognition::run_on(&model, &[(&[9], &x)]);
        for (x, y) in x.into_iter().zip(y) {
            let expected = f64::from(x).powf(exponent) as f32;
            let same = y.is_nan() && expected.is_nan()
                || y as f32 == expected && y.is_sign_negative() == expected.is_sign_negative()
                || (y / f64::from(expected) - 1.0).abs() < 2e-7;
            assert!(same, "{x}^{exponent} is {y}, not {expected}");
        }
    }
}

/// A gate or a root that occurs twice is not that of the function.
#[test]
fn a_factor_that_occurs_twice_counts_twice() {
    let constants = "
        axes = Constant<value = int64[1] {-1}>()
        three = Constant<value = float {3.0}>()
        zero = Constant<value = float {0.0}>()
        six = Constant<value = float {6.0}>()";
    let clip = "a = Add(x, three)  c = Clip(a, zero, six)  e = Mul(c, c)";
    let root = "mean = ReduceMean(x, axes)  d = Sub(x, mean)  q = Mul(d, d)
        v = ReduceMean(q, axes)  w = Add(v, three)  s = Sqrt(w)  i = Reciprocal(s)  r = Mul(i, i)";
    for (nodes, kernel) in [
        (format!("{clip}  y = Div(e, six)"), "activation::hard"),
        (format!("{clip}  f = Mul(e, x)  y = Div(f, six)"), "activation::hard"),
        (format!("{root}  y = Mul(r, three)"), "norm::"),
        (format!("{root}  y = Mul(d, r)"), "norm::"),
        (
            format!("{root}  m = Mul(x, r)  n = Mul(mean, r)  o = Sub(six, n)  y = Add(m, o)"),
            "norm::",
        ),
    ] {
        let text = plan(&model("float[2, 40] x", &format!("{{{constants}\n {nodes}\n}}")));
        assert!(!text.contains(kernel), "{nodes}\n{text}");
    }
}

/// Returns the kernel calls of `nodes` without a declared type of the result.
fn plan_of(inputs: &str, nodes: &str) -> String {
    let opsets = r#""" : 18"#;
    plan(&format!("<ir_version: 10, opset_import: [{opsets}]> g ({inputs}) => (y) {{ {nodes} }}"))
}

/// A free size may be 1, and be broadcast to the size of a constant or of a mask.
#[test]
fn what_broadcasts_a_free_size_is_kept() {
    let attention = |add: &str| {
        format!(
            "s = Constant<value = float {{0.5}}>()  kt = Transpose<perm = [0, 1, 3, 2]>(k)
            qk = MatMul(q, kt)  sc = Mul(qk, s)  {add}  w = Softmax<axis = -1>(sm)
            y = MatMul(w, v)"
        )
    };
    let zeros = |shape: &str| {
        attention(&format!("z = Constant<value = float[{shape}] {{0, 0}}>()  sm = Add(sc, z)"))
    };
    let of = |sizes: &str, keys: &str| {
        format!("float[{sizes}, 4] q, float[{keys}, 5, 4] k, float[{keys}, 5, 4] v")
    };
    let bias = "a = Transpose<perm = [0, 2, 3, 1]>(x)
        w = Constant<value = float[4, 2] {1, 2, 3, 4, 5, 6, 7, 8}>()  m = MatMul(a, w)
        z = Constant<value = float[2, 1, 1, 1] {0, 0}>()  s = Add(m, z)
        y = Transpose<perm = [0, 3, 1, 2]>(s)";
    let masked = format!("{}, float[N, 1, 3, 5] m", of("1, 2, 3", "1, 2"));
    let other_batch = format!("{}, float[N, 1, 1, 5] m", of("B, 2, 3", "B, 2"));
    for (inputs, nodes, kernel) in [
        (of("B, 2, 3", "B, 2"), zeros("2, 1, 1, 1"), "attention::"),
        (of("1, 2, S", "1, 2"), zeros("2, 1"), "attention::"),
        (masked, attention("sm = Add(sc, m)"), "attention::"),
        (other_batch, attention("sm = Add(sc, m)"), "attention::"),
        ("float[B, 4, 3, 3] x".to_owned(), bias.to_owned(), "conv::"),
    ] {
        let text = plan_of(&inputs, &nodes);
        assert!(!text.contains(kernel), "{inputs} {nodes}\n{text}");
    }
    let text = plan_of(&of("B, 2, 3", "B, 2"), &zeros("1, 1, 1, 1").replace("{0, 0}", "{0}"));
    assert!(text.contains("attention::"), "{text}");
}

/// Numbers that a rule rounds to `float` have too few bits for `double`.
#[test]
fn functions_of_doubles_keep_their_bits() {
    let gate = "six = Constant<value = double {6.0}>()  three = Constant<value = double {3.0}>()
        zero = Constant<value = double {0.0}>()  a = Add(x, three)  c = Clip(a, zero, six)
        y = Div(c, six)";
    let text = plan_of("double[2, 8] x", gate);
    assert!(!text.contains("activation::hard"), "{text}");
    let attention = "s = Constant<value = double {0.1}>()  kt = Transpose<perm = [0, 1, 3, 2]>(k)
        qk = MatMul(q, kt)  sc = Mul(qk, s)  w = Softmax<axis = -1>(sc)  y = MatMul(w, v)";
    let inputs = "double[1, 2, 3, 4] q, double[1, 2, 5, 4] k, double[1, 2, 5, 4] v";
    assert!(!plan_of(inputs, attention).contains("attention::"));
    assert!(plan_of(inputs, &attention.replace("0.1", "0.25")).contains("attention::"));
    let gelu = |root: &str| {
        let nodes = format!(
            "r = Constant<value = double {{{root}}}>()  o = Constant<value = double {{1.0}}>()
            h = Constant<value = double {{0.5}}>()  a = Div(x, r)  e = Erf(a)  t = Add(e, o)
            p = Mul(x, t)  y = Mul(p, h)"
        );
        plan_of("double[1, 8] x", &nodes).contains("gelu")
    };
    assert!(!gelu("1.4142135") && gelu("1.4142135623730951"));
}

/// A bias times 0 is nothing, also if it is infinite.
#[test]
fn a_bias_that_is_scaled_by_zero_is_not_read() {
    let text =
        model("float[1, 1] a, float[1, 1] b, float[1] c", "{ y = Gemm<beta = 0.0>(a, b, c) }");
    let one: &[usize] = &[1, 1];
    let inputs: [(&[usize], &[f32]); 3] = [(one, &[2.0]), (one, &[3.0]), (&[1], &[f32::INFINITY])];
    assert_eq!(run_on(&text, &inputs), [6.0]);
}

/// Two scales of channels are not combined to one that is infinite.
#[test]
fn combined_scales_stay_finite() {
    let body = "{
        sizes = Constant<value = int64[2] {16, 16}>()  none = ConstantOfShape(sizes)
        matrix = EyeLike(none)  filters = Constant<value = int64[4] {16, 16, 1, 1}>()
        w = Reshape(matrix, filters)  c = Conv(x, w)  r = Relu(c)
        channels = Constant<value = int64[3] {16, 1, 1}>()
        k = ConstantOfShape<value = float[1] {1e30}>(channels)
        m = Mul(r, k)  n = Mul(m, k)  y = Conv(n, w)
    }";
    let shape = [1, 16, 2, 2];
    let x = [1e-38; 64];
    let found = run_on(&model("float[1, 16, 2, 2] x", body), &[(&shape, &x)]);
    assert!(found.iter().all(|y| (y / 1e22 - 1.0).abs() < 1e-5), "{found:?}");
}

/// Weights in which a scale would lose their bits, and a bias that it would make infinite, are not
/// scaled.
#[test]
fn a_scale_leaves_the_range_of_no_weight() {
    for (nodes, x, expected) in [
        (
            "w = Constant<value = float[2, 2] {1e-22, 0, 0, 3e-22}>()
            s = Constant<value = float {1e-24}>()  m = MatMul(x, w)  y = Mul(m, s)",
            [1e22, 2e22],
            [1e-24, 6e-24],
        ),
        (
            "w = Constant<value = float[2, 2] {1, 0, 0, 1}>()
            b = Constant<value = float[2] {3e38, 3e38}>()
            s = Constant<value = float {2.0}>()  m = MatMul(x, w)  a = Add(m, b)  y = Mul(a, s)",
            [-3e38, -2.5e38],
            [0.0, 1e38],
        ),
    ] {
        let body = format!("{{ {nodes} }}");
        let found = run_on(&model("float[1, 2] x", &body), &[(&[1, 2], &x)]);
        for (found, wanted) in found.iter().zip(expected) {
            assert!((found - wanted).abs() <= 1e-6 * f64::abs(wanted), "{nodes}: {found}");
        }
    }
}
