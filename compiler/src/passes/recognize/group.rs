//! Recognizes `GroupNormalization` in an `InstanceNormalization` of reshaped groups, as models of
//! operator sets before 18 write it.

use super::matching::{number, uniform, unrounded};
use crate::{
    dim::Dim,
    dtype::DType,
    ir::{Node, Site, ValueId},
    limits::Limit,
    ops::{
        binary::{ADD, Binary, MUL},
        norm::batch::{GroupNormalization, InstanceNormalization},
        reshape::Reshape,
    },
    passes::fuse::{Replaced, is},
    tensor::Tensor,
};
use std::rc::Rc;

/// Recognizes an `InstanceNormalization` between a `Reshape` to `[batch, groups, …]` and one back.
pub fn recognize_group(site: &mut Site<'_>, node: &Node) -> Replaced {
    let instance = site.producer(node.input(0)?)?;
    let epsilon = instance.op.downcast::<InstanceNormalization>()?.epsilon;
    let parameters = [1, 2].map(|i| uniform(site.graph, instance.input(i)?));
    let split = site.producer(instance.input(0)?).filter(|split| split.op.is::<Reshape>())?;
    let x = split.input(0)?;
    let shape = &unrounded(site.graph, x)?.shape;
    let [batch, groups, ..] = &unrounded(site.graph, instance.input(0)?)?.shape[..] else {
        return None;
    };
    let (groups, channels) = (groups.known()?, shape.get(1)?.known()?);
    let is_grouped = *batch == shape[0] && groups > 0 && channels % groups == 0;
    let is_plain = parameters == [Some(1.0), Some(0.0)];
    if !is_grouped || !is_plain || site.uses(0) > 1 || !reshapes_to(site, node, shape) {
        return None;
    }
    let [scale, bias] = [1.0, 0.0].map(|number| fill(site, x, channels, number));
    let op = GroupNormalization { epsilon, num_groups: groups, stash_type: DType::F32 };
    site.replace(node, Rc::new(op), vec![Some(x), Some(scale?), Some(bias?)])
}

/// Returns whether `node` is a `Reshape` to `shape`. The first axis may be copied.
fn reshapes_to(site: &Site<'_>, node: &Node, shape: &[Dim]) -> bool {
    let Some(reshape) = node.op.downcast::<Reshape>() else { return false };
    let target = node.input(1).and_then(|target| site.graph[target].known.as_ref());
    target.is_some_and(|target| {
        let inferred = target.iter().filter(|size| size.known() == Some(-1)).count();
        let fits = |(i, (size, wanted)): (usize, (&Dim, &Dim))| {
            let is_copied = i == 0 && size.known() == Some(0) && !reshape.allowzero;
            size == wanted || is_copied || size.known() == Some(-1)
        };
        target.len() == shape.len()
            && inferred <= 1
            && target.iter().zip(shape).enumerate().all(fits)
    })
}

/// Replaces a product with the result of a `GroupNormalization` whose scale is 1 and whose bias is
/// 0 by one with that scale.
pub fn recognize_group_scale(site: &mut Site<'_>, node: &Node) -> Replaced {
    absorb(site, node, &MUL, 1)
}

/// Replaces a sum with the result of a `GroupNormalization` whose bias is 0 by one with that bias.
pub fn recognize_group_bias(site: &mut Site<'_>, node: &Node) -> Replaced {
    absorb(site, node, &ADD, 2)
}

/// Matches the operator `row` of the result of a `GroupNormalization`, which nothing else uses, and
/// a constant with a number for all channels or for each of them, which becomes input `i`.
fn absorb(site: &mut Site<'_>, node: &Node, row: &'static Binary, i: usize) -> Replaced {
    if !is(node, row) {
        return None;
    }
    let (op, mut inputs, operand) = [(0, 1), (1, 0)].into_iter().find_map(|(a, b)| {
        let normalization = site.producer(node.input(a)?)?;
        normalization.op.downcast::<GroupNormalization>()?;
        let is_zero = uniform(site.graph, normalization.input(2)?) == Some(0.0);
        let is_one = i == 2 || uniform(site.graph, normalization.input(1)?) == Some(1.0);
        let accepts = is_zero && is_one && site.uses(a) == 1;
        accepts.then(|| {
            Some((normalization.op.clone(), normalization.inputs.clone(), node.input(b)?))
        })?
    })?;
    let x = inputs[0]?;
    let channels = unrounded(site.graph, inputs[1]?)?.shape[0].known()?;
    let rank = unrounded(site.graph, x)?.rank();
    let constant = site.graph[operand].constant.as_ref()?;
    let is_narrow = constant.shape.len() <= rank;
    inputs[i] = Some(match per_channel(constant, rank, channels) {
        Some(constant) => site.graph.constant("channels", constant),
        None => fill(site, x, channels, number(site.graph, operand).filter(|_| is_narrow)?)?,
    });
    site.replace(node, op, inputs)
}

/// Returns a constant that broadcasts along axis 1 of a tensor with `rank` axes as a vector.
fn per_channel(constant: &Tensor, rank: usize, channels: i64) -> Option<Tensor> {
    let missing = rank.checked_sub(constant.shape.len())?;
    let size = |axis: usize| axis.checked_sub(missing).map_or(1, |axis| constant.shape[axis]);
    let count = usize::try_from(channels).ok()?;
    let fits = (0..rank).all(|axis| size(axis) == if axis == 1 { count } else { 1 });
    fits.then(|| Tensor { shape: vec![count], ..constant.clone() })
}

/// Adds a constant of `count` equal numbers, of the type of `like`.
fn fill(site: &mut Site<'_>, like: ValueId, count: i64, number: f64) -> Option<ValueId> {
    let dtype = unrounded(site.graph, like)?.dtype;
    let count = usize::try_from(count).ok()?;
    if !site.graph.budget.take(Limit::ListElements, count) {
        return None;
    }
    let numbers = Tensor::from_numbers(dtype, vec![count], &vec![number; count]).ok()?;
    Some(site.graph.constant("channels", numbers))
}
