//! Integer forms of operators that move elements.

use super::{
    Replaced,
    operand::{Operand, Target},
    tables::{is_view, requantization_table},
};
use crate::{
    ir::{NewNode, Node, Op, Site, ValueId},
    ops::{
        concat::{Concat, Split},
        expand::{Expand, Tile},
        gather::Gather,
        pool::MaxPool,
        quantized::table::QuantizedTable,
        slice::Slice,
        transpose::{DepthToSpace, SpaceToDepth, Transpose},
    },
    tensor::Tensor,
};
use std::rc::Rc;

/// Returns whether the operator only selects elements of its first input, by position or by their
/// order. Dequantization preserves that order.
fn is_move(op: &dyn Op) -> bool {
    is_view(op)
        || op.is::<Transpose>()
        || op.is::<Slice>()
        || op.is::<Gather>()
        || op.is::<Expand>()
        || op.is::<Tile>()
        || op.is::<DepthToSpace>()
        || op.is::<SpaceToDepth>()
        || op.is::<MaxPool>()
}

/// Replaces an operator that moves elements by the same operator on integers; removes a
/// requantization to the same scale.
pub fn quantize_move(
    site: &mut Site<'_>,
    node: &Node,
    target: &Target,
    value: ValueId,
) -> Replaced {
    if let Some(operand) = Operand::bytes(site, value) {
        return target.is(&operand).then(|| vec![Some(operand.x)]);
    }
    let producer = site.producer(value)?.clone();
    if let Some(split) = producer.op.downcast::<Split>() {
        return quantize_part(site, node, target, value, split, &producer);
    }
    let has_one_output = producer.outputs.iter().skip(1).all(Option::is_none);
    if !has_one_output || !(is_move(&*producer.op) || producer.op.is::<Concat>()) {
        return None;
    }
    let operands = if producer.op.is::<Concat>() { producer.inputs.len() } else { 1 };
    let mut inputs = producer.inputs.clone();
    for (i, input) in inputs.iter_mut().enumerate().take(operands) {
        let value = (*input)?;
        let operand = Operand::bytes(site, value)?;
        *input = Some(match target.is(&operand) {
            true => operand.x,
            false => {
                let name = format!("{}_{i}", node.name);
                let table = requantization_table(&operand, target)?;
                let table = site.graph.constant(&name, table);
                add_node(site, &name, Rc::new(QuantizedTable), vec![Some(operand.x), Some(table)])?
            }
        });
    }
    site.replace(node, producer.op, inputs)
}

/// Replaces the part `value` of a `Split` by a `Slice` of the integers, if they have the scale of
/// the result.
fn quantize_part(
    site: &mut Site<'_>,
    node: &Node,
    target: &Target,
    value: ValueId,
    split: &Split,
    producer: &Node,
) -> Replaced {
    let operand = Operand::bytes(site, producer.input(0)?).filter(|operand| target.is(operand))?;
    let rank = site.graph[operand.x].ty.as_tensor()?.rank();
    let axis = usize::try_from(split.axis.checked_rem_euclid(i64::try_from(rank).ok()?)?).ok()?;
    let mut start: i64 = 0;
    for part in producer.outputs.iter() {
        let size = site.graph[(*part)?].ty.as_tensor()?.shape.get(axis)?.known()?;
        if *part == Some(value) {
            let axis = i64::try_from(axis).ok()?;
            let bounds = [("start", start), ("end", start.checked_add(size)?), ("axis", axis)];
            let inputs = bounds.map(|(name, number)| {
                let name = format!("{}_{name}", node.name);
                Some(site.graph.constant(&name, Tensor::from_ints(&[number])))
            });
            let inputs = [Some(operand.x)].into_iter().chain(inputs).collect();
            return site.replace(node, Rc::new(Slice), inputs);
        }
        start = start.checked_add(size)?;
    }
    None
}

/// Adds a node with one output of the node's name.
fn add_node(
    site: &mut Site<'_>,
    name: &str,
    op: Rc<dyn Op>,
    inputs: Vec<Option<ValueId>>,
) -> Option<ValueId> {
    let outputs = &[Some(name.to_owned())];
    let new = NewNode { name, op, inputs, outputs, regions: Vec::new() };
    let (id, result) = site.graph.node(site.region, new);
    result.ok()?;
    site.graph[id].outputs[0]
}
