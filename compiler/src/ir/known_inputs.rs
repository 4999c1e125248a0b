//! The elements of inputs that inference knows.

use super::{Infer, Node, ValueId};
use crate::{dim::Dim, tensor::Tensor};
use std::ops::Range;

impl<'a> Infer<'a> {
    /// Returns input `i`, if it is a constant.
    pub fn constant(&self, i: usize) -> Option<&'a Tensor> {
        self.graph[self.value(i)?].constant.as_ref()
    }

    /// Returns the node that computes input `i`.
    pub fn producer(&self, i: usize) -> Option<&'a Node> {
        self.graph.producer(self.value(i)?)
    }

    /// Returns the elements of a value, if they are known as size expressions.
    pub fn known_elements(&self, id: ValueId) -> Option<&'a [Dim]> {
        self.graph[id].known.as_deref()
    }

    /// Returns the elements of input `i`, if they are known as size expressions.
    pub fn known(&self, i: usize) -> Option<&'a [Dim]> {
        self.graph[self.value(i)?].known.as_deref()
    }

    /// Returns the elements of input `i` as size expressions, where they are known.
    pub fn partly(&self, i: usize) -> Option<Vec<Option<Dim>>> {
        let value = &self.graph[self.value(i)?];
        let all = || Some(value.known.as_ref()?.iter().cloned().map(Some).collect());
        all().or_else(|| value.partly.clone())
    }

    /// Returns the elements of several inputs as size expressions, if all are known; the element of
    /// an input with one element is repeated, as in broadcasting.
    pub fn all_known(&self, inputs: Range<usize>) -> Option<Vec<Vec<Dim>>> {
        let known: Vec<&[Dim]> = inputs.clone().map(|i| self.known(i)).collect::<Option<_>>()?;
        // A row and a column would broadcast to a matrix.
        let mut shapes = inputs.zip(&known).filter(|(_, known)| known.len() != 1);
        let first = shapes.next().map(|(i, _)| self.shape(i).ok());
        if shapes.any(|(i, _)| Some(self.shape(i).ok()) != first) {
            return None;
        }
        let len = known.iter().map(|known| known.len()).find(|&len| len != 1).unwrap_or(1);
        let broadcast = |known: &&[Dim]| match known {
            [one] => Some(vec![one.clone(); len]),
            all => (all.len() == len).then(|| all.to_vec()),
        };
        known.iter().map(broadcast).collect()
    }

    /// Returns the elements of input `i`, if they are known integers.
    pub fn ints(&self, i: usize) -> Option<Vec<i64>> {
        self.graph[self.value(i)?].ints()
    }
}
