//! Activation functions that can run in the epilogue of a product.

use crate::{
    dtype::DType,
    ir::{Graph, Node, ValueId},
    ops::{
        activation::{self, Clip},
        unary::{TANH, Unary},
    },
};
use onnxc_runtime::kernels::epilogue::Activation;

/// Returns the activation function that a node applies to its first input.
pub fn activation_of(graph: &Graph, node: &Node) -> Option<Activation> {
    if let Some(op) = node.op.downcast::<activation::Activation>() {
        return op.function();
    }
    if node.op.downcast::<&'static Unary>().is_some_and(|op| std::ptr::eq(*op, &TANH)) {
        return Some(Activation::Tanh);
    }
    if !node.op.is::<Clip>() {
        return None;
    }
    let bound = |i: usize, default: f32| match node.input(i) {
        Some(id) => constant_f32(graph, id),
        None => Some(default),
    };
    let (min, max) = (bound(1, f32::NEG_INFINITY)?, bound(2, f32::INFINITY)?);
    let relu = min == 0.0 && max == f32::INFINITY;
    Some(if relu { Activation::Relu } else { Activation::Clip { min, max } })
}

/// Returns the only element of a constant, if `f32` represents it exactly.
fn constant_f32(graph: &Graph, id: ValueId) -> Option<f32> {
    let &[value] = graph[id].constant.as_ref()?.floats()?.as_slice() else { return None };
    let nearest = value as f32;
    (f64::from(nearest) == value).then_some(nearest)
}

/// Returns `x · f(x)` as an activation function of `x`, which has this element type.
pub fn gate(f: Activation, dtype: DType) -> Option<Activation> {
    // A sixth that is rounded to `float` has too few bits for `double`.
    let is_single = dtype == DType::F32;
    match f {
        Activation::Sigmoid => Some(Activation::Swish { alpha: 1.0 }),
        Activation::HardSigmoid { alpha, beta: 0.5 } if alpha == 1.0 / 6.0 && is_single => {
            Some(Activation::HardSwish)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rounded_sixth_is_one_of_floats_only() {
        let sixth = Activation::HardSigmoid { alpha: 1.0 / 6.0, beta: 0.5 };
        assert_eq!(gate(sixth, DType::F32), Some(Activation::HardSwish));
        assert_eq!(gate(sixth, DType::F64), None);
    }
}
