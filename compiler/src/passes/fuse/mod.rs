//! What follows a sum of products is done by the kernel that sums, while it has the result at
//! hand: functions, addends, and factors of channels, which go into the weights.
//!
//! `Attention` puts together the keys and values that it attends.
//!
//! A sum takes in the node behind it only where nothing else uses what lies between, be it a node
//! or the caller.

pub mod affine;
mod cache;
pub mod function;
mod transpose;

use crate::{
    diag::Diagnostics,
    dtype::DType,
    ir::{Graph, Next, Node, NodeId, Op, RegionId, Rewrite, Rule, Site, Todo, ValueId, rewrite},
    ops::{
        activation,
        binary::{ADD, Binary, MUL},
        conv::{Conv, transpose::ConvTranspose},
        matmul::{Gemm, MatMul},
    },
    ty::TensorType,
};
use onnxc_runtime::activation_fn::Activation;
use std::rc::Rc;

/// What is tried, in order.
const RULES: &[Rule] = &[affine::channels, gate, function, addend];

/// Fuses what can be.
pub fn run(graph: &Graph) -> Result<Graph, Diagnostics> {
    let fused = rewrite(graph, cache::append, RULES)?;
    // What was taken in is still there, but nobody needs it.
    rewrite(&fused, keep, &[transpose::product])
}

/// Copies every node.
pub fn keep(_: &mut Rewrite<'_>, _: NodeId, _: &[Todo], _: RegionId, _: &[ValueId]) -> Next {
    Next::Copy
}

/// The outputs of a node that stands for another.
pub type Replaced = Option<Vec<Option<ValueId>>>;

/// The operator with a function behind its sums, where it sums and nothing is behind yet.
fn then(op: &dyn Op, activation: Activation) -> Option<Rc<dyn Op>> {
    if let Some(sum) = op.downcast::<Conv>() {
        let free = sum.activation == Activation::Identity;
        return free.then(|| Rc::new(Conv { activation, fused: true, ..sum.clone() }) as _);
    }
    if let Some(sum) = op.downcast::<ConvTranspose>() {
        let free = sum.activation == Activation::Identity;
        return free
            .then(|| Rc::new(ConvTranspose { activation, fused: true, ..sum.clone() }) as _);
    }
    if let Some(sum) = op.downcast::<Gemm>() {
        let free = sum.activation == Activation::Identity;
        return free.then(|| Rc::new(Gemm { activation, ..sum.clone() }) as _);
    }
    let sum = op.downcast::<MatMul>()?;
    let free = sum.activation == Activation::Identity;
    free.then(|| Rc::new(MatMul { activation, fused: true }) as _)
}

/// The node that sums what input `i` is, where nothing but this node, with so many uses, uses it,
/// and where its elements are wide.
fn sum<'s>(site: &'s Site<'_>, node: &Node, i: usize, uses: usize) -> Option<&'s Node> {
    let value = node.input(i)?;
    let fuses = is_wide(site.graph, value) && site.uses(i) == uses;
    fuses.then(|| site.producer(value)).flatten()
}

/// Whether a kernel that goes on with the value gives what two kernels would: results of 16 bits
/// are rounded between them.
fn is_wide(graph: &Graph, value: ValueId) -> bool {
    tensor(graph, value).is_some_and(|ty| matches!(ty.dtype, DType::F32 | DType::F64))
}

/// The tensor type of a value, where it is a tensor.
pub fn tensor(graph: &Graph, value: ValueId) -> Option<&TensorType> {
    graph[value].ty.as_tensor()
}

/// `f(Σ)`.
fn function(site: &mut Site<'_>, node: &Node) -> Replaced {
    let f = function::of(site.graph, node)?;
    let sum = sum(site, node, 0, 1)?;
    let (op, inputs) = (then(&*sum.op, f)?, sum.inputs.clone());
    site.replace(node, op, inputs)
}

/// `x · f(x)` is one function, and where `x` is a sum, one that follows it.
fn gate(site: &mut Site<'_>, node: &Node) -> Replaced {
    if !is(node, &MUL) {
        return None;
    }
    let ways = [(0, 1), (1, 0)].into_iter();
    let (i, f) = ways.into_iter().find_map(|(i, j)| {
        let gate = site.producer(node.input(j)?)?;
        let same = gate.input(0) == node.input(i) && gate.input(0).is_some();
        let f = function::gated(function::of(site.graph, gate)?)?;
        (same && site.uses(j) == 1).then_some((i, f))
    })?;
    if !is_wide(site.graph, node.input(i)?) {
        return None;
    }
    if let Some(sum) = sum(site, node, i, 2)
        && let Some(op) = then(&*sum.op, f)
    {
        let inputs = sum.inputs.clone();
        return site.replace(node, op, inputs);
    }
    let op = Rc::new(activation::Activation::of(f)?);
    site.replace(node, op, vec![node.input(i)])
}

/// `Σ + c`.
fn addend(site: &mut Site<'_>, node: &Node) -> Replaced {
    if !is(node, &ADD) {
        return None;
    }
    let (op, inputs) = [(0, 1), (1, 0)].into_iter().find_map(|(i, j)| {
        let sum = sum(site, node, i, 1)?;
        let op = then(&*sum.op, Activation::Identity)?;
        let (result, addend) = (node.input(i)?, node.input(j)?);
        let (result, ty) = (tensor(site.graph, result)?, tensor(site.graph, addend)?);
        let mut inputs = sum.inputs.clone();
        let convolves = op.is::<Conv>() || op.is::<ConvTranspose>();
        let (place, fits) = if convolves { (3, result == ty) } else { (2, stretches(ty, result)) };
        if !fits || sum.input(place).is_some() {
            return None;
        }
        inputs.resize(place, None);
        inputs.push(Some(addend));
        let op = match op.downcast::<Gemm>() {
            Some(gemm) => Rc::new(Gemm { beta: 1.0, ..gemm.clone() }),
            None => op,
        };
        takes_addend(site.graph, sum).then_some((op, inputs))
    })?;
    site.replace(node, op, inputs)
}

/// Whether the sum can take an addend: a product of vectors cannot.
fn takes_addend(graph: &Graph, sum: &Node) -> bool {
    let axes = |i: usize| sum.input(i).and_then(|id| tensor(graph, id)).map_or(0, TensorType::rank);
    !sum.op.is::<MatMul>() || axes(0) >= 2 && axes(1) >= 2
}

/// Whether an addend is stretched to the result, and the result not to it.
fn stretches(addend: &TensorType, result: &TensorType) -> bool {
    let Some(missing) = result.rank().checked_sub(addend.rank()) else { return false };
    let sizes = addend.shape.iter().zip(&result.shape[missing..]);
    addend.dtype == result.dtype && sizes.into_iter().all(|(a, b)| a == b || a.known() == Some(1))
}

/// Whether a node is that operator on two operands.
pub fn is(node: &Node, row: &'static Binary) -> bool {
    node.op.downcast::<&'static Binary>().is_some_and(|op| std::ptr::eq(*op, row))
}
