//! Convolutions and matrix products whose epilogue a pass changes.

use crate::{
    dtype::DType,
    ir::{Graph, Node, Op, Site, ValueId},
    ops::{
        binary::Binary,
        blockwise::MatMulBlocks,
        conv::{Conv, transpose::ConvTranspose},
        matmul::{Gemm, MatMul},
    },
    ty::TensorType,
};
use onnxc_runtime::kernels::epilogue::Activation;
use std::rc::Rc;

/// The outputs that replace those of a node.
pub type Replaced = Option<Vec<Option<ValueId>>>;

/// Returns a convolution or matrix product with an activation in its epilogue, if it has none yet.
pub fn with_activation(op: &dyn Op, activation: Activation) -> Option<Rc<dyn Op>> {
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
    if let Some(sum) = op.downcast::<MatMulBlocks>() {
        let free = sum.activation == Activation::Identity;
        return free.then(|| Rc::new(MatMulBlocks { activation, ..sum.clone() }) as _);
    }
    let sum = op.downcast::<MatMul>()?;
    let free = sum.activation == Activation::Identity;
    free.then(|| Rc::new(MatMul { activation, fused: true }) as _)
}

/// Returns the producer of input `i`, if the input has `uses` uses, all of them by `node`, and an
/// element type that [`rounds_alike`].
pub fn fusible_product<'s>(
    site: &'s Site<'_>,
    node: &Node,
    i: usize,
    uses: usize,
) -> Option<&'s Node> {
    let value = node.input(i)?;
    let is_fusible = rounds_alike(site.graph, value) && site.uses(i) == uses;
    is_fusible.then(|| site.producer(value)).flatten()
}

/// Returns whether a fused kernel rounds as two kernels do. 16-bit results are rounded between two
/// kernels, but not within one.
pub fn rounds_alike(graph: &Graph, value: ValueId) -> bool {
    tensor(graph, value).is_some_and(|ty| matches!(ty.dtype, DType::F32 | DType::F64))
}

/// Returns the type of a value that is a tensor.
pub fn tensor(graph: &Graph, value: ValueId) -> Option<&TensorType> {
    graph[value].ty.as_tensor()
}

/// Returns whether the kernel of a product takes a bias; that of a matrix–vector product does not.
pub fn takes_bias(graph: &Graph, product: &Node) -> bool {
    let rank =
        |i: usize| product.input(i).and_then(|id| tensor(graph, id)).map_or(0, TensorType::rank);
    !product.op.is::<MatMul>() || rank(0) >= 2 && rank(1) >= 2
}

/// Returns whether a node is the binary operator `row`.
pub fn is(node: &Node, row: &'static Binary) -> bool {
    node.op.downcast::<&'static Binary>().is_some_and(|op| std::ptr::eq(*op, row))
}
