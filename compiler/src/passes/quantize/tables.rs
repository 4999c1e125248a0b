//! Lookup tables for functions of the elements of one quantized tensor.

use super::{
    Replaced,
    operand::{Operand, Target},
};
use crate::{
    dtype::DType,
    ir::{Graph, NewNode, Node, Op, Site, ValueId},
    ops::{
        activation::{Activation, Clip},
        binary::Binary,
        compare::{Compare, Where},
        quantize::{DequantizeLinear, Granularity, QuantizeLinear},
        quantized::{requantize::limits, table::QuantizedTable},
        reshape::{Flatten, Reshape, Squeeze, Unsqueeze},
        unary::{IsInf, IsNaN, Unary},
    },
    passes::fold,
    tensor::Tensor,
};
use std::{collections::HashMap, rc::Rc};

/// Replaces functions of the elements of one dequantized tensor, such as `x · Sigmoid(x)`, by a
/// lookup table.
pub fn tabulate(site: &mut Site<'_>, node: &Node) -> Replaced {
    let quantized = node.input(0)?;
    // A view of the function's values becomes one of the table's bytes.
    let view = site.producer(quantized).filter(|made| is_view(&*made.op)).cloned();
    let value = view.as_ref().map_or(Some(quantized), |view| view.input(0))?;
    let mut function = Function { x: None, left: MAX_NODES };
    function.trace(site, value)?;
    let x = function.x?;
    let shape = |value: ValueId| Some(&site.graph[value].ty.as_tensor()?.shape);
    if shape(x)? != shape(value)? {
        return None;
    }
    let mut alone = Graph::new(Rc::default());
    let bytes = alone.constant("bytes", all_bytes(site.graph[x].ty.as_tensor()?.dtype));
    let mut copies = HashMap::from([(x, bytes)]);
    let entries = copy_value(&mut alone, site, value, &mut copies)?;
    copies.insert(quantized, entries);
    let result = copy_node(&mut alone, site, node, &mut copies)?;
    let table = Tensor { shape: vec![256], ..fold::evaluate(alone, vec![result])?.pop()? };
    let table = site.graph.constant(&format!("{}_table", node.name), table);
    let (op, inputs) = (Rc::new(QuantizedTable), vec![Some(x), Some(table)]);
    let Some(view) = view else { return site.replace(node, op, inputs) };
    let mut inputs_of_view = view.inputs.clone();
    inputs_of_view[0] = Some(site.before(node, op, inputs)?);
    site.replace(node, view.op, inputs_of_view)
}

/// Returns whether an operator only gives its first input another shape.
pub fn is_view(op: &dyn Op) -> bool {
    op.is::<Reshape>() || op.is::<Flatten>() || op.is::<Squeeze>() || op.is::<Unsqueeze>()
}

/// The largest number of nodes of a function, where a value that is read twice counts twice.
const MAX_NODES: usize = 32;

/// A function of the elements of one tensor.
struct Function {
    /// The tensor of bytes.
    x: Option<ValueId>,
    /// The number of nodes that it may still have.
    left: usize,
}

impl Function {
    /// Traces the nodes that compute a value, back to the tensor of bytes. Returns `None` if they
    /// are no such function.
    fn trace(&mut self, site: &Site<'_>, value: ValueId) -> Option<()> {
        let is_number = |id: ValueId| {
            let constant = site.graph[id].constant.as_ref();
            constant.is_some_and(|constant| constant.shape.iter().all(|&size| size == 1))
        };
        if is_number(value) {
            return Some(());
        }
        self.left = self.left.checked_sub(1)?;
        if let Some(operand) = Operand::bytes(site, value) {
            let x = self.behind_tables(site, operand.x)?;
            return (*self.x.get_or_insert(x) == x).then_some(());
        }
        let made = site.producer(value)?;
        let (op, inputs) = (&made.op, made.inputs.iter().flatten());
        if op.is::<&'static Binary>() || op.is::<&'static Compare>() || op.is::<Where>() {
            return inputs.copied().try_for_each(|input| self.trace(site, input));
        }
        let is_function = op.is::<&'static Unary>()
            || op.is::<Activation>()
            || op.is::<Clip>()
            || op.is::<IsInf>()
            || op.is::<IsNaN>();
        if !is_function || !inputs.skip(1).all(|&input| is_number(input)) {
            return None;
        }
        self.trace(site, made.input(0)?)
    }

    /// Returns the bytes that tables map to `bytes`.
    fn behind_tables(&mut self, site: &Site<'_>, mut bytes: ValueId) -> Option<ValueId> {
        while let Some(table) = site.producer(bytes).filter(|node| node.op.is::<QuantizedTable>()) {
            self.left = self.left.checked_sub(1)?;
            bytes = table.input(0)?;
        }
        Some(bytes)
    }
}

/// Copies a value to the graph `alone`, with all that computes it; `copies` has what exists there.
fn copy_value(
    alone: &mut Graph,
    site: &Site<'_>,
    value: ValueId,
    copies: &mut HashMap<ValueId, ValueId>,
) -> Option<ValueId> {
    if let Some(&copy) = copies.get(&value) {
        return Some(copy);
    }
    let copy = match &site.graph[value].constant {
        Some(constant) => alone.constant("c", constant.clone()),
        None => copy_node(alone, site, site.producer(value)?, copies)?,
    };
    copies.insert(value, copy);
    Some(copy)
}

/// Copies a node with one output as [`copy_value`] does.
fn copy_node(
    alone: &mut Graph,
    site: &Site<'_>,
    node: &Node,
    copies: &mut HashMap<ValueId, ValueId>,
) -> Option<ValueId> {
    let mut inputs = Vec::new();
    for &input in &node.inputs {
        inputs.push(match input {
            Some(id) => Some(copy_value(alone, site, id, copies)?),
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
pub fn requantization_table(operand: &Operand, target: &Target) -> Option<Tensor> {
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
