//! Conditions on the nodes of a group.

use crate::{
    dtype::DType,
    ir::{Graph, Node, Site, ValueId},
    ops::binary::Binary,
    passes::fuse::is,
    ty::TensorType,
};

/// Returns the type of an `f32` or `f64` tensor. Values of 16-bit types are rounded between the
/// nodes of a group, but not within a kernel.
pub fn unrounded(graph: &Graph, value: ValueId) -> Option<&TensorType> {
    let ty = graph[value].ty.as_tensor()?;
    matches!(ty.dtype, DType::F32 | DType::F64).then_some(ty)
}

/// Returns the only element of a constant.
pub fn number(graph: &Graph, value: ValueId) -> Option<f64> {
    let constant = graph[value].constant.as_ref()?;
    let &[number] = constant.floats()?.as_slice() else { return None };
    Some(number)
}

/// Returns whether two numbers agree to the precision of `f32`.
pub fn is_about(number: f64, expected: f64) -> bool {
    (number - expected).abs() <= 1e-6 * expected.abs()
}

/// Returns the operands of the node that computes `value`, if it is the operator `row`.
pub fn operands(site: &Site<'_>, value: ValueId, row: &'static Binary) -> Option<[ValueId; 2]> {
    operands_of(site.producer(value)?, row)
}

/// Returns the operands of a node, if it is the operator `row`.
pub fn operands_of(node: &Node, row: &'static Binary) -> Option<[ValueId; 2]> {
    if is(node, row) { Some([node.input(0)?, node.input(1)?]) } else { None }
}

/// Calls `f` with two operands of a commutative operator in both orders, until it returns `Some`.
pub fn either<T>([a, b]: [ValueId; 2], f: impl Fn(ValueId, ValueId) -> Option<T>) -> Option<T> {
    f(a, b).or_else(|| f(b, a))
}
