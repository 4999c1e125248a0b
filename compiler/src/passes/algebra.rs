//! Arithmetic that does nothing, or more than it must. Derivatives are full of it: they start with
//! ones, which are stretched to the shapes of what is summed.

use crate::{
    dim::Dim,
    ir::{Graph, Node, Site, ValueId},
    ops::{
        binary::{ADD, Binary, DIV, MUL, SUB},
        expand::Expand,
        variadic::{SUM, Variadic},
    },
    tensor::Tensor,
};
use std::{ptr, rc::Rc};

type Outputs = Vec<Option<ValueId>>;

/// The operands of arithmetic, where there are two.
fn operands(node: &Node) -> Option<(&'static Binary, [ValueId; 2])> {
    let op: &'static Binary = node.op.downcast::<&'static Binary>()?;
    let known = [&ADD, &DIV, &MUL, &SUB].into_iter().any(|row| ptr::eq(row, op));
    known.then_some((op, node.inputs()?))
}

/// Whether `other` is stretched to the shape of `x`, so that the result has that shape.
fn fits_in(g: &Graph, other: ValueId, x: ValueId) -> bool {
    let shape = |id: ValueId| g[id].ty.as_tensor().map(|ty| ty.shape.as_slice());
    let (Some(other), Some(x)) = (shape(other), shape(x)) else { return false };
    let one = |dim: &Dim| dim.known() == Some(1);
    let pairs = other.iter().rev().zip(x.iter().rev());
    other.len() <= x.len() && pairs.into_iter().all(|(other, x)| other == x || one(other))
}

/// `x · 1` and `x / 1` are `x`.
pub fn one(site: &mut Site<'_>, node: &Node) -> Option<Outputs> {
    let (op, [a, b]) = operands(node)?;
    let g = &*site.graph;
    let is_one = |id: ValueId| uniform(g, id) == Some(1.0);
    if (ptr::eq(op, &MUL) || ptr::eq(op, &DIV)) && is_one(b) && fits_in(g, b, a) {
        return Some(vec![Some(a)]);
    }
    (ptr::eq(op, &MUL) && is_one(a) && fits_in(g, a, b)).then(|| vec![Some(b)])
}

/// A sum of two is an `Add`, which more is known of.
pub fn sum(site: &mut Site<'_>, node: &Node) -> Option<Outputs> {
    let op: &'static Variadic = node.op.downcast::<&'static Variadic>()?;
    let pair: [ValueId; 2] = node.inputs()?;
    ptr::eq(op, &SUM).then(|| site.replace(node, Rc::new(&ADD), pair.map(Some).to_vec()))?
}

/// The number that all elements of a constant are.
fn uniform(g: &Graph, id: ValueId) -> Option<f64> {
    let elements = g[id].constant.as_ref()?.floats()?;
    let (&first, rest) = elements.split_first()?;
    rest.iter().all(|element| element.to_bits() == first.to_bits()).then_some(first)
}

/// What is stretched only to be stretched again by arithmetic need not be: the result of an
/// `Expand`, and a constant that is one number again and again.
pub fn stretched(site: &mut Site<'_>, node: &Node) -> Option<Outputs> {
    let (_, pair) = operands(node)?;
    let found = [(0, 1), (1, 0)].into_iter().find_map(|(i, other)| {
        let g = &*site.graph;
        if !fits_in(g, pair[i], pair[other]) {
            return None;
        }
        let made = site.producer(pair[i]).filter(|made| made.op.is::<Expand>());
        if let Some(made) = made {
            return made.input(0).map(|source| (i, source));
        }
        let constant = g[pair[i]].constant.as_ref().filter(|tensor| tensor.len() > 1)?;
        let (dtype, number) = (constant.dtype, uniform(g, pair[i])?);
        let number = Tensor::from_number(dtype, number).ok()?;
        Some((i, site.graph.constant("constant", number)))
    });
    let (i, source) = found?;
    let mut inputs = pair.map(Some);
    inputs[i] = Some(source);
    site.replace(node, Rc::clone(&node.op), inputs.to_vec())
}
