//! Integer forms of operators that move elements, and lookup tables for functions of one element.

use super::{
    Replaced,
    operand::{Operand, Target},
};
use crate::{
    dtype::DType,
    ir::{Graph, NewNode, Node, Op, Site, ValueId},
    ops::{
        activation::{Activation, Clip},
        concat::Concat,
        expand::{Expand, Tile},
        gather::Gather,
        pool::MaxPool,
        quantize::{DequantizeLinear, Granularity, QuantizeLinear},
        quantized::{requantize::limits, table::QuantizedTable},
        reshape::{Flatten, Reshape, Squeeze, Unsqueeze},
        slice::Slice,
        transpose::{DepthToSpace, SpaceToDepth, Transpose},
        unary::Unary,
    },
    passes::fold,
    tensor::Tensor,
};
use std::rc::Rc;

/// Returns whether the operator only selects elements of its first input, by position or by their
/// order. Dequantization preserves that order.
fn is_move(op: &dyn Op) -> bool {
    op.is::<Reshape>()
        || op.is::<Flatten>()
        || op.is::<Squeeze>()
        || op.is::<Unsqueeze>()
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

/// Replaces a chain of functions of one dequantized tensor by a lookup table.
pub fn tabulate(site: &mut Site<'_>, node: &Node) -> Replaced {
    /// The length of the longest chain.
    const MAX_CHAIN: usize = 8;
    let mut chain = vec![node.input(0)?];
    while chain.len() < MAX_CHAIN {
        let last = *chain.last()?;
        if Operand::bytes(site, last).is_some() {
            return write_table(site, node, &chain);
        }
        let made = site.producer(last)?;
        let op = &made.op;
        let is_function = op.is::<&'static Unary>() || op.is::<Activation>() || op.is::<Clip>();
        let constant = |id: &ValueId| site.graph[*id].constant.is_some();
        if !is_function || !made.inputs.iter().skip(1).flatten().all(constant) {
            return None;
        }
        chain.push(made.input(0)?);
    }
    None
}

/// Computes the table of the functions from the last of `chain`, a dequantized tensor, to `node`.
fn write_table(site: &mut Site<'_>, node: &Node, chain: &[ValueId]) -> Replaced {
    let operand = Operand::bytes(site, *chain.last()?)?;
    let mut alone = Graph::new(Rc::default());
    let bytes = alone.constant("bytes", all_bytes(operand.dtype));
    let mut value = copy_node(&mut alone, site, site.producer(*chain.last()?)?, bytes)?;
    for &link in chain.iter().rev().skip(1) {
        value = copy_node(&mut alone, site, site.producer(link)?, value)?;
    }
    let result = copy_node(&mut alone, site, node, value)?;
    let table = fold::evaluate(alone, vec![result])?.pop()?;
    let table = site.graph.constant(&format!("{}_table", node.name), table);
    site.replace(node, Rc::new(QuantizedTable), vec![Some(operand.x), Some(table)])
}

/// Copies a node to the graph `alone`, with `first` as its first input and constants as the others.
fn copy_node(alone: &mut Graph, site: &Site<'_>, node: &Node, first: ValueId) -> Option<ValueId> {
    let mut inputs = vec![Some(first)];
    for input in node.inputs.iter().skip(1) {
        inputs.push(match input {
            Some(id) => Some(alone.constant("c", site.graph[*id].constant.clone()?)),
            None => None,
        });
    }
    let outputs = &[Some("y".to_owned())];
    let new = NewNode { name: "y", op: node.op.clone(), inputs, outputs, regions: Vec::new() };
    let (id, result) = alone.node(alone.body, new);
    result.ok()?;
    alone[id].outputs[0]
}

/// Returns the 256 values of an 8-bit type in ascending order.
fn all_bytes(dtype: DType) -> Tensor {
    let (least, most) = limits(dtype);
    let bytes: Vec<u8> = (least..=most).map(|x| x as u8).collect();
    Tensor::from_raw(dtype, vec![256], bytes.into())
}

/// Returns the table that maps each value of the operand to the target's scale and zero point.
fn requantization_table(operand: &Operand, target: &Target) -> Option<Tensor> {
    let mut alone = Graph::new(Rc::default());
    let granularity = Granularity { axis: 0, block_size: 0 };
    let bytes = alone.constant("bytes", all_bytes(operand.dtype));
    let constants = |alone: &mut Graph, scale: f32, zero: i32, dtype: DType| {
        let scale = alone.constant("scale", Tensor::from_floats(&[scale]));
        let zero = Tensor::from_raw(dtype, vec![1], vec![zero as u8].into());
        [scale, alone.constant("zero", zero)]
    };
    let [scale, zero] = constants(&mut alone, operand.scale(), operand.zero(), operand.dtype);
    let body = alone.body;
    let real =
        alone.add(body, "x", DequantizeLinear { granularity, dtype: None }, &[bytes, scale, zero]);
    let [scale, zero] = constants(&mut alone, target.scale, target.zero, target.dtype);
    let op = QuantizeLinear { granularity, dtype: None, precision: None, saturate: true };
    let y = alone.add(body, "y", op, &[real.ok()?, scale, zero]).ok()?;
    let entries = fold::evaluate(alone, vec![y])?.pop()?;
    let (low, high) = target.limits;
    let capped = entries.ints()?.into_iter().map(|x| (x as i32).clamp(low, high) as u8);
    Some(Tensor::from_raw(target.dtype, vec![256], capped.collect::<Vec<u8>>().into()))
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
