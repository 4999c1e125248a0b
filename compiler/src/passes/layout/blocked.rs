//! Stores images in NCHWc where convolutions gain by it.
//!
//! A convolution becomes one with a blocked result, followed by `Unblock`. The next node takes the
//! input of that `Unblock`, if it can, and is followed by an `Unblock` itself. So the layout
//! spreads through a network, and `Unblock` is left only where it ends.

use super::channels_last;
use crate::{
    dim::Dim,
    dtype::DType,
    ir::{Graph, Node, Op, Site, ValueId},
    ops::{
        binary::{ADD, MUL, SUB},
        blocked::{self, Affine, BLOCK, Block, Shuffle, Unblock},
        concat::Concat,
        conv::{Conv, blocked::BlockedConv},
        pool::blocked::BlockedPool,
        reshape::Flatten,
        transpose::Transpose,
    },
    passes::{
        fuse::{
            Replaced,
            affine::{self, ChannelAxis},
            function, is, tensor,
        },
        recognize::mean_of_pixels,
    },
    tensor::Tensor,
};
use onnxc_runtime::kernels::{
    conv::{MAX_SHUFFLED, has_blocks, has_flat_blocks},
    epilogue::Activation,
};
use std::rc::Rc;

/// The fewest output channels. Fewer leave too much of a block empty.
pub const MIN_FILTERS: usize = 8;
/// The fewest output channels of one group, which has blocks that hold no other group's channels.
const MIN_FILTERS_OF_GROUP: usize = 4;
/// The depth of a dot product below which a convolution gains less than `Block` and `Unblock` cost.
const MIN_DEPTH: usize = 128;
/// The input channels from which on `Block` costs less than it gains: a tile reads a line of the
/// cache for a few pixels of one channel in NCHW, and for one pixel of a whole block in NCHWc.
pub const MIN_CHANNELS: i64 = 2 * BLOCK as i64;
/// The elements of a window from which on a depthwise convolution gains more than the conversions
/// of its input and output cost.
const MIN_TAPS: usize = 9;

/// The blocked value that `Unblock` converts to `value`.
pub fn nchwc(site: &Site<'_>, value: ValueId) -> Option<ValueId> {
    let unblock = site.producer(value).filter(|node| node.op.is::<Unblock>())?;
    unblock.input(0)
}

/// `value` in NCHWc. Adds a conversion if no such value exists yet.
pub fn to_nchwc(site: &mut Site<'_>, node: &Node, value: ValueId) -> Option<ValueId> {
    nchwc(site, value)
        .or_else(|| channels_last::to_blocks(site, node, value))
        .or_else(|| site.before(node, Rc::new(Block), vec![Some(value)]))
}

/// The number of channels of a value in NCHW.
pub fn channels_of(site: &Site<'_>, value: ValueId) -> Option<i64> {
    tensor(site.graph, value)?.shape.get(1)?.known()
}

/// Replaces `node` by `op` on blocked inputs, followed by `Unblock`.
pub fn replace(
    site: &mut Site<'_>,
    node: &Node,
    op: Rc<dyn Op>,
    inputs: Vec<Option<ValueId>>,
    channels: i64,
) -> Replaced {
    let result = site.before(node, op, inputs)?;
    site.replace(node, Rc::new(Unblock { channels }), vec![Some(result)])
}

/// Converts a convolution.
pub fn conv(site: &mut Site<'_>, node: &Node) -> Replaced {
    let conv = node.op.downcast::<Conv>()?;
    let (x, weights) = (node.input(0)?, node.input(1)?);
    let mut blocked = nchwc(site, x);
    if !gains(site.graph, node, conv, blocked.is_some()) {
        return None;
    }
    let mut shuffled = 1;
    let is_depthwise = is_depthwise(site.graph, node, conv);
    if conv.group > 1 && !is_depthwise {
        // The number of channels in the last block must be known.
        channels_of(site, x)?;
        blocked = Some(to_nchwc(site, node, x)?);
    }
    if blocked.is_none() && (is_depthwise || gains_by_block(site, x, weights, conv)) {
        blocked = Some(to_nchwc(site, node, x)?);
    }
    // The kernel of depthwise convolutions cannot read shuffled channels.
    if !is_depthwise && let Some((before, groups)) = blocked.and_then(|x| absorbed_shuffle(site, x))
    {
        (blocked, shuffled) = (Some(before), groups);
    }
    let mut inputs = vec![Some(blocked.unwrap_or(x)), Some(weights), node.input(2)];
    if let Some(add) = node.input(3) {
        inputs.push(Some(to_nchwc(site, node, add)?));
    }
    if let Some(gated) = blocked.filter(|_| site.uses(0) == 1 && shuffled == 1)
        && let Some([image, gate]) = gated_image(site, gated)
        && conv.is_pointwise(&tensor(site.graph, weights)?.shape)
    {
        inputs[0] = Some(image);
        inputs.resize(4, None);
        inputs.push(Some(gate));
    }
    let filters = tensor(site.graph, weights)?.shape[0].known()?;
    let nchwc = blocked.is_some();
    let op = Rc::new(BlockedConv { conv: conv.clone(), nchwc, shuffled });
    let result = site.before(node, op, inputs)?;
    site.replace(node, Rc::new(Unblock { channels: filters }), vec![Some(result)])
}

/// The image and the gate whose product is `x`: squeeze and excitation.
fn gated_image(site: &Site<'_>, x: ValueId) -> Option<[ValueId; 2]> {
    let product = site.producer(x).filter(|node| is(node, &MUL))?;
    let [a, b]: [ValueId; 2] = product.inputs()?;
    let is_gate = |gate: ValueId, image: ValueId| {
        let (Some(gate), Some(image)) = (tensor(site.graph, gate), tensor(site.graph, image))
        else {
            return false;
        };
        let ([batch, blocks, pixels @ .., _], rank) = (gate.shape.as_slice(), gate.rank()) else {
            return false;
        };
        rank == image.rank()
            && [batch, blocks] == [&image.shape[0], &image.shape[1]]
            && pixels.iter().all(|size| size.known() == Some(1))
    };
    [[a, b], [b, a]].into_iter().find(|&[image, gate]| is_gate(gate, image))
}

/// Returns whether a convolution of an NCHW input gains by a `Block` before it. It does not if its
/// windows skip pixels, which `Block` would convert.
fn gains_by_block(site: &Site<'_>, x: ValueId, weights: ValueId, conv: &Conv) -> bool {
    let weights = tensor(site.graph, weights).and_then(|ty| ty.known_shape());
    let Some([_, _, kernel @ ..]) = weights.as_deref() else { return false };
    let skips = kernel.iter().enumerate().any(|(axis, &taps)| conv.window.stride(axis) > taps);
    let is_pixel = kernel.iter().all(|&taps| taps == 1);
    // With up to a block of channels, a convolution of single pixels is as fast in NCHW.
    let least = if is_pixel { BLOCK as i64 + 1 } else { BLOCK as i64 };
    !skips && channels_of(site, x).is_some_and(|channels| channels >= least)
}

/// Returns whether a depthwise convolution over rows and columns gains more than the conversions of
/// its input and output cost.
fn outweighs_conversions(graph: &Graph, node: &Node, kernel: &[usize]) -> bool {
    let channels = || tensor(graph, node.input(0)?)?.shape.get(1)?.known();
    kernel.len() == 2
        && kernel.iter().product::<usize>() >= MIN_TAPS
        && channels().is_some_and(|channels| channels >= MIN_CHANNELS)
}

/// The input of the shuffle that makes `x`, and its number of groups, if a convolution can read the
/// channels from there.
fn absorbed_shuffle(site: &Site<'_>, x: ValueId) -> Option<(ValueId, i64)> {
    let dealt = site.producer(x)?;
    let shuffle = dealt.op.downcast::<Shuffle>()?;
    let few = shuffle.groups <= MAX_SHUFFLED as i64;
    few.then(|| Some((dealt.input(0)?, shuffle.groups)))?
}

/// Returns whether a kernel exists for this convolution in NCHWc that may be faster.
pub fn gains(graph: &Graph, node: &Node, conv: &Conv, nchwc: bool) -> bool {
    let Some(weights) = node.input(1).and_then(|id| tensor(graph, id)) else { return false };
    let Some(shape) = weights.known_shape() else { return false };
    let [filters, depth, kernel @ ..] = &shape[..] else { return false };
    let group = usize::try_from(conv.group).unwrap_or(0);
    let fits = if is_depthwise(graph, node, conv) {
        has_flat_blocks(kernel) && (nchwc || outweighs_conversions(graph, node, kernel))
    } else {
        group == 1 || is_constant(graph, node, 1) && *filters >= MIN_FILTERS_OF_GROUP * group
    };
    weights.dtype == DType::F32
        && has_blocks(kernel)
        && depth * kernel.iter().product::<usize>() > 0
        && fits
        && *filters >= MIN_FILTERS
}

/// Returns whether each channel is convolved separately.
pub fn is_depthwise(graph: &Graph, node: &Node, conv: &Conv) -> bool {
    let weights = node.input(1).and_then(|id| tensor(graph, id)?.known_shape());
    weights.is_some_and(|shape| conv.group > 1 && shape[0] as i64 == conv.group && shape[1] == 1)
}

/// Returns whether input `i` is a constant.
pub fn is_constant(graph: &Graph, node: &Node, i: usize) -> bool {
    node.input(i).is_some_and(|id| graph[id].constant.is_some())
}

/// Converts a scale and bias per channel, and combines it with one before it.
pub fn scale(site: &mut Site<'_>, node: &Node) -> Replaced {
    let (x, i, given) = (0..node.inputs.len().min(2)).find_map(|i| {
        let x = nchwc(site, node.input(i)?)?;
        let ty = tensor(site.graph, node.input(i)?)?;
        let count = usize::try_from(ty.shape.get(1)?.known()?).ok()?;
        let channels = ChannelAxis { axis: 1, rank: ty.rank(), count };
        let given = affine::affine_of(site.graph, node, i, channels)?;
        let all = |list: Option<Vec<f64>>, x| list.unwrap_or_else(|| vec![x; count]);
        Some((x, i, [all(given.scale, 1.0), all(given.bias, 0.0)]))
    })?;
    let [mut factor, mut shift] = given;
    let channels = channels_of(site, node.input(i)?)?;
    let mut from = x;
    if site.uses(i) == 1
        && let Some((x, [before, moved])) = affine_before(site, x)
    {
        // f · (b · x + m) + s
        let shifts = shift.iter().zip(&factor).zip(&moved).map(|((s, f), m)| s + f * m);
        let factors = factor.iter().zip(&before).map(|(f, b)| f * b);
        let (shifts, factors): (Vec<f64>, Vec<f64>) = (shifts.collect(), factors.collect());
        let [least, most] = affine::full_range(DType::F32);
        let keeps_bits = |factor: &f64| *factor == 0.0 || (least..=most).contains(&factor.abs());
        if factors.iter().all(keeps_bits) && shifts.iter().all(|shift| shift.abs() <= most) {
            (from, factor, shift) = (x, factors, shifts);
        }
    }
    let mut inputs = vec![Some(from)];
    for (name, mut numbers) in [("scale", factor), ("shift", shift)] {
        numbers.resize(numbers.len().next_multiple_of(BLOCK), 0.0);
        let tensor = Tensor::from_numbers(DType::F32, vec![numbers.len()], &numbers).ok()?;
        inputs.push(Some(site.graph.constant(&format!("{} {name}", node.name), tensor)));
    }
    replace(site, node, Rc::new(Affine { activation: Activation::Identity }), inputs, channels)
}

/// The input, scale and bias, if `value` is an affine function without activation.
fn affine_before(site: &Site<'_>, value: ValueId) -> Option<(ValueId, [Vec<f64>; 2])> {
    let node = site.producer(value)?;
    let plain = node.op.downcast::<Affine>()?.activation == Activation::Identity;
    let numbers = |i: usize| site.graph[node.input(i)?].constant.as_ref()?.floats();
    plain.then(|| Some((node.input(0)?, [numbers(1)?, numbers(2)?])))?
}

/// Converts an element-wise function of one operand.
pub fn unary(site: &mut Site<'_>, node: &Node) -> Replaced {
    let f = function::activation_of(site.graph, node)?;
    let x = nchwc(site, node.input(0)?)?;
    let channels = channels_of(site, node.input(0)?)?;
    if site.uses(0) == 1 && affine_before(site, x).is_some() {
        let inputs = site.producer(x)?.inputs.clone();
        return replace(site, node, Rc::new(Affine { activation: f }), inputs, channels);
    }
    let mut inputs = node.inputs.clone();
    inputs[0] = Some(x);
    replace(site, node, node.op.clone(), inputs, channels)
}

/// Converts sums, differences and products of two images, or of an image and a number or a value
/// per channel.
pub fn binary(site: &mut Site<'_>, node: &Node) -> Replaced {
    if ![&ADD, &SUB, &MUL].into_iter().any(|row| is(node, row)) {
        return None;
    }
    let given = [node.input(0)?, node.input(1)?];
    let blocked = given.map(|id| nchwc(site, id));
    if blocked == [None; 2] {
        return None;
    }
    let [a, b] = given.map(|id| tensor(site.graph, id));
    let (a, b) = (a?, b?);
    let one = |id: ValueId| site.graph[id].constant.as_ref().is_some_and(|c| c.len() == 1);
    // Images of other sizes broadcast in blocks as in NCHW, also where a run tells the sizes.
    let fit = a.rank() == b.rank() && a.rank() > 2 && a.shape[1] == b.shape[1];
    if !fit && !given.into_iter().any(one) {
        return None;
    }
    let number = given.map(one);
    let channels = given.into_iter().zip(number).find(|(_, number)| !number);
    let channels = channels_of(site, channels?.0)?;
    let mut inputs = Vec::new();
    for (id, number) in given.into_iter().zip(number) {
        inputs.push(Some(if number { id } else { to_nchwc(site, node, id)? }));
    }
    replace(site, node, node.op.clone(), inputs, channels)
}

/// Converts pools.
pub fn pool(site: &mut Site<'_>, node: &Node) -> Replaced {
    let pool = BlockedPool::from_op(&*node.op)?;
    let x = nchwc(site, node.input(0)?)?;
    if node.output(1).is_some() {
        return None;
    }
    let channels = channels_of(site, node.input(0)?)?;
    replace(site, node, Rc::new(pool), vec![Some(x)], channels)
}

/// Converts a mean over all pixels.
pub fn mean(site: &mut Site<'_>, node: &Node) -> Replaced {
    let reduce = mean_of_pixels(site, node)?;
    let (x, image) = (nchwc(site, node.input(0)?)?, node.input(0)?);
    let (pool, channels) = (Rc::new(BlockedPool::global_average()), channels_of(site, image)?);
    if reduce.keepdims {
        return replace(site, node, pool, vec![Some(x)], channels);
    }
    let pooled = site.before(node, pool, vec![Some(x)])?;
    let pooled = site.before(node, Rc::new(Unblock { channels }), vec![Some(pooled)])?;
    site.replace(node, Rc::new(Flatten { axis: 1 }), vec![Some(pooled)])
}

/// Converts a concatenation of channels. All operands but the last must fill their blocks.
pub fn concat(site: &mut Site<'_>, node: &Node) -> Replaced {
    let axis = node.op.downcast::<Concat>()?.axis;
    let rank = tensor(site.graph, node.input(0)?)?.rank();
    if axis.checked_rem_euclid(i64::try_from(rank).ok()?)? != 1 {
        return None;
    }
    let parts: Option<Vec<ValueId>> = node.inputs.iter().copied().collect();
    let (_, before) = parts.as_deref()?.split_last()?;
    for &part in before {
        if !blocked::fills_blocks(&tensor(site.graph, part)?.shape[1]) {
            return None;
        }
    }
    let mut channels = parts.iter().flatten().map(|&part| channels_of(site, part));
    let channels = channels.try_fold(0_i64, |sum, part| sum.checked_add(part?))?;
    let inputs: Option<Vec<_>> = parts?.into_iter().map(|id| nchwc(site, id)).collect();
    let inputs = inputs?.into_iter().map(Some).collect();
    replace(site, node, Rc::new(Concat { axis: 1 }), inputs, channels)
}

/// Converts a `Transpose` that moves the channels to the end.
pub fn transpose(site: &mut Site<'_>, node: &Node) -> Replaced {
    node.op.downcast::<Transpose>()?;
    let given = node.input(0)?;
    let (image, x) = match nchwc(site, given) {
        Some(x) => (given, x),
        None => {
            let image = channels_last::image_of_row(site, given)?;
            (image, nchwc(site, image)?)
        }
    };
    channels_last::from_blocks(site, node, image, x)
}

/// Restores a small convolution whose neighbors are in NCHW.
pub fn restore(site: &mut Site<'_>, node: &Node) -> Replaced {
    let x = node.input(0).filter(|_| node.op.is::<Unblock>())?;
    let sum = site.producer(x)?;
    let BlockedConv { conv, nchwc, shuffled } = sum.op.downcast()?;
    if conv.group > 1 || *shuffled > 1 {
        return None;
    }
    let weights = tensor(site.graph, sum.input(1)?)?;
    let depth = weights.shape[1..].iter().product::<Dim>().known()?;
    if site.uses(0) > 1 || sum.inputs.len() > 3 || depth >= MIN_DEPTH as i64 {
        return None;
    }
    let (op, mut inputs) = (conv.clone(), sum.inputs.clone());
    if *nchwc {
        let block = site.producer(sum.input(0)?).filter(|node| node.op.is::<Block>())?;
        inputs[0] = block.input(0);
    }
    site.replace(node, Rc::new(op), inputs)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        ops::{
            activation,
            pool::GlobalPool,
            reduce::{MEAN, Reduce},
            window::{AutoPad, Window},
        },
        passes::layout::{BLOCKED, BLOCKED_END, spread},
        ty::Type,
    };

    fn conv(graph: &mut Graph, x: ValueId, filters: [usize; 2], kernel: usize) -> ValueId {
        conv_over(graph, x, filters, &[kernel; 2])
    }

    fn conv_over(
        graph: &mut Graph,
        x: ValueId,
        [filters, channels]: [usize; 2],
        kernel: &[usize],
    ) -> ValueId {
        conv_of(graph, x, 1, &[&[filters, channels], kernel].concat())
    }

    fn conv_of(graph: &mut Graph, x: ValueId, group: i64, weights: &[usize]) -> ValueId {
        let window = Window {
            auto_pad: AutoPad::SameUpper,
            kernel_shape: Vec::new(),
            strides: Vec::new(),
            pads: Vec::new(),
            dilations: Vec::new(),
        };
        let op = Conv { window, group, activation: Activation::Identity, fused: false };
        let numbers = vec![1.0; weights.iter().product()];
        let weights = Tensor::from_numbers(DType::F32, weights.to_vec(), &numbers)
            .expect("the numbers fill the shape");
        let weights = graph.constant("w", weights);
        graph
            .add(graph.body, "conv", op, &[x, weights])
            .expect("the inputs have the sizes of the operator")
    }

    /// The operators left of a graph with one input of this many channels.
    fn after_layout(channels: usize, build: impl Fn(&mut Graph, ValueId) -> ValueId) -> String {
        after_layout_of(&[channels, 9, 9], build)
    }

    /// The operators left of a graph with one input of these channels and sizes.
    fn after_layout_of(sizes: &[usize], build: impl Fn(&mut Graph, ValueId) -> ValueId) -> String {
        let mut graph = Graph::new(Rc::default());
        let sizes = sizes.iter().map(|&size| Dim::from(size));
        let shape: Vec<Dim> = [Dim::symbol("n")].into_iter().chain(sizes).collect();
        let x = graph.input(graph.body, "x", Type::tensor(DType::F32, shape));
        let y = build(&mut graph, x);
        graph.set_outputs(graph.body, vec![y]);
        let graph = spread(graph, BLOCKED, BLOCKED_END).expect("the rules keep the graph valid");
        let nodes = graph[graph.body].nodes.iter();
        nodes.map(|&id| graph[id].op.name()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn blocks_end_once() {
        let found = after_layout(3, |graph, x| {
            let a = conv(graph, x, [24, 3], 3);
            let a = graph.add(graph.body, "f", activation::Activation::sigmoid(), &[a]);
            let a = a.expect("an activation takes any tensor");
            let b = conv(graph, a, [24, 24], 1);
            graph.add(graph.body, "sum", &ADD, &[a, b]).expect("the operands broadcast")
        });
        assert_eq!(found, "BlockedConv BlockedConv Add Unblock");
    }

    #[test]
    fn a_small_convolution_alone_stays() {
        assert_eq!(after_layout(3, |graph, x| conv(graph, x, [16, 3], 3)), "Conv");
        assert_eq!(after_layout(15, |graph, x| conv(graph, x, [16, 15], 3)), "BlockedConv Unblock");
        assert_eq!(after_layout(16, |graph, x| conv(graph, x, [4, 16], 3)), "Conv");
        assert_eq!(after_layout(96, |graph, x| conv(graph, x, [96, 96], 1)), "Conv");
    }

    #[test]
    fn many_channels_are_blocked_before_a_convolution() {
        let twice = |channels, kernel| {
            after_layout(channels, |graph, x| {
                let a = conv(graph, x, [24, channels], kernel);
                conv(graph, a, [24, 24], kernel)
            })
        };
        for (kernel, channels) in [(1, 17), (3, 16)] {
            assert_eq!(twice(channels - 1, kernel), "BlockedConv BlockedConv Unblock");
            assert_eq!(twice(channels, kernel), "Block BlockedConv BlockedConv Unblock");
        }
    }

    #[test]
    fn convolutions_over_one_to_three_axes_are_blocked() {
        for axes in 1..=4 {
            let sizes = [&[64], &[5; 4][..axes]].concat();
            let found =
                after_layout_of(&sizes, |graph, x| conv_over(graph, x, [16, 64], &[3; 4][..axes]));
            assert_eq!(found, if axes < 4 { "Block BlockedConv Unblock" } else { "Conv" });
        }
    }

    #[test]
    fn a_depthwise_convolution_is_blocked_where_that_outweighs_the_conversions() {
        let found = |channels: usize, image: usize, kernel: usize| {
            after_layout_of(&[channels, image, image], |graph, x| {
                conv_of(graph, x, channels as i64, &[channels, 1, kernel, kernel])
            })
        };
        let blocked = "Block BlockedConv Unblock";
        assert_eq!([found(32, 14, 3), found(32, 56, 3)], [blocked; 2]);
        assert_eq!([found(32, 14, 2), found(24, 14, 3)], ["Conv"; 2]);
    }

    #[test]
    fn a_mean_over_all_pixels_is_a_pool() {
        let found = |keepdims: bool, axes: &[i64]| {
            after_layout(32, |graph, x| {
                let a = conv(graph, x, [32, 32], 3);
                let axes = graph.constant("axes", Tensor::from_ints(axes));
                let op = Reduce { by: &MEAN, keepdims, noop_with_empty_axes: false };
                graph.add(graph.body, "mean", op, &[a, axes]).expect("the axes exist")
            })
        };
        assert_eq!(found(true, &[-1, -2]), "Block BlockedConv BlockedPool Unblock");
        assert_eq!(found(false, &[2, 3]), "Block BlockedConv BlockedPool Unblock Flatten");
        assert_eq!(found(true, &[3]), "Block BlockedConv Unblock ReduceMean");
    }

    #[test]
    fn a_convolution_of_pixels_takes_the_gate_before_it() {
        let found = |kernel: usize| {
            after_layout(32, |graph, x| {
                let a = conv(graph, x, [32, 32], 3);
                let mean = graph.add(graph.body, "mean", GlobalPool::Average, &[a]);
                let gate = conv(graph, mean.expect("an image has a mean"), [32, 32], 1);
                let gated = graph.add(graph.body, "gated", &MUL, &[gate, a]);
                conv(graph, gated.expect("the operands broadcast"), [16, 32], kernel)
            })
        };
        let before = "Block BlockedConv BlockedPool BlockedConv";
        assert_eq!(found(1), format!("{before} BlockedConv Unblock"));
        assert_eq!(found(3), format!("{before} Mul BlockedConv Unblock"));
    }

    #[test]
    fn blocks_end_before_a_number_of_more_axes() {
        let times = |axes: usize| {
            after_layout(16, move |graph, x| {
                let a = conv(graph, x, [16, 16], 3);
                let two = Tensor::from_numbers(DType::F32, vec![1; axes], &[2.0])
                    .expect("the numbers fill the shape");
                let two = graph.constant("two", two);
                graph.add(graph.body, "product", &MUL, &[a, two]).expect("the operands broadcast")
            })
        };
        assert_eq!(times(4), "Block BlockedConv Affine Unblock");
        assert_eq!(times(5), "Block BlockedConv Unblock Mul");
    }

    #[test]
    fn whole_blocks_can_be_concatenated() {
        let joined = |first| {
            after_layout(16, move |graph, x| {
                let (a, b) = (conv(graph, x, [first, 16], 3), conv(graph, x, [20, 16], 3));
                graph
                    .add(graph.body, "all", Concat { axis: -3 }, &[a, b])
                    .expect("the operands broadcast")
            })
        };
        assert_eq!(joined(32), "Block BlockedConv BlockedConv Concat Unblock");
        assert_eq!(joined(24), "Block BlockedConv Unblock BlockedConv Unblock Concat");
    }
}
