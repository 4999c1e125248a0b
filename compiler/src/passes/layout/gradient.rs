//! Stores the operands of gradients in NCHWc.

use super::blocked::{channels_of, nchwc, replace, to_nchwc};
use crate::{
    dim::Dim,
    dtype::DType,
    ir::{Node, Site, ValueId},
    ops::{
        blocked::{self, BLOCK, Block},
        conv::{blocked_weight_grad::BlockedConvWeightGrad, weight_grad::ConvWeightGrad},
        expand::Expand,
        gate::{Between, Gate},
        pool::gradient::{BlockedMaxPoolGrad, MaxPoolGrad},
        reduce::{Reduce, SUM},
    },
    passes::fuse::{Replaced, tensor},
    tensor::Tensor,
};
use onnxc_runtime::kernels::conv::has_flat_blocks;
use std::rc::Rc;

/// Converts the gradient of a convolution with respect to its weights.
pub fn conv_weight_grad(site: &mut Site<'_>, node: &Node) -> Replaced {
    let conv_weight_grad = node.op.downcast::<ConvWeightGrad>()?;
    let (x, dy) = (node.input(0)?, node.input(1)?);
    let blocked = nchwc(site, x);
    let sizes =
        conv_weight_grad.window.sizes().iter().map(Dim::known).collect::<Option<Vec<_>>>()?;
    let kernel: Vec<usize> = sizes.iter().filter_map(|&n| usize::try_from(n).ok()).collect();
    let gains = blocked.is_some() || nchwc(site, dy).is_some();
    if !gains || !has_flat_blocks(&kernel) || kernel.len() < sizes.len() {
        return None;
    }
    let (channels, filters) = (channels_of(site, x)?, channels_of(site, dy)?);
    let depthwise = conv_weight_grad.group > 1;
    if depthwise && [channels, filters] != [conv_weight_grad.group; 2] {
        return None;
    }
    if tensor(site.graph, x)?.dtype != DType::F32 || channels * filters == 0 {
        return None;
    }
    let dy = to_nchwc(site, node, dy)?;
    let x = if depthwise { to_nchwc(site, node, x)? } else { blocked.unwrap_or(x) };
    let op = BlockedConvWeightGrad {
        window: conv_weight_grad.window.clone(),
        channels,
        filters,
        nchwc: depthwise || blocked.is_some(),
        depthwise,
    };
    site.replace(node, Rc::new(op), vec![Some(x), Some(dy)])
}

/// Converts the gradient of max pooling.
pub fn max_pool(site: &mut Site<'_>, node: &Node) -> Replaced {
    let MaxPoolGrad { pool } = node.op.downcast()?;
    let x = nchwc(site, node.input(0)?)?;
    let channels = channels_of(site, node.input(0)?)?;
    let dy = operand_to_nchwc(site, node, node.input(1)?)?;
    let op = Rc::new(BlockedMaxPoolGrad { pool: pool.clone() });
    replace(site, node, op, vec![Some(x), Some(dy)], channels)
}

/// Converts the gradient of a gate, such as `Relu`.
pub fn gate(site: &mut Site<'_>, node: &Node) -> Replaced {
    if !node.op.is::<Gate>() && !node.op.is::<Between>() {
        return None;
    }
    let (x, gate) = (node.input(0)?, node.input(1)?);
    if nchwc(site, x).is_none() && nchwc(site, gate).is_none() {
        return None;
    }
    let channels = channels_of(site, x)?;
    let (x, gate) = (operand_to_nchwc(site, node, x)?, to_nchwc(site, node, gate)?);
    let mut inputs = vec![Some(x), Some(gate)];
    inputs.extend(&node.inputs[2..]);
    replace(site, node, node.op.clone(), inputs, channels)
}

/// Converts a sum over all axes but that of the channels.
pub fn sum(site: &mut Site<'_>, node: &Node) -> Replaced {
    let reduce = node.op.downcast::<Reduce>()?;
    let x = nchwc(site, node.input(0)?)?;
    let rank = i64::try_from(tensor(site.graph, node.input(0)?)?.rank()).ok()?;
    let mut axes = site.graph[node.input(1)?].ints()?;
    axes.iter_mut().filter(|axis| **axis < 0).for_each(|axis| *axis += rank);
    axes.sort_unstable();
    let others: Vec<i64> = [0].into_iter().chain(2..rank).collect();
    if !std::ptr::eq(reduce.by, &SUM) || !reduce.keepdims || axes != others {
        return None;
    }
    let channels = channels_of(site, node.input(0)?)?;
    let axes = site.graph.constant(&format!("{} axes", node.name), Tensor::from_ints(&others));
    let op = Reduce { by: &SUM, keepdims: true, noop_with_empty_axes: false };
    replace(site, node, Rc::new(op), vec![Some(x), Some(axes)], channels)
}

/// `value` in NCHWc. If `value` expands one pixel per channel, blocks the pixel first and expands
/// it then.
pub fn operand_to_nchwc(site: &mut Site<'_>, node: &Node, value: ValueId) -> Option<ValueId> {
    let Some((pixel, shape)) = pixel(site, value) else { return to_nchwc(site, node, value) };
    let block = site.before(node, Rc::new(Block), vec![Some(pixel)])?;
    let shape = site.graph.constant(&format!("{} shape", node.name), Tensor::from_ints(&shape));
    site.before(node, Rc::new(Expand), vec![Some(block), Some(shape)])
}

/// The operand of the `Expand` that makes `value` of one pixel per channel, and the shape of
/// `value` in NCHWc.
fn pixel(site: &Site<'_>, value: ValueId) -> Option<(ValueId, Vec<i64>)> {
    let expand = site.producer(value).filter(|node| node.op.is::<Expand>())?;
    let pixel = expand.input(0)?;
    let (from, to) = (tensor(site.graph, pixel)?, tensor(site.graph, value)?);
    let one = from.shape.get(2..)?.iter().all(|size| size.known() == Some(1));
    if !one || from.rank() != to.rank() || from.shape[..2] != to.shape[..2] {
        return None;
    }
    let shape =
        blocked::blocked_shape(&to.shape)?.iter().map(Dim::known).collect::<Option<Vec<_>>>()?;
    debug_assert_eq!(shape.last().copied(), i64::try_from(BLOCK).ok());
    Some((pixel, shape))
}
