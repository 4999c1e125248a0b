//! Conditions on the nodes of a group.

use crate::{
    dtype::DType,
    ir::{Graph, Node, Site, ValueId},
    ops::{
        binary::Binary,
        reduce::{MEAN, Reduce},
    },
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

/// Returns whether a constant has one element, which agrees with a number to the precision of its
/// type.
pub fn is_about(graph: &Graph, value: ValueId, expected: f64) -> bool {
    let is_double = graph[value].constant.as_ref().is_some_and(|c| c.dtype == DType::F64);
    let tolerance = if is_double { 2.0 * f64::EPSILON } else { 1e-6 };
    let is_near = |number: f64| (number - expected).abs() <= tolerance * expected.abs();
    number(graph, value).is_some_and(is_near)
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

/// Returns the `x` of `mean(x)` over all axes from one on, which stay with size 1, and that axis.
pub fn trailing_mean(site: &Site<'_>, value: ValueId) -> Option<(ValueId, usize)> {
    let node = site.producer(value)?;
    let reduce = node.op.downcast::<Reduce>()?;
    let x = node.input(0)?;
    let rank = unrounded(site.graph, x)?.rank();
    let axes = match node.input(1) {
        None => Vec::new(),
        Some(axes) => site.graph[axes].constant.as_ref()?.ints()?,
    };
    let is_mean = std::ptr::eq(reduce.by, &MEAN) && reduce.keepdims;
    if !is_mean || axes.is_empty() && reduce.noop_with_empty_axes {
        return None;
    }
    let from_start = |axis: i64| usize::try_from(if axis < 0 { axis + rank as i64 } else { axis });
    let mut axes: Vec<usize> = axes.into_iter().map(from_start).collect::<Result<_, _>>().ok()?;
    axes.sort_unstable();
    let first = axes.first().copied().unwrap_or(0);
    let is_trailing = axes.is_empty() || axes.into_iter().eq(first..rank);
    (is_trailing && first < rank).then_some((x, first))
}

/// Returns the node's reduction if it is the mean over all axes from 2 on: exporters decompose a
/// global pool to it.
pub fn mean_of_pixels<'n>(site: &Site<'_>, node: &'n Node) -> Option<&'n Reduce> {
    let reduce = node.op.downcast::<Reduce>().filter(|reduce| std::ptr::eq(reduce.by, &MEAN))?;
    let rank = i64::try_from(site.graph[node.input(0)?].ty.as_tensor()?.rank()).ok()?;
    let axes = site.graph[node.input(1)?].constant.as_ref()?.ints()?;
    let mut axes: Vec<i64> = axes.iter().map(|axis| axis.rem_euclid(rank.max(1))).collect();
    axes.sort_unstable();
    axes.into_iter().eq(2..rank).then_some(reduce)
}

/// Returns the number that all elements of a constant are.
pub fn uniform(graph: &Graph, value: ValueId) -> Option<f64> {
    let elements = graph[value].constant.as_ref()?.floats()?;
    let (&first, rest) = elements.split_first()?;
    rest.iter().all(|&element| element == first).then_some(first)
}

/// Returns whether nothing else reads an input of a node, other than `x` and constants. If
/// something does, such as a gradient, recognizing the node would compute that input twice.
pub fn are_private_but(site: &Site<'_>, node: &Node, x: ValueId) -> bool {
    (0..node.inputs.len()).all(|i| {
        let is_free = |value: ValueId| value == x || site.graph[value].constant.is_some();
        node.input(i).is_none_or(is_free) || site.uses(i) <= 1
    })
}
