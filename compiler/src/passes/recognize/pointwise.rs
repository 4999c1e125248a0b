//! Recognizes a linear function of the channels of images: a product between two transpositions,
//! as in attention that mixes its heads, is a convolution of single pixels.

use super::matching::{either, operands, uniform, unrounded};
use crate::{
    ir::{Node, Site, ValueId},
    ops::{
        binary::ADD,
        conv::Conv,
        matmul::MatMul,
        transpose::Transpose,
        window::{AutoPad, Window},
    },
    tensor::Tensor,
};
use onnxc_runtime::kernels::epilogue::Activation;
use std::rc::Rc;

/// Replaces `MatMul(x, w) + bias` over the channels of images, which are the last axis only for the
/// product, by a `Conv`.
pub fn recognize_pointwise(site: &mut Site<'_>, node: &Node) -> Option<Vec<Option<ValueId>>> {
    let rank = unrounded(site.graph, node.input(0)?)?.rank();
    if rank < 3 || site.uses(0) > 1 || !permutes(node, channels_second(rank)) {
        return None;
    }
    let (product, bias) = match_product(site, node.input(0)?)?;
    let before = site.producer(product.input(0)?)?;
    if !permutes(before, channels_last(rank)) {
        return None;
    }
    let x = before.input(0);
    let weights = site.graph[product.input(1)?].constant.as_ref()?;
    let &[channels, filters] = weights.shape.as_slice() else { return None };
    let numbers = weights.floats()?;
    let by_filter = (0..filters).flat_map(|filter| numbers.iter().skip(filter).step_by(filters));
    let by_filter: Vec<f64> = by_filter.copied().collect();
    let shape = [vec![filters, channels], vec![1; rank - 2]].concat();
    let weights = Tensor::from_numbers(weights.dtype, shape, &by_filter).ok()?;
    let weights = site.graph.constant(&format!("{}_weights", node.name), weights);
    let window = Window {
        auto_pad: AutoPad::NotSet,
        kernel_shape: Vec::new(),
        strides: Vec::new(),
        pads: Vec::new(),
        dilations: Vec::new(),
    };
    let conv = Conv { window, group: 1, activation: Activation::Identity, fused: false };
    site.replace(node, Rc::new(conv), vec![x, Some(weights), bias])
}

/// Returns the permutation that moves the axis after the first to the end.
fn channels_last(rank: usize) -> impl Iterator<Item = usize> {
    [0].into_iter().chain(2..rank).chain([1])
}

/// Returns the permutation that moves the last axis behind the first.
fn channels_second(rank: usize) -> impl Iterator<Item = usize> {
    [0, rank - 1].into_iter().chain(1..rank - 1)
}

/// Returns whether a node is a `Transpose` by this permutation.
fn permutes(node: &Node, perm: impl Iterator<Item = usize>) -> bool {
    let found = node.op.downcast::<Transpose>().and_then(|op| op.perm.as_deref());
    found.is_some_and(|found| found.iter().copied().eq(perm.map(|axis| axis as i64)))
}

/// Returns the product that computes `value`, and the constant vector that is added to it, unless
/// that is zero.
fn match_product<'s>(site: &'s Site<'_>, value: ValueId) -> Option<(&'s Node, Option<ValueId>)> {
    let product = |value: ValueId| {
        let node = site.producer(value)?;
        node.op.downcast::<MatMul>().is_some_and(|product| !product.fused).then_some(node)
    };
    if let Some(product) = product(value) {
        return Some((product, None));
    }
    let (sum, bias) = either(operands(site, value, &ADD)?, |sum, bias| {
        if uniform(site.graph, bias) == Some(0.0) {
            return Some((sum, None));
        }
        let constant = site.graph[bias].constant.as_ref()?;
        let columns = unrounded(site.graph, sum)?.shape.last()?.known()?;
        let is_vector = constant.shape.iter().map(|&n| n as i64).eq([columns]);
        is_vector.then_some((sum, Some(bias)))
    })?;
    Some((product(sum)?, bias))
}
