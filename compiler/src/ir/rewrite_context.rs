//! The context of a rewrite rule.

use super::{Graph, NewNode, Node, Op, RegionId, UseCounts, ValueId};
use crate::{dim::Dim, ty::Type};
use std::rc::Rc;

/// The values of the new graph that replace the outputs of a node.
pub type Outputs = Vec<Option<ValueId>>;

/// The context of a rewrite rule: the new graph, and facts about the node.
pub struct Site<'a> {
    /// The graph that is written.
    pub graph: &'a mut Graph,
    /// The region to whose end nodes are added.
    pub region: RegionId,
    /// The uses of each input's value in the old graph.
    pub(super) uses: SiteUses<'a>,
    /// The names of the outputs.
    pub(super) names: &'a [Option<String>],
}

/// The uses of a node's inputs in the old graph.
#[derive(Clone, Copy, Default)]
pub(super) struct SiteUses<'a> {
    pub of: Option<&'a UseCounts>,
    pub inputs: &'a [Option<ValueId>],
}

impl Site<'_> {
    /// Returns the number of uses of the value of input `i`, by this node and by others.
    pub fn uses(&self, i: usize) -> usize {
        let id = self.uses.inputs.get(i).copied().flatten();
        id.zip(self.uses.of).map_or(0, |(id, uses)| uses.get(id))
    }

    /// Returns the node of this region that computes `value`.
    pub fn producer(&self, value: ValueId) -> Option<&Node> {
        let id = self.graph[value].producer?;
        // The nodes of a region are sorted by id, because they are added in order.
        let here = self.graph[self.region].nodes.binary_search(&id);
        here.is_ok().then(|| &self.graph[id])
    }

    /// Adds `op` on these inputs for the replacement of `node`; returns its only output.
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

    /// Adds `op` with several outputs for the replacement of `node`.
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

    /// Returns the names of the outputs of the node to replace.
    pub fn names(&self) -> &[Option<String>] {
        self.names
    }

    /// Replaces `node` by `op` on these inputs.
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

/// Returns whether outputs may replace values of these types. A rule that matches operators only
/// may broadcast its result: `Mul(x, c)` has the axes of `c`, too. A free size instead of a known
/// one was broadcast before; a size may become known.
pub(super) fn have_shapes<'t>(
    graph: &Graph,
    outputs: &[Option<ValueId>],
    types: impl Iterator<Item = Option<&'t Type>>,
) -> bool {
    let differ =
        |(found, wanted): (&Dim, &Dim)| wanted.known().is_some() && found.known() != wanted.known();
    outputs.iter().zip(types).all(|(output, ty)| {
        let found = output.and_then(|id| graph[id].ty.as_tensor());
        let (Some(found), Some(wanted)) = (found, ty.and_then(Type::as_tensor)) else {
            return true;
        };
        found.rank() == wanted.rank() && !found.shape.iter().zip(&wanted.shape).any(differ)
    })
}
