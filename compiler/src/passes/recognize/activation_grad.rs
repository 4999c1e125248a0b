//! Recognizes the gradients of `Gelu` and `Softmax` in the nodes that the pass `gradient` writes.

use super::{
    gelu::match_over_root,
    matching::{either, is_about, operands, operands_of, unrounded},
};
use crate::{
    ir::{Node, Site, ValueId},
    ops::{
        activation_grad::{GeluGrad, SoftmaxGrad},
        binary::{ADD, MUL, SUB},
        reduce::{Reduce, SUM},
        unary::{ERF, EXP, NEG, TANH, Unary},
    },
    passes::fuse::Replaced,
};
use std::{
    f64::consts::{FRAC_1_SQRT_2, FRAC_2_SQRT_PI},
    rc::Rc,
};

/// The coefficient of `x³` in the tanh approximation of `Gelu`.
const CUBIC: f64 = 0.044_715;
/// `√(2/π)`.
const ROOT: f64 = FRAC_2_SQRT_PI * FRAC_1_SQRT_2;

/// Recognizes `dy · (Φ(x) + x φ(x))`, with the distribution function `Φ` and the density `φ` of the
/// normal distribution.
pub fn recognize_gelu_grad(site: &mut Site<'_>, node: &Node) -> Replaced {
    let (dy, x) = either(operands_of(node, &MUL)?, |dy, gradient| {
        let x = either(operands(site, gradient, &ADD)?, |distribution, density| {
            let x = match_density(site, density)?;
            match_distribution(site, distribution, x)?;
            Some(x)
        })?;
        Some((dy, x))
    })?;
    replace_gelu(site, node, [dy, x], false)
}

/// Recognizes `dy · ((1 + t) + x (1 - t²) z') · 1/2`, where `t = tanh(z)` and
/// `z = √(2/π) (x + 0.044715 x³)`.
pub fn recognize_gelu_tanh_grad(site: &mut Site<'_>, node: &Node) -> Replaced {
    let product = match_scaled_node(site, node, 0.5)?;
    let (dy, x) = either(operands(site, product, &MUL)?, |dy, gradient| {
        let x = either(operands(site, gradient, &ADD)?, |gate, derivative| {
            let t = match_plus_one(site, gate)?;
            let x = match_tanh_argument(site, match_unary(site, t, &TANH)?)?;
            match_tanh_derivative(site, derivative, t, x)?;
            Some(x)
        })?;
        Some((dy, x))
    })?;
    replace_gelu(site, node, [dy, x], true)
}

/// Replaces the node by `GeluGrad`, if `dy` and `x` have the same type and one that
/// [`unrounded`](super::matching::unrounded) accepts.
fn replace_gelu(
    site: &mut Site<'_>,
    node: &Node,
    [dy, x]: [ValueId; 2],
    approximate: bool,
) -> Replaced {
    if unrounded(site.graph, x)? != unrounded(site.graph, dy)? {
        return None;
    }
    site.replace(node, Rc::new(GeluGrad { approximate }), vec![Some(dy), Some(x)])
}

/// Recognizes `y · (dy - Σ y dy)`, summed along the last axis.
pub fn recognize_softmax_grad(site: &mut Site<'_>, node: &Node) -> Replaced {
    let (y, dy) = either(operands_of(node, &MUL)?, |y, rest| {
        let [dy, sum] = operands(site, rest, &SUB)?;
        either(operands(site, match_sum_of_last_axis(site, sum)?, &MUL)?, |a, b| {
            ([a, b] == [y, dy]).then_some((y, dy))
        })
    })?;
    if unrounded(site.graph, y)? != unrounded(site.graph, dy)? {
        return None;
    }
    site.replace(node, Rc::new(SoftmaxGrad), vec![Some(dy), Some(y)])
}

/// Returns the `x` of `ReduceSum(x)` along the last axis, with `keepdims`.
fn match_sum_of_last_axis(site: &Site<'_>, value: ValueId) -> Option<ValueId> {
    let node = site.producer(value)?;
    let sum = node.op.downcast::<Reduce>().filter(|sum| std::ptr::eq(sum.by, &SUM))?;
    let (x, axes) = (node.input(0)?, site.graph[node.input(1)?].ints()?);
    let last = i64::try_from(unrounded(site.graph, x)?.rank()).ok()? - 1;
    (sum.keepdims && (axes == [last] || axes == [-1])).then_some(x)
}

/// Returns the `x` of `x φ(x) = x exp(-x²/2) / √(2π)`.
fn match_density(site: &Site<'_>, value: ValueId) -> Option<ValueId> {
    let product = match_scaled(site, value, 0.5 * ROOT)?;
    either(operands(site, product, &MUL)?, |x, power| {
        let square = match_scaled(site, match_unary(site, power, &EXP)?, 0.5)?;
        either(operands(site, square, &MUL)?, |negative, other| {
            (other == x && match_unary(site, negative, &NEG)? == x).then_some(x)
        })
    })
}

/// Matches `Φ(x) = (1 + erf(x/√2)) / 2`.
fn match_distribution(site: &Site<'_>, value: ValueId, x: ValueId) -> Option<()> {
    let erf = match_plus_one(site, match_scaled(site, value, 0.5)?)?;
    match_over_root(site, match_unary(site, erf, &ERF)?, x)
}

/// Returns the `x` of `√(2/π) (1 + 0.044715 x²) x`.
fn match_tanh_argument(site: &Site<'_>, value: ValueId) -> Option<ValueId> {
    let product = match_scaled(site, value, ROOT)?;
    either(operands(site, product, &MUL)?, |sum, x| {
        (match_square_plus_one(site, sum, CUBIC)? == x).then_some(x)
    })
}

/// Matches `x (1 - t²) √(2/π) (1 + 3 · 0.044715 x²)`.
fn match_tanh_derivative(site: &Site<'_>, value: ValueId, t: ValueId, x: ValueId) -> Option<()> {
    either(operands(site, value, &MUL)?, |rest, inner| {
        let inner_x = match_square_plus_one(site, match_scaled(site, inner, ROOT)?, 3.0 * CUBIC)?;
        either(operands(site, rest, &MUL)?, |other, rest| {
            let square = match_plus_one(site, rest)?;
            let is_square = either(operands(site, square, &MUL)?, |negative, other| {
                Some(other == t && match_unary(site, negative, &NEG)? == t)
            })?;
            (is_square && other == x && inner_x == x).then_some(())
        })
    })
}

/// Returns the `x` of `c x² + 1`.
fn match_square_plus_one(site: &Site<'_>, value: ValueId, c: f64) -> Option<ValueId> {
    let square = match_scaled(site, match_plus_one(site, value)?, c)?;
    let [a, b] = operands(site, square, &MUL)?;
    (a == b).then_some(a)
}

/// Returns the `x` of `x + 1`.
fn match_plus_one(site: &Site<'_>, value: ValueId) -> Option<ValueId> {
    either(operands(site, value, &ADD)?, |x, one| is_number(site, one, 1.0).then_some(x))
}

/// Returns the `x` of `factor · x`.
fn match_scaled(site: &Site<'_>, value: ValueId, factor: f64) -> Option<ValueId> {
    match_scaled_node(site, site.producer(value)?, factor)
}

fn match_scaled_node(site: &Site<'_>, node: &Node, factor: f64) -> Option<ValueId> {
    either(operands_of(node, &MUL)?, |x, number| is_number(site, number, factor).then_some(x))
}

fn is_number(site: &Site<'_>, value: ValueId, expected: f64) -> bool {
    is_about(site.graph, value, expected)
}

/// Returns the `x` of the unary operator `row`.
fn match_unary(site: &Site<'_>, value: ValueId, row: &'static Unary) -> Option<ValueId> {
    let node = site.producer(value)?;
    let op = *node.op.downcast::<&'static Unary>()?;
    if std::ptr::eq(op, row) { node.input(0) } else { None }
}
