//! Folds per-channel scale and bias, such as `BatchNormalization`, into the constant weights and
//! bias of the convolution or matrix product before it.

use super::{Replaced, fusible_product, is, takes_bias, tensor, with_activation};
use crate::{
    dtype::DType,
    ir::{Graph, Node, Site, ValueId},
    ops::{
        binary::{ADD, DIV, MUL, SUB},
        blockwise::MatMulBlocks,
        conv::{Conv, transpose::ConvTranspose},
        matmul::{Gemm, MatMul},
        norm::batch::BatchNormalization,
    },
    tensor::Tensor,
    ty::count,
};
use onnxc_runtime::kernels::epilogue::Activation;

/// The per-channel function `scale · x + bias`.
pub struct Affine {
    /// The scale of each channel; `None` is 1.
    pub scale: Option<Vec<f64>>,
    /// The bias of each channel; `None` is 0.
    pub bias: Option<Vec<f64>>,
}

/// The channel axis of a tensor.
#[derive(Clone, Copy)]
pub struct ChannelAxis {
    /// The axis.
    pub axis: usize,
    /// The rank of the tensor.
    pub rank: usize,
    /// The number of channels.
    pub count: usize,
}

/// The indices of the weights and the bias among the inputs of a convolution or matrix product.
const WEIGHTS: usize = 1;
const BIAS: usize = 2;

/// Replaces `scale · product + bias` by a product with folded weights and bias.
pub fn fold_affine(site: &mut Site<'_>, node: &Node) -> Replaced {
    let (op, mut inputs, weights, bias) =
        (0..node.inputs.len().min(2)).find_map(|i| fold_into_product(site, node, i))?;
    let name = |id: Option<ValueId>| id.map_or("weights", |id| &site.graph[id].name).to_owned();
    let names = [name(inputs[WEIGHTS]), name(inputs.get(BIAS).copied().flatten())];
    if let Some(weights) = weights {
        inputs[WEIGHTS] = Some(site.graph.constant(&names[0], weights));
    }
    if let Some(bias) = bias {
        inputs.resize(inputs.len().max(BIAS + 1), None);
        inputs[BIAS] = Some(site.graph.constant(&names[1], bias));
    }
    site.replace(node, op, inputs)
}

/// A product with folded constants: its operator, its inputs, its new weights and its new bias.
type Folded =
    (std::rc::Rc<dyn crate::ir::Op>, Vec<Option<ValueId>>, Option<Tensor>, Option<Tensor>);

/// Folds the node into the product that computes its input `i`.
fn fold_into_product(site: &Site<'_>, node: &Node, i: usize) -> Option<Folded> {
    let product = fusible_product(site, node, i, 1)?;
    let op = with_activation(&*product.op, Activation::Identity)?;
    // Its weights are codes, which no scale can be folded into, and input 2 is not a bias.
    if op.is::<MatMulBlocks>() {
        return None;
    }
    let ty = tensor(site.graph, node.input(i)?)?;
    let is_conv = op.is::<Conv>() || op.is::<ConvTranspose>();
    let is_float = matches!(ty.dtype, DType::F32 | DType::F64);
    if !is_float || product.input(3).is_some() || ty.rank() == 0 || !takes_bias(site.graph, product)
    {
        return None;
    }
    let axis = if is_conv { 1 } else { ty.rank() - 1 };
    let count = usize::try_from(ty.shape[axis].known()?).ok()?;
    let channels = ChannelAxis { axis, rank: ty.rank(), count };
    let affine = affine_of(site.graph, node, i, channels)?;
    let weights = scale_weights(site.graph, product, &affine)?;
    let bias = fold_bias(site, product, &affine, channels)?;
    // The operator changes only where a `MatMul` gains a bias.
    let op = if op.is::<MatMul>() && bias.is_some() { op } else { product.op.clone() };
    Some((op, product.inputs.clone(), weights, bias))
}

/// Returns the per-channel function that a node applies to its input `i`. Returns `None` if a scale
/// is not finite: a finite sum times infinity is infinite, but a sum of infinite products may be
/// NaN.
pub fn affine_of(graph: &Graph, node: &Node, i: usize, channels: ChannelAxis) -> Option<Affine> {
    let affine = any_affine_of(graph, node, i, channels)?;
    let mut scales = affine.scale.iter().flatten();
    scales.all(|scale| scale.is_finite()).then_some(affine)
}

fn any_affine_of(graph: &Graph, node: &Node, i: usize, channels: ChannelAxis) -> Option<Affine> {
    if let Some(norm) = node.op.downcast::<BatchNormalization>() {
        let is_inference = i == 0 && channels.axis == 1 && !norm.training_mode;
        return is_inference
            .then(|| affine_of_normalization(graph, node, f64::from(norm.epsilon)))
            .flatten();
    }
    let c = || per_channel(graph, node.input(1 - i)?, channels);
    let affine = |scale, bias| Some(Affine { scale, bias });
    let map = |f: fn(f64) -> f64| Some(c()?.into_iter().map(f).collect::<Vec<f64>>());
    if is(node, &ADD) {
        return affine(None, Some(c()?));
    }
    if is(node, &MUL) {
        return affine(Some(c()?), None);
    }
    if is(node, &SUB) && i == 0 {
        return affine(None, Some(map(|c| -c)?));
    }
    if is(node, &SUB) {
        return affine(Some(vec![-1.0; channels.count]), Some(c()?));
    }
    if is(node, &DIV) && i == 0 {
        return affine(Some(map(|c| 1.0 / c)?), None);
    }
    None
}

/// Returns `BatchNormalization`, `(x - mean) / √(variance + ε) · scale + bias`, as an [`Affine`].
fn affine_of_normalization(graph: &Graph, node: &Node, epsilon: f64) -> Option<Affine> {
    let all = |i: usize| graph[node.input(i)?].constant.as_ref()?.floats();
    let (scale, bias, mean, variance) = (all(1)?, all(2)?, all(3)?, all(4)?);
    let scales = scale.iter().zip(&variance).map(|(scale, v)| scale / (v + epsilon).sqrt());
    let scale: Vec<f64> = scales.collect();
    let moments = bias.iter().zip(&mean).zip(&scale);
    let bias = moments.map(|((bias, mean), scale)| bias - mean * scale).collect();
    Some(Affine { scale: Some(scale), bias: Some(bias) })
}

/// Returns the elements of a constant that has one element, or one per channel.
fn per_channel(graph: &Graph, value: ValueId, channels: ChannelAxis) -> Option<Vec<f64>> {
    let tensor = graph[value].constant.as_ref()?;
    let missing = channels.rank.checked_sub(tensor.shape.len())?;
    let mut sizes = (missing..).zip(&tensor.shape);
    if !sizes.all(|(axis, &size)| size == 1 || axis == channels.axis && size == channels.count) {
        return None;
    }
    let numbers = tensor.floats()?;
    Some(if numbers.len() == channels.count { numbers } else { vec![numbers[0]; channels.count] })
}

/// Returns the scaled weights; `Some(None)` if the scale is 1, `None` if they cannot be scaled.
fn scale_weights(graph: &Graph, product: &Node, affine: &Affine) -> Option<Option<Tensor>> {
    let Some(scale) = &affine.scale else { return Some(None) };
    let weights = graph[product.input(WEIGHTS)?].constant.as_ref()?;
    let channel = channel_of(product, &weights.shape)?;
    let (before, [least, most]) = (weights.floats()?, full_range(weights.dtype));
    let numbers = before.iter().enumerate().map(|(i, w)| w * scale[channel(i)]);
    let numbers: Vec<f64> = numbers.collect();
    // A scaled weight may overflow although the scaled result does not, and the weights of a
    // channel may lose their bits.
    let largest = |of: &[f64]| {
        let mut largest = vec![0.0; scale.len()];
        for (i, w) in of.iter().enumerate() {
            largest[channel(i)] = w.abs().max(largest[channel(i)]);
        }
        largest
    };
    let (from, to) = (largest(&before), largest(&numbers));
    let is_lost = |(&from, &to): (&f64, &f64)| to != 0.0 && to < least && from >= least;
    if !numbers.iter().all(|w| w.abs() <= most) || from.iter().zip(&to).any(is_lost) {
        return None;
    }
    let scaled = Tensor::from_numbers(weights.dtype, weights.shape.clone(), &numbers).ok()?;
    Some(Some(scaled.laid_aside()))
}

/// Returns the least and the largest magnitude of numbers whose products keep all their bits.
pub fn full_range(dtype: DType) -> [f64; 2] {
    match dtype {
        DType::F32 => [f32::MIN_POSITIVE / f32::EPSILON, f32::MAX].map(f64::from),
        _ => [f64::MIN_POSITIVE / f64::EPSILON, f64::MAX],
    }
}

/// Returns the function from the index of a weight to the output channel that it contributes to.
fn channel_of(product: &Node, shape: &[usize]) -> Option<Box<dyn Fn(usize) -> usize>> {
    let inner = |from: usize| count(&shape[from..]).max(1);
    if product.op.is::<Conv>() {
        let filter_len = inner(1);
        return Some(Box::new(move |i| i / filter_len));
    }
    if let Some(conv) = product.op.downcast::<ConvTranspose>() {
        let (taps, filters) = (inner(2), shape[1]);
        let depth = shape[0] / usize::try_from(conv.group).ok()?;
        let group = move |i: usize| i / (filters * taps) / depth;
        return Some(Box::new(move |i| group(i) * filters + i / taps % filters));
    }
    let columns = *shape.last()?;
    let transposed = product.op.downcast::<Gemm>().is_some_and(|gemm| gemm.trans_b);
    Some(Box::new(move |i| if transposed { i / columns } else { i % columns }))
}

/// Returns `scale · bias + shift`, the folded bias; `Some(None)` if it does not change, `None` if
/// it cannot be folded.
fn fold_bias(
    site: &Site<'_>,
    product: &Node,
    affine: &Affine,
    channels: ChannelAxis,
) -> Option<Option<Tensor>> {
    let bias = match product.input(BIAS) {
        // The bias of a convolution has one axis, the channels.
        Some(id) if channels.axis + 1 < channels.rank => site.graph[id].constant.as_ref()?.floats(),
        Some(id) => per_channel(site.graph, id, channels),
        None => None,
    };
    if product.input(BIAS).is_some() && bias.is_none() {
        return None;
    }
    let beta = product.op.downcast::<Gemm>().map_or(1.0, |gemm| f64::from(gemm.beta));
    if bias.is_none() && affine.bias.is_none() {
        return Some(None);
    }
    if beta != 1.0 {
        return None;
    }
    let number =
        |list: &Option<Vec<f64>>, i: usize, default| list.as_ref().map_or(default, |l| l[i]);
    let folded =
        |i| number(&bias, i, 0.0) * number(&affine.scale, i, 1.0) + number(&affine.bias, i, 0.0);
    let numbers: Vec<f64> = (0..channels.count).map(folded).collect();
    let dtype = tensor(site.graph, product.input(WEIGHTS)?)?.dtype;
    let [_, most] = full_range(dtype);
    if !numbers.iter().all(|bias| bias.abs() <= most) {
        return None;
    }
    Some(Some(Tensor::from_numbers(dtype, vec![channels.count], &numbers).ok()?))
}

#[cfg(test)]
mod tests {
    use crate::{Options, interpreter, tensor::Tensor, value::Value};

    #[test]
    fn infinite_scales_are_not_folded() {
        let compute = |constants: &str| {
            let text = format!(
                "<ir_version: 10, opset_import: [\"\" : 21]> g (float[1, 2] x) => (y)
                 <{constants}>
                 {{ sum = MatMul(x, w)  y = Div(sum, c) }}"
            );
            let planned = crate::Compiler::new(&Options::default()).plan(text.into());
            let plan = planned.unwrap_or_else(|diagnostics| panic!("{diagnostics}"));
            let x = Tensor { shape: vec![1, 2], ..Tensor::from_floats(&[1.0, 1.0]) };
            let made = interpreter::run(&plan, &[Value::Tensor(x)]).expect("the input fits");
            made[0].tensor().and_then(Tensor::floats).expect("floats")
        };
        let weights = "float[2, 2] w = {1.0, 2.0, -3.0, -4.0}";
        let sums = compute(&format!("{weights}, float[2] c = {{0.0, 2.0}}"));
        assert_eq!(sums, [f64::NEG_INFINITY, -1.0]);
        // Products that overflow although their sum does not.
        let weights = "float[2, 2] w = {2e38, 1.0, -3e38, 0.0}";
        let sums = compute(&format!("{weights}, float[2] c = {{0.5, 0.5}}"));
        assert!(sums[0].is_finite() && sums[1] == 2.0, "{sums:?}");
    }
}
