//! Products and quotients of several nodes as lists of factors.

use crate::{
    ir::{Node, Site, ValueId},
    ops::{
        binary::{DIV, MUL},
        unary::{RECIPROCAL, Unary},
    },
    passes::fuse::is,
};
use std::ptr;

/// A factor of a product, or a divisor.
#[derive(Clone, Copy, PartialEq)]
pub struct Factor {
    pub value: ValueId,
    pub is_divisor: bool,
}

/// The number of nested products that are split into factors.
const DEPTH: usize = 3;

/// Returns the factors of the product or quotient that `node` computes, except ones; no factors if
/// it computes neither. `whole` is not split, even if it is a product.
pub fn factors_until(site: &Site<'_>, node: &Node, whole: Option<ValueId>) -> Vec<Factor> {
    let mut factors = Vec::new();
    if let Some(parts) = split(node) {
        parts.into_iter().for_each(|factor| collect(site, factor, whole, DEPTH, &mut factors));
    }
    factors
}

/// Returns the factors of a value, except ones; the value itself if no product computes it.
pub fn factors_of(site: &Site<'_>, value: ValueId) -> Vec<Factor> {
    let mut factors = Vec::new();
    collect(site, Factor { value, is_divisor: false }, None, DEPTH, &mut factors);
    factors
}

/// Removes one factor that equals `factor`; `None` if no factor does.
pub fn without(mut factors: Vec<Factor>, factor: Factor) -> Option<Vec<Factor>> {
    let at = factors.iter().position(|&f| f == factor)?;
    factors.remove(at);
    Some(factors)
}

/// Returns the operands of a product, quotient or reciprocal.
fn split(node: &Node) -> Option<Vec<Factor>> {
    let factor = |i: usize, is_divisor| Some(Factor { value: node.input(i)?, is_divisor });
    if is(node, &MUL) || is(node, &DIV) {
        return Some(vec![factor(0, false)?, factor(1, is(node, &DIV))?]);
    }
    let unary = node.op.downcast::<&'static Unary>()?;
    ptr::eq(*unary, &RECIPROCAL).then(|| Some(vec![factor(0, true)?]))?
}

/// Adds the factors of a factor.
fn collect(
    site: &Site<'_>,
    factor: Factor,
    whole: Option<ValueId>,
    depth: usize,
    factors: &mut Vec<Factor>,
) {
    if super::matching::number(site.graph, factor.value) == Some(1.0) {
        return;
    }
    let is_whole = depth == 0 || whole == Some(factor.value);
    let parts = if is_whole { None } else { site.producer(factor.value).and_then(split) };
    let Some(parts) = parts else { return factors.push(factor) };
    for Factor { value, is_divisor } in parts {
        let part = Factor { value, is_divisor: is_divisor != factor.is_divisor };
        collect(site, part, whole, depth - 1, factors);
    }
}
