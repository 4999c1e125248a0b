//! Recognizes `HardSigmoid`, `HardSwish` and `Mish` in their formulas.

use super::{
    factors::{Factor, factors_until, without},
    matching::{
        are_private_but, either, is_about, number, operands, operands_of, uniform, unrounded,
    },
};
use crate::{
    dtype::DType,
    ir::{Node, Site, ValueId},
    ops::{
        activation::{self, PRelu},
        binary::{ADD, MUL},
        unary::{EXP, LOG, TANH, Unary},
    },
    passes::fuse::{Replaced, function::activation_of},
};
use onnxc_runtime::kernels::epilogue::Activation;
use std::{ptr, rc::Rc};

/// Replaces a `PRelu` whose slope is one number by a `LeakyRelu`.
pub fn recognize_leaky_relu(site: &mut Site<'_>, node: &Node) -> Replaced {
    node.op.downcast::<PRelu>()?;
    let [x, slope]: [ValueId; 2] = node.inputs()?;
    unrounded(site.graph, x)?;
    let number = uniform(site.graph, slope)?;
    let alpha = number as f32;
    let op = activation::Activation::of(Activation::LeakyRelu { alpha })?;
    (f64::from(alpha) == number).then(|| site.replace(node, Rc::new(op), vec![Some(x)]))?
}

/// Recognizes `min(max(x + 3, 0), 6) / 6`, which is `HardSigmoid`, and its product with `x`, which
/// is `HardSwish`. The factors may be in any order.
pub fn recognize_hard_swish(site: &mut Site<'_>, node: &Node) -> Replaced {
    let factors = factors_until(site, node, None);
    let (clip, x) = factors.into_iter().find_map(|f| {
        let x = match_clip(site, f.value).filter(|_| !f.is_divisor)?;
        Some((f, x))
    })?;
    // An `x` that is a product itself is one factor.
    let rest = without(factors_until(site, node, Some(x)), clip)?;
    let is_x = |f: &&Factor| f.value == x && !f.is_divisor;
    let is_sixth = |f: &&Factor| match f.is_divisor {
        true => number(site.graph, f.value) == Some(6.0),
        false => is_about(site.graph, f.value, 1.0 / 6.0),
    };
    // A sixth that is rounded to `float` has too few bits for `double`.
    unrounded(site.graph, x).filter(|ty| ty.dtype == DType::F32)?;
    let function = match (rest.len(), rest.iter().filter(is_x).count()) {
        (1, 0) => Activation::HardSigmoid { alpha: 1.0 / 6.0, beta: 0.5 },
        (2, 1) => Activation::HardSwish,
        _ => return None,
    };
    if rest.iter().filter(is_sixth).count() != 1 || !are_private_but(site, node, x) {
        return None;
    }
    let op = Rc::new(activation::Activation::of(function)?);
    site.replace(node, op, vec![Some(x)])
}

/// Returns the `x` of `min(max(x + 3, 0), 6)`.
fn match_clip(site: &Site<'_>, value: ValueId) -> Option<ValueId> {
    let clip = site.producer(value)?;
    if activation_of(site.graph, clip)? != (Activation::Clip { min: 0.0, max: 6.0 }) {
        return None;
    }
    either(operands(site, clip.input(0)?, &ADD)?, |x, three| {
        (number(site.graph, three)? == 3.0).then_some(x)
    })
}

/// Recognizes `x · tanh(ln(1 + e^x))`.
pub fn recognize_mish(site: &mut Site<'_>, node: &Node) -> Replaced {
    let x = either(operands_of(node, &MUL)?, |x, gate| {
        let gate = site.producer(gate).filter(|gate| is_function(gate, &TANH))?;
        (match_softplus(site, gate.input(0)?)? == x).then_some(x)
    })?;
    unrounded(site.graph, x).filter(|_| are_private_but(site, node, x))?;
    site.replace(node, Rc::new(activation::Activation::of(Activation::Mish)?), vec![Some(x)])
}

/// Returns the `x` of `ln(1 + e^x)`.
fn match_softplus(site: &Site<'_>, value: ValueId) -> Option<ValueId> {
    let node = site.producer(value)?;
    if activation_of(site.graph, node) == Some(Activation::Softplus) {
        return node.input(0);
    }
    let sum = if is_function(node, &LOG) { node.input(0)? } else { return None };
    either(operands(site, sum, &ADD)?, |power, one| {
        let exp = site.producer(power).filter(|exp| is_function(exp, &EXP))?;
        (number(site.graph, one)? == 1.0).then(|| exp.input(0))?
    })
}

/// Returns whether a node is the unary operator `row`.
fn is_function(node: &Node, row: &'static Unary) -> bool {
    node.op.downcast::<&'static Unary>().is_some_and(|op| ptr::eq(*op, row))
}
