//! Sums of products: convolutions and products of matrices with constant weights.

use super::{
    super::recognize::either,
    Replaced,
    operand::{Operand, Target, numbers, shift, signed_bytes},
};
use crate::{
    dtype::DType,
    ir::{Node, Op, Site, ValueId},
    ops::{
        binary::ADD,
        conv::{Conv, integer::QLinearConv},
        matmul::{Gemm, MatMul, integer::QLinearMatMul},
        quantized::{
            conv::{MOST_AXES, QuantizedConv},
            matmul::QuantizedMatMul,
            requantize::limits,
        },
    },
    passes::fuse::is,
    tensor::Tensor,
    ty::count,
};
use onnxc_runtime::activation_fn::Activation;
use std::rc::Rc;

/// Sums of so many products of bytes fit in 32 bits, whatever the bytes.
const LONGEST: usize = (i32::MAX / (255 * 255)) as usize;

/// Constant weights without a zero point, and a scale for each channel of the result.
struct Weights {
    shape: Vec<usize>,
    bytes: Vec<i8>,
    scales: Vec<f32>,
    /// The sum of the bytes of each channel.
    sums: Vec<i64>,
}

impl Weights {
    /// The weights that an operand is, whose channels lie along `axis`; nothing where they have a
    /// zero point that bytes with a sign have no room for.
    fn of(site: &Site<'_>, operand: &Operand, axis: usize) -> Option<Weights> {
        let constant = site.graph[operand.x].constant.as_ref()?;
        let shape = constant.shape.clone();
        let (channels, inner) = (shape[axis], count(&shape[axis + 1..]));
        let along = operand.axis == axis as i64 || operand.axis + shape.len() as i64 == axis as i64;
        let each = operand.scales.len();
        let fits = each == 1 || each == channels && along;
        let is_byte = matches!(operand.dtype, DType::I8 | DType::U8);
        if !fits || !is_byte || constant.is_empty() || constant.len() / channels > LONGEST {
            return None;
        }
        let (mut bytes, mut sums) = (Vec::with_capacity(constant.len()), vec![0; channels]);
        for (i, x) in constant.ints()?.into_iter().enumerate() {
            let channel = i / inner % channels;
            let x = i8::try_from(x - i64::from(operand.zeros[channel.min(each - 1)])).ok()?;
            sums[channel] += i64::from(x);
            bytes.push(x);
        }
        let scales = (0..channels).map(|i| operand.scales[i.min(each - 1)]).collect();
        Some(Weights { shape, bytes, scales, sums })
    }

    /// What the sums of each channel are in units of, where they are products with an operand.
    fn units(&self, x: &Operand) -> Vec<f32> {
        self.scales.iter().map(|scale| x.scale() * scale).collect()
    }
}

/// What is added to sums: to each channel of the whole ones, and to that of the real ones.
struct Addend {
    whole: Vec<i64>,
    real: Option<Vec<f32>>,
}

impl Addend {
    /// The addend that a value is for sums whose units are `units`, one for each channel.
    fn of(site: &Site<'_>, value: Option<ValueId>, units: &[f32]) -> Option<Addend> {
        let channels = units.len();
        let none = vec![0; channels];
        let Some(value) = value else { return Some(Addend { whole: none, real: None }) };
        let Some(operand) = Operand::of(site, value) else {
            let real = spread(numbers(site.graph, value)?, channels)?;
            return Some(Addend { whole: none, real: Some(real) });
        };
        let whole = site.graph[operand.x].constant.as_ref()?.ints()?;
        let whole = spread(whole, channels)?.into_iter();
        let scales = spread(operand.scales, channels)?;
        let zeros = spread(operand.zeros, channels)?.into_iter();
        let whole: Vec<i64> = whole.zip(zeros).map(|(x, zero)| x - i64::from(zero)).collect();
        let mut pairs = scales.iter().zip(units);
        if pairs.all(|(&scale, &unit)| (scale - unit).abs() <= 1e-6 * unit) {
            return Some(Addend { whole, real: None });
        }
        let real = whole.iter().zip(&scales).map(|(&x, scale)| x as f32 * scale).collect();
        Some(Addend { whole: none, real: Some(real) })
    }
}

/// A number for each channel.
fn spread<T: Copy>(numbers: Vec<T>, channels: usize) -> Option<Vec<T>> {
    match numbers.as_slice() {
        &[one] => Some(vec![one; channels]),
        _ => (numbers.len() == channels).then_some(numbers),
    }
}

/// `op` in place of the node, on the bytes, the weights, and the numbers of the channels.
fn place(
    site: &mut Site<'_>,
    node: &Node,
    op: Rc<dyn Op>,
    x: &Operand,
    (weights, addend): (Weights, Addend),
    target: &Target,
) -> Replaced {
    let zero = i64::from(x.zero() + shift(x.dtype));
    let starts = addend.whole.iter().zip(&weights.sums).map(|(whole, sum)| whole - zero * sum);
    let starts: Vec<i64> =
        starts.map(|x| i32::try_from(x).map(i64::from)).collect::<Result<_, _>>().ok()?;
    // In the order of `QLinearConv`: the same bits, so that the same bytes come out.
    let factors: Vec<f32> = weights.units(x).into_iter().map(|unit| unit / target.scale).collect();
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
    if let Some(real) = addend.real {
        let offsets: Vec<f32> = real.iter().map(|x| x / target.scale).collect();
        inputs.push(Some(g.constant(&named("offsets"), Tensor::from_floats(&offsets))));
    }
    site.replace(node, op, inputs)
}

/// A convolution of bytes.
pub fn conv(site: &mut Site<'_>, node: &Node, target: &Target, value: ValueId) -> Replaced {
    let sum = site.producer(value)?;
    let conv = sum.op.downcast::<Conv>().filter(|conv| !conv.fused)?;
    let (x, w) = (Operand::bytes(site, sum.input(0)?)?, Operand::of(site, sum.input(1)?)?);
    let weights = Weights::of(site, &w, 0)?;
    if weights.shape.len() > 2 + MOST_AXES {
        return None;
    }
    let to = target.requantized(x.zero());
    let op = QuantizedConv { window: conv.window.clone(), group: conv.group, to };
    let addend = Addend::of(site, sum.input(2), &weights.units(&x))?;
    place(site, node, Rc::new(op), &x, (weights, addend), target)
}

/// A product of bytes.
pub fn product(site: &mut Site<'_>, node: &Node, target: &Target, value: ValueId) -> Replaced {
    let sum = site.producer(value)?;
    let (product, added) = match is(sum, &ADD) {
        false => (sum, None),
        true => either([sum.input(0)?, sum.input(1)?], |product, added| {
            let product = site.producer(product).filter(|node| node.op.is::<MatMul>())?;
            Some((product, Some(added)))
        })?,
    };
    let (trans_b, addend) = factors(product)?;
    let rank = |i: usize| Some(site.graph[product.input(i)?].ty.as_tensor()?.rank());
    if rank(0)? < 2 || rank(1)? != 2 {
        return None;
    }
    let (x, w) = (Operand::bytes(site, product.input(0)?)?, Operand::of(site, product.input(1)?)?);
    let weights = Weights::of(site, &w, usize::from(!trans_b))?;
    let op = QuantizedMatMul { trans_b, to: target.requantized(x.zero()) };
    let addend = added.or(addend);
    if addend.is_some_and(|addend| !lies_along_columns(site, addend)) {
        return None;
    }
    let addend = Addend::of(site, addend, &weights.units(&x))?;
    place(site, node, Rc::new(op), &x, (weights, addend), target)
}

/// `QLinearConv` or `QLinearMatMul`, where all but the first operand's bytes are constants.
pub fn qlinear(site: &mut Site<'_>, node: &Node) -> Replaced {
    let conv = node.op.downcast::<QLinearConv>();
    if conv.is_none() && !node.op.is::<QLinearMatMul>() {
        return None;
    }
    let rank = |i: usize| Some(site.graph[node.input(i)?].ty.as_tensor()?.rank());
    let ranks = [rank(0)?, rank(3)?];
    let fits =
        if conv.is_some() { ranks[1] <= 2 + MOST_AXES } else { ranks[0] > 1 && ranks[1] == 2 };
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
    let weights = Weights::of(site, &w, axis)?;
    let channels = weights.scales.len();
    let whole = match node.input(8) {
        Some(bias) => spread(site.graph[bias].constant.as_ref()?.ints()?, channels)?,
        None => vec![0; channels],
    };
    let limits = limits(y.dtype);
    let target = Target { dtype: y.dtype, scale: y.scale(), zero: y.zero(), limits };
    let to = target.requantized(x.zero());
    let op: Rc<dyn Op> = match conv {
        Some(conv) => Rc::new(QuantizedConv { window: conv.window.clone(), group: conv.group, to }),
        None => Rc::new(QuantizedMatMul { trans_b: false, to }),
    };
    place(site, node, op, &x, (weights, Addend { whole, real: None }), &target)
}

/// Whether the right factor of a product is transposed, and what the node adds, where it is one
/// without other factors.
fn factors(node: &Node) -> Option<(bool, Option<ValueId>)> {
    if let Some(matmul) = node.op.downcast::<MatMul>() {
        return (!matmul.fused).then_some((false, None));
    }
    let gemm = node.op.downcast::<Gemm>()?;
    let plain = gemm.alpha == 1.0 && !gemm.trans_a && gemm.activation == Activation::Identity;
    let plain = plain && (gemm.beta == 1.0 || node.input(2).is_none());
    plain.then_some((gemm.trans_b, node.input(2)))
}

/// Whether a value has one number for all, or one for each column.
pub(super) fn lies_along_columns(site: &Site<'_>, value: ValueId) -> bool {
    let Some(ty) = site.graph[value].ty.as_tensor() else { return false };
    let Some((_, rest)) = ty.shape.split_last() else { return true };
    rest.iter().all(|size| size.known() == Some(1))
}

#[cfg(test)]
mod tests {
    use crate::{Options, interpreter, tensor::Tensor, value::Value};

    #[test]
    fn what_is_summed_along_may_be_a_symbol() {
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
}
