//! The derivatives of `Gelu` and `Softmax`, as the gradients of the operators write them.

use super::{about, either, gelu::over_root, number, operands, operands_of, wide};
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

/// The factor of `x³` in the `Gelu` that is made of a hyperbolic tangent.
const CUBE: f64 = 0.044_715;
/// `√(2/π)`.
const ROOT: f64 = FRAC_2_SQRT_PI * FRAC_1_SQRT_2;

/// `dy · (Φ(x) + x φ(x))`, with the distribution function and the density of the normal distribution.
pub fn gelu(site: &mut Site<'_>, node: &Node) -> Replaced {
    let (dy, x) = either(operands_of(node, &MUL)?, |dy, gradient| {
        let x = either(operands(site, gradient, &ADD)?, |area, density| {
            let x = argument(site, density)?;
            distribution(site, area, x)?;
            Some(x)
        })?;
        Some((dy, x))
    })?;
    replace(site, node, [dy, x], false)
}

/// `dy · ((1 + t) + x (1 - t²) z') · 1/2`, where `t = tanh(z)` and `z = √(2/π) (x + 0.044715 x³)`.
pub fn gelu_tanh(site: &mut Site<'_>, node: &Node) -> Replaced {
    let product = scaled(site, node, 0.5)?;
    let (dy, x) = either(operands(site, product, &MUL)?, |dy, gradient| {
        let x = either(operands(site, gradient, &ADD)?, |gate, rise| {
            let gate = plus_one(site, gate)?;
            let x = bent(site, of_unary(site, gate, &TANH)?)?;
            rises(site, rise, gate, x)?;
            Some(x)
        })?;
        Some((dy, x))
    })?;
    replace(site, node, [dy, x], true)
}

/// The gradient at `x` times `dy`, where both are alike, and not rounded on the way.
fn replace(site: &mut Site<'_>, node: &Node, [dy, x]: [ValueId; 2], approximate: bool) -> Replaced {
    if wide(site.graph, x)? != wide(site.graph, dy)? {
        return None;
    }
    site.replace(node, Rc::new(GeluGrad { approximate }), vec![Some(dy), Some(x)])
}

/// `y · (dy - Σ y dy)`, summed along the last axis.
pub fn softmax(site: &mut Site<'_>, node: &Node) -> Replaced {
    let (y, dy) = either(operands_of(node, &MUL)?, |y, rest| {
        let [dy, sum] = operands(site, rest, &SUB)?;
        either(operands(site, summed(site, sum)?, &MUL)?, |a, b| {
            ([a, b] == [y, dy]).then_some((y, dy))
        })
    })?;
    if wide(site.graph, y)? != wide(site.graph, dy)? {
        return None;
    }
    site.replace(node, Rc::new(SoftmaxGrad), vec![Some(dy), Some(y)])
}

/// What is summed along its last axis, which stays with size 1.
fn summed(site: &Site<'_>, value: ValueId) -> Option<ValueId> {
    let node = site.producer(value)?;
    let sum = node.op.downcast::<Reduce>().filter(|sum| std::ptr::eq(sum.by, &SUM))?;
    let (x, axes) = (node.input(0)?, site.graph[node.input(1)?].ints()?);
    let last = i64::try_from(wide(site.graph, x)?.rank()).ok()? - 1;
    (sum.keepdims && (axes == [last] || axes == [-1])).then_some(x)
}

/// The `x` of `x φ(x)`.
fn argument(site: &Site<'_>, density: ValueId) -> Option<ValueId> {
    let bell = times(site, density, 0.5 * ROOT)?;
    either(operands(site, bell, &MUL)?, |x, power| {
        let square = times(site, of_unary(site, power, &EXP)?, 0.5)?;
        either(operands(site, square, &MUL)?, |negative, other| {
            (other == x && of_unary(site, negative, &NEG)? == x).then_some(x)
        })
    })
}

/// `Φ(x)`.
fn distribution(site: &Site<'_>, area: ValueId, x: ValueId) -> Option<()> {
    let error = plus_one(site, times(site, area, 0.5)?)?;
    over_root(site, of_unary(site, error, &ERF)?, x)
}

/// The `x` of `√(2/π) (1 + 0.044715 x²) x`.
fn bent(site: &Site<'_>, value: ValueId) -> Option<ValueId> {
    let product = times(site, value, ROOT)?;
    either(operands(site, product, &MUL)?, |sum, x| {
        (square_plus_one(site, sum, CUBE)? == x).then_some(x)
    })
}

/// `x (1 - t²) √(2/π) (1 + 3 · 0.044715 x²)`.
fn rises(site: &Site<'_>, value: ValueId, gate: ValueId, x: ValueId) -> Option<()> {
    either(operands(site, value, &MUL)?, |rest, steep| {
        let of = square_plus_one(site, times(site, steep, ROOT)?, 3.0 * CUBE)?;
        either(operands(site, rest, &MUL)?, |other, rest| {
            let square = plus_one(site, rest)?;
            let same = either(operands(site, square, &MUL)?, |negative, other| {
                Some(other == gate && of_unary(site, negative, &NEG)? == gate)
            })?;
            (same && other == x && of == x).then_some(())
        })
    })
}

/// The `x` of `c x² + 1`.
fn square_plus_one(site: &Site<'_>, value: ValueId, c: f64) -> Option<ValueId> {
    let square = times(site, plus_one(site, value)?, c)?;
    let [a, b] = operands(site, square, &MUL)?;
    (a == b).then_some(a)
}

/// What is added to one.
fn plus_one(site: &Site<'_>, value: ValueId) -> Option<ValueId> {
    either(operands(site, value, &ADD)?, |other, one| is(site, one, 1.0, other))
}

/// What is multiplied by that number.
fn times(site: &Site<'_>, value: ValueId, factor: f64) -> Option<ValueId> {
    scaled(site, site.producer(value)?, factor)
}

fn scaled(site: &Site<'_>, node: &Node, factor: f64) -> Option<ValueId> {
    either(operands_of(node, &MUL)?, |other, number| is(site, number, factor, other))
}

fn is(site: &Site<'_>, value: ValueId, wanted: f64, other: ValueId) -> Option<ValueId> {
    about(number(site.graph, value)?, wanted).then_some(other)
}

/// What that function is applied to.
fn of_unary(site: &Site<'_>, value: ValueId, row: &'static Unary) -> Option<ValueId> {
    let node = site.producer(value)?;
    let found = *node.op.downcast::<&'static Unary>()?;
    if std::ptr::eq(found, row) { node.input(0) } else { None }
}
