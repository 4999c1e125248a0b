//! A product reads its factors where they stand, though their axes come in another order.

use super::{Replaced, tensor};
use crate::{
    dim::Dim,
    ir::{Graph, Node, Site, ValueId},
    ops::{einsum::Einsum, matmul::MatMul, transpose::Transpose},
};
use std::rc::Rc;

/// A product of transposed factors is an equation of those that were transposed.
pub fn product(site: &mut Site<'_>, node: &Node) -> Replaced {
    let pair: [ValueId; 2] = node.inputs()?;
    let product = node.op.downcast::<MatMul>()?;
    let [left, right] = pair.map(|factor| pile(site.graph, factor));
    // Constant factors are better packed once.
    let constant = pair.iter().any(|&factor| site.graph[factor].constant.is_some());
    if product.fused || constant || left? != right? {
        return None;
    }
    let letters: Vec<char> = ('a'..='z').take(left?.len() + 3).collect();
    let [all @ .., m, k, n] = letters.as_slice() else { return None };
    let with = |rows: &char, columns: &char| [all, &[*rows, *columns]].concat();
    let (a, from_a) = source(site, pair[0], with(m, k));
    let (b, from_b) = source(site, pair[1], with(k, n));
    if [a, b] == pair {
        return None;
    }
    let text = |letters: Vec<char>| letters.into_iter().collect::<String>();
    let equation = format!("{},{}->{}", text(from_a), text(from_b), text(with(m, n)));
    site.replace(node, Rc::new(Einsum { equation }), vec![Some(a), Some(b)])
}

/// The axes of a pile of matrices, where equations have letters for them.
fn pile(graph: &Graph, factor: ValueId) -> Option<&[Dim]> {
    let [pile @ .., _, _] = tensor(graph, factor)?.shape.as_slice() else { return None };
    (pile.len() < 20).then_some(pile)
}

/// What a factor is the transposed one of, and the letters of its axes, if rows or columns of the
/// matrices are in one piece there; else the factor itself.
fn source(site: &Site<'_>, factor: ValueId, letters: Vec<char>) -> (ValueId, Vec<char>) {
    let (mut at, mut order, mut found) = (factor, letters.clone(), None);
    while let Some((from, before)) = turned_back(site, at, &order) {
        let of_matrix =
            before.last().is_some_and(|last| letters[letters.len() - 2..].contains(last));
        found = if of_matrix { Some((from, before.clone())) } else { found };
        (at, order) = (from, before);
    }
    found.unwrap_or((factor, letters))
}

/// What a value is the transposed one of, and the letters of its axes there.
fn turned_back(site: &Site<'_>, value: ValueId, letters: &[char]) -> Option<(ValueId, Vec<char>)> {
    let node = site.producer(value)?;
    let perm = node.op.downcast::<Transpose>()?.perm.as_ref()?;
    let mut before = letters.to_vec();
    for (&axis, &letter) in perm.iter().zip(letters) {
        *before.get_mut(usize::try_from(axis).ok()?)? = letter;
    }
    Some((node.input(0)?, before))
}
