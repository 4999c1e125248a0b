//! Operators of the first versions of ONNX that ONNX Runtime has kept.

use super::super::{Entry, entry, function, norm::layer};
use crate::{
    diag::{Code, Diagnostic, Result},
    ir::Reader,
};

pub const OPS: &[Entry] = &[
    function("Affine", 1, affine),
    function("Crop", 1, crop),
    function("DynamicSlice", 1, |_| {
        Ok("(x, starts, ends, axes) => (y) { y = Slice (x, starts, ends, axes) }".to_owned())
    }),
    function("GRUUnit", 1, gru_unit),
    function("GivenTensorFill", 1, given_tensor_fill),
    function("ImageScaler", 1, image_scaler),
    entry("LayerNormalization", 1, layer::read),
    function("MeanVarianceNormalization", 1, mean_variance),
    function("ParametricSoftplus", 1, |node| scaled(node, "Softplus")),
    function("Scale", 1, |node| {
        let scale = node.float("scale", 1.0)?;
        Ok(format!("(x) => (y) {{ {} y = Mul (x, scale) }}", constant("scale", scale)))
    }),
    function("ScaledTanh", 1, |node| scaled(node, "Tanh")),
    function("ThresholdedRelu", 1, |node| {
        let alpha = node.float("alpha", 1.0)?;
        Ok(format!("(x) => (y) {{ y = ThresholdedRelu <alpha = {alpha:?}> (x) }}"))
    }),
];

/// The nodes of a constant in the type of `x`.
fn constant(name: &str, value: f32) -> String {
    format!(
        "{name}_float = Constant <value_float = {value:?}> () {name} = CastLike ({name}_float, x)"
    )
}

/// `alpha · x + beta`.
fn affine(node: &mut Reader<'_>) -> Result<String> {
    let alpha = constant("alpha", node.float("alpha", 1.0)?);
    let beta = constant("beta", node.float("beta", 0.0)?);
    Ok(format!("(x) => (y) {{ {alpha} {beta} product = Mul (x, alpha) y = Add (product, beta) }}"))
}

/// `alpha · f(beta · x)`.
fn scaled(node: &mut Reader<'_>, operator: &str) -> Result<String> {
    let alpha = constant("alpha", required_float(node, "alpha")?);
    let beta = constant("beta", required_float(node, "beta")?);
    Ok(format!(
        "(x) => (y) {{
            {alpha} {beta}
            inner = Mul (x, beta) outer = {operator} (inner) y = Mul (outer, alpha)
        }}"
    ))
}

fn required_float(node: &mut Reader<'_>, name: &str) -> Result<f32> {
    node.maybe_float(name)?.ok_or_else(|| {
        Diagnostic::new(Code::MissingAttribute, format!("the attribute `{name}` is missing"))
    })
}

/// The part of images between the borders left, top, right and bottom, or of a size from left and
/// top on.
fn crop(node: &mut Reader<'_>) -> Result<String> {
    let border = node.maybe_ints("border")?.unwrap_or_default();
    let [left, top, right, bottom] = border.as_slice() else {
        let message = format!("`border` has {} elements, but must have 4", border.len());
        return Err(Diagnostic::new(Code::BadAttribute, message));
    };
    let ends = match node.maybe_ints("scale")?.unwrap_or_default().as_slice() {
        [] => format!(
            "sizes = Shape <start = 2, end = 4> (x)
            behind = Constant <value_ints = [{bottom}, {right}]> ()
            ends = Sub (sizes, behind)"
        ),
        [height, width] => {
            format!("ends = Constant <value_ints = [{}, {}]> ()", top + height, left + width)
        }
        other => {
            let message = format!("`scale` has {} elements, but must have 2", other.len());
            return Err(Diagnostic::new(Code::BadAttribute, message));
        }
    };
    Ok(format!(
        "(x) => (y) {{
            {ends}
            starts = Constant <value_ints = [{top}, {left}]> ()
            axes = Constant <value_ints = [2, 3]> ()
            y = Slice (x, starts, ends, axes)
        }}"
    ))
}

/// A constant tensor, whose shape is an attribute or follows from the input.
fn given_tensor_fill(node: &mut Reader<'_>) -> Result<String> {
    let values = node.maybe_floats("values")?.unwrap_or_default();
    let extra = node.maybe_ints("extra_shape")?.unwrap_or_default();
    let shape = node.maybe_ints("shape")?.unwrap_or_default();
    let sizes = match (node.has(0), node.flag("input_as_shape", false)?) {
        (false, _) => format!("sizes = Constant <value_ints = {shape:?}> ()"),
        (true, true) => "sizes = Cast <to = 7> (x)".to_owned(),
        (true, false) => "sizes = Shape (x)".to_owned(),
    };
    let all = if extra.is_empty() {
        "all = Identity (sizes)".to_owned()
    } else {
        format!(
            "extra = Constant <value_ints = {extra:?}> () all = Concat <axis = 0> (sizes, extra)"
        )
    };
    Ok(format!(
        "(x) => (y) {{
            values = Constant <value_floats = {values:?}> () {sizes} {all}
            y = Reshape (values, all)
        }}"
    ))
}

/// One step of a GRU, whose gates are computed but for their activations. After the end of a
/// sequence, its state stays, or becomes zeros.
fn gru_unit(node: &mut Reader<'_>) -> Result<String> {
    let after = if node.flag("drop_states", false)? { "zero" } else { "previous" };
    Ok(format!(
        "(previous, gates, lengths, t) => (y) {{
            reset, update, output = Split <axis = -1, num_outputs = 3> (gates)
            share = Sigmoid (update)
            new = Tanh (output)
            difference = Sub (previous, new)
            kept = Mul (share, difference)
            state = Add (new, kept)
            step = Squeeze (t)
            is_running = Less (step, lengths)
            last = Constant <value_ints = [-1]> ()
            running = Unsqueeze (is_running, last)
            zero_float = Constant <value_float = 0.0> () zero = CastLike (zero_float, gates)
            y = Where (running, state, {after})
        }}"
    ))
}

/// `scale · x + bias`, with one bias for each channel.
fn image_scaler(node: &mut Reader<'_>) -> Result<String> {
    let scale = constant("scale", node.float("scale", 1.0)?);
    let bias = node.maybe_floats("bias")?.unwrap_or_default();
    Ok(format!(
        "(x) => (y) {{
            {scale}
            bias_floats = Constant <value_floats = {bias:?}> () biases = CastLike (bias_floats, x)
            axes = Constant <value_ints = [1, 2]> () bias = Unsqueeze (biases, axes)
            product = Mul (x, scale) y = Add (product, bias)
        }}"
    ))
}

/// `(x - mean) / deviation` of each channel, or of all together.
fn mean_variance(node: &mut Reader<'_>) -> Result<String> {
    let all = node.flag("across_channels", false)?;
    let axes = if all { "[0, 1, 2, 3]" } else { "[0, 2, 3]" };
    if node.flag("normalize_variance", true)? {
        return Ok(format!("(x) => (y) {{ y = MeanVarianceNormalization <axes = {axes}> (x) }}"));
    }
    Ok(format!(
        "(x) => (y) {{
            axes = Constant <value_ints = {axes}> ()
            mean = ReduceMean (x, axes) y = Sub (x, mean)
        }}"
    ))
}
