//! Fuses activations, additions and per-channel scales into the epilogues of convolutions and
//! matrix products, the KV cache into `Attention`, and `Transpose` into the operands of products.
//!
//! A product absorbs the node after it only if nothing else uses the value between them, neither a
//! node nor the caller.

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
use onnxc_runtime::kernels::epilogue::Activation;
use std::rc::Rc;

/// The rules, in the order in which they are tried.
const RULES: &[Rule] = &[affine::fold_affine, fuse_gate, fuse_activation, fuse_add];

/// Runs the pass.
pub fn run(graph: &Graph) -> Result<Graph, Diagnostics> {
    let fused = rewrite(graph, cache::fuse_cache, RULES)?;
    // The second rewrite also drops the nodes that the first one fused.
    rewrite(&fused, keep, &[transpose::fuse_transpose])
}

/// The hook that copies every node.
pub fn keep(_: &mut Rewrite<'_>, _: NodeId, _: &[Todo], _: RegionId, _: &[ValueId]) -> Next {
    Next::Copy
}

/// The outputs that replace those of a node.
pub type Replaced = Option<Vec<Option<ValueId>>>;

/// Returns a convolution or matrix product with an activation in its epilogue, if it has none yet.
fn with_activation(op: &dyn Op, activation: Activation) -> Option<Rc<dyn Op>> {
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

/// Returns the producer of input `i`, if the input has `uses` uses, all of them by `node`, and an
/// element type that [`rounds_alike`].
fn fusible_product<'s>(site: &'s Site<'_>, node: &Node, i: usize, uses: usize) -> Option<&'s Node> {
    let value = node.input(i)?;
    let is_fusible = rounds_alike(site.graph, value) && site.uses(i) == uses;
    is_fusible.then(|| site.producer(value)).flatten()
}

/// Whether a fused kernel rounds as two kernels do. 16-bit results are rounded between two kernels,
/// but not within one.
fn rounds_alike(graph: &Graph, value: ValueId) -> bool {
    tensor(graph, value).is_some_and(|ty| matches!(ty.dtype, DType::F32 | DType::F64))
}

/// Returns the type of a value that is a tensor.
pub fn tensor(graph: &Graph, value: ValueId) -> Option<&TensorType> {
    graph[value].ty.as_tensor()
}

/// Fuses an activation into the product before it.
fn fuse_activation(site: &mut Site<'_>, node: &Node) -> Replaced {
    let f = function::activation_of(site.graph, node)?;
    let product = fusible_product(site, node, 0, 1)?;
    let (op, inputs) = (with_activation(&*product.op, f)?, product.inputs.clone());
    site.replace(node, op, inputs)
}

/// Replaces `x · f(x)` by one activation, and fuses it into the product that computes `x`.
fn fuse_gate(site: &mut Site<'_>, node: &Node) -> Replaced {
    if !is(node, &MUL) {
        return None;
    }
    let ways = [(0, 1), (1, 0)].into_iter();
    let (i, f) = ways.into_iter().find_map(|(i, j)| {
        let gate = site.producer(node.input(j)?)?;
        let same = gate.input(0) == node.input(i) && gate.input(0).is_some();
        let f = function::gate(function::activation_of(site.graph, gate)?)?;
        (same && site.uses(j) == 1).then_some((i, f))
    })?;
    if !rounds_alike(site.graph, node.input(i)?) {
        return None;
    }
    if let Some(product) = fusible_product(site, node, i, 2)
        && let Some(op) = with_activation(&*product.op, f)
    {
        let inputs = product.inputs.clone();
        return site.replace(node, op, inputs);
    }
    let op = Rc::new(activation::Activation::of(f)?);
    site.replace(node, op, vec![node.input(i)])
}

/// Fuses the addition of a bias or a residual into the product before it.
fn fuse_add(site: &mut Site<'_>, node: &Node) -> Replaced {
    if !is(node, &ADD) {
        return None;
    }
    let (op, inputs) = [(0, 1), (1, 0)].into_iter().find_map(|(i, j)| {
        let product = fusible_product(site, node, i, 1)?;
        let op = with_activation(&*product.op, Activation::Identity)?;
        let (result, bias) = (node.input(i)?, node.input(j)?);
        let (result, ty) = (tensor(site.graph, result)?, tensor(site.graph, bias)?);
        let mut inputs = product.inputs.clone();
        let is_conv = op.is::<Conv>() || op.is::<ConvTranspose>();
        let (index, fits) = if is_conv { (3, result == ty) } else { (2, broadcasts(ty, result)) };
        if !fits || product.input(index).is_some() {
            return None;
        }
        inputs.resize(index, None);
        inputs.push(Some(bias));
        let op = match op.downcast::<Gemm>() {
            Some(gemm) => Rc::new(Gemm { beta: 1.0, ..gemm.clone() }),
            None => op,
        };
        takes_bias(site.graph, product).then_some((op, inputs))
    })?;
    site.replace(node, op, inputs)
}

/// Whether the kernel of a product takes a bias; that of a matrix–vector product does not.
fn takes_bias(graph: &Graph, product: &Node) -> bool {
    let rank =
        |i: usize| product.input(i).and_then(|id| tensor(graph, id)).map_or(0, TensorType::rank);
    !product.op.is::<MatMul>() || rank(0) >= 2 && rank(1) >= 2
}

/// Whether `bias` broadcasts to the shape of `result`.
fn broadcasts(bias: &TensorType, result: &TensorType) -> bool {
    let Some(missing) = result.rank().checked_sub(bias.rank()) else { return false };
    let sizes = bias.shape.iter().zip(&result.shape[missing..]);
    bias.dtype == result.dtype && sizes.into_iter().all(|(a, b)| a == b || a.known() == Some(1))
}

/// Whether a node is the binary operator `row`.
pub fn is(node: &Node, row: &'static Binary) -> bool {
    node.op.downcast::<&'static Binary>().is_some_and(|op| std::ptr::eq(*op, row))
}
