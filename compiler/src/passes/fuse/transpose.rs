//! Fuses `Transpose` into matrix products: the product reads its operands in their original layout.

use super::{Replaced, tensor};
use crate::{
    dim::Dim,
    ir::{Graph, Node, Site, ValueId},
    ops::{einsum::Einsum, matmul::MatMul, transpose::Transpose},
};
use std::rc::Rc;

/// Replaces a `MatMul` of transposed operands by an `Einsum` of the operands before transposition.
pub fn fuse_transpose(site: &mut Site<'_>, node: &Node) -> Replaced {
    let pair: [ValueId; 2] = node.inputs()?;
    let product = node.op.downcast::<MatMul>()?;
    let [left, right] = pair.map(|operand| batch_axes(site.graph, operand));
    // Constant operands are packed at compile time, whatever their layout.
    let constant = pair.iter().any(|&operand| site.graph[operand].constant.is_some());
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

/// Returns the batch axes of a tensor of matrices, if an equation has enough letters for them.
fn batch_axes(graph: &Graph, operand: ValueId) -> Option<&[Dim]> {
    let [batch @ .., _, _] = tensor(graph, operand)?.shape.as_slice() else { return None };
    (batch.len() < 20).then_some(batch)
}

/// Follows transpositions back to a value in which the rows or the columns of the matrices are
/// contiguous. Returns it with the letters of its axes; `operand` itself if there is none.
fn source(site: &Site<'_>, operand: ValueId, letters: Vec<char>) -> (ValueId, Vec<char>) {
    let (mut at, mut order, mut found) = (operand, letters.clone(), None);
    while let Some((from, before)) = undo_transpose(site, at, &order) {
        let is_contiguous =
            before.last().is_some_and(|last| letters[letters.len() - 2..].contains(last));
        found = if is_contiguous { Some((from, before.clone())) } else { found };
        (at, order) = (from, before);
    }
    found.unwrap_or((operand, letters))
}

/// Returns the input of the `Transpose` that makes `value`, with the letters of its axes.
fn undo_transpose(
    site: &Site<'_>,
    value: ValueId,
    letters: &[char],
) -> Option<(ValueId, Vec<char>)> {
    let node = site.producer(value)?;
    let perm = node.op.downcast::<Transpose>()?.perm.as_ref()?;
    let mut before = letters.to_vec();
    for (&axis, &letter) in perm.iter().zip(letters) {
        *before.get_mut(usize::try_from(axis).ok()?)? = letter;
    }
    Some((node.input(0)?, before))
}
