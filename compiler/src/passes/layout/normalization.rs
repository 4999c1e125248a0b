//! Stores the operands of batch normalization, and of its gradient, in NCHWc. Its parameters are no
//! constants here.

use super::{
    blocked::{channels_of, nchwc, replace},
    gradient::operand_to_nchwc,
};
use crate::{
    dtype::DType,
    ir::{Node, Site, ValueId},
    ops::{
        blocked::{Affine, Unblock},
        norm::{
            batch::BatchNormalization,
            channel::{ChannelFactors, ChannelGrad, ChannelMoments, ChannelSums, RunningMean},
        },
    },
    passes::fuse::{Replaced, tensor},
};
use onnxc_runtime::kernels::epilogue::Activation;
use std::rc::Rc;

/// Converts batch normalization with the running statistics.
pub fn inference(site: &mut Site<'_>, node: &Node) -> Replaced {
    let op = node.op.downcast::<BatchNormalization>().filter(|op| !op.training_mode)?;
    let x = nchwc(site, node.input(0)?)?;
    let numbers = parameters(site, node)?;
    let channels = channels_of(site, node.input(0)?)?;
    let inputs = affine(site, node, x, numbers, op.epsilon)?;
    replace(site, node, Rc::new(Affine { activation: Activation::Identity }), inputs, channels)
}

/// Converts batch normalization with the statistics of its input.
pub fn training(site: &mut Site<'_>, node: &Node) -> Replaced {
    let op = node.op.downcast::<BatchNormalization>().filter(|op| op.training_mode)?;
    if node.outputs.len() > 3 {
        return None;
    }
    let x = nchwc(site, node.input(0)?)?;
    let [scale, bias, ..] = parameters(site, node)?;
    let channels = channels_of(site, node.input(0)?)?;
    let moments = Rc::new(ChannelMoments { blocked: Some(channels) });
    let now: [ValueId; 2] = site.several_before(node, moments, vec![Some(x)])?;
    let inputs = affine(site, node, x, [scale, bias, now[0], now[1]], op.epsilon)?;
    let y = site.before(node, Rc::new(Affine { activation: Activation::Identity }), inputs)?;
    let mut outputs =
        vec![Some(site.before(node, Rc::new(Unblock { channels }), vec![Some(y)])?)];
    for (i, now) in (1..node.outputs.len()).zip(now) {
        let running = |site: &mut Site<'_>| {
            let op = Rc::new(RunningMean { momentum: op.momentum });
            site.before(node, op, vec![node.input(i + 2), Some(now)])
        };
        outputs.push(match node.output(i) {
            Some(_) => Some(running(site)?),
            None => None,
        });
    }
    Some(outputs)
}

/// Converts the mean and variance of each channel.
pub fn moments(site: &mut Site<'_>, node: &Node) -> Replaced {
    node.op.downcast::<ChannelMoments>()?;
    let x = nchwc(site, node.input(0)?)?;
    let channels = channels_of(site, node.input(0)?)?;
    site.replace(node, Rc::new(ChannelMoments { blocked: Some(channels) }), vec![Some(x)])
}

/// Converts the sums per channel from which the gradients are computed.
pub fn sums(site: &mut Site<'_>, node: &Node) -> Replaced {
    node.op.downcast::<ChannelSums>()?;
    let (x, dy, mean) = (node.input(0)?, node.input(1)?, node.input(2)?);
    if nchwc(site, x).is_none() && nchwc(site, dy).is_none() {
        return None;
    }
    let channels = channels_of(site, x)?;
    let [x, dy] = [operand_to_nchwc(site, node, x)?, operand_to_nchwc(site, node, dy)?];
    let op = Rc::new(ChannelSums { blocked: Some(channels) });
    site.replace(node, op, vec![Some(x), Some(dy), Some(mean)])
}

/// Converts the gradients with respect to the input and the scale.
pub fn gradient(site: &mut Site<'_>, node: &Node) -> Replaced {
    let op = node.op.downcast::<ChannelGrad>()?;
    let (dy, x) = (node.input(0)?, node.input(1)?);
    if nchwc(site, x).is_none() && nchwc(site, dy).is_none() {
        return None;
    }
    let channels = channels_of(site, x)?;
    let mut inputs = node.inputs.clone();
    inputs[0] = Some(operand_to_nchwc(site, node, dy)?);
    inputs[1] = Some(operand_to_nchwc(site, node, x)?);
    let op = Rc::new(ChannelGrad { epsilon: op.epsilon, blocked: Some(channels) });
    let [dx, by_scale] = site.several_before(node, op, inputs)?;
    let dx = site.before(node, Rc::new(Unblock { channels }), vec![Some(dx)])?;
    Some(vec![Some(dx), node.output(1).map(|_| by_scale)])
}

/// The scale, the bias, the mean and the variance, if all are `float32`.
fn parameters(site: &Site<'_>, node: &Node) -> Option<[ValueId; 4]> {
    let single = |i| Some(tensor(site.graph, node.input(i)?)?.dtype == DType::F32);
    if !(1..5).all(|i| single(i) == Some(true)) {
        return None;
    }
    Some([node.input(1)?, node.input(2)?, node.input(3)?, node.input(4)?])
}

/// The inputs of [`Affine`] that normalize `x`.
fn affine(
    site: &mut Site<'_>,
    node: &Node,
    x: ValueId,
    parameters: [ValueId; 4],
    epsilon: f32,
) -> Option<Vec<Option<ValueId>>> {
    let parameters = parameters.into_iter().map(Some).collect();
    let factors = Rc::new(ChannelFactors { epsilon });
    let [factors, shifts] = site.several_before(node, factors, parameters)?;
    Some(vec![Some(x), Some(factors), Some(shifts)])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        ir::{Graph, NewNode, Op},
        ops::{
            conv::Conv,
            window::{AutoPad, Window},
        },
        passes::layout::{BLOCKED, spread},
        ty::Type,
    };

    /// The operators left of a convolution followed by `build`, which gets four inputs of 24
    /// elements, one per channel.
    fn after_layout(build: impl Fn(&mut Graph, ValueId, [ValueId; 4])) -> String {
        let mut graph = Graph::new(Rc::default());
        let mut input = |shape: &[usize]| {
            let ty = Type::tensor(DType::F32, shape.to_vec());
            graph.input(graph.body, "x", ty)
        };
        let (x, weights) = (input(&[2, 32, 9, 9]), input(&[24, 32, 3, 3]));
        let numbers = [(); 4].map(|()| input(&[24]));
        let window = Window {
            auto_pad: AutoPad::SameUpper,
            kernel_shape: Vec::new(),
            strides: Vec::new(),
            pads: Vec::new(),
            dilations: Vec::new(),
        };
        let activation = Activation::Identity;
        let op = Conv { window, group: 1, activation, fused: false };
        let y = graph
            .add(graph.body, "conv", op, &[x, weights])
            .expect("the inputs have the sizes of the operator");
        build(&mut graph, y, numbers);
        let graph = spread(graph, BLOCKED, &[]).expect("the rules keep the graph valid");
        let names = graph[graph.body].nodes.iter().map(|&id| graph[id].op.name());
        names.collect::<Vec<_>>().join(" ")
    }

    /// Adds a node with this many outputs, and makes them the outputs of the graph.
    fn last(graph: &mut Graph, op: impl Op, inputs: &[ValueId], outputs: usize) {
        let names: Vec<_> = (0..outputs).map(|i| Some(format!("y{i}"))).collect();
        let inputs = inputs.iter().copied().map(Some).collect();
        let regions = Vec::new();
        let new = NewNode { name: "y", op: Rc::new(op), inputs, outputs: &names, regions };
        let (id, result) = graph.node(graph.body, new);
        result.expect("the inputs have the sizes of the operator");
        let outputs = graph[id].outputs.iter().copied().flatten().collect();
        graph.set_outputs(graph.body, outputs);
    }

    fn norm(training_mode: bool) -> BatchNormalization {
        BatchNormalization { epsilon: 1e-5, momentum: 0.9, training_mode }
    }

    #[test]
    fn variable_parameters_stay_in_blocks() {
        let found = after_layout(|graph, x, [scale, bias, mean, variance]| {
            last(graph, norm(false), &[x, scale, bias, mean, variance], 1);
        });
        assert_eq!(found, "Block BlockedConv ChannelFactors Affine Unblock");
        let found = after_layout(|graph, x, [scale, bias, mean, variance]| {
            last(graph, norm(true), &[x, scale, bias, mean, variance], 3);
        });
        let statistics = "Block BlockedConv ChannelMoments ChannelFactors Affine";
        assert_eq!(found, format!("{statistics} Unblock RunningMean RunningMean"));
    }

    #[test]
    fn sums_are_of_blocks() {
        let found = after_layout(|graph, x, [mean, ..]| {
            last(graph, ChannelSums { blocked: None }, &[x, x, mean], 2);
        });
        assert_eq!(found, "Block BlockedConv ChannelSums");
        let found = after_layout(|graph, x, [scale, bias, mean, variance]| {
            let op = ChannelGrad { epsilon: 1e-5, blocked: None };
            last(graph, op, &[x, x, scale, bias, mean, variance, mean], 2);
        });
        assert_eq!(found, "Block BlockedConv ChannelGrad Unblock");
        let found =
            after_layout(|graph, x, _| last(graph, ChannelMoments { blocked: None }, &[x], 2));
        assert_eq!(found, "Block BlockedConv ChannelMoments");
    }
}
