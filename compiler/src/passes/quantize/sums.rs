//! Integer forms of `Conv`, `Gemm` and `MatMul` with constant weights.

use super::{
    super::recognize::either,
    Replaced,
    operand::{Operand, Target, numbers, shift, signed_bytes},
    signed_bytes::SignedBytes,
};
use crate::{
    dtype::DType,
    ir::{Node, Op, Site, ValueId},
    ops::{
        binary::ADD,
        conv::{Conv, integer::QLinearConv},
        matmul::{Gemm, MatMul, integer::QLinearMatMul},
        quantized::{
            conv::{MAX_AXES, QuantizedConv},
            matmul::QuantizedMatMul,
            requantize::limits,
        },
    },
    passes::fuse::is,
    tensor::Tensor,
};
use onnxc_runtime::kernels::epilogue::Activation;
use std::rc::Rc;

/// The greatest number of products of bytes whose sum always fits in an `i32`.
const MAX_DEPTH: usize = (i32::MAX / (255 * 255)) as usize;

/// Constant weights as signed bytes, and the scale of each output channel.
struct ScaledWeights {
    shape: Vec<usize>,
    bytes: Vec<i8>,
    /// The zero point of the bytes of each output channel.
    zeros: Vec<i64>,
    scales: Vec<f32>,
    /// The sum of the weights of each output channel without its zero point.
    sums: Vec<i64>,
    /// The greatest magnitude of a sum of products of each output channel.
    most: Vec<i64>,
}

impl ScaledWeights {
    /// Returns the weights of an operand whose channels lie along `axis`.
    fn of(site: &Site<'_>, operand: &Operand, axis: usize) -> Option<ScaledWeights> {
        let constant = site.graph[operand.x].constant.as_ref()?;
        let shape = constant.shape.clone();
        let channels = shape[axis];
        let along = operand.axis == axis as i64 || operand.axis + shape.len() as i64 == axis as i64;
        let each = operand.scales.len();
        let fits = each == 1 || each == channels && along;
        let is_byte = matches!(operand.dtype, DType::I8 | DType::U8);
        if !fits || !is_byte || constant.is_empty() || constant.len() / channels > MAX_DEPTH {
            return None;
        }
        let zeros: Vec<i64> =
            (0..channels).map(|i| operand.zeros[i.min(each - 1)].into()).collect();
        let scales = (0..channels).map(|i| operand.scales[i.min(each - 1)]).collect();
        let SignedBytes { bytes, zeros, sums, sizes } = SignedBytes::of(constant, axis, &zeros)?;
        let most = sizes.into_iter().map(|size| size * 255).collect();
        Some(ScaledWeights { shape, bytes, zeros, scales, sums, most })
    }

    /// Returns the scale of each channel's accumulator in a product with `x`.
    fn accumulator_scales(&self, x: &Operand) -> Vec<f32> {
        self.scales.iter().map(|scale| x.scale() * scale).collect()
    }
}

/// The bias of each channel: an integer added to the accumulator, and a float added after scaling.
struct Bias {
    whole: Vec<i64>,
    real: Option<Vec<f32>>,
}

impl Bias {
    /// Returns the bias `value` of products of `x` with the weights.
    fn of(
        site: &Site<'_>,
        value: Option<ValueId>,
        weights: &ScaledWeights,
        x: &Operand,
    ) -> Option<Bias> {
        let units = weights.accumulator_scales(x);
        // The products alone would wrap.
        if weights.most.iter().any(|&most| most > i32::MAX.into()) {
            return None;
        }
        let channels = units.len();
        let none = vec![0; channels];
        let Some(value) = value else { return Some(Bias { whole: none, real: None }) };
        let Some(operand) = Operand::of(site, value) else {
            let real = repeat_per_channel(numbers(site.graph, value)?, channels)?;
            return Some(Bias { whole: none, real: Some(real) });
        };
        let whole = site.graph[operand.x].constant.as_ref()?.ints()?;
        let whole = repeat_per_channel(whole, channels)?.into_iter();
        let scales = repeat_per_channel(operand.scales, channels)?;
        let zeros = repeat_per_channel(operand.zeros, channels)?.into_iter();
        let whole: Vec<i64> = whole.zip(zeros).map(|(x, zero)| x - i64::from(zero)).collect();
        let mut pairs = scales.iter().zip(&units);
        // A sum beyond an `i32` would wrap, where that of floats saturates.
        let mut sums = whole.iter().zip(&weights.most);
        let fits = sums.all(|(x, most)| x.abs() + most <= i32::MAX.into());
        if fits && pairs.all(|(&scale, &unit)| (scale - unit).abs() <= 1e-6 * unit) {
            return Some(Bias { whole, real: None });
        }
        let real = whole.iter().zip(&scales).map(|(&x, scale)| x as f32 * scale).collect();
        Some(Bias { whole: none, real: Some(real) })
    }
}

/// Repeats a single number for each channel; passes on one number per channel.
fn repeat_per_channel<T: Copy>(numbers: Vec<T>, channels: usize) -> Option<Vec<T>> {
    match numbers.as_slice() {
        &[one] => Some(vec![one; channels]),
        _ => (numbers.len() == channels).then_some(numbers),
    }
}

/// Replaces the node by `op` on the integers, with constants for weights, initial accumulators,
/// scales and float biases.
fn replace_by(
    site: &mut Site<'_>,
    node: &Node,
    op: Rc<dyn Op>,
    x: &Operand,
    (weights, bias): (ScaledWeights, Bias),
    target: &Target,
) -> Replaced {
    let zero = i64::from(x.zero() + shift(x.dtype));
    let starts = bias.whole.iter().zip(&weights.sums).map(|(whole, sum)| whole - zero * sum);
    let starts: Vec<i64> =
        starts.map(|x| i32::try_from(x).map(i64::from)).collect::<Result<_, _>>().ok()?;
    // In the order of `QLinearConv`: the same bits, so that the same bytes come out.
    let factors: Vec<f32> =
        weights.accumulator_scales(x).into_iter().map(|unit| unit / target.scale).collect();
    if !factors.iter().all(|factor| factor.is_finite()) {
        return None;
    }
    let named = |part: &str| format!("{}_{part}", node.name);
    let g = &mut *site.graph;
    let mut inputs = vec![
        Some(x.x),
        Some(g.constant(&named("weights"), signed_bytes(weights.shape, &weights.bytes))),
        Some(g.constant(&named("starts"), Tensor::from_i32s(&starts))),
        Some(g.constant(&named("factors"), Tensor::from_floats(&factors))),
    ];
    if let Some(real) = bias.real {
        let offsets: Vec<f32> = real.iter().map(|x| x / target.scale).collect();
        inputs.push(Some(g.constant(&named("offsets"), Tensor::from_floats(&offsets))));
    }
    if weights.zeros.iter().any(|&zero| zero != 0) {
        inputs.resize(5, None);
        inputs.push(Some(g.constant(&named("zero_points"), Tensor::from_i32s(&weights.zeros))));
    }
    site.replace(node, op, inputs)
}

/// Replaces a `Conv` of a dequantized tensor.
pub fn quantize_conv(
    site: &mut Site<'_>,
    node: &Node,
    target: &Target,
    value: ValueId,
) -> Replaced {
    let sum = site.producer(value)?;
    let conv = sum.op.downcast::<Conv>().filter(|conv| !conv.fused)?;
    let (x, w) = (Operand::bytes(site, sum.input(0)?)?, Operand::of(site, sum.input(1)?)?);
    let weights = ScaledWeights::of(site, &w, 0)?;
    if weights.shape.len() > 2 + MAX_AXES {
        return None;
    }
    let to = target.requantized(x.zero());
    let op = QuantizedConv { window: conv.window.clone(), group: conv.group, to };
    let bias = Bias::of(site, sum.input(2), &weights, &x)?;
    replace_by(site, node, Rc::new(op), &x, (weights, bias), target)
}

/// Replaces a `Gemm` or `MatMul` of a dequantized matrix, and a bias added to it.
pub fn quantize_product(
    site: &mut Site<'_>,
    node: &Node,
    target: &Target,
    value: ValueId,
) -> Replaced {
    let sum = site.producer(value)?;
    let (product, added) = match is(sum, &ADD) {
        false => (sum, None),
        true => either([sum.input(0)?, sum.input(1)?], |product, added| {
            let product = site.producer(product).filter(|node| node.op.is::<MatMul>())?;
            Some((product, Some(added)))
        })?,
    };
    let (trans_b, bias) = transposition_and_bias(product)?;
    let rank = |i: usize| Some(site.graph[product.input(i)?].ty.as_tensor()?.rank());
    if rank(0)? < 2 || rank(1)? != 2 {
        return None;
    }
    let (x, w) = (Operand::bytes(site, product.input(0)?)?, Operand::of(site, product.input(1)?)?);
    let weights = ScaledWeights::of(site, &w, usize::from(!trans_b))?;
    let op = QuantizedMatMul { trans_b, to: target.requantized(x.zero()) };
    let bias = added.or(bias);
    if bias.is_some_and(|bias| !broadcasts_along_rows(site, bias)) {
        return None;
    }
    let bias = Bias::of(site, bias, &weights, &x)?;
    replace_by(site, node, Rc::new(op), &x, (weights, bias), target)
}

/// Replaces a `QLinearConv` or `QLinearMatMul` with constant weights, scales and zero points.
pub fn replace_qlinear(site: &mut Site<'_>, node: &Node) -> Replaced {
    let conv = node.op.downcast::<QLinearConv>();
    if conv.is_none() && !node.op.is::<QLinearMatMul>() {
        return None;
    }
    let rank = |i: usize| Some(site.graph[node.input(i)?].ty.as_tensor()?.rank());
    let ranks = [rank(0)?, rank(3)?];
    let fits =
        if conv.is_some() { ranks[1] <= 2 + MAX_AXES } else { ranks[0] > 1 && ranks[1] == 2 };
    let axis = usize::from(conv.is_none());
    // The zero point has the type of the bytes.
    let operand = |x, scale, zero, axis| {
        Operand::with(site, [x, scale, zero].map(|i: usize| node.input(i)), axis)
    };
    let (x, w) = (operand(0, 1, 2, 0)?, operand(3, 4, 5, axis as i64)?);
    let y = operand(7, 6, 7, 0)?;
    if !fits || x.scales.len() != 1 || y.scales.len() != 1 {
        return None;
    }
    let weights = ScaledWeights::of(site, &w, axis)?;
    let channels = weights.scales.len();
    let whole = match node.input(8) {
        Some(bias) => repeat_per_channel(site.graph[bias].constant.as_ref()?.ints()?, channels)?,
        None => vec![0; channels],
    };
    let limits = limits(y.dtype);
    let target = Target { dtype: y.dtype, scale: y.scale(), zero: y.zero(), limits };
    let to = target.requantized(x.zero());
    let op: Rc<dyn Op> = match conv {
        Some(conv) => Rc::new(QuantizedConv { window: conv.window.clone(), group: conv.group, to }),
        None => Rc::new(QuantizedMatMul { trans_b: false, to }),
    };
    replace_by(site, node, op, &x, (weights, Bias { whole, real: None }), &target)
}

/// Returns whether the right operand of a product is transposed, and its bias; `None` if the
/// product scales or transposes otherwise.
fn transposition_and_bias(node: &Node) -> Option<(bool, Option<ValueId>)> {
    if let Some(matmul) = node.op.downcast::<MatMul>() {
        return (!matmul.fused).then_some((false, None));
    }
    let gemm = node.op.downcast::<Gemm>()?;
    let plain = gemm.alpha == 1.0 && !gemm.trans_a && gemm.activation == Activation::Identity;
    let plain = plain && (gemm.beta == 1.0 || node.input(2).is_none());
    plain.then_some((gemm.trans_b, node.input(2)))
}

/// Returns whether a value has one element per column, or one in all.
pub(super) fn broadcasts_along_rows(site: &Site<'_>, value: ValueId) -> bool {
    let Some(ty) = site.graph[value].ty.as_tensor() else { return false };
    let Some((_, rest)) = ty.shape.split_last() else { return true };
    rest.iter().all(|size| size.known() == Some(1))
}

#[cfg(test)]
mod tests {
    use crate::{Options, dtype::DType, interpreter, tensor::Tensor, value::Value};

    #[test]
    fn the_summed_axis_may_be_symbolic() {
        let text = r#"<ir_version: 10, opset_import: ["" : 21]> g (float[m, k] x) => (int8[m, 1] y)
            <float s = {0.5}, int8 z = {0}, int8[3, 1] w = {1, 2, -3}, float one = {1.0}>
            {
                a = QuantizeLinear(x, s, z)
                b = DequantizeLinear(a, s, z)
                c = DequantizeLinear(w, one)
                d = MatMul(b, c)
                y = QuantizeLinear(d, one, z)
            }"#;
        let mut after = String::new();
        let plan = crate::Compiler::new(&Options::default())
            .observe(|_, g| {
                after = g.to_string();
            })
            .plan(text.to_owned().into())
            .unwrap_or_else(|diagnostics| panic!("{diagnostics}"));
        assert!(after.contains("QuantizedMatMul"), "{after}");
        let x = Tensor { shape: vec![1, 3], ..Tensor::from_floats(&[1.0, 2.0, 4.5]) };
        let made = interpreter::run(&plan, &[Value::Tensor(x)]).expect("the input fits");
        // 1 + 4 - 13.5, to even.
        assert_eq!(made[0].tensor().and_then(Tensor::ints).expect("whole numbers"), [-8]);
    }

    #[test]
    fn a_bias_beyond_the_accumulator_saturates() {
        let text = r#"<ir_version: 10, opset_import: ["" : 21]> g (uint8[1, 1] x) => (uint8[1, 3] y)
            <float one = {1.0}, uint8 z = {9}, int8[1, 3] w = {100, -100, 2}, float unit = {0.001},
             int32[3] bias = {2147483647, -2147483648, 30000}>
            {
                a = DequantizeLinear(x, one)
                b = DequantizeLinear(w, unit)
                c = DequantizeLinear(bias, unit)
                d = Gemm(a, b, c)
                y = QuantizeLinear(d, one, z)
            }"#;
        let planned = crate::Compiler::new(&Options::default()).plan(text.to_owned().into());
        let plan = planned.unwrap_or_else(|diagnostics| panic!("{diagnostics}"));
        let x = Tensor::from_raw(DType::U8, vec![1, 1], vec![200u8].into());
        let made = interpreter::run(&plan, &[Value::Tensor(x)]).expect("the input fits");
        assert_eq!(made[0].tensor().and_then(Tensor::ints).expect("whole numbers"), [255, 0, 39]);
    }

    #[test]
    fn weights_keep_zero_points_whose_differences_need_nine_bits() {
        let run = |operator: &str, shapes: [&str; 3], zeros: &str| {
            let [x, w, y] = shapes;
            let text = format!(
                "<ir_version: 10, opset_import: [\"\" : 21]> g (uint8[{x}] x) => (uint8[{y}] y)
                 <float one = {{1.0}}, uint8 x_zero = {{3}}, uint8[{w}] w = {{255, 0, 130, 7}},
                  uint8[2] z = {{{zeros}}}, float[2] s = {{0.5, 0.25}}, float y_scale = {{64.0}},
                  uint8 y_zero = {{100}}>
                 {{ y = {operator}(x, one, x_zero, w, s, z, y_scale, y_zero) }}"
            );
            let planned = crate::Compiler::new(&Options::default()).plan(text.into());
            let plan = planned.unwrap_or_else(|diagnostics| panic!("{diagnostics}"));
            assert!(plan.to_string().contains("with_zeros"), "{plan}");
            let shape = x.split(", ").map(|size| size.parse().expect("a size")).collect();
            let x = Tensor::from_raw(DType::U8, shape, vec![200u8, 3, 17, 255].into());
            let made = interpreter::run(&plan, &[Value::Tensor(x)]).expect("the input fits");
            made[0].tensor().and_then(Tensor::ints).expect("whole numbers")
        };
        let rows = [[197, 0], [14, 252]];
        for zeros in [[100, 3], [0, 255], [20, 1]] {
            let wanted = |columns: [[i64; 2]; 2]| {
                let each = |row: [i64; 2]| {
                    let product = |j: usize, k: usize| row[k] * (columns[j][k] - zeros[j]);
                    let sum = |j: usize| product(j, 0) + product(j, 1);
                    let real = |j: usize, scale: f64| sum(j) as f64 * scale;
                    [real(0, 0.5), real(1, 0.25)]
                        .map(|x| ((x / 64.0).round_ties_even() as i64 + 100).clamp(0, 255))
                };
                rows.map(each)
            };
            let text = zeros.map(|zero: i64| zero.to_string()).join(", ");
            let product = run("QLinearMatMul", ["2, 2", "2, 2", "2, 2"], &text);
            assert_eq!(product, wanted([[255, 130], [0, 7]]).concat());
            let image = run("QLinearConv", ["2, 2, 1", "2, 2, 1", "2, 2, 1"], &text);
            assert_eq!(image, wanted([[255, 0], [130, 7]]).concat());
        }
    }
}
