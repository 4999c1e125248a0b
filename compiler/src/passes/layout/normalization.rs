//! Normalizations of channels whose numbers only running tells, and their derivatives, in blocks.

use super::{
    blocks::{channels_of, in_blocks, replace},
    derivative::stretched,
};
use crate::{
    dtype::DType,
    ir::{Node, Site, ValueId},
    ops::{
        binary::{ADD, MUL},
        blocks::{Affine, Unblock},
        norm::{
            batch::BatchNormalization,
            channel::{ChannelFactors, ChannelMoments, ChannelSums},
        },
    },
    passes::fuse::{Replaced, tensor},
    tensor::Tensor,
};
use onnxc_runtime::activation_fn::Activation;
use std::rc::Rc;

/// A normalization with given statistics.
pub fn given(site: &mut Site<'_>, node: &Node) -> Replaced {
    let op = node.op.downcast::<BatchNormalization>().filter(|op| !op.training_mode)?;
    let x = in_blocks(site, node.input(0)?)?;
    let numbers = parameters(site, node)?;
    let channels = channels_of(site, node.input(0)?)?;
    let inputs = affine(site, node, x, numbers, op.epsilon)?;
    replace(site, node, Rc::new(Affine { activation: Activation::Identity }), inputs, channels)
}

/// A normalization with the statistics of its input.
pub fn training(site: &mut Site<'_>, node: &Node) -> Replaced {
    let op = node.op.downcast::<BatchNormalization>().filter(|op| op.training_mode)?;
    if node.outputs.len() > 3 {
        return None;
    }
    let x = in_blocks(site, node.input(0)?)?;
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
            let kept = times(site, node, node.input(i + 2)?, op.momentum)?;
            let new = times(site, node, now, 1.0 - op.momentum)?;
            site.before(node, Rc::new(&ADD), vec![Some(kept), Some(new)])
        };
        outputs.push(match node.output(i) {
            Some(_) => Some(running(site)?),
            None => None,
        });
    }
    Some(outputs)
}

/// The statistics of channels.
pub fn moments(site: &mut Site<'_>, node: &Node) -> Replaced {
    node.op.downcast::<ChannelMoments>()?;
    let x = in_blocks(site, node.input(0)?)?;
    let channels = channels_of(site, node.input(0)?)?;
    site.replace(node, Rc::new(ChannelMoments { blocked: Some(channels) }), vec![Some(x)])
}

/// The sums that derivatives follow from.
pub fn sums(site: &mut Site<'_>, node: &Node) -> Replaced {
    node.op.downcast::<ChannelSums>()?;
    let (x, dy, mean) = (node.input(0)?, node.input(1)?, node.input(2)?);
    if in_blocks(site, x).is_none() && in_blocks(site, dy).is_none() {
        return None;
    }
    let channels = channels_of(site, x)?;
    let [x, dy] = [stretched(site, node, x)?, stretched(site, node, dy)?];
    let op = Rc::new(ChannelSums { blocked: Some(channels) });
    site.replace(node, op, vec![Some(x), Some(dy), Some(mean)])
}

/// The scale, the bias, the means and the variances.
fn parameters(site: &Site<'_>, node: &Node) -> Option<[ValueId; 4]> {
    let single = |i| Some(tensor(site.graph, node.input(i)?)?.dtype == DType::F32);
    if !(1..5).all(|i| single(i) == Some(true)) {
        return None;
    }
    Some([node.input(1)?, node.input(2)?, node.input(3)?, node.input(4)?])
}

/// What [`Affine`] takes to normalize `x`.
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

/// `value` times a number.
fn times(site: &mut Site<'_>, node: &Node, value: ValueId, by: f32) -> Option<ValueId> {
    let by = Tensor::from_number(DType::F32, f64::from(by)).ok()?;
    let by = site.graph.constant(&format!("{} share", node.name), by);
    site.before(node, Rc::new(&MUL), vec![Some(value), Some(by)])
}
