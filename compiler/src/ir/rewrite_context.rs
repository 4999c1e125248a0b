//! What a rule of a pass is given.

use super::{Graph, NewNode, Node, Op, RegionId, ValueId};
use crate::{dim::Dim, ty::Type};
use std::rc::Rc;

/// What replaces the outputs of a node, in the graph that is written.
pub type Outputs = Vec<Option<ValueId>>;

/// Where a rule writes, and what it may ask.
pub struct Site<'a> {
    /// The graph that is written.
    pub graph: &'a mut Graph,
    /// The region at whose end nodes are added.
    pub region: RegionId,
    /// How often each input's value is used in the graph that is read.
    pub(super) uses: &'a [usize],
    /// The names of the outputs.
    pub(super) names: &'a [Option<String>],
}

impl Site<'_> {
    /// How often the value of input `i` is used, by this node and by others.
    pub fn uses(&self, i: usize) -> usize {
        self.uses.get(i).copied().unwrap_or(0)
    }

    /// The node that makes `value` in this very region.
    pub fn producer(&self, value: ValueId) -> Option<&Node> {
        let id = self.graph[value].producer?;
        // A region's nodes are in the order in which they were added, so in that of their ids.
        let here = self.graph[self.region].nodes.binary_search(&id);
        here.is_ok().then(|| &self.graph[id])
    }

    /// Adds `op` on these inputs, for what is to stand in place of `node`; it has one output.
    pub fn before(
        &mut self,
        node: &Node,
        op: Rc<dyn Op>,
        inputs: Vec<Option<ValueId>>,
    ) -> Option<ValueId> {
        let outputs = [Some(self.names.iter().flatten().next()?.clone())];
        let new = NewNode { name: &node.name, op, inputs, outputs: &outputs, regions: Vec::new() };
        let (id, result) = self.graph.node(self.region, new);
        result.ok()?;
        self.graph[id].outputs[0]
    }

    /// Adds `op`, which has so many outputs, likewise.
    pub fn several_before<const N: usize>(
        &mut self,
        node: &Node,
        op: Rc<dyn Op>,
        inputs: Vec<Option<ValueId>>,
    ) -> Option<[ValueId; N]> {
        let name = self.names.iter().flatten().next()?;
        let outputs: Vec<_> = (0..N).map(|i| Some(format!("{name} {i}"))).collect();
        let new = NewNode { name: &node.name, op, inputs, outputs: &outputs, regions: Vec::new() };
        let (id, result) = self.graph.node(self.region, new);
        result.ok()?;
        let made: Vec<ValueId> = self.graph[id].outputs.iter().copied().collect::<Option<_>>()?;
        made.try_into().ok()
    }

    /// The names of the outputs of the node that is to be replaced.
    pub fn names(&self) -> &[Option<String>] {
        self.names
    }

    /// Adds `op` on these inputs in place of `node`.
    pub fn replace(
        &mut self,
        node: &Node,
        op: Rc<dyn Op>,
        inputs: Vec<Option<ValueId>>,
    ) -> Option<Outputs> {
        let (name, outputs) = (node.name.as_str(), self.names);
        let new = NewNode { name, op, inputs, outputs, regions: Vec::new() };
        let (id, result) = self.graph.node(self.region, new);
        result.ok()?;
        Some(self.graph[id].outputs.clone())
    }
}

/// Whether outputs have the shapes of these types, as far as both are known. Arithmetic of which a
/// rule knows the operators alone may stretch its result: `Mul(x, c)` has the axes of `c`, too.
pub(super) fn have_shapes(
    graph: &Graph,
    outputs: &[Option<ValueId>],
    types: &[Option<&Type>],
) -> bool {
    let differ =
        |(a, b): (&Dim, &Dim)| matches!((a.known(), b.known()), (Some(a), Some(b)) if a != b);
    outputs.iter().zip(types).all(|(output, ty)| {
        let found = output.and_then(|id| graph[id].ty.as_tensor());
        let (Some(found), Some(wanted)) = (found, ty.and_then(Type::as_tensor)) else {
            return true;
        };
        found.rank() == wanted.rank() && !found.shape.iter().zip(&wanted.shape).any(differ)
    })
}
