//! Recognizes groups of nodes that exporters write for one operator, and replaces each by that
//! operator, which has a kernel.
//!
//! A group of `Gelu` is replaced even if something else uses a value inside of it; that value is
//! then computed twice. Other groups stay if something else uses an operand of their last node,
//! such as the weights of an attention. Results do not change, NaN included (`∞ · 0`), with two
//! exceptions: `Attention` returns zeros for a query that may attend to no key, where `Softmax`
//! returns NaN; the specification of `Attention` makes the same change. And where a model replaces
//! weights that are NaN by zeros, for those queries, scores that are NaN make the result NaN.

mod activation;
mod activation_grad;
mod attention;
mod attention_layout;
mod factors;
mod gate;
mod gelu;
mod group;
mod matching;
mod normalization;
mod patches;
mod pointwise;
mod roll;

pub use gelu::recognize_gelu;
pub use matching::{either, mean_of_pixels};
pub use normalization::{
    recognize_bias, recognize_normalization, recognize_scale, recognize_shifted,
};

use crate::{
    diag::Diagnostics,
    ir::{Graph, Rule, apply},
};

/// The rules, in the order in which they are tried.
const RULES: &[Rule<'_>] = &[
    &gate::recognize_gate,
    &recognize_gelu,
    &activation_grad::recognize_gelu_grad,
    &activation_grad::recognize_gelu_tanh_grad,
    &activation_grad::recognize_softmax_grad,
    &recognize_normalization,
    &recognize_shifted,
    &recognize_scale,
    &recognize_bias,
    &group::recognize_group,
    &group::recognize_group_scale,
    &group::recognize_group_bias,
    &activation::recognize_leaky_relu,
    &activation::recognize_hard_swish,
    &activation::recognize_mish,
    &attention::recognize_attention,
    &attention::remove_head_transposes,
    &attention_layout::remove_transposes,
    &patches::recognize_patches,
    &pointwise::recognize_pointwise,
    &roll::recognize_roll,
];

/// Runs the pass.
pub fn run(graph: Graph) -> Result<Graph, Diagnostics> {
    apply(graph, RULES)?.without_dead_nodes()
}
