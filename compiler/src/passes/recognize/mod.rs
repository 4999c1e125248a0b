//! Groups of nodes by which exporters spell one operator become that operator, which has a kernel.
//!
//! What lies between is taken in even where something else uses it, too: it is then computed
//! twice, by whoever needs it still, and results are the same: NaN where infinity times zero is
//! written, too. But weights of attention that something else uses are not computed twice, and
//! attention gives zeros to a query that may attend no key, where a softmax that is written out
//! gives NaN; the specification of `Attention` made the same change.

mod activation_grad;
mod attention;
mod gate;
mod gelu;

pub use gelu::gelu;

use super::fuse::{is, keep};
use crate::{
    diag::Diagnostics,
    dtype::DType,
    ir::{Graph, Node, Rule, Site, ValueId, rewrite},
    ops::binary::Binary,
    ty::TensorType,
};

/// What is tried, in order.
const RULES: &[Rule] = &[
    gate::gate,
    gelu,
    activation_grad::gelu,
    activation_grad::gelu_tanh,
    activation_grad::softmax,
    attention::of_heads,
    attention::of_rows,
];

/// Recognizes what can be.
pub fn run(graph: &Graph) -> Result<Graph, Diagnostics> {
    let recognized = rewrite(graph, keep, RULES)?;
    // The nodes of the group are still there, but nobody needs them.
    rewrite(&recognized, keep, &[])
}

/// The type of a tensor whose elements are wide: results of 16 bits are rounded between nodes.
fn wide(graph: &Graph, value: ValueId) -> Option<&TensorType> {
    let ty = graph[value].ty.as_tensor()?;
    matches!(ty.dtype, DType::F32 | DType::F64).then_some(ty)
}

/// The one number that a value is, where it is constant.
fn number(graph: &Graph, value: ValueId) -> Option<f64> {
    let constant = graph[value].constant.as_ref()?;
    let &[number] = constant.floats()?.as_slice() else { return None };
    Some(number)
}

/// Whether a number is that one, in as many digits as `f32` has.
fn about(found: f64, wanted: f64) -> bool {
    (found - wanted).abs() <= 1e-6 * wanted.abs()
}

/// The operands of the node that makes `value`, where it is that operator.
fn operands(site: &Site<'_>, value: ValueId, row: &'static Binary) -> Option<[ValueId; 2]> {
    operands_of(site.producer(value)?, row)
}

/// The operands of a node, where it is that operator.
fn operands_of(node: &Node, row: &'static Binary) -> Option<[ValueId; 2]> {
    if is(node, row) { Some([node.input(0)?, node.input(1)?]) } else { None }
}

/// What `f` makes of two operands, in this order or in the other one.
pub fn either<T>([a, b]: [ValueId; 2], f: impl Fn(ValueId, ValueId) -> Option<T>) -> Option<T> {
    f(a, b).or_else(|| f(b, a))
}
