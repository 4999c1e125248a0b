//! Factors and addends of channels behind a sum go into its weights, where all are constants.

use super::{Replaced, is, sum, takes_addend, tensor, then};
use crate::{
    dtype::DType,
    ir::{Graph, Node, Site, ValueId},
    ops::{
        binary::{ADD, DIV, MUL, SUB},
        conv::{Conv, transpose::ConvTranspose},
        matmul::{Gemm, MatMul},
        norm::batch::BatchNormalization,
    },
    tensor::Tensor,
    ty::count,
};
use onnxc_runtime::activation_fn::Activation;

/// `factor · x + shift`, with a number for each channel.
pub struct Affine {
    /// The factors; 1 where there are none.
    pub factor: Option<Vec<f64>>,
    /// The shifts; 0 where there are none.
    pub shift: Option<Vec<f64>>,
}

/// The channels of a result: which axis they are, of how many, and how many there are.
#[derive(Clone, Copy)]
pub struct Channels {
    /// The axis.
    pub axis: usize,
    /// The number of axes.
    pub axes: usize,
    /// The number of channels.
    pub count: usize,
}

/// Where the weights of a sum are among its inputs, and its addend.
const WEIGHTS: usize = 1;
const ADDEND: usize = 2;

/// `factor · Σ + shift`, channel by channel.
pub fn channels(site: &mut Site<'_>, node: &Node) -> Replaced {
    let (op, mut inputs, weights, addend) =
        (0..node.inputs.len().min(2)).find_map(|i| folded(site, node, i))?;
    let name = |id: Option<ValueId>| id.map_or("weights", |id| &site.graph[id].name).to_owned();
    let names = [name(inputs[WEIGHTS]), name(inputs.get(ADDEND).copied().flatten())];
    if let Some(weights) = weights {
        inputs[WEIGHTS] = Some(site.graph.constant(&names[0], weights));
    }
    if let Some(addend) = addend {
        inputs.resize(inputs.len().max(ADDEND + 1), None);
        inputs[ADDEND] = Some(site.graph.constant(&names[1], addend));
    }
    site.replace(node, op, inputs)
}

/// A sum as it is to be: its operator and inputs, and what is new of its weights and its addend.
type Folded =
    (std::rc::Rc<dyn crate::ir::Op>, Vec<Option<ValueId>>, Option<Tensor>, Option<Tensor>);

/// The sum that input `i` of the node is, with what the node does in its weights.
fn folded(site: &Site<'_>, node: &Node, i: usize) -> Option<Folded> {
    let sum = sum(site, node, i, 1)?;
    let op = then(&*sum.op, Activation::Identity)?;
    let ty = tensor(site.graph, node.input(i)?)?;
    let convolves = op.is::<Conv>() || op.is::<ConvTranspose>();
    let real = matches!(ty.dtype, DType::F32 | DType::F64);
    if !real || sum.input(3).is_some() || ty.rank() == 0 || !takes_addend(site.graph, sum) {
        return None;
    }
    let axis = if convolves { 1 } else { ty.rank() - 1 };
    let count = usize::try_from(ty.shape[axis].known()?).ok()?;
    let channels = Channels { axis, axes: ty.rank(), count };
    let affine = of(site.graph, node, i, channels)?;
    let (weights, addend) =
        (scaled(site.graph, sum, &affine)?, moved(site, sum, &affine, channels)?);
    // The sum itself stays what it was: only its constants change.
    let op = if op.is::<MatMul>() && addend.is_some() { op } else { sum.op.clone() };
    Some((op, sum.inputs.clone(), weights, addend))
}

/// What the node does to its input `i`, where it does so channel by channel. Nothing where a factor
/// is not finite: a sum times infinity is infinite, the sum of products that are may be no number.
pub fn of(graph: &Graph, node: &Node, i: usize, channels: Channels) -> Option<Affine> {
    let affine = any_of(graph, node, i, channels)?;
    let mut factors = affine.factor.iter().flatten();
    factors.all(|factor| factor.is_finite()).then_some(affine)
}

fn any_of(graph: &Graph, node: &Node, i: usize, channels: Channels) -> Option<Affine> {
    if let Some(norm) = node.op.downcast::<BatchNormalization>() {
        let usual = i == 0 && channels.axis == 1 && !norm.training_mode;
        return usual.then(|| normalized(graph, node, f64::from(norm.epsilon))).flatten();
    }
    let c = || each(graph, node.input(1 - i)?, channels);
    let affine = |factor, shift| Some(Affine { factor, shift });
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

/// `(x - mean) / √(variance + ε) · scale + bias`.
fn normalized(graph: &Graph, node: &Node, epsilon: f64) -> Option<Affine> {
    let all = |i: usize| graph[node.input(i)?].constant.as_ref()?.floats();
    let (scale, bias, mean, variance) = (all(1)?, all(2)?, all(3)?, all(4)?);
    let factors = scale.iter().zip(&variance).map(|(scale, v)| scale / (v + epsilon).sqrt());
    let factor: Vec<f64> = factors.collect();
    let moments = bias.iter().zip(&mean).zip(&factor);
    let shift = moments.map(|((bias, mean), factor)| bias - mean * factor).collect();
    Some(Affine { factor: Some(factor), shift: Some(shift) })
}

/// A number for each channel, where the value is constant and has those or one for all.
fn each(graph: &Graph, value: ValueId, channels: Channels) -> Option<Vec<f64>> {
    let tensor = graph[value].constant.as_ref()?;
    let missing = channels.axes.checked_sub(tensor.shape.len())?;
    let mut sizes = (missing..).zip(&tensor.shape);
    if !sizes.all(|(axis, &size)| size == 1 || axis == channels.axis && size == channels.count) {
        return None;
    }
    let numbers = tensor.floats()?;
    Some(if numbers.len() == channels.count { numbers } else { vec![numbers[0]; channels.count] })
}

/// The weights times the factors; nothing inside where there is no factor.
fn scaled(graph: &Graph, sum: &Node, affine: &Affine) -> Option<Option<Tensor>> {
    let Some(factor) = &affine.factor else { return Some(None) };
    let weights = graph[sum.input(WEIGHTS)?].constant.as_ref()?;
    let channel = channel_of(sum, &weights.shape)?;
    let numbers = weights.floats()?.into_iter().enumerate();
    let numbers: Vec<f64> = numbers.map(|(i, w)| w * factor[channel(i)]).collect();
    // Where a weight would leave the range of its type, the sum may not.
    let most = if weights.dtype == DType::F32 { f64::from(f32::MAX) } else { f64::MAX };
    if !numbers.iter().all(|w| w.abs() <= most) {
        return None;
    }
    let scaled = Tensor::from_numbers(weights.dtype, weights.shape.clone(), &numbers).ok()?;
    Some(Some(scaled.laid_aside()))
}

/// The channel of the result that each element of the weights belongs to.
fn channel_of(sum: &Node, shape: &[usize]) -> Option<Box<dyn Fn(usize) -> usize>> {
    let inner = |from: usize| count(&shape[from..]).max(1);
    if sum.op.is::<Conv>() {
        let each = inner(1);
        return Some(Box::new(move |i| i / each));
    }
    if let Some(conv) = sum.op.downcast::<ConvTranspose>() {
        let (taps, filters) = (inner(2), shape[1]);
        let depth = shape[0] / usize::try_from(conv.group).ok()?;
        let group = move |i: usize| i / (filters * taps) / depth;
        return Some(Box::new(move |i| group(i) * filters + i / taps % filters));
    }
    let columns = *shape.last()?;
    let transposed = sum.op.downcast::<Gemm>().is_some_and(|gemm| gemm.trans_b);
    Some(Box::new(move |i| if transposed { i / columns } else { i % columns }))
}

/// The addend of the sum, scaled and shifted; nothing inside where it stays what it is.
fn moved(
    site: &Site<'_>,
    sum: &Node,
    affine: &Affine,
    channels: Channels,
) -> Option<Option<Tensor>> {
    let own = match sum.input(ADDEND) {
        // The addend of a convolution has one axis, which is that of the channels.
        Some(id) if channels.axis + 1 < channels.axes => site.graph[id].constant.as_ref()?.floats(),
        Some(id) => each(site.graph, id, channels),
        None => None,
    };
    if sum.input(ADDEND).is_some() && own.is_none() {
        return None;
    }
    let scale = sum.op.downcast::<Gemm>().map_or(1.0, |gemm| f64::from(gemm.beta));
    if own.is_none() && affine.shift.is_none() {
        return Some(None);
    }
    if scale != 1.0 {
        return None;
    }
    let number =
        |list: &Option<Vec<f64>>, i: usize, default| list.as_ref().map_or(default, |l| l[i]);
    let moved =
        |i| number(&own, i, 0.0) * number(&affine.factor, i, 1.0) + number(&affine.shift, i, 0.0);
    let numbers: Vec<f64> = (0..channels.count).map(moved).collect();
    let dtype = tensor(site.graph, sum.input(WEIGHTS)?)?.dtype;
    Some(Some(Tensor::from_numbers(dtype, vec![channels.count], &numbers).ok()?))
}

#[cfg(test)]
mod tests {
    use crate::{Options, interpreter, tensor::Tensor, value::Value};

    #[test]
    fn infinite_factors_stay_behind_the_sum() {
        let found = |constants: &str| {
            let text = format!(
                "<ir_version: 10, opset_import: [\"\" : 21]> g (float[1, 2] x) => (y)
                 <{constants}>
                 {{ sum = MatMul(x, w)  y = Div(sum, c) }}"
            );
            let planned = crate::plan(text.into(), &Options::default(), &mut |_, _| {});
            let (plan, _) = planned.unwrap_or_else(|diagnostics| panic!("{diagnostics}"));
            let x = Tensor { shape: vec![1, 2], ..Tensor::from_floats(&[1.0, 1.0]) };
            let made = interpreter::run(&plan, &[Value::Tensor(x)]).expect("the input fits");
            made[0].tensor().and_then(Tensor::floats).expect("floats")
        };
        let weights = "float[2, 2] w = {1.0, 2.0, -3.0, -4.0}";
        let sums = found(&format!("{weights}, float[2] c = {{0.0, 2.0}}"));
        assert_eq!(sums, [f64::NEG_INFINITY, -1.0]);
        // Products that leave the range of their type, though their sum does not.
        let weights = "float[2, 2] w = {2e38, 1.0, -3e38, 0.0}";
        let sums = found(&format!("{weights}, float[2] c = {{0.5, 0.5}}"));
        assert!(sums[0].is_finite() && sums[1] == 2.0, "{sums:?}");
    }
}
