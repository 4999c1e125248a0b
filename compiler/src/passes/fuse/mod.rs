//! Fuses activations, additions and per-channel scales into the epilogues of convolutions and
//! matrix products, the KV cache into `Attention`, and `Transpose` into the operands of products.
//!
//! A product absorbs the node after it only if nothing else uses the value between them, neither a
//! node nor the caller.

pub mod affine;
mod cache;
pub mod function;
mod product;
mod reshape;
mod transpose;
mod upsample;

pub use product::{Replaced, is, tensor};

use crate::{
    diag::Diagnostics,
    ir::{Graph, Node, Rule, Site, apply, rewritten},
    ops::{
        activation,
        binary::{ADD, MUL},
        blockwise::MatMulBlocks,
        conv::{Conv, transpose::ConvTranspose},
        matmul::Gemm,
    },
    ty::TensorType,
};
use onnxc_runtime::kernels::epilogue::Activation;
use product::{fusible_product, rounds_alike, takes_bias, with_activation};
use std::rc::Rc;

/// The rules, in the order in which they are tried.
const RULES: &[Rule<'_>] = &[&affine::fold_affine, &fuse_gate, &fuse_activation, &fuse_add];

/// Runs the pass.
pub fn run(graph: Graph) -> Result<Graph, Diagnostics> {
    let moves: &[Rule<'_>] =
        &[&affine::fold_affine, &reshape::move_reshape, &reshape::move_activation];
    let moved = apply(graph, moves)?.without_dead_nodes()?;
    let moved = apply(moved, &[&upsample::move_convolution])?.without_dead_nodes()?;
    let fused = match cache::has_cache(&moved) {
        true => rewritten(&moved, &cache::fuse_cache, RULES)?,
        false => apply(moved, RULES)?,
    };
    // The second rewrite also drops the nodes that the first one fused.
    Ok(fused.then(&[&transpose::fuse_transpose])?.graph)
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
        let dtype = tensor(site.graph, node.input(i)?)?.dtype;
        let f = function::gate(function::activation_of(site.graph, gate)?, dtype)?;
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
        let (index, fits) = if is_conv {
            (3, result == ty)
        } else if op.is::<MatMulBlocks>() {
            (4, is_row(ty, result))
        } else {
            (2, broadcasts(ty, result))
        };
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

/// Returns whether `bias` is a vector that is added to each row of `result`.
fn is_row(bias: &TensorType, result: &TensorType) -> bool {
    bias.dtype == result.dtype && bias.rank() == 1 && bias.shape.last() == result.shape.last()
}

/// Returns whether `bias` broadcasts to the shape of `result`.
fn broadcasts(bias: &TensorType, result: &TensorType) -> bool {
    let Some(missing) = result.rank().checked_sub(bias.rank()) else { return false };
    let sizes = bias.shape.iter().zip(&result.shape[missing..]);
    bias.dtype == result.dtype && sizes.into_iter().all(|(a, b)| a == b || a.known() == Some(1))
}
