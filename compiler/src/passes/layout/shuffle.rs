//! Shuffles channels between grouped convolutions, as ShuffleNet does.
//!
//! A convolution that reads shuffled channels reads them from their old positions, and nothing is
//! moved.

use super::blocked::{gains, is_constant, is_depthwise, nchwc, replace};
use crate::{
    dim::Dim,
    ir::{Node, Site, ValueId},
    ops::{
        blocked::Shuffle,
        conv::{Conv, blocked::BlockedConv},
        reshape::Reshape,
        transpose::Transpose,
    },
    passes::fuse::{Replaced, tensor},
    tensor::Tensor,
};
use std::rc::Rc;

/// Replaces `Reshape`, `Transpose` and `Reshape` that together shuffle channels by `Shuffle`.
pub fn recognize(site: &mut Site<'_>, node: &Node) -> Replaced {
    let Reshape { allowzero } = *node.op.downcast()?;
    let transposed = site.producer(node.input(0)?)?;
    let perm = transposed.op.downcast::<Transpose>()?.perm.as_ref()?;
    let cut = site.producer(transposed.input(0)?)?;
    cut.op.downcast::<Reshape>()?;
    let (whole, parts) = (cut.input(0)?, tensor(site.graph, cut.outputs[0]?)?);
    let x = tensor(site.graph, whole)?;
    let ([batch, channels, image @ ..], [first, groups, each, rest @ ..]) =
        (&x.shape[..], &parts.shape[..])
    else {
        return None;
    };
    let swaps = perm.iter().enumerate().all(|(axis, &from)| match axis {
        1 | 2 => from == 3 - axis as i64,
        _ => from == axis as i64,
    });
    if !swaps || batch != first || image != rest || *channels != groups * each {
        return None;
    }
    // The number of elements stays the same, so one size may be -1.
    let wanted = site.graph[node.input(1)?].known.as_ref()?;
    let as_before = |(axis, (wanted, size)): (usize, (&Dim, &Dim))| match wanted.known() {
        Some(0) => axis == 0 && !allowzero,
        Some(-1) => true,
        _ => wanted == size,
    };
    if wanted.len() != x.rank() || !wanted.iter().zip(&x.shape).enumerate().all(as_before) {
        return None;
    }
    let (channels, groups) = (channels.known()?, groups.known()?);
    let x = nchwc(site, whole)?;
    replace(site, node, Rc::new(Shuffle { channels, groups }), vec![Some(x)], channels)
}

/// Moves a depthwise convolution before the shuffle of its input.
pub fn move_past_depthwise(site: &mut Site<'_>, node: &Node) -> Replaced {
    let conv = node.op.downcast::<Conv>()?;
    let of_constants = |i: usize| node.input(i).is_none() || is_constant(site.graph, node, i);
    if !is_depthwise(site.graph, node, conv)
        || !gains(site.graph, node, conv, true)
        || node.input(3).is_some()
        || ![1, 2].into_iter().all(of_constants)
    {
        return None;
    }
    let blocked = nchwc(site, node.input(0)?)?;
    let dealt = site.producer(blocked)?;
    let (x, &shuffle) = (dealt.input(0)?, dealt.op.downcast::<Shuffle>()?);
    let mut inputs = vec![Some(x)];
    for i in 1..node.inputs.len().min(3) {
        inputs.push(match node.input(i) {
            Some(id) => Some(permute_channels(site, id, &shuffle)?),
            None => None,
        });
    }
    let conv = BlockedConv { conv: conv.clone(), nchwc: true, shuffled: 1 };
    let result = site.before(node, Rc::new(conv), inputs)?;
    replace(site, node, Rc::new(shuffle), vec![Some(result)], shuffle.channels)
}

/// Permutes the constant `id`, which has a slice per shuffled channel, to the order before the
/// shuffle.
fn permute_channels(site: &mut Site<'_>, id: ValueId, shuffle: &Shuffle) -> Option<ValueId> {
    let value = &site.graph[id];
    let (name, constant) = (value.name.clone(), value.constant.as_ref()?);
    let each = constant.len() / constant.shape[0];
    let mut order = vec![0; constant.shape[0]];
    for channel in 0..shuffle.channels {
        order[usize::try_from(shuffle.source(channel)).ok()?] = usize::try_from(channel).ok()?;
    }
    let places = order.into_iter().flat_map(|channel| channel * each..(channel + 1) * each);
    let places: Vec<usize> = places.collect();
    let (shape, bytes) = (constant.shape.clone(), constant.take(&places).raw());
    let permuted = Tensor::from_raw(constant.dtype, shape, bytes);
    Some(site.graph.constant(&name, permuted))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        dtype::DType,
        ir::Graph,
        ops::window::{AutoPad, Window},
        passes::layout::{BLOCKED, spread},
        ty::Type,
    };
    use onnxc_runtime::kernels::epilogue::Activation;

    /// A convolution in `group` groups, of 40 channels and 40 filters.
    fn conv(graph: &mut Graph, x: ValueId, group: usize, kernel: usize) -> ValueId {
        let window = Window {
            auto_pad: AutoPad::SameUpper,
            kernel_shape: Vec::new(),
            strides: Vec::new(),
            pads: Vec::new(),
            dilations: Vec::new(),
        };
        let (group, activation) = (group as i64, Activation::Identity);
        let op = Conv { window, group, activation, fused: false };
        let shape = vec![40, 40 / group as usize, kernel, kernel];
        let numbers: Vec<f64> = (0..shape.iter().product()).map(|i: usize| i as f64).collect();
        let weights =
            Tensor::from_numbers(DType::F32, shape, &numbers).expect("the numbers fill the shape");
        let weights = graph.constant("w", weights);
        graph
            .add(graph.body, "conv", op, &[x, weights])
            .expect("the inputs have the sizes of the operator")
    }

    fn reshape(graph: &mut Graph, x: ValueId, shape: &[i64]) -> ValueId {
        let shape = graph.constant("shape", Tensor::from_ints(shape));
        let op = Reshape { allowzero: false };
        graph
            .add(graph.body, "reshape", op, &[x, shape])
            .expect("the shape keeps the number of elements")
    }

    /// A graph that shuffles the channels of four groups, followed by `then`, after the pass.
    fn dealt_out(then: impl Fn(&mut Graph, ValueId) -> ValueId) -> Graph {
        let mut graph = Graph::new(Rc::default());
        let x = graph.input(graph.body, "x", Type::tensor(DType::F32, [2, 40, 9, 9]));
        let y = conv(&mut graph, x, 4, 1);
        let y = reshape(&mut graph, y, &[0, 4, 10, 9, 9]);
        let op = Transpose { perm: Some(vec![0, 2, 1, 3, 4]) };
        let y = graph
            .add(graph.body, "transpose", op, &[y])
            .expect("the permutation has every axis once");
        let y = reshape(&mut graph, y, &[2, -1, 9, 9]);
        let y = then(&mut graph, y);
        graph.set_outputs(graph.body, vec![y]);
        spread(graph, BLOCKED, &[]).expect("the rules keep the graph valid")
    }

    fn ops(graph: &Graph) -> String {
        let nodes = graph[graph.body].nodes.iter();
        nodes.map(|&id| graph[id].op.name()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn groups_read_channels_where_they_are() {
        let graph = dealt_out(|graph, x| {
            let each = conv(graph, x, 40, 3);
            conv(graph, each, 4, 1)
        });
        assert_eq!(ops(&graph), "Block BlockedConv BlockedConv BlockedConv Unblock");
        let each = &graph[graph[graph.body].nodes[2]];
        let weights = graph[each.input(1).expect("a convolution has weights")].constant.as_ref();
        let weights =
            weights.expect("the weights are constant").floats().expect("the weights are numbers");
        // Channel 1 of the first group becomes channel 4 of the shuffled ones.
        assert_eq!(weights[9], 36.0);
        let last = &graph[graph[graph.body].nodes[3]];
        assert_eq!(
            last.op.downcast::<BlockedConv>().expect("the node is a blocked convolution").shuffled,
            4
        );
    }

    #[test]
    fn a_depthwise_convolution_by_an_input_reads_shuffled_channels() {
        let graph = dealt_out(|graph, x| {
            let each = conv(graph, x, 40, 3);
            let weights = graph.input(graph.body, "w", Type::tensor(DType::F32, [40, 1, 3, 3]));
            let last = graph[graph.body].nodes.last().copied().expect("the graph has a node");
            let op = graph[last].op.downcast::<Conv>().expect("it is a convolution").clone();
            let of_input = graph.add(graph.body, "each", op, &[x, weights]);
            let of_input = of_input.expect("the weights have the shape of the constant ones");
            let outputs = [each, of_input];
            graph.add(graph.body, "sum", &crate::ops::binary::ADD, &outputs).expect("same shapes")
        });
        let convs = graph.nodes().filter_map(|(_, node)| node.op.downcast::<BlockedConv>());
        let shuffled: Vec<i64> = convs.map(|conv| conv.shuffled).collect();
        assert_eq!(shuffled, [1, 1, 1], "{}", ops(&graph));
        assert_eq!(ops(&graph).matches("Shuffle").count(), 2, "{}", ops(&graph));
    }

    #[test]
    fn a_shuffle_with_another_reader_is_computed() {
        assert_eq!(ops(&dealt_out(|_, x| x)), "Block BlockedConv Shuffle Unblock");
    }
}
