//! The gradients of `Einsum`, which are expressed by `Einsum`.

use super::{
    Einsum,
    equation::{Label, Labels},
};
use crate::{
    diag::Result,
    ir::{Expr, Gradient},
};
use std::collections::{BTreeMap, btree_map::Entry};

/// Assigns a letter to each label, so that the equations of gradients need no ellipses; `None` if
/// there are more than 52 labels.
fn letters(labels: &Labels) -> Option<BTreeMap<Label, char>> {
    let all: Vec<Label> = labels.terms.iter().flatten().chain(&labels.output).copied().collect();
    let mut letters = BTreeMap::new();
    let mut free = ('a'..='z').chain('A'..='Z');
    for label in all {
        if let Entry::Vacant(entry) = letters.entry(label) {
            entry.insert(free.next()?);
        }
    }
    Some(letters)
}

/// Sets the gradients of all operands: `dy` times the other operands, summed along the axes that
/// the operand lacks.
pub fn set_gradients(g: &mut Gradient<'_>, labels: &Labels) -> Result {
    let (Some(dy), Some(letters)) = (g.dy(0), letters(labels)) else {
        return Err(g.unsupported("for more than 52 labels"));
    };
    let text = |term: &[Label]| term.iter().map(|label| letters[label]).collect::<String>();
    for (i, term) in labels.terms.iter().enumerate() {
        if !g.wants(i) {
            continue;
        }
        let others = (0..labels.terms.len()).filter(|&j| j != i);
        let mut inputs = vec![dy];
        inputs.extend(others.clone().map(|j| g.x(j)));
        let known: Vec<&[Label]> = std::iter::once(labels.output.as_slice())
            .chain(others.map(|j| labels.terms[j].as_slice()))
            .collect();
        let is_new = |at: usize| !term[..at].contains(&term[at]);
        let is_known =
            |at: usize| is_new(at) && known.iter().any(|other| other.contains(&term[at]));
        let kept: Vec<Label> =
            (0..term.len()).filter(|&at| is_known(at)).map(|at| term[at]).collect();
        let left: Vec<String> = known.iter().map(|term| text(term)).collect();
        let equation = format!("{}->{}", left.join(","), text(&kept));
        let sum = inputs[0].apply(Einsum { equation }, &inputs[1..]);
        let missing: Vec<i64> =
            (0..term.len()).filter(|&at| !is_known(at)).map(|at| at as i64).collect();
        let sum = if missing.is_empty() { sum } else { sum.unsqueeze(g.tape().ints(&missing)) };
        let x = g.x(i);
        // A repeated label reads a diagonal, so the gradient is zero outside of it.
        let repeated = (0..term.len()).filter(|&at| !is_new(at));
        let dx = repeated.fold(sum, |sum, at| {
            let first = term.iter().position(|label| *label == term[at]).unwrap_or(at);
            sum * x.diagonal(first, at)
        });
        g.set(i, dx);
    }
    Ok(())
}

impl<'t> Expr<'t> {
    /// 1 where the indices along axes `a` and `b` are equal, and 0 elsewhere.
    fn diagonal(self, a: usize, b: usize) -> Expr<'t> {
        let along = |axis: usize| {
            let others: Vec<i64> =
                (0..self.rank()).filter(|&other| other != axis).map(|other| other as i64).collect();
            self.indices(axis).unsqueeze(self.tape.ints(&others))
        };
        along(a).equal(along(b)).cast_like(self)
    }
}
