//! Operators on quantized tensors: dequantize, compute, quantize.
//!
//! The pass `quantize` replaces these nodes by integer arithmetic.

use super::{
    super::{Entry, microsoft_function},
    Passed, channels_first, in_angles, pass_attributes,
};
use crate::{
    diag::{Code, Diagnostic, Result, counted},
    ir::Reader,
};

pub const OPS: &[Entry] = &[
    microsoft_function("DequantizeLinear", |node| linear(node, "DequantizeLinear")),
    microsoft_function("DynamicQuantizeMatMul", dynamic_matmul),
    microsoft_function("MatMulIntegerToFloat", matmul_to_float),
    microsoft_function("QGemm", gemm),
    microsoft_function("QLinearAdd", |node| binary(node, "Add")),
    microsoft_function("QLinearAveragePool", average_pool),
    microsoft_function("QLinearConcat", concat),
    microsoft_function("QLinearConv", conv),
    microsoft_function("QLinearGlobalAveragePool", global_average_pool),
    microsoft_function("QLinearLeakyRelu", |node| {
        let alpha = node.float("alpha", 0.01)?;
        unary(node, &format!("r = LeakyRelu <alpha = {alpha:?}> (x)"))
    }),
    microsoft_function("QLinearMul", |node| binary(node, "Mul")),
    microsoft_function("QLinearReduceMean", reduce_mean),
    microsoft_function("QLinearSigmoid", |node| unary(node, "r = Sigmoid (x)")),
    microsoft_function("QLinearSoftmax", softmax),
    microsoft_function("QLinearWhere", select),
    microsoft_function("QuantizeLinear", |node| linear(node, "QuantizeLinear")),
];

/// Writes the node that dequantizes `q`, of the scale and the zero point of the same name.
fn dequantize(q: &str, x: &str) -> String {
    format!("{x} = DequantizeLinear ({q}, {q}_scale, {q}_zero)")
}

/// Writes the nodes that quantize `r` to `y`. Its type is that of input `zero`, its zero point, or
/// else of input `like`. Only a zero point gives the type in every version, so a missing one is
/// written.
fn quantize(node: &Reader<'_>, zero: usize, like: usize) -> Result<String> {
    if node.has(zero) {
        return Ok("y = QuantizeLinear (r, y_scale, y_zero)".to_owned());
    }
    let dtype = node.dtype(like)?;
    Ok(format!(
        "scale_shape = Shape (y_scale)
        no_zero = ConstantOfShape <value = {dtype}[1] {{0}}> (scale_shape)
        y = QuantizeLinear (r, y_scale, no_zero)"
    ))
}

/// `quantize(f(dequantize(x)))`, where `nodes` compute `r` from `x`.
fn unary(node: &Reader<'_>, nodes: &str) -> Result<String> {
    let (from, to) = (dequantize("q", "x"), quantize(node, 4, 0)?);
    Ok(format!("(q, q_scale, q_zero, y_scale, y_zero) => (y) {{ {from} {nodes} {to} }}"))
}

/// `quantize(f(dequantize(a), dequantize(b)))`.
fn binary(node: &mut Reader<'_>, operator: &str) -> Result<String> {
    let [a, b] = [dequantize("a", "x"), dequantize("b", "z")];
    let to = quantize(node, 7, 0)?;
    Ok(format!(
        "(a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero) => (y) {{
            {a} {b} r = {operator} (x, z) {to}
        }}"
    ))
}

/// `Where` of two quantized tensors.
fn select(node: &mut Reader<'_>) -> Result<String> {
    let [a, b] = [dequantize("a", "x"), dequantize("b", "z")];
    let to = quantize(node, 8, 1)?;
    Ok(format!(
        "(condition, a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero) => (y) {{
            {a} {b} r = Where (condition, x, z) {to}
        }}"
    ))
}

/// `Concat` of quantized tensors, each with its scale and zero point.
fn concat(node: &mut Reader<'_>) -> Result<String> {
    let axis = node.required_int("axis")?;
    let given = node.inputs.len().saturating_sub(2);
    if given == 0 || !given.is_multiple_of(3) {
        let message =
            format!("after the zero point of the output, the node has {}", counted(given, "input"));
        return Err(Diagnostic::new(Code::BadArity, message)
            .help("give each tensor with its scale and its zero point"));
    }
    let count = given / 3;
    let list = |text: fn(usize) -> String| (0..count).map(text).collect::<Vec<_>>();
    let inputs = list(|i| format!("q{i}, q{i}_scale, q{i}_zero")).join(", ");
    let from = list(|i| dequantize(&format!("q{i}"), &format!("x{i}"))).join(" ");
    let parts = list(|i| format!("x{i}")).join(", ");
    let to = quantize(node, 1, 2)?;
    Ok(format!(
        "(y_scale, y_zero, {inputs}) => (y) {{
            {from} r = Concat <axis = {axis}> ({parts}) {to}
        }}"
    ))
}

/// `Softmax`. Before version 13 of the operator, it is over all axes from `axis` on. ONNX Runtime
/// multiplies by the whole part of the inverse of the output's scale: 254 for a scale slightly
/// above 1/255.
fn softmax(node: &mut Reader<'_>) -> Result<String> {
    let (axis, version) = (node.int("axis", -1)?, node.required_int("opset")?);
    let nodes = match version {
        13.. => format!("r = Softmax <axis = {axis}> (x)"),
        _ => format!(
            "rows = Flatten <axis = {axis}> (x)
            shares = Softmax <axis = -1> (rows)
            sizes = Shape (x)
            r = Reshape (shares, sizes)"
        ),
    };
    let (from, to) = (dequantize("q", "x"), quantize(node, 4, 0)?);
    Ok(format!(
        "(q, q_scale, q_zero, given_scale, y_zero) => (y) {{
            inverse = Reciprocal (given_scale)
            whole = Floor (inverse)
            y_scale = Reciprocal (whole)
            {from} {nodes} {to}
        }}"
    ))
}

fn reduce_mean(node: &mut Reader<'_>) -> Result<String> {
    let keep = node.int("keepdims", 1)?;
    let axes = node.maybe_ints("axes")?.unwrap_or_default();
    if axes.is_empty() {
        return unary(node, &format!("r = ReduceMean <keepdims = {keep}> (x)"));
    }
    unary(
        node,
        &format!(
            "axes = Constant <value_ints = {axes:?}> ()
            r = ReduceMean <keepdims = {keep}> (x, axes)"
        ),
    )
}

/// Writes `nodes`, from `x` to `r`, for images with channels last if the node has them so.
fn of_images(node: &mut Reader<'_>, nodes: &str) -> Result<String> {
    if !node.flag("channels_last", false)? {
        return unary(node, nodes);
    }
    let [first, last] = channels_first(node.rank(0)?)?;
    let (from, to) = (dequantize("q", "x"), quantize(node, 4, 0)?);
    Ok(format!(
        "(q_last, q_scale, q_zero, y_scale, y_zero) => (y_last) {{
            q = Transpose <perm = {first:?}> (q_last)
            {from} {nodes} {to}
            y_last = Transpose <perm = {last:?}> (y)
        }}"
    ))
}

/// `AveragePool`. ONNX Runtime counts the elements of a window that lie beyond the pads, which only
/// `ceil_mode` makes, as it counts the pads.
fn average_pool(node: &mut Reader<'_>) -> Result<String> {
    let counts = node.int("count_include_pad", 0)?;
    let ceil_mode = node.int("ceil_mode", 0)?;
    let auto_pad = node.string("auto_pad", "NOTSET")?;
    if counts != 0 && ceil_mode != 0 && matches!(auto_pad.as_str(), "NOTSET" | "VALID") {
        return average_pool_of_padded(node);
    }
    let others = [Passed::Ints("kernel_shape"), Passed::Ints("pads"), Passed::Ints("strides")];
    let mut attributes = pass_attributes(node, &others)?;
    attributes.push(format!(
        "auto_pad = {auto_pad:?}, ceil_mode = {ceil_mode}, count_include_pad = {counts}"
    ));
    of_images(node, &format!("r = AveragePool {} (x)", in_angles(&attributes)))
}

/// Pads an image until the last window fits, and averages. `plain` has the right number of windows:
/// none starts in the pads at the end.
fn average_pool_of_padded(node: &mut Reader<'_>) -> Result<String> {
    let kernel = node.maybe_ints("kernel_shape")?.unwrap_or_default();
    let axes = kernel.len();
    let strides = node.maybe_ints("strides")?.unwrap_or_else(|| vec![1; axes]);
    let pads = node.maybe_ints("pads")?.unwrap_or_else(|| vec![0; 2 * axes]);
    if [strides.len(), pads.len() / 2] != [axes; 2] || axes + 2 != node.rank(0)? {
        let message = format!("the window does not fit an input of {} axes", node.rank(0)?);
        return Err(Diagnostic::new(Code::BadAttribute, message));
    }
    let begins = pads.iter().take(axes).copied();
    let ends = pads.iter().skip(axes).zip(&strides).map(|(pad, stride)| pad + stride - 1);
    let padded: Vec<i64> = begins.chain(ends).collect();
    let spatial: Vec<usize> = (2..axes + 2).collect();
    of_images(
        node,
        &format!(
            "plain = AveragePool <ceil_mode = 1, kernel_shape = {kernel:?}, pads = {pads:?},
                strides = {strides:?}> (x)
            counts = Shape <start = 2> (plain)
            spatial = Constant <value_ints = {spatial:?}> ()
            from_first = Constant <value_ints = {zeros:?}> ()
            pads = Constant <value_ints = {padded:?}> ()
            zero = Constant <value_float = 0.0> ()
            padded = Pad (x, pads, zero, spatial)
            all = AveragePool <kernel_shape = {kernel:?}, strides = {strides:?}> (padded)
            r = Slice (all, from_first, counts, spatial)",
            zeros = vec![0; axes],
        ),
    )
}

fn global_average_pool(node: &mut Reader<'_>) -> Result<String> {
    of_images(node, "r = GlobalAveragePool (x)")
}

/// ONNX's `QLinearConv`, for images with channels last if the node has them so.
fn conv(node: &mut Reader<'_>) -> Result<String> {
    let attributes = in_angles(&pass_attributes(node, super::conv::WINDOW)?);
    let others = "x_scale, x_zero, w, w_scale, w_zero, y_scale, y_zero, b";
    let conv = format!("y = QLinearConv {attributes} (x, {others})");
    if !node.flag("channels_last", false)? {
        return Ok(format!("(x, {others}) => (y) {{ {conv} }}"));
    }
    let nodes = super::transpose_around(node, &conv)?;
    Ok(format!("(x_last, {others}) => (y_last) {{ {nodes} }}"))
}

/// ONNX's operator of the same name. A scale with one element and one axis is a scalar.
fn linear(node: &mut Reader<'_>, operator: &str) -> Result<String> {
    let axis = node.int("axis", 1)?;
    let len = node.ty(1).and_then(|ty| ty.as_tensor()?.len().known());
    let per_tensor = len == Some(1);
    let [scale, zero] = match per_tensor {
        true => ["Squeeze (scale)", "Squeeze (zero)"],
        false => ["Identity (scale)", "Identity (zero)"],
    };
    let (zero, arguments) = match node.has(2) {
        true => (format!("z = {zero}"), "x, s, z"),
        false => (String::new(), "x, s"),
    };
    Ok(format!(
        "(x, scale, zero) => (y) {{
            s = {scale} {zero} y = {operator} <axis = {axis}> ({arguments})
        }}"
    ))
}

/// Writes the nodes that scale the integers `p` by `factor` and add input `bias`.
fn scale_product(node: &Reader<'_>, bias: usize) -> String {
    let sum = if node.has(bias) { "y = Add (scaled, bias)" } else { "y = Identity (scaled)" };
    format!("real = CastLike (p, factor) scaled = Mul (real, factor) {sum}")
}

/// The product of `A`, quantized when the model runs, and `B`.
fn dynamic_matmul(node: &mut Reader<'_>) -> Result<String> {
    let scale = scale_product(node, 4);
    Ok(format!(
        "(a, b, b_scale, b_zero, bias) => (y) {{
            q, a_scale, a_zero = DynamicQuantizeLinear (a)
            p = MatMulInteger (q, b, a_zero, b_zero)
            factor = Mul (a_scale, b_scale)
            {scale}
        }}"
    ))
}

fn matmul_to_float(node: &mut Reader<'_>) -> Result<String> {
    let scale = scale_product(node, 6);
    Ok(format!(
        "(a, b, a_scale, b_scale, a_zero, b_zero, bias) => (y) {{
            p = MatMulInteger (a, b, a_zero, b_zero)
            factor = Mul (a_scale, b_scale)
            {scale}
        }}"
    ))
}

/// `Gemm` of integers. Without a scale of the output, it is a float.
fn gemm(node: &mut Reader<'_>) -> Result<String> {
    let alpha = match node.float("alpha", 1.0)? {
        1.0 => "factor = Identity (scales)".to_owned(),
        alpha => {
            format!("alpha = Constant <value_float = {alpha:?}> () factor = Mul (scales, alpha)")
        }
    };
    let side = |transposed: bool, from: &str, to: &str| match transposed {
        true => format!("{to} = Transpose <perm = [1, 0]> ({from})"),
        false => format!("{to} = Identity ({from})"),
    };
    let left = side(node.flag("transA", false)?, "a", "left");
    let right = side(node.flag("transB", false)?, "b", "right");
    let sum = if node.has(6) { "p = Add (product, c)" } else { "p = Identity (product)" };
    let to = match node.has(7) {
        true => quantize(node, 8, 0)?,
        false => "y = Identity (r)".to_owned(),
    };
    Ok(format!(
        "(a, a_scale, a_zero, b, b_scale, b_zero, c, y_scale, y_zero) => (y) {{
            {left} {right}
            product = MatMulInteger (left, right, a_zero, b_zero)
            {sum}
            scales = Mul (a_scale, b_scale)
            {alpha}
            real = Cast <to = 1> (p)
            r = Mul (real, factor)
            {to}
        }}"
    ))
}
