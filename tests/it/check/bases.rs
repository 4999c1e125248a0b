//! Valid models from which the malformed ones are made.

use onnxc_proto::{ModelProto, StringStringEntryProto, TrainingInfoProto};

/// Two nodes and a constant.
pub const PLAIN: &str = r#"
    <ir_version: 10, opset_import: ["" : 21]>
    g (float[2, 3] x, float[3] b) => (float[2, 3] z)
    <float[3] w = {1, 2, 3}>
    {
        [first] y = Add(x, w)
        [second] z = Mul(y, b)
    }
"#;

/// `If` with two branches.
pub const BRANCH: &str = r#"
    <ir_version: 10, opset_import: ["" : 21]>
    g (bool c, float[2] x) => (float[2] z) {
        y = If<
            then_branch = yes () => (one) { one = Relu(x) },
            else_branch = no () => (other) { other = Neg(x) }
        >(c)
        z = Abs(y)
    }
"#;

/// A `Loop` whose body adds.
pub const LOOP: &str = r#"
    <ir_version: 10, opset_import: ["" : 21]>
    g (int64 n, float[2] x) => (float[2] z)
    <bool go = {1}>
    {
        z = Loop<body = iteration (int64 i, bool on, float[2] before) => (next, after) {
            next = Identity(on)
            after = Add(before, before)
        }>(n, go, x)
    }
"#;

/// Calls of two functions.
pub const CALLS: &str = r#"
    <ir_version: 10, opset_import: ["" : 21, "f" : 1]>
    g (float[2, 3] x) => (float[6] z) {
        y = f.Flat<axis = 0>(x)
        z = f.Twice(y)
    }
    <domain: "f", opset_import: ["" : 21]>
    Flat <axis: int = 2, perm> (v) => (r) {
        t = Flatten<axis: int = @axis>(v)
        r = Squeeze(t)
    }
    <domain: "f", opset_import: ["" : 21, "f" : 1]>
    Twice (v) => (r) {
        s = f.Same(v)
        r = Add(s, s)
    }
    <domain: "f", opset_import: ["" : 21]>
    Same (v) => (r) { r = Identity(v) }
"#;

/// A sparse constant with indices in the flattened tensor.
pub const SPARSE: &str = r#"
    <ir_version: 10, opset_import: ["" : 21]>
    g (float[2, 3] x) => (float[2, 3] z)
    <sparse_tensor(float[2, 3]) w = {1.5, 2.5} at {0, 5}>
    { z = Add(x, w) }
"#;

/// A sparse constant with indices by row and column.
pub const COORDINATES: &str = r#"
    <ir_version: 10, opset_import: ["" : 21]>
    g (float[2, 3] x) => (float[2, 3] z)
    <sparse_tensor(float[2, 3]) w = {1.5, 2.5} at {0, 0, 1, 2}>
    { z = Add(x, w) }
"#;

/// The inference graph of [`training`].
pub const INFERENCE: &str = r#"
    <ir_version: 10, opset_import: ["" : 21, "ai.onnx.preview.training" : 1]>
    g (float[4] x) => (float[4] p)
    <float w = {0.5}>
    { p = Mul(x, w) }
"#;

/// A training step of [`INFERENCE`].
pub const STEP: &str = r#"
    step (float[4] t) => (float new, float loss)
    <float rate = {0.1}, int64 count = {1}, float v = {0}>
    {
        d = Sub(p, t)
        s = Mul(d, d)
        loss = ReduceSum<keepdims = 0>(s)
        g = ai.onnx.preview.training.Gradient<xs = ["w"], zs = ["x"], y = "loss">(w, x)
        new, v_new = ai.onnx.preview.training.Momentum<
            alpha = 0.9, beta = 1.0, norm_coefficient = 0.0, mode = "standard"
        >(rate, count, w, g, v)
    }
"#;

/// An initialization of [`INFERENCE`].
pub const FIRST: &str = "first () => (float w0) { w0 = Constant<value_float = 0.25>() }";

/// Returns a key and a value.
pub fn entry(key: &str, value: &str) -> StringStringEntryProto {
    StringStringEntryProto { key: Some(key.into()), value: Some(value.into()) }
}

/// Returns the training information of one step.
pub fn info(step: &str) -> TrainingInfoProto {
    let graph = |text| onnxc::import::text::graph(text).expect("the text is valid");
    TrainingInfoProto {
        initialization: Some(graph(FIRST)),
        algorithm: Some(graph(step)),
        initialization_binding: vec![entry("w", "w0")],
        update_binding: vec![entry("w", "new")],
    }
}

/// Returns [`INFERENCE`] with training information.
pub fn training(step: &str) -> ModelProto {
    let mut model = super::parse(INFERENCE);
    model.training_info.push(info(step));
    model
}
