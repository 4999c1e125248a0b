//! Shared memory: outputs that are views of inputs, and inputs that are computed inside of an
//! output.

use super::{Graph, Node, RegionId, ValueId};
use crate::{
    arena::Map,
    dim::{Dim, Symbol},
    dtype::DType,
    ty::{TensorType, axis_from_front},
};

/// The values that are views of others.
#[derive(Default)]
pub(super) struct Homes {
    /// The value that contains each view, and the offset of the view.
    holder: Map<ValueId, (ValueId, Dim)>,
}

/// The context in which an operator reports shared memory.
pub struct Views<'a> {
    graph: &'a Graph,
    node: &'a Node,
    homes: &'a mut Homes,
    /// The region in which each value is defined.
    made_in: &'a Map<ValueId, RegionId>,
    region: RegionId,
}

impl Homes {
    pub(super) fn of(graph: &Graph) -> Homes {
        let mut homes = Homes::default();
        let mut made_in = Map::default();
        homes.region(graph, graph.body, &mut made_in);
        homes
    }

    fn region(&mut self, graph: &Graph, region: RegionId, made_in: &mut Map<ValueId, RegionId>) {
        for &id in &graph[region].nodes {
            let node = &graph[id];
            for &inner in &node.regions {
                self.region(graph, inner, made_in);
            }
            for &output in node.outputs.iter().flatten() {
                made_in.insert(output, region);
            }
            node.op.views(&mut Views { graph, node, homes: self, made_in, region });
        }
    }

    /// Returns the value whose memory contains `value`, and the offset in it.
    pub(super) fn find(&self, mut value: ValueId) -> (ValueId, Dim) {
        let mut start = Dim::from(0);
        while let Some((holder, offset)) = self.holder.get(value) {
            (value, start) = (*holder, start + offset);
        }
        (value, start)
    }
}

/// Returns the value whose memory contains `value`, and the offset in it.
pub fn home(graph: &Graph, value: ValueId) -> (ValueId, Dim) {
    Homes::of(graph).find(value)
}

impl<'a> Views<'a> {
    /// Returns the node.
    pub fn node(&self) -> &'a Node {
        self.node
    }

    /// Returns the tensor type of input `i`, if it is known.
    pub fn ty(&self, i: usize) -> Option<&'a TensorType> {
        self.graph[self.node.input(i)?].ty.as_tensor()
    }

    /// Returns the tensor type of output `i`, if it is known.
    pub fn output_ty(&self, i: usize) -> Option<&'a TensorType> {
        self.graph[self.node.output(i)?].ty.as_tensor()
    }

    /// Returns the elements of output `i`, if they are known as size expressions.
    pub fn known_output(&self, i: usize) -> Option<&'a [Dim]> {
        self.graph[self.node.output(i)?].known.as_deref()
    }

    /// Returns the elements of input `i`, if they are known as size expressions.
    pub fn known(&self, i: usize) -> Option<&'a [Dim]> {
        self.graph[self.node.input(i)?].known.as_deref()
    }

    /// Returns the axis counted from the front; inference has checked that it is one of `rank`.
    pub fn axis(&self, axis: i64, rank: usize) -> usize {
        axis_from_front(axis, rank)
    }

    /// Returns the number of inputs.
    pub fn inputs(&self) -> usize {
        self.node.inputs.len()
    }

    /// Returns the number of outputs.
    pub fn outputs(&self) -> usize {
        self.node.outputs.len()
    }

    /// Returns the elements of input `i`, if they are known integers.
    pub fn ints(&self, i: usize) -> Option<Vec<i64>> {
        self.graph[self.node.input(i)?].ints()
    }

    /// Makes output `i` a view of input `j`, from element `start` on.
    pub fn view(&mut self, i: usize, j: usize, start: Dim) {
        if let (Some(output), Some(input)) = (self.node.output(i), self.node.input(j)) {
            self.homes.holder.insert(output, (input, start));
        }
    }

    /// Allows input `j` to be computed inside of output `i`, from element `start` on. It is, if a
    /// node of the same region computes it and no other value contains it.
    pub fn within(&mut self, j: usize, i: usize, start: Dim) {
        if let (Some(input), Some(output)) = (self.node.input(j), self.node.output(i)) {
            self.place(input, output, start, self.region);
        }
    }

    /// Places input `j` of region `r` in the memory of output `i`.
    pub fn region_input_is_output(&mut self, r: usize, j: usize, i: usize) {
        let input = self.graph[self.node.regions[r]].inputs.get(j).copied();
        if let (Some(input), Some(output)) = (input, self.node.output(i)) {
            self.homes.holder.insert(input, (output, 0.into()));
        }
    }

    /// Makes input `j` of region `r` a view of input `i`, from element `start` on.
    pub fn region_input_is_part(&mut self, r: usize, j: usize, i: usize, start: Dim) {
        let input = self.graph[self.node.regions[r]].inputs.get(j).copied();
        if let (Some(input), Some(given)) = (input, self.node.input(i)) {
            self.homes.holder.insert(input, (given, start));
        }
    }

    /// Returns the symbols that the node defines.
    pub fn binds(&self) -> &'a [Symbol] {
        &self.node.binds
    }

    /// Allows result `j` of region `r` to be computed inside of output `i`.
    pub fn result_within(&mut self, r: usize, j: usize, i: usize) {
        let region = self.node.regions[r];
        let result = self.graph[region].outputs.get(j).copied();
        if let (Some(result), Some(output)) = (result, self.node.output(i)) {
            self.place(result, output, 0.into(), region);
        }
    }

    fn place(&mut self, value: ValueId, holder: ValueId, start: Dim, region: RegionId) {
        let ty = |id: ValueId| self.graph[id].ty.as_tensor();
        let fixed = |id: ValueId| {
            ty(id).is_some_and(|ty| ty.len().known().is_some() && ty.dtype != DType::String)
        };
        let free = self.graph[value].constant.is_none() && !self.homes.holder.contains(value);
        let here = self.made_in.get(value) == Some(&region);
        // A symbol may be defined only after the value is computed.
        let settled = start.known().is_some();
        if free && here && settled && fixed(value) && fixed(holder) {
            self.homes.holder.insert(value, (holder, start));
        }
    }

    /// Returns whether the value that contains input `j` has the number of elements of the output.
    pub fn same_len(&self, i: usize, j: usize) -> bool {
        match (self.output_ty(i), self.ty(j)) {
            (Some(output), Some(input)) => output.len() == input.len(),
            _ => false,
        }
    }
}
