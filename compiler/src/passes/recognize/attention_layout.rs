//! Removes the transpositions of the operands and the result of `Attention`: the kernel reads and
//! writes rows of any stride.

use super::{
    attention::{SWAP_HEADS, merged_heads, permutation},
    matching::unrounded,
};
use crate::{
    ir::{Node, Site, ValueId},
    ops::{
        attention::{
            Attention,
            strided::{HeadAxes, StridedAttention},
        },
        gather::Gather,
        reshape::Squeeze,
        slice::sliced_range,
        transpose::Transpose,
    },
};
use std::rc::Rc;

/// Replaces an `Attention` whose result is transposed to `[batch, queries, heads, size]` by one
/// that writes this layout, and that reads its operands before their transpositions.
pub fn remove_transposes(site: &mut Site<'_>, node: &Node) -> Option<Vec<Option<ValueId>>> {
    let attention = site.producer(node.input(0)?)?;
    let op = attention.op.downcast::<Attention>()?;
    let is_plain = !op.is_causal
        && op.heads == [None; 2]
        && op.left.is_none()
        && op.right.is_none()
        && op.softcap == 0.0
        && op.softmax_precision.is_none();
    let has_one_output = attention.outputs.iter().skip(1).all(Option::is_none);
    let fits = permutation(node)? == SWAP_HEADS && site.uses(0) == 1 && has_one_output;
    if !is_plain || !fits || attention.inputs.len() > 4 {
        return None;
    }
    let scale = op.scale?;
    let values = [attention.input(0)?, attention.input(1)?, attention.input(2)?];
    // These become an attention of three axes.
    if values.iter().all(|&value| merged_heads(site, value).is_some()) {
        return None;
    }
    let operands = values.map(|value| source(site, value));
    let mut inputs: Vec<_> = operands.iter().map(|&(source, _)| Some(source)).collect();
    inputs.push(attention.input(3));
    let operands = operands.map(|(_, axes)| axes);
    site.replace(node, Rc::new(StridedAttention { operands, scale }), inputs)
}

/// Returns the value that a `[batch, heads, rows, size]` is a view of, and the axes of the view.
fn source(site: &Site<'_>, value: ValueId) -> (ValueId, HeadAxes) {
    let of_packed = || {
        let (packed, axis, index) = element(site, value)?;
        let (source, mut axes) = transposed_rows(site, packed)?;
        let fixed = axes.remove(axis);
        let axes = axes.try_into().ok()?;
        Some((source, HeadAxes { axes, fixed: Some((fixed, index)) }))
    };
    let of_transposed = || {
        let (source, axes) = transposed_rows(site, value)?;
        Some((source, HeadAxes { axes: axes.try_into().ok()?, fixed: None }))
    };
    of_packed().or_else(of_transposed).unwrap_or((value, HeadAxes::IN_ORDER))
}

/// Returns the input of the `Transpose` that computes `value`, and the axes that become its axes
/// before the last, which stays.
fn transposed_rows(site: &Site<'_>, value: ValueId) -> Option<(ValueId, Vec<usize>)> {
    let node = site.producer(value)?;
    let perm = node.op.downcast::<Transpose>()?.perm.as_ref()?;
    let perm: Vec<usize> =
        perm.iter().map(|&axis| usize::try_from(axis).ok()).collect::<Option<_>>()?;
    let (last, axes) = perm.split_last()?;
    (*last == axes.len()).then(|| Some((node.input(0)?, axes.to_vec())))?
}

/// Returns the value of which `value` is the element at one index along an axis before the last,
/// with the axis and the index.
fn element(site: &Site<'_>, value: ValueId) -> Option<(ValueId, usize, i64)> {
    let node = site.producer(value)?;
    let (packed, axis, index) = if let Some(gather) = node.op.downcast::<Gather>() {
        let index = &site.graph[node.input(1)?];
        // An index without axes removes the axis.
        let is_scalar = index.ty.as_tensor()?.rank() == 0;
        let first = index.ints()?.first().copied().filter(|_| is_scalar)?;
        (node.input(0)?, gather.axis, first)
    } else {
        node.op.downcast::<Squeeze>()?;
        let slice = site.producer(node.input(0)?)?;
        let (axis, range) = sliced_range(site.graph, slice)?;
        let axes = site.graph[node.input(1)?].ints()?;
        let is_one = range.end == range.start + 1 && axes == [axis as i64];
        (slice.input(0).filter(|_| is_one)?, axis as i64, range.start)
    };
    let shape = &unrounded(site.graph, packed)?.shape;
    let axis = usize::try_from(axis.checked_rem_euclid(shape.len() as i64)?).ok()?;
    let size = shape[axis].known()?;
    let index = if index < 0 { index + size } else { index };
    let is_inside = shape.len() == 5 && axis < 4 && (0..size).contains(&index);
    is_inside.then_some((packed, axis, index))
}
