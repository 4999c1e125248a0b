//! Which values share memory: outputs that are views of inputs, and inputs that are made inside an
//! output.

use super::{Graph, Node, RegionId, ValueId};
use crate::{
    arena::Map,
    dim::{Dim, Symbol},
    dtype::DType,
    ty::{TensorType, axis_from_front},
};

/// Which values lie inside others.
#[derive(Default)]
pub(super) struct Homes {
    /// The value that holds this one, and the first element there.
    holder: Map<ValueId, (ValueId, Dim)>,
}

/// How an operator says which values share memory.
pub struct Views<'a> {
    graph: &'a Graph,
    node: &'a Node,
    homes: &'a mut Homes,
    /// The region in which each value is made.
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

    /// The value that holds `value` and lies in none itself, and the first element there.
    pub(super) fn find(&self, mut value: ValueId) -> (ValueId, Dim) {
        let mut start = Dim::from(0);
        while let Some((holder, offset)) = self.holder.get(value) {
            (value, start) = (*holder, start + offset);
        }
        (value, start)
    }
}

/// The value in whose memory `value` lies, and the first element there.
pub fn home(graph: &Graph, value: ValueId) -> (ValueId, Dim) {
    Homes::of(graph).find(value)
}

impl<'a> Views<'a> {
    /// The node.
    pub fn node(&self) -> &'a Node {
        self.node
    }

    /// The tensor type of input `i`, where it is known.
    pub fn ty(&self, i: usize) -> Option<&'a TensorType> {
        self.graph[self.node.input(i)?].ty.as_tensor()
    }

    /// The tensor type of output `i`, where it is known.
    pub fn output_ty(&self, i: usize) -> Option<&'a TensorType> {
        self.graph[self.node.output(i)?].ty.as_tensor()
    }

    /// The elements of output `i` as sizes, where they are known as such.
    pub fn known_output(&self, i: usize) -> Option<&'a [Dim]> {
        self.graph[self.node.output(i)?].known.as_deref()
    }

    /// The elements of input `i` as sizes, where they are known as such.
    pub fn known(&self, i: usize) -> Option<&'a [Dim]> {
        self.graph[self.node.input(i)?].known.as_deref()
    }

    /// The axis counted from the front, which inferring the types saw to be one of `rank`.
    pub fn axis(&self, axis: i64, rank: usize) -> usize {
        axis_from_front(axis, rank)
    }

    /// The number of inputs.
    pub fn inputs(&self) -> usize {
        self.node.inputs.len()
    }

    /// The number of outputs.
    pub fn outputs(&self) -> usize {
        self.node.outputs.len()
    }

    /// The elements of input `i`, where they are known numbers.
    pub fn ints(&self, i: usize) -> Option<Vec<i64>> {
        self.graph[self.node.input(i)?].ints()
    }

    /// Says that output `i` is the elements of input `j` from `start` on.
    pub fn view(&mut self, i: usize, j: usize, start: Dim) {
        if let (Some(output), Some(input)) = (self.node.output(i), self.node.input(j)) {
            self.homes.holder.insert(output, (input, start));
        }
    }

    /// Says that input `j` could be made inside output `i`, from `start` on. It will be, where
    /// the node before it makes it in the same region and nothing else holds it.
    pub fn within(&mut self, j: usize, i: usize, start: Dim) {
        if let (Some(input), Some(output)) = (self.node.input(j), self.node.output(i)) {
            self.place(input, output, start, self.region);
        }
    }

    /// Says that input `j` of region `r` lies where output `i` does.
    pub fn region_input_is_output(&mut self, r: usize, j: usize, i: usize) {
        let input = self.graph[self.node.regions[r]].inputs.get(j).copied();
        if let (Some(input), Some(output)) = (input, self.node.output(i)) {
            self.homes.holder.insert(input, (output, 0.into()));
        }
    }

    /// Says that input `j` of region `r` is the elements of input `i` from `start` on.
    pub fn region_input_is_part(&mut self, r: usize, j: usize, i: usize, start: Dim) {
        let input = self.graph[self.node.regions[r]].inputs.get(j).copied();
        if let (Some(input), Some(given)) = (input, self.node.input(i)) {
            self.homes.holder.insert(input, (given, start));
        }
    }

    /// The sizes that are settled when the node runs.
    pub fn binds(&self) -> &'a [Symbol] {
        &self.node.binds
    }

    /// Says that result `j` of region `r` could be made inside output `i`.
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
        // A symbol may be settled only after the value is made.
        let settled = start.known().is_some();
        if free && here && settled && fixed(value) && fixed(holder) {
            self.homes.holder.insert(value, (holder, start));
        }
    }

    /// Whether the value that the input `j` lies in may be looked at as output, by its number of
    /// elements.
    pub fn same_len(&self, i: usize, j: usize) -> bool {
        match (self.output_ty(i), self.ty(j)) {
            (Some(output), Some(input)) => output.len() == input.len(),
            _ => false,
        }
    }
}
