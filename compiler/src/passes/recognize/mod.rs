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
mod matching;

pub use gelu::recognize_gelu;
pub use matching::either;

use crate::{
    diag::Diagnostics,
    ir::{Graph, Rule, copy_node, rewrite},
};

/// The rules, in the order in which they are tried.
const RULES: &[Rule<'_>] = &[
    &gate::recognize_gate,
    &recognize_gelu,
    &activation_grad::recognize_gelu_grad,
    &activation_grad::recognize_gelu_tanh_grad,
    &activation_grad::recognize_softmax_grad,
    &attention::recognize_attention,
    &attention::remove_head_transposes,
];

/// Runs the pass.
pub fn run(graph: &Graph) -> Result<Graph, Diagnostics> {
    let recognized = rewrite(graph, &copy_node, RULES)?;
    // The second rewrite drops the nodes of the recognized groups.
    rewrite(&recognized, &copy_node, &[])
}
