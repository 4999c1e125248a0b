//! Recognizes groups of nodes that exporters write for one operator, and replaces each by that
//! operator, which has a kernel.
//!
//! A group is replaced even if something else uses a value inside of it; that value is then
//! computed twice. Results do not change, NaN included (`∞ · 0`). There are two exceptions.
//! Attention weights that something else uses are not computed twice: such a group stays. And
//! `Attention` returns zeros for a query that may attend to no key, where `Softmax` returns NaN;
//! the specification of `Attention` makes the same change.

mod activation_grad;
mod attention;
mod gate;
mod gelu;

pub use gelu::recognize_gelu;

use super::fuse::{is, keep};
use crate::{
    diag::Diagnostics,
    dtype::DType,
    ir::{Graph, Node, Rule, Site, ValueId, rewrite},
    ops::binary::Binary,
    ty::TensorType,
};

/// The rules, in the order in which they are tried.
const RULES: &[Rule] = &[
    gate::recognize_gate,
    recognize_gelu,
    activation_grad::recognize_gelu_grad,
    activation_grad::recognize_gelu_tanh_grad,
    activation_grad::recognize_softmax_grad,
    attention::recognize_attention,
    attention::remove_head_transposes,
];

/// Runs the pass.
pub fn run(graph: &Graph) -> Result<Graph, Diagnostics> {
    let recognized = rewrite(graph, keep, RULES)?;
    // The second rewrite drops the nodes of the recognized groups.
    rewrite(&recognized, keep, &[])
}

/// Returns the type of an `f32` or `f64` tensor. Values of 16-bit types are rounded between the
/// nodes of a group, but not within a kernel.
fn unrounded(graph: &Graph, value: ValueId) -> Option<&TensorType> {
    let ty = graph[value].ty.as_tensor()?;
    matches!(ty.dtype, DType::F32 | DType::F64).then_some(ty)
}

/// Returns the only element of a constant.
fn number(graph: &Graph, value: ValueId) -> Option<f64> {
    let constant = graph[value].constant.as_ref()?;
    let &[number] = constant.floats()?.as_slice() else { return None };
    Some(number)
}

/// Whether two numbers agree to the precision of `f32`.
fn is_about(number: f64, expected: f64) -> bool {
    (number - expected).abs() <= 1e-6 * expected.abs()
}

/// Returns the operands of the node that computes `value`, if it is the operator `row`.
fn operands(site: &Site<'_>, value: ValueId, row: &'static Binary) -> Option<[ValueId; 2]> {
    operands_of(site.producer(value)?, row)
}

/// Returns the operands of a node, if it is the operator `row`.
fn operands_of(node: &Node, row: &'static Binary) -> Option<[ValueId; 2]> {
    if is(node, row) { Some([node.input(0)?, node.input(1)?]) } else { None }
}

/// Calls `f` with two operands of a commutative operator in both orders, until it returns `Some`.
pub fn either<T>([a, b]: [ValueId; 2], f: impl Fn(ValueId, ValueId) -> Option<T>) -> Option<T> {
    f(a, b).or_else(|| f(b, a))
}
